/* joint_step.c - hogwild threads that meet after what they compute.
 *
 *     compute        each thread
 *     SEATS          weights are known: each is a part of the step
 *     each           each thread pushes its part of the gradients of tables
 *     UPDATE         one merges the other gradients and updates, for all
 *
 * Whoever finds that all have come, at the latest the last of them, does what
 * the place asks for, without the lock: nobody else moves before it is done.
 */
#include "exec/joint_step.h"

#include "base/alloc.h"
#include "exec/join.h"
#include "exec/turns.h"
#include "kernel/vec.h"
#include "tensor/floats.h"

struct fl_joint_step {
    int n_threads;
    int *grads, n_grads;     /* plan variables that cross into the update */
    fl_buf *joined;          /* by gradient: room for joined rows */
    const fl_tensor **parts; /* by thread: for joining */
    double *weights;         /* by thread that came, in their order */
    fl_runner **came;        /* the same; its thread and who leads it */

    fl_mutex mu;
    fl_cond changed;
    fl_runner **here; /* by thread; NULL: it computes, or has left */
    int n_left;       /* threads that still train; guarded, as all of this */
    int n_here;
    uint64_t n_met; /* places that were left behind */
    bool is_busy;
    fl_err err;
};

/* --- making --------------------------------------------------------------- */

static fl_status check_plan(const fl_plan *p)
{
    char text[FL_NODE_TEXT_MAX];

    if (p->mixed >= 0)
        FL_FAIL(FL_ERR_INVAL,
                "%s works on the gradients of tables and of other parameters "
                "at once, which threads have in different places; train with "
                "one thread per worker instead",
                fl_node_text(p->steps[p->mixed].node, text));
    return fl_plan_check_ordered(p);
}

fl_status fl_joint_step_new(fl_joint_step **out, const fl_plan *p,
                            int n_threads)
{
    size_t n = (size_t)n_threads;
    fl_joint_step *m;

    FL_TRY(check_plan(p));
    m = fl_alloc(sizeof(*m));
    m->n_threads = m->n_left = n_threads;
    m->grads = fl_alloc(sizeof(int) * ((size_t)p->n_vars + 1));
    m->n_grads = fl_plan_grads(p, m->grads);
    m->joined = fl_alloc(sizeof(*m->joined) * ((size_t)m->n_grads + 1));
    m->parts = fl_alloc(sizeof(*m->parts) * n);
    m->weights = fl_alloc(sizeof(*m->weights) * n);
    m->came = fl_alloc(sizeof(fl_runner *) * n);
    m->here = fl_alloc(sizeof(fl_runner *) * n);
    fl_mutex_init(&m->mu);
    fl_cond_init(&m->changed);
    *out = m;
    return FL_OK;
}

void fl_joint_step_free(fl_joint_step *m)
{
    if (!m)
        return;
    for (int i = 0; i < m->n_grads; i++)
        fl_buf_release(&m->joined[i]);
    fl_free(m->joined);
    fl_free(m->grads);
    fl_free(m->parts);
    fl_free(m->weights);
    fl_free(m->came);
    fl_free(m->here);
    fl_mutex_release(&m->mu);
    fl_cond_release(&m->changed);
    fl_free(m);
}

/* --- what one does for all ------------------------------------------------ */

/* Those that came, in the order of threads. */
static int gather(fl_joint_step *m)
{
    int n = 0;

    for (int i = 0; i < m->n_threads; i++)
        if (m->here[i])
            m->came[n++] = m->here[i];
    return n;
}

static uint64_t count_samples(const fl_joint_step *m, int n)
{
    uint64_t all = 0;

    for (int i = 0; i < n; i++)
        all += m->came[i]->samples;
    return all;
}

static fl_status give_seats(fl_joint_step *m)
{
    int n = gather(m);
    double all = (double)count_samples(m, n);

    for (int i = 0; i < n; i++) {
        fl_runner *r = m->came[i];

        m->weights[i] =
            fl_weight(r->options->weighing, (double)r->samples, all, (size_t)n);
        r->worker = (fl_worker_id){
            .part = i, .n_parts = n, .scale = m->weights[i] * fl_turns_share(r)
        };
    }
    return FL_OK;
}

