/* blocks.c - a block that an operator runs inside its step.
 *
 * The block becomes a program of its own, with a plan and a runner that the
 * step keeps; blocks in it come along. Temporaries of outer blocks that it reads
 * are fed to it, those that it writes are fetched; what lives in the scope is
 * the same for both.
 * A gradient is the same program with autodiff's operators behind it, pruned
 * to the gradients that are wanted, so nothing is changed twice.
 */
#include "exec/blocks.h"

#include "base/rng.h"
#include "ir/builder.h"
#include "pass/grad.h"

struct fl_child {
    fl_plan *plan;
    fl_runner *runner;
    fl_arena arena;
    /* Plan variables by entry; -1: none. */
    int *in, *kept, *dout, *out;
};

void fl_child_free(fl_child *k)
{
    if (!k)
        return;
    fl_runner_free(k->runner);
    fl_plan_free(k->plan);
    fl_arena_release(&k->arena);
    fl_free(k);
}

/* --- the program ---------------------------------------------------------- */

/* Names while a child is made. */
typedef struct maker {
    const fl_block_call *call;
    const fl_plan *outer; /* of the step that runs it */
    const fl_block *from; /* the block that runs */
    fl_program *program;
    fl_block *main;
    fl_map fed;
    const char **in, **kept, **dout, **out; /* NULL: none */
    fl_arena *arena;
} maker;

static const char **names(fl_arena *a, const fl_args *args)
{
    return fl_arena_alloc(a, sizeof(char *) * ((size_t)args->n + 1));
}

static bool is_written(const fl_block *b, const fl_var *v)
{
    for (const fl_op_node *n = b->first; n; n = n->next)
        if (fl_node_writes_var(n, v))
            return true;
    return false;
}

static fl_status feed(maker *m, const char *name, const fl_tensor *meta)
{
    fl_var *v;

    if (fl_block_find_var(m->main, name))
        return FL_OK;
    FL_TRY(fl_block_add_var(m->main, name, meta, FL_VAR_DATA, &v));
    fl_map_put(&m->fed, v->name, m);
    return FL_OK;
}

/* The operator that gives a variable of the block its first value. */
static fl_status begin_with(maker *m, const fl_var *v, const char *fed)
{
    fl_op_builder b = { .type = m->call->copy_op };
    fl_var *own;

    FL_TRY(fl_block_add_var(m->main, v->name, &v->meta,
                            v->flags & ~(unsigned)FL_VAR_DATA, &own));
    fl_op_builder_in_name(&b, "X", fed);
    fl_op_builder_out_name(&b, "Out", own->name);
    return fl_op_builder_put(&b, m->main, NULL, NULL);
}

/* What both find there; a value may be fed in its place. */
static bool is_in_scope(const maker *m, const fl_var *v)
{
    int i = v->flags & FL_VAR_PERSIST ? fl_plan_find(m->outer, v->name) : -1;

    return (v->flags & FL_VAR_PERSIST) &&
           (i < 0 || m->outer->vars[i].home != FL_HOME_FEED);
}

/* What the block is given and writes anew is two variables in the program: the
   one that is fed has a name of its own. */
static fl_status declare_inputs(maker *m)
{
    const fl_args *vars = m->call->in_vars;

    for (int i = 0; i < vars->n; i++) {
        const fl_var *v = vars->vars[i];
        bool is_new = !fl_block_find_var(m->main, v->name);

        m->in[i] = v->name;
        if (is_in_scope(m, v))
            continue;
        if (is_written(m->from, v))
            m->in[i] = fl_arena_printf(m->arena, "%s@OUTER", v->name);
        FL_TRY(feed(m, m->in[i], &v->meta));
        if (m->in[i] != v->name && is_new)
            FL_TRY(begin_with(m, v, m->in[i]));
    }
    return FL_OK;
}

/* Is the first that writes the variable one that may leave it as it is? */
static bool may_stay(const fl_block *b, const fl_var *v)
{
    for (const fl_op_node *n = b->first; n; n = n->next)
        for (int s = 0; s < fl_node_n_out(n); s++)
            for (int i = 0; i < n->out[s].n; i++)
                if (n->out[s].vars[i] == v)
                    return !n->is_grad &&
                           (n->def->out[s].flags & FL_OP_SLOT_STATE);
    return false;
}

/* What the block is not given and may leave as it is begins as it is outside. */
static fl_status declare_kept(maker *m)
{
    const fl_args *vars = m->call->out_vars;

    for (int i = 0; m->call->kept && i < vars->n; i++) {
        const fl_var *v = vars->vars[i];

        if (is_in_scope(m, v) || fl_block_find_var(m->main, v->name) ||
            !may_stay(m->from, v))
            continue;
        m->kept[i] = fl_arena_printf(m->arena, "%s@OUTER", v->name);
        FL_TRY(feed(m, m->kept[i], &v->meta));
        FL_TRY(begin_with(m, v, m->kept[i]));
    }
    return FL_OK;
}

