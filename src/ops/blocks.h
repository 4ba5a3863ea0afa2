/* blocks.h - what operators that run blocks of their program share.
 *
 * What a block makes of a variable is known when it has run: infer goes by the
 * declaration, and the run lays the output out again.
 */
#ifndef FL_OPS_BLOCKS_H
#define FL_OPS_BLOCKS_H

#include "ops/kit.h"

/* The number of a block that can run inside another. */
FL_MUST_CHECK
fl_status fl_infer_block(const fl_infer *c, int attr);

/* The block of attribute `attr`. */
fl_block *fl_block_of(const fl_op_node *n, int attr);

/* Variables of an output slot, in the forward node and in its gradient. */
const fl_args *fl_out_vars(const fl_op_node *n, int slot);

/* Does the variable hold something when the node runs? */
bool fl_is_kept(const fl_op_node *n, const fl_var *v);

/* Does anybody but the node itself use the only output of that slot? */
bool fl_is_read_later(const fl_op_node *n, int slot);

/* Those that keep nothing begin as zeros. */
void fl_out_begin(const fl_op_ctx *c, int slot);

/* Runs call->block; results has room for n. */
FL_MUST_CHECK
fl_status fl_block_run(fl_op_ctx *c, fl_block_call *call, int n);

/* The wanted gradient of an input becomes the sum of those that came, of which
   this is one: `to` has been zeroed or holds the sum so far. */
FL_MUST_CHECK
fl_status fl_grad_add(fl_tensor *to, const fl_tensor *from);

/* Zeros, or an empty array. */
void fl_grad_clear(const fl_op_ctx *c, fl_tensor *to);

#endif
