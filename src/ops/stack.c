/* stack.c - tensors of one shape side by side along a new axis. */
#include <inttypes.h>

#include "ops/helpers.h"
#include "ops/strips.h"

enum { X };
enum { Y };
enum { AXIS };

/* The new axis counts among those of Y. */
static int axis_of(const fl_op_node *n, const fl_shape *x)
{
    int64_t axis = fl_attr_int(n, AXIS);

    return (int)(axis < 0 ? axis + x->rank + 1 : axis);
}

static fl_status check_entries(const fl_infer *c, fl_shape *shape)
{
    const fl_tensor *x = fl_infer_in(c, X);
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    *shape = x->shape;
    for (int i = 1; i < fl_infer_n_in(c, X); i++) {
        const fl_tensor *t = fl_infer_in_at(c, X, i);

        if (t->dtype != x->dtype || !fl_shape_matches(shape, &t->shape))
            FL_FAIL(FL_ERR_INVAL, "op stack: %s and %s are not alike",
                    fl_infer_text_at(c, X, 0, a), fl_infer_text_at(c, X, i, b));
        for (int k = 0; k < shape->rank; k++)
            if (shape->dim[k] < 0)
                shape->dim[k] = t->shape.dim[k];
    }
    return FL_OK;
}

static fl_status stack_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    int axis = axis_of(c->node, &x->shape);
    char buf[FL_SLOT_TEXT_MAX];
    fl_shape shape;

    if (axis < 0 || axis > x->shape.rank || x->shape.rank == FL_RANK_MAX)
        FL_FAIL(FL_ERR_INVAL, "op stack: %s has no place for an axis %" PRId64,
                fl_infer_text(c, X, buf), fl_int(c, AXIS));
    FL_TRY(check_entries(c, &shape));
    for (int i = shape.rank++; i > axis; i--)
        shape.dim[i] = shape.dim[i - 1];
    shape.dim[axis] = fl_infer_n_in(c, X);
    fl_infer_dense(c, Y, x->dtype, shape.rank, shape.dim);
    return FL_OK;
}

/* The strips of all parts, with the data of `from`; missing where it is. */
static fl_strip *strips_of(fl_op_ctx *c, const fl_targs *from, fl_span *rows)
{
    const fl_tensor *x = fl_in_t(c, X);
    int axis = axis_of(c->node, &x->shape);
    fl_strip *parts = fl_scratch(c, (size_t)from->n * sizeof(*parts));

    for (int i = 0; parts && i < from->n; i++) {
        parts[i] = fl_strip_of(&x->shape, axis, x->dtype);
        parts[i].data = from->t[i] ? from->t[i]->data : NULL;
    }
    *rows = fl_op_span(c, (size_t)fl_shape_count(&x->shape, 0, axis));
    return parts;
}

static fl_status stack_run(fl_op_ctx *c)
{
    fl_span rows;
    fl_strip *parts = strips_of(c, &c->in[X], &rows);

    if (!parts)
        return FL_NOMEM(c);
    fl_strips_join(fl_out(c, Y), parts, fl_n_in(c, X), rows);
    return FL_OK;
}

static fl_status stack_back(fl_op_ctx *c)
{
    fl_span rows;
    fl_strip *parts;

    if (!fl_dout_t(c, Y)) {
        for (int i = 0; i < fl_n_out(c, X); i++)
            if (fl_din_at(c, X, i))
                fl_share_zero(c, fl_din_at(c, X, i));
        return FL_OK;
    }
    parts = strips_of(c, &c->out[X], &rows);
    if (!parts)
        return FL_NOMEM(c);
    fl_strips_cut(fl_dout(c, Y), parts, fl_n_in(c, X), rows);
    return FL_OK;
}

static const fl_op_case stack_cases[] = {
    { .in = { "f32[33,7]" }, .attrs = "{axis=0}" },
    { .in = { "f32[33,7];f32[33,7]" }, .attrs = "{axis=1}" },
    { .in = { "f32[5,7];f32[5,7];f32[5,7]" }, .attrs = "{axis=-1}" },
    { .in = { "i64[5,2] below=9;i64[5,2] below=9" }, .attrs = "{axis=0}" },
    { .in = { "f32[0,8];f32[0,8]" }, .attrs = "{axis=1}" },
};

const fl_op fl_op_stack = {
    .name = "stack",
    .doc = "Y = X[0], X[1], ..., all of one shape, along a new axis `axis` of "
           "Y (from the end when negative)",
    .in = { { "X", FL_OP_SLOT_LIST } },
    .out = { { "Y", 0 } },
    .attrs = { { "axis", FL_ATTR_INT, "0" } },
    .flags = FL_OP_SLICED,
    .infer = stack_infer,
    .run = stack_run,
    .back = stack_back,
    .cases = stack_cases,
    .n_cases = FL_LEN(stack_cases),
};
