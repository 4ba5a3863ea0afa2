/* client_kit.h - a job in a simulation: servers, clients, and what they say. */
#ifndef FL_TESTS_PS_CLIENT_KIT_H
#define FL_TESTS_PS_CLIENT_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "../server_text.h"
#include "base/log.h"
#include "ops/ops.h"
#include "ps/client/client_inside.h"
#include "ps/server/server.h"
#include "ps/store/store_inside.h"
#include "rpc/sim/sim.h"
#include "table/inside.h"

#define SERVERS_MAX 3
#define TRAINERS_MAX 3
#define LONG_MS 200000 /* of simulated time: longer than every limit */
#define DIM 4

#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)

#define assert_has(text, words)                                                \
    do {                                                                       \
        if (!strstr(text, words))                                              \
            fail_msg("expected '%s' in '%s'", words, text);                    \
    } while (0)

static const char *const addresses[SERVERS_MAX] = { "s0:1", "s1:1", "s2:1" };

/* --- what is said --------------------------------------------------------- */

static char said[1 << 16];

static inline void keep_line(void *arg, fl_log_level level, const char *area,
                             const char *text)
{
    size_t len = strlen(said);

    (void)arg;
    (void)level;
    (void)area;
    snprintf(said + len, sizeof(said) - len, "%s\n", text);
}

/* --- the job -------------------------------------------------------------- */

typedef struct job {
    fl_sim *sim;
    fl_conf conf;
    int n_servers, n_trainers;
    uint64_t message_bytes; /* at most; 0: 1 MB */
    bool may_coalesce;      /* the clients */
    fl_codec push;          /* of their gradients */
    fl_server *servers[SERVERS_MAX];
    fl_client *clients[TRAINERS_MAX];
} job;

static inline fl_server *job_serve(job *j, int rank)
{
    fl_server_options o = {
        .servers = addresses,
        .n_servers = j->n_servers,
        .n_trainers = j->n_trainers,
        .rank = rank,
        .job = "test",
        .connect_timeout_ms = 30000,
        .restart_timeout_ms = 20000,
        .ping_ms = 500,
        .suspect_ms = 2000,
        .max_message_bytes = j->message_bytes ? j->message_bytes : 1 << 20,
        .max_connections = 100,
        .ops = &fl_ops,
        .conf = &j->conf,
    };
    fl_server *s = NULL;

    assert_ok(fl_server_new(&s, fl_sim_net(j->sim), fl_sim_loop(j->sim), &o));
    return s;
}

static inline fl_client *job_connect(job *j, int rank)
{
    fl_client_options o = {
        .servers = addresses,
        .n_servers = j->n_servers,
        .n_trainers = j->n_trainers,
        .rank = rank,
        .job = "test",
        .connect_timeout_ms = 30000,
        .restart_timeout_ms = 20000,
        .ping_ms = 500,
        .suspect_ms = 2000,
        .max_message_bytes = j->message_bytes ? j->message_bytes : 1 << 20,
        .may_coalesce = j->may_coalesce,
        .push = j->push,
    };
    fl_client *c = NULL;

    assert_ok(fl_client_new(&c, fl_sim_net(j->sim), fl_sim_loop(j->sim), &o));
    return c;
}

static inline void job_run(job *j, uint64_t ms)
{
    fl_sim_run(j->sim, fl_sim_now_ms(j->sim) + ms, NULL);
}

/* Of what was chosen: its numbers, and how its clients are. */
static inline void job_start(job *j, const fl_sim_faults *faults)
{
    said[0] = '\0';
    fl_log_set(keep_line, NULL, FL_LOG_INFO);
    assert_ok(fl_conf_init(&j->conf));
    j->sim = fl_sim_new(faults);
    for (int i = 0; i < j->n_servers; i++)
        j->servers[i] = job_serve(j, i);
    for (int i = 0; i < j->n_trainers; i++)
        j->clients[i] = job_connect(j, i);
}

