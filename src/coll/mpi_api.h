/* mpi_api.h - what the plug-in flotilla-mpi.so does for the engine `mpi`.
 *
 * The plug-in is all that knows MPI: it is built where Open MPI is, and opened
 * when it is asked for. It uses nothing of this library, and gives one table. All
 * of it is called by one thread, the first call included.
 */
#ifndef FL_COLL_MPI_API_H
#define FL_COLL_MPI_API_H

#include "coll/coll.h"

#define FL_MPI_API_VERSION 1
#define FL_MPI_API_SYMBOL "fl_coll_mpi"
/* Each has a communicator of its own. */
#define FL_MPI_RINGS 20

/* Functions give 0, or 1 and a sentence in why[FL_ERR_TEXT_MAX]. */
typedef struct fl_mpi_api {
    int version;
    /* Begins MPI unless the program has; there must be this many, and this one
       must be of that rank. */
    int (*open)(int rank, int n_ranks, char *why);
    /* Ends MPI if it has begun it. */
    void (*close)(void);
    /* The same number of bytes of each rank, for all. */
    int (*swap)(int ring, const void *in, void *out, size_t bytes,
                void **request, char *why);
    /* Any call; counts, by rank, are of an allgather of unequal numbers. */
    int (*start)(const fl_coll_call *call, const uint64_t *counts,
                 void **request, char *why);
    /* Whether it is done; then the request is gone. */
    int (*test)(void *request, int *is_done, char *why);
} fl_mpi_api;

#endif
