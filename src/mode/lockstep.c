/* lockstep.c - threads of one trainer that meet after every batch.
 *
 *     push, send    noted, under the worker that called
 *     barrier       noted; the last one sets is_busy and merges
 *     leave         may be what the others waited for: then it merges
 *     end           fresh values are there, all barriers are answered
 *
 * The notes point into the frames of the threads. Those stay as they are while
 * their owners wait at the barrier, so that the merge works on them without the lock:
 * from is_busy on nobody adds, drops or reads a note but who merges. Notes of a
 * thread that fails go with it (leave); one that trains alone says nothing when
 * it fails, but its next batch begins with a step, and old notes end there.
 *
 * Where a mode holds pulls, those for a batch behind the one that is trained wait
 * here until it takes them, or their thread leaves.
 *
 * Values that came from the servers are copied into the parameters by the first
 * thread that asks: until all have met again nobody writes them, and who comes
 * later finds them copied.
 *
 * Lock order: mu, then that of the cut.
 */
#include "mode/lockstep.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kernel/merge.h"

/* Gradients of rows, as a thread handed them over. */
typedef struct rows_note {
    int table, thread, part;
    size_t place; /* in the order of coming */
    fl_rows rows;
} rows_note;

typedef struct dense_note {
    size_t param; /* in the list of the job */
    int thread;
    size_t place;
    const float *data;
} dense_note;

/* What is known of a thread. */
typedef struct post {
    fl_comm_call *call; /* it waits */
    uint64_t since_ns;
    uint64_t samples;
    bool is_fresh; /* it has met, and not yet asked for the values */
} post;

typedef FL_VEC(fl_comm_call *) call_list;

struct fl_lockstep {
    fl_cluster_port port; /* the first member */
    fl_comm_data data;    /* of the port */
    fl_comm_life life;
    const fl_lockstep_ops *ops;
    void *mode;
    fl_weighing how; /* threads */

    fl_mutex mu;
    bool is_busy;           /* guarded by mu, as is all of this */
    int n_entered, n_came;  /* threads; nobody entered: one trains */
    uint64_t samples;       /* of those that came */
    uint64_t round;         /* exchanges so far */
    uint64_t *shown;        /* by parameter: the round that was copied last */
    fl_err err;             /* the first one */
    FL_VEC(post) posts;     /* by thread */
    fl_pull_list held;      /* pulls for the batches behind these */
    FL_VEC(rows_note) rows; /* these two are borrowed by the merge */
    FL_VEC(dense_note) dense;

    /* Of who merges, and of the exchange. */
    size_t *starts; /* of parameters in values and sums; one more for the end */
    float *values, *sums; /* NULL until they are needed */
    fl_merger *mergers;   /* by table */
    fl_cluster_blocks params, grads;
    FL_VEC(fl_rows) batches;
    FL_VEC(fl_job_push_item) items;
    FL_VEC(uint32_t) dims;
    FL_VEC(const float *) from;
    FL_VEC(double) scales;
};

/* --- memory ------------------------------------------------------------- */

static size_t n_params(const fl_lockstep *l)
{
    return fl_cluster_dist(l->port.cluster)->params.len;
}

static size_t n_tables(const fl_lockstep *l)
{
    return fl_cluster_dist(l->port.cluster)->tables.len;
}

static const fl_dist_param *param_at(const fl_lockstep *l, size_t i)
{
    return &fl_cluster_dist(l->port.cluster)->params.data[i];
}

static size_t n_floats(const fl_lockstep *l)
{
    return l->starts[n_params(l)];
}

static size_t dense_bytes(const fl_lockstep *l)
{
    return (n_floats(l) + 1) * sizeof(float);
}

static fl_status make_room(fl_lockstep *l, float **room)
{
    if (*room)
        return FL_OK;
    *room = fl_try_alloc(dense_bytes(l));
    if (!*room)
        FL_FAIL(FL_ERR_NOMEM,
                "mode %s: no memory for the %zu numbers of all dense "
                "parameters",
                l->ops->name, n_floats(l));
    return FL_OK;
}

