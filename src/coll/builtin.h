/* builtin.h - what the files of the built-in engine share.
 *
 *     builtin.c    calls from their beginning to their end, parts that come
 *     outbox.c     parts that leave
 *     meeting.c    before the first call: who shares memory with whom
 *     choose.c     which algorithm for which call
 *     alg_*.c      the algorithms
 *     shared.h     calls by memory that is shared
 *
 * An algorithm is a small machine: it is started, and takes parts as they come.
 * A part that is too early is kept, as are those of calls that this rank has not
 * begun; only when it is taken its sender gets the receipt. So nobody is more
 * than a few parts ahead of another, and what is kept has a limit. One call of a
 * ring is at work at a time: its parts are never behind those of a later one,
 * which nobody may take yet.
 *
 * All of it runs under one mutex, in the thread that begins a call or brings a
 * part; ends of calls and receipts are given behind it (fl_builtin_leave).
 * Under the mutex parts are sent.
 */
#ifndef FL_COLL_BUILTIN_H
#define FL_COLL_BUILTIN_H

#include "base/buf.h"
#include "base/thread.h"
#include "base/vec.h"
#include "coll/engine.h"
#include "coll/numbers.h"
#include "coll/part.h"
#include "coll/shared.h"

/* What is larger travels in chunks of so many bytes, one behind the other. */
#define FL_COLL_CHUNK_BYTES ((size_t)256 << 10)
/* Parts of one ring to one rank that have no receipt yet; the others wait. */
#define FL_COLL_WINDOW 4
/* Buffers of parts that are kept for the next ones. */
#define FL_COLL_SPARE 32
/* Up to here few messages count for more than few bytes, and one meeting for more
   than few additions (docs/decisions/030-collective-calls.md). */
#define FL_COLL_SMALL_SENT_BYTES ((size_t)128 << 10)
#define FL_COLL_SMALL_SHARED_BYTES ((size_t)32 << 10)

typedef struct fl_builtin fl_builtin;
typedef struct fl_run fl_run;

typedef struct fl_coll_alg {
    const char *name;
    fl_status (*start)(fl_run *r);
    /* *is_early: it was not taken, and comes again after the next one. */
    fl_status (*take)(fl_run *r, const fl_coll_part *p, bool *is_early);
    /* Whose parts it waits for; -1: those of several. */
    int (*awaits)(const fl_run *r);
} fl_coll_alg;

/* Ranks that make calls among themselves. */
typedef struct fl_coll_group {
    int n, me;
    int *ranks; /* by place */
} fl_coll_group;

/* A call on its way. */
struct fl_run {
    fl_run *next;
    fl_builtin *b;
    fl_coll_call call;
    fl_coll_sign sign;
    fl_coll_place at;
    const fl_coll_alg *alg;     /* NULL: not yet at work */
    const fl_coll_group *group; /* for which ranks are places in it */
    size_t n_left;              /* parts that are still to come */
    size_t n_queued; /* parts that are still to leave: they read its memory */
    /* For the algorithm. */
    uint32_t step;
    uint8_t *acc;
    fl_buf scratch;
};

/* The ring on which ranks meet before their first call. */
#define FL_COLL_RING_MEETING FL_COLL_RING_MAX
#define FL_COLL_RINGS (FL_COLL_RING_MAX + 1)

typedef struct fl_coll_slot fl_coll_slot;
typedef struct fl_coll_queued fl_coll_queued;

/* Parts to one rank. */
typedef struct fl_coll_outbox {
    fl_coll_queued *first, **end;
    uint8_t n_under_way[FL_COLL_RINGS]; /* by ring */
} fl_coll_outbox;

/* A part that is not taken yet. */
typedef struct fl_coll_held {
    struct fl_coll_held *next;
    fl_coll_part part;
    fl_buf bytes;
    fl_coll_receipt receipt;
} fl_coll_held;

typedef enum fl_coll_phase {
    FL_COLL_FIRST,   /* no call yet */
    FL_COLL_MEETING, /* calls wait */
    FL_COLL_READY
} fl_coll_phase;

struct fl_builtin {
    fl_coll base;
    fl_coll_link link;
    char machine[FL_MACHINE_MAX];
    size_t small_sent_bytes, small_shared_bytes;
    fl_coll_group all;

