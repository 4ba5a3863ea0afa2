/* columns.h - a batch of records, column by column: what is fed and what the
 * cache keeps.
 *
 * A column of width w has w values per record; a ragged one has offsets as
 * well, one more than records. What a feeder fills can have records that are
 * lists of lists: then offsets count lists, which have offsets of their own. Memory grows to the largest batch and is kept.
 * Owner thread only; a batch passes from one thread to another as a whole.
 */
#ifndef FL_DATA_COLUMNS_H
#define FL_DATA_COLUMNS_H

#include "data/records.h"
#include "data/runs.h"

typedef struct fl_column {
    void *values; /* uint64_t or float */
    size_t n_values, cap_bytes;
    int64_t *offsets; /* of a ragged slot: n_rows + 1, from 0 */
    size_t cap_offsets;
    int64_t *inner; /* of lists: n_inner + 1, from 0 */
    size_t n_inner, cap_inner;
} fl_column;

typedef struct fl_columns {
    const fl_schema *schema; /* borrowed */
    fl_column *cols;         /* one per slot */
    fl_feed *feeds;          /* views of the columns, one per slot */
    size_t n_rows;
    fl_row_runs runs; /* where the records are from, when they are from files */
} fl_columns;

void fl_columns_init(fl_columns *c, const fl_schema *s);
void fl_columns_release(fl_columns *c);

/* Replaces what is there by these records, in their order, and makes the feeds;
   where each has one value in every ragged slot, these share their offsets. Fails
   with FL_ERR_NOMEM. */
FL_MUST_CHECK
fl_status fl_columns_gather(fl_columns *c, const uint32_t *const *rows,
                            size_t n);

/* Room for n_values values in column i and, when it is ragged, offsets of
   n_rows records; what was there is lost. */
FL_MUST_CHECK
fl_status fl_columns_reserve(fl_columns *c, uint32_t i, size_t n_values,
                             size_t n_rows);

/* Sets the number of records and makes the feeds from the columns, which the
   caller has filled (values, n_values, offsets). */
void fl_columns_seal(fl_columns *c, size_t n_rows);

/* The way back: appends the records [lo, hi) to packed rows. */
FL_MUST_CHECK
fl_status fl_columns_pack(const fl_columns *c, size_t lo, size_t hi,
                          fl_records *to);

#endif
