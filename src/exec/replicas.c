/* replicas.c - data-parallel runs.
 *
 * A step has four phases, each one fl_team_run:
 *   compute  replica i runs schedules, forward and backward on its batch
 *   each     replica i pushes its part of the gradients of tables
 *   merge    gradients that the update reads are summed over the replicas
 *   update   optimizers and what talks to servers run once, in replica 0's
 *            frame, spread over the team by the scheduler
 */
#include "exec/replicas.h"

#include "exec/join.h"
#include "exec/turns.h"
#include "kernel/vec.h"
#include "tensor/floats.h"

struct fl_replicas {
    fl_runner *const *runners;
    int n;
    fl_team *team;
    fl_merge_kind kind;
    double coeff;
    int *grads, n_grads;     /* plan variables that cross into the update */
    int *owner;              /* by gradient */
    fl_buf *joined;          /* by gradient: room for joined rows */
    const fl_tensor **parts; /* by gradient and replica: for joining */
    bool has_each, has_update;
};

static void find_grads(fl_replicas *r)
{
    const fl_plan *p = r->runners[0]->plan;

    r->grads = fl_alloc(sizeof(int) * ((size_t)p->n_vars + 1));
    r->n_grads = fl_plan_grads(p, r->grads);
}

/* Largest first to the replica that has least. */
static void deal_owners(fl_replicas *r)
{
    const fl_plan *p = r->runners[0]->plan;
    size_t *load = fl_alloc(sizeof(size_t) * (size_t)r->n);
    bool *dealt = fl_alloc(sizeof(bool) * ((size_t)r->n_grads + 1));

    r->owner = fl_alloc(sizeof(int) * ((size_t)r->n_grads + 1));
    for (int k = 0; k < r->n_grads; k++) {
        int64_t most = -1;
        int pick = 0, to = 0;

        for (int g = 0; g < r->n_grads; g++) {
            int64_t n = fl_shape_numel(&p->vars[r->grads[g]].var->meta.shape);

            if (!dealt[g] && n > most) {
                most = n;
                pick = g;
            }
        }
        if (most < 0)
            for (pick = 0; dealt[pick]; pick++)
                ;
        for (int i = 1; i < r->n; i++)
            if (load[i] < load[to])
                to = i;
        dealt[pick] = true;
        r->owner[pick] = to;
        load[to] += most > 0 ? (size_t)most : 1;
    }
    fl_free(load);
    fl_free(dealt);
}

static fl_status refuse_mixed(const fl_plan *p)
{
    char text[FL_NODE_TEXT_MAX];

    if (p->mixed >= 0)
        FL_FAIL(FL_ERR_INVAL,
                "%s works on the gradients of tables and of other parameters "
                "at once, which replicas have in different places; train with "
                "hogwild threads instead",
                fl_node_text(p->steps[p->mixed].node, text));
    return FL_OK;
}

static void find_parts(fl_replicas *r)
{
    const fl_plan *p = r->runners[0]->plan;

    for (int i = 0; i < p->n_steps; i++) {
        r->has_each |= p->steps[i].part == FL_PART_EACH;
        r->has_update |= p->steps[i].part == FL_PART_UPDATE;
    }
}

fl_status fl_replicas_new(fl_replicas **out, fl_runner *const *runners, int n,
                          fl_team *team, fl_merge_kind kind, double coeff)
{
    fl_replicas *r;

    if (n > 1) {
        FL_TRY(refuse_mixed(runners[0]->plan));
        FL_TRY(fl_plan_check_ordered(runners[0]->plan));
    }
    r = fl_alloc(sizeof(*r));
    r->runners = runners;
    r->n = n;
    r->team = team;
    r->kind = kind;
    r->coeff = coeff;
    find_parts(r);
    find_grads(r);
    deal_owners(r);
    r->joined = fl_alloc(sizeof(fl_buf) * ((size_t)r->n_grads + 1));
    r->parts =
        fl_alloc(sizeof(*r->parts) * ((size_t)r->n_grads * (size_t)n + 1));
    *out = r;
    return FL_OK;
}

void fl_replicas_free(fl_replicas *r)
{
    if (!r)
        return;
    for (int g = 0; g < r->n_grads; g++)
        fl_buf_release(&r->joined[g]);
    fl_free(r->joined);
    fl_free(r->parts);
    fl_free(r->grads);
    fl_free(r->owner);
    fl_free(r);
}

static fl_tensor *grad_of(const fl_replicas *r, int replica, int g)
{
    return &r->runners[replica]->tensors[r->grads[g]];
}

/* Elements [lo, hi) of a dense gradient: sum over replicas, scaled, into
   replica 0; AllReduce copies it to the others. */
