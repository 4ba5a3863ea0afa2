/* allclose.c - whether two tensors are the same but for a little. */
#include <math.h>

#include "ops/helpers.h"

enum { INPUT, OTHER };
enum { OUT };
enum { RTOL, ATOL, EQUAL_NAN };

static fl_status allclose_infer(fl_infer *c)
{
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_float(c, INPUT));
    FL_TRY(fl_infer_same_dtype(c, INPUT, OTHER));
    if (!fl_shape_matches(&fl_infer_in(c, INPUT)->shape,
                          &fl_infer_in(c, OTHER)->shape))
        FL_FAIL(FL_ERR_INVAL, "op allclose: %s and %s must have the same shape",
                fl_infer_text(c, INPUT, a), fl_infer_text(c, OTHER, b));
    fl_infer_dense(c, OUT, FL_DTYPE_BOOL, 1, (int64_t[]){ 1 });
    return FL_OK;
}

static bool is_close(const fl_op_ctx *c, double a, double b)
{
    if (isnan(a) || isnan(b))
        return fl_bool(c, EQUAL_NAN) && isnan(a) && isnan(b);
    return fabs(a - b) <= fl_float(c, ATOL) + fl_float(c, RTOL) * fabs(b);
}

static fl_status allclose_run(fl_op_ctx *c)
{
    const fl_tensor *a = fl_in_t(c, INPUT), *b = fl_in_t(c, OTHER);
    bool close = true;

    for (int64_t i = 0; close && i < fl_tensor_numel(a); i++)
        close = is_close(c, fl_float_at(a, i), fl_float_at(b, i));
    *(bool *)fl_out(c, OUT) = close;
    return FL_OK;
}

static const fl_op_case allclose_cases[] = {
    { .in = { "f32[3,2]", "f32[3,2]" } },
    { .in = { "f32[3,2]", "f32[3,2]" }, .attrs = "{atol=100, equal_nan=true}" },
    { .in = { "f32[0,2]", "f32[0,2]" } },
};

const fl_op fl_op_allclose = {
    .name = "allclose",
    .doc = "Out = whether |Input - Other| is at most atol + rtol |Other| "
           "everywhere; two NaNs are the same with equal_nan",
    .in = { { "Input", FL_SLOT_NO_GRAD }, { "Other", FL_SLOT_NO_GRAD } },
    .out = { { "Out", FL_SLOT_NO_GRAD } },
    .attrs = { { "rtol", FL_ATTR_FLOAT, "1e-05" },
               { "atol", FL_ATTR_FLOAT, "1e-08" },
               { "equal_nan", FL_ATTR_BOOL, "false" } },
    .infer = allclose_infer,
    .run = allclose_run,
    .cases = allclose_cases,
    .n_cases = FL_LEN(allclose_cases),
};
