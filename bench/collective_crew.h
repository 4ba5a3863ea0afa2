/* collective_crew.h - a few processes that do the same thing at the same time when
 * they are told to, and say how long it took.
 *
 * A crew is told by named pipes, so that it may be started by anything, and
 * sleeps in between: one that is not measured costs the others nothing.
 */
#ifndef BENCH_COLLECTIVE_CREW_H
#define BENCH_COLLECTIVE_CREW_H

#include <stddef.h>
#include <sys/types.h>

#define CREW_MAX 4
#define CREW_PATH 96
#define CREW_BYTES_MAX ((size_t)64 << 20)

/* --- in the bench ---------------------------------------------------------- */

typedef struct crew {
    char pipes[CREW_PATH]; /* DIR/NAME, the beginning of their names */
    int n;                 /* processes */
    pid_t pids[CREW_MAX];
    int n_pids;
    int to[CREW_MAX], from[CREW_MAX];
} crew;

/* Makes the pipes of n processes, which then are to be started; after that they
   are opened, which ends the program when a process has not come in time. */
void crew_make(crew *c, const char *dir, const char *name, int n);
void crew_open(crew *c);
/* Ends the processes and removes the pipes. */
void crew_end(crew *c);

/* What `reps` rounds of so many bytes took: the time of the slowest one, and the
   CPU time of all. */
typedef struct crew_time {
    double seconds, cpu_seconds;
} crew_time;
crew_time crew_run(crew *c, size_t bytes, size_t reps);

/* --- in a process of the crew ---------------------------------------------- */

typedef struct crew_work {
    void (*meet)(void *arg); /* all of them; may be NULL */
    void (*round)(void *arg, float *data, float *out, size_t n);
    void *arg;
} crew_work;

/* Does what it is told until the bench has gone. */
void crew_serve(const char *pipes, int rank, const crew_work *w);

#endif
