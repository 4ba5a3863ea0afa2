/* joined.h - the inputs of several requests as one batch, and the part of each in
 * what comes out.
 *
 * Memory grows to the largest batch and is kept. Owner thread only.
 */
#ifndef FL_FRONT_JOINED_H
#define FL_FRONT_JOINED_H

#include "base/buf.h"
#include "flotilla/predict.h"

typedef struct fl_joined {
    size_t n_inputs;
    fl_feed *feeds;  /* the batch */
    fl_buf *values;  /* by input */
    fl_buf *offsets; /* by input and level */
} fl_joined;

void fl_joined_init(fl_joined *j, size_t n_inputs);
void fl_joined_release(fl_joined *j);

/* Joins feeds[r][i], input i of request r, each checked alone. *fits is false
   when a dimension that is free differs, so that they cannot be one batch. */
FL_MUST_CHECK
fl_status fl_joined_fill(fl_joined *j, fl_feed *const *feeds, size_t n,
                         bool *fits);

/* Whether each of the outputs has a row for each of n records. */
bool fl_joined_can_split(const fl_tensor *outputs, size_t n_outputs, size_t n);

/* The rows [lo, lo + n) of an output. */
fl_tensor fl_joined_part(const fl_tensor *output, size_t lo, size_t n);

#endif
