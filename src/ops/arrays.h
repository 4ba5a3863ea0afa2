/* arrays.h - what operators on arrays of tensors share. */
#ifndef FL_OPS_ARRAYS_H
#define FL_OPS_ARRAYS_H

#include "ops/kit.h"
#include "tensor/array.h"

/* Adds what `from` holds to what is at the same places of `to`. */
FL_MUST_CHECK
fl_status fl_array_add(fl_array *to, const fl_array *from);

/* Fails unless the slot holds one integer. */
FL_MUST_CHECK
fl_status fl_infer_index(const fl_infer *c, int slot);

/* That integer; fails unless it is the number of a place. */
FL_MUST_CHECK
fl_status fl_read_index(const fl_op_node *n, const fl_tensor *index,
                        size_t *out);

/* Fails unless the slot holds an array. */
FL_MUST_CHECK
fl_status fl_infer_array(const fl_infer *c, int slot);

/* An output that is an array of values like `like`. */
void fl_infer_array_of(const fl_infer *c, int slot, const fl_tensor *like);

#endif