static fl_status make_values(fl_lockstep *l)
{
    if (l->values)
        return FL_OK;
    FL_TRY(make_room(l, &l->values));
    for (size_t i = 0; i < n_params(l); i++)
        fl_cluster_blocks_add(&l->params, l->port.cluster, param_at(l, i),
                              l->values + l->starts[i]);
    return FL_OK;
}

/* --- merging ------------------------------------------------------------ */

static int compare(size_t a, size_t b)
{
    return (a > b) - (a < b);
}

/* By table, thread and part, then as they came. */
static int by_rows(const void *a, const void *b)
{
    const rows_note *x = a, *y = b;

    if (x->table != y->table)
        return x->table - y->table;
    if (x->thread != y->thread)
        return x->thread - y->thread;
    if (x->part != y->part)
        return x->part - y->part;
    return compare(x->place, y->place);
}

static int by_param(const void *a, const void *b)
{
    const dense_note *x = a, *y = b;

    if (x->param != y->param)
        return compare(x->param, y->param);
    if (x->thread != y->thread)
        return x->thread - y->thread;
    return compare(x->place, y->place);
}

static double thread_weight(const fl_lockstep *l, int thread)
{
    return fl_weight(l->how, (double)l->posts.data[thread].samples,
                     (double)l->samples, (size_t)l->n_came);
}

/* Notes [lo, hi) are all those of one table. */
static fl_status merge_table(fl_lockstep *l, size_t lo, size_t hi)
{
    const rows_note *first = &l->rows.data[lo];
    fl_job_push_item item = { .table = first->table };

    l->batches.len = 0;
    for (size_t i = lo; i < hi; i++) {
        fl_rows rows = l->rows.data[i].rows;

        rows.scale *= thread_weight(l, l->rows.data[i].thread);
        fl_vec_push(&l->batches, rows);
    }
    FL_TRY(fl_merge_rows(&l->mergers[item.table], l->batches.data, hi - lo,
                         &item.rows));
    fl_vec_push(&l->items, item);
    fl_vec_push(&l->dims, item.rows.dim);
    return FL_OK;
}

static fl_status merge_tables(fl_lockstep *l)
{
    size_t n = l->rows.len, hi;

    l->items.len = l->dims.len = 0;
    if (n)
        qsort(l->rows.data, n, sizeof(*l->rows.data), by_rows);
    for (size_t lo = 0; lo < n; lo = hi) {
        for (hi = lo + 1; hi < n; hi++)
            if (l->rows.data[hi].table != l->rows.data[lo].table)
                break;
        FL_TRY(merge_table(l, lo, hi));
    }
    return FL_OK;
}

/* A gradient that is the only one is sent from where it is. */
static fl_status merge_param(fl_lockstep *l, size_t lo, size_t hi)
{
    size_t number = l->dense.data[lo].param;
    const fl_dist_param *p = param_at(l, number);
    /* The client reads what it is given to send. */
    float *to = (float *)(uintptr_t)l->dense.data[lo].data;

    if (l->n_came > 1 || hi - lo > 1) {
        FL_TRY(make_room(l, &l->sums));
        to = l->sums + l->starts[number];
        l->from.len = l->scales.len = 0;
        for (size_t i = lo; i < hi; i++) {
            fl_vec_push(&l->from, l->dense.data[i].data);
            fl_vec_push(&l->scales, thread_weight(l, l->dense.data[i].thread));
        }
        fl_merge_dense(to, l->from.data, l->scales.data, hi - lo, p->n);
    }
    fl_cluster_blocks_add(&l->grads, l->port.cluster, p, to);
    return FL_OK;
}

static fl_status merge_params(fl_lockstep *l)
{
    size_t n = l->dense.len, hi;

    fl_cluster_blocks_clear(&l->grads);
    if (n)
        qsort(l->dense.data, n, sizeof(*l->dense.data), by_param);
    for (size_t lo = 0; lo < n; lo = hi) {
        for (hi = lo + 1; hi < n; hi++)
            if (l->dense.data[hi].param != l->dense.data[lo].param)
                break;
        FL_TRY(merge_param(l, lo, hi));
    }
    return FL_OK;
}

