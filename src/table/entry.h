/* entry.h - when a key that is pushed gets a row. */
#ifndef FL_TABLE_ENTRY_H
#define FL_TABLE_ENTRY_H

#include "table/partition.h"

/* What number i of a push says about its key. */
static inline float fl_push_show(const fl_rows *rows, size_t i)
{
    return rows->shows ? rows->shows[i] : 1;
}

static inline float fl_push_click(const fl_rows *rows, size_t i)
{
    return rows->clicks ? rows->clicks[i] : 0;
}

/* A candidate that nothing was seen of, and its ref in `waiting`. Under the
   lock. */
FL_MUST_CHECK
fl_status fl_entry_add(fl_table *t, fl_partition *p, uint64_t key,
                       uint32_t *ref);

/* Counts number i of a push for its key, which has no row, and says whether it
   gets one now. Under the lock. */
FL_MUST_CHECK
fl_status fl_entry_admits(fl_table *t, fl_partition *p, uint64_t hash,
                          const fl_rows *rows, size_t i, bool *yes);

/* The key has a row now, or is gone. False when it was no candidate. Under the
   lock. */
bool fl_entry_forget(fl_partition *p, uint64_t key, uint64_t hash);

#endif
