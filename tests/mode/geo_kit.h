/* geo_kit.h - jobs of mode geo: servers over real sockets, and trainers whose
 * backend a test drives by hand, as operators would.
 *
 * What servers hold is written down here: a table `emb`, and a dense parameter
 * `w` in two blocks. Nothing outlives a test: its alarm clock ends it.
 */
#ifndef FL_TESTS_MODE_GEO_KIT_H
#define FL_TESTS_MODE_GEO_KIT_H

#include "../ps/job_kit.h"
#include "../ps/pack_kit.h"
#include "servers_kit.h"

#include "dist/job.h"
#include "base/alloc.h"
#include "mode/mode.h"
#include "mode/mode_local.h"
#include "ops/ops.h"
#include "ps/options.h"
#include "../make.h"

#define GEO_DIM 3
#define GEO_HALF 40
#define GEO_FLOATS (2 * GEO_HALF)
#define GEO_SEED 11
#define GEO_INIT "dim=3 init=uniform(-1,1)"
#define GEO_SERVER_TABLE GEO_INIT " optimizer=sgd"

/* A block of GEO_HALF floats to which what comes is added. */
#define GEO_START(name)                                                        \
    "var " name " : f32[40] persist\n"                                         \
    "op fill_constant () -> (Out=" name ") {shape=[40], value=0.3}\n"
#define GEO_UPDATE(number, name)                                               \
    "block " number " parent 0\n"                                              \
    "  var " name "@GRAD : f32[40] data\n"                                     \
    "  op elementwise_add (X=" name ", Y=" name "@GRAD) -> (Out=" name         \
    ") @optimize\n"                                                            \
    "end\n"
#define GEO_BLOCKS                                                             \
    GEO_START("w.block0")                                                      \
    GEO_START("w.block1")                                                      \
    SERVE_TEXT("1,2")                                                          \
    GEO_UPDATE("1", "w.block0")                                                \
    GEO_UPDATE("2", "w.block1")

/* --- servers ------------------------------------------------------------ */

typedef struct geo_cluster {
    fl_ctx *ctx; /* has the settings */
    fl_endpoints net;
    int n_trainers;
    fl_server *servers[JOB_SERVERS];
} geo_cluster;

static inline void geo_cluster_init(geo_cluster *t, int n_servers,
                                    int n_trainers, const char *settings)
{
    char addresses[JOB_ADDRESSES];

    alarm(JOB_HANGS_S);
    *t = (geo_cluster){ .ctx = make_ctx(), .n_trainers = n_trainers };
    assert_ok(set_all(t->ctx, "server_threads=1"));
    assert_ok(set_all(t->ctx, settings));
    free_addresses(addresses, n_servers);
    assert_ok(fl_endpoints_open(&t->net, &t->ctx->conf, addresses));
    for (int i = 0; i < n_servers; i++) {
        fl_server_options o = fl_server_options_of(&t->ctx->conf);

        o.servers = (const char *const *)t->net.servers.data;
        o.n_servers = n_servers;
        o.n_trainers = n_trainers;
        o.rank = i;
        o.ops = &fl_ops;
        assert_ok(fl_server_new(&t->servers[i], t->net.net, NULL, &o));
    }
}

static inline void geo_cluster_close_servers(geo_cluster *t)
{
    for (size_t i = 0; i < t->net.servers.len; i++) {
        fl_server_free(t->servers[i]);
        t->servers[i] = NULL;
    }
}

/* All trainers have left, and the servers have come to a good end. */
static inline void geo_cluster_expect_over(geo_cluster *t)
{
    for (size_t i = 0; i < t->net.servers.len; i++)
        assert_ok(fl_server_wait(t->servers[i]));
}

static inline void geo_cluster_release(geo_cluster *t)
{
    geo_cluster_close_servers(t);
    fl_endpoints_close(&t->net);
    fl_ctx_free(t->ctx);
    alarm(0);
}

/* What all servers counted of pushes. */
static inline fl_store_counts pushes_of(const geo_cluster *t)
{
    fl_store_counts sum = { 0 };

    for (size_t i = 0; i < t->net.servers.len; i++)
        fl_stats_add(
            &fl_store_counts_list, &sum,
            fl_store_count(fl_server_store(t->servers[i]), FL_MSG_PUSH));
    return sum;
}

static inline uint64_t push_requests(const geo_cluster *t)
{
    fl_store_counts counts = pushes_of(t);

    return fl_stat_get(&counts.requests);
}

static inline uint64_t pushed_rows(const geo_cluster *t)
{
    fl_store_counts counts = pushes_of(t);

    return fl_stat_get(&counts.pushed_rows);
}

