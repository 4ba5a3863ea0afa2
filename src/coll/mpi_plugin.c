/* mpi_plugin.c - flotilla-mpi.so: collective calls by MPI (mpi_api.h). */
#include <inttypes.h>
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/mpi_api.h"

/* A call on its way, and what MPI reads until it is done. */
typedef struct request {
    MPI_Request mpi;
    int *counts, *places;
} request;

static MPI_Comm rings[FL_MPI_RINGS];
static int n_ranks;
static int has_begun;

/* --- errors ------------------------------------------------------------------ */

static int check(int code, const char *what, char *why)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len;

    if (code == MPI_SUCCESS)
        return 0;
    (void)MPI_Error_string(code, text, &len);
    (void)snprintf(why, FL_ERR_TEXT_MAX, "MPI: %s: %s", what, text);
    return 1;
}

static int refuse(char *why, const char *sentence)
{
    (void)snprintf(why, FL_ERR_TEXT_MAX, "MPI: %s", sentence);
    return 1;
}

/* --- life -------------------------------------------------------------------- */

/* All calls come from one thread, but maybe not the one that began MPI. */
static int begin_mpi(char *why)
{
    int is_there, level;

    MPI_Initialized(&is_there);
    if (is_there)
        MPI_Query_thread(&level);
    else if (check(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level),
                   "beginning", why))
        return 1;
    has_begun = !is_there;
    if (level < MPI_THREAD_SERIALIZED)
        return refuse(why, "this MPI serves one thread only: a program that "
                           "begins it asks for MPI_THREAD_SERIALIZED");
    return 0;
}

static int find_rings(int rank, int n, char *why)
{
    int mpi_rank, mpi_n;

    MPI_Comm_rank(MPI_COMM_WORLD, &mpi_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &mpi_n);
    if (mpi_n != n || mpi_rank != rank) {
        (void)snprintf(why, FL_ERR_TEXT_MAX,
                       "worker %d of %d is rank %d of %d of MPI: start every "
                       "worker by mpirun or srun --mpi, in the order of ranks",
                       rank, n, mpi_rank, mpi_n);
        return 1;
    }
    n_ranks = n;
    for (int i = 0; i < FL_MPI_RINGS; i++) {
        if (check(MPI_Comm_dup(MPI_COMM_WORLD, &rings[i]), "a ring", why))
            return 1;
        MPI_Comm_set_errhandler(rings[i], MPI_ERRORS_RETURN);
    }
    return 0;
}

static void end_mpi(void)
{
    if (has_begun)
        MPI_Finalize();
}

static int open_mpi(int rank, int n, char *why)
{
    if (begin_mpi(why))
        return 1;
    if (!find_rings(rank, n, why))
        return 0;
    end_mpi();
    return 1;
}

static void close_mpi(void)
{
    for (int i = 0; i < FL_MPI_RINGS; i++)
        MPI_Comm_free(&rings[i]);
    end_mpi();
}

/* --- calls ------------------------------------------------------------------- */

static MPI_Datatype type_of(fl_dtype d)
{
    switch (d) {
    case FL_DTYPE_F32:
        return MPI_FLOAT;
    case FL_DTYPE_F64:
        return MPI_DOUBLE;
    case FL_DTYPE_I32:
        return MPI_INT32_T;
    case FL_DTYPE_I64:
        return MPI_INT64_T;
    default:
        return MPI_BYTE;
    }
}

static MPI_Op op_of(fl_coll_op op)
{
    switch (op) {
    case FL_COLL_MAX:
        return MPI_MAX;
    case FL_COLL_MIN:
        return MPI_MIN;
    case FL_COLL_PROD:
        return MPI_PROD;
    default:
        return MPI_SUM;
    }
}

static request *new_request(void)
{
    request *r = calloc(1, sizeof *r);

    if (!r)
        abort();
    return r;
}

static void free_request(request *r)
{
    free(r->counts);
    free(r->places);
    free(r);
}

static int finish(request *r, int code, const char *what, void **out, char *why)
{
    if (check(code, what, why)) {
        free_request(r);
        return 1;
    }
    *out = r;
    return 0;
}

