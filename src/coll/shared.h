/* shared.h - calls among the ranks of one machine, by the memory they share
 * (segment.h).
 *
 *     shared.c       channels, chunks, and who works on them
 *     alg_shared.c   what is done with a chunk, by kind
 *
 * Every ring has a channel, in which calls follow each other. A call is cut into
 * chunks, which are numbered from the beginning of the channel. For each of them
 * a rank
 *
 *     brings   its numbers into a slot of its own segment,
 *     adds     up its share of what all have brought, where sums are shared out,
 *     takes    what it needs from the others,
 *
 * and counts that in its segment. A slot is used again when all others are
 * through with what was in it. Nothing is sent: who is not ready is looked at
 * again, for a while, and then slept for.
 *
 * Work is done by whoever holds `mu`, a piece of a chunk at a time: the thread
 * that begins a call, one that waits for its end (fl_shared_help), and where
 * nobody waits a thread that sleeps otherwise.
 */
#ifndef FL_COLL_SHARED_H
#define FL_COLL_SHARED_H

#include "base/thread.h"
#include "coll/engine.h"
#include "coll/numbers.h"
#include "coll/segment.h"

typedef struct fl_shared fl_shared;
typedef struct fl_shared_run fl_shared_run;
typedef struct fl_shared_way fl_shared_way;

/* One after the other, a call is these among the ranks of this machine; sums
   among machines lie in between. */
typedef struct fl_shared_stage {
    const fl_shared_way *way; /* NULL: what the first of this machine sends */
    int root;                 /* among those of this machine */
    const void *in;
} fl_shared_stage;

#define FL_SHARED_STAGES 3

struct fl_shared_run {
    fl_shared_run *next;
    fl_coll_call call;
    fl_coll_sign sign;
    fl_coll_place at;
    fl_shared_stage stages[FL_SHARED_STAGES];
    int n_stages, stage;
    bool has_begun, is_checked; /* the stage; the signs of others */
    uint64_t base;              /* number of its first chunk */
    size_t n_chunks, brought, added, taken;
};

/* What the first of a machine is to send. */
typedef struct fl_shared_sending {
    bool is_due;
    fl_coll_call call;
    fl_coll_place at;
} fl_shared_sending;

typedef struct fl_shared_channel {
    _Atomic(fl_shared_run *) first; /* written under queue_mu */
    fl_shared_run *last;            /* guarded by queue_mu */
    uint64_t next;             /* number of the next chunk; guarded by mu */
    fl_shared_sending sending; /* by the call in front; guarded by mu */
    atomic_bool is_sent;       /* it has come back */
} fl_shared_channel;

typedef struct fl_shared_options {
    int n, me;             /* ranks of this machine */
    const int *ranks;      /* by place; copied */
    fl_segment **segments; /* by place; taken over */
    fl_coll_stats *stats;
    /* The first of this machine adds out[n] of a call up with those of the other
       machines; fl_shared_sent is to be called when that is done. No lock is
       held. */
    void (*send)(void *arg, const fl_coll_call *call, fl_coll_place at);
    /* Something is wrong, as this thread's last error. No lock is held. */
    void (*fail)(void *arg, fl_status st);
    void *arg;
} fl_shared_options;

struct fl_shared {
    fl_shared_options o;
    int *ranks;
    fl_segment **segments, *own;
    fl_shared_desk **desks[FL_SHARED_CHANNELS]; /* by place */
    fl_thread *thread;
    atomic_bool is_failed;
    _Atomic uint64_t n_runs, n_asked; /* under way; looks that were refused */
    atomic_int n_helpers, n_inside;

    fl_mutex mu; /* the one who works */

    fl_mutex queue_mu;
    fl_shared_channel channels[FL_SHARED_CHANNELS];

    fl_mutex idle_mu;
    fl_cond idle;
    bool is_closing; /* guarded by idle_mu */
};

FL_MUST_CHECK
fl_status fl_shared_new(fl_shared **out, const fl_shared_options *o);
/* Waits for those inside; calls must have ended. NULL is fine. */
void fl_shared_free(fl_shared *s);

/* A thread outside comes, and goes: it is there as long. */
void fl_shared_enter(fl_shared *s);
void fl_shared_leave(fl_shared *s);

/* Takes the run over; done is called with FL_OK when it is through. */
void fl_shared_put(fl_shared *s, fl_shared_run *r);
/* Works on what was put; others do the rest. */
void fl_shared_begin(fl_shared *s, bool is_helped);
void fl_shared_sent(fl_shared *s, uint32_t ring);
/* Works on calls until is_over(arg) or none are under way. */
void fl_shared_help(fl_shared *s, bool (*is_over)(void *arg), void *arg);
/* Stops all work; calls under way end with the error. */
void fl_shared_fail(fl_shared *s, const fl_err *why);
/* A rank that has not come to the call in front; -1: none is under way. */
int fl_shared_awaits(fl_shared *s, fl_coll_sign *sign, fl_coll_place *at);

/* --- alg_shared.c ---------------------------------------------------------- */

/* A chunk of a run. */
typedef struct fl_shared_chunk {
    const fl_shared *s;
    const fl_shared_run *r;
    const fl_shared_stage *stage;
    fl_shared_desk *const *desks; /* of all, by place */
    int slot;
    size_t lo, n; /* elements of the call */
} fl_shared_chunk;

struct fl_shared_way {
    const char *name;
    size_t chunk_bytes; /* at most; multiples of 8 */
    void (*bring)(const fl_shared_chunk *c);
    void (*add)(const fl_shared_chunk *c); /* NULL: sums are not shared out */
    void (*take)(const fl_shared_chunk *c);
};

/* By kind and size, small sums up to so many bytes; NULL: it is sent. */
const fl_shared_way *fl_shared_choose(const fl_coll_call *call,
                                      size_t small_bytes);
extern const fl_shared_way fl_shared_way_reduce, fl_shared_way_broadcast;

#endif
