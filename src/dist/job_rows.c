/* job_rows.c - rows and dense parameters on the servers: calls that wait
 * (ps/client/call_sync.h), over a client that does not. */
#include "dist/job.h"

struct fl_job_request {
    fl_job *job;
    fl_latch latch;
};

/* --- waiting -------------------------------------------------------------- */

/* A job by hand has no batches: its requests are what a cut waits for. */
static void open_request(fl_job *j)
{
    if (!j->mode)
        fl_cut_begin_batch(fl_cluster_cut(j->cluster));
    fl_job_open_request(j);
}

static void close_request(fl_job *j)
{
    if (!j->mode)
        fl_cut_end_batch(fl_cluster_cut(j->cluster));
    fl_job_close_request(j);
}

/* After fl_job_ready. */
static void request_init(fl_job_request *r, fl_job *j)
{
    r->job = j;
    fl_latch_init(&r->latch, fl_client_poller(fl_cluster_client(j->cluster)));
    fl_latch_add(&r->latch);
    open_request(j);
}

/* For fl_client_done. Whoever waits may free the request meanwhile. */
static void on_done(void *arg, fl_status st)
{
    fl_job_request *r = arg;
    fl_job *j = r->job;

    fl_latch_done(&r->latch, st);
    close_request(j);
}

/* st is what the call that began the request gave: after an error nobody will
   call on_done. */
static fl_status wait_for(fl_job_request *r, fl_status st)
{
    if (st)
        close_request(r->job);
    else
        st = fl_latch_wait(&r->latch);
    fl_latch_release(&r->latch);
    return st;
}

static fl_client *client_of(const fl_job_request *r)
{
    return fl_cluster_client(r->job->cluster);
}

/* --- rows ----------------------------------------------------------------- */

fl_status fl_job_dim_of(const fl_job *j, int table, uint32_t *dim)
{
    if (table < 0 || (size_t)table >= j->dist->tables.len)
        FL_FAIL(FL_ERR_NOTFOUND,
                "table %d was not declared; there are %zu, counted from 0",
                table, j->dist->tables.len);
    *dim = j->dist->tables.data[table].dim;
    return FL_OK;
}

static fl_status begin_pull(fl_job_request *r, const fl_job_pull_item *items,
                            size_t n)
{
    uint32_t *dims = fl_alloc(n * sizeof(*dims));
    fl_status st = FL_OK;

    for (size_t i = 0; !st && i < n; i++)
        st = fl_job_dim_of(r->job, items[i].table, &dims[i]);
    if (!st)
        st = fl_client_pull(client_of(r), items, dims, n,
                            (fl_ending){ on_done, r });
    fl_free(dims);
    return st;
}

/* The width of a push, which may say it, too. */
static fl_status find_push_dim(const fl_job *j, const fl_job_push_item *item,
                               uint32_t *dim)
{
    FL_TRY(fl_job_dim_of(j, item->table, dim));
    if (item->rows.dim && item->rows.dim != *dim)
        FL_FAIL(FL_ERR_INVAL, "table %d has rows of %u, not of %u", item->table,
                *dim, item->rows.dim);
    return FL_OK;
}

static fl_status begin_push(fl_job_request *r, const fl_job_push_item *items,
                            size_t n)
{
    uint32_t *dims = fl_alloc(n * sizeof(*dims));
    fl_status st = FL_OK;

    for (size_t i = 0; !st && i < n; i++)
        st = find_push_dim(r->job, &items[i], &dims[i]);
    if (!st)
        st = fl_client_push(client_of(r), items, dims, n,
                            (fl_ending){ on_done, r });
    fl_free(dims);
    return st;
}

fl_status fl_job_pull_many(fl_job *j, const fl_job_pull_item *items, size_t n)
{
    fl_job_request r;

    FL_TRY(fl_job_ready(j));
    request_init(&r, j);
    return wait_for(&r, begin_pull(&r, items, n));
}

fl_status fl_job_push_many(fl_job *j, const fl_job_push_item *items, size_t n)
{
    fl_job_request r;

    FL_TRY(fl_job_ready(j));
    request_init(&r, j);
    return wait_for(&r, begin_push(&r, items, n));
}

