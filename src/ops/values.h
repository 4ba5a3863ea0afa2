/* values.h - attributes that may be given as tensors.
 *
 * Where the number of an attribute follows from the batch, a slot takes its
 * place: one tensor with all numbers of a list, or a list of tensors with one
 * each. While a program is built such a number is not known; when it runs,
 * infer reads it, so these slots have FL_OP_SLOT_VALUE.
 */
#ifndef FL_OPS_VALUES_H
#define FL_OPS_VALUES_H

#include "ops/kit.h"

/* Where a list of integers may come from: slots, and an attribute for when
   both are left out. FL_NO_SLOT: the operator has no such slot. */
#define FL_NO_SLOT (-1)
typedef struct fl_ints_from {
    int tensor, list, attr;
} fl_ints_from;

typedef struct fl_ints {
    int n; /* -1: not even their number is known */
    int64_t at[FL_RANK_MAX];
    bool known[FL_RANK_MAX];
} fl_ints;

/* The flags of a slot that stands for an attribute. */
#define FL_VALUE_SLOT (FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD | FL_OP_SLOT_VALUE)
#define FL_VALUE_LIST (FL_VALUE_SLOT | FL_OP_SLOT_LIST)

/* Whether it holds a single number, as far as is known. */
bool fl_is_one(const fl_tensor *t);

/* Behind a list of tensors the attribute says what was known of them when the
   program was written; -1 is what was not. A tensor that says otherwise is an
   error. */
FL_MUST_CHECK
fl_status fl_infer_ints(const fl_infer *c, const fl_ints_from *from,
                        fl_ints *out);

/* The same in run and back, where all are known and were let through. */
void fl_read_ints(const fl_op_ctx *c, const fl_ints_from *from, fl_ints *out);

/* The integers as dimensions, -1 where they are not known; each is at least
   `least`. */
FL_MUST_CHECK
fl_status fl_infer_dims(const fl_infer *c, const fl_ints_from *from,
                        int64_t least, fl_shape *out);

/* Whether a slot that stands for one number is given; *out is set only when
   its value is known too. The slot must hold one integer. */
FL_MUST_CHECK
fl_status fl_infer_int(const fl_infer *c, int slot, int attr, int64_t *out,
                       bool *is_known);

/* Fails unless the slot, when given, holds one number of a float type. */
FL_MUST_CHECK
fl_status fl_infer_number(const fl_infer *c, int slot);

/* Where a shape with the batch of another tensor comes from: that tensor, the
   attribute with the shape, and those with the dimension of the tensor and its
   place in the shape. */
typedef struct fl_batch_like {
    int input, shape, from, to;
} fl_batch_like;

/* Dimension 0 of a ragged tensor counts its sequences. */
FL_MUST_CHECK
fl_status fl_infer_batch_like(const fl_infer *c, const fl_batch_like *like,
                              fl_shape *out);

/* The number of the slot, or of the attribute when it is left out. */
int64_t fl_read_int(const fl_op_ctx *c, int slot, int attr);
double fl_read_float(const fl_op_ctx *c, int slot, int attr);

#endif
