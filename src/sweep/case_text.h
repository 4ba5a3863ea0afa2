/* case_text.h - the text of a case becomes tensors; see fl_op_case. */
#ifndef FL_SWEEP_CASE_TEXT_H
#define FL_SWEEP_CASE_TEXT_H

#include "base/arena.h"
#include "ir/op.h"

/* Draws all inputs of a case, by slot; f32 in the text becomes `real`. The
   values are f32 numbers in both. Memory comes from the arena. */
FL_MUST_CHECK
fl_status fl_case_draw(const fl_op *op, const fl_op_case *c, fl_dtype real,
                       fl_arena *mem, fl_targs *in);

#endif