#define SUM_DENSE(T, t)                                                        \
    static void sum_dense_##t(const fl_replicas *r, int g, size_t lo,          \
                              size_t hi)                                       \
    {                                                                          \
        T *to = (T *)grad_of(r, 0, g)->data + lo;                              \
        size_t n = hi - lo;                                                    \
                                                                               \
        for (int i = 1; i < r->n; i++)                                         \
            fl_vec_##t()->add(to, to, (T *)grad_of(r, i, g)->data + lo, n);    \
        fl_vec_##t()->scale(to, (T)r->coeff, to, 0, n);                        \
        for (int i = 1; i < r->n && r->kind == FL_MERGE_ALL_REDUCE; i++)       \
            memcpy((T *)grad_of(r, i, g)->data + lo, to, n * sizeof(T));       \
    }
FL_FLOATS(SUM_DENSE)

static void sum_dense(const fl_replicas *r, int g, size_t lo, size_t hi)
{
    FL_BY_DTYPE(grad_of(r, 0, g)->dtype, sum_dense, r, g, lo, hi);
}

/* rows + values: one list after the other, in the order of the replicas. */
static fl_status join_rows(fl_replicas *r, int g)
{
    const fl_tensor **parts = r->parts + (size_t)g * (size_t)r->n;

    for (int i = 0; i < r->n; i++)
        parts[i] = grad_of(r, i, g);
    return fl_join_rows(&r->joined[g], parts, r->n, r->coeff, grad_of(r, 0, g));
}

/* Member i's part of one gradient. The shape of rows is its owner's to change,
   so nobody else looks at it. */
static fl_status merge_one(fl_replicas *r, int g, int i)
{
    const fl_tensor *t = grad_of(r, 0, g);
    size_t n;

    if (t->kind == FL_KIND_ROWS)
        return r->owner[g] == i ? join_rows(r, g) : FL_OK;
    n = (size_t)fl_tensor_numel(t);
    if (r->kind == FL_MERGE_ALL_REDUCE)
        sum_dense(r, g, n * (size_t)i / (size_t)r->n,
                  n * ((size_t)i + 1) / (size_t)r->n);
    else if (r->owner[g] == i)
        sum_dense(r, g, 0, n);
    return FL_OK;
}

/* AllReduce: every replica sees the joined rows. */
static void show_rows(fl_replicas *r)
{
    for (int g = 0; g < r->n_grads; g++)
        for (int i = 1; i < r->n; i++)
            if (grad_of(r, 0, g)->kind == FL_KIND_ROWS)
                *grad_of(r, i, g) = *grad_of(r, 0, g);
}

typedef fl_status (*replica_fn)(fl_replicas *r, int i);

static fl_status compute(fl_replicas *r, int i)
{
    FL_TRY(fl_runner_run(r->runners[i], FL_PART_COMPUTE, NULL));
    return fl_turns_gather(r->runners[i]);
}

static fl_status update_own(fl_replicas *r, int i)
{
    return fl_runner_run(r->runners[i], FL_PART_EACH, NULL);
}

static fl_status merge(fl_replicas *r, int i)
{
    for (int g = 0; g < r->n_grads; g++)
        FL_TRY(merge_one(r, g, i));
    return FL_OK;
}

/* A team smaller than the number of replicas takes them in turn. */
typedef struct phase {
    fl_replicas *r;
    replica_fn fn;
} phase;

static fl_status run_share(void *arg, int member)
{
    phase *p = arg;

    for (int i = member; i < p->r->n; i += fl_team_size(p->r->team))
        FL_TRY(p->fn(p->r, i));
    return FL_OK;
}

static fl_status run_phase(fl_replicas *r, replica_fn fn)
{
    phase p = { r, fn };

    return fl_team_run(r->team, run_share, &p);
}

/* While replicas run, each is a part of the step. */
static void take_seats(fl_replicas *r)
{
    for (int i = 0; i < r->n; i++)
        r->runners[i]->worker =
            (fl_worker_id){ .part = i,
                            .n_parts = r->n,
                            .scale = r->coeff * fl_turns_share(r->runners[i]) };
}

static void end_turns(fl_replicas *r)
{
    for (int i = 0; i < r->n; i++)
        fl_turns_end(r->runners[i]);
}

static fl_status update(fl_replicas *r)
{
    FL_TRY(run_phase(r, merge));
    if (r->kind == FL_MERGE_ALL_REDUCE)
        show_rows(r);
    /* What runs once runs for the whole step. */
    r->runners[0]->worker = (fl_worker_id){ .n_parts = 1, .scale = 1 };
    return fl_runner_run(r->runners[0], FL_PART_UPDATE, r->team);
}

fl_status fl_replicas_run(fl_replicas *r)
{
    if (r->n == 1)
        return fl_runner_run(r->runners[0], FL_PART_ALL, NULL);
    take_seats(r);
    FL_TRY(run_phase(r, compute));
    if (r->has_each)
        FL_TRY(run_phase(r, update_own));
    if (r->has_update && fl_turns_is_last(r->runners[0]))
        FL_TRY(update(r));
    end_turns(r);
    return FL_OK;
}
