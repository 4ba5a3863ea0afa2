/* isfinite.c - what is among the numbers of a tensor: nothing but finite ones
 * (isfinite), one that is infinite (isinf), one that is none (isnan). */
#include <math.h>

#include "ops/helpers.h"

enum { X };
enum { OUT };

static fl_status found_infer(fl_infer *c)
{
    FL_TRY(fl_infer_not_half(c, X));
    fl_infer_dense(c, OUT, FL_DTYPE_BOOL, 1, (int64_t[]){ 1 });
    return FL_OK;
}

#define FINDERS(T, t)                                                          \
    static bool any_inf_##t(const T *x, size_t n)                              \
    {                                                                          \
        for (size_t i = 0; i < n; i++)                                         \
            if (isinf(x[i]))                                                   \
                return true;                                                   \
        return false;                                                          \
    }                                                                          \
    static bool any_nan_##t(const T *x, size_t n)                              \
    {                                                                          \
        for (size_t i = 0; i < n; i++)                                         \
            if (isnan(x[i]))                                                   \
                return true;                                                   \
        return false;                                                          \
    }
FL_FLOATS(FINDERS)

/* Whole numbers are finite. */
static bool any_inf(const fl_tensor *x)
{
    size_t n = (size_t)fl_tensor_numel(x);

    return x->dtype == FL_DTYPE_F32   ? any_inf_f32(x->data, n)
           : x->dtype == FL_DTYPE_F64 ? any_inf_f64(x->data, n)
                                      : false;
}

static bool any_nan(const fl_tensor *x)
{
    size_t n = (size_t)fl_tensor_numel(x);

    return x->dtype == FL_DTYPE_F32   ? any_nan_f32(x->data, n)
           : x->dtype == FL_DTYPE_F64 ? any_nan_f64(x->data, n)
                                      : false;
}

static fl_status isfinite_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X);

    *(bool *)fl_out(c, OUT) = !any_inf(x) && !any_nan(x);
    return FL_OK;
}

static fl_status isinf_run(fl_op_ctx *c)
{
    *(bool *)fl_out(c, OUT) = any_inf(fl_in_t(c, X));
    return FL_OK;
}

static fl_status isnan_run(fl_op_ctx *c)
{
    *(bool *)fl_out(c, OUT) = any_nan(fl_in_t(c, X));
    return FL_OK;
}

static const fl_op_case found_cases[] = {
    { .in = { "f32[33,7]" } },
    { .in = { "i64[5] below=9" } },
    { .in = { "f32[0,8]" } },
};

#define FOUND(op, text)                                                        \
    const fl_op fl_op_##op = {                                                 \
        .name = #op,                                                           \
        .doc = "Out = whether " text ", one truth value",                      \
        .in = { { "X", FL_SLOT_NO_GRAD } },                                    \
        .out = { { "Out", 0 } },                                               \
        .infer = found_infer,                                                  \
        .run = op##_run,                                                       \
        .cases = found_cases,                                                  \
        .n_cases = FL_LEN(found_cases),                                        \
    };

FOUND(isfinite, "all numbers of X are finite")
FOUND(isinf, "a number of X is infinite")
FOUND(isnan, "a number of X is not a number")
