/* turns.c - updates that are made once in several runs.
 *
 *     turn 0 .. k-2   compute, keep gradients, pushes keep theirs
 *     turn k-1        compute, gradients of all turns, pushes, update
 *
 * Dense gradients are added up in one buffer as they come; rows + values are
 * copied and stand one behind the other in the end. A run that fails is no
 * turn: what was kept before it stays, and the next run takes its place.
 */
#include "exec/turns.h"

#include "base/alloc.h"
#include "exec/join.h"
#include "kernel/vec.h"
#include "tensor/floats.h"

/* One gradient. */
typedef struct kept {
    int var;
    fl_buf sum;              /* dense: of the turns so far */
    fl_buf *copies;          /* rows: by turn */
    fl_tensor *views;        /* of the copies; the last is the frame's own */
    const fl_tensor **parts; /* the same, for joining */
    fl_buf joined;
} kept;

struct fl_turns {
    kept *grads;
    int n_grads;
    uint64_t samples; /* of the turns so far */
};

/* --- what cannot be done -------------------------------------------------- */

static bool reads_grads(const fl_plan *p, const fl_plan_step *s)
{
    int at = 0;

    for (int slot = 0; slot < s->n_in; slot++)
        for (int i = 0; i < s->in_len[slot]; i++, at++)
            if (s->in[at] >= 0 && fl_plan_computes(p, s->in[at]))
                return true;
    return false;
}

static fl_status check_step(const fl_plan *p, const fl_plan_step *s)
{
    char text[FL_NODE_TEXT_MAX];

    if (s->part == FL_PART_EACH && !(s->node->def->flags & FL_OP_EACH) &&
        reads_grads(p, s))
        FL_FAIL(FL_ERR_INVAL,
                "%s works on the gradient of a table, batch by batch, but the "
                "program accumulates gradients over %d batches; leave it out "
                "for tables, or do not accumulate",
                fl_node_text(s->node, text), p->n_turns);
    return FL_OK;
}

/* What the update computes is not there after every run. */
static fl_status check_outputs(const fl_plan *p, const fl_plan_step *s)
{
    int n = 0;

    for (int slot = 0; slot < s->n_out; slot++)
        n += s->out_len[slot];
    for (int i = 0; i < n && s->part != FL_PART_COMPUTE; i++) {
        const fl_plan_var *v = s->out[i] < 0 ? NULL : &p->vars[s->out[i]];

        if (v && v->fetched && v->home == FL_HOME_PLACE)
            FL_FAIL(FL_ERR_INVAL,
                    "fetch %s is computed by the update, which runs once in %d "
                    "batches (accumulate); fetch what every batch computes",
                    v->var->name, p->n_turns);
    }
    return FL_OK;
}

fl_status fl_turns_check(const fl_plan *p)
{
    if (p->n_turns == 1)
        return FL_OK;
    for (int i = 0; i < p->n_steps; i++) {
        FL_TRY(check_step(p, &p->steps[i]));
        FL_TRY(check_outputs(p, &p->steps[i]));
    }
    return FL_OK;
}

/* --- memory --------------------------------------------------------------- */

static void kept_init(kept *k, int var, int n_turns)
{
    size_t n = (size_t)n_turns;

    k->var = var;
    k->copies = fl_alloc(n * sizeof(*k->copies));
    k->views = fl_alloc(n * sizeof(*k->views));
    k->parts = fl_alloc(n * sizeof(*k->parts));
}

fl_turns *fl_turns_new(const fl_plan *p)
{
    fl_turns *t;
    int *vars;

    if (p->n_turns == 1)
        return NULL;
    vars = fl_alloc(sizeof(*vars) * ((size_t)p->n_vars + 1));
    t = fl_alloc(sizeof(*t));
    t->n_grads = fl_plan_grads(p, vars);
    t->grads = fl_alloc(sizeof(*t->grads) * ((size_t)t->n_grads + 1));
    for (int i = 0; i < t->n_grads; i++)
        kept_init(&t->grads[i], vars[i], p->n_turns);
    fl_free(vars);
    return t;
}

