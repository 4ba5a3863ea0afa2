/* cut.h - a table as of one moment, while it goes on changing.
 *
 * A cut begins at a moment when the caller lets no request run: the epoch
 * advances, the rule's scalars, the days and the numbers of rows are copied,
 * and everything goes on. The rows are read behind it. A row that is about to
 * change or to go and was not read yet is copied first (its epoch tells), a row
 * born later is left out. So a cut costs the memory of the rows that change
 * while it is read, and that memory is counted.
 *
 * A cut with `since` has the rows that changed in that epoch or later, the
 * candidates that did and the keys that went. Its cost follows what changed:
 * the table logs keys from fl_table_watch, or a cut with `watch`, on.
 *
 * One cut of a table at a time. Shards are read by any threads, each shard
 * once. Rows cannot be restored while a cut is under way.
 */
#ifndef FL_TABLE_CUT_H
#define FL_TABLE_CUT_H

#include <stddef.h>
#include <stdint.h>

#include "table/table.h"

typedef struct fl_table_cut fl_table_cut;

/* What a cut gives of a key. */
typedef enum fl_cut_kind {
    FL_CUT_FULL,      /* a row */
    FL_CUT_SHORT,     /* a row in its short form */
    FL_CUT_CANDIDATE, /* no row yet: header, show, click */
    FL_CUT_GONE,      /* its row or candidate went since `since` */
    FL_CUT_KINDS
} fl_cut_kind;

/* Which rows: all, or those that are worth a place online. With accessor ctr
   that is a score of base_threshold or more and at most delta_keep_days unseen
   days, and for a delta a delta_score of delta_threshold or more. Candidates
   are left out. With accessor plain it is every row. */
typedef enum fl_cut_pick {
    FL_PICK_ALL,
    FL_PICK_BASE,
    FL_PICK_DELTA
} fl_cut_pick;

typedef struct fl_cut_options {
    uint32_t since; /* 0: everything */
    bool watch;     /* deltas since this cut's epoch will be asked for */
    fl_cut_pick pick;
} fl_cut_options;

/* Everything about the moment but the rows; borrowed from the cut. */
typedef struct fl_cut_moment {
    uint32_t epoch; /* of changes from now on: the `since` of the next delta */
    const uint32_t *days; /* first epoch of each day that has ended */
    size_t n_days;
    const double *scalars; /* of the rule, in its order */
    int n_scalars;
} fl_cut_moment;

/* Keys of one kind in the order of the hash. Rows lie one behind the other,
   each with its header (row.h); there are none of keys that went. */
typedef struct fl_cut_block {
    fl_cut_kind kind;
    size_t n;
    const uint64_t *keys;
    const char *rows;
    size_t stride;
} fl_cut_block;

/* Called without a lock; the block is borrowed for the call. */
typedef fl_status (*fl_cut_fn)(void *arg, const fl_cut_block *block);

typedef struct fl_cut_stats {
    uint64_t copies;       /* rows and candidates */
    uint64_t copies_bytes; /* memory they take */
    uint64_t log_bytes;    /* memory of keys that are logged for deltas */
} fl_cut_stats;

/* options NULL: everything. Fails when a cut is under way, and with `since`
   when the changes are not known from there on. */
FL_MUST_CHECK
fl_status fl_table_cut_begin(fl_table_cut **out, fl_table *t,
                             const fl_cut_options *options);

/* NULL is fine. */
void fl_table_cut_end(fl_table_cut *c);

const fl_cut_moment *fl_table_cut_moment(const fl_table_cut *c);
fl_table *fl_table_cut_table(const fl_table_cut *c);

/* How many of each kind a shard has, before it is read. Free for a cut of
   everything; the shard is looked through for one that picks. */
FL_MUST_CHECK
fl_status fl_table_cut_counts(fl_table_cut *c, uint32_t shard,
                              uint64_t n[FL_CUT_KINDS]);

/* Gives all of a shard, in blocks; blocks of different kinds in turn, and that
   a key went before what came again. Fails with what fn says, or without
   memory. */
FL_MUST_CHECK
fl_status fl_table_cut_read(fl_table_cut *c, uint32_t shard, fl_cut_fn fn,
                            void *arg);

/* A cut that picked has been saved for good: the scores that brought its rows
   into it are taken off them. */
void fl_table_cut_spend(fl_table_cut *c);

void fl_table_cut_stats(fl_table_cut *c, fl_cut_stats *out);

/* Changes are logged from now on, so that there can be a delta since the
   present epoch, as after a load. Returns that epoch. */
uint32_t fl_table_watch(fl_table *t);

/* The epoch since which changes are known; 0: they are not, and the next save
   is a whole one. It is so until a cut or a call asks for the log, after rows
   were restored, cleared, or aged by a shrink, and when the log is full. */
uint32_t fl_table_watched_since(fl_table *t);

#endif
