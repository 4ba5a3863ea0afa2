/* partials.h - gradients that are sums over all rows, made by shares.
 *
 * The rows are cut into parts that do not depend on the number of shares. Each
 * part leaves its sum in the workspace of the step; the share that is through
 * last adds the sums in the order of the parts: the same bits for any number
 * of shares.
 */
#ifndef FL_OPS_PARTIALS_H
#define FL_OPS_PARTIALS_H

#include "ops/kit.h"

/* For back_infer: memory for the sums of n parts of len numbers each; nothing
   while building. */
FL_MUST_CHECK
fl_status fl_partials_infer(const fl_infer *c, fl_dtype dtype, size_t n,
                            size_t len);

/* What becomes of the numbers of the sum from `at` on. */
typedef struct fl_partial_use {
    fl_tensor *to; /* NULL: nothing */
    size_t at;
} fl_partial_use;

/* Adds n parts of len numbers each; none of them are zeros. */
void fl_partials_sum_f32(const float *parts, size_t n, size_t len,
                         const fl_partial_use *use);
void fl_partials_sum_f64(const double *parts, size_t n, size_t len,
                         const fl_partial_use *use);

#endif
