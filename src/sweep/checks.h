/* checks.h - what is asked of every operator. Each check takes an operator and
 * the number of one of its cases, and says in its error what is wrong. */
#ifndef FL_SWEEP_CHECKS_H
#define FL_SWEEP_CHECKS_H

#include "ir/op.h"

typedef fl_status (*fl_check_fn)(const fl_op *op, size_t index);

/* The descriptor as a whole; the number is not used. */
fl_status fl_check_doc(const fl_op *op, size_t index);

/* There are cases, one with an empty batch (unless all inputs are single
   numbers), one with a gradient (if there is a back function). */
fl_status fl_check_cases(const fl_op *op, size_t index);

/* Outputs are of the types and shapes that the program promised, also one
   whose first dimension was not known. */
fl_status fl_check_shapes(const fl_op *op, size_t index);

/* With FL_OP_BY_FORM: outputs are inferred to be the same whatever the inputs and
   their offsets hold, and so is what is left for the run. */
fl_status fl_check_form(const fl_op *op, size_t index);

/* Gradients equal central differences. */
fl_status fl_check_gradient(const fl_op *op, size_t index);

/* f32 and f64 agree. */
fl_status fl_check_precision(const fl_op *op, size_t index);

/* The same bits for 1, 2, 3 and 7 shares, on as many threads. */
fl_status fl_check_shares(const fl_op *op, size_t index);

/* The same bits in place and not, state in place and apart. */
fl_status fl_check_in_place(const fl_op *op, size_t index);

/* The same bits whatever was in the memory of the outputs. */
fl_status fl_check_written(const fl_op *op, size_t index);

/* back reads nothing that back_uses does not name. */
fl_status fl_check_uses(const fl_op *op, size_t index);

/* back copes with gradients that are not wanted or did not come. */
fl_status fl_check_parts(const fl_op *op, size_t index);

/* When an allocation fails the run succeeds or says FL_ERR_NOMEM, and loses
   no memory; tried for each allocation it makes. */
fl_status fl_check_no_memory(const fl_op *op, size_t index);

#endif
