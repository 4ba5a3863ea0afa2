/* clip.c - numbers pushed into [min, max]. Rows + values are added up first,
 * since it is the whole gradient of a row that must not be too large. */
#include "ops/helpers.h"
#include "ops/rows.h"
#include "ops/values.h"

enum { X, MIN_TENSOR, MAX_TENSOR };
enum { OUT };
enum { MIN, MAX };

/* NaN stays NaN. The gradient reads y, not x: y is inside exactly where x is,
   and x may be gone. */
#define KERNELS(T, t)                                                          \
    static void forward_##t(T *y, const T *x, size_t n, T lo, T hi)            \
    {                                                                          \
        for (size_t i = 0; i < n; i++)                                         \
            y[i] = x[i] < lo ? lo : x[i] > hi ? hi : x[i];                     \
    }                                                                          \
    static void backward_##t(T *dx, const T *y, const T *g, size_t n, T lo,    \
                             T hi)                                             \
    {                                                                          \
        for (size_t i = 0; i < n; i++)                                         \
            dx[i] = y[i] > lo && y[i] < hi ? g[i] : 0;                         \
    }
FL_FLOATS(KERNELS)

static fl_status clip_infer(fl_infer *c)
{
    FL_TRY(fl_infer_number(c, MIN_TENSOR));
    FL_TRY(fl_infer_number(c, MAX_TENSOR));
    if (!fl_infer_in(c, MIN_TENSOR) && !fl_infer_in(c, MAX_TENSOR) &&
        !(fl_float(c, MIN) <= fl_float(c, MAX)))
        FL_FAIL(FL_ERR_INVAL, "op clip: min %g is above max %g",
                fl_float(c, MIN), fl_float(c, MAX));
    return fl_infer_same(c, X, OUT);
}

static double lowest(const fl_op_ctx *c)
{
    return fl_read_float(c, MIN_TENSOR, MIN);
}

static double highest(const fl_op_ctx *c)
{
    return fl_read_float(c, MAX_TENSOR, MAX);
}

static fl_status clip_run(fl_op_ctx *c)
{
    fl_tensor x = *fl_in_t(c, X), *out = fl_out_t(c, OUT);
    size_t n;

    if (x.kind == FL_KIND_ROWS) {
        FL_TRY(fl_rows_merge(c, &x, &x));
        out->shape = x.shape;
        fl_tensor_set_merged(out, true);
        n = (size_t)x.shape.dim[0];
        if (n && out->rows != x.rows)
            memcpy(out->rows, x.rows, n * sizeof(*x.rows));
    }
    n = (size_t)fl_tensor_numel(&x);
    FL_BY_DTYPE(x.dtype, forward, out->data, x.data, n, lowest(c), highest(c));
    return FL_OK;
}

static fl_status clip_back(fl_op_ctx *c)
{
    fl_tensor *dx = fl_din_t(c, X);

    if (!dx)
        return FL_OK;
    if (fl_dout_t(c, OUT))
        FL_BY_FLOAT(c, X, backward, dx->data, fl_saved_out(c, OUT),
                    fl_dout(c, OUT), (size_t)fl_tensor_numel(dx), lowest(c),
                    highest(c));
    else
        fl_share_zero(c, dx);
    return FL_OK;
}

static fl_status clip_back_infer(fl_infer *c)
{
    return fl_rows_no_grad(c, X);
}

static const fl_op_case clip_cases[] = {
    { .in = { "f32[33,7]" }, .attrs = "{min=-1, max=1.5}" },
    { .in = { "f32[1,25]" }, .attrs = "{min=0, max=1}" },
    { .in = { "f32[33,4] rows height=9" }, .attrs = "{min=-1, max=1}" },
    { .in = { "f32[33,7]", "f32[1] is=[-1]", "f32[1] is=[1]" } },
    { .in = { "f32[0,8]" }, .attrs = "{min=-1, max=1}" },
};

const fl_op fl_op_clip = {
    .name = "clip",
    .doc = "Out = min(max(X, min), max), element by element; the gradient is 0 "
           "at the limits, which Min and Max may give. Of rows + values equal "
           "rows are added up first",
    .in = { { "X", FL_OP_SLOT_ROWS },
            { "Min", FL_VALUE_SLOT },
            { "Max", FL_VALUE_SLOT } },
    .out = { { "Out", FL_OP_SLOT_ROWS } },
    .attrs = { { "min", FL_ATTR_FLOAT, "-1" }, { "max", FL_ATTR_FLOAT, "1" } },
    .flags = FL_OP_INPLACE,
    .infer = clip_infer,
    .run = clip_run,
    .back = clip_back,
    .back_uses = FL_USES_OUT(OUT),
    .back_infer = clip_back_infer,
    .cases = clip_cases,
    .n_cases = FL_LEN(clip_cases),
};