static int swap(int ring, const void *in, void *out, size_t bytes,
                void **request_out, char *why)
{
    request *r = new_request();
    int code = MPI_Iallgather(in, (int)bytes, MPI_BYTE, out, (int)bytes,
                              MPI_BYTE, rings[ring], &r->mpi);

    /* It is tested until it is done, by whoever gets it. */
    /* NOLINTNEXTLINE(clang-analyzer-optin.mpi.MPI-Checker) */
    return finish(r, code, "an exchange", request_out, why);
}

/* Counts as MPI wants them; 1: they are too large for it. */
static int set_counts(request *r, const uint64_t *counts)
{
    uint64_t at = 0;

    r->counts = calloc((size_t)n_ranks, sizeof *r->counts);
    r->places = calloc((size_t)n_ranks, sizeof *r->places);
    if (!r->counts || !r->places)
        abort();
    for (int i = 0; i < n_ranks; i++) {
        if (at + counts[i] > INT_MAX)
            return 1;
        r->counts[i] = (int)counts[i];
        r->places[i] = (int)at;
        at += counts[i];
    }
    return 0;
}

static int gather(request *r, const fl_coll_call *a, MPI_Comm c)
{
    MPI_Datatype t = type_of(a->dtype);

    if (r->counts)
        return MPI_Iallgatherv(a->in, (int)a->n, t, a->out, r->counts,
                               r->places, t, c, &r->mpi);
    return MPI_Iallgather(a->in, (int)a->n, t, a->out, (int)a->n, t, c,
                          &r->mpi);
}

/* A broadcast has one buffer. */
static int broadcast(request *r, const fl_coll_call *a, MPI_Comm c)
{
    int rank, bytes;

    MPI_Comm_rank(c, &rank);
    MPI_Type_size(type_of(a->dtype), &bytes);
    if (rank == a->root && a->in != a->out && a->n)
        memcpy(a->out, a->in, a->n * (size_t)bytes);
    return MPI_Ibcast(a->out, (int)a->n, type_of(a->dtype), a->root, c,
                      &r->mpi);
}

static int reduce(request *r, const fl_coll_call *a, MPI_Comm c)
{
    const void *in = a->in;
    int rank;

    MPI_Comm_rank(c, &rank);
    if (rank == a->root && a->in == a->out)
        in = MPI_IN_PLACE;
    return MPI_Ireduce(in, a->out, (int)a->n, type_of(a->dtype), op_of(a->op),
                       a->root, c, &r->mpi);
}

static int begin(request *r, const fl_coll_call *a, MPI_Comm c)
{
    MPI_Datatype t = type_of(a->dtype);

    switch (a->kind) {
    case FL_COLL_ALLREDUCE:
        return MPI_Iallreduce(a->in == a->out ? MPI_IN_PLACE : a->in, a->out,
                              (int)a->n, t, op_of(a->op), c, &r->mpi);
    case FL_COLL_BROADCAST:
        return broadcast(r, a, c);
    case FL_COLL_ALLGATHER:
        return gather(r, a, c);
    case FL_COLL_REDUCE:
        return reduce(r, a, c);
    case FL_COLL_REDUCESCATTER:
        return MPI_Ireduce_scatter_block(a->in, a->out, (int)a->n / n_ranks, t,
                                         op_of(a->op), c, &r->mpi);
    default:
        return MPI_Ibarrier(c, &r->mpi);
    }
}

static int start(const fl_coll_call *a, const uint64_t *counts,
                 void **request_out, char *why)
{
    request *r;

    if (a->n > INT_MAX)
        return refuse(why, "a call has more than 2^31 - 1 elements");
    r = new_request();
    if (counts && set_counts(r, counts)) {
        free_request(r);
        return refuse(why, "a gather has more than 2^31 - 1 elements");
    }
    /* NOLINTNEXTLINE(clang-analyzer-optin.mpi.MPI-Checker) */
    return finish(r, begin(r, a, rings[a->ring]), "a call", request_out, why);
}

static int test(void *request_in, int *is_done, char *why)
{
    request *r = request_in;
    int failed =
        check(MPI_Test(&r->mpi, is_done, MPI_STATUS_IGNORE), "a call", why);

    if (failed || *is_done)
        free_request(r);
    return failed;
}

__attribute__((visibility("default"))) const fl_mpi_api fl_coll_mpi = {
    .version = FL_MPI_API_VERSION,
    .open = open_mpi,
    .close = close_mpi,
    .swap = swap,
    .start = start,
    .test = test,
};
