/* unary.c - functions of one number, element by element.
 *
 * A row of the list below is a whole operator; all it needs besides is its
 * row in ops.def. In a row x[i], y[i] and g[i] stand for X, Out and the
 * gradient of Out; the gradient may read x or y only when the row says so.
 * <tgmath.h> turns exp into expf where x is a float.
 */
#include <tgmath.h>

#include "ops/helpers.h"

enum { X };   /* index into .in  */
enum { OUT }; /* index into .out */

/* name, formula, value, gradient, what the gradient reads, how cases draw */
#define UNARY_LIST(U)                                                          \
    U(sigmoid, "1 / (1 + exp(-X))", 1 / (1 + exp(-x[i])),                      \
      g[i] * y[i] * (1 - y[i]), FL_USES_OUT(OUT), 0)                           \
    U(tanh, "tanh(X)", tanh(x[i]), g[i] * (1 - y[i] * y[i]), FL_USES_OUT(OUT), \
      0)                                                                       \
    U(square, "X * X", x[i] * x[i], g[i] * 2 * x[i], FL_USES_IN(X), 0)         \
    U(sqrt, "the square root of X", sqrt(x[i]), g[i] / (2 * y[i]),             \
      FL_USES_OUT(OUT), FL_CASE_POSITIVE)

typedef void (*forward_fn)(void *out, const void *in, fl_span s);
typedef void (*backward_fn)(void *din, const void *in, const void *out,
                            const void *dout, fl_span s);

static fl_status unary_infer(fl_infer *c)
{
    return fl_infer_same(c, X, OUT);
}

static fl_span span_of(const fl_op_ctx *c)
{
    return fl_op_span(c, (size_t)fl_tensor_numel(fl_in_t(c, X)));
}

static fl_status unary_run(fl_op_ctx *c, forward_fn f32, forward_fn f64)
{
    forward_fn f = fl_in_t(c, X)->dtype == FL_DTYPE_F64 ? f64 : f32;

    f(fl_out(c, OUT), fl_in(c, X), span_of(c));
    return FL_OK;
}

static fl_status unary_back(fl_op_ctx *c, backward_fn f32, backward_fn f64)
{
    backward_fn f = fl_in_t(c, X)->dtype == FL_DTYPE_F64 ? f64 : f32;

    if (!fl_din_t(c, X))
        return FL_OK;
    if (fl_dout_t(c, OUT))
        f(fl_din(c, X), fl_in(c, X), fl_saved_out(c, OUT), fl_dout(c, OUT),
          span_of(c));
    else
        fl_share_zero(c, fl_din_t(c, X));
    return FL_OK;
}

#define KERNELS(T, t, name, VALUE, GRADIENT)                                   \
    static void name##_forward_##t(void *out, const void *in, fl_span s)       \
    {                                                                          \
        const T *x = in;                                                       \
        T *y = out;                                                            \
                                                                               \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            y[i] = VALUE;                                                      \
    }                                                                          \
    static void name##_backward_##t(void *din, const void *in,                 \
                                    const void *out, const void *dout,         \
                                    fl_span s)                                 \
    {                                                                          \
        const T *x = in, *y = out, *g = dout;                                  \
        T *dx = din;                                                           \
                                                                               \
        (void)x, (void)y;                                                      \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            dx[i] = GRADIENT;                                                  \
    }

#define OPERATOR(name_, text, VALUE, GRADIENT, uses, draw)                     \
    KERNELS(float, f32, name_, VALUE, GRADIENT)                                \
    KERNELS(double, f64, name_, VALUE, GRADIENT)                               \
    static fl_status name_##_run(fl_op_ctx *c)                                 \
    {                                                                          \
        return unary_run(c, name_##_forward_f32, name_##_forward_f64);         \
    }                                                                          \
    static fl_status name_##_back(fl_op_ctx *c)                                \
    {                                                                          \
        return unary_back(c, name_##_backward_f32, name_##_backward_f64);      \
    }                                                                          \
    static const fl_op_case name_##_cases[] = {                                \
        { .in = { "f32[1]" }, .flags = draw },                                 \
        { .in = { "f32[0,8]" }, .flags = draw },                               \
        { .in = { "f32[33,7]" }, .flags = draw },                              \
        { .in = { "f32[5,3] lod=[0,2,2,5]" }, .flags = draw },                 \
    };                                                                         \
    const fl_op fl_op_##name_ = {                                              \
        .name = #name_,                                                        \
        .doc = "Out = " text ", element by element",                           \
        .in = { { "X", 0 } },                                                  \
        .out = { { "Out", 0 } },                                               \
        .flags = FL_OP_INPLACE | FL_OP_SLICED,                                 \
        .infer = unary_infer,                                                  \
        .run = name_##_run,                                                    \
        .back = name_##_back,                                                  \
        .back_uses = uses,                                                     \
        .cases = name_##_cases,                                                \
        .n_cases = FL_LEN(name_##_cases),                                      \
    };

UNARY_LIST(OPERATOR)
