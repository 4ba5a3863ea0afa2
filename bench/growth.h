/* growth.h - what more members cost. */
#ifndef BENCH_GROWTH_H
#define BENCH_GROWTH_H

/* A coordinator's CPU for a round, with more and more members. */
void growth_coordinator(void);
/* A server's CPU and memory, with more and more trainers. */
void growth_servers(void);
/* A trainer's CPU for a batch, with more and more servers. */
void growth_trainers(void);
/* What two threads of a server get from its rows, with more and more servers. */
void growth_tables(void);

#endif
