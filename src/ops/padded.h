/* padded.h - sequences that lie behind each other with offsets, or padded side
 * by side, with their lengths in a tensor of their own. */
#ifndef FL_OPS_PADDED_H
#define FL_OPS_PADDED_H

#include "ops/kit.h"

typedef struct fl_runs {
    const int64_t *off;      /* NULL: padded */
    const fl_tensor *length; /* of padded ones */
    size_t n, step;          /* how many, and rows from one to the next */
} fl_runs;

fl_runs fl_runs_of(const fl_tensor *x, const fl_tensor *length);

/* Rows of sequence i, counted over all dimensions that sequences lie in. */
fl_span fl_runs_at(const fl_runs *r, size_t i);

/* Fails unless slot `x` has one level of offsets or, where slot `length` is
   given, that has a number for each of its entries. */
FL_MUST_CHECK
fl_status fl_infer_runs(const fl_infer *c, int x, int length);

/* Fails when a length is not within the padded rows. */
FL_MUST_CHECK
fl_status fl_runs_check(const fl_runs *r, const fl_op_ctx *c, int length);

#endif
