/* reshape.h - what the operators share that give the numbers of X, in their
 * order, another shape: (X) -> (Out, XShape). Written in reshape2.c. */
#ifndef FL_OPS_RESHAPE_H
#define FL_OPS_RESHAPE_H

#include "ops/kit.h"

enum { FL_RESHAPE_X };
enum { FL_RESHAPE_OUT, FL_RESHAPE_XSHAPE };

/* Out is X in `shape`. Offsets of X stay when its rows do. */
typedef enum fl_row_kind { FL_ROWS_STAY, FL_ROWS_CHANGE } fl_row_kind;
FL_MUST_CHECK
fl_status fl_infer_reshaped(const fl_infer *c, const fl_shape *shape,
                            fl_row_kind rows);

fl_status fl_reshape_run(fl_op_ctx *c);
fl_status fl_reshape_back(fl_op_ctx *c);

#endif
