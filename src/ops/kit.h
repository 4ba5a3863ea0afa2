/* kit.h - all that an operator file needs. See relu.c for the smallest
 * complete operator. */
#ifndef FL_OPS_KIT_H
#define FL_OPS_KIT_H

#include "ir/attr.h"
#include "ir/op.h"
#include "ir/program.h"
#include "tensor/floats.h"

/* --- work --------------------------------------------------------------- */

/* What an operator returns when fl_scratch gave nothing. */
#define FL_NOMEM(c)                                                            \
    ((void)fl_err_set(FL_ERR_NOMEM, "no memory for work space of %s",          \
                      (c)->node->def->name),                                   \
     FL_ERR_NOMEM)

/* --- both float types ----------------------------------------------------- */

/* 0 for f32, 1 for f64, for tables of functions; for others as FL_BY_DTYPE. */
int fl_float_index(fl_dtype dtype, const fl_op_node *n);

/* The same by the dtype of input slot `slot`, read from its shape entry, so
   it works in run and in back. */
#define FL_BY_FLOAT(c, slot, fn, ...)                                          \
    FL_BY_DTYPE(fl_in_t(c, slot)->dtype, fn, __VA_ARGS__)

/* --- attributes ---------------------------------------------------------- */

#define fl_bool(c, i) fl_attr_bool((c)->node, i)
#define fl_int(c, i) fl_attr_int((c)->node, i)
#define fl_float(c, i) fl_attr_float((c)->node, i)
#define fl_str_attr(c, i) fl_attr_str((c)->node, i)

#endif
