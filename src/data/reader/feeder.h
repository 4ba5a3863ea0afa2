/* feeder.h - what stands behind fl_feeder: samples and arrays become a batch.
 *
 * This part knows slots and shapes, not programs; api/ puts the two together.
 * All that is given to a feeder is copied (or converted) at once, so the
 * caller's memory is its own again when the call returns. Memory grows to the
 * largest batch and is kept: batches of one size ask the system for nothing. A
 * call that fails leaves the batch as it was.
 */
#ifndef FL_DATA_READER_FEEDER_H
#define FL_DATA_READER_FEEDER_H

#include "data/columns.h"

/* The tensor of a variable: dim[0] is set by each batch; of a ragged one the
   other dimensions make a row. */
typedef struct fl_feed_var {
    fl_shape shape;
    int n_lod; /* levels of offsets, at most 2; 0 when the slot has a width */
} fl_feed_var;

/* The variables that are fed: a slot each, and its tensor. */
typedef struct fl_feed_spec {
    fl_schema schema;
    fl_feed_var *vars;
} fl_feed_spec;

/* Copies slots and variables. vars NULL means [rows, width] for all of them,
   and [values, 1] with one level for the ragged ones. */
FL_MUST_CHECK
fl_status fl_feed_spec_init(fl_feed_spec *s, const fl_slot *slots,
                            const fl_feed_var *vars, size_t n_slots);
void fl_feed_spec_release(fl_feed_spec *s);

/* Values of one row of a ragged variable. */
size_t fl_feed_row_width(const fl_feed_var *v);

/* A view of column i as its variable. */
fl_tensor fl_feed_spec_view(const fl_feed_spec *s, uint32_t i,
                            const fl_column *col, size_t n_rows);

/* A feeder with a spec of its own, and one that borrows it. */
FL_MUST_CHECK
fl_status fl_feeder_make(fl_feeder **out, const fl_slot *slots,
                         const fl_feed_var *vars, size_t n_slots);
fl_feeder *fl_feeder_borrow(const fl_feed_spec *s);

/* Samples that were ended since the begin; 0 when columns are given. */
size_t fl_feeder_samples(const fl_feeder *f);

/* Nothing was given since the begin. */
bool fl_feeder_is_empty(const fl_feeder *f);

/* A sample was begun and not ended. */
bool fl_feeder_is_open(const fl_feeder *f);

/* Ends the sample if one is open. */
FL_MUST_CHECK
fl_status fl_feeder_close_sample(fl_feeder *f);

/* The batch that the last fl_feeder_feeds gave, column by column. */
const fl_columns *fl_feeder_columns(const fl_feeder *f);

#endif
