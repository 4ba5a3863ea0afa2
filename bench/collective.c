/* collective.c - sums of two processes on two cores: the built-in engine,
 * MPI_Allreduce and memcpy take turns, size by size.
 *
 * The limit is memcpy: both processes copy as many bytes at the same time, as
 * each has to read its numbers and write the sums.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "collective_parts.h"
#include "harness.h"
#include "ps_process.h"

#define USUAL_REPEATS 11
#define GB 1e9

typedef struct size_row {
    const char *name;
    size_t bytes, reps;
} size_row;

static const size_row sizes[] = {
    { "4k", (size_t)4 << 10, 20000 },
    { "1m", (size_t)1 << 20, 200 },
    { "64m", (size_t)64 << 20, 4 },
};

enum { OURS, MEMCPY, MPI, N_CREWS };

/* --- processes -------------------------------------------------------------- */

static void copy(void *arg, float *data, float *out, size_t n)
{
    (void)arg;
    memcpy(out, data, n * sizeof(float));
}

/* WHAT PIPES RANK FD. */
static int serve(char **argv)
{
    int rank = argv[2][0] - '0', fd = (int)strtol(argv[3], NULL, 10);

    if (strcmp(argv[0], "ours") == 0)
        collective_serve(argv[1], rank, fd);
    else
        crew_serve(argv[1], rank, &(crew_work){ .round = copy });
    return 0;
}

static void start_pair(crew *c, const char *dir, const char *what)
{
    int fds[PAIR];

    crew_make(c, dir, what, PAIR);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) != 0)
        bench_check(FL_ERR_IO, "a pair of sockets");
    for (int i = 0; i < PAIR; i++) {
        char rank[4], fd[16];
        char *argv[] = { (char *)(size_t)PROCESS_SELF,
                         (char *)(size_t)what,
                         c->pipes,
                         rank,
                         fd,
                         NULL };

        (void)snprintf(rank, sizeof rank, "%d", i);
        (void)snprintf(fd, sizeof fd, "%d", fds[i]);
        c->pids[c->n_pids++] = process_start(argv);
    }
    for (int i = 0; i < PAIR; i++)
        (void)close(fds[i]);
    crew_open(c);
}

#ifdef BENCH_MPI
static void start_mpi(crew *c, const char *dir)
{
    char *argv[] = { (char *)(size_t) "mpirun",
                     (char *)(size_t) "-n",
                     (char *)(size_t) "2",
                     (char *)(size_t)BENCH_MPI,
                     c->pipes,
                     NULL };

    crew_make(c, dir, "mpi", PAIR);
    (void)setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    (void)setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    c->pids[c->n_pids++] = process_start(argv);
    crew_open(c);
}
#endif

/* --- figures ----------------------------------------------------------------- */

typedef struct series {
    double rate[64], cpu[64];
} series;

static void figure(const size_row *s, const char *name, const double *x,
                   size_t n, const char *unit)
{
    char prefix[48];

    (void)snprintf(prefix, sizeof prefix, "collective.allreduce.%s", s->name);
    bench_figure(prefix, name, x, n, unit);
}

static void ratio(const size_row *s, const char *name, const double *a,
                  const double *b, size_t n)
{
    double x[64];

    for (size_t i = 0; i < n; i++)
        x[i] = a[i] / b[i];
    figure(s, name, x, n, "x");
}

static void measure(crew *crews, int n_crews, const size_row *s, size_t n)
{
    static series of[N_CREWS];

    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < n_crews; k++) {
            int who = (int)((i + (size_t)k) % (size_t)n_crews);
            double gb = (double)(s->bytes * s->reps) / GB;
            crew_time t = crew_run(&crews[who], s->bytes, s->reps);

            of[who].rate[i] = gb / t.seconds;
            of[who].cpu[i] = t.cpu_seconds / gb;
        }
    figure(s, "rate", of[OURS].rate, n, "GB/s");
    figure(s, "cpu", of[OURS].cpu, n, "s/GB");
    figure(s, "memcpy_rate", of[MEMCPY].rate, n, "GB/s");
    ratio(s, "of_memcpy", of[OURS].rate, of[MEMCPY].rate, n);
    if (n_crews <= MPI)
        return;
    figure(s, "mpi_rate", of[MPI].rate, n, "GB/s");
    figure(s, "mpi_cpu", of[MPI].cpu, n, "s/GB");
    ratio(s, "of_mpi", of[OURS].rate, of[MPI].rate, n);
}

int main(int argc, char **argv)
{
    char dir[] = "/tmp/bench_collective.XXXXXX";
    crew crews[N_CREWS];
    int n_crews = MPI;
    size_t n = bench_repeats(USUAL_REPEATS);

    if (argc == 5)
        return serve(argv + 1);
    if (!mkdtemp(dir))
        bench_check(FL_ERR_IO, dir);
    start_pair(&crews[OURS], dir, "ours");
    start_pair(&crews[MEMCPY], dir, "memcpy");
#ifdef BENCH_MPI
    start_mpi(&crews[n_crews++], dir);
#else
    printf("bench: no libopenmpi-dev: collective goes without MPI\n");
#endif
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        measure(crews, n_crews, &sizes[i], n < 64 ? n : 64);
    for (int i = 0; i < n_crews; i++)
        crew_end(&crews[i]);
    return rmdir(dir) != 0;
}
