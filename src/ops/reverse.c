/* reverse.c - a tensor turned round along some of its axes: reverse, which
 * calls them axis, and flip, which calls them dims. */
#include <inttypes.h>

#include "ops/helpers.h"
#include "ops/walk.h"

enum { X };
enum { OUT };
enum { AXES };

static fl_status reverse_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    char buf[FL_SLOT_TEXT_MAX];
    size_t n;
    const int64_t *axes = fl_attr_ints(c->node, AXES, &n);
    bool turns_rows = false;

    for (size_t i = 0; i < n; i++) {
        int axis = fl_shape_axis(&x->shape, axes[i]);

        if (axis < 0)
            FL_FAIL(FL_ERR_INVAL, "op %s: %s has no axis %" PRId64,
                    c->node->def->name, fl_infer_text(c, X, buf), axes[i]);
        turns_rows |= axis == 0;
    }
    if (turns_rows)
        fl_infer_dense(c, OUT, x->dtype, x->shape.rank, x->shape.dim);
    else
        fl_tensor_like(fl_infer_out(c, OUT), x);
    return FL_OK;
}

/* An axis that is named twice is turned once. */
static fl_walk walk_of(const fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;
    fl_walk w = fl_walk_of(x);
    unsigned turned = 0;
    size_t n;
    const int64_t *axes = fl_attr_ints(c->node, AXES, &n);

    for (size_t i = 0; i < n; i++) {
        int axis = fl_shape_axis(x, axes[i]);

        if (!(turned >> axis & 1))
            fl_walk_along(&w, axis, x->dim[axis] - 1, -1, x->dim[axis]);
        turned |= 1u << axis;
    }
    return w;
}

static void turn(const fl_op_ctx *c, const fl_tensor *from, fl_tensor *to)
{
    fl_walk w = walk_of(c);

    fl_walk_take(&w, fl_dtype_bytes(to->dtype), to->data, from->data);
}

static fl_status reverse_run(fl_op_ctx *c)
{
    turn(c, fl_in_t(c, X), fl_out_t(c, OUT));
    return FL_OK;
}

static fl_status reverse_back(fl_op_ctx *c)
{
    if (fl_din_t(c, X) && fl_dout_t(c, OUT))
        turn(c, fl_dout_t(c, OUT), fl_din_t(c, X));
    else
        fl_din_zero(c, X);
    return FL_OK;
}

#define REVERSE(op, attr)                                                      \
    static const fl_op_case op##_cases[] = {                                   \
        { .in = { "f32[33,7]" }, .attrs = "{" attr "=[0]}" },                  \
        { .in = { "f32[5,3,4]" }, .attrs = "{" attr "=[-1,0,2]}" },            \
        { .in = { "i64[7,3] lod=[0,2,2,7] below=9" },                          \
          .attrs = "{" attr "=[1]}" },                                         \
        { .in = { "f32[0,8]" }, .attrs = "{" attr "=[0,1]}" },                 \
    };                                                                         \
    const fl_op fl_op_##op = {                                                 \
        .name = #op,                                                           \
        .doc = "Out = X from the last place to the first along the axes in "   \
               "" attr,                                                        \
        .in = { { "X", 0 } },                                                  \
        .out = { { "Out", 0 } },                                               \
        .attrs = { { attr, FL_ATTR_INTS, "[]" } },                             \
        .infer = reverse_infer,                                                \
        .run = reverse_run,                                                    \
        .back = reverse_back,                                                  \
        .cases = op##_cases,                                                   \
        .n_cases = FL_LEN(op##_cases),                                         \
    };

REVERSE(reverse, "axis")
REVERSE(flip, "dims")
