/* plan.c - orders a program and finds what depends on what.
 *
 * Steps are the operators in program order. Step j depends on step i < j when
 * j reads what i wrote, writes what i read, writes what i wrote, or when both
 * touch the outside of the program and one of them changes it. An operator
 * with an effect changes it; one that waits for the outside reads it (a pull
 * from a table sees what was pushed before, and nothing that is pushed later).
 */
#include "exec/plan.h"

/* Accessors of one variable so far, while dependencies are collected. */
typedef struct access {
    int writer;          /* last step that wrote it, or -1 */
    FL_VEC(int) readers; /* since then */
} access;

typedef struct builder {
    fl_plan *plan;
    fl_map index; /* variable name -> 1 + index, as a pointer */
    access *accesses;
    int *dep_mark; /* dep_mark[i] == j: i is already a dependency of j */
    FL_VEC(int) edges_from, edges_to;
    /* Steps that change the outside, the last of each kind: steps of a kind are
       in the same part of the plan, so that any part keeps their order. */
    FL_VEC(int) effects;
    FL_VEC(int) outside_reads; /* steps that have read it since */
} builder;

static int var_index(builder *b, const fl_var *v)
{
    uintptr_t i = (uintptr_t)fl_map_find(&b->index, v->name);

    if (!i) {
        i = (uintptr_t)b->plan->n_vars + 1;
        b->plan->vars[b->plan->n_vars++] =
            (fl_plan_var){ .var = v, .place = -1, .first = -1, .last = -1 };
        fl_map_put(&b->index, v->name, (void *)i);
    }
    return (int)i - 1;
}

static size_t count_args(const fl_args *args, int n_slots)
{
    size_t n = 0;

    for (int s = 0; s < n_slots; s++)
        n += (size_t)args[s].n;
    return n;
}

static void bind_side(builder *b, const fl_args *args, int n_slots, int **len,
                      int **vars)
{
    fl_arena *arena = &b->plan->arena;
    int at = 0;

    *len = fl_arena_alloc(arena, sizeof(int) * ((size_t)n_slots + 1));
    *vars =
        fl_arena_alloc(arena, sizeof(int) * (count_args(args, n_slots) + 1));
    for (int s = 0; s < n_slots; s++) {
        (*len)[s] = args[s].n;
        for (int i = 0; i < args[s].n; i++)
            (*vars)[at++] =
                args[s].vars[i] ? var_index(b, args[s].vars[i]) : -1;
    }
}

static void add_dep(builder *b, int from, int to)
{
    if (from < 0 || from == to || b->dep_mark[from] == to)
        return;
    b->dep_mark[from] = to;
    fl_vec_push(&b->edges_from, from);
    fl_vec_push(&b->edges_to, to);
    b->plan->steps[from].n_next++;
    b->plan->steps[to].n_deps++;
}

static void note_read(builder *b, int step, int var, bool reads)
{
    fl_plan_var *v = &b->plan->vars[var];
    access *a = &b->accesses[var];

    add_dep(b, a->writer, step);
    fl_vec_push(&a->readers, step);
    if (!reads)
        return; /* needs the shape only: no reason to keep the data */
    if (a->writer < 0)
        v->read_first = true;
    v->last = step;
}

static void note_write(builder *b, int step, int var)
{
    fl_plan_var *v = &b->plan->vars[var];
    access *a = &b->accesses[var];

    add_dep(b, a->writer, step);
    for (size_t i = 0; i < a->readers.len; i++)
        add_dep(b, a->readers.data[i], step);
    a->readers.len = 0;
    a->writer = step;
    v->n_writers++;
    if (v->first < 0)
        v->first = step;
    v->last = step;
}

/* The part of a step with an effect follows from its role and from FL_OP_EACH
   (parts.c), but for a schedule's. */
static bool is_of_kind(const fl_op_node *a, const fl_op_node *b)
{
    return a->role == b->role && a->role != FL_OP_ROLE_LR &&
           (a->def->flags & FL_OP_EACH) == (b->def->flags & FL_OP_EACH);
}

