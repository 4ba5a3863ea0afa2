/* job.c - parameter servers of the public API: calls that wait
 * (ps/client/call_sync.h), over a client that does not (ps/client/client.h).
 */
#include "flotilla/job.h"

#include <inttypes.h>

#include "dist/job.h"
#include "base/args.h"
#include "dist/job_programs.h"
#include "base/thread.h"
#include "ps/declare.h"
#include "ps/options.h"
#include "ps/client/call_sync.h"
#include "table/table.h"

typedef struct declared_block {
    char *name;
    fl_client_block b;
} declared_block;

typedef struct declared_table {
    char *name;
    uint32_t dim;
} declared_table;

struct fl_job {
    fl_ctx *ctx;
    fl_endpoints net;
    fl_client *client;
    _Atomic uint64_t generation; /* of the next barrier */
    atomic_bool is_started;

    fl_mutex mu;
    fl_cond idle;
    size_t n_open; /* requests under way; guarded by mu */
    /* Guarded by mu until the start; afterwards they do not change. */
    fl_job_programs *programs;
    FL_VEC(declared_table) tables;
    FL_VEC(declared_block) blocks;
};

struct fl_job_request {
    fl_job *p;
    fl_latch latch;
};

/* --- waiting -------------------------------------------------------------- */

static void open_request(fl_job *p)
{
    fl_lock(&p->mu);
    p->n_open++;
    fl_unlock(&p->mu);
}

static void close_request(fl_job *p)
{
    fl_lock(&p->mu);
    if (--p->n_open == 0)
        fl_cond_wake_all(&p->idle);
    fl_unlock(&p->mu);
}

static void request_init(fl_job_request *r, fl_job *p)
{
    r->p = p;
    fl_latch_init(&r->latch, fl_client_poller(p->client));
    fl_latch_add(&r->latch);
    open_request(p);
}

/* For fl_client_done. Whoever waits may free the request meanwhile. */
static void on_done(void *arg, fl_status st)
{
    fl_job_request *r = arg;
    fl_job *p = r->p;

    fl_latch_done(&r->latch, st);
    close_request(p);
}

/* st is what the call that began the request gave: after an error nobody will
   call on_done. */
static fl_status wait_for(fl_job_request *r, fl_status st)
{
    if (st)
        close_request(r->p);
    else
        st = fl_latch_wait(&r->latch);
    fl_latch_release(&r->latch);
    return st;
}

/* --- connecting ----------------------------------------------------------- */

static fl_status check_args(const fl_job_args *a)
{
    int n = a->n_trainers ? a->n_trainers : 1;

    if (a->listen)
        FL_FAIL(FL_ERR_INVAL,
                "trainer %d: listen=%s is for servers, a trainer does not "
                "listen",
                a->rank, a->listen);
    if (a->rank < 0 || a->rank >= n)
        FL_FAIL(FL_ERR_INVAL,
                "trainer %d: the job has %d trainers, with ranks from 0 to %d",
                a->rank, n, n - 1);
    return FL_OK;
}

static fl_status connect_client(fl_job *p, const fl_job_args *a)
{
    fl_client_options o = fl_client_options_of(&p->ctx->conf);

    o.servers = (const char *const *)p->net.servers.data;
    o.n_servers = (int)p->net.servers.len;
    o.n_trainers = a->n_trainers ? a->n_trainers : 1;
    o.rank = a->rank;
    return fl_err_ctx(fl_client_new(&p->client, p->net.net, NULL, &o),
                      "trainer %d", a->rank);
}

static void free_ps(fl_job *p)
{
    fl_client_free(p->client);
    fl_job_programs_free(p->programs);
    fl_endpoints_close(&p->net);
    for (size_t i = 0; i < p->tables.len; i++)
        fl_free(p->tables.data[i].name);
    for (size_t i = 0; i < p->blocks.len; i++)
        fl_free(p->blocks.data[i].name);
    fl_vec_release(&p->tables);
    fl_vec_release(&p->blocks);
    fl_cond_release(&p->idle);
    fl_mutex_release(&p->mu);
    fl_free(p);
}

fl_status fl_job_connect_with(fl_job **out, fl_ctx *c, const fl_job_args *args)
{
    fl_job_args a;
    fl_job *p;
    fl_err why;
    fl_status st;

    FL_TRY(FL_ARGS_READ(fl_job_args, &a, args));
    FL_TRY(check_args(&a));
    p = fl_alloc(sizeof(*p));
    p->ctx = c;
    fl_mutex_init(&p->mu);
    fl_cond_init(&p->idle);
    st = fl_endpoints_open(&p->net, &c->conf, a.servers);
    if (!st) {
        p->programs = fl_job_programs_new(c, p->net.servers.len);
        st = connect_client(p, &a);
    }
    if (st) {
        fl_err_save(&why, st);
        free_ps(p);
        return fl_err_restore(&why);
    }
    *out = p;
    return FL_OK;
}

