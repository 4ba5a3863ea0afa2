/* collective_parts.h - the processes of bench collective. */
#ifndef BENCH_COLLECTIVE_PARTS_H
#define BENCH_COLLECTIVE_PARTS_H

#include "collective_crew.h"

#define PAIR 2

/* One of two that add up by the library; fd is a packet socket to the other. */
void collective_serve(const char *pipes, int rank, int fd);

#endif
