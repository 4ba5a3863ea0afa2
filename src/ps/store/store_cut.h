/* store_cut.h - what a server holds, as of one moment.
 *
 * The gate closes: requests that run come to their end, others wait. Then the
 * dense blocks are copied, a cut of every table begins (table/cut.h), and the
 * gate opens again. Rows are read behind it.
 *
 * One cut at a time; owner thread only.
 */
#ifndef FL_PS_STORE_STORE_CUT_H
#define FL_PS_STORE_STORE_CUT_H

#include "base/vec.h"
#include "ps/store/store.h"
#include "rpc/wire/frame.h"
#include "table/cut.h"

typedef struct fl_store_cut {
    FL_VEC(fl_pack) values; /* a variable of a block each (ps/named.h) */
    FL_VEC(fl_table_cut *) tables;
    uint64_t closed_ns; /* how long requests have waited */
} fl_store_cut;

/* FL_ERR_INVAL when nothing was declared yet. */
FL_MUST_CHECK
fl_status fl_store_cut_begin(fl_store_cut **out, fl_store *s);
void fl_store_cut_end(fl_store_cut *c); /* NULL is fine */

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
