/* collective_mpi.c - collective_mpi PIPES: the same by MPI_Allreduce; started by
 * mpirun. */
#include <mpi.h>
#include <stdio.h>

#include "collective_crew.h"

static void meet(void *arg)
{
    (void)arg;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void add_up(void *arg, float *data, float *out, size_t n)
{
    (void)arg;
    MPI_Allreduce(data, out, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    crew_work w = { meet, add_up, NULL };
    int rank;

    if (argc != 2 || MPI_Init(&argc, &argv) != MPI_SUCCESS)
        return 2;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    crew_serve(argv[1], rank, &w);
    MPI_Finalize();
    return 0;
}