/* --- what the passes would have written --------------------------------- */

static inline fl_program *program_of(const char *text)
{
    fl_program *p;

    assert_ok(fl_program_parse(text, &fl_ops, &p));
    p->seed = GEO_SEED;
    return p;
}

static inline void add_block(fl_dist *d, const char *name, int number)
{
    fl_dist_block b = { .name = name,
                        .from_row = (uint64_t)number * GEO_HALF,
                        .n_rows = GEO_HALF,
                        .from = (uint64_t)number * GEO_HALF,
                        .n = GEO_HALF,
                        .server = number % d->config.n_servers,
                        .number = (uint32_t)number };

    fl_vec_push(&d->blocks, b);
}

/* settings NULL: no table. */
static inline void dist_init(fl_dist *d, const geo_cluster *t, int rank,
                             const char *settings)
{
    fl_str startup = { 0 };

    *d = (fl_dist){ .config = { .mode = "geo",
                                .servers =
                                    (const char *const *)t->net.servers.data,
                                .n_servers = (int)t->net.servers.len,
                                .n_trainers = t->n_trainers,
                                .rank = rank,
                                .server_adds = true } };
    if (settings) {
        fl_dist_table table = { "emb", GEO_SERVER_TABLE, GEO_DIM };

        fl_vec_push(&d->tables, table);
        fl_str_addf(&startup,
                    "op init_table () -> () {table=emb, settings=\"%s\"}\n",
                    settings);
    }
    fl_vec_push(&d->params,
                ((fl_dist_param){ .name = "w",
                                  .shape = { .rank = 1, .dim = { GEO_FLOATS } },
                                  .n = GEO_FLOATS,
                                  .n_blocks = 2 }));
    add_block(d, "w.block0", 0);
    add_block(d, "w.block1", 1);
    add_servers(d, settings ? "seed 11\n" TABLE_TEXT("emb", GEO_SERVER_TABLE)
                                  GEO_BLOCKS
                            : "seed 11\n" GEO_BLOCKS);
    d->main = program_of("");
    d->startup = program_of(fl_str_text(&startup));
    fl_str_release(&startup);
}

static inline void dist_release(fl_dist *d)
{
    fl_vec_release(&d->params);
    fl_vec_release(&d->blocks);
    fl_vec_release(&d->tables);
    release_servers(d);
    fl_program_free(d->main);
    fl_program_free(d->startup);
}

/* --- trainers ----------------------------------------------------------- */

typedef struct trainer {
    fl_dist dist;
    fl_scope scope;
    const char *settings; /* of its table; NULL: it has none */
    fl_cluster *cluster;  /* the backend's */
    fl_comm *comm;
    float w[GEO_FLOATS];
} trainer;

static inline void trainer_init(trainer *r, geo_cluster *t, int rank,
                                const char *settings)
{
    *r = (trainer){ .settings = settings };
    dist_init(&r->dist, t, rank, settings);
    fl_scope_init(&r->scope);
    r->cluster = fl_cluster_new(&(fl_cluster_args){ .dist = &r->dist,
                                                    .net = t->net.net,
                                                    .may_coalesce = true,
                                                    .conf = &t->ctx->conf,
                                                    .scope = &r->scope });
    r->comm = fl_mode_geo.open(r->cluster);
}

static inline void trainer_release(trainer *r)
{
    fl_comm_free(r->comm);
    fl_scope_release(&r->scope);
    dist_release(&r->dist);
}

/* The way back of a request that waits. */
typedef struct bell {
    fl_waker waker;
    fl_mutex mu;
    fl_cond cond;
    bool has_rung;
} bell;

static inline void ring(fl_waker *w)
{
    bell *b = (bell *)w;

    fl_lock(&b->mu);
    b->has_rung = true;
    fl_cond_wake_all(&b->cond);
    fl_unlock(&b->mu);
}

static inline fl_status await(bell *b, const fl_comm_answer *a)
{
    fl_lock(&b->mu);
    while (!b->has_rung)
        fl_cond_wait(&b->cond, &b->mu);
    fl_unlock(&b->mu);
    return fl_comm_result(a);
}

typedef fl_status (*call_fn)(fl_comm *c, fl_comm_call *r);

static inline fl_status call(trainer *r, call_fn fn, fl_param_values *v,
                             size_t n)
{
    fl_comm_call q = { .values = v, .n = n, .samples = 1 };
    bell b = { .waker = { ring } };
    fl_status st;

    fl_mutex_init(&b.mu);
    fl_cond_init(&b.cond);
    fl_comm_begin(&q.answer, &b.waker);
    st = fn(r->comm, &q);
    if (st == FL_PENDING)
        st = await(&b, &q.answer);
    fl_cond_release(&b.cond);
    fl_mutex_release(&b.mu);
    return st;
}