static fl_status merge(fl_lockstep *l, fl_merged *out)
{
    FL_TRY(make_values(l));
    FL_TRY(merge_tables(l));
    FL_TRY(merge_params(l));
    *out = (fl_merged){ .items = l->items.data,
                        .dims = l->dims.data,
                        .n_items = l->items.len,
                        .grads = &l->grads,
                        .samples = l->samples };
    return FL_OK;
}

/* By whoever has set is_busy. */
static void merge_and_exchange(fl_lockstep *l)
{
    fl_merged merged;
    fl_status st = merge(l, &merged);

    if (st)
        fl_lockstep_end(l, st);
    else
        l->ops->exchange(l->mode, &merged);
}

/* --- pulls that are held ------------------------------------------------- */

#define ALL_THREADS (-1)

static bool is_held(const fl_lockstep *l, const fl_comm_request *r)
{
    uint64_t row = sizeof(uint64_t) + r->rows.dim * sizeof(float);

    return r->is_behind && r->rows.n <= l->ops->held_bytes / row;
}

static fl_status port_pull(fl_comm *c, fl_comm_request *r)
{
    fl_lockstep *l = (fl_lockstep *)c;
    fl_status st = FL_OK;

    if (!is_held(l, r))
        return fl_cluster_port_pull(c, r);
    fl_lock(&l->mu);
    if (l->err.status)
        st = fl_err_restore(&l->err);
    else
        fl_vec_push(&l->held, r);
    fl_unlock(&l->mu);
    return st ? st : FL_PENDING;
}

/* Moves those of the thread; under mu. */
static void take_pulls(fl_lockstep *l, int thread, fl_pull_list *out)
{
    size_t n = 0;

    for (size_t i = 0; i < l->held.len; i++) {
        fl_comm_request *r = l->held.data[i];

        if (thread == ALL_THREADS || r->worker.thread == thread)
            fl_vec_push(out, r);
        else
            l->held.data[n++] = r;
    }
    l->held.len = n;
}

static void refuse_pulls(fl_pull_list *pulls, const fl_err *err)
{
    for (size_t i = 0; i < pulls->len; i++)
        fl_comm_finish(&pulls->data[i]->answer, fl_err_restore(err));
    fl_vec_release(pulls);
}

fl_pull_list fl_lockstep_take_pulls(fl_lockstep *l)
{
    fl_pull_list pulls = { 0 };

    fl_lock(&l->mu);
    take_pulls(l, ALL_THREADS, &pulls);
    fl_unlock(&l->mu);
    return pulls;
}

void fl_lockstep_send_pulls(fl_lockstep *l, fl_pull_list *pulls)
{
    for (size_t i = 0; i < pulls->len; i++) {
        fl_comm_request *r = pulls->data[i];
        fl_status st = fl_cluster_port_pull(&l->port.comm, r);

        if (st != FL_PENDING)
            fl_comm_finish(&r->answer, st);
    }
    fl_vec_release(pulls);
}

/* --- the end of an exchange --------------------------------------------- */

/* The parts of a push are one gradient. */
static uint64_t count_gradients(const fl_lockstep *l)
{
    uint64_t n = l->dense.len;

    for (size_t i = 0; i < l->rows.len; i++)
        n += l->rows.data[i].part == 0;
    return n;
}

static void take_calls(fl_lockstep *l, call_list *calls)
{
    fl_cluster_stats *counts = fl_cluster_stats_of(l->port.cluster);
    uint64_t now = fl_now_ns();

    for (size_t i = 0; i < l->posts.len; i++) {
        post *p = &l->posts.data[i];

        if (!p->call)
            continue;
        fl_vec_push(calls, p->call);
        p->call = NULL;
        p->is_fresh = true;
        fl_stat_add(&counts->wait, now - p->since_ns);
    }
}

/* With the last answer others may free the backend: from here on it is not
   looked at. */
static void answer_all(call_list *calls, const fl_err *err)
{
    for (size_t i = 0; i < calls->len; i++)
        fl_comm_finish(&calls->data[i]->answer,
                       err->status ? fl_err_restore(err) : FL_OK);
    fl_vec_release(calls);
}

