/* ops.h - the list of operators. */
#ifndef FL_OPS_OPS_H
#define FL_OPS_OPS_H

#include "ir/program.h"

/* Find by name, nearest name for messages. */
extern const fl_op_set fl_ops;

size_t fl_ops_count(void);
const fl_op *fl_ops_at(size_t i);

#endif
