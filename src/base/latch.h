/* latch.h - counts what is under way, until all of it has ended: for a thread
 * that waits for that, or for what comes next without anybody who waits.
 *
 * What begins is counted by fl_latch_add before it does, and ends with
 * fl_latch_done, from any thread. The first error is the latch's.
 */
#ifndef FL_BASE_LATCH_H
#define FL_BASE_LATCH_H

#include "base/poller.h"
#include "base/thread.h"

typedef void (*fl_latch_next)(void *arg, fl_status st);

typedef struct fl_latch {
    fl_poller *poller;  /* which its thread helps while it waits, */
    fl_latch_next next; /* or who is called in the end; both NULL: it sleeps */
    void *arg;
    fl_mutex mu;
    fl_cond over;
    int n_open; /* guarded by mu */
    fl_err err; /* the first one; guarded by mu */
} fl_latch;

/* The poller is that of the loop in which things end; NULL is fine. */
void fl_latch_init(fl_latch *l, fl_poller *poller);
void fl_latch_release(fl_latch *l);

/* Calls next(arg, st) when all have ended; it may open the latch again. Counts
   as the first of them, so that nothing is over before all have begun:
   fl_latch_done(l, FL_OK) ends it. */
void fl_latch_open(fl_latch *l, fl_latch_next next, void *arg);

void fl_latch_add(fl_latch *l);
/* Also of what could not begin. */
void fl_latch_done(void *latch, fl_status st);

/* Until all have ended. */
FL_MUST_CHECK
fl_status fl_latch_wait(fl_latch *l);

#endif
