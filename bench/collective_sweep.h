/* collective_sweep.h - the workers of bench collective_sweep. */
#ifndef BENCH_COLLECTIVE_SWEEP_H
#define BENCH_COLLECTIVE_SWEEP_H

#include <stdbool.h>

#include "collective_crew.h"
#include "ps_process.h"

/* Who a worker is, and how it adds up. */
typedef struct sweep_seat {
    const char *pipes;
    int rank, n;
    bool is_shared; /* by shared memory, else by messages */
    bool is_small;  /* every sum is taken for a small one, or none is */
    char addresses[CREW_MAX][ADDRESS_MAX];
} sweep_seat;

/* Does what it is told until the bench has gone. */
void sweep_serve(const sweep_seat *s);

#endif
