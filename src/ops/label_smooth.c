/* label_smooth.c - labels that are less sure of themselves.
 *
 *     Out = (1 - epsilon) X + epsilon p,  p = PriorDist, or 1 / classes
 */
#include "ops/helpers.h"

enum { X, PRIOR_DIST };
enum { OUT };
enum { EPSILON };

static fl_status label_smooth_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X), *prior = fl_infer_in(c, PRIOR_DIST);
    int64_t n = x->shape.dim[x->shape.rank - 1];
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_same(c, X, OUT));
    if (!prior)
        return FL_OK;
    FL_TRY(fl_infer_same_dtype(c, X, PRIOR_DIST));
    if (n >= 0 && fl_shape_numel(&prior->shape) >= 0 &&
        fl_shape_numel(&prior->shape) != n)
        FL_FAIL(FL_ERR_INVAL,
                "op label_smooth: %s must have one number for each class of %s",
                fl_infer_text(c, PRIOR_DIST, a), fl_infer_text(c, X, b));
    return FL_OK;
}

#define KERNELS(T, t)                                                          \
    static void smooth_##t(T *y, const T *x, const T *prior, size_t classes,   \
                           double epsilon, fl_span s)                          \
    {                                                                          \
        const T e = (T)epsilon;                                                \
                                                                               \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            y[i] = (1 - e) * x[i] +                                            \
                   e * (prior ? prior[i % classes] : 1 / (T)classes);          \
    }                                                                          \
    static void scale_##t(T *dx, const T *g, double epsilon, fl_span s)        \
    {                                                                          \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            dx[i] = (1 - (T)epsilon) * g[i];                                   \
    }
FL_FLOATS(KERNELS)

static fl_span mine(const fl_op_ctx *c)
{
    return fl_op_span(c, (size_t)fl_tensor_numel(fl_in_t(c, X)));
}

static fl_status label_smooth_run(fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;

    FL_BY_FLOAT(c, X, smooth, fl_out(c, OUT), fl_in(c, X), fl_in(c, PRIOR_DIST),
                (size_t)x->dim[x->rank - 1], fl_float(c, EPSILON), mine(c));
    return FL_OK;
}

static fl_status label_smooth_back(fl_op_ctx *c)
{
    if (fl_din_t(c, X) && fl_dout_t(c, OUT))
        FL_BY_FLOAT(c, X, scale, fl_din(c, X), fl_dout(c, OUT),
                    fl_float(c, EPSILON), mine(c));
    else
        fl_din_zero(c, X);
    return FL_OK;
}

static const fl_op_case label_smooth_cases[] = {
    { .in = { "f32[33,7]" }, .attrs = "{epsilon=0.125}" },
    { .in = { "f32[5,3,4]", "f32[1,4]" }, .attrs = "{epsilon=0.25}" },
    { .in = { "f32[0,8]" } },
};

const fl_op fl_op_label_smooth = {
    .name = "label_smooth",
    .doc = "Out = (1 - epsilon) X + epsilon p, where p is PriorDist, or one "
           "over the length of the last axis of X",
    .in = { { "X", 0 },
            { "PriorDist", FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .attrs = { { "epsilon", FL_ATTR_FLOAT, "0" } },
    .flags = FL_OP_SLICED,
    .infer = label_smooth_infer,
    .run = label_smooth_run,
    .back = label_smooth_back,
    .cases = label_smooth_cases,
    .n_cases = FL_LEN(label_smooth_cases),
};
