/* minus.c - X - Y of one shape; elementwise_sub without the meeting of
 * shapes. */
#include "kernel/vec.h"
#include "ops/helpers.h"

enum { X, Y };
enum { OUT };

static fl_status minus_infer(fl_infer *c)
{
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_same_dtype(c, X, Y));
    if (!fl_shape_matches(&fl_infer_in(c, X)->shape, &fl_infer_in(c, Y)->shape))
        FL_FAIL(FL_ERR_INVAL, "op minus: %s and %s must have the same shape",
                fl_infer_text(c, X, a), fl_infer_text(c, Y, b));
    return fl_infer_same(c, X, OUT);
}

#define KERNELS(T, t)                                                          \
    static void subtract_##t(T *out, const T *x, const T *y, fl_span s)        \
    {                                                                          \
        fl_vec_##t()->sub(out + s.lo, x + s.lo, y + s.lo, s.hi - s.lo);        \
    }                                                                          \
    static void negate_##t(T *out, const T *x, fl_span s)                      \
    {                                                                          \
        fl_vec_##t()->scale(out + s.lo, -1, x + s.lo, 0, s.hi - s.lo);         \
    }
FL_FLOATS(KERNELS)

static fl_span mine(const fl_op_ctx *c)
{
    return fl_op_span(c, (size_t)fl_tensor_numel(fl_in_t(c, X)));
}

static fl_status minus_run(fl_op_ctx *c)
{
    fl_span s = mine(c);

    if (s.lo < s.hi)
        FL_BY_FLOAT(c, X, subtract, fl_out(c, OUT), fl_in(c, X), fl_in(c, Y),
                    s);
    return FL_OK;
}

static fl_status minus_back(fl_op_ctx *c)
{
    fl_span s = mine(c);

    if (fl_din_t(c, Y) && fl_dout_t(c, OUT) && s.lo < s.hi)
        FL_BY_FLOAT(c, X, negate, fl_din(c, Y), fl_dout(c, OUT), s);
    else
        fl_din_zero(c, Y);
    if (fl_din_t(c, X))
        fl_share_copy(c, fl_din_t(c, X), fl_dout_t(c, OUT));
    return FL_OK;
}

static const fl_op_case minus_cases[] = {
    { .in = { "f32[6,5]", "f32[6,5]" } },
    { .in = { "f32[0,5]", "f32[0,5]" } },
    { .in = { "f32[33]", "f32[33]" } },
    { .in = { "f32[5,2,3] lod=[0,2,2,5]", "f32[5,2,3]" } },
};

const fl_op fl_op_minus = {
    .name = "minus",
    .doc = "Out = X - Y, of the same shape",
    .in = { { "X", 0 }, { "Y", 0 } },
    .out = { { "Out", 0 } },
    .flags = FL_OP_SLICED,
    .infer = minus_infer,
    .run = minus_run,
    .back = minus_back,
    .cases = minus_cases,
    .n_cases = FL_LEN(minus_cases),
};