static fl_status check_nodes(const fl_block *b)
{
    char text[FL_NODE_TEXT_MAX];

    for (const fl_op_node *n = b->first; n; n = n->next)
        if (n->def->flags & FL_OP_WAITS)
            FL_FAIL(FL_ERR_UNSUPPORTED,
                    "%s waits for an answer and cannot stand in block %d, "
                    "which runs inside an operator",
                    fl_node_text(n, text), b->index);
    return FL_OK;
}

static fl_status copy_forward(maker *m)
{
    FL_TRY(check_nodes(m->from));
    FL_TRY(declare_inputs(m));
    FL_TRY(declare_kept(m));
    return fl_block_copy(m->main, m->from->first);
}

static void fetch_outputs(maker *m)
{
    const fl_args *vars = m->call->out_vars;

    for (int i = 0; i < vars->n; i++) {
        const fl_var *v = vars->vars[i];

        if ((v->flags & FL_VAR_PERSIST) || !is_written(m->from, v))
            continue;
        m->out[i] = v->name;
        fl_program_fetch(m->program, v->name);
    }
}

/* --- gradients ------------------------------------------------------------ */

typedef FL_VEC(fl_var *) var_vec;

/* The outputs whose gradients came, and these as variables that are fed. */
static fl_status list_targets(maker *m, var_vec *targets, var_vec *grads)
{
    const fl_args *vars = m->call->out_vars;

    for (int i = 0; i < vars->n; i++) {
        fl_var *v = fl_block_find_var(m->main, vars->vars[i]->name);

        if (!v || i >= m->call->dout->n || !m->call->dout->t[i])
            continue;
        m->dout[i] = fl_arena_printf(m->arena, "%s@OUTER@GRAD", v->name);
        FL_TRY(feed(m, m->dout[i], &v->meta));
        fl_vec_push(targets, v);
        fl_vec_push(grads, fl_block_find_var(m->main, m->dout[i]));
    }
    return FL_OK;
}

static void list_wanted(maker *m, var_vec *wanted)
{
    for (int i = 0; i < m->call->in_vars->n; i++)
        if (i < m->call->din->n && m->call->din->t[i]) {
            fl_var *v = fl_block_find_var(m->main, m->in[i]);

            if (v)
                fl_vec_push(wanted, v);
        }
}

/* The gradient of each wanted input, by entry. */
static void name_grads(maker *m, const fl_grad_pairs *pairs)
{
    for (int i = 0; i < m->call->in_vars->n; i++)
        for (size_t k = 0; k < pairs->len; k++)
            if (i < m->call->din->n && m->call->din->t[i] &&
                pairs->data[k].grad &&
                !strcmp(pairs->data[k].param->name, m->in[i]))
                m->out[i] = pairs->data[k].grad->name;
}

static fl_status differentiate(maker *m, const var_vec *targets,
                               const var_vec *grads, const var_vec *wanted)
{
    fl_grad_pairs pairs = { 0 };
    fl_grad_spec spec = { .targets = targets->data,
                          .n_targets = targets->len,
                          .target_grads = grads->data,
                          .wanted = wanted->data,
                          .n_wanted = wanted->len,
                          .sum_op = m->call->sum_op,
                          .copy_op = m->call->copy_op };
    FL_VEC(const char *) kept = { 0 };
    fl_status st = FL_OK;

    if (targets->len && wanted->len)
        st = fl_grad_append(m->main, &spec, &pairs);
    if (!st)
        name_grads(m, &pairs);
    for (size_t k = 0; k < pairs.len && !st; k++)
        if (pairs.data[k].grad)
            fl_vec_push(&kept, pairs.data[k].grad->name);
    if (!st)
        st = fl_program_prune(m->program, kept.data, kept.len);
    fl_vec_release(&kept);
    fl_vec_release(&pairs);
    return st;
}

static fl_status append_backward(maker *m)
{
    var_vec targets = { 0 }, grads = { 0 }, wanted = { 0 };
    fl_status st = list_targets(m, &targets, &grads);

    list_wanted(m, &wanted);
    if (!st)
        st = differentiate(m, &targets, &grads, &wanted);
    fl_vec_release(&targets);
    fl_vec_release(&grads);
    fl_vec_release(&wanted);
    return st;
}

/* --- a child -------------------------------------------------------------- */

static int *find_all(fl_child *k, const char **names_, int n)
{
    int *index = fl_arena_alloc(&k->arena, sizeof(int) * ((size_t)n + 1));

    for (int i = 0; i < n; i++)
        index[i] = names_[i] ? fl_plan_find(k->plan, names_[i]) : -1;
    return index;
}

