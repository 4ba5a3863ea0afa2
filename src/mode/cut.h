/* cut.h - a trainer's way to the cut of a save.
 *
 * A thread asks server 0 for the next cut, and when there is one closes the gate
 * that batches begin at: those under way come to their end, no other begins. Then
 * what the mode has handed over is settled, and server 0 is told, with what this
 * trainer brings. The answer opens the gate.
 *
 * Threads that meet after every batch (sync, half_async) are stopped behind a
 * meeting, or while none of them has a batch: one that has begun needs the
 * others.
 *
 * Any thread.
 */
#ifndef FL_MODE_CUT_H
#define FL_MODE_CUT_H

#include "base/thread.h"
#include "ps/client/client.h"

typedef struct fl_cut fl_cut;

typedef enum fl_cut_meeting {
    FL_CUT_MEETS_NOBODY,
    FL_CUT_MEETS_THREADS, /* threads of this trainer, behind every batch */
    FL_CUT_MEETS_ALL      /* the same, and trainers make rounds */
} fl_cut_meeting;

typedef struct fl_cut_hooks {
    /* All that was handed over is applied. */
    fl_status (*settle)(void *arg);
    /* What this trainer brings to the cut. */
    fl_status (*bring)(void *arg, fl_pack *out);
    /* The round that it makes next. */
    uint64_t (*round)(void *arg);
    /* Server 0 answers no more: this thread's last error says why. By the thread
       of the cut, once; NULL: nobody wants to know. */
    void (*lost)(void *arg, fl_status st);
    void *arg;
} fl_cut_hooks;

fl_cut *fl_cut_new(const fl_cut_hooks *hooks);
/* After fl_cut_stop, when the client has ended all requests. NULL is fine. */
void fl_cut_free(fl_cut *c);

/* Before it is started. */
void fl_cut_set_meeting(fl_cut *c, fl_cut_meeting how);

FL_MUST_CHECK
fl_status fl_cut_start(fl_cut *c, fl_client *client);
/* Ends the thread and opens the gate for good; done twice is fine. */
void fl_cut_stop(fl_cut *c);

/* A batch, or a request that changes what servers hold. begin waits while the gate
   is closed. */
void fl_cut_begin_batch(fl_cut *c);
void fl_cut_end_batch(fl_cut *c);

/* All threads have met, and no batch has begun since; the next round is this. */
void fl_cut_met(fl_cut *c, uint64_t round);

/* Around a call that waits for other members: no batch comes meanwhile. */
void fl_cut_begin_call(fl_cut *c);
void fl_cut_end_call(fl_cut *c);

#endif