static void note_effect(builder *b, int step)
{
    const fl_plan_step *steps = b->plan->steps;
    size_t i = 0;

    while (i < b->effects.len &&
           !is_of_kind(steps[b->effects.data[i]].node, steps[step].node))
        i++;
    if (i < b->effects.len)
        b->effects.data[i] = step;
    else
        fl_vec_push(&b->effects, step);
}

static void note_outside(builder *b, int step)
{
    unsigned flags = b->plan->steps[step].node->def->flags;

    /* What workers make together touches no table: the scheduler keeps its
       order (sched.c). */
    if (!(flags & (FL_OP_EFFECT | FL_OP_WAITS)) || (flags & FL_OP_ORDERED))
        return;
    for (size_t i = 0; i < b->effects.len; i++)
        add_dep(b, b->effects.data[i], step);
    if (!(flags & FL_OP_EFFECT)) {
        fl_vec_push(&b->outside_reads, step);
        return;
    }
    for (size_t i = 0; i < b->outside_reads.len; i++)
        add_dep(b, b->outside_reads.data[i], step);
    b->outside_reads.len = 0;
    note_effect(b, step);
}

static void note_step(builder *b, int step)
{
    fl_plan_step *s = &b->plan->steps[step];
    int at = 0;

    for (int slot = 0; slot < s->n_in; slot++)
        for (int i = 0; i < s->in_len[slot]; i++, at++)
            if (s->in[at] >= 0)
                note_read(b, step, s->in[at], fl_node_reads(s->node, slot));
    at = 0;
    for (int slot = 0; slot < s->n_out; slot++)
        for (int i = 0; i < s->out_len[slot]; i++, at++)
            if (s->out[at] >= 0)
                note_write(b, step, s->out[at]);
    note_outside(b, step);
}

/* Updates, schedules, and what gives gradients to somebody else. */
static bool is_training(const fl_op_node *n)
{
    const unsigned gives = FL_OP_EFFECT | FL_OP_TRAIN_ONLY;

    return n->role == FL_OP_ROLE_OPTIMIZE || n->role == FL_OP_ROLE_LR ||
           (n->def->flags & gives) == gives;
}

static void make_steps(builder *b)
{
    const fl_block *block = fl_program_main(b->plan->program);
    int i = 0;

    for (const fl_op_node *n = block->first; n; n = n->next, i++) {
        fl_plan_step *s = &b->plan->steps[i];

        s->node = n;
        s->run = b->plan->device->find(n->def, n->is_grad);
        FL_ASSERT(s->run);
        s->n_in = fl_node_n_in(n);
        s->n_out = fl_node_n_out(n);
        bind_side(b, n->in, s->n_in, &s->in_len, &s->in);
        bind_side(b, n->out, s->n_out, &s->out_len, &s->out);
        b->plan->trains |= is_training(n);
        b->plan->waits |= (n->def->flags & FL_OP_WAITS) != 0;
    }
}

static void keep_edges(builder *b)
{
    fl_plan *p = b->plan;

    for (int i = 0; i < p->n_steps; i++) {
        p->steps[i].next = fl_arena_alloc(
            &p->arena, sizeof(int) * ((size_t)p->steps[i].n_next + 1));
        p->steps[i].n_next = 0;
    }
    for (size_t k = 0; k < b->edges_from.len; k++) {
        fl_plan_step *s = &p->steps[b->edges_from.data[k]];

        s->next[s->n_next++] = b->edges_to.data[k];
    }
}

/* before[j]: the steps that are done before j starts in any schedule. Replicas
   run all steps of a part before those of the next one, whatever stood where in
   the program. */
