/* broadcast.h - two tensors X and Y that meet element by element.
 *
 * The one of lower rank stands in the other at `axis` (-1: its last dimension
 * at the end). Where one of them has no dimension, or 1, it is repeated.
 *
 *     X [33, 1]  Y    [7]  ->  Out [33, 7]
 *     X [3]      Y [2,3,4]  ->  Out [2, 3, 4], axis 1
 *
 * Neighbouring dimensions of Out that both have, or one and the same lacks, are
 * one run; the innermost run is a row, for which kernel/binary.h has loops.
 */
#ifndef FL_OPS_BROADCAST_H
#define FL_OPS_BROADCAST_H

#include "kernel/binary.h"
#include "ops/kit.h"

typedef struct fl_meeting {
    fl_shape out;
    bool has_x[FL_RANK_MAX], has_y[FL_RANK_MAX]; /* dimensions of Out */
    bool repeats_x, repeats_y;
    fl_binary_form form; /* of every row */
    int n_runs;          /* from the innermost, at least one */
    struct {
        size_t n, x, y; /* steps of X and Y, 0 where it is repeated */
    } run[FL_RANK_MAX + 1];
} fl_meeting;

/* The type of Out is `dtype`, its shape that of the meeting of inputs 0 and 1,
   its offsets those of the one that has all dimensions, X if both have. */
FL_MUST_CHECK
fl_status fl_infer_meeting(fl_infer *c, int64_t axis, fl_dtype dtype);

/* Of shapes that fit and have no unknown dimensions. */
fl_meeting fl_meeting_of(const fl_shape *x, const fl_shape *y, int64_t axis);

/* n elements of Out, and where they begin in the three tensors. */
typedef struct fl_meeting_row {
    size_t out, x, y, n;
} fl_meeting_row;

typedef struct fl_meeting_rows {
    const fl_meeting *m;
    size_t out, hi;
    size_t x, y;                /* where the row begins */
    size_t at[FL_RANK_MAX + 1]; /* in each run */
} fl_meeting_rows;

/* The rows of a share of Out's elements. */
fl_meeting_rows fl_meeting_rows_of(const fl_meeting *m, fl_span s);
bool fl_meeting_next(fl_meeting_rows *it, fl_meeting_row *out);

#endif
