/* helpers.h - what several operators share beyond the kit: plain copies,
 * shapes given as attributes, and the text of one entry of a list. */
#ifndef FL_OPS_HELPERS_H
#define FL_OPS_HELPERS_H

#include <stdio.h>
#include <string.h>

#include "ops/kit.h"

/* This call's share of t becomes 0. */
static inline void fl_share_zero(const fl_op_ctx *c, fl_tensor *t)
{
    size_t size = fl_dtype_bytes(t->dtype);
    fl_span s = fl_op_span(c, (size_t)fl_tensor_numel(t));

    if (s.lo < s.hi)
        memset((char *)t->data + s.lo * size, 0, (s.hi - s.lo) * size);
}

/* The same for the gradient of an input, where it is wanted. */
static inline void fl_din_zero(const fl_op_ctx *c, int slot)
{
    if (fl_din_t(c, slot))
        fl_share_zero(c, fl_din_t(c, slot));
}

/* This call's share of `to` becomes that of `from`, or 0 when `from` is NULL:
   no gradient came. Nothing moves when both are the same memory. */
static inline void fl_share_copy(const fl_op_ctx *c, fl_tensor *to,
                                 const fl_tensor *from)
{
    size_t size = fl_dtype_bytes(to->dtype);
    fl_span s = fl_op_span(c, (size_t)fl_tensor_numel(to));

    if (!from)
        fl_share_zero(c, to);
    else if (s.lo < s.hi && to->data != from->data)
        memcpy((char *)to->data + s.lo * size,
               (const char *)from->data + s.lo * size, (s.hi - s.lo) * size);
}

/* An output that begins as an input: the new value lies where the old one lay,
   unless they are different variables. */
static inline void *fl_carry_over(const fl_op_ctx *c, int in, int out)
{
    const fl_tensor *from = fl_in_t(c, in);
    size_t bytes = (size_t)fl_tensor_numel(from) * fl_dtype_bytes(from->dtype);
    void *to = fl_out(c, out);

    if (to != from->data && bytes)
        memcpy(to, from->data, bytes);
    return to;
}

/* Rows of a are compared with those of b, or with its only one. */
static inline fl_status fl_infer_rows_alike(const fl_infer *c, int a, int b)
{
    fl_shape x = fl_infer_in(c, a)->shape, y = fl_infer_in(c, b)->shape;
    char ta[FL_SLOT_TEXT_MAX], tb[FL_SLOT_TEXT_MAX];

    if (y.dim[0] == 1)
        x.dim[0] = 1;
    if (x.rank < 2 || !fl_shape_matches(&x, &y))
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s and %s must have the same shape of two dimensions "
                "or more, but %s may have one row",
                c->node->def->name, fl_infer_text(c, a, ta),
                fl_infer_text(c, b, tb), c->node->def->in[b].name);
    return FL_OK;
}

/* "X[2] (b: f32[3,4])": fl_infer_text for entry i of a list. */
static inline const char *fl_infer_text_at(const fl_infer *c, int slot, int i,
                                           char buf[FL_SLOT_TEXT_MAX])
{
    const fl_tensor *t = fl_infer_in_at(c, slot, i);
    char shape[FL_SHAPE_TEXT_MAX];

    snprintf(buf, FL_SLOT_TEXT_MAX, "%s[%d] (%.100s: %s%s%s)",
             fl_node_in_name(c->node, slot), i, c->node->in[slot].vars[i]->name,
             fl_dtype_text(t->dtype), fl_shape_text(&t->shape, shape),
             t->kind == FL_KIND_ROWS ? " rows" : "");
    return buf;
}

/* The type that the string attribute `attr` names. */
FL_MUST_CHECK
static inline fl_status fl_infer_dtype(const fl_infer *c, int attr,
                                       fl_dtype *out)
{
    if (!fl_dtype_parse(fl_str_attr(c, attr), out))
        FL_FAIL(FL_ERR_INVAL, "op %s: %s=%s is no type", c->node->def->name,
                c->node->def->attrs[attr].name, fl_str_attr(c, attr));
    return FL_OK;
}

/* float16 is kept, moved, compared and cast. What computes with numbers says
   that it does not take it. */
FL_MUST_CHECK
static inline fl_status fl_infer_not_half(const fl_infer *c, int slot)
{
    char buf[FL_SLOT_TEXT_MAX];

    if (fl_infer_in(c, slot)->dtype == FL_DTYPE_F16)
        FL_FAIL(FL_ERR_TYPE, "op %s: %s is float16; cast it to float32 first",
                c->node->def->name, fl_infer_text(c, slot, buf));
    return FL_OK;
}

/* The shape that the attribute `attr` spells out; every entry is at least
   `least`. */
FL_MUST_CHECK
static inline fl_status fl_infer_shape(const fl_infer *c, int attr,
                                       int64_t least, fl_shape *out)
{
    size_t rank;
    const int64_t *dims = fl_attr_ints(c->node, attr, &rank);

    if (rank < 1 || rank > FL_RANK_MAX)
        FL_FAIL(FL_ERR_INVAL, "op %s: %s has %zu entries, 1 to %d are possible",
                c->node->def->name, c->node->def->attrs[attr].name, rank,
                FL_RANK_MAX);
    *out = fl_shape_of((int)rank, dims);
    for (size_t i = 0; i < rank; i++)
        if (dims[i] < least) {
            char text[FL_SHAPE_TEXT_MAX];

            FL_FAIL(FL_ERR_INVAL, "op %s: %s=%s has an entry below %d",
                    c->node->def->name, c->node->def->attrs[attr].name,
                    fl_shape_text(out, text), (int)least);
        }
    return FL_OK;
}

#endif