fl_status fl_job_close(fl_job *p)
{
    fl_status st;
    fl_err why;

    if (!p)
        return FL_OK;
    fl_lock(&p->mu);
    while (p->n_open)
        fl_cond_wait(&p->idle, &p->mu);
    fl_unlock(&p->mu);
    st = fl_client_leave(p->client, FL_WAIT);
    fl_err_save(&why, st);
    free_ps(p);
    return st ? fl_err_restore(&why) : FL_OK;
}

/* --- declaring ------------------------------------------------------------ */

static fl_status check_declare(const fl_job *p, const char *what,
                               const char *name)
{
    if (atomic_load(&p->is_started))
        FL_FAIL(FL_ERR_INVAL, "%s %s: it is declared after fl_job_start", what,
                name);
    return fl_err_ctx(fl_check_name(name), "%s", what);
}

static fl_status add_table(fl_job *p, const char *name, const char *settings,
                           int *table)
{
    declared_table t = { 0 };
    fl_table_config config;

    FL_TRY(check_declare(p, "table", name));
    for (size_t i = 0; i < p->tables.len; i++)
        if (!strcmp(p->tables.data[i].name, name))
            FL_FAIL(FL_ERR_EXISTS, "table %s is declared twice", name);
    if (p->tables.len >= FL_DECLARED_MAX)
        FL_FAIL(FL_ERR_INVAL, "table %s is one too many: %d can be declared",
                name, FL_DECLARED_MAX);
    FL_TRY(
        fl_table_config_parse(&config, name, settings, p->ctx->startup->seed));
    t.dim = config.dim;
    FL_TRY(fl_job_programs_add_table(p->programs, name, settings));
    t.name = fl_strdup(name);
    fl_vec_push(&p->tables, t);
    *table = (int)p->tables.len - 1;
    return FL_OK;
}

fl_status fl_job_declare_table(fl_job *p, const char *name,
                               const char *settings, int *table)
{
    fl_status st;

    fl_lock(&p->mu);
    st = add_table(p, name, settings, table);
    fl_unlock(&p->mu);
    return st;
}

static fl_status check_block(const fl_job *p, const char *name, size_t n)
{
    uint64_t most = (uint64_t)p->ctx->conf.max_message_bytes / sizeof(float);

    FL_TRY(check_declare(p, "block", name));
    for (size_t i = 0; i < p->blocks.len; i++)
        if (!strcmp(p->blocks.data[i].name, name))
            FL_FAIL(FL_ERR_EXISTS, "block %s is declared twice", name);
    if (p->blocks.len >= FL_DECLARED_MAX)
        FL_FAIL(FL_ERR_INVAL, "block %s is one too many: %d can be declared",
                name, FL_DECLARED_MAX);
    /* A message has a head as well. */
    if (n < 1 || n > most - 16)
        FL_FAIL(FL_ERR_INVAL,
                "block %s of %zu floats: it has at least one, and fits into a "
                "message (max_message_bytes is %" PRId64 ")",
                name, n, p->ctx->conf.max_message_bytes);
    return FL_OK;
}

static fl_status add_block(fl_job *p, const fl_job_block *block, int *out)
{
    declared_block d = {
        .b = { .server = fl_client_server_of_block((int)p->net.servers.len,
                                                   block->name),
               .n = block->n },
    };

    FL_TRY(check_block(p, block->name, block->n));
    FL_TRY(fl_err_ctx(
        fl_job_programs_add_block(p->programs, d.b.server, block, &d.b.number),
        "block %s", block->name));
    d.name = fl_strdup(block->name);
    fl_vec_push(&p->blocks, d);
    *out = (int)p->blocks.len - 1;
    return FL_OK;
}

fl_status fl_job_declare_dense(fl_job *p, const char *name, size_t n,
                               const char *optimizer, const char *settings,
                               int *block)
{
    fl_status st;

    fl_lock(&p->mu);
    st = add_block(p, &(fl_job_block){ name, n, optimizer, settings }, block);
    fl_unlock(&p->mu);
    return st;
}

static fl_status meet(fl_job *p, const char *name, uint64_t generation)
{
    fl_status st;

    open_request(p);
    st = fl_client_barrier(p->client, name, generation, 0, NULL, FL_WAIT);
    close_request(p);
    return st;
}

static fl_status declare(fl_job *p)
{
    const char *const *texts;
    fl_status st;

    FL_TRY(fl_job_programs_print(p->programs, &texts));
    open_request(p);
    st = fl_client_declare_all(p->client, texts, (int)p->net.servers.len);
    close_request(p);
    return st;
}

