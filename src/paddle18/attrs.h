/* attrs.h - attributes of PaddlePaddle 1.8's operators as ours. They have the
 * same names and meanings; what differs is what our operators do not have. */
#ifndef FL_PADDLE18_ATTRS_H
#define FL_PADDLE18_ATTRS_H

#include "ir/builder.h"
#include "paddle18/desc.h"

typedef enum fl_p18_fate {
    FL_P18_TAKEN, /* our operator has it */
    FL_P18_EMPTY, /* ours does not, and loses nothing */
    FL_P18_LOST   /* ours does not, and would compute something else */
} fl_p18_fate;

fl_p18_fate fl_p18_attr_fate(const fl_op *def, const fl_p18_attr *a);

/* The value for attribute a->name of `def`, which has it. Lists are those of
   the description. *is_set is false where ours is to keep its default. A block
   has the number that it has in the description. */
FL_MUST_CHECK
fl_status fl_p18_attr_value(const fl_op *def, const fl_p18_attr *a,
                            fl_attr *out, bool *is_set);

/* Which part of training the operator belongs to. */
fl_op_role fl_p18_role(const fl_p18_op *op);

/* "scale_x=2", for messages. */
void fl_p18_attr_print(const fl_p18_attr *a, fl_str *out);

#endif
