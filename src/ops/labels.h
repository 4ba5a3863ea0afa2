/* labels.h - what the losses share: shapes, classes and numbers of Label.
 * Written in cross_entropy.c and sigmoid_cross_entropy_with_logits.c. */
#ifndef FL_OPS_LABELS_H
#define FL_OPS_LABELS_H

#include "ops/kit.h"

typedef enum fl_label_kind {
    FL_LABEL_CLASS, /* one class */
    FL_LABEL_SOFT   /* one weight per class */
} fl_label_kind;

/* Label holds one class, or one weight per class, for each place of X that is
   left when `axis`, the classes, is taken out. Classes have 1 in the place of
   that dimension, or lack it; the loss has their shape. */
FL_MUST_CHECK
fl_status fl_infer_labels(const fl_infer *c, int x, int label, int axis,
                          fl_label_kind kind, fl_shape *loss);

/* The class at place i. */
static inline int64_t fl_label_at(const fl_tensor *label, size_t i)
{
    return label->dtype == FL_DTYPE_I32 ? ((const int32_t *)label->data)[i]
                                        : ((const int64_t *)label->data)[i];
}

/* Fails when a class of the places in `s` is not in [0, n_classes) and is not
   the one to be ignored. */
FL_MUST_CHECK
fl_status fl_check_labels(const fl_tensor *label, fl_span s, int64_t n_classes,
                          int64_t ignore);

/* Fails when one of the numbers is NaN. */
FL_MUST_CHECK
fl_status fl_check_label_numbers(const fl_tensor *label);

#endif