void fl_lockstep_end(fl_lockstep *l, fl_status st)
{
    call_list calls = { 0 };
    fl_pull_list pulls = { 0 };
    fl_err err;

    fl_lock(&l->mu);
    if (st) {
        fl_err_save(&l->err, st);
        take_pulls(l, ALL_THREADS, &pulls);
    } else {
        l->round++;
        fl_stat_add(&fl_cluster_stats_of(l->port.cluster)->gradients_applied,
                    count_gradients(l));
    }
    err = l->err;
    take_calls(l, &calls);
    l->rows.len = l->dense.len = 0;
    l->samples = 0;
    l->n_came = 0;
    l->is_busy = false;
    /* All are here, and none of them has gone on yet. */
    fl_cut_met(fl_cluster_cut(l->port.cluster),
               fl_cluster_step(l->port.cluster));
    fl_unlock(&l->mu);
    refuse_pulls(&pulls, &err);
    answer_all(&calls, &err);
}

/* --- handing over ------------------------------------------------------- */

/* Under mu, as all that follows. */
static post *post_of(fl_lockstep *l, int thread)
{
    FL_ASSERT(thread >= 0);
    while (l->posts.len <= (size_t)thread)
        fl_vec_push(&l->posts, (post){ 0 });
    return &l->posts.data[thread];
}

static fl_status check_open(fl_lockstep *l, int thread)
{
    if (l->err.status)
        return fl_err_restore(&l->err);
    if (l->is_busy || post_of(l, thread)->call)
        FL_FAIL(FL_ERR_INVAL,
                "mode %s: thread %d hands over gradients while it waits for "
                "those of its last batch; runs that train at the same time "
                "must be threads of one run",
                l->ops->name, thread);
    return FL_OK;
}

static void count_made(fl_lockstep *l)
{
    fl_stat_add(&fl_cluster_stats_of(l->port.cluster)->gradients_made, 1);
}

static fl_status note_rows(fl_lockstep *l, const fl_comm_request *r, int table)
{
    rows_note note = {
        .table = table,
        .thread = r->worker.thread,
        .part = r->worker.part,
        .place = l->rows.len,
        .rows = r->rows,
    };

    FL_TRY(check_open(l, note.thread));
    fl_vec_push(&l->rows, note);
    if (note.part == 0)
        count_made(l);
    return FL_OK;
}

static fl_status port_push(fl_comm *c, fl_comm_request *r)
{
    fl_lockstep *l = (fl_lockstep *)c;
    fl_status st;
    int table;

    FL_TRY(fl_cluster_table(l->port.cluster, r->table, r->rows.dim, &table));
    fl_lock(&l->mu);
    st = note_rows(l, r, table);
    fl_unlock(&l->mu);
    return st;
}

static fl_status note_dense(fl_lockstep *l, const fl_comm_call *r,
                            const fl_param_values *v)
{
    dense_note note = { .thread = r->worker.thread,
                        .place = l->dense.len,
                        .data = v->data };
    const fl_dist_param *p;

    FL_TRY(fl_cluster_param(l->port.cluster, v->param, v->n, &p));
    note.param = (size_t)(p - param_at(l, 0));
    fl_vec_push(&l->dense, note);
    count_made(l);
    return FL_OK;
}

static fl_status port_send(fl_comm *c, fl_comm_call *r)
{
    fl_lockstep *l = (fl_lockstep *)c;
    fl_status st;

    fl_lock(&l->mu);
    st = check_open(l, r->worker.thread);
    for (size_t i = 0; !st && i < r->n; i++)
        st = note_dense(l, r, &r->values[i]);
    fl_unlock(&l->mu);
    return st;
}

/* --- the barrier -------------------------------------------------------- */

/* Whether all who train have come; then it is the caller's to merge. */
static bool begin_if_all_came(fl_lockstep *l)
{
    if (l->is_busy || !l->n_came || l->n_came < l->n_entered)
        return false;
    l->is_busy = true;
    return true;
}