/* Feeds only: what the scope holds is taken from there. */
static void drop_kept(const fl_plan *p, int *index, int n)
{
    for (int i = 0; i < n; i++)
        if (index[i] >= 0 && p->vars[index[i]].home != FL_HOME_FEED)
            index[i] = -1;
}

static fl_status make_program(maker *m)
{
    FL_TRY(copy_forward(m));
    if (m->call->dout)
        FL_TRY(append_backward(m));
    else
        fetch_outputs(m);
    return fl_program_verify(m->program);
}

static fl_status make_plan(maker *m, fl_child *k)
{
    fl_plan_options o = { .nominal_batch = 1, .fed = &m->fed };
    fl_program *p = m->program;

    m->program = NULL;
    return fl_plan_new(&k->plan, p, &o);
}

static fl_status fill_child(maker *m, fl_child *k, fl_runner *r)
{
    const fl_block_call *call = m->call;
    int n_in = call->in_vars->n, n_out = call->out_vars->n;

    m->arena = &k->arena;
    m->in = names(m->arena, call->in_vars);
    m->kept = names(m->arena, call->out_vars);
    m->dout = names(m->arena, call->out_vars);
    m->out = names(m->arena, call->dout ? call->in_vars : call->out_vars);
    FL_TRY(make_program(m));
    FL_TRY(make_plan(m, k));
    k->in = find_all(k, m->in, n_in);
    k->kept = find_all(k, m->kept, n_out);
    k->dout = find_all(k, m->dout, n_out);
    k->out = find_all(k, m->out, call->dout ? n_in : n_out);
    drop_kept(k->plan, k->in, n_in);
    drop_kept(k->plan, k->dout, n_out);
    k->runner = fl_runner_new(k->plan, r->options, NULL, 1, r->replica);
    return FL_OK;
}

static fl_status make_child(fl_runner *r, const fl_block_call *call,
                            fl_child **out)
{
    const fl_program *outer = r->plan->program;
    fl_child *k = fl_alloc(sizeof(*k));
    maker m = { .call = call, .outer = r->plan };
    fl_status st;

    fl_arena_init(&k->arena, 4 << 10);
    m.from = outer->blocks.data[call->block];
    m.program = fl_program_of(outer->ops);
    m.program->seed = outer->seed;
    m.main = fl_program_main(m.program);
    st = fill_child(&m, k, r);
    fl_map_release(&m.fed);
    fl_program_free(m.program);
    if (st) {
        fl_child_free(k);
        return st;
    }
    *out = k;
    return FL_OK;
}

/* --- the port ------------------------------------------------------------- */

/* A value of the outer run may have another shape than was declared: that of
   one lap is not that of the next. */
static void feed_all(fl_child *k, const int *index, const fl_targs *t)
{
    for (int i = 0; t && i < t->n; i++)
        if (index[i] >= 0 && t->t[i])
            k->runner->tensors[index[i]] = *t->t[i];
    fl_runner_note_change(k->runner);
}

static fl_status run_child(fl_runner *r, fl_child *k, const fl_block_call *call)
{
    int n = call->dout ? call->in_vars->n : call->out_vars->n;

    k->runner->worker = r->worker;
    k->runner->lap = fl_mix64(r->lap) * (r->lap > 0) + call->lap;
    feed_all(k, k->in, call->in);
    feed_all(k, k->kept, call->kept);
    feed_all(k, k->dout, call->dout);
    FL_TRY(fl_runner_begin(k->runner, r->step_no, r->samples));
    FL_TRY(fl_runner_run(k->runner, FL_PART_ALL, NULL));
    for (int i = 0; i < n; i++)
        call->results[i] =
            k->out[i] >= 0 ? &k->runner->tensors[k->out[i]] : NULL;
    return FL_OK;
}

static fl_status run_block(fl_block_port *port, const fl_block_call *call)
{
    fl_step_blocks *b = (fl_step_blocks *)port;
    fl_child **k = &b->runner->steps[b->step].child;
    fl_status st = FL_OK;

    if (!*k)
        st = make_child(b->runner, call, k);
    if (!st)
        st = run_child(b->runner, *k, call);
    return fl_err_ctx(st, "block %d", call->block);
}

static fl_status place(fl_block_port *port, fl_tensor *out)
{
    fl_step_blocks *b = (fl_step_blocks *)port;

    return fl_runner_place(b->runner, (int)(out - b->runner->tensors));
}

fl_step_blocks fl_blocks_of(fl_runner *r, int step)
{
    return (fl_step_blocks){ { run_block, place }, r, step };
}
