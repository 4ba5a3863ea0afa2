/* optimize.h - update rules as operators: optimize_ops.c makes their
 * descriptors, optimize.c has what all of them run. */
#ifndef FL_OPS_OPTIMIZE_H
#define FL_OPS_OPTIMIZE_H

#include "ops/kit.h"
#include "optim/rule.h"

/* Inputs; output FL_UPDATE_PARAM is the new parameter, output 1 + k the new
   value of input FL_UPDATE_STATE + k. */
enum {
    FL_UPDATE_PARAM,
    FL_UPDATE_GRAD,
    FL_UPDATE_RATE,
    FL_UPDATE_STATE /* the first accumulator */
};

#define FL_LAZY_MODE "lazy_mode"

/* One operator per row of optims.def, in its order. Any thread. */
size_t fl_update_op_count(void);
const fl_op *fl_update_op_at(size_t i);

fl_status fl_update_infer(fl_infer *c);
fl_status fl_update_run(fl_op_ctx *c);

#endif
