/* executor.c - compiles programs into units and keeps them. */
#include "exec/executor.h"

#include "exec/turns.h"
#include "flotilla/words.h"
#include "ir/comm.h"

/* --- making a unit ------------------------------------------------------- */

/* `what` is a feed or a fetch that no variable is called. */
static fl_status no_variable(const fl_block *b, const char *what,
                             const char *name)
{
    FL_VEC(const char *) names = { 0 };
    const char *near;

    for (const fl_var *v = b->first_var; v; v = v->next)
        fl_vec_push(&names, v->name);
    near = fl_nearest_name(name, names.data, names.len);
    fl_vec_release(&names);
    FL_FAIL(FL_ERR_NOTFOUND, "%s %s is not in the program%s%s%s", what, name,
            near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static fl_status check_names(const fl_unit_spec *s)
{
    const fl_block *b = fl_program_main(s->program);

    for (size_t i = 0; i < s->n_feeds; i++)
        if (!fl_block_find_var(b, s->feeds[i]))
            return no_variable(b, "feed", s->feeds[i]);
    for (size_t i = 0; i < s->n_fetches; i++)
        if (!fl_block_find_var(b, s->fetches[i]))
            return no_variable(b, "fetch", s->fetches[i]);
    return FL_OK;
}

/* A gradient that the caller feeds is not computed. */
static void drop_writer(fl_program *p, const char *name)
{
    fl_block *b = fl_program_main(p);
    fl_var *v = fl_block_find_var(b, name);
    fl_op_node *next;

    for (fl_op_node *n = b->first; n; n = next) {
        next = n->next;
        if (fl_node_writes_var(n, v))
            fl_block_remove(b, n);
    }
    v->flags |= FL_VAR_DATA;
}

/* What is fed is data, however it was declared, unless an operator writes it:
   then verification says so. */
static void mark_fed(fl_program *p, const fl_unit_spec *s)
{
    for (size_t i = 0; i < s->n_feeds; i++)
        fl_block_find_var(fl_program_main(p), s->feeds[i])->flags |=
            FL_VAR_DATA;
}

fl_status fl_unit_program(const fl_unit_spec *spec, fl_program **out)
{
    fl_program *p;
    fl_status st;

    FL_TRY(check_names(spec));
    FL_TRY(fl_program_clone(spec->program, FL_CLONE_ALL, &p));
    fl_program_clear_fetches(p);
    for (size_t i = 0; i < spec->n_fetches; i++)
        fl_program_fetch(p, spec->fetches[i]);
    if (spec->fed_grad)
        drop_writer(p, spec->fed_grad);
    fl_program_drop_fed(p);
    mark_fed(p, spec);
    p->joins_parts = spec->kind == FL_UNIT_REPLICAS;
    st = fl_program_verify(p);
    if (!st)
        st = fl_passes_run(p, &spec->passes);
    if (st) {
        fl_program_free(p);
        return st;
    }
    *out = p;
    return FL_OK;
}

static const char *const *copy_names(fl_arena *a, const char *const *names,
                                     size_t n)
{
    const char **copy = fl_arena_alloc(a, sizeof(char *) * (n + 1));

    for (size_t i = 0; i < n; i++)
        copy[i] = fl_arena_strdup(a, names[i]);
    return copy;
}

static void keep_spec(fl_unit *u, const fl_unit_spec *s)
{
    u->spec = *s;
    u->spec.feeds = copy_names(&u->arena, s->feeds, s->n_feeds);
    u->spec.fetches = copy_names(&u->arena, s->fetches, s->n_fetches);
    if (s->fed_grad)
        u->spec.fed_grad = fl_arena_strdup(&u->arena, s->fed_grad);
    if (s->passes.skip)
        u->spec.passes.skip = fl_arena_strdup(&u->arena, s->passes.skip);
    u->spec.passes.precision = fl_precision_copy(&s->passes.precision);
    u->program_id = s->program->id;
    u->program_version = s->program->version;
}

static fl_status make_plan(fl_unit *u)
{
    fl_plan_options o = { .nominal_batch = u->spec.nominal_batch };
    fl_map fed = { 0 };
    fl_program *p;
    fl_status st = fl_unit_program(&u->spec, &p);

    if (st)
        return st;
    for (size_t i = 0; i < u->spec.n_feeds; i++)
        fl_map_put(&fed, u->spec.feeds[i], u);
    o.fed = &fed;
    o.concurrent = u->spec.n_threads > u->spec.n_runners ||
                   u->spec.kind == FL_UNIT_REPLICAS;
    st = fl_plan_new(&u->plan, p, &o);
    fl_map_release(&fed);
    return st ? st : fl_turns_check(u->plan);
}

/* Other frames are of use only to what can begin ahead. */
static int count_frames(const fl_unit *u)
{
    bool can = u->spec.n_ahead && u->plan->n_ahead &&
               u->plan->n_turns == 1; /* turns belong to one frame */

    return u->spec.n_runners * (can ? u->spec.n_frames : 1);
}

static fl_status make_frames(fl_unit *u, const fl_exec_options *o)
{
    int n = u->spec.n_runners, n_frames = count_frames(u);
    int each = u->spec.n_threads / n;
    int members = u->spec.n_threads > n ? u->spec.n_threads : n;

    u->runners =
        fl_arena_alloc(&u->arena, sizeof(*u->runners) * (size_t)n_frames);
    u->teams = fl_arena_alloc(&u->arena, sizeof(*u->teams) * (size_t)n);
    for (int i = 0; i < n && each > 1; i++)
        FL_TRY(fl_team_new(&u->teams[i], each, "fl-op"));
    for (; u->n_frames < n_frames; u->n_frames++) {
        int i = u->n_frames % n;
        fl_runner *r = u->n_frames < n
                           ? fl_runner_new(u->plan, o, u->teams[i], members, i)
                           : fl_runner_beside(u->runners[i]);

        if (u->spec.kind == FL_UNIT_HOGWILD)
            r->worker.thread = i;
        u->runners[u->n_frames] = r;
    }
    return FL_OK;
}

static fl_status make_runners(fl_unit *u, const fl_exec_options *o)
{
    int n = u->spec.n_runners;
    int members = u->spec.n_threads < n ? u->spec.n_threads : n;

    FL_TRY(make_frames(u, o));
    if (u->spec.kind == FL_UNIT_ALONE)
        return FL_OK;
    FL_TRY(fl_team_new(&u->team, members, "fl-run"));
    if (u->spec.kind == FL_UNIT_REPLICAS)
        FL_TRY(fl_replicas_new(&u->replicas, u->runners, n, u->team,
                               u->spec.merge, u->spec.coeff));
    return FL_OK;
}

static void find_fetch(fl_unit *u, size_t i)
{
    int at = fl_plan_find(u->plan, u->spec.fetches[i]);

    u->fetch_index[i] = at;
    u->fetch_once[i] = u->spec.kind == FL_UNIT_REPLICAS && at >= 0 &&
                       u->plan->vars[at].home == FL_HOME_PLACE &&
                       fl_plan_updates(u->plan, at);
}

static void find_indices(fl_unit *u)
{
    const fl_unit_spec *s = &u->spec;

    u->feed_index = fl_arena_alloc(&u->arena, sizeof(int) * (s->n_feeds + 1));
    u->fetch_index =
        fl_arena_alloc(&u->arena, sizeof(int) * (s->n_fetches + 1));
    u->feed_kept = fl_arena_alloc(&u->arena, sizeof(bool) * (s->n_feeds + 1));
    u->fetch_once =
        fl_arena_alloc(&u->arena, sizeof(bool) * (s->n_fetches + 1));
    for (size_t i = 0; i < s->n_feeds; i++) {
        const fl_var *v =
            fl_block_find_var(fl_program_main(s->program), s->feeds[i]);

        u->feed_index[i] = fl_plan_find(u->plan, s->feeds[i]);
        u->feed_kept[i] = v && (v->flags & FL_VAR_PERSIST);
    }
    for (size_t i = 0; i < s->n_fetches; i++)
        find_fetch(u, i);
}

static void unit_free(fl_unit *u)
{
    fl_replicas_free(u->replicas);
    for (int i = 0; i < u->n_frames; i++)
        fl_runner_free(u->runners[i]);
    for (int i = 0; u->teams && i < u->spec.n_runners; i++)
        fl_team_free(u->teams[i]);
    fl_team_free(u->team);
    fl_plan_free(u->plan);
    fl_precision_release(&u->spec.passes.precision);
    fl_arena_release(&u->arena);
    fl_free(u);
}

static fl_status unit_new(fl_executor *e, const fl_unit_spec *spec,
                          fl_unit **out)
{
    fl_unit *u = fl_alloc(sizeof(*u));
    fl_status st;

    fl_arena_init(&u->arena, 8 << 10);
    keep_spec(u, spec);
    st = make_plan(u);
    if (!st)
        st = make_runners(u, &e->options);
    if (st) {
        unit_free(u);
        return st;
    }
    find_indices(u);
    *out = u;
    return FL_OK;
}

/* --- keeping units ------------------------------------------------------- */

static bool same_names(const char *const *a, size_t n_a, const char *const *b,
                       size_t n_b)
{
    if (n_a != n_b)
        return false;
    for (size_t i = 0; i < n_a; i++)
        if (strcmp(a[i], b[i]))
            return false;
    return true;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static bool is_unit_of(const fl_unit *u, const fl_unit_spec *s)
{
    const fl_unit_spec *k = &u->spec;

    return k->program == s->program && u->program_id == s->program->id &&
           u->program_version == s->program->version && k->kind == s->kind &&
           k->n_runners == s->n_runners && k->n_threads == s->n_threads &&
           k->merge == s->merge && k->coeff == s->coeff &&
           k->n_ahead == s->n_ahead && k->n_frames == s->n_frames &&
           k->passes.optimize == s->passes.optimize &&
           same_text(k->passes.skip, s->passes.skip) &&
           fl_precision_equal(&k->passes.precision, &s->passes.precision) &&
           same_text(k->fed_grad, s->fed_grad) &&
           same_names(k->feeds, k->n_feeds, s->feeds, s->n_feeds) &&
           same_names(k->fetches, k->n_fetches, s->fetches, s->n_fetches);
}

fl_status fl_executor_unit(fl_executor *e, const fl_unit_spec *spec,
                           fl_unit **out)
{
    fl_unit **at = &e->units;
    fl_unit *u;

    while (*at && !is_unit_of(*at, spec))
        at = &(*at)->next;
    u = *at;
    if (u)
        *at = u->next;
    else
        FL_TRY(unit_new(e, spec, &u));
    u->next = e->units;
    e->units = u;
    *out = u;
    return FL_OK;
}

void fl_executor_drop_program(fl_executor *e, uint64_t program_id)
{
    for (fl_unit **at = &e->units; *at;) {
        fl_unit *u = *at;

        if (u->program_id == program_id) {
            *at = u->next;
            if (e->trained == u)
                e->trained = NULL;
            unit_free(u);
        } else {
            at = &u->next;
        }
    }
}

void fl_executor_drop_units(fl_executor *e)
{
    fl_unit *next;

    for (fl_unit *u = e->units; u; u = next) {
        next = u->next;
        unit_free(u);
    }
    e->units = e->trained = NULL;
}

/* --- running a unit ------------------------------------------------------ */

/* What is kept from run to run is kept when it is fed, too. */
static fl_status keep_feed(const fl_unit *u, int i, const fl_feed *feed)
{
    const fl_exec_options *o = u->runners[i]->options;

    return o->is_frozen ? FL_OK
                        : fl_scope_set(o->scope, feed->name, &feed->value);
}

fl_status fl_unit_feed(fl_unit *u, int i, const fl_feed *feeds)
{
    for (size_t k = 0; k < u->spec.n_feeds; k++)
        if (u->feed_kept[k])
            FL_TRY(keep_feed(u, i, &feeds[k]));
    for (size_t k = 0; k < u->spec.n_feeds; k++)
        if (u->feed_index[k] >= 0)
            FL_TRY(fl_runner_feed(u->runners[i], u->feed_index[k],
                                  &feeds[k].value));
    return FL_OK;
}

void fl_unit_fetch(const fl_unit *u, int i, fl_tensor *out)
{
    for (size_t k = 0; k < u->spec.n_fetches; k++) {
        const fl_runner *r = u->runners[u->fetch_once[k] ? 0 : i];
        const fl_tensor *t = &r->tensors[u->fetch_index[k]];

        out[k] = t->kind == FL_KIND_ARRAY ? fl_array_view(t->data) : *t;
        out[k].size = sizeof(fl_tensor);
    }
}

uint64_t fl_unit_samples(const fl_unit *u, const fl_feed *feeds)
{
    const fl_tensor *t = u->spec.n_feeds ? &feeds[0].value : NULL;
    int64_t n = 1;

    if (!t)
        return 0;
    if (t->n_lod)
        n = t->lod_len[0] - 1;
    else if (t->shape.rank)
        n = t->shape.dim[0];
    return n > 0 ? (uint64_t)n : 0;
}

/* Steps that a backend counts: the scope follows and does not go back, whoever
   of several threads is late. */
static uint64_t counted_step(fl_comm *comm, fl_scope *s)
{
    uint64_t step = comm->life->step(comm);
    uint_fast64_t seen = atomic_load(&s->step);

    while (seen < step + 1 &&
           !atomic_compare_exchange_weak(&s->step, &seen, step + 1))
        ;
    return step;
}

uint64_t fl_unit_next_step(fl_executor *e, const fl_unit *u, int i)
{
    fl_comm *comm = e->options.comm;
    fl_scope *s = e->options.scope;

    if (!u->plan->trains || !fl_turns_is_last(u->runners[i]))
        return atomic_load(&s->step);
    if (comm && comm->life->step)
        return counted_step(comm, s);
    return atomic_fetch_add(&s->step, 1);
}

fl_status fl_unit_begin(fl_executor *e, fl_unit *u, int i, uint64_t samples)
{
    return fl_runner_begin(u->runners[i], fl_unit_next_step(e, u, i), samples);
}

void fl_unit_begin_batch(const fl_executor *e, const fl_unit *u)
{
    fl_comm *comm = e->options.comm;

    if (u->plan->trains && comm && comm->life->begin_batch)
        comm->life->begin_batch(comm);
}

void fl_unit_end_batch(const fl_executor *e, const fl_unit *u)
{
    fl_comm *comm = e->options.comm;

    if (u->plan->trains && comm && comm->life->end_batch)
        comm->life->end_batch(comm);
}

void fl_unit_end_group(const fl_executor *e, const fl_unit *u)
{
    fl_comm *comm = e->options.comm;

    if (u->plan->trains && comm && comm->life->end_group)
        comm->life->end_group(comm);
}

static fl_status run_alone(fl_executor *e, fl_unit *u, const fl_feed *feeds)
{
    FL_TRY(fl_unit_feed(u, 0, feeds));
    FL_TRY(fl_unit_begin(e, u, 0, fl_unit_samples(u, feeds)));
    return fl_runner_run(u->runners[0], FL_PART_ALL, NULL);
}

fl_status fl_unit_run_alone(fl_executor *e, fl_unit *u, const fl_feed *feeds)
{
    fl_status st;

    fl_unit_offer(e, u);
    fl_unit_begin_batch(e, u);
    st = run_alone(e, u, feeds);
    fl_unit_end_batch(e, u);
    fl_unit_end_group(e, u);
    return st;
}

static fl_status run_replicas(fl_executor *e, fl_unit *u, const fl_feed *feeds)
{
    int n = u->spec.n_runners;
    uint64_t samples = 0, step;

    for (int i = 0; i < n; i++) {
        const fl_feed *mine = feeds + (size_t)i * u->spec.n_feeds;

        FL_TRY(fl_err_ctx(fl_unit_feed(u, i, mine), "replica %d", i));
        samples += fl_unit_samples(u, mine);
    }
    step = fl_unit_next_step(e, u, 0);
    for (int i = 0; i < n; i++)
        FL_TRY(fl_runner_begin(u->runners[i], step, samples));
    return fl_replicas_run(u->replicas);
}

fl_status fl_unit_run_replicas(fl_executor *e, fl_unit *u, const fl_feed *feeds)
{
    fl_status st;

    fl_unit_offer(e, u);
    fl_unit_begin_batch(e, u);
    st = run_replicas(e, u, feeds);
    fl_unit_end_batch(e, u);
    fl_unit_end_group(e, u);
    return st;
}
