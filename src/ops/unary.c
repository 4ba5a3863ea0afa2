/* unary.c - functions of one number, element by element.
 *
 * A row of the list below is a whole operator; all it needs besides is its
 * row in ops.def. In a row x[i], y[i] and g[i] stand for X, Out and the
 * gradient of Out; the gradient may read x or y only when the row says so.
 * a0, a1 and a2 are the attributes of the row, in its order, as numbers of the
 * type of X. <tgmath.h> turns exp into expf where x is a float.
 */
#include <tgmath.h>

#include "ops/helpers.h"

enum { X };   /* index into .in  */
enum { OUT }; /* index into .out */

#define UNARY_ATTRS_MAX 3

/* name, formula, value, gradient, what the gradient reads, how cases draw, the
   attributes of one case, the attributes with their defaults */
#define UNARY_LIST(U)                                                          \
    U(sigmoid, "1 / (1 + exp(-X))", 1 / (1 + exp(-x[i])),                      \
      g[i] * y[i] * (1 - y[i]), FL_USES_OUT(OUT), 0, NULL, NO_ATTRS)           \
    U(tanh, "tanh(X)", tanh(x[i]), g[i] * (1 - y[i] * y[i]), FL_USES_OUT(OUT), \
      0, NULL, NO_ATTRS)                                                       \
    U(square, "X * X", x[i] * x[i], g[i] * 2 * x[i], FL_USES_IN(X), 0, NULL,   \
      NO_ATTRS)                                                                \
    U(sqrt, "the square root of X", sqrt(x[i]), g[i] / (2 * y[i]),             \
      FL_USES_OUT(OUT), FL_CASE_POSITIVE, NULL, NO_ATTRS)                      \
    U(pow, "X to the power of factor", pow(x[i], a0),                          \
      g[i] * a0 * pow(x[i], a0 - 1), FL_USES_IN(X), FL_CASE_POSITIVE,          \
      "{factor=-1.5}", ATTR("factor", "1"))                                    \
    U(leaky_relu, "X, or alpha * X where X is not above 0",                    \
      x[i] > 0 ? x[i] : a0 * x[i], x[i] > 0 ? g[i] : a0 * g[i], FL_USES_IN(X), \
      0, "{alpha=0.3}", ATTR("alpha", "0.02"))                                 \
    U(elu, "X, or alpha * (exp(X) - 1) where X is not above 0",                \
      x[i] > 0 ? x[i] : a0 * (exp(x[i]) - 1),                                  \
      x[i] > 0 ? g[i] : a0 * g[i] * exp(x[i]), FL_USES_IN(X), 0,               \
      "{alpha=0.5}", ATTR("alpha", "1"))                                       \
    U(relu6, "X, cut off below 0 and above threshold",                         \
      x[i] > 0 ? (x[i] < a0 ? x[i] : a0) : 0,                                  \
      y[i] > 0 && y[i] < a0 ? g[i] : 0, FL_USES_OUT(OUT), 0,                   \
      "{threshold=0.5}", ATTR("threshold", "6"))

#define ATTR(name, value)                                                      \
    {                                                                          \
        name, FL_ATTR_FLOAT, value                                             \
    }
#define NO_ATTRS                                                               \
    {                                                                          \
        NULL, 0, NULL                                                          \
    }

typedef void (*forward_fn)(void *out, const void *in, fl_span s,
                           const double *attrs);
typedef void (*backward_fn)(void *din, const void *in, const void *out,
                            const void *dout, fl_span s, const double *attrs);

static fl_status unary_infer(fl_infer *c)
{
    return fl_infer_same(c, X, OUT);
}

static fl_span span_of(const fl_op_ctx *c)
{
    return fl_op_span(c, (size_t)fl_tensor_numel(fl_in_t(c, X)));
}

static void read_attrs(const fl_op_ctx *c, double to[UNARY_ATTRS_MAX])
{
    for (int i = 0; i < fl_op_n_attrs(c->node->def); i++)
        to[i] = fl_float(c, i);
}