/* The startup program. */
static inline fl_status trainer_start(trainer *r)
{
    fl_param_values v = { "w", r->w, GEO_FLOATS };

    if (r->settings)
        FL_TRY(r->comm->life->declare(r->comm, "emb", r->settings, GEO_SEED));
    return call(r, r->comm->data->recv, &v, 1);
}

static inline fl_comm_request rows_request(const uint64_t *keys, size_t n,
                                           float *rows)
{
    return (fl_comm_request){ .table = "emb",
                              .rows = { .keys = keys,
                                        .values = rows,
                                        .n = n,
                                        .lr = 0.5,
                                        .merged = true,
                                        .dim = GEO_DIM,
                                        .scale = 1 },
                              .out = rows,
                              .worker = { .n_parts = 1, .scale = 1 } };
}

static inline fl_status push(fl_comm *c, const uint64_t *keys, size_t n,
                             float *grads)
{
    fl_comm_request q = rows_request(keys, n, grads);

    return c->data->push(c, &q);
}

static inline fl_status pull(fl_comm *c, const uint64_t *keys, size_t n,
                             float *out)
{
    fl_comm_request q = rows_request(keys, n, out);

    return c->data->pull(c, &q);
}

/* The end of a batch. */
static inline fl_status reach_barrier(trainer *r)
{
    fl_param_values v = { "w", r->w, GEO_FLOATS };

    FL_TRY(call(r, r->comm->data->send, &v, 1));
    return call(r, r->comm->data->barrier, NULL, 0);
}

static inline fl_status stop(trainer *r)
{
    return r->comm->life->stop(r->comm);
}

/* --- members in threads ------------------------------------------------- */

typedef struct task {
    fl_status (*fn)(trainer *r);
    trainer *trainer;
    fl_err err;
} task;

static inline void run_task(void *arg)
{
    task *k = arg;

    fl_err_save(&k->err, k->fn(k->trainer));
}

/* What waits for other trainers is done by all of them at once. */
static inline void at_once(trainer *r, int n, fl_status (*fn)(trainer *r))
{
    fl_thread *threads[JOB_TRAINERS];
    task tasks[JOB_TRAINERS];

    for (int i = 0; i < n; i++) {
        tasks[i] = (task){ .fn = fn, .trainer = &r[i] };
        assert_ok(fl_thread_start(&threads[i], "trainer", run_task, &tasks[i]));
    }
    for (int i = 0; i < n; i++)
        fl_thread_join(threads[i]);
    for (int i = 0; i < n; i++)
        if (tasks[i].err.status)
            fail_msg("trainer %d: %s", i, tasks[i].err.text);
}

/* Servers wait a while for trainers that have left and stay connected. */
static inline void end_job(geo_cluster *t, trainer *r, int n)
{
    at_once(r, n, stop);
    for (int i = 0; i < n; i++)
        trainer_release(&r[i]);
    geo_cluster_expect_over(t);
    geo_cluster_release(t);
}

/* --- what the servers have, also when the job is over --------------------- */

static inline void *room_at(void *arg, uint64_t len)
{
    (void)len;
    return arg;
}

/* The values that a request asks for, which its sender knows the number of. */
static inline void ask_store(const geo_cluster *t, int server, uint16_t type,
                             fl_pack *p, float *out)
{
    fl_store_reply reply = { .reserve = room_at, .arg = out };

    assert_ok(fl_store_request(fl_server_store(t->servers[server]),
                               &(fl_store_call){ .type = type,
                                                 .payload = { p->data, p->len },
                                                 .incarnation = 0 },
                               &reply));
    fl_pack_release(p);
}

static inline void server_rows(const geo_cluster *t, const uint64_t *keys,
                               size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) {
        fl_rows_item it = { .flags = FL_PULL_ONLY, .rows.n = 1 };
        fl_pack p = { 0 };

        pack_rows_head(&p, FL_MSG_PULL, &it, 1);
        fl_pack_u64(&p, keys[i]);
        ask_store(t, fl_client_server_of((int)t->net.servers.len, keys[i]),
                  FL_MSG_PULL, &p, out + i * GEO_DIM);
    }
}

static inline void server_dense(const geo_cluster *t, float *out)
{
    for (uint32_t i = 0; i < 2; i++) {
        fl_pack p = { 0 };

        pack_blocks_head(&p, FL_MSG_PULL_DENSE, &i, 1);
        ask_store(t, (int)(i % t->net.servers.len), FL_MSG_PULL_DENSE, &p,
                  out + i * GEO_HALF);
    }
}

#endif
