/* modes_crew.c - forking members, orders and answers over pipes. */
#include "modes_crew.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "ps_process.h"

#define PATIENCE_MS 120000

double crew_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fail(const char *who, const char *what)
{
    fprintf(stderr, "bench: %s: %s\n", who, what);
    exit(1);
}

static void put(int fd, const void *data, size_t len, const char *who)
{
    if (write(fd, data, len) != (ssize_t)len)
        fail(who, "cannot be told");
}

/* False when the other end is closed. */
static bool take(int fd, void *data, size_t len)
{
    ssize_t n;

    do
        n = read(fd, data, len);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)len;
}

/* In the member's process. */
static void obey(int orders, int answers, void *state, crew_do work)
{
    crew_answer a = { 0 };
    crew_order o;

    put(answers, &a, sizeof a, "the bench");
    while (take(orders, &o, sizeof o)) {
        a = (crew_answer){ 0 };
        work(state, &o, &a);
        if (o.what == CREW_END)
            break;
        put(answers, &a, sizeof a, "the bench");
    }
}

/* 0 in the new process, which ends when the bench does. */
static pid_t divide(const char *name)
{
    pid_t parent = getpid(), pid;

    fflush(NULL);
    pid = fork();
    if (pid < 0)
        fail(name, "no process can be made for it");
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
    }
    return pid;
}

crew_member crew_start(const char *name, crew_begin begin, crew_do work,
                       const void *spec)
{
    int orders[2], answers[2];
    crew_member m = { .name = name };

    if (pipe(orders) != 0 || pipe(answers) != 0)
        fail(name, "no pipe to it");
    m.pid = divide(name);
    if (m.pid == 0) {
        close(orders[1]);
        close(answers[0]);
        obey(orders[0], answers[1], begin(spec), work);
        fflush(NULL);
        _exit(0);
    }
    close(orders[0]);
    close(answers[1]);
    m.orders = orders[1];
    m.answers = answers[0];
    return m;
}

crew_member crew_start_alone(const char *name, void (*work)(const void *spec),
                             const void *spec)
{
    crew_member m = { .name = name, .orders = -1, .answers = -1 };

    m.pid = divide(name);
    if (m.pid == 0) {
        work(spec);
        fflush(NULL);
        _exit(0);
    }
    return m;
}

void crew_tell(const crew_member *m, crew_order o)
{
    put(m->orders, &o, sizeof o, m->name);
}

crew_answer crew_hear(const crew_member *m)
{
    struct pollfd p = { .fd = m->answers, .events = POLLIN };
    crew_answer a;

    if (poll(&p, 1, PATIENCE_MS) == 0)
        fail(m->name, "does not answer");
    if (!take(m->answers, &a, sizeof a))
        fail(m->name, "has ended before its time");
    return a;
}

void crew_end(crew_member *m)
{
    if (m->orders >= 0) {
        crew_tell(m, (crew_order){ .what = CREW_END });
        close(m->orders);
    }
    process_wait(m->pid, m->name);
    if (m->answers >= 0)
        close(m->answers);
}

double crew_cpu_seconds(const crew_member *m)
{
    return process_cpu_seconds(m->pid);
}
