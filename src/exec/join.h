/* join.h - rows + values of several gradients, one list behind the other. */
#ifndef FL_EXEC_JOIN_H
#define FL_EXEC_JOIN_H

#include "base/buf.h"
#include "tensor/tensor.h"

/* Makes *out, a tensor like the parts and perhaps the first of them, a view of
   b with the rows of all parts in their order and their values times coeff. */
FL_MUST_CHECK
fl_status fl_join_rows(fl_buf *b, const fl_tensor *const *parts, int n,
                       double coeff, fl_tensor *out);

/* Every value times coeff. */
void fl_scale_values(fl_tensor *t, double coeff);

#endif
