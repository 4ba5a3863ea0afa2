/* grad.h - autodiff: one generic pass over operator descriptors. */
#ifndef FL_PASS_GRAD_H
#define FL_PASS_GRAD_H

#include "ir/program.h"

typedef struct fl_grad_pair {
    fl_var *param, *grad;
} fl_grad_pair;

typedef FL_VEC(fl_grad_pair) fl_grad_pairs;

typedef struct fl_grad_spec {
    fl_var *const *targets;
    size_t n_targets;
    /* Their own gradients; NULL, or an entry NULL: ones, made by `seed`. */
    fl_var *const *target_grads;
    fl_var *const *wanted; /* NULL: every trainable parameter */
    size_t n_wanted;
    bool all_leaves; /* and every float that operators make of nothing; the
                        targets need not depend on any */
    fl_var *const *no_grad; /* no gradient flows through these */
    size_t n_no_grad;
    const char *sum_op;   /* the operator that adds gradients up */
    const char *copy_op;  /* the one that copies a value */
    const char *zeros_op; /* the one that makes zeros like a value */
    /* Appends what gives the variable `name` ones like those of the target. */
    fl_status (*seed)(const fl_var *target, const char *name);
} fl_grad_spec;

/* Appends the gradients of the sum of the targets and lists (variable,
   gradient): for what is wanted, in this order, with NULL where the targets do
   not depend on it; else for the trainable parameters that have one. A variable
   used k times gets k gradients x@GRAD@RENAME@0.. that are added up into
   x@GRAD; a further gradient of the same variable is x@GRAD@1. */
FL_MUST_CHECK
fl_status fl_grad_append(fl_block *b, const fl_grad_spec *spec,
                         fl_grad_pairs *out);

#endif