static fl_status unary_run(fl_op_ctx *c, const forward_fn f[2])
{
    double attrs[UNARY_ATTRS_MAX] = { 0 };

    read_attrs(c, attrs);
    f[fl_float_index(fl_in_t(c, X)->dtype, c->node)](
        fl_out(c, OUT), fl_in(c, X), span_of(c), attrs);
    return FL_OK;
}

static fl_status unary_back(fl_op_ctx *c, const backward_fn f[2])
{
    double attrs[UNARY_ATTRS_MAX] = { 0 };

    if (!fl_din_t(c, X))
        return FL_OK;
    if (!fl_dout_t(c, OUT)) {
        fl_share_zero(c, fl_din_t(c, X));
        return FL_OK;
    }
    read_attrs(c, attrs);
    f[fl_float_index(fl_in_t(c, X)->dtype, c->node)](
        fl_din(c, X), fl_in(c, X), fl_saved_out(c, OUT), fl_dout(c, OUT),
        span_of(c), attrs);
    return FL_OK;
}

#define READ_ATTRS(T)                                                          \
    const T a0 = (T)attrs[0], a1 = (T)attrs[1], a2 = (T)attrs[2];              \
                                                                               \
    (void)a0, (void)a1, (void)a2

#define KERNELS(T, t, name, VALUE, GRADIENT)                                   \
    static void name##_forward_##t(void *out, const void *in, fl_span s,       \
                                   const double *attrs)                        \
    {                                                                          \
        const T *x = in;                                                       \
        T *y = out;                                                            \
        READ_ATTRS(T);                                                         \
                                                                               \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            y[i] = VALUE;                                                      \
    }                                                                          \
    static void name##_backward_##t(void *din, const void *in,                 \
                                    const void *out, const void *dout,         \
                                    fl_span s, const double *attrs)            \
    {                                                                          \
        const T *x = in, *y = out, *g = dout;                                  \
        T *dx = din;                                                           \
        READ_ATTRS(T);                                                         \
                                                                               \
        (void)x, (void)y;                                                      \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            dx[i] = GRADIENT;                                                  \
    }

#define OPERATOR(name_, text, VALUE, GRADIENT, uses, draw, case_attrs, ...)    \
    KERNELS(float, f32, name_, VALUE, GRADIENT)                                \
    KERNELS(double, f64, name_, VALUE, GRADIENT)                               \
    static fl_status name_##_run(fl_op_ctx *c)                                 \
    {                                                                          \
        static const forward_fn f[] = { name_##_forward_f32,                   \
                                        name_##_forward_f64 };                 \
                                                                               \
        return unary_run(c, f);                                                \
    }                                                                          \
    static fl_status name_##_back(fl_op_ctx *c)                                \
    {                                                                          \
        static const backward_fn f[] = { name_##_backward_f32,                 \
                                         name_##_backward_f64 };               \
                                                                               \
        return unary_back(c, f);                                               \
    }                                                                          \
    static const fl_op_case name_##_cases[] = {                                \
        { .in = { "f32[1]" }, .flags = draw },                                 \
        { .in = { "f32[0,8]" }, .flags = draw },                               \
        { .in = { "f32[33,7]" }, .flags = draw },                              \
        { .in = { "f32[5,3] lod=[0,2,2,5]" }, .flags = draw },                 \
        { .in = { "f32[9,4]" }, .attrs = case_attrs, .flags = draw },          \
    };                                                                         \
    const fl_op fl_op_##name_ = {                                              \
        .name = #name_,                                                        \
        .doc = "Out = " text ", element by element",                           \
        .in = { { "X", 0 } },                                                  \
        .out = { { "Out", 0 } },                                               \
        .attrs = { __VA_ARGS__ },                                              \
        .flags = FL_OP_INPLACE | FL_OP_SLICED,                                 \
        .infer = unary_infer,                                                  \
        .run = name_##_run,                                                    \
        .back = name_##_back,                                                  \
        .back_uses = uses,                                                     \
        .cases = name_##_cases,                                                \
        .n_cases = FL_LEN(name_##_cases),                                      \
    };

UNARY_LIST(OPERATOR)