static uint64_t *all_before(const builder *b, size_t words)
{
    const fl_plan *p = b->plan;
    uint64_t *before = fl_alloc((size_t)p->n_steps * words * sizeof(uint64_t) +
                                sizeof(uint64_t));

    for (int i = 0; i < p->n_steps; i++)
        for (int k = 0; k < p->steps[i].n_next; k++) {
            int j = p->steps[i].next[k];
            uint64_t *to = before + (size_t)j * words;

            if (p->steps[i].part > p->steps[j].part)
                continue;
            to[i / 64] |= 1ull << (i % 64);
            for (size_t w = 0; w < words; w++)
                to[w] |= before[(size_t)i * words + w];
        }
    return before;
}

static fl_status find_home(fl_plan_var *v, const fl_map *fed)
{
    if (fl_map_find(fed, v->var->name)) {
        v->home = FL_HOME_FEED;
    } else if (v->var->flags & FL_VAR_PERSIST) {
        v->home = FL_HOME_SCOPE;
    } else if (v->var->flags & FL_VAR_DATA) {
        FL_FAIL(FL_ERR_INVAL,
                "variable %s is needed but not fed; feed it or leave out "
                "what reads it",
                v->var->name);
    } else {
        v->home = FL_HOME_PLACE;
    }
    if (v->home == FL_HOME_FEED && v->n_writers)
        FL_FAIL(FL_ERR_INVAL,
                "variable %s is fed, but the program writes "
                "it",
                v->var->name);
    return FL_OK;
}

static fl_status find_homes(fl_plan *p, const fl_map *fed)
{
    for (int i = 0; i < p->n_vars; i++) {
        fl_plan_var *v = &p->vars[i];

        v->fetched = fl_program_is_fetched(p->program, v->var->name);
        FL_TRY(fl_err_at_var(find_home(v, fed), v->var->tag, v->var->name));
    }
    return FL_OK;
}

/* Several operators may give a variable several shapes, but no parameter. */
static bool is_fixed(const fl_plan_var *v)
{
    const fl_tensor *meta = &v->var->meta;

    return meta->kind == FL_KIND_DENSE && fl_tensor_numel(meta) >= 0 &&
           (v->n_writers < 2 || (v->var->flags & FL_VAR_PARAM));
}

/* Steps whose values in the scope are as large as the run makes them. */
static void find_settling(fl_plan *p)
{
    for (int i = 0; i < p->n_vars; i++)
        p->vars[i].is_fixed = is_fixed(&p->vars[i]);
    for (int j = 0; j < p->n_steps; j++) {
        fl_plan_step *s = &p->steps[j];
        int n = 0;

        for (int slot = 0; slot < s->n_out; slot++)
            n += s->out_len[slot];
        for (int i = 0; i < n; i++)
            if (s->out[i] >= 0 && p->vars[s->out[i]].home == FL_HOME_SCOPE &&
                !p->vars[s->out[i]].is_fixed)
                s->settles = true;
    }
}

/* Gradients that operators made have the right shape; fed ones may not. */
static void find_fed_grads(fl_plan *p)
{
    for (int j = 0; j < p->n_steps; j++) {
        fl_plan_step *s = &p->steps[j];
        const fl_op *def = s->node->def;
        int first = fl_op_n_in(def) + fl_op_n_out(def);
        int at = 0;

        for (int slot = 0; slot < s->n_in; slot++)
            for (int i = 0; i < s->in_len[slot]; i++, at++)
                if (s->node->is_grad && slot >= first && s->in[at] >= 0 &&
                    p->vars[s->in[at]].home == FL_HOME_FEED)
                    s->fed_grad = true;
    }
}

static void find_arrays(fl_plan *p)
{
    p->arrays =
        fl_arena_alloc(&p->arena, sizeof(int) * ((size_t)p->n_vars + 1));
    for (int i = 0; i < p->n_vars; i++)
        if (p->vars[i].var->meta.kind == FL_KIND_ARRAY)
            p->arrays[p->n_arrays++] = i;
}

static int count_of(const int *len, int n_slots)
{
    int n = 0;

    for (int slot = 0; slot < n_slots; slot++)
        n += len[slot];
    return n;
}

