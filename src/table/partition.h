/* partition.h - one part of a table: its share of the hash order, under one
 * lock. */
#ifndef FL_TABLE_PARTITION_H
#define FL_TABLE_PARTITION_H

#include "base/thread.h"
#include "table/index.h"
#include "table/inside.h"
#include "table/pool.h"

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

/* What is remembered of a key without a row. */
typedef struct fl_candidate {
    float show, click; /* a count filter counts in show */
} fl_candidate;

typedef struct fl_partition {
    fl_mutex mu; /* guards everything below */
    fl_index index;
    fl_pool pools[2]; /* full rows, short rows */
    fl_index waiting; /* keys that are not admitted yet */
    fl_pool candidates;
    uint64_t refused;
    uint64_t waited; /* batches that found the lock taken */
} fl_partition;

static inline void *fl_partition_row(const fl_partition *p, uint32_t ref)
{
    return fl_pool_row(&p->pools[fl_ref_is_short(ref)], fl_ref_row(ref));
}

struct fl_table {
    fl_table_config config; /* names are the table's own */
    char *name;
    const fl_accessor *accessor;
    fl_acc_ctx acc;
    fl_partition *parts;
    int n_parts, bits; /* n_parts = 2^bits */
    _Atomic uint64_t n_rows;
    _Atomic uint32_t epoch;
    _Atomic uint64_t most_moved;
    fl_mutex mu;           /* guards what follows */
    fl_hyper hyper;        /* with the rule's scalars */
    FL_VEC(uint32_t) days; /* first epoch of each day that has ended */
};

static inline fl_partition *fl_table_part(const fl_table *t, uint64_t hash)
{
    return &t->parts[t->bits ? hash >> (64 - t->bits) : 0];
}

/* A row without values and its slot; *ref stays 0 when there is no room by
   max_rows. Under the lock. */
FL_MUST_CHECK
fl_status fl_partition_add(fl_table *t, fl_partition *p, uint64_t key,
                           uint64_t hash, bool is_short, uint32_t *ref);

/* The same with the values that it is born with. */
FL_MUST_CHECK
fl_status fl_partition_create(fl_table *t, fl_partition *p, uint64_t key,
                              uint64_t hash, uint32_t *ref);

/* Gives memory back when much of it is free. Under the lock. */
void fl_partition_compact(fl_partition *p);

/* Frees a row and its slot. Under the lock. */
void fl_partition_drop(fl_table *t, fl_partition *p, uint32_t *slot);

#endif
