/* cross.c - the vector that stands upright on two others, along an axis of
 * three places. */
#include <inttypes.h>

#include "ops/helpers.h"

enum { X, Y };
enum { OUT };
enum { DIM };
enum { ANY_AXIS = 9, PLACES = 3 };

/* The axis of the attribute, or the first of three places; -1: none. */
static int axis_of(const fl_op_node *n, const fl_shape *x)
{
    if (fl_attr_int(n, DIM) != ANY_AXIS)
        return fl_shape_axis(x, fl_attr_int(n, DIM));
    for (int i = 0; i < x->rank; i++)
        if (x->dim[i] == PLACES)
            return i;
    return -1;
}

static fl_status cross_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X), *y = fl_infer_in(c, Y);
    int axis = axis_of(c->node, &x->shape);
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_float(c, X));
    FL_TRY(fl_infer_same_dtype(c, X, Y));
    if (!fl_shape_matches(&x->shape, &y->shape))
        FL_FAIL(FL_ERR_INVAL, "op cross: %s and %s must have one shape",
                fl_infer_text(c, X, a), fl_infer_text(c, Y, b));
    if (axis < 0 || (x->shape.dim[axis] >= 0 && x->shape.dim[axis] != PLACES))
        FL_FAIL(FL_ERR_INVAL,
                "op cross: %s has no axis %" PRId64 " of length 3",
                fl_infer_text(c, X, a), fl_int(c, DIM));
    fl_tensor_like(fl_infer_out(c, OUT), x);
    return FL_OK;
}

#define KERNELS(T, t)                                                          \
    /* Vectors [lo, hi); their places are `after` apart. */                    \
    static void cross_##t(T *out, const T *a, const T *b, size_t after,        \
                          fl_span s)                                           \
    {                                                                          \
        for (size_t i = s.lo; i < s.hi; i++) {                                 \
            size_t p0 = i / after * PLACES * after + i % after;                \
            size_t p1 = p0 + after, p2 = p1 + after;                           \
                                                                               \
            out[p0] = a[p1] * b[p2] - a[p2] * b[p1];                           \
            out[p1] = a[p2] * b[p0] - a[p0] * b[p2];                           \
            out[p2] = a[p0] * b[p1] - a[p1] * b[p0];                           \
        }                                                                      \
    }
FL_FLOATS(KERNELS)

static void cross(const fl_op_ctx *c, void *out, const void *a, const void *b)
{
    const fl_tensor *x = fl_in_t(c, X);
    int axis = axis_of(c->node, &x->shape);
    size_t after = (size_t)fl_shape_count(&x->shape, axis + 1, x->shape.rank);

    FL_BY_FLOAT(c, X, cross, out, a, b, after,
                fl_op_span(c, (size_t)fl_tensor_numel(x) / PLACES));
}

static fl_status cross_run(fl_op_ctx *c)
{
    cross(c, fl_out(c, OUT), fl_in(c, X), fl_in(c, Y));
    return FL_OK;
}

/* g . (x cross y) turns round: x gets y cross g, y gets g cross x. */
static fl_status cross_back(fl_op_ctx *c)
{
    const void *g = fl_dout(c, OUT);

    if (!g) {
        fl_din_zero(c, X);
        fl_din_zero(c, Y);
        return FL_OK;
    }
    if (fl_din_t(c, X))
        cross(c, fl_din(c, X), fl_in(c, Y), g);
    if (fl_din_t(c, Y))
        cross(c, fl_din(c, Y), g, fl_in(c, X));
    return FL_OK;
}

static const fl_op_case cross_cases[] = {
    { .in = { "f32[33,3]", "f32[33,3]" }, .attrs = "{dim=1}" },
    { .in = { "f32[5,3,4]", "f32[5,3,4]" }, .attrs = "{dim=-2}" },
    { .in = { "f32[2,3,3]", "f32[2,3,3]" } },
    { .in = { "f32[0,3]", "f32[0,3]" } },
};

const fl_op fl_op_cross = {
    .name = "cross",
    .doc = "Out = the cross product of X and Y along axis dim, which has three "
           "places; 9 stands for the first axis that has",
    .in = { { "X", 0 }, { "Y", 0 } },
    .out = { { "Out", 0 } },
    .attrs = { { "dim", FL_ATTR_INT, "9" } },
    .flags = FL_OP_SLICED,
    .infer = cross_infer,
    .run = cross_run,
    .back = cross_back,
    .back_uses = FL_USES_IN(X) | FL_USES_IN(Y),
    .cases = cross_cases,
    .n_cases = FL_LEN(cross_cases),
};
