/* rows.h - what operators do with rows + values: merge, densify. */
#ifndef FL_OPS_ROWS_H
#define FL_OPS_ROWS_H

#include "ops/kit.h"

/* Gives rows + values in which no row occurs twice. When `in` is merged
   already, *out is a view of it; else rows and values lie in the operator's
   scratch, in order of first appearance. `width` is the number of values of
   one row. */
FL_MUST_CHECK
fl_status fl_rows_merge(fl_op_ctx *c, const fl_tensor *in, fl_tensor *out);

/* The sum of several: each row once, in ascending order. `out` has room for
   the rows of all of them. */
FL_MUST_CHECK
fl_status fl_rows_sum(fl_op_ctx *c, const fl_targs *in, fl_tensor *out);

/* dense[row] += value for every row; dense has height rows, already filled.
   Fails naming the row when one is not below the height. */
FL_MUST_CHECK
fl_status fl_rows_add_to(const fl_tensor *in, fl_tensor *dense);

/* Out of an operator that changes values alone: it has the rows of `in`, which
   the share that begins at 0 copies; nothing happens to dense values. */
void fl_rows_carry(const fl_tensor *in, fl_tensor *out, fl_span s);

/* For back_infer: fails when the gradient of rows + values is wanted. */
FL_MUST_CHECK
fl_status fl_rows_no_grad(const fl_infer *c, int slot);

/* Values of one row. */
int64_t fl_rows_width(const fl_tensor *in);

#endif