    fl_mutex mu; /* guards all that follows */
    fl_coll_phase phase;
    FL_VEC(fl_coll_call) waiting; /* while they meet */
    fl_shared *shared;            /* NULL: with nobody */
    /* The first rank of each machine, when ranks of several machines share
       memory; this one may be none of them. n is 0 otherwise. */
    fl_coll_group leaders;
    uint64_t numbers[FL_COLL_RINGS]; /* of the next call */
    FL_VEC(fl_coll_place) later; /* calls that this rank will send parts of */
    fl_run *runs;                /* in the order of their beginning */
    fl_coll_held *held;          /* in the order of their coming */
    fl_coll_outbox *outboxes;    /* by rank */
    fl_coll_slot *spare;
    int n_spare;
    int n_slots; /* that have not ended */
    fl_err err;  /* the first one */
    bool is_freed;
    /* For fl_builtin_leave. */
    fl_run *ended;
    FL_VEC(fl_coll_receipt) receipts;
};

/* --- builtin.c ------------------------------------------------------------- */

/* Under the mutex: something went wrong here, as this thread's last error, and
   the other ranks are told. */
void fl_builtin_fail(fl_builtin *b, fl_status st);
/* Ends calls that are through, lets the mutex go, and tells their owners. */
void fl_builtin_leave(fl_builtin *b);
void fl_builtin_destroy(fl_builtin *b);
/* Under the mutex: it is at work when those before it are over. */
void fl_builtin_start(fl_builtin *b, const fl_coll_call *call,
                      const fl_coll_group *group, uint64_t number);
/* The next number of a ring. */
uint64_t fl_builtin_number(fl_builtin *b, int ring);
/* Under the mutex: what is shared, to be left afterwards; NULL: nothing. */
fl_shared *fl_builtin_enter_shared(fl_builtin *b);
/* The meeting is over: what waits begins. Without the mutex. */
void fl_builtin_ready(fl_builtin *b);

/* --- meeting.c ------------------------------------------------------------- */

/* Under the mutex, at the first call; fl_builtin_ready ends it. */
void fl_builtin_meet(fl_builtin *b);

/* --- levels.c -------------------------------------------------------------- */

/* Under the mutex: begins a call, or puts it to the shared memory. */
void fl_builtin_dispatch(fl_builtin *b, const fl_coll_call *call);
/* What a machine's first rank sends (shared.h). */
void fl_builtin_send(void *builtin, const fl_coll_call *call, fl_coll_place at);

/* --- outbox.c -------------------------------------------------------------- */

/* Under the mutex. The bytes are read until r->n_queued has fallen. */
void fl_run_send(fl_run *r, int to, uint32_t step, uint64_t chunk,
                 fl_coll_span s, const void *from);
/* Tells all other ranks of b->err. */
void fl_coll_outbox_abort(fl_builtin *b);
/* Forgets what has not left. */
void fl_coll_outbox_clear(fl_builtin *b);
void fl_coll_outbox_release(fl_builtin *b);

/* --- choose.c -------------------------------------------------------------- */

const fl_coll_alg *fl_coll_choose(const fl_run *r);

extern const fl_coll_alg fl_coll_alg_alone, fl_coll_alg_ring,
    fl_coll_alg_doubling, fl_coll_alg_broadcast, fl_coll_alg_reduce,
    fl_coll_alg_gather;

/* --- work.c: what algorithms have in common -------------------------------- */

/* Algorithms know places in their group; parts have them, too. */
int fl_run_ranks(const fl_run *r);
int fl_run_me(const fl_run *r);
/* The one that is so many places behind another, in a circle. */
int fl_run_rank_at(const fl_run *r, int from, int places);

size_t fl_run_bytes(const fl_run *r, size_t n);
const uint8_t *fl_run_in(const fl_run *r, size_t at);
/* Memory of the run's own. */
FL_MUST_CHECK
fl_status fl_run_reserve(fl_run *r, size_t bytes);

size_t fl_run_chunks(const fl_run *r, fl_coll_span s);
fl_coll_span fl_run_chunk(const fl_run *r, fl_coll_span s, size_t i);
/* Sends all chunks, or that one of `all` which has this number. */
void fl_run_send_all(fl_run *r, int to, uint32_t step, fl_coll_span all,
                     const void *from);

/* Chunk p->chunk of `all`, which the part has to be. */
FL_MUST_CHECK
fl_status fl_run_expect(const fl_run *r, const fl_coll_part *p,
                        fl_coll_span all, fl_coll_span *out);
/* A part that nobody should have sent. */
fl_status fl_run_unexpected(const fl_run *r, const fl_coll_part *p);

/* --- tree.c: who is above and below whom ------------------------------------ */

#define FL_COLL_CHILDREN_MAX 32

typedef struct fl_coll_tree {
    int parent; /* -1: this is the root */
    int n_children;
    int children[FL_COLL_CHILDREN_MAX];
} fl_coll_tree;

/* By the root of the call: few levels for what is small, a chain for what
   travels in many chunks. */
fl_coll_tree fl_coll_tree_of(const fl_run *r);

#endif
