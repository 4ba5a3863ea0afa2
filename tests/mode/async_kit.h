/* async_kit.h - trainers of mode async, and their servers, which are threads of
 * this process.
 *
 * What the passes would make of a program is written by hand: a table emb of
 * rows of 2, a parameter w in two blocks and a parameter b, all of them under
 * sgd. Gradients and rates are such that every sum is exact, so that the result
 * does not depend on who is faster.
 */
#ifndef FL_TESTS_MODE_ASYNC_KIT_H
#define FL_TESTS_MODE_ASYNC_KIT_H

#include "../ps/job_kit.h"
#include "servers_kit.h"

#include "wait_kit.h"

#include "mode/mode.h"
#include "ops/ops.h"
#include "rpc/stream/socket.h"

#define N_W 4
#define N_B 1
#define DIM 2

#define EMB "dim=2 init=constant(1) optimizer=sgd"
#define SERVERS                                                                \
    TABLE_TEXT("emb", EMB)                                                     \
    SGD_START("w.block0", "3")                                                 \
    SGD_START("w.block1", "1")                                                 \
    SGD_START("b", "1")                                                        \
    SERVE_TEXT("1,2,3")                                                        \
    SGD_UPDATE("1", "w.block0", "3")                                           \
    SGD_UPDATE("2", "w.block1", "1")                                           \
    SGD_UPDATE("3", "b", "1")

/* Merges wait for more until they are full or training stops. */
#define PATIENT "communicator_send_wait_times=100000 "
#define QUICK "communicator_send_wait_times=0 "

/* --- servers -------------------------------------------------------------- */

static inline void start_servers(job *j, int n_servers, int n_trainers,
                                 const char *settings)
{
    job_init(j, n_servers, n_trainers, settings, NULL);
    for (int i = 0; i < n_servers; i++)
        assert_ok(fl_thread_start(&j->members[i].thread, "server", run_member,
                                  &j->members[i]));
}

static inline void join_servers(job *j)
{
    for (int i = 0; i < j->n_servers; i++)
        fl_thread_join(j->members[i].thread);
}

/* They end well when all trainers have left. */
static inline void end_servers(job *j)
{
    join_servers(j);
    for (int i = 0; i < j->n_servers; i++)
        if (j->told[i].st)
            fail_msg("server %d: %s", i, j->told[i].text);
    job_release(j);
}

/* --- trainers ------------------------------------------------------------- */

typedef struct trainer {
    fl_dist dist;
    char text[JOB_ADDRESSES]; /* addresses, apart by zeros */
    const char *servers[JOB_SERVERS];
    fl_conf conf;
    fl_net *net;
    fl_scope scope;
    fl_cluster *cluster;
    fl_comm *comm;
    fl_cluster_stats *counts;
    float *w, *b; /* in the scope */
} trainer;

static inline void add_block(fl_dist *d, const char *name, uint64_t from,
                             uint64_t n)
{
    fl_dist_block b = {
        .name = name,
        .from_row = from,
        .n_rows = n,
        .from = from,
        .n = n,
        .server = fl_client_server_of_block(d->config.n_servers, name),
        .number = (uint32_t)d->blocks.len,
    };

    fl_vec_push(&d->blocks, b);
}

static inline void add_param(fl_dist *d, const char *name, uint64_t n,
                             size_t n_blocks)
{
    fl_dist_param p = { .name = name,
                        .shape = { .rank = 1, .dim = { (int64_t)n } },
                        .n = n,
                        .first_block = d->blocks.len,
                        .n_blocks = n_blocks };

    fl_vec_push(&d->params, p);
}

static inline void make_dist(trainer *t, const job *j, int rank)
{
    fl_dist_table emb = { "emb", EMB, DIM };
    fl_dist *d = &t->dist;
    char *at = t->text;

    memcpy(t->text, j->servers, sizeof(t->text));
    for (int i = 0; i < j->n_servers; i++) {
        t->servers[i] = at;
        at += strcspn(at, ",");
        *at++ = '\0';
    }
    *d = (fl_dist){ .config = { .mode = "async",
                                .servers = t->servers,
                                .n_servers = j->n_servers,
                                .n_trainers = j->n_trainers,
                                .rank = rank } };
    d->startup = fl_program_of(&fl_ops);
    fl_vec_push(&d->tables, emb);
    add_param(d, "w", N_W, 2);
    add_block(d, "w.block0", 0, 3);
    add_block(d, "w.block1", 3, 1);
    add_param(d, "b", N_B, 1);
    add_block(d, "b", 0, N_B);
    add_servers(d, SERVERS);
}

static inline void read_settings(fl_conf *conf, const char *settings)
{
    char word[256];
    int len;

    assert_ok(fl_conf_init(conf));
    for (; sscanf(settings, " %255s%n", word, &len) == 1; settings += len) {
        char *value = strchr(word, '=');

        *value++ = '\0';
        assert_ok(fl_conf_set(conf, word, value));
    }
}

static inline float *reserve(fl_scope *s, const char *name, int64_t n)
{
    fl_tensor like = { .dtype = FL_DTYPE_F32,
                       .shape = { .rank = 1, .dim = { n } } };
    fl_tensor t;

    assert_ok(fl_scope_reserve(s, name, &like, &t));
    for (int64_t i = 0; i < n; i++)
        ((float *)t.data)[i] = 100;
    return t.data;
}

