/* job_kit.h - a job in one process: servers and trainers in threads, at sockets
 * in a folder. */
#ifndef FL_TESTS_API_PS_KIT_H
#define FL_TESTS_API_PS_KIT_H

#include "api.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/thread.h"
#include "../make.h"
#include "../ports.h"

#define SERVERS_MAX 3
#define TRAINERS_MAX 3
#define SETTINGS_MAX 8
#define EMB "dim=8 optimizer=adagrad init=uniform(-0.1,0.1)"

static char folder[] = "/tmp/flotilla_ps_XXXXXX";

/* Members run in threads, out of which an assertion cannot jump: it aborts. */
static inline int make_folder(void **state)
{
    (void)state;
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    fl_log_set_level(FL_LOG_ERROR);
    return mkdtemp(folder) ? 0 : -1;
}

static inline const char *path_of(const char *name, char buf[128])
{
    snprintf(buf, 128, "%s/%s", folder, name);
    return buf;
}

static inline int remove_folder(void **state)
{
    static const char *const names[] = { "s0",    "s1",    "s2",       "ca.pem",
                                         "a.pem", "a.key", "other.pem" };
    char buf[128];

    (void)state;
    for (size_t i = 0; i < FL_LEN(names); i++)
        unlink(path_of(names[i], buf));
    return rmdir(folder);
}

/* --- a job in threads ----------------------------------------------------- */

typedef struct job job;
typedef void (*trainer_fn)(job *j, fl_job *p, int rank);

typedef struct member {
    job *job;
    int rank;
    fl_thread *thread;
    fl_status st;
    char said[FL_ERR_TEXT_MAX];
} member;

struct job {
    int n_servers, n_trainers;
    char servers[512];
    const char *settings[SETTINGS_MAX][2]; /* of all members */
    trainer_fn train;
    member server[SERVERS_MAX], trainer[TRAINERS_MAX];
    atomic_int n_came;
    uint64_t hash;
};

static inline fl_ctx *new_ctx(const job *j)
{
    fl_ctx *c = make_ctx();

    assert_ok(fl_ctx_set(c, "log_level", "error"));
    for (int i = 0; i < SETTINGS_MAX && j->settings[i][0]; i++)
        assert_ok(fl_ctx_set(c, j->settings[i][0], j->settings[i][1]));
    return c;
}

static inline void keep_result(member *m, fl_status st)
{
    m->st = st;
    if (st)
        snprintf(m->said, sizeof(m->said), "%s", fl_last_error());
}

static inline void run_server(void *arg)
{
    member *m = arg;
    fl_ctx *c = new_ctx(m->job);

    keep_result(m, fl_job_serve(c, .servers = m->job->servers,
                                .n_trainers = m->job->n_trainers,
                                .rank = m->rank));
    fl_ctx_free(c);
}

static inline void run_trainer(void *arg)
{
    member *m = arg;
    fl_ctx *c = new_ctx(m->job);
    fl_job *p;

    assert_ok(fl_job_connect(&p, c, .servers = m->job->servers,
                             .n_trainers = m->job->n_trainers,
                             .rank = m->rank));
    m->job->train(m->job, p, m->rank);
    keep_result(m, fl_job_stop(p));
    fl_job_free(p);
    fl_ctx_free(c);
}

/* Server i listens at a socket in the folder. */
static inline void name_servers(job *j)
{
    size_t n = 0;

    for (int i = 0; i < j->n_servers; i++)
        n += (size_t)snprintf(j->servers + n, sizeof(j->servers) - n,
                              "%sunix:%s/s%d", i ? "," : "", folder, i);
}

/* Server i listens at a port that nobody has. */
static inline void name_ports(job *j)
{
    size_t n = 0;

    for (int i = 0; i < j->n_servers; i++)
        n += (size_t)snprintf(j->servers + n, sizeof(j->servers) - n,
                              "%s127.0.0.1:%u", i ? "," : "", free_port());
}

static inline void start_servers(job *j)
{
    if (!j->servers[0])
        name_servers(j);
    for (int i = 0; i < j->n_servers; i++) {
        j->server[i] = (member){ .job = j, .rank = i };
        assert_ok(fl_thread_start(&j->server[i].thread, "server", run_server,
                                  &j->server[i]));
    }
}

static inline void join_servers(job *j)
{
    for (int i = 0; i < j->n_servers; i++)
        fl_thread_join(j->server[i].thread);
}

/* All members from beginning to end; trainers with `train`. */
static inline void run_job(job *j)
{
    start_servers(j);
    for (int i = 0; i < j->n_trainers; i++) {
        j->trainer[i] = (member){ .job = j, .rank = i };
        assert_ok(fl_thread_start(&j->trainer[i].thread, "trainer", run_trainer,
                                  &j->trainer[i]));
    }
    for (int i = 0; i < j->n_trainers; i++)
        fl_thread_join(j->trainer[i].thread);
    join_servers(j);
}

static inline void assert_all_well(const job *j)
{
    for (int i = 0; i < j->n_servers; i++)
        assert_string_equal(j->server[i].said, "");
    for (int i = 0; i < j->n_trainers; i++)
        assert_string_equal(j->trainer[i].said, "");
}

#endif