fl_status fl_job_start(fl_job *p)
{
    if (atomic_exchange(&p->is_started, true))
        FL_FAIL(FL_ERR_INVAL, "fl_job_start was called before");
    FL_TRY(declare(p));
    return meet(p, "start", 1);
}

/* --- rows ----------------------------------------------------------------- */

static fl_status check_started(const fl_job *p)
{
    if (!atomic_load(&p->is_started))
        FL_FAIL(FL_ERR_INVAL, "call fl_job_start first");
    return FL_OK;
}

static fl_status find_dim(const fl_job *p, int table, uint32_t *dim)
{
    FL_TRY(check_started(p));
    if (table < 0 || (size_t)table >= p->tables.len)
        FL_FAIL(FL_ERR_NOTFOUND,
                "table %d was not declared; there are %zu, counted from 0",
                table, p->tables.len);
    *dim = p->tables.data[table].dim;
    return FL_OK;
}

static fl_status begin_pull(fl_job_request *r, const fl_job_pull_item *items,
                            size_t n)
{
    uint32_t *dims = fl_alloc(n * sizeof(*dims));
    fl_status st = check_started(r->p);

    for (size_t i = 0; !st && i < n; i++)
        st = find_dim(r->p, items[i].table, &dims[i]);
    if (!st)
        st = fl_client_pull(r->p->client, items, dims, n,
                            (fl_ending){ on_done, r });
    fl_free(dims);
    return st;
}

/* The width of a push, which may say it, too. */
static fl_status find_push_dim(const fl_job *p, const fl_job_push_item *item,
                               uint32_t *dim)
{
    FL_TRY(find_dim(p, item->table, dim));
    if (item->rows.dim && item->rows.dim != *dim)
        FL_FAIL(FL_ERR_INVAL, "table %d has rows of %u, not of %u", item->table,
                *dim, item->rows.dim);
    return FL_OK;
}

static fl_status begin_push(fl_job_request *r, const fl_job_push_item *items,
                            size_t n)
{
    uint32_t *dims = fl_alloc(n * sizeof(*dims));
    fl_status st = check_started(r->p);

    for (size_t i = 0; !st && i < n; i++)
        st = find_push_dim(r->p, &items[i], &dims[i]);
    if (!st)
        st = fl_client_push(r->p->client, items, dims, n,
                            (fl_ending){ on_done, r });
    fl_free(dims);
    return st;
}

fl_status fl_job_pull_many(fl_job *p, const fl_job_pull_item *items, size_t n)
{
    fl_job_request r;

    request_init(&r, p);
    return wait_for(&r, begin_pull(&r, items, n));
}

fl_status fl_job_push_many(fl_job *p, const fl_job_push_item *items, size_t n)
{
    fl_job_request r;

    request_init(&r, p);
    return wait_for(&r, begin_push(&r, items, n));
}

fl_status fl_job_pull(fl_job *p, int table, const uint64_t *keys, size_t n,
                      fl_pull_kind kind, float *out)
{
    return fl_job_pull_many(p, &(fl_job_pull_item){ table, keys, n, kind, out },
                            1);
}

fl_status fl_job_push(fl_job *p, int table, const fl_rows *rows)
{
    return fl_job_push_many(p, &(fl_job_push_item){ table, *rows }, 1);
}

/* Keeps a request that has begun; frees one that has not. */
static fl_status hand_out(fl_job_request *r, fl_status st, fl_job_request **out)
{
    if (!st) {
        *out = r;
        return FL_OK;
    }
    st = wait_for(r, st);
    fl_free(r);
    return st;
}

fl_status fl_job_pull_begin(fl_job *p, const fl_job_pull_item *items, size_t n,
                            fl_job_request **out)
{
    fl_job_request *r = fl_alloc(sizeof(*r));

    request_init(r, p);
    return hand_out(r, begin_pull(r, items, n), out);
}

fl_status fl_job_push_begin(fl_job *p, const fl_job_push_item *items, size_t n,
                            fl_job_request **out)
{
    fl_job_request *r = fl_alloc(sizeof(*r));

    request_init(r, p);
    return hand_out(r, begin_push(r, items, n), out);
}

fl_status fl_job_wait(fl_job_request *r)
{
    fl_status st = wait_for(r, FL_OK);

    fl_free(r);
    return st;
}

fl_status fl_job_assign(fl_job *p, int table, const uint64_t *keys, size_t n,
                        const float *values)
{
    fl_job_request r;
    uint32_t dim;

    FL_TRY(find_dim(p, table, &dim));
    request_init(&r, p);
    return wait_for(
        &r, fl_client_assign(p->client,
                             &(fl_client_values){ table, dim, keys, n, values },
                             (fl_ending){ on_done, &r }));
}

