/* job_kit.h - a whole job over real sockets, as threads or as processes.
 *
 * A member is a server or a trainer with a context of its own. What members
 * tell the test lies in memory that forked processes share, so that both kinds
 * of job are written the same way. cmocka's assertions are for the test's own
 * thread: a member that fails leaves its sentence and ends.
 *
 * Nothing outlives a test: the alarm clock of the test ends it when something
 * hangs, and with it every process that it has started.
 */
#ifndef FL_TESTS_PS_JOB_KIT_H
#define FL_TESTS_PS_JOB_KIT_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/thread.h"
#include "flotilla/flotilla.h"
#include "../make.h"
#include "../ports.h"

#define JOB_SERVERS 3
#define JOB_TRAINERS 3
#define JOB_MEMBERS (JOB_SERVERS + JOB_TRAINERS)
#define JOB_ADDRESSES 256

/* Nothing takes this long unless it hangs. */
#define JOB_HANGS_S 150

/* Fails the test with the library's own sentence. */
#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)

#define assert_says(said)                                                      \
    do {                                                                       \
        if (!strstr(fl_last_error(), said))                                    \
            fail_msg("'%s' does not say '%s'", fl_last_error(), said);         \
    } while (0)

static inline void hear_nothing(void *arg, fl_log_level level, const char *area,
                                const char *text)
{
    (void)arg;
    (void)level;
    (void)area;
    (void)text;
}

/* What members say on their way is of no interest, errors they leave. */
static inline void be_quiet(void)
{
    fl_log_set(hear_nothing, NULL, FL_LOG_WARN);
}

/* --- ports ---------------------------------------------------------------- */

/* "127.0.0.1:P,127.0.0.1:Q". */
static inline void free_addresses(char out[JOB_ADDRESSES], int n)
{
    size_t len = 0;

    for (int i = 0; i < n; i++)
        len += (size_t)snprintf(out + len, JOB_ADDRESSES - len,
                                "%s127.0.0.1:%u", i ? "," : "", free_port());
}

/* --- members -------------------------------------------------------------- */

typedef struct job job;

/* What a member leaves to the test; in shared memory. */
typedef struct told {
    fl_status st;
    char text[FL_ERR_TEXT_MAX];
    uint64_t hash, steps;
    atomic_int n_alarms;         /* lines that call somebody silent or lost */
    char alarm[FL_ERR_TEXT_MAX]; /* the first of them */
} told;

/* What a trainer does between fl_job_connect and fl_job_stop. */
typedef fl_status (*job_work)(fl_job *p, int rank, told *t);

typedef struct member {
    job *job;
    bool is_server;
    int rank;
    told *told;
    fl_thread *thread;
    pid_t process;
} member;

struct job {
    int n_servers, n_trainers;
    char servers[JOB_ADDRESSES]; /* as servers know them, */
    char ways[JOB_ADDRESSES];    /* and where trainers go */
    const char *settings;        /* "name=value name=value" */
    job_work work;
    told *told; /* of all members, servers first */
    member members[JOB_MEMBERS];
};

static inline fl_status set_all(fl_ctx *c, const char *settings)
{
    char word[256];
    int len;

    for (; sscanf(settings, " %255s%n", word, &len) == 1; settings += len) {
        char *value = strchr(word, '=');

        *value++ = '\0';
        FL_TRY(fl_ctx_set(c, word, value));
    }
    return FL_OK;
}

static inline fl_status serve(const member *m, fl_ctx *c)
{
    return fl_job_serve(c, .servers = m->job->servers, .rank = m->rank,
                        .n_trainers = m->job->n_trainers);
}

static inline fl_status train(const member *m, fl_ctx *c)
{
    fl_status st, stopped;
    fl_job *p;
    fl_err why;

    FL_TRY(fl_job_connect(&p, c, .servers = m->job->ways, .rank = m->rank,
                          .n_trainers = m->job->n_trainers));
    st = m->job->work(p, m->rank, m->told);
    fl_err_save(&why, st);
    stopped = fl_job_stop(p);
    fl_job_free(p);
    return st ? fl_err_restore(&why) : stopped;
}

static inline void run_member(void *arg)
{
    const member *m = arg;
    fl_ctx *c = make_ctx();
    fl_status st = set_all(c, m->job->settings);

    if (!st)
        st = m->is_server ? serve(m, c) : train(m, c);
    m->told->st = st;
    if (st)
        (void)snprintf(m->told->text, sizeof(m->told->text), "%s",
                       fl_last_error());
    fl_ctx_free(c);
}