static inline void trainer_open(trainer *t, const job *j, int rank,
                                const char *settings)
{
    *t = (trainer){ 0 };
    make_dist(t, j, rank);
    read_settings(&t->conf, settings);
    assert_ok(fl_net_sockets(
        &t->net, &(fl_socket_options){ .job = fl_hash_str(t->conf.job) }));
    fl_scope_init(&t->scope);
    t->w = reserve(&t->scope, "w", N_W);
    t->b = reserve(&t->scope, "b", N_B);
    t->cluster = fl_cluster_new(&(fl_cluster_args){ .dist = &t->dist,
                                                    .net = t->net,
                                                    .conf = &t->conf,
                                                    .scope = &t->scope });
    t->counts = fl_cluster_stats_of(t->cluster);
    t->comm = fl_mode_find("async")->open(t->cluster);
}

static inline void trainer_free(trainer *t)
{
    fl_comm_free(t->comm);
    fl_scope_release(&t->scope);
    fl_net_free_sockets(t->net);
    fl_conf_release(&t->conf);
    fl_program_free(t->dist.startup);
    fl_vec_release(&t->dist.tables);
    fl_vec_release(&t->dist.params);
    fl_vec_release(&t->dist.blocks);
    release_servers(&t->dist);
}

/* --- calls of the port ---------------------------------------------------- */

/* Sends a gradient of equal numbers, which is no longer there afterwards.
   FL_PENDING where the answer had to be waited for and was good. */
static inline fl_status send_to(trainer *t, const char *name, size_t n,
                                float value)
{
    float grad[N_W];
    fl_param_values v = { name, grad, n };
    fl_comm_call r = { .values = &v, .n = 1 };
    fl_status first, st;
    sleeper sl;

    for (size_t i = 0; i < n; i++)
        grad[i] = value;
    sleeper_init(&sl);
    fl_comm_begin(&r.answer, &sl.port);
    first = t->comm->data->send(t->comm, &r);
    st = sleeper_result(&sl, &r.answer, first);
    sleeper_release(&sl);
    memset(grad, 0x7f, sizeof(grad));
    return st ? st : first;
}

static inline fl_status send_w(trainer *t, float value)
{
    return send_to(t, "w", N_W, value);
}

static inline fl_status send_b(trainer *t, float value)
{
    return send_to(t, "b", N_B, value);
}

/* Pushes the same gradient for both keys. */
static inline fl_status push_rows(trainer *t, const uint64_t keys[2],
                                  float value, double lr, fl_worker_id worker)
{
    float rows[] = { value, value, value, value };
    fl_comm_request r = { .table = "emb",
                          .rows = { .keys = keys,
                                    .values = rows,
                                    .n = 2,
                                    .lr = lr,
                                    .merged = true,
                                    .dim = DIM,
                                    .scale = worker.scale },
                          .worker = worker };
    fl_status first, st;
    sleeper sl;

    sleeper_init(&sl);
    fl_comm_begin(&r.answer, &sl.port);
    first = t->comm->data->push(t->comm, &r);
    st = sleeper_result(&sl, &r.answer, first);
    sleeper_release(&sl);
    memset(rows, 0x7f, sizeof(rows));
    return st ? st : first;
}

/* Whether it had to wait is of no interest. */
static inline fl_status good(fl_status st)
{
    return st == FL_PENDING ? FL_OK : st;
}

static inline float pull_row(trainer *t, uint64_t key)
{
    float row[DIM] = { 0 };
    fl_comm_request r = {
        .table = "emb",
        .rows = { .keys = &key, .n = 1, .dim = DIM },
        .out = row,
    };
    sleeper sl;

    sleeper_init(&sl);
    fl_comm_begin(&r.answer, &sl.port);
    assert_ok(sleeper_result(&sl, &r.answer, t->comm->data->pull(t->comm, &r)));
    sleeper_release(&sl);
    assert_true(row[0] == row[1]);
    return row[0];
}

/* Everything that was handed over is applied, or nothing moves any more. */
static inline void wait_until_applied(const trainer *t)
{
    uint64_t deadline = fl_now_ns() + KIT_HANGS_NS;

    while (t->counts->gradients_applied < t->counts->gradients_made &&
           fl_now_ns() < deadline)
        sched_yield();
    assert_true(t->counts->gradients_applied == t->counts->gradients_made);
}

static inline void stop_and_free(trainer *t)
{
    assert_ok(t->comm->life->stop(t->comm));
    assert_true(t->counts->gradients_applied == t->counts->gradients_made);
    trainer_free(t);
}

static uint64_t n_requests(const trainer *t, uint16_t type)
{
    const fl_client *c = fl_cluster_client(t->cluster);
    uint64_t n = 0;

    for (int i = 0; i < t->dist.config.n_servers; i++)
        n += fl_client_requests(c, i, type);
    return n;
}

/* Values in the scope change under the reader's feet, as in training. */
FL_RACY
static float look(const float *value)
{
    return *(const volatile float *)value;
}

static inline void wait_for_value(const float *at, float value)
{
    uint64_t deadline = fl_now_ns() + KIT_HANGS_NS;

    while (look(at) != value && fl_now_ns() < deadline)
        sched_yield();
    assert_true(look(at) == value);
}

static const fl_worker_id alone = { .n_parts = 1, .scale = 1 };

#endif
