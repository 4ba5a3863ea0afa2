/* idle_kit.h - a server with thousands of connections that do nothing, and a
 * machine with more to do than it can.
 *
 * The connections belong to a process of their own, which is forked before any
 * thread is there:
 *
 *     idle process            trainer of the job
 *     waits             <---  "go"
 *     connects          --->  "ready"
 *     holds them              pushes, pulls, measures
 *     ends              <---  end of the pipe
 */
#ifndef FL_TESTS_PS_IDLE_KIT_H
#define FL_TESTS_PS_IDLE_KIT_H

#include "raw_kit.h"
#include "../make.h"

#include <sys/resource.h>

#define IDLE_SPARE 256 /* descriptors for all the rest */
#define IDLE_ROUNDS 200
#define IDLE_TOKEN "token"

/* A connection's share of memory in the server's process. */
#define IDLE_BYTES_MAX 65536u
#define IDLE_BYTES_ONCE ((uint64_t)64 << 20)

typedef enum idle_kind { IDLE_STRANGERS, IDLE_TOOLS } idle_kind;

typedef struct idle {
    int n;
    idle_kind kind;
    uint16_t port;
    int go[2], ready[2];    /* pipes */
    uint64_t before, after; /* bytes of this process */
} idle;

static idle idle_now; /* for the trainer, whose work has no argument */

static inline bool raise_limit(rlim_t wanted)
{
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r))
        return false;
    if (r.rlim_cur >= wanted)
        return true;
    r.rlim_cur = wanted;
    if (r.rlim_max < wanted)
        r.rlim_max = wanted;
    return !setrlimit(RLIMIT_NOFILE, &r);
}

static inline uint64_t resident_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long long all = 0, here = 0;

    if (!f)
        return 0;
    if (fscanf(f, "%llu %llu", &all, &here) != 2)
        here = 0;
    fclose(f);
    return here * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* --- the idle process ----------------------------------------------------- */

static inline bool connect_idle(const idle *i, int number)
{
    raw_client c = raw_tool("flotilla", IDLE_TOKEN, 1000 + (uint32_t)number);
    int fd = raw_dial(i->port); /* closed by the end of the process */

    return fd >= 0 && (i->kind == IDLE_STRANGERS || raw_shake(fd, &c));
}

static inline void be_idle(void *arg)
{
    const idle *i = arg;
    char byte;

    close(i->go[1]);
    close(i->ready[0]);
    if (read(i->go[0], &byte, 1) != 1)
        _exit(3);
    for (int k = 0; k < i->n; k++)
        if (!connect_idle(i, k))
            _exit(4);
    if (write(i->ready[1], "r", 1) != 1 || read(i->go[0], &byte, 1) != 0)
        _exit(5);
}

/* --- the trainer ---------------------------------------------------------- */

static inline fl_status idle_round(fl_job *p, int table, int round)
{
    uint64_t key = (uint64_t)round;
    float grad[2] = { 2, 4 }, value[2];

    FL_TRY(fl_job_push(
        p, table,
        &(fl_rows){ .keys = &key, .values = grad, .n = 1, .lr = 0.5 }));
    FL_TRY(fl_job_pull(p, table, &key, 1, FL_PULL_ONLY, value));
    if (value[0] != 0 || value[1] != -1)
        FL_FAIL(FL_ERR_CORRUPT, "row %d is %g, %g", round, (double)value[0],
                (double)value[1]);
    return FL_OK;
}

static inline fl_status look_from_outside(const idle *i)
{
    fl_ctx *c = make_ctx();
    fl_job_status *status = NULL;
    char address[32];
    fl_status st;

    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", i->port);
    st = fl_ctx_set(c, "join_token", IDLE_TOKEN);
    if (!st)
        st = fl_job_status_get(&status, c, address);
    fl_job_status_free(status);
    fl_ctx_free(c);
    return st;
}

static inline fl_status let_idle_come(idle *i)
{
    char byte;

    i->before = resident_bytes();
    if (write(i->go[1], "g", 1) != 1 || read(i->ready[0], &byte, 1) != 1)
        FL_FAIL(FL_ERR_IO, "%d connections could not be made", i->n);
    return FL_OK;
}