fl_status fl_job_pull(fl_job *j, int table, const uint64_t *keys, size_t n,
                      fl_pull_kind kind, float *out)
{
    return fl_job_pull_many(j, &(fl_job_pull_item){ table, keys, n, kind, out },
                            1);
}

fl_status fl_job_push(fl_job *j, int table, const fl_rows *rows)
{
    return fl_job_push_many(j, &(fl_job_push_item){ table, *rows }, 1);
}

/* Keeps a request that has begun, and lets it leave; frees one that has not. */
static fl_status hand_out(fl_job_request *r, fl_status st, fl_job_request **out)
{
    if (!st) {
        fl_poller_flush(fl_client_poller(client_of(r)));
        *out = r;
        return FL_OK;
    }
    st = wait_for(r, st);
    fl_free(r);
    return st;
}

fl_status fl_job_pull_begin(fl_job_request **out, fl_job *j,
                            const fl_job_pull_item *items, size_t n)
{
    fl_job_request *r;

    FL_TRY(fl_job_ready(j));
    r = fl_alloc(sizeof(*r));
    request_init(r, j);
    return hand_out(r, begin_pull(r, items, n), out);
}

fl_status fl_job_push_begin(fl_job_request **out, fl_job *j,
                            const fl_job_push_item *items, size_t n)
{
    fl_job_request *r;

    FL_TRY(fl_job_ready(j));
    r = fl_alloc(sizeof(*r));
    request_init(r, j);
    return hand_out(r, begin_push(r, items, n), out);
}

fl_status fl_job_wait(fl_job_request *r)
{
    fl_status st = wait_for(r, FL_OK);

    fl_free(r);
    return st;
}

fl_status fl_job_assign(fl_job *j, int table, const uint64_t *keys, size_t n,
                        const float *values)
{
    fl_job_request r;
    uint32_t dim;

    FL_TRY(fl_job_ready(j));
    FL_TRY(fl_job_dim_of(j, table, &dim));
    request_init(&r, j);
    return wait_for(
        &r, fl_client_assign(client_of(&r),
                             &(fl_client_values){ table, dim, keys, n, values },
                             (fl_ending){ on_done, &r }));
}

/* --- dense parameters ----------------------------------------------------- */

static fl_status find_blocks(const fl_job *j, int dense, float *values,
                             fl_cluster_blocks *out)
{
    if (dense < 0 || (size_t)dense >= j->dist->params.len)
        FL_FAIL(FL_ERR_NOTFOUND,
                "parameter %d was not declared; there are %zu, counted from 0",
                dense, j->dist->params.len);
    fl_cluster_blocks_add(out, j->cluster, &j->dist->params.data[dense],
                          values);
    return FL_OK;
}

fl_status fl_job_pull_dense(fl_job *j, int dense, float *out)
{
    fl_cluster_blocks b = { 0 };
    fl_job_request r;
    fl_status st;

    FL_TRY(fl_job_ready(j));
    FL_TRY(find_blocks(j, dense, out, &b));
    request_init(&r, j);
    st = wait_for(&r, fl_client_pull_blocks(client_of(&r), b.blocks.data,
                                            b.data.data, b.blocks.len,
                                            (fl_ending){ on_done, &r }));
    fl_cluster_blocks_release(&b);
    return st;
}

static fl_status send_blocks(fl_job *j, uint16_t type, int dense,
                             const float *values)
{
    fl_cluster_blocks b = { 0 };
    fl_job_request r;
    fl_status st;

    FL_TRY(fl_job_ready(j));
    FL_TRY(find_blocks(j, dense, (float *)(uintptr_t)values, &b));
    request_init(&r, j);
    st = wait_for(&r, fl_client_send_blocks(client_of(&r), type, b.blocks.data,
                                            (const float *const *)b.data.data,
                                            b.blocks.len,
                                            (fl_ending){ on_done, &r }));
    fl_cluster_blocks_release(&b);
    return st;
}

fl_status fl_job_push_dense(fl_job *j, int dense, const float *grad)
{
    return send_blocks(j, FL_MSG_PUSH_DENSE, dense, grad);
}

fl_status fl_job_assign_dense(fl_job *j, int dense, const float *values)
{
    return send_blocks(j, FL_MSG_ASSIGN_DENSE, dense, values);
}
