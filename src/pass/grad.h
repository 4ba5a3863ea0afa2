/* grad.h - autodiff: one generic pass over operator descriptors. */
#ifndef FL_PASS_GRAD_H
#define FL_PASS_GRAD_H

#include "ir/program.h"

typedef struct fl_grad_pair {
    fl_var *param, *grad;
} fl_grad_pair;

typedef FL_VEC(fl_grad_pair) fl_grad_pairs;

/* Appends the gradients of `loss`, whose own gradient is the variable
   loss@GRAD that exists already, and lists (parameter, gradient) for every
   trainable parameter that has one. A variable used k times gets k gradients
   x@GRAD@RENAME@0.. that `sum_op` adds up into x@GRAD. */
FL_MUST_CHECK
fl_status fl_grad_append(fl_block *b, fl_var *loss, const char *sum_op,
                         fl_grad_pairs *out);

#endif
