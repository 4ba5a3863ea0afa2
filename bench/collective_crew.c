/* collective_crew.c - telling, doing, measuring. */
#include "collective_crew.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"
#include "ps_process.h"

/* So long a process may take until it listens, and so often it is asked. */
#define START_S 30
#define ASK_NS 10000000

typedef struct order {
    size_t bytes, reps;
} order;

static void fail(const char *what)
{
    fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double seconds_of(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void name_pipe(char out[CREW_PATH + 16], const char *pipes,
                      const char *way, int rank)
{
    (void)snprintf(out, CREW_PATH + 16, "%s.%s.%d", pipes, way, rank);
}

static int open_pipe(const char *pipes, const char *way, int rank, int flags)
{
    char path[CREW_PATH + 16];
    int fd;

    name_pipe(path, pipes, way, rank);
    fd = open(path, flags | O_CLOEXEC);
    if (fd < 0)
        fail(path);
    return fd;
}

/* False at the end. */
static int read_all(int fd, void *to, size_t n)
{
    size_t got = 0;

    while (got < n) {
        ssize_t r = read(fd, (char *)to + got, n - got);

        if (r <= 0)
            return 0;
        got += (size_t)r;
    }
    return 1;
}

static void write_all(int fd, const void *from, size_t n)
{
    if (write(fd, from, n) != (ssize_t)n)
        fail("a pipe of the bench");
}

/* --- in the bench ---------------------------------------------------------- */

static void each_pipe(const crew *c, void (*func)(const char *path))
{
    static const char *const ways[] = { "to", "from" };
    char path[CREW_PATH + 16];

    for (int rank = 0; rank < c->n; rank++)
        for (int i = 0; i < 2; i++) {
            name_pipe(path, c->pipes, ways[i], rank);
            func(path);
        }
}

static void make_pipe(const char *path)
{
    if (mkfifo(path, 0600) != 0)
        fail(path);
}

static void remove_pipe(const char *path)
{
    (void)unlink(path);
}

void crew_make(crew *c, const char *dir, const char *name, int n)
{
    memset(c, 0, sizeof *c);
    c->n = n;
    (void)snprintf(c->pipes, sizeof c->pipes, "%s/%s", dir, name);
    each_pipe(c, make_pipe);
}

/* From now on reads and writes wait. */
static int made_to_wait(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0)
        fail("a pipe of the bench");
    return fd;
}

/* The pipe to a process, once that listens. */
static int reach(const crew *c, int rank, double deadline)
{
    char path[CREW_PATH + 16];
    int fd;

    name_pipe(path, c->pipes, "to", rank);
    while ((fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)) < 0) {
        if (errno != ENXIO)
            fail(path);
        if (seconds_of(CLOCK_MONOTONIC) > deadline) {
            fprintf(stderr,
                    "bench: %s: process %d has not come within %d s; was it "
                    "started?\n",
                    c->pipes, rank, START_S);
            exit(1);
        }
        (void)nanosleep(&(struct timespec){ .tv_nsec = ASK_NS }, NULL);
    }
    return made_to_wait(fd);
}

/* A process opens its way back first, so one that listens has done that. */
void crew_open(crew *c)
{
    double deadline = seconds_of(CLOCK_MONOTONIC) + START_S;

    for (int i = 0; i < c->n; i++)
        c->from[i] = open_pipe(c->pipes, "from", i, O_RDONLY | O_NONBLOCK);
    for (int i = 0; i < c->n; i++) {
        c->to[i] = reach(c, i, deadline);
        (void)made_to_wait(c->from[i]);
    }
}

void crew_end(crew *c)
{
    for (int i = 0; i < c->n; i++) {
        (void)close(c->to[i]);
        (void)close(c->from[i]);
    }
    for (int i = 0; i < c->n_pids; i++)
        process_wait(c->pids[i], c->pipes);
    each_pipe(c, remove_pipe);
}

crew_time crew_run(crew *c, size_t bytes, size_t reps)
{
    order o = { bytes, reps };
    crew_time sum = { 0 };

    for (int i = 0; i < c->n; i++)
        write_all(c->to[i], &o, sizeof o);
    for (int i = 0; i < c->n; i++) {
        crew_time t;

        if (!read_all(c->from[i], &t, sizeof t)) {
            fprintf(stderr, "bench: %s: process %d has gone\n", c->pipes, i);
            exit(1);
        }
        sum.cpu_seconds += t.cpu_seconds;
        if (t.seconds > sum.seconds)
            sum.seconds = t.seconds;
    }
    return sum;
}

/* --- in a process of the crew ---------------------------------------------- */

static crew_time do_order(const crew_work *w, const order *o, float *data,
                          float *out)
{
    double wall, cpu;

    if (w->meet)
        w->meet(w->arg);
    wall = seconds_of(CLOCK_MONOTONIC);
    cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    for (size_t i = 0; i < o->reps; i++)
        w->round(w->arg, data, out, o->bytes / sizeof(float));
    return (crew_time){ seconds_of(CLOCK_MONOTONIC) - wall,
                        seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu };
}

void crew_serve(const char *pipes, int rank, const crew_work *w)
{
    int out = open_pipe(pipes, "from", rank, O_WRONLY);
    int in = open_pipe(pipes, "to", rank, O_RDONLY);
    float *data = bench_alloc(CREW_BYTES_MAX);
    float *sums = bench_alloc(CREW_BYTES_MAX);
    order o;

    while (read_all(in, &o, sizeof o)) {
        crew_time t = do_order(w, &o, data, sums);

        write_all(out, &t, sizeof t);
    }
    free(data);
    free(sums);
}