/* --- jobs ----------------------------------------------------------------- */

static inline void job_init(job *j, int n_servers, int n_trainers,
                            const char *settings, job_work work)
{
    size_t bytes = JOB_MEMBERS * sizeof(told);

    alarm(JOB_HANGS_S);
    *j = (job){ .n_servers = n_servers,
                .n_trainers = n_trainers,
                .settings = settings,
                .work = work };
    j->told = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(j->told != MAP_FAILED);
    free_addresses(j->servers, n_servers);
    memcpy(j->ways, j->servers, sizeof(j->ways));
    for (int i = 0; i < n_servers + n_trainers; i++)
        j->members[i] = (member){ .job = j,
                                  .is_server = i < n_servers,
                                  .rank = i < n_servers ? i : i - n_servers,
                                  .told = &j->told[i] };
}

static inline int n_members(const job *j)
{
    return j->n_servers + j->n_trainers;
}

/* All members came to a good end, and the trainers saw the same. */
static inline uint64_t job_check(job *j)
{
    const told *first = &j->told[j->n_servers];
    uint64_t hash = first->hash;

    for (int i = 0; i < n_members(j); i++) {
        const member *m = &j->members[i];

        if (m->told->st)
            fail_msg("%s %d: %s", m->is_server ? "server" : "trainer", m->rank,
                     m->told->text);
        if (!m->is_server)
            assert_true(m->told->hash == hash);
    }
    return hash;
}

static inline void job_release(job *j)
{
    munmap(j->told, JOB_MEMBERS * sizeof(told));
    alarm(0);
}

static inline void job_start_threads(job *j)
{
    for (int i = 0; i < n_members(j); i++)
        assert_ok(fl_thread_start(&j->members[i].thread, "member", run_member,
                                  &j->members[i]));
}

static inline void job_join_threads(job *j)
{
    for (int i = 0; i < n_members(j); i++)
        fl_thread_join(j->members[i].thread);
}

static inline uint64_t job_run_threads(job *j)
{
    job_start_threads(j);
    job_join_threads(j);
    return job_check(j);
}

/* --- processes ------------------------------------------------------------ */

/* Runs fn(arg) in a process that ends with this one, or by its own clock. */
static inline pid_t start_process(void (*fn)(void *), void *arg)
{
    pid_t parent = getpid(), child;

    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child)
        return child;
    alarm(JOB_HANGS_S);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
        _exit(2);
    fn(arg);
    fflush(NULL);
    _exit(0);
}

static inline void expect_exit(pid_t process)
{
    int status = 0;

    assert_int_equal(waitpid(process, &status, 0), process);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        fail_msg("process %d ended with status 0x%x", (int)process, status);
}

static inline void kill_process(pid_t process)
{
    kill(process, SIGKILL);
    assert_int_equal(waitpid(process, NULL, 0), process);
}

/* Counts lines that call a member silent or lost. */
static inline void hear_alarms(void *arg, fl_log_level level, const char *area,
                               const char *text)
{
    told *t = arg;

    (void)area;
    if (level < FL_LOG_WARN ||
        (!strstr(text, "silent") && !strstr(text, "down")))
        return;
    if (atomic_fetch_add(&t->n_alarms, 1) == 0)
        (void)snprintf(t->alarm, sizeof(t->alarm), "%s", text);
}

static inline void run_process(void *arg)
{
    member *m = arg;

    fl_log_set(hear_alarms, m->told, FL_LOG_INFO);
    run_member(m);
}

static inline void job_start_processes(job *j)
{
    for (int i = 0; i < n_members(j); i++)
        j->members[i].process = start_process(run_process, &j->members[i]);
}

/* A process that did not end by itself has failed. */
static inline void job_join_processes(job *j)
{
    for (int i = 0; i < n_members(j); i++) {
        const member *m = &j->members[i];
        int status = -1;

        if (waitpid(m->process, &status, 0) == m->process && !status)
            continue;
        m->told->st = FL_ERR_CLOSED;
        (void)snprintf(m->told->text, sizeof(m->told->text),
                       "its process ended with status 0x%x", status);
    }
}

static inline uint64_t job_run_processes(job *j)
{
    job_start_processes(j);
    job_join_processes(j);
    return job_check(j);
}

#endif
