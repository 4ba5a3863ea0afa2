/* store_cut.h - what a server holds, as of one moment.
 *
 * The gate closes: requests that run come to their end, others wait. Then the
 * dense blocks are copied, a cut of every table begins (table/cut.h), and the
 * gate opens again. Rows are read behind it: all of them, or those that changed
 * since the version that the store stands on (store_chain.h).
 *
 * One cut at a time; owner thread only.
 */
#ifndef FL_PS_STORE_STORE_CUT_H
#define FL_PS_STORE_STORE_CUT_H

#include "base/vec.h"
#include "ps/store/store.h"
#include "ps/store/store_chain.h"
#include "rpc/wire/frame.h"
#include "table/cut.h"

typedef struct fl_store_cut {
    FL_VEC(fl_pack) values; /* a variable of a block each (ps/named.h) */
    FL_VEC(fl_table_cut *) tables;
    uint64_t closed_ns; /* how long requests have waited */
} fl_store_cut;

/* What a cut is taken for. */
typedef struct fl_store_cut_options {
    const fl_store_chain *since; /* rows that changed since then; NULL: all */
    bool watch;                  /* the next one may be a delta of this one */
    fl_cut_pick pick;
} fl_store_cut_options;

/* FL_ERR_INVAL when nothing was declared yet. After an error epochs have
   advanced as if the cut had been taken. */
FL_MUST_CHECK
fl_status fl_store_cut_begin(fl_store_cut **out, fl_store *s,
                             const fl_store_cut_options *options);
void fl_store_cut_end(fl_store_cut *c); /* NULL is fine */

/* Counts as a cut that nothing is read of: servers of a job have the same
   epochs, whoever of them took part in a save that failed. */
void fl_store_cut_skip(fl_store *s);

/* Why a chain does not know what changed since that version; NULL: it does. */
const char *fl_store_cut_why_whole(const fl_store *s, fl_store_use use,
                                   const char *base);

/* The epochs of a cut, and the chain that begins or goes on with it when it
   counts. */
void fl_store_cut_epochs(const fl_store_cut *c, fl_store_epochs *out);
fl_store_chain *fl_store_chain_of(fl_store *s, fl_store_use use);

/* A cut that picked counts: its scores are spent. */
void fl_store_cut_spend(fl_store_cut *c);

/* Requests pass it. */
typedef struct fl_store_gate {
    fl_mutex mu;
    fl_cond changed;
    bool is_closed;  /* guarded by mu */
    size_t n_inside; /* guarded by mu */
} fl_store_gate;

void fl_store_gate_init(fl_store_gate *g);
void fl_store_gate_release(fl_store_gate *g);
void fl_store_gate_enter(fl_store_gate *g);
void fl_store_gate_leave(fl_store_gate *g);
/* Waits until nobody is inside; others wait until it is open again. */
void fl_store_gate_close(fl_store_gate *g);
void fl_store_gate_open(fl_store_gate *g);

#endif