static fl_status come(fl_lockstep *l, fl_comm_call *r, bool *is_last)
{
    post *p;

    FL_TRY(check_open(l, r->worker.thread));
    p = post_of(l, r->worker.thread);
    p->call = r;
    p->since_ns = fl_now_ns();
    p->samples = r->samples;
    l->samples += r->samples;
    l->n_came++;
    *is_last = begin_if_all_came(l);
    return FL_OK;
}

static fl_status port_barrier(fl_comm *c, fl_comm_call *r)
{
    fl_lockstep *l = (fl_lockstep *)c;
    bool is_last = false;
    fl_status st;

    fl_lock(&l->mu);
    st = come(l, r, &is_last);
    fl_unlock(&l->mu);
    if (st)
        return st;
    if (is_last)
        merge_and_exchange(l);
    return FL_PENDING;
}

static void port_enter(fl_comm *c, int n_threads)
{
    fl_lockstep *l = (fl_lockstep *)c;

    fl_lock(&l->mu);
    l->n_entered = n_threads;
    fl_unlock(&l->mu);
}

/* What a thread handed over and did not bring to a meeting goes with it. */
static void drop_notes(fl_lockstep *l, int thread)
{
    size_t n = 0;

    for (size_t i = 0; i < l->rows.len; i++)
        if (l->rows.data[i].thread != thread)
            l->rows.data[n++] = l->rows.data[i];
    l->rows.len = n;
    n = 0;
    for (size_t i = 0; i < l->dense.len; i++)
        if (l->dense.data[i].thread != thread)
            l->dense.data[n++] = l->dense.data[i];
    l->dense.len = n;
}

/* Nobody is going to train the batches that these are for. */
static fl_err too_late(const fl_lockstep *l, int thread)
{
    fl_err err;

    fl_err_save(&err, fl_err_set(FL_ERR_CLOSED,
                                 "mode %s: thread %d has ended before the "
                                 "batch that these rows are for",
                                 l->ops->name, thread));
    return err;
}

static void port_leave(fl_comm *c, int thread)
{
    fl_lockstep *l = (fl_lockstep *)c;
    fl_err err = too_late(l, thread);
    fl_pull_list pulls = { 0 };
    bool is_last = false;

    fl_lock(&l->mu);
    take_pulls(l, thread, &pulls);
    if (l->n_entered)
        l->n_entered--;
    post_of(l, thread)->is_fresh = false;
    if (!l->is_busy) {
        drop_notes(l, thread);
        is_last = begin_if_all_came(l);
    }
    fl_unlock(&l->mu);
    refuse_pulls(&pulls, &err);
    if (is_last)
        merge_and_exchange(l);
}

static uint64_t port_step(fl_comm *c)
{
    fl_lockstep *l = (fl_lockstep *)c;

    fl_lock(&l->mu);
    if (!l->n_entered && !l->is_busy)
        l->rows.len = l->dense.len = 0;
    fl_unlock(&l->mu);
    return l->ops->step(l->mode);
}

/* --- fresh values ------------------------------------------------------- */

static fl_status show_values(fl_lockstep *l, const fl_comm_call *r)
{
    const fl_dist_param *p;

    for (size_t i = 0; i < r->n; i++) {
        const fl_param_values *v = &r->values[i];
        size_t number;

        FL_TRY(fl_cluster_param(l->port.cluster, v->param, v->n, &p));
        number = (size_t)(p - param_at(l, 0));
        if (l->shown[number] == l->round)
            continue;
        memcpy(v->data, l->values + l->starts[number], v->n * sizeof(float));
        l->shown[number] = l->round;
    }
    return FL_OK;
}

/* A thread that has not met just now (a startup program's) wants what the
   servers have. */
static fl_status port_recv(fl_comm *c, fl_comm_call *r)
{
    fl_lockstep *l = (fl_lockstep *)c;
    fl_status st = FL_OK;
    bool is_fresh;
    post *p;

    fl_lock(&l->mu);
    p = post_of(l, r->worker.thread);
    is_fresh = p->is_fresh;
    p->is_fresh = false;
    if (l->err.status)
        st = fl_err_restore(&l->err);
    else if (is_fresh)
        st = show_values(l, r);
    fl_unlock(&l->mu);
    return st || is_fresh ? st : fl_cluster_port_recv(c, r);
}

