/* modes_members.c - forking members, orders and answers over pipes. */
#include "modes_members.h"

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

double member_now(void)
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
static void obey(int orders, int answers, void *state, member_do work)
{
    member_answer a = { 0 };
    member_order o;

    put(answers, &a, sizeof a, "the bench");
    while (take(orders, &o, sizeof o)) {
        a = (member_answer){ 0 };
        work(state, &o, &a);
        if (o.what == MEMBER_END)
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

member member_start(const char *name, member_begin begin, member_do work,
                    const void *spec)
{
    int orders[2], answers[2];
    member m = { .name = name };

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

member member_start_alone(const char *name, void (*work)(const void *spec),
                          const void *spec)
{
    member m = { .name = name, .orders = -1, .answers = -1 };

    m.pid = divide(name);
    if (m.pid == 0) {
        work(spec);
        fflush(NULL);
        _exit(0);
    }
    return m;
}

void member_tell(const member *m, member_order o)
{
    put(m->orders, &o, sizeof o, m->name);
}

member_answer member_hear(const member *m)
{
    struct pollfd p = { .fd = m->answers, .events = POLLIN };
    member_answer a;

    if (poll(&p, 1, PATIENCE_MS) == 0)
        fail(m->name, "does not answer");
    if (!take(m->answers, &a, sizeof a))
        fail(m->name, "has ended before its time");
    return a;
}

void member_tell_end(member *m)
{
    if (m->orders < 0)
        return;
    member_tell(m, (member_order){ .what = MEMBER_END });
    close(m->orders);
    m->orders = -1;
}

void member_end(member *m)
{
    member_tell_end(m);
    process_wait(m->pid, m->name);
    if (m->answers >= 0)
        close(m->answers);
}

double member_cpu_seconds(const member *m)
{
    return process_cpu_seconds(m->pid);
}
