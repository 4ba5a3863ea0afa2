/* worker_kit.h - the workers of a fleet, each a thread that does the work of a
 * test, with servers beside them or without; or one process alone.
 *
 * cmocka's assertions are for the test's own thread: work that goes wrong
 * returns an error, and leaves its sentence.
 */
#ifndef FL_TESTS_FLEET_WORKER_KIT_H
#define FL_TESTS_FLEET_WORKER_KIT_H

#include "../dist/dist_kit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/thread.h"
#include "flotilla/fleet.h"
#include "../make.h"

#define WORKERS_MAX 4
#define SERVERS 2
#define HANGS_S 120

typedef struct worker worker;
typedef fl_status (*work_fn)(worker *w);

typedef struct local_workers {
    int n;              /* workers; 0: one process without servers */
    bool is_collective; /* workers do without servers, too */
    work_fn work;
    const void *arg;
    const char *mode;              /* NULL: async */
    const char *max_message_bytes; /* NULL: the default */
    const char *their_max_bytes;   /* of worker 1, if it differs */
    char addresses[128];
} local_workers;

struct worker {
    const local_workers *local_workers;
    bool is_server;
    int rank, n;
    const void *arg;
    fl_ctx *ctx;
    fl_executor *exe;
    fl_fleet *fleet;
    fl_thread *thread;
    fl_status st;
    kit_text text; /* "" for a good end */
};

/* In work. */
#define need(cond)                                                             \
    do {                                                                       \
        if (!(cond))                                                           \
            return fl_err_set(FL_ERR_INVAL, "%s:%d: worker %d: not %s",        \
                              __FILE__, __LINE__, w->rank, #cond);             \
    } while (0)
#define need_error(expr, status, said)                                         \
    do {                                                                       \
        fl_status need_st = (expr);                                            \
                                                                               \
        if (need_st != (status) || !strstr(fl_last_error(), said))             \
            return fl_err_set(FL_ERR_INVAL, "%s:%d: worker %d: %d, '%s'",      \
                              __FILE__, __LINE__, w->rank, (int)need_st,       \
                              need_st ? fl_last_error() : "");                 \
    } while (0)

static inline fl_status worker_init(worker *w)
{
    const local_workers *c = w->local_workers;
    const char *max = w->rank == 1 && !w->is_server && c->their_max_bytes
                          ? c->their_max_bytes
                          : c->max_message_bytes;
    fl_role_args role = FL_INIT(
        fl_role_args, .role = w->is_server ? FL_ROLE_SERVER : FL_ROLE_WORKER,
        .current_id = w->rank, .worker_num = w->n,
        .server_endpoints = c->is_collective ? NULL : c->addresses,
        .worker_endpoints = c->is_collective ? c->addresses : NULL,
        .is_collective = c->is_collective);

    w->ctx = make_ctx();
    if (!w->ctx || (max && fl_ctx_set(w->ctx, "max_message_bytes", max)))
        return FL_ERR_INVAL;
    w->exe = make_executor(w->ctx);
    return fl_fleet_init(&w->fleet, w->ctx, &role);
}

static inline fl_status worker_distribute(worker *w)
{
    fl_var *x =
        fl_layers_data(w->ctx, "x", FL_DTYPE_F32, 2, (int64_t[]){ -1, 4 }, 0);
    fl_var *loss = fl_layers_mean(fl_layers_fc(x, 1));
    fl_optimizer *o = make_optimizer(w->ctx, "sgd", "learning_rate=0.1");
    const local_workers *c = w->local_workers;
    fl_strategy *s = c->mode            ? make_strategy(w->fleet, c->mode)
                     : c->is_collective ? NULL
                                        : make_strategy(w->fleet, "async");

    if (!loss || !o || fl_fleet_distributed_optimizer(w->fleet, o, s))
        return FL_ERR_INVAL;
    return fl_fleet_minimize(w->fleet, loss);
}

static inline fl_status worker_live(worker *w)
{
    fl_status st = worker_init(w);

    if (!st)
        st = worker_distribute(w);
    if (!st && w->is_server) {
        st = fl_fleet_init_server(w->fleet, NULL);
        return st ? st : fl_fleet_run_server(w->fleet);
    }
    if (!st)
        st = fl_fleet_init_worker(w->fleet);
    if (!st)
        st = fl_run(w->exe, fl_fleet_startup_program(w->fleet), NULL);
    return st ? st : w->local_workers->work(w);
}

static inline void worker_run(void *arg)
{
    worker *w = arg;

    w->st = worker_live(w);
    (void)snprintf(w->text, sizeof(w->text), "%s",
                   w->st ? fl_last_error() : "");
    fl_fleet_free(w->fleet);
    fl_executor_free(w->exe);
    fl_ctx_free(w->ctx);
}

static inline void hear_nothing(void *arg, fl_log_level level, const char *area,
                                const char *text)
{
    (void)arg;
    (void)level;
    (void)area;
    (void)text;
}

/* Everybody is to end well. */
static inline void local_workers_run(local_workers *c)
{
    int n_servers = c->n && !c->is_collective ? SERVERS : 0;
    int n_workers = c->n ? c->n : 1;
    worker *all = calloc((size_t)(n_servers + n_workers), sizeof(*all));
    kit_text text = "";

    alarm(HANGS_S);
    if (!getenv("FL_TEST_LOUD"))
        fl_log_set(hear_nothing, NULL, FL_LOG_WARN);
    kit_addresses(c->addresses, sizeof(c->addresses),
                  c->is_collective ? n_workers : n_servers);
    for (int i = 0; i < n_servers + n_workers; i++) {
        worker *w = &all[i];

        w->local_workers = c;
        w->is_server = i < n_servers;
        w->rank = w->is_server ? i : i - n_servers;
        w->n = n_workers;
        w->arg = c->arg;
        assert_ok(fl_thread_start(&w->thread, "member", worker_run, w));
    }
    for (int i = 0; i < n_servers + n_workers; i++) {
        fl_thread_join(all[i].thread);
        if (all[i].st && !*text)
            (void)snprintf(text, sizeof(text), "%s %d: %.400s",
                           all[i].is_server ? "server" : "worker", all[i].rank,
                           all[i].text);
    }
    alarm(0);
    free(all);
    if (*text)
        fail_msg("%s", text);
}

/* The same work by one process and by several workers. */
static inline void local_workers_run_all(work_fn work, const void *arg)
{
    for (int n = 0; n <= WORKERS_MAX; n++)
        local_workers_run(&(local_workers){ .n = n, .work = work, .arg = arg });
    for (int n = 1; n <= WORKERS_MAX; n++)
        local_workers_run(&(local_workers){
            .n = n, .is_collective = true, .work = work, .arg = arg });
}

#endif
