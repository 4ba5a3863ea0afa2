/* cut_inside.h - what the files of a cut share, and what tells it of changes.
 *
 * Of a row that belongs to the cut there is either the row itself, with an
 * epoch before the cut's, or a copy, never both: whoever changes a row stamps
 * it with the present epoch, which is the cut's or a later one. What changes
 * rows without stamping them (a shrink that ages them) has all of the
 * partition copied first.
 *
 * Everything here is guarded by the lock of the partition.
 */
#ifndef FL_TABLE_CUT_INSIDE_H
#define FL_TABLE_CUT_INSIDE_H

#include <stdatomic.h>

#include "table/partition.h"
#include "table/row.h"

/* How far a shard has been read. */
typedef struct fl_cut_shard {
    uint64_t unread; /* hashes from here on, as offsets in the shard */
    bool is_kept;    /* what is unread has been copied, all of it */
} fl_cut_shard;

/* A key of a delta. */
typedef struct fl_cut_key {
    uint64_t hash, key;
    fl_cut_kind kind;
} fl_cut_key;

/* What a row brought into a save. */
typedef struct fl_spent {
    uint32_t key[2]; /* low, high: rows of a pool are 4-byte aligned */
    float score;
} fl_spent;

typedef struct fl_cut_part {
    fl_table_cut *cut;
    fl_partition kept; /* copies; its lock is not used */
    fl_pool spent;     /* of a cut that picks */
    fl_cut_key *list;  /* keys of a delta in the order of the hash */
    size_t n_list, list_cap;
    bool is_listed;
    bool failed; /* there was no memory for a copy */
} fl_cut_part;

struct fl_cut_reader;

struct fl_table_cut {
    fl_table *t;
    fl_cut_options options;
    fl_cut_moment moment;
    uint32_t *days; /* the moment's */
    double scalars[FL_RULE_SCALAR_MAX];
    fl_shard_counts *counts; /* by shard, as of the cut */
    fl_cut_shard *shards;
    fl_cut_part *parts;
    fl_mutex mu; /* guards what follows */
    struct fl_cut_reader *idle;
};

/* A row with this header is as it was at the cut, and belongs to it. */
static inline bool fl_cut_has(const fl_table_cut *c, const void *row)
{
    uint32_t epoch = fl_row_epoch(row);

    return epoch < c->moment.epoch && epoch >= c->options.since;
}

/* The ref of the key's row, or candidate, as of the cut: of a copy (in_copies)
   or of a row that has not changed; 0: there was none. */
uint32_t fl_cut_find(const fl_partition *p, const fl_cut_key *k,
                     bool *in_copies);

/* The bytes behind a ref of that kind. */
static inline const char *fl_cut_bytes(const fl_partition *p, fl_cut_kind kind,
                                       uint32_t ref)
{
    return kind == FL_CUT_CANDIDATE ? fl_pool_row(&p->candidates, ref - 1)
                                    : fl_partition_row(p, ref);
}

/* Whether the cut picks a row, and with which score. */
bool fl_cut_picks(const fl_table_cut *c, const void *row, float *score);

/* Makes the list of a delta. */
FL_MUST_CHECK
fl_status fl_cut_list(fl_partition *p, fl_cut_part *c);

/* What changes is told before it does; they are called where p->watched says
   so. A row or candidate that is told gets the present epoch afterwards. */
void fl_witness_row(fl_table *t, fl_partition *p, uint64_t key, uint32_t ref);
void fl_witness_candidate(fl_table *t, fl_partition *p, uint64_t key,
                          uint32_t ref);

/* A row, or a candidate, is about to go; the latter is logged by who removes
   the key, for a candidate also goes when it gets its row. */
void fl_witness_gone(fl_table *t, fl_partition *p, uint64_t key, uint32_t ref);
void fl_witness_candidate_gone(fl_partition *p, uint64_t key, uint32_t ref);

/* Logs a key of the present epoch: one that has come or went. */
void fl_witness_log(fl_table *t, fl_partition *p, fl_change kind, uint64_t key);

/* Everything is about to change without being stamped, or to go. Changes are
   not known any more. */
void fl_witness_upheaval(fl_partition *p);

/* Sets p->watched. */
void fl_witness_update(fl_partition *p);

void fl_cut_readers_free(fl_table_cut *c);

#endif