static bool is_fed(const fl_plan *p, const fl_plan_step *s)
{
    int n = count_of(s->in_len, s->n_in);

    for (int i = 0; i < n; i++)
        if (s->in[i] < 0 || p->vars[s->in[i]].home != FL_HOME_FEED)
            return false;
    return n > 0;
}

/* Without a dependency nothing in front of the step matters to it. */
static void find_ahead(fl_plan *p)
{
    p->ahead =
        fl_arena_alloc(&p->arena, sizeof(int) * ((size_t)p->n_steps + 1));
    for (int i = 0; i < p->n_steps; i++) {
        const fl_plan_step *s = &p->steps[i];
        unsigned flags = s->node->def->flags;

        if ((flags & FL_OP_WAITS) && !(flags & FL_OP_EFFECT) && !s->n_deps &&
            is_fed(p, s)) {
            p->ahead[p->n_ahead++] = i;
            p->steps[i].is_ahead = true;
        }
    }
}

/* A step is before all that wait for it. Where nothing is trained the caller waits
   for all of it. */
static void find_late(fl_plan *p)
{
    for (int i = p->n_steps; p->trains && i-- > 0;) {
        fl_plan_step *s = &p->steps[i];

        s->is_late = !(s->node->def->flags & (FL_OP_EFFECT | FL_OP_WAITS));
        for (int k = 0; k < s->n_next; k++)
            s->is_late &= p->steps[s->next[k]].is_late;
    }
}

/* Where these steps put what they make, for as long as the run is to come. */
static void find_places_ahead(fl_plan *p)
{
    p->is_place_ahead = fl_arena_alloc(&p->arena, (size_t)p->n_places + 1);
    for (int i = 0; i < p->n_ahead; i++) {
        const fl_plan_step *s = &p->steps[p->ahead[i]];
        int n = count_of(s->out_len, s->n_out);

        for (int k = 0; k < n; k++)
            if (s->out[k] >= 0 && p->vars[s->out[k]].place >= 0)
                p->is_place_ahead[p->vars[s->out[k]].place] = true;
    }
}

/* --- steps that stay as they are ------------------------------------------ */

/* An output with offsets borrows them from an input, where they may be others
   each time. */
static bool has_offsets(const fl_plan *p, const fl_plan_step *s)
{
    int n = count_of(s->out_len, s->n_out);

    for (int i = 0; i < n; i++)
        if (s->out[i] >= 0 && (p->vars[s->out[i]].var->meta.n_lod ||
                               p->vars[s->out[i]].var->meta.kind))
            return true;
    return false;
}

/* writers[v]: steps that write it, UNSTEADY when one of them is not steady. */
#define UNSTEADY INT32_MAX

static bool is_steady(const fl_plan *p, const fl_plan_step *s,
                      const int *writers)
{
    int n_in = count_of(s->in_len, s->n_in);
    int n_out = count_of(s->out_len, s->n_out);

    if (s->node->is_grad || !(s->node->def->flags & FL_OP_BY_FORM) ||
        has_offsets(p, s))
        return false;
    for (int i = 0; i < n_in; i++)
        if (s->in[i] >= 0 && writers[s->in[i]] > 1)
            return false;
    for (int i = 0; i < n_out; i++)
        if (s->out[i] >= 0 && (writers[s->out[i]] > 1 ||
                               p->vars[s->out[i]].home != FL_HOME_PLACE))
            return false;
    return true;
}

/* Program order, in which what is written comes before what reads it. */
static void find_steady(fl_plan *p)
{
    int *writers = fl_alloc(sizeof(int) * ((size_t)p->n_vars + 1));

    for (int k = 0; k < p->n_steps; k++)
        for (int i = 0; i < count_of(p->steps[k].out_len, p->steps[k].n_out);
             i++)
            if (p->steps[k].out[i] >= 0)
                writers[p->steps[k].out[i]]++;
    for (int k = 0; k < p->n_steps; k++) {
        fl_plan_step *s = &p->steps[k];

        s->is_steady = is_steady(p, s, writers);
        for (int i = 0; i < count_of(s->out_len, s->n_out); i++)
            if (s->out[i] >= 0 && !s->is_steady)
                writers[s->out[i]] = UNSTEADY;
    }
    fl_free(writers);
}

