/* mpi_member.c - mpi_member [odd|alone]: a task of mpirun that makes every kind of
 * call by MPI, and says what came out. With `odd` the last rank makes another call
 * than the rest; with `alone` it takes itself for one of seven. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/coll.h"

#define N 12000 /* a multiple of the ranks */

static int failed;

static void expect(int is_good, const char *what)
{
    if (is_good)
        return;
    printf("wrong: %s: %s\n", what, fl_last_error());
    failed = 1;
}

static float value(int rank, size_t i)
{
    return (float)(rank + 1) * (float)(i % 10);
}

/* Of all ranks: the sum is that of rank numbers times the digit. */
static int is_sum(const float *x, size_t from, size_t n, int n_ranks)
{
    int ranks = n_ranks * (n_ranks + 1) / 2;

    for (size_t i = 0; i < n; i++)
        if (x[i] != (float)ranks * (float)((from + i) % 10))
            return 0;
    return 1;
}

static void sums(fl_coll *c, int rank, int n_ranks)
{
    static float in[N], out[N];
    fl_coll_call a = { .in = in, .out = out, .n = N, .root = n_ranks - 1 };
    size_t piece = N / (size_t)n_ranks;

    for (size_t i = 0; i < N; i++)
        in[i] = value(rank, i);
    a.kind = FL_COLL_REDUCE;
    expect(!fl_coll_run(c, &a) &&
               (rank != a.root || is_sum(out, 0, N, n_ranks)),
           "reduce");
    a.kind = FL_COLL_REDUCESCATTER;
    expect(!fl_coll_run(c, &a) &&
               is_sum(out, piece * (size_t)rank, piece, n_ranks),
           "reducescatter");
    a.kind = FL_COLL_ALLREDUCE;
    a.in = out;
    memcpy(out, in, sizeof out);
    expect(!fl_coll_run(c, &a) && is_sum(out, 0, N, n_ranks), "allreduce");
}

static void *give_room(void *arg, const uint64_t *counts, uint64_t sum)
{
    (void)counts, (void)sum;
    return arg;
}

/* Rank r brings r + 1 numbers r. */
static void copies(fl_coll *c, int rank, int n_ranks)
{
    static int64_t in[64], out[64 * 64];
    fl_coll_call a = { .dtype = FL_DTYPE_I64, .in = in, .out = out };
    size_t at = 0;

    for (int i = 0; i < 64; i++)
        in[i] = rank;
    a.kind = FL_COLL_BROADCAST;
    a.n = 64;
    a.root = 1;
    a.ring = 1;
    expect(!fl_coll_run(c, &a) && out[63] == 1, "broadcast");
    a.kind = FL_COLL_ALLGATHER;
    a.n = (size_t)rank + 1;
    a.room = give_room;
    a.arg = out;
    expect(!fl_coll_run(c, &a), "allgather");
    for (int r = 0; r < n_ranks; r++)
        for (int i = 0; i <= r; i++, at++)
            expect(out[at] == r, "what was gathered");
    a.kind = FL_COLL_BARRIER;
    a.room = NULL;
    expect(!fl_coll_run(c, &a), "barrier");
}

static void make_odd_call(fl_coll *c, int rank, int n_ranks)
{
    float x[2] = { 0 };
    fl_coll_call a = { .kind = FL_COLL_ALLREDUCE, .in = x, .out = x, .n = 2 };

    if (rank == n_ranks - 1)
        a.n = 1;
    expect(fl_coll_run(c, &a) == FL_ERR_INVAL, "a call that does not fit");
    printf("odd: %s\n", fl_last_error());
}

static int number(const char *name)
{
    const char *text = getenv(name);

    return text ? (int)strtol(text, NULL, 10) : 0;
}

int main(int argc, char **argv)
{
    int rank = number("OMPI_COMM_WORLD_RANK");
    int n_ranks =
        getenv("OMPI_COMM_WORLD_SIZE") ? number("OMPI_COMM_WORLD_SIZE") : 1;
    fl_coll_options o = { .engine = "mpi", .rank = rank, .n_ranks = n_ranks };
    fl_coll *c = NULL;

    if (argc > 1 && strcmp(argv[1], "alone") == 0)
        o.n_ranks = 7;
    if (fl_coll_new(&c, &o)) {
        printf("none: %s\n", fl_last_error());
        return 3;
    }
    if (argc > 1) {
        make_odd_call(c, rank, n_ranks);
    } else {
        sums(c, rank, n_ranks);
        copies(c, rank, n_ranks);
        printf("rank %d of %d: %s\n", rank, n_ranks, failed ? "bad" : "good");
    }
    fl_coll_free(c);
    return failed;
}