void fl_turns_free(fl_turns *t, int n_turns)
{
    if (!t)
        return;
    for (int i = 0; i < t->n_grads; i++) {
        kept *k = &t->grads[i];

        for (int turn = 0; turn < n_turns; turn++)
            fl_buf_release(&k->copies[turn]);
        fl_buf_release(&k->sum);
        fl_buf_release(&k->joined);
        fl_free(k->copies);
        fl_free(k->views);
        fl_free(k->parts);
    }
    fl_free(t->grads);
    fl_free(t);
}

double fl_turns_share(const fl_runner *r)
{
    return r->options->weighing == FL_WEIGH_SUM ? 1 : 1.0 / r->plan->n_turns;
}

/* --- gradients ------------------------------------------------------------ */

#define ADD(T, t)                                                              \
    static void add_##t(T *to, const T *a, const T *b, size_t n)               \
    {                                                                          \
        fl_vec_##t()->add(to, a, b, n);                                        \
    }
FL_FLOATS(ADD)

/* The sum begins as a copy of the first. */
static fl_status keep_dense(const fl_runner *r, kept *k, const fl_tensor *g)
{
    size_t n = (size_t)fl_tensor_numel(g), bytes;

    FL_TRY(fl_tensor_bytes(g, &bytes));
    if (r->turn) {
        FL_BY_DTYPE(g->dtype, add, k->sum.data, k->sum.data, g->data, n);
        return FL_OK;
    }
    if (!fl_buf_reserve(&k->sum, bytes))
        FL_FAIL(FL_ERR_NOMEM, "no memory to keep %zu bytes of gradients",
                bytes);
    memcpy(k->sum.data, g->data, bytes);
    return FL_OK;
}

static fl_status keep_rows(const fl_runner *r, kept *k, const fl_tensor *g)
{
    k->views[r->turn] = *g;
    return fl_join_rows(&k->copies[r->turn], &g, 1, 1, &k->views[r->turn]);
}

static fl_status keep(const fl_runner *r, kept *k)
{
    const fl_tensor *g = &r->tensors[k->var];

    return g->kind == FL_KIND_ROWS ? keep_rows(r, k, g) : keep_dense(r, k, g);
}

static fl_status give_rows(const fl_runner *r, kept *k, fl_tensor *g)
{
    int n = r->plan->n_turns;

    k->views[n - 1] = *g;
    for (int i = 0; i < n; i++)
        k->parts[i] = &k->views[i];
    return fl_join_rows(&k->joined, k->parts, n, fl_turns_share(r), g);
}

static fl_status give(const fl_runner *r, kept *k)
{
    fl_tensor *g = &r->tensors[k->var];

    if (g->kind == FL_KIND_ROWS)
        return give_rows(r, k, g);
    FL_BY_DTYPE(g->dtype, add, g->data, k->sum.data, g->data,
                (size_t)fl_tensor_numel(g));
    fl_scale_values(g, fl_turns_share(r));
    return FL_OK;
}

fl_status fl_turns_gather(fl_runner *r)
{
    for (int i = 0; r->turns && i < r->turns->n_grads; i++)
        FL_TRY((fl_turns_is_last(r) ? give : keep)(r, &r->turns->grads[i]));
    return FL_OK;
}

/* --- turns ---------------------------------------------------------------- */

uint64_t fl_turns_samples(const fl_runner *r)
{
    return r->turns && r->turn ? r->turns->samples : 0;
}

void fl_turns_end(fl_runner *r)
{
    if (!r->turns)
        return;
    r->turns->samples = r->samples;
    r->turn = fl_turns_is_last(r) ? 0 : r->turn + 1;
}

fl_status fl_turns_run(fl_runner *r, fl_team *team)
{
    FL_TRY(fl_runner_run(r, FL_PART_COMPUTE, team));
    FL_TRY(fl_turns_gather(r));
    FL_TRY(fl_runner_run(r, FL_PART_EACH, team));
    if (fl_turns_is_last(r))
        FL_TRY(fl_runner_run(r, FL_PART_UPDATE, team));
    fl_turns_end(r);
    return FL_OK;
}
