/* modes_members.h - processes that wait for orders.
 *
 * A member is forked while the bench has no threads, so the data that was made
 * before is shared with it, and takes one order after the other from a pipe. It
 * ends with the bench at the latest. The bench itself never trains. One thread.
 */
#ifndef BENCH_MODES_MEMBERS_H
#define BENCH_MODES_MEMBERS_H

#include <stddef.h>
#include <sys/types.h>

#include "flotilla/flotilla.h"

typedef enum member_what {
    MEMBER_TRAIN,  /* n batches from number `first` on */
    MEMBER_SETTLE, /* everything that was computed gets where it belongs */
    MEMBER_JUDGE,  /* what has been learnt, on the test set */
    MEMBER_END
} member_what;

typedef struct member_order {
    member_what what;
    size_t first, n;
} member_order;

typedef struct member_answer {
    double loss, auc;   /* of what was trained, or judged */
    fl_job_stats stats; /* of a trainer, since its start */
} member_answer;

typedef struct member {
    const char *name; /* for messages */
    pid_t pid;
    int orders, answers; /* ends of pipes; -1: it takes no orders */
} member;

/* Does what was ordered; MEMBER_END is the last order it gets. */
typedef void (*member_do)(void *state, const member_order *o,
                          member_answer *out);

/* In a member's process: makes its state, from which orders are carried out. */
typedef void *(*member_begin)(const void *spec);

/* The spec is read in the new process. The member answers when it has begun:
   member_hear takes that answer. */
member member_start(const char *name, member_begin begin, member_do work,
                    const void *spec);

/* The same for one that gets no orders: it ends when `work` is over. */
member member_start_alone(const char *name, void (*work)(const void *spec),
                          const void *spec);

void member_tell(const member *m, member_order o);
/* Waits for the answer; ends the bench when the member has ended, or does not
   answer for minutes. */
member_answer member_hear(const member *m);

/* MEMBER_END, which is told once. */
void member_tell_end(member *m);
/* The same, and waits until the process has ended well. */
void member_end(member *m);

/* Of the whole process so far. */
double member_cpu_seconds(const member *m);

/* Seconds of a clock that only goes on. */
double member_now(void);

#endif
