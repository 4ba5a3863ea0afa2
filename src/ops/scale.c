/* scale.c - a multiple plus a constant, for floats and integers. */
#include <math.h>

#include "kernel/vec.h"
#include "ops/helpers.h"
#include "ops/rows.h"
#include "ops/values.h"

enum { X, SCALE_TENSOR };
enum { OUT };
enum { SCALE, BIAS, BIAS_AFTER_SCALE };

static double scale_of(const fl_op_ctx *c)
{
    return fl_read_float(c, SCALE_TENSOR, SCALE);
}

/* Out = a X + b in either order of the two steps. */
static double offset_of(const fl_op_ctx *c)
{
    double bias = fl_float(c, BIAS);

    return fl_bool(c, BIAS_AFTER_SCALE) ? bias : scale_of(c) * bias;
}

#define KERNELS(T, t)                                                          \
    static void forward_##t(T *y, double a, const T *x, double b, fl_span s)   \
    {                                                                          \
        if (s.lo < s.hi)                                                       \
            fl_vec_##t()->scale(y + s.lo, (T)a, x + s.lo, (T)b, s.hi - s.lo);  \
    }
FL_FLOATS(KERNELS)

/* Integers wrap around at their ends, as unsigned arithmetic does. */
#define INTEGERS(T)                                                            \
    static void forward_##T(void *to, int64_t a, const void *from, int64_t b,  \
                            fl_span s)                                         \
    {                                                                          \
        const T *x = from;                                                     \
        T *y = to;                                                             \
                                                                               \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            y[i] = (T)((uint64_t)a * (uint64_t)x[i] + (uint64_t)b);            \
    }
INTEGERS(int32_t)
INTEGERS(int64_t)

/* Whole numbers of this size are exact in double. */
#define WHOLE_MAX 0x1p53

static bool is_whole(double v)
{
    return fabs(v) <= WHOLE_MAX && v == trunc(v);
}

static fl_status check_integers(const fl_infer *c)
{
    double scale = fl_float(c, SCALE), bias = fl_float(c, BIAS);
    char buf[FL_SLOT_TEXT_MAX];

    if (fl_infer_in(c, SCALE_TENSOR))
        FL_FAIL(FL_ERR_INVAL,
                "op scale: %s holds integers, whose scale must stand in the "
                "program, not in ScaleTensor",
                fl_infer_text(c, X, buf));
    if (!(is_whole(scale) && is_whole(bias) && is_whole(scale * bias)))
        FL_FAIL(FL_ERR_INVAL,
                "op scale: %s holds integers, but scale %g and bias %g are "
                "not both whole",
                fl_infer_text(c, X, buf), scale, bias);
    return FL_OK;
}

static fl_status scale_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_number(c, SCALE_TENSOR));
    if (!fl_dtype_is_float(x->dtype) && !fl_dtype_is_id(x->dtype))
        FL_FAIL(FL_ERR_INVAL, "op scale: %s must be a float, i64, u64 or i32",
                fl_infer_text(c, X, buf));
    if (fl_dtype_is_id(x->dtype))
        FL_TRY(check_integers(c));
    fl_tensor_like(fl_infer_out(c, OUT), x);
    return FL_OK;
}

static fl_status scale_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X);
    fl_span s = fl_op_span(c, (size_t)fl_tensor_numel(x));
    double a = scale_of(c), b = offset_of(c);

    fl_rows_carry(x, fl_out_t(c, OUT), s);
    if (fl_dtype_is_float(x->dtype))
        FL_BY_FLOAT(c, X, forward, fl_out(c, OUT), a, x->data, b, s);
    else if (x->dtype == FL_DTYPE_I32)
        forward_int32_t(fl_out(c, OUT), (int64_t)a, x->data, (int64_t)b, s);
    else
        forward_int64_t(fl_out(c, OUT), (int64_t)a, x->data, (int64_t)b, s);
    return FL_OK;
}

static fl_status scale_back(fl_op_ctx *c)
{
    fl_tensor *dx = fl_din_t(c, X);
    const fl_tensor *g = fl_dout_t(c, OUT);
    fl_span s = fl_op_span(c, (size_t)fl_tensor_numel(fl_in_t(c, X)));

    if (!dx)
        return FL_OK;
    if (g)
        FL_BY_FLOAT(c, X, forward, dx->data, scale_of(c), g->data, 0, s);
    else
        fl_share_zero(c, dx);
    return FL_OK;
}

static fl_status scale_back_infer(fl_infer *c)
{
    return fl_rows_no_grad(c, X);
}

static const fl_op_case scale_cases[] = {
    { .in = { "f32[33,7]" }, .attrs = "{scale=2.5, bias=0.75}" },
    { .in = { "f32[33,7]" },
      .attrs = "{scale=-1.25, bias=0.75, bias_after_scale=false}" },
    { .in = { "f32[5,2] lod=[0,0,5]" }, .attrs = "{scale=0.1}" },
    { .in = { "i64[6,1] below=10" }, .attrs = "{scale=3, bias=1}" },
    { .in = { "f32[33,7]", "f32[1]" }, .attrs = "{bias=0.5}" },
    { .in = { "f32[33,4] rows height=9" }, .attrs = "{scale=0.1}" },
    { .in = { "f32[0,8]" }, .attrs = "{scale=2}" },
};

const fl_op fl_op_scale = {
    .name = "scale",
    .doc = "Out = scale X + bias, or scale (X + bias) when bias_after_scale is "
           "false; integers need a whole scale and bias, and wrap around. "
           "ScaleTensor gives the scale instead. Of rows + values it is the "
           "values that change",
    .in = { { "X", FL_OP_SLOT_ROWS }, { "ScaleTensor", FL_VALUE_SLOT } },
    .out = { { "Out", FL_OP_SLOT_ROWS } },
    .attrs = { { "scale", FL_ATTR_FLOAT, "1" },
               { "bias", FL_ATTR_FLOAT, "0" },
               { "bias_after_scale", FL_ATTR_BOOL, "true" } },
    .flags = FL_OP_INPLACE | FL_OP_SLICED | FL_OP_BY_FORM,
    .infer = scale_infer,
    .run = scale_run,
    .back = scale_back,
    .back_infer = scale_back_infer,
    .cases = scale_cases,
    .n_cases = FL_LEN(scale_cases),
};
