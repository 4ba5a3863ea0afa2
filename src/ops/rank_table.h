/* rank_table.h - the sequences of a level, the longest first.
 *
 * A table of rank is i64[n,2]: the number of a sequence and its length. Its
 * offsets are those of the levels above.
 */
#ifndef FL_OPS_RANK_TABLE_H
#define FL_OPS_RANK_TABLE_H

#include "ops/kit.h"

/* Fails unless the slot holds such a table. */
FL_MUST_CHECK
fl_status fl_infer_rank_table(const fl_infer *c, int slot);

static inline int64_t fl_rank_count(const fl_tensor *table)
{
    return table->shape.dim[0];
}

static inline int64_t fl_rank_index(const fl_tensor *table, int64_t i)
{
    return ((const int64_t *)table->data)[2 * i];
}

static inline int64_t fl_rank_length(const fl_tensor *table, int64_t i)
{
    return ((const int64_t *)table->data)[2 * i + 1];
}

/* How many sequences are longer than `step`. */
int64_t fl_rank_alive(const fl_tensor *table, int64_t step);

#endif