/* --- the rest of the port ----------------------------------------------- */

/* All that was handed over has been applied, as nobody waits any more. A
   trainer that has failed does not leave as if it were done: its end is for the
   others to hear of. */
static fl_status port_stop(fl_comm *c)
{
    fl_lockstep *l = (fl_lockstep *)c;
    fl_err err;

    fl_lock(&l->mu);
    err = l->err;
    fl_unlock(&l->mu);
    return err.status ? fl_err_restore(&err)
                      : fl_cluster_leave(l->port.cluster);
}

/* Requests under way end with the cluster, and their ends still find the mode
   and this. */
static void port_free(fl_comm *c)
{
    fl_lockstep *l = (fl_lockstep *)c;
    size_t bytes = dense_bytes(l), tables = n_tables(l);

    fl_cluster_free(l->port.cluster);
    l->ops->free(l->mode);
    for (size_t i = 0; i < tables; i++)
        fl_merger_release(&l->mergers[i]);
    fl_free(l->mergers);
    fl_free(l->starts);
    fl_free(l->shown);
    fl_data_free(l->values, bytes);
    fl_data_free(l->sums, bytes);
    fl_cluster_blocks_release(&l->params);
    fl_cluster_blocks_release(&l->grads);
    fl_vec_release(&l->posts);
    fl_vec_release(&l->held);
    fl_vec_release(&l->rows);
    fl_vec_release(&l->dense);
    fl_vec_release(&l->batches);
    fl_vec_release(&l->items);
    fl_vec_release(&l->dims);
    fl_vec_release(&l->from);
    fl_vec_release(&l->scales);
    fl_mutex_release(&l->mu);
    fl_free(l);
}

static const fl_comm_data data = {
    .pull = port_pull,
    .push = port_push,
    .send = port_send,
    .recv = port_recv,
    .barrier = port_barrier,
};

static const fl_comm_life life = {
    .declare = fl_cluster_port_declare,
    .step = port_step,
    .enter = port_enter,
    .leave = port_leave,
    .begin_batch = fl_cluster_port_begin_batch,
    .end_batch = fl_cluster_port_end_batch,
    .stop = port_stop,
    .free = port_free,
};

fl_lockstep *fl_lockstep_new(fl_cluster *cluster, const fl_lockstep_ops *ops,
                             void *mode, fl_weighing how)
{
    fl_lockstep *l = fl_alloc(sizeof(*l));

    l->data = data;
    l->life = life;
    fl_cluster_port_init(&l->port, cluster, ops->name, &l->data, &l->life);
    l->ops = ops;
    l->mode = mode;
    l->how = how;
    fl_mutex_init(&l->mu);
    l->mergers = fl_alloc((n_tables(l) + 1) * sizeof(*l->mergers));
    l->shown = fl_alloc((n_params(l) + 1) * sizeof(*l->shown));
    l->starts = fl_alloc((n_params(l) + 1) * sizeof(*l->starts));
    for (size_t i = 0; i < n_params(l); i++)
        l->starts[i + 1] = l->starts[i] + (size_t)param_at(l, i)->n;
    return l;
}

fl_comm *fl_lockstep_port(fl_lockstep *l)
{
    return &l->port.comm;
}

fl_comm_data *fl_lockstep_data(fl_lockstep *l)
{
    return &l->data;
}

fl_comm_life *fl_lockstep_life(fl_lockstep *l)
{
    return &l->life;
}

void *fl_lockstep_mode(const fl_comm *port)
{
    return ((const fl_lockstep *)port)->mode;
}

bool fl_lockstep_failed(fl_lockstep *l)
{
    bool has_failed;

    fl_lock(&l->mu);
    has_failed = l->err.status != FL_OK;
    fl_unlock(&l->mu);
    return has_failed;
}

const fl_cluster_blocks *fl_lockstep_params(const fl_lockstep *l)
{
    return &l->params;
}
