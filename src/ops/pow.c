/* pow.c - numbers to one power, which is an attribute or a tensor of one
 * number. */
#include <tgmath.h>

#include "ops/helpers.h"
#include "ops/values.h"

enum { X, FACTOR_TENSOR };
enum { OUT };
enum { FACTOR };

#define KERNELS(T, t)                                                          \
    static void forward_##t(T *y, const T *x, fl_span s, double factor)        \
    {                                                                          \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            y[i] = pow(x[i], (T)factor);                                       \
    }                                                                          \
    static void backward_##t(T *dx, const T *x, const T *g, fl_span s,         \
                             double factor)                                    \
    {                                                                          \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            dx[i] = g[i] * (T)factor * pow(x[i], (T)(factor - 1));             \
    }
FL_FLOATS(KERNELS)

static fl_status pow_infer(fl_infer *c)
{
    FL_TRY(fl_infer_number(c, FACTOR_TENSOR));
    return fl_infer_same(c, X, OUT);
}

static double factor_of(const fl_op_ctx *c)
{
    return fl_read_float(c, FACTOR_TENSOR, FACTOR);
}

static fl_span span_of(const fl_op_ctx *c)
{
    return fl_op_span(c, (size_t)fl_tensor_numel(fl_in_t(c, X)));
}

static fl_status pow_run(fl_op_ctx *c)
{
    FL_BY_FLOAT(c, X, forward, fl_out(c, OUT), fl_in(c, X), span_of(c),
                factor_of(c));
    return FL_OK;
}

static fl_status pow_back(fl_op_ctx *c)
{
    if (!fl_din_t(c, X))
        return FL_OK;
    if (fl_dout_t(c, OUT))
        FL_BY_FLOAT(c, X, backward, fl_din(c, X), fl_in(c, X), fl_dout(c, OUT),
                    span_of(c), factor_of(c));
    else
        fl_share_zero(c, fl_din_t(c, X));
    return FL_OK;
}

static const fl_op_case pow_cases[] = {
    { .in = { "f32[1]" }, .flags = FL_CASE_POSITIVE },
    { .in = { "f32[0,8]" }, .flags = FL_CASE_POSITIVE },
    { .in = { "f32[33,7]" },
      .attrs = "{factor=-1.5}",
      .flags = FL_CASE_POSITIVE },
    { .in = { "f32[33,7]" }, .attrs = "{factor=2}" },
    { .in = { "f32[5,3] lod=[0,2,2,5]", "f32[1]" }, .flags = FL_CASE_POSITIVE },
};

const fl_op fl_op_pow = {
    .name = "pow",
    .doc = "Out = X to the power of factor, element by element; FactorTensor, "
           "when given, stands for factor",
    .in = { { "X", 0 }, { "FactorTensor", FL_VALUE_SLOT } },
    .out = { { "Out", 0 } },
    .attrs = { { "factor", FL_ATTR_FLOAT, "1" } },
    .flags = FL_OP_INPLACE | FL_OP_SLICED,
    .infer = pow_infer,
    .run = pow_run,
    .back = pow_back,
    .back_uses = FL_USES_IN(X),
    .cases = pow_cases,
    .n_cases = FL_LEN(pow_cases),
};
