/* sweep.h - every check on every case of an operator. */
#ifndef FL_SWEEP_SWEEP_H
#define FL_SWEEP_SWEEP_H

#include "sweep/checks.h"

/* A trial has memory of a fixed size for each output and no place for arrays: of
   such a case it shows that it can be built. */
bool fl_sweep_has_array(const fl_op *op, size_t index);

/* All checks, one operator. The error says which check of which case. */
FL_MUST_CHECK
fl_status fl_sweep_op(const fl_op *op);

#endif
