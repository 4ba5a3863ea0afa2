/* coll.h - what workers do together: sums, copies and meetings of all ranks.
 *
 * Every rank has an fl_coll and makes the same calls in the same order on each
 * ring; calls of different rings are independent of each other. A call is
 * finished when this rank has its result and its memory is no longer read;
 * others may still be under way. Numbers are combined in an order that depends
 * on the ranks alone: all ranks get the same bits, and get them again.
 *
 * An engine (engines.def) does the work. It knows no sockets: parts leave by a
 * link, and whoever receives them hands them in (fl_coll_on_part).
 *
 * What goes wrong on one rank ends the calls of all: those under way and all
 * that come later fail with the first error, which names the rank.
 *
 * fl_coll_begin: one thread at a time per ring. fl_coll_new and fl_coll_free are
 * for the owner. The rest: any thread.
 */
#ifndef FL_COLL_COLL_H
#define FL_COLL_COLL_H

#include <stddef.h>

#include "base/stats.h"
#include "base/status.h"
#include "flotilla/tensor.h"

typedef struct fl_coll fl_coll;

/* NAME, name. */
#define FL_COLL_KINDS(X)                                                       \
    X(ALLREDUCE, "allreduce")                                                  \
    X(BROADCAST, "broadcast")                                                  \
    X(ALLGATHER, "allgather")                                                  \
    X(REDUCE, "reduce")                                                        \
    X(REDUCESCATTER, "reducescatter")                                          \
    X(BARRIER, "barrier")

typedef enum fl_coll_kind {
#define X(NAME, name) FL_COLL_##NAME,
    FL_COLL_KINDS(X)
#undef X
        FL_COLL_KIND_COUNT
} fl_coll_kind;

typedef enum fl_coll_op {
    FL_COLL_SUM,
    FL_COLL_MAX,
    FL_COLL_MIN,
    FL_COLL_PROD,
    FL_COLL_OP_COUNT
} fl_coll_op;

/* Rings are below it. */
#define FL_COLL_RING_MAX 64

/* What one rank asks for. The struct is copied, the memory is borrowed until
   done. `in` may be `out`, except of an allgather and a reducescatter.
 *
 *     ALLREDUCE      in[n] of all ranks, combined, in out[n] of all
 *     BROADCAST      in[n] of root in out[n] of all; only root's in is read
 *     ALLGATHER      in[n] of all ranks, one behind the other in the order of
 *                    ranks, in out[n * ranks]; or, with `room`, any n of each
 *     REDUCE         in[n] of all ranks, combined, in out[n] of root; out of
 *                    others is not touched
 *     REDUCESCATTER  in[n] of all ranks, combined; rank r gets the r-th of equal
 *                    pieces in out[n / ranks]
 *     BARRIER        ends when all have begun it; without memory
 */
typedef struct fl_coll_call {
    fl_coll_kind kind;
    fl_coll_op op;  /* of those that combine */
    fl_dtype dtype; /* F32, F64, I32, I64; U8 where nothing is combined */
    const void *in;
    void *out;
    size_t n; /* elements */
    int root, ring;
    /* Of an allgather whose ranks bring unequal numbers, on all of them: gives
       memory for all elements when it is known how many each rank brings, in
       counts (by rank, borrowed for the call). NULL: there is none. Called once,
       by any thread, before done; it makes no collective calls. */
    void *(*room)(void *arg, const uint64_t *counts, uint64_t sum);
    /* Once, by any thread, maybe before fl_coll_begin returns; an error is that
       thread's last one. */
    void (*done)(void *arg, fl_status st);
    void *arg; /* of both */
} fl_coll_call;

/* --- how parts travel ------------------------------------------------------ */

/* A part for another rank: head and bytes, one behind the other. All of it is
   borrowed until `ended` was called, once, and not from inside send: with FL_OK
   when the other side has taken it (its receipt), else with why it could not. */
typedef struct fl_coll_out {
    int to;
    const void *head, *bytes;
    size_t head_bytes, n;
    void (*ended)(void *arg, fl_status st);
    void *arg;
} fl_coll_out;

/* Parts from one rank to another arrive once and in order. Sending must not wait
   for anybody, nor hand in parts: locks are held. After an error `ended` is not
   called. */
typedef struct fl_coll_link {
    fl_status (*send)(void *arg, const fl_coll_out *o);
    void *arg;
} fl_coll_link;

/* Given once for a part, maybe later and by another thread: what the sender may
   be told. It slows those down who are ahead of this rank. */
typedef struct fl_coll_receipt {
    void (*taken)(void *arg, fl_status st);
    void *arg;
} fl_coll_receipt;

/* A part that came from a rank; the bytes are borrowed for the call, and lie at a
   multiple of 8. */
void fl_coll_on_part(fl_coll *c, int from, const void *bytes, size_t n,
                     fl_coll_receipt receipt);

/* --- life ------------------------------------------------------------------ */

typedef struct fl_coll_options {
    const char *engine; /* a name of engines.def; NULL: "builtin" */
    int rank, n_ranks;
    fl_coll_link link; /* as long as something that was sent has not ended */
    /* Ranks with equal texts use the memory that they share. NULL: what tells
       machines apart; "": no memory is shared. Borrowed for the call. */
    const char *machine;
    /* Up to so many bytes a sum is a small one, the same on all ranks; 0: as was
       measured (docs/decisions/030-collective-calls.md). For those that are sent,
       which have no more than a chunk, and those by shared memory. */
    size_t small_sent_bytes, small_shared_bytes;
} fl_coll_options;

FL_MUST_CHECK
fl_status fl_coll_new(fl_coll **out, const fl_coll_options *o);
/* Calls under way fail with FL_ERR_CLOSED first. No part may come any more.
   NULL is fine. */
void fl_coll_free(fl_coll *c);

/* Never blocks. What is wrong with a call ends it, too, and so the work of all
   ranks: they would wait for this one. */
void fl_coll_begin(fl_coll *c, const fl_coll_call *call);

/* Begins it, and waits for its end; works on it meanwhile. `done` and `arg` of
   `done` are not used. */
FL_MUST_CHECK
fl_status fl_coll_run(fl_coll *c, const fl_coll_call *call);

/* A peer is lost, or the job ends: all calls fail with this thread's last
   error, unless something else was wrong before. */
void fl_coll_fail(fl_coll *c, fl_status why);

/* Who is waited for, for people: "allreduce of 8 f32, number 7 of ring 0: nothing
   has come from worker 2". False when nothing is under way. */
bool fl_coll_waits_for(fl_coll *c, char *text, size_t cap);

/* Calls, and bytes of parts without their heads. What ranks read in each other's
   memory is not sent. */
#define FL_COLL_STATS(X)                                                       \
    X(calls, COUNT)                                                            \
    X(parts, COUNT)                                                            \
    X(sent, BYTES)                                                             \
    X(received, BYTES)                                                         \
    X(shared, BYTES)
FL_STATS(fl_coll_stats, FL_COLL_STATS);
const fl_coll_stats *fl_coll_stats_of(const fl_coll *c);

#endif