/* --- dense blocks --------------------------------------------------------- */

static fl_status find_block(const fl_job *p, int block,
                            const fl_client_block **out)
{
    FL_TRY(check_started(p));
    if (block < 0 || (size_t)block >= p->blocks.len)
        FL_FAIL(FL_ERR_NOTFOUND,
                "block %d was not declared; there are %zu, counted from 0",
                block, p->blocks.len);
    *out = &p->blocks.data[block].b;
    return FL_OK;
}

fl_status fl_job_pull_dense(fl_job *p, int block, float *out)
{
    const fl_client_block *b;
    fl_job_request r;

    FL_TRY(find_block(p, block, &b));
    request_init(&r, p);
    return wait_for(&r, fl_client_pull_blocks(p->client, b, &out, 1,
                                              (fl_ending){ on_done, &r }));
}

static fl_status send_block(fl_job *p, uint16_t type, int block,
                            const float *values)
{
    const fl_client_block *b;
    fl_job_request r;

    FL_TRY(find_block(p, block, &b));
    request_init(&r, p);
    return wait_for(&r, fl_client_send_blocks(p->client, type, b, &values, 1,
                                              (fl_ending){ on_done, &r }));
}

fl_status fl_job_push_dense(fl_job *p, int block, const float *grad)
{
    return send_block(p, FL_MSG_PUSH_DENSE, block, grad);
}

fl_status fl_job_assign_dense(fl_job *p, int block, const float *values)
{
    return send_block(p, FL_MSG_ASSIGN_DENSE, block, values);
}

/* --- whole tables --------------------------------------------------------- */

fl_status fl_job_clear(fl_job *p, int table)
{
    fl_job_request r;
    uint32_t dim;

    FL_TRY(find_dim(p, table, &dim));
    request_init(&r, p);
    return wait_for(&r, fl_client_clear(p->client, (uint32_t)table,
                                        (fl_ending){ on_done, &r }));
}

fl_status fl_job_shrink(fl_job *p, int table, int unseen_days,
                        uint64_t *n_removed)
{
    uint64_t sum = 0;
    fl_job_request r;
    uint32_t dim;

    FL_TRY(find_dim(p, table, &dim));
    if (unseen_days < 0)
        FL_FAIL(FL_ERR_INVAL, "table %s: %d unseen days are below 0",
                p->tables.data[table].name, unseen_days);
    request_init(&r, p);
    FL_TRY(wait_for(&r, fl_client_shrink(p->client, (uint32_t)table,
                                         (uint32_t)unseen_days, &sum,
                                         (fl_ending){ on_done, &r })));
    if (n_removed)
        *n_removed = sum;
    return FL_OK;
}

fl_status fl_job_stats(fl_job *p, char **text)
{
    fl_str all = { 0 };
    fl_job_request r;
    fl_status st;

    FL_TRY(check_started(p));
    request_init(&r, p);
    st = wait_for(&r,
                  fl_client_stats(p->client, &all, (fl_ending){ on_done, &r }));
    if (st)
        fl_str_release(&all);
    else
        *text = fl_str_take(&all);
    return st;
}

fl_status fl_job_hash(fl_job *p, uint64_t *hash)
{
    uint64_t sum = 0;
    fl_job_request r;

    FL_TRY(check_started(p));
    request_init(&r, p);
    FL_TRY(wait_for(
        &r, fl_client_hash(p->client, &sum, (fl_ending){ on_done, &r })));
    *hash = sum;
    return FL_OK;
}

/* --- together ------------------------------------------------------------- */

fl_status fl_job_barrier(fl_job *p)
{
    FL_TRY(check_started(p));
    return meet(p, "barrier", atomic_fetch_add(&p->generation, 1) + 1);
}

fl_status fl_job_step(fl_job *p, uint64_t add, uint64_t *step)
{
    fl_job_request r;
    uint64_t now;

    FL_TRY(check_started(p));
    request_init(&r, p);
    FL_TRY(wait_for(
        &r, fl_client_step(p->client, add, &now, (fl_ending){ on_done, &r })));
    fl_client_set_step(p->client, now);
    if (step)
        *step = now;
    return FL_OK;
}

fl_status fl_job_report(fl_job *p, const char *phase, uint64_t samples,
                        double loss, double auc)
{
    fl_report_request q = { .samples = samples, .loss = loss, .auc = auc };
    fl_job_request r;

    FL_TRY(check_started(p));
    fl_msg_text(q.phase, phase);
    request_init(&r, p);
    return wait_for(
        &r, fl_client_report(p->client, &q, (fl_ending){ on_done, &r }));
}
