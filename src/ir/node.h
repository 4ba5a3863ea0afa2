/* node.h - between the files that make operators. */
#ifndef FL_IR_NODE_H
#define FL_IR_NODE_H

#include "ir/program.h"

/* A gradient operator has the forward inputs and the saved outputs that back
   reads; infer takes them for granted. */
FL_MUST_CHECK
fl_status fl_node_check_grad_inputs(const fl_op_node *n);

/* It has at least one gradient on either side. */
FL_MUST_CHECK
fl_status fl_node_check_grad_sides(const fl_op_node *n);

#endif
