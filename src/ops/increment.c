/* increment.c - a single number plus a step; Out may be the variable X. */
#include <math.h>

#include "ops/helpers.h"
#include "ops/values.h"

enum { X };
enum { OUT };
enum { STEP };

static bool can_count(fl_dtype d)
{
    return fl_dtype_is_float(d) || fl_dtype_is_id(d) || d == FL_DTYPE_U8;
}

static fl_status increment_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    double step = fl_float(c, STEP);
    char buf[FL_SLOT_TEXT_MAX];

    if (!fl_is_one(x) || !can_count(x->dtype))
        FL_FAIL(FL_ERR_INVAL, "op increment: %s must hold one number",
                fl_infer_text(c, X, buf));
    if (!fl_dtype_is_float(x->dtype) &&
        (step != trunc(step) || fabs(step) > 0x1p53))
        FL_FAIL(FL_ERR_INVAL,
                "op increment: %s is an integer, but step %g is not whole",
                fl_infer_text(c, X, buf), step);
    fl_tensor_like(fl_infer_out(c, OUT), x);
    return FL_OK;
}

/* Integers wrap around at their ends. */
static fl_status increment_run(fl_op_ctx *c)
{
    const void *x = fl_in(c, X);
    void *y = fl_out(c, OUT);
    double step = fl_float(c, STEP);

    switch (fl_out_t(c, OUT)->dtype) {
    case FL_DTYPE_F32:
        *(float *)y = *(const float *)x + (float)step;
        break;
    case FL_DTYPE_F64:
        *(double *)y = *(const double *)x + step;
        break;
    case FL_DTYPE_I32:
        *(uint32_t *)y = *(const uint32_t *)x + (uint32_t)(int64_t)step;
        break;
    case FL_DTYPE_I64:
    case FL_DTYPE_U64:
        *(uint64_t *)y = *(const uint64_t *)x + (uint64_t)(int64_t)step;
        break;
    default:
        *(uint8_t *)y = (uint8_t)(*(const uint8_t *)x + (int64_t)step);
    }
    return FL_OK;
}

static fl_status increment_back(fl_op_ctx *c)
{
    if (fl_din_t(c, X))
        fl_share_copy(c, fl_din_t(c, X), fl_dout_t(c, OUT));
    return FL_OK;
}

static const fl_op_case increment_cases[] = {
    { .in = { "f32[1]" }, .attrs = "{step=2.5}" },
    { .in = { "i64[1] below=9" }, .attrs = "{step=3}" },
    { .in = { "i32[1] below=9" }, .attrs = "{step=-1}" },
};

const fl_op fl_op_increment = {
    .name = "increment",
    .doc = "Out = X + step, one number of any type",
    .in = { { "X", 0 } },
    .out = { { "Out", 0 } },
    .attrs = { { "step", FL_ATTR_FLOAT, "1" } },
    .flags = FL_OP_INPLACE,
    .infer = increment_infer,
    .run = increment_run,
    .back = increment_back,
    .cases = increment_cases,
    .n_cases = FL_LEN(increment_cases),
};
