/* inside.h - what the files of this folder share of a table's inside. */
#ifndef FL_TABLE_INSIDE_H
#define FL_TABLE_INSIDE_H

#include "table/accessor.h"

const fl_acc_ctx *fl_table_acc(const fl_table *t);
const fl_accessor *fl_table_accessor(const fl_table *t);

/* Inserts or replaces a row by its bytes, header included. */
FL_MUST_CHECK
fl_status fl_table_restore(fl_table *t, uint64_t key, bool is_short,
                           const void *row);

#endif
