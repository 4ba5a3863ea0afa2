/* modes_crew.h - processes that wait for orders.
 *
 * A member is forked while the bench has no threads, so the data that was made
 * before is shared with it, and takes one order after the other from a pipe. It
 * ends with the bench at the latest. The bench itself never trains. One thread.
 */
#ifndef BENCH_MODES_CREW_H
#define BENCH_MODES_CREW_H

#include <stddef.h>
#include <sys/types.h>

#include "flotilla/flotilla.h"

typedef enum crew_what {
    CREW_TRAIN,  /* n batches from number `first` on */
    CREW_SETTLE, /* everything that was computed gets where it belongs */
    CREW_JUDGE,  /* what has been learnt, on the test set */
    CREW_END
} crew_what;

typedef struct crew_order {
    crew_what what;
    size_t first, n;
} crew_order;

typedef struct crew_answer {
    double loss, auc;   /* of what was trained, or judged */
    fl_job_stats stats; /* of a trainer, since its start */
} crew_answer;

typedef struct crew_member {
    const char *name; /* for messages */
    pid_t pid;
    int orders, answers; /* ends of pipes; -1: it takes no orders */
} crew_member;

/* Does what was ordered; CREW_END is the last order it gets. */
typedef void (*crew_do)(void *state, const crew_order *o, crew_answer *out);

/* In a member's process: makes its state, from which orders are carried out. */
typedef void *(*crew_begin)(const void *spec);

/* The spec is read in the new process. The member answers when it has begun:
   crew_hear takes that answer. */
crew_member crew_start(const char *name, crew_begin begin, crew_do work,
                       const void *spec);

/* The same for one that gets no orders: it ends when `work` is over. */
crew_member crew_start_alone(const char *name, void (*work)(const void *spec),
                             const void *spec);

void crew_tell(const crew_member *m, crew_order o);
/* Waits for the answer; ends the bench when the member has ended, or does not
   answer for minutes. */
crew_answer crew_hear(const crew_member *m);

/* CREW_END, and waits until the process has ended well. */
void crew_end(crew_member *m);

/* Of the whole process so far. */
double crew_cpu_seconds(const crew_member *m);

/* Seconds of a clock that only goes on. */
double crew_now(void);

#endif