static void choose_places(builder *b, const fl_plan_options *o)
{
    size_t words = ((size_t)b->plan->n_steps + 63) / 64;
    uint64_t *before = b->plan->concurrent ? all_before(b, words) : NULL;

    fl_plan_places(b->plan, before, words, o->nominal_batch);
    fl_free(before);
}

static size_t count_vars(const fl_program *p)
{
    size_t n = 0;

    for (size_t i = 0; i < p->blocks.len; i++)
        for (const fl_var *v = p->blocks.data[i]->first_var; v; v = v->next)
            n++;
    return n;
}

/* Fetched variables that no operator touches (data, parameters) need a place
   in the list as well. */
static void add_fetched(builder *b)
{
    const fl_program *p = b->plan->program;

    for (size_t i = 0; i < p->fetches.len; i++)
        var_index(b, fl_block_find_var(fl_program_main(p), p->fetches.data[i]));
}

static void builder_release(builder *b, size_t n_vars)
{
    for (size_t i = 0; i < n_vars; i++)
        fl_vec_release(&b->accesses[i].readers);
    fl_free(b->accesses);
    fl_free(b->dep_mark);
    fl_vec_release(&b->edges_from);
    fl_vec_release(&b->edges_to);
    fl_vec_release(&b->effects);
    fl_vec_release(&b->outside_reads);
    fl_map_release(&b->index);
}

fl_status fl_plan_new(fl_plan **out, fl_program *program,
                      const fl_plan_options *options)
{
    fl_plan *p = fl_alloc(sizeof(*p));
    builder b = { .plan = p };
    size_t n_vars = count_vars(program);
    fl_status st;

    p->program = program;
    p->device = &fl_cpu;
    p->n_steps = (int)fl_program_main(program)->n_ops;
    fl_arena_init(&p->arena, 64 << 10);
    p->vars = fl_arena_alloc(&p->arena, sizeof(*p->vars) * (n_vars + 1));
    p->steps =
        fl_arena_alloc(&p->arena, sizeof(*p->steps) * ((size_t)p->n_steps + 1));
    b.accesses = fl_alloc(sizeof(access) * (n_vars + 1));
    b.dep_mark = fl_alloc(sizeof(int) * ((size_t)p->n_steps + 1));
    for (size_t i = 0; i < n_vars; i++)
        b.accesses[i].writer = -1;
    for (int i = 0; i < p->n_steps; i++)
        b.dep_mark[i] = -1;
    make_steps(&b);
    p->n_turns =
        p->trains && program->accumulate > 1 ? (int)program->accumulate : 1;
    /* While an operator waits, others overtake it, even on one thread; and
       with turns the update comes behind all that is computed. */
    p->concurrent = options->concurrent || p->waits || p->n_turns > 1;
    add_fetched(&b);
    for (int i = 0; i < p->n_steps; i++)
        note_step(&b, i);
    keep_edges(&b);
    st = find_homes(p, options->fed);
    if (!st) {
        find_fed_grads(p);
        find_settling(p);
        find_arrays(p);
        find_ahead(p);
        find_late(p);
        find_steady(p);
        fl_plan_parts(p);
        choose_places(&b, options);
        find_places_ahead(p);
    }
    builder_release(&b, n_vars);
    if (st) {
        fl_plan_free(p);
        return st;
    }
    *out = p;
    return FL_OK;
}

void fl_plan_free(fl_plan *p)
{
    if (!p)
        return;
    fl_program_free(p->program);
    fl_arena_release(&p->arena);
    fl_free(p);
}

int fl_plan_find(const fl_plan *p, const char *name)
{
    for (int i = 0; i < p->n_vars; i++)
        if (!strcmp(p->vars[i].var->name, name))
            return i;
    return -1;
}
