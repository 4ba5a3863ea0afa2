/* queues.h - bounded queues, one per variable, and the threads that empty them.
 *
 * What was put into a queue comes out in the same order, several entries at a
 * time. So many times as are allowed at once may what was taken from a queue be
 * under way; then nothing more is taken before some of it is done, and the threads
 * serve other queues, so that a slow one delays nobody else. An entry that goes
 * alone is worked on by whoever finds its queue at rest: in a call of put or done.
 * Whoever knows that nothing more is to come for now releases all queues, and
 * works on what is there.
 *
 *     put -> [ room for `capacity` | owners wait, in turn ] -> work -> done
 *
 * Entries are the caller's memory, linked by their first member. Any thread may
 * put and say that something is done; the rest is for the owner.
 */
#ifndef FL_MODE_QUEUES_H
#define FL_MODE_QUEUES_H

#include "ir/comm.h"

typedef struct fl_queues fl_queues;

typedef struct fl_queue_entry {
    struct fl_queue_entry *next;
    fl_comm_answer *waits; /* of who put it, while there is no room */
    uint64_t since_ns;     /* when it began to wait */
} fl_queue_entry;

typedef struct fl_queues_config {
    size_t n_queues, capacity;
    size_t max_take;      /* entries that are worked on as one */
    size_t max_under_way; /* works on one queue that are not done */
    size_t enough;        /* so many entries need not wait for more */
    uint64_t linger_ns;   /* how long fewer of them do, unless released */
    int n_threads;
    _Atomic uint64_t *wait_ns; /* is told how long owners waited */
    void *arg;
    /* A list of n entries, now the callee's. fl_queues_done of as many follows
       exactly once, from any thread, also before this returns. */
    void (*work)(void *arg, size_t queue, fl_queue_entry *list, size_t n);
    /* A thread of the queues has worked, and finds nothing more for now. NULL is
       fine. */
    void (*pause)(void *arg);
    /* A list that will not be worked on. Must not call back. */
    void (*drop)(void *arg, size_t queue, fl_queue_entry *list);
} fl_queues_config;

fl_queues *fl_queues_new(const fl_queues_config *config);
/* After fl_queues_cancel or _close, when all that was begun is done. NULL is
   fine. */
void fl_queues_free(fl_queues *q);

/* FL_OK when there was room, FL_PENDING when the answer comes once there is
   some. After an error, which is the first one of any work or that the queues
   are closed, the entry stays the caller's. The first call starts the threads.
 */
fl_status fl_queues_put(fl_queues *q, size_t queue, fl_queue_entry *entry,
                        fl_comm_answer *answer);

/* What is in the queues now does not wait for more. */
void fl_queues_release(fl_queues *q);

/* The n entries of a work on that queue are done. The first error is kept:
   nothing more is begun, what is queued is dropped, and everybody gets it. */
void fl_queues_done(fl_queues *q, size_t queue, size_t n, fl_status st);
/* The same for an error that came from elsewhere. */
void fl_queues_fail(fl_queues *q, fl_status st);

/* Waits until everything that was put before is worked on and done, without
   lingering. Gives the first error. What is under way ends by itself: a link
   gives up a server that is lost. */
FL_MUST_CHECK
fl_status fl_queues_drain(fl_queues *q);

/* Takes nothing more in, waits until everything is worked on and done, without
   lingering, and ends the threads. Gives the first error; done twice is fine.
 */
FL_MUST_CHECK
fl_status fl_queues_close(fl_queues *q);

/* Drops what is queued and ends the threads, without waiting for what is under
   way. */
void fl_queues_cancel(fl_queues *q);

#endif