#define ADD(T, t)                                                              \
    static void add_##t(T *to, const T *x, double by, size_t n)                \
    {                                                                          \
        fl_vec_##t()->axpy(to, (T)by, x, n);                                   \
    }
FL_FLOATS(ADD)

static void merge_dense(const fl_joint_step *m, int var, int n)
{
    fl_tensor *to = &m->came[0]->tensors[var];

    fl_scale_values(to, m->weights[0]);
    for (int i = 1; i < n; i++)
        FL_BY_DTYPE(to->dtype, add, to->data, m->came[i]->tensors[var].data,
                    m->weights[i], (size_t)fl_tensor_numel(to));
}

static fl_status merge_rows(fl_joint_step *m, int g, int n)
{
    for (int i = 0; i < n; i++) {
        fl_tensor *t = &m->came[i]->tensors[m->grads[g]];

        fl_scale_values(t, m->weights[i]);
        m->parts[i] = t;
    }
    return fl_join_rows(&m->joined[g], m->parts, n, 1,
                        &m->came[0]->tensors[m->grads[g]]);
}

static fl_status merge(fl_joint_step *m, int n)
{
    for (int g = 0; g < m->n_grads; g++) {
        int var = m->grads[g];

        if (m->came[0]->tensors[var].kind == FL_KIND_ROWS)
            FL_TRY(merge_rows(m, g, n));
        else
            merge_dense(m, var, n);
    }
    return FL_OK;
}

/* What runs once runs for the whole step. */
static fl_status update(fl_joint_step *m)
{
    int n = gather(m);
    fl_runner *first = m->came[0];
    uint64_t own = first->samples;
    fl_status st;

    if (!fl_turns_is_last(first))
        return FL_OK;
    FL_TRY(merge(m, n));
    first->worker = (fl_worker_id){ .n_parts = 1, .scale = 1 };
    first->samples = count_samples(m, n);
    st = fl_runner_run(first, FL_PART_UPDATE, NULL);
    first->samples = own;
    return st;
}

/* --- meeting -------------------------------------------------------------- */

typedef fl_status (*place_fn)(fl_joint_step *m);

/* All that train are here, and nobody leads yet: the caller does. Under mu. */
static void lead(fl_joint_step *m, place_fn fn)
{
    fl_status st;

    m->is_busy = true;
    fl_unlock(&m->mu);
    st = fn(m);
    fl_lock(&m->mu);
    if (st)
        fl_err_save(&m->err, st);
    m->is_busy = false;
    m->n_here = 0;
    memset(m->here, 0, sizeof(*m->here) * (size_t)m->n_threads);
    m->n_met++;
    fl_cond_wake_all(&m->changed);
}

static fl_status meet(fl_joint_step *m, int thread, fl_runner *r, place_fn fn)
{
    uint64_t place;
    fl_status st;

    fl_lock(&m->mu);
    place = m->n_met;
    m->here[thread] = r;
    m->n_here++;
    while (!m->err.status && m->n_met == place) {
        if (!m->is_busy && m->n_here == m->n_left)
            lead(m, fn);
        else
            fl_cond_wait(&m->changed, &m->mu);
    }
    /* Its frame is not touched before who leads is through. */
    while (m->is_busy)
        fl_cond_wait(&m->changed, &m->mu);
    st = m->err.status ? fl_err_restore(&m->err) : FL_OK;
    fl_unlock(&m->mu);
    return st;
}

fl_status fl_joint_step_run(fl_joint_step *m, int thread, fl_runner *r)
{
    FL_TRY(fl_runner_run(r, FL_PART_COMPUTE, NULL));
    FL_TRY(fl_turns_gather(r));
    FL_TRY(meet(m, thread, r, give_seats));
    FL_TRY(fl_runner_run(r, FL_PART_EACH, NULL));
    FL_TRY(meet(m, thread, r, update));
    fl_turns_end(r);
    return FL_OK;
}

void fl_joint_step_leave(fl_joint_step *m, int thread, fl_status st)
{
    fl_lock(&m->mu);
    FL_ASSERT(thread < m->n_threads);
    m->n_left--;
    if (st && !m->err.status)
        fl_err_save(&m->err, st);
    fl_cond_wake_all(&m->changed);
    fl_unlock(&m->mu);
}
