/* pace.h - how fast a save goes, all of its threads together.
 *
 * Two limits, of which the slower one counts: so many bytes a second, and, while
 * others work beside the save, so many cores. Others are seen by a number that
 * grows with what they do; a save that nobody works beside is as fast as it
 * goes, and so is an urgent one. Time that was not taken is kept, up to
 * FL_PACE_BURST_NS, so that a small save does not wait at all. Any thread.
 */
#ifndef FL_CKPT_PACE_H
#define FL_CKPT_PACE_H

#include "base/thread.h"

/* CPU time that a save takes at once, whatever its cores are. */
#define FL_PACE_BURST_NS UINT64_C(5000000)

/* Who has done nothing for so long is not at work any more. */
#define FL_PACE_QUIET_NS UINT64_C(1000000000)

/* Zeros are no limit. */
typedef struct fl_pace_limits {
    uint64_t bytes_per_s;
    double cores;                /* while others work */
    uint64_t (*work)(void *arg); /* what they have done so far; NULL: nobody
                                    works */
    void *arg;
} fl_pace_limits;

typedef struct fl_pace {
    fl_pace_limits limits;
    fl_mutex mu; /* guards what follows */
    fl_cond stop;
    uint64_t bytes_due_ns; /* when all bytes so far may have been written, */
    uint64_t cores_due_ns; /* and all CPU time so far may have been taken */
    uint64_t work_seen, busy_until_ns;
    bool is_urgent;
    bool is_stopped;
} fl_pace;

void fl_pace_init(fl_pace *p, const fl_pace_limits *limits);
void fl_pace_release(fl_pace *p);

/* What is small and awaited, a delta, is urgent: it takes the cores it gets. */
typedef enum fl_pace_kind { FL_PACE_PATIENT, FL_PACE_URGENT } fl_pace_kind;

/* A save begins: what others did before is not beside it. */
void fl_pace_begin(fl_pace *p, fl_pace_kind kind);

/* What a thread has written and taken since its last call. */
typedef struct fl_pace_use {
    uint64_t bytes, cpu_ns;
} fl_pace_use;

/* Notes that, and waits until it may go on; NULL is fine. */
void fl_pace_wait(fl_pace *p, fl_pace_use use);

/* The decision behind it, under mu or by the only thread: notes the use at that
   time, and gives the time at which the thread may go on; 0 is at once. */
uint64_t fl_pace_due(fl_pace *p, fl_pace_use use, uint64_t now_ns);

/* Nobody waits any more, as when the process ends. */
void fl_pace_stop(fl_pace *p);

#endif
