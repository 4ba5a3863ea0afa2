/* store_inside.h - what the files of the store share; for store*.c only.
 *
 * What was declared is complete before it can be seen, and never changes but
 * for its counters. Those by rank have a lock of their own, taken once at the
 * end of a request and while they are printed; no other lock is taken under it.
 */
#ifndef FL_PS_STORE_STORE_INSIDE_H
#define FL_PS_STORE_STORE_INSIDE_H

#include <stdatomic.h>

#include "base/thread.h"
#include "ps/store/changes.h"
#include "ps/store/store.h"
#include "ps/store/store_chain.h"
#include "ps/store/store_cut.h"

/* Changes are numbered, apart for each table and block: the position of the last
   one (fl_store_commit). */
typedef struct fl_store_log {
    _Atomic uint64_t position;
} fl_store_log;

#define FL_TABLE_COUNTS(X)                                                     \
    X(pulls, COUNT)                                                            \
    X(pulled_rows, COUNT)                                                      \
    X(pushes, COUNT)                                                           \
    X(pushed_rows, COUNT)                                                      \
    X(merged_rows, COUNT)
FL_STATS(fl_table_counts, FL_TABLE_COUNTS);

#define FL_BLOCK_COUNTS(X)                                                     \
    X(pulls, COUNT)                                                            \
    X(pushes, COUNT)
FL_STATS(fl_block_counts, FL_BLOCK_COUNTS);

typedef struct fl_store_table {
    fl_table *table;
    fl_store_log log;
    uint64_t height;                 /* 0: any id */
    uint32_t row_bytes, short_bytes; /* 0: no short rows */
    fl_table_counts counts;
} fl_store_table;

typedef struct fl_store_block {
    fl_dense *dense;
    uint64_t from_row; /* of its parameter */
    fl_store_log log;
    fl_block_counts counts;
} fl_store_block;

/* What was declared. */
typedef struct fl_store_schema {
    char *text;   /* the declaration */
    char *edited; /* what runs instead of it; NULL: the same */
    FL_VEC(fl_store_table) tables;
    FL_VEC(fl_store_block) blocks;
    bool adds; /* see fl_comm_service */
    /* By table: its log, once somebody has asked what was changed. */
    _Atomic(fl_changes *) *changes;
} fl_store_schema;

typedef struct fl_rank_counts {
    uint32_t rank;
    fl_store_counts counts;
} fl_rank_counts;

struct fl_store {
    const fl_op_set *ops;
    const fl_conf *conf;
    fl_store_gate gate;                   /* every request passes it */
    struct fl_store_model *model;         /* that it begins with; NULL: none */
    fl_store_chain chains[FL_STORE_USES]; /* that deltas go on with */
    uint64_t page_bytes;
    int n_servers; /* that its rows are one part of */
    struct fl_rounds *rounds;
    fl_store_log declared, kept; /* declarations; what rounds keep */
    fl_mutex mu;                 /* held while declaring */
    _Atomic(fl_store_schema *) schema;
    fl_store_counts by_type[FL_MSG_MAX];
    fl_mutex ranks_mu;
    FL_VEC(fl_rank_counts) by_rank; /* guarded by ranks_mu */
};

/* A request under way. */
typedef struct fl_store_ctx {
    fl_store *store;
    fl_store_schema *schema;
    const fl_store_call *call;
    const void *request; /* its fields, where it has some */
    fl_store_reply *reply;
    uint64_t out_bytes;
    /* What it is about, for the counters: rows, with keys that are copied where
       it matters, and blocks. */
    fl_rows_item *rows;
    fl_block_item *blocks;
    uint32_t n_rows, n_blocks;
} fl_store_ctx;

/* Every change passes here, when nothing can refuse it any more and before it is
   made: gives its position in the log of what it changes. A log that can be
   replayed would write the request here: it is all that a change is made from.
   Changes of one table that run at the same time have their positions in some
   order, and their rows in any. A position whose change had no memory is left
   out. */
uint64_t fl_store_commit(const fl_store_call *call, fl_store_log *log);

/* Room for the reply; it is noted how large it is. */
FL_MUST_CHECK
fl_status fl_store_reserve(fl_store_ctx *c, uint64_t len, void **out);
/* A short reply by the fields of its message. */
FL_MUST_CHECK
fl_status fl_store_answer(fl_store_ctx *c, const void *reply);

FL_MUST_CHECK
fl_status fl_store_find_table(const fl_store_ctx *c, uint32_t table,
                              fl_store_table **out);

/* --- store_changes.c ------------------------------------------------------ */

/* Rows of a table were pushed: notes them where somebody wants to know. */
void fl_store_note_push(const fl_store_ctx *c, const fl_rows_item *it);

/* --- store_load.c --------------------------------------------------------- */

/* What was declared takes the values of a model; tables are empty. */
FL_MUST_CHECK
fl_status fl_store_load_schema(fl_store *s, const fl_store_schema *w,
                               const struct fl_store_model *m);

/* --- store_stats.c -------------------------------------------------------- */

void fl_store_note(fl_store *s, const fl_store_ctx *c, fl_status st);

/* One hash of all rows of a table. */
FL_MUST_CHECK
fl_status fl_store_hash_table(const fl_store_table *t, uint64_t *out);

#endif