static inline void job_init_small(job *j, int n_servers, int n_trainers,
                                  const fl_sim_faults *faults,
                                  uint64_t message_bytes)
{
    *j = (job){ .n_servers = n_servers,
                .n_trainers = n_trainers,
                .message_bytes = message_bytes };
    job_start(j, faults);
}

static inline void job_init(job *j, int n_servers, int n_trainers,
                            const fl_sim_faults *faults)
{
    job_init_small(j, n_servers, n_trainers, faults, 0);
}

/* All clients are connected. */
static inline void job_wait(job *j)
{
    for (int i = 0; i < j->n_trainers; i++) {
        for (int n = 0;
             n < 1000 && fl_client_state(j->clients[i]) == FL_PENDING; n++)
            job_run(j, 10);
        assert_ok(fl_client_state(j->clients[i]));
    }
}

static inline void job_release(job *j)
{
    for (int i = 0; i < TRAINERS_MAX; i++)
        fl_client_free(j->clients[i]);
    for (int i = 0; i < SERVERS_MAX; i++)
        fl_server_free(j->servers[i]);
    fl_sim_free(j->sim);
    fl_conf_release(&j->conf);
    fl_log_set(NULL, NULL, FL_LOG_INFO);
}

/* --- requests ------------------------------------------------------------- */

/* The end of a request. */
typedef struct outcome {
    bool is_over;
    int n_calls;
    fl_err err;
    uint64_t sums[8]; /* of numbers in replies */
} outcome;

static inline void on_outcome(void *arg, fl_status st)
{
    outcome *o = arg;

    o->is_over = true;
    o->n_calls++;
    fl_err_save(&o->err, st);
}

static inline fl_status take_numbers(void *arg, int server, fl_msg_bytes reply)
{
    outcome *o = arg;
    fl_unpack u = fl_unpack_from(reply.data, reply.len);

    (void)server;
    assert_in_range(reply.len, 0, sizeof(o->sums));
    for (size_t i = 0; i < reply.len / sizeof(uint64_t); i++)
        o->sums[i] += fl_unpack_u64(&u);
    return FL_OK;
}

static inline fl_status job_end(job *j, outcome *o)
{
    fl_sim_run(j->sim, fl_sim_now_ms(j->sim) + LONG_MS, &o->is_over);
    assert_true(o->is_over);
    assert_int_equal(o->n_calls, 1);
    return o->err.status ? fl_err_restore(&o->err) : FL_OK;
}

static inline fl_status job_declare(job *j, int trainer, const char *text)
{
    outcome o = { 0 };

    FL_TRY(fl_client_declare(j->clients[trainer], FL_ALL_SERVERS, text,
                             (fl_ending){ on_outcome, &o }));
    return job_end(j, &o);
}

/* Those of all tables and blocks apart, in o->sums. */
static inline void job_hashes(job *j, outcome *o)
{
    fl_call_spec call = { .type = FL_MSG_HASH,
                          .server = FL_ALL_SERVERS,
                          .take = take_numbers,
                          .out = o };

    *o = (outcome){ 0 };
    assert_ok(
        fl_client_call(j->clients[0], &call, (fl_ending){ on_outcome, o }));
    assert_ok(job_end(j, o));
}

static inline uint64_t job_hash(job *j, int table)
{
    outcome o;

    job_hashes(j, &o);
    return o.sums[table];
}

/* --- a table of one's own ------------------------------------------------- */

static inline fl_table *lone_table(const char *name, const char *settings,
                                   uint64_t seed)
{
    fl_table_config config;
    fl_table *t = NULL;

    assert_ok(fl_table_config_parse(&config, name, settings, seed));
    assert_ok(fl_table_create(&t, &config));
    return t;
}

static inline uint64_t lone_hash(fl_table *t)
{
    fl_store_table view = {
        .table = t,
        .row_bytes = fl_table_acc(t)->layout.bytes,
        .short_bytes = fl_table_acc(t)->layout.short_bytes,
    };
    uint64_t hash = 0;

    assert_ok(fl_store_hash_table(&view, &hash));
    return hash;
}

#endif
