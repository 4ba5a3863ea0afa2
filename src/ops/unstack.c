/* unstack.c - a tensor as its parts along an axis, which they lack: unstack,
 * which may be told how many there are, and unbind. */
#include <inttypes.h>

#include "ops/helpers.h"
#include "ops/strips.h"

enum { X };
enum { Y };
enum { AXIS, NUM };

static fl_status unstack_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    int axis = fl_shape_axis(&x->shape, fl_int(c, AXIS));
    char buf[FL_SLOT_TEXT_MAX];
    fl_shape part = x->shape;
    int64_t n;

    if (axis < 0 || x->shape.rank < 2)
        FL_FAIL(FL_ERR_INVAL, "op %s: %s has no axis %" PRId64 " to cut",
                c->node->def->name, fl_infer_text(c, X, buf), fl_int(c, AXIS));
    n = x->shape.dim[axis];
    if (n < 0 && fl_op_n_attrs(c->node->def) > NUM)
        n = fl_int(c, NUM);
    if (n > 0 && n != fl_infer_n_out(c, Y))
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %d parts of %s are wanted, but axis %d has %" PRId64,
                c->node->def->name, fl_infer_n_out(c, Y),
                fl_infer_text(c, X, buf), axis, n);
    for (int i = axis; i + 1 < part.rank; i++)
        part.dim[i] = part.dim[i + 1];
    part.rank--;
    for (int i = 0; i < fl_infer_n_out(c, Y); i++) {
        fl_tensor *y = fl_infer_out_at(c, Y, i);

        fl_tensor_like(y, x);
        y->kind = FL_KIND_DENSE;
        y->n_lod = 0;
        y->shape = part;
    }
    return FL_OK;
}

static int n_parts(const fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;

    return (int)x->dim[fl_shape_axis(x, fl_int(c, AXIS))];
}

/* Parts one long along the axis, their data still missing. */
static fl_strip *strips_of(fl_op_ctx *c, fl_span *rows)
{
    const fl_tensor *x = fl_in_t(c, X);
    int axis = fl_shape_axis(&x->shape, fl_int(c, AXIS)), n = n_parts(c);
    fl_strip *strips = fl_scratch(c, (size_t)n * sizeof(*strips));
    fl_shape one = x->shape;

    one.dim[axis] = 1;
    for (int i = 0; strips && i < n; i++)
        strips[i] = fl_strip_of(&one, axis, x->dtype);
    *rows = fl_op_span(c, (size_t)fl_shape_count(&x->shape, 0, axis));
    return strips;
}

static fl_status unstack_run(fl_op_ctx *c)
{
    fl_span rows;
    fl_strip *parts = strips_of(c, &rows);

    if (!parts)
        return FL_NOMEM(c);
    for (int i = 0; i < n_parts(c); i++)
        parts[i].data = fl_out_at(c, Y, i)->data;
    fl_strips_cut(fl_in(c, X), parts, n_parts(c), rows);
    return FL_OK;
}

static fl_status unstack_back(fl_op_ctx *c)
{
    fl_span rows;
    fl_strip *parts;

    if (!fl_din_t(c, X))
        return FL_OK;
    parts = strips_of(c, &rows);
    if (!parts)
        return FL_NOMEM(c);
    for (int i = 0; i < n_parts(c); i++)
        if (fl_dout_at(c, Y, i))
            parts[i].data = fl_dout_at(c, Y, i)->data;
    fl_strips_join(fl_din(c, X), parts, n_parts(c), rows);
    return FL_OK;
}

static const fl_op_case unstack_cases[] = {
    { .in = { "f32[33,2]" }, .attrs = "{axis=1, num=2}" },
    { .in = { "f32[3,5,4]" }, .attrs = "{axis=0, num=3}" },
    { .in = { "f32[5,4,3]" }, .attrs = "{axis=-1}" },
    { .in = { "i64[5,2] below=9" }, .attrs = "{axis=1}" },
    { .in = { "f32[0,3]" }, .attrs = "{axis=1}" },
};

static const fl_op_case unbind_cases[] = {
    { .in = { "f32[33,2]" }, .attrs = "{axis=1}" },
    { .in = { "f32[3,5,4]" }, .attrs = "{axis=1}" },
    { .in = { "i64[5,2] below=9" }, .attrs = "{axis=-1}" },
    { .in = { "f32[0,3]" }, .attrs = "{axis=1}" },
};

const fl_op fl_op_unstack = {
    .name = "unstack",
    .doc = "Y[0], Y[1], ... = X at places 0, 1, ... of axis (from the end when "
           "negative), which they lack; num says how many there are where X "
           "does not",
    .in = { { "X", 0 } },
    .out = { { "Y", FL_OP_SLOT_LIST } },
    .attrs = { { "axis", FL_ATTR_INT, "0" }, { "num", FL_ATTR_INT, "0" } },
    .flags = FL_OP_SLICED,
    .infer = unstack_infer,
    .run = unstack_run,
    .back = unstack_back,
    .cases = unstack_cases,
    .n_cases = FL_LEN(unstack_cases),
};

const fl_op fl_op_unbind = {
    .name = "unbind",
    .doc = "Out[0], Out[1], ... = X at places 0, 1, ... of axis (from the end "
           "when negative), which they lack",
    .in = { { "X", 0 } },
    .out = { { "Out", FL_OP_SLOT_LIST } },
    .attrs = { { "axis", FL_ATTR_INT, "0" } },
    .flags = FL_OP_SLICED,
    .infer = unstack_infer,
    .run = unstack_run,
    .back = unstack_back,
    .cases = unbind_cases,
    .n_cases = FL_LEN(unbind_cases),
};