/* For job_work. */
static inline fl_status work_beside_idle(fl_job *p, int rank, told *t)
{
    idle *i = &idle_now;
    int table;

    (void)rank;
    (void)t;
    FL_TRY(fl_job_declare_table(p, "t", "dim=2 init=constant(1) optimizer=sgd",
                                &table));
    FL_TRY(fl_job_start(p));
    FL_TRY(let_idle_come(i));
    for (int round = 0; round < IDLE_ROUNDS; round++)
        FL_TRY(idle_round(p, table, round));
    FL_TRY(look_from_outside(i));
    i->after = resident_bytes();
    return FL_OK;
}

/* --- the test ------------------------------------------------------------- */

static inline void report_idle(const idle *i)
{
    uint64_t more = i->after > i->before ? i->after - i->before : 0;

    printf("%d idle connections: %.1f MB before, %.1f MB more, %.1f KB each\n",
           i->n, (double)i->before / 1e6, (double)more / 1e6,
           (double)more / 1e3 / i->n);
    assert_true(more <= IDLE_BYTES_ONCE + (uint64_t)i->n * IDLE_BYTES_MAX);
}

static inline void hold_idle(int n, idle_kind kind, const char *settings)
{
    idle *i = &idle_now;
    pid_t process;
    job j;

    if (!raise_limit((rlim_t)n + IDLE_SPARE)) {
        printf("%d descriptors are not allowed here: not tested\n", n);
        skip();
    }
    job_init(&j, 1, 1, settings, work_beside_idle);
    *i = (idle){ .n = n,
                 .kind = kind,
                 .port =
                     (uint16_t)strtoul(strchr(j.servers, ':') + 1, NULL, 10) };
    assert_int_equal(pipe(i->go), 0);
    assert_int_equal(pipe(i->ready), 0);
    process = start_process(be_idle, i);
    close(i->go[0]);
    close(i->ready[1]);
    job_start_threads(&j);
    job_join_threads(&j);
    close(i->go[1]);
    close(i->ready[0]);
    expect_exit(process);
    job_check(&j);
    job_release(&j);
    report_idle(i);
}

/* --- load ----------------------------------------------------------------- */

#define LOAD_PER_CORE 4
#define LOAD_MAX 256

static uint64_t load_ms;

static inline void be_busy(void *arg)
{
    volatile uint64_t n = 0;

    (void)arg;
    for (;;)
        n++;
}

/* For job_work: pushes until the time is over. */
static inline fl_status work_for_a_while(fl_job *p, int rank, told *t)
{
    uint64_t end = fl_now_ns() + load_ms * 1000000u, keys[100];
    float grads[200] = { 0 };
    int table;

    for (uint64_t i = 0; i < FL_LEN(keys); i++)
        keys[i] = fl_mix64(i + 1000 * (uint64_t)rank);
    FL_TRY(fl_job_declare_table(p, "t", "dim=2 optimizer=sgd", &table));
    FL_TRY(fl_job_start(p));
    while (fl_now_ns() < end) {
        FL_TRY(fl_job_push(
            p, table,
            &(fl_rows){
                .keys = keys, .values = grads, .n = FL_LEN(keys), .lr = 0.5 }));
        t->steps++;
    }
    return fl_job_barrier(p);
}

/* A job beside four busy processes per core. */
static inline void run_under_load(uint64_t ms)
{
    int n_busy = LOAD_PER_CORE * fl_cpu_count();
    pid_t busy[LOAD_MAX];
    job j;

    n_busy = n_busy < LOAD_MAX ? n_busy : LOAD_MAX;
    load_ms = ms;
    job_init(&j, 2, JOB_TRAINERS, "", work_for_a_while);
    for (int i = 0; i < n_busy; i++)
        busy[i] = start_process(be_busy, NULL);
    job_start_processes(&j);
    job_join_processes(&j);
    for (int i = 0; i < n_busy; i++)
        kill_process(busy[i]);
    job_check(&j);
    for (int i = 0; i < n_members(&j); i++)
        if (j.told[i].n_alarms)
            fail_msg("%d false alarms, the first one: %s", j.told[i].n_alarms,
                     j.told[i].alarm);
    printf("%llu pushes of a trainer beside %d busy processes\n",
           (unsigned long long)j.told[2].steps, n_busy);
    job_release(&j);
}

#endif
