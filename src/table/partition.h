/* partition.h - one part of a table: its share of the hash order, under one
 * lock. */
#ifndef FL_TABLE_PARTITION_H
#define FL_TABLE_PARTITION_H

#include "base/hash.h"
#include "base/thread.h"
#include "table/journal.h"
#include "table/cut.h"
#include "table/index.h"
#include "table/inside.h"
#include "table/pool.h"
#include "table/row.h"

/* A ref of the index: 1 + (row << 1 | is_short). */
static inline uint32_t fl_ref_of(uint32_t row, bool is_short)
{
    return 1 + (row << 1 | (uint32_t)is_short);
}

static inline uint32_t fl_ref_row(uint32_t ref)
{
    return (ref - 1) >> 1;
}

static inline bool fl_ref_is_short(uint32_t ref)
{
    return (ref - 1) & 1;
}

/* How many of each kind a virtual shard has; nothing that went is counted. */
typedef struct fl_shard_counts {
    uint32_t n[FL_CUT_GONE];
} fl_shard_counts;

/* Hashes of keys. */
typedef struct fl_hash_list {
    uint64_t *data;
    size_t n, cap;
} fl_hash_list;

void fl_hash_list_release(fl_hash_list *l);

typedef struct fl_partition {
    fl_mutex mu; /* guards everything below */
    fl_index index;
    fl_pool pools[2]; /* full rows, short rows */
    fl_index waiting; /* keys that are not admitted yet */
    fl_pool candidates;
    fl_shard_counts *counts; /* by shard, the table's; this partition's own */
    fl_journal journal;      /* for deltas */
    fl_hash_list pushed;     /* and not yet taken (known.h) */
    struct fl_cut_part *cut; /* NULL: none is under way */
    bool watched;            /* what changes is kept for a cut or logged */
    uint64_t refused;
    uint64_t waited;       /* batches that found the lock taken */
    uint64_t moved_before; /* slots of the index, when a batch came in */
} fl_partition;

static inline void *fl_partition_row(const fl_partition *p, uint32_t ref)
{
    return fl_pool_row(&p->pools[fl_ref_is_short(ref)], fl_ref_row(ref));
}

struct fl_table {
    fl_table_config config; /* texts are the table's own */
    char *name, *settings;
    const fl_accessor *accessor;
    fl_acc_ctx acc;
    fl_partition *parts;
    int n_parts, bits;       /* n_parts = 2^bits */
    fl_shard_counts *counts; /* FL_TABLE_SHARDS */
    _Atomic uint64_t n_rows;
    _Atomic uint32_t epoch; /* is constant for who holds any partition */
    _Atomic uint64_t most_moved;
    fl_mutex mu;           /* guards what follows */
    fl_hyper hyper;        /* with the rule's scalars */
    FL_VEC(uint32_t) days; /* first epoch of each day that has ended */
};

static inline fl_partition *fl_table_part(const fl_table *t, uint64_t hash)
{
    return &t->parts[t->bits ? hash >> (64 - t->bits) : 0];
}

/* All partitions at once: to change the epoch, or what watches them. */
void fl_table_lock_all(fl_table *t);
void fl_table_unlock_all(fl_table *t);

/* The counter of the key's shard that counts that kind. Under the lock. */
static inline uint32_t *fl_partition_count(const fl_partition *p, uint64_t hash,
                                           fl_cut_kind kind)
{
    return &p->counts[fl_hash_shard(hash)].n[kind];
}

static inline fl_cut_kind fl_ref_kind(uint32_t ref)
{
    return fl_ref_is_short(ref) ? FL_CUT_SHORT : FL_CUT_FULL;
}

/* A row of the present epoch without values, and its slot; *ref stays 0 when
   there is no room by max_rows. Under the lock. */
FL_MUST_CHECK
fl_status fl_partition_add(fl_table *t, fl_partition *p, uint64_t key,
                           uint64_t hash, bool is_short, uint32_t *ref);

/* The same with the values that it is born with. */
FL_MUST_CHECK
fl_status fl_partition_create(fl_table *t, fl_partition *p, uint64_t key,
                              uint64_t hash, uint32_t *ref);

/* Days that have begun after a row's last change: of the first epochs of n
   days, in order. */
int fl_days_unseen(const uint32_t *days, size_t n, uint32_t epoch);

/* Gives memory back when much of it is free. Under the lock. */
void fl_partition_compact(fl_partition *p);

/* Frees the row of a key and its slot. Under the lock. */
void fl_partition_drop(fl_table *t, fl_partition *p, uint64_t key,
                       uint32_t *slot);

/* Empties it, and keeps what a table is made with. Under the lock. */
void fl_partition_init(fl_partition *p, const fl_row_layout *l, int bits);
void fl_partition_empty(fl_partition *p);

#endif
