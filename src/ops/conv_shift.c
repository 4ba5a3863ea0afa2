/* conv_shift.c - each row of X folded with a short row of Y, round in a circle. */
#include "ops/helpers.h"

enum { X, Y };
enum { OUT };

static fl_status conv_shift_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X), *y = fl_infer_in(c, Y);
    int64_t width = y->shape.rank == 2 ? y->shape.dim[1] : 0;
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];
    fl_shape rows = x->shape;

    FL_TRY(fl_infer_float(c, X));
    FL_TRY(fl_infer_same_dtype(c, X, Y));
    rows.dim[1] = -1;
    if (x->shape.rank != 2 || !fl_shape_matches(&rows, &y->shape))
        FL_FAIL(FL_ERR_INVAL,
                "op conv_shift: %s and %s must be matrices of as many rows",
                fl_infer_text(c, X, a), fl_infer_text(c, Y, b));
    if ((width >= 0 && width % 2 != 1) ||
        (x->shape.dim[1] >= 0 && width > x->shape.dim[1]))
        FL_FAIL(FL_ERR_INVAL,
                "op conv_shift: rows of %s must have an odd length, and not be "
                "longer than those of %s",
                fl_infer_text(c, Y, a), fl_infer_text(c, X, b));
    fl_tensor_like(fl_infer_out(c, OUT), x);
    return FL_OK;
}

/* The place of X that weight k meets at place i of Out. */
static size_t met(size_t i, size_t k, size_t m, size_t n)
{
    return (i + k + m - n / 2) % m;
}

#define KERNELS(T, t)                                                          \
    static void forward_##t(T *out, const T *x, const T *y, size_t m,          \
                            size_t n)                                          \
    {                                                                          \
        for (size_t i = 0; i < m; i++) {                                       \
            double sum = 0;                                                    \
                                                                               \
            for (size_t k = 0; k < n; k++)                                     \
                sum += (double)x[met(i, k, m, n)] * (double)y[k];              \
            out[i] = (T)sum;                                                   \
        }                                                                      \
    }                                                                          \
    /* d[met] += g other[k], or d[k] += g other[met]. */                       \
    static void back_x_##t(T *dx, const T *g, const T *y, size_t m, size_t n)  \
    {                                                                          \
        for (size_t i = 0; i < m * n; i++)                                     \
            dx[met(i / n, i % n, m, n)] += g[i / n] * y[i % n];                \
    }                                                                          \
    static void back_y_##t(T *dy, const T *g, const T *x, size_t m, size_t n)  \
    {                                                                          \
        for (size_t i = 0; i < m * n; i++)                                     \
            dy[i % n] += g[i / n] * x[met(i / n, i % n, m, n)];                \
    }                                                                          \
    static void run_##t(const fl_op_ctx *c, size_t m, size_t n, fl_span s)     \
    {                                                                          \
        const T *x = fl_in(c, X), *y = fl_in(c, Y);                            \
        T *out = fl_out(c, OUT);                                               \
                                                                               \
        for (size_t r = s.lo; r < s.hi; r++)                                   \
            forward_##t(out + r * m, x + r * m, y + r * n, m, n);              \
    }                                                                          \
    static void back_##t(const fl_op_ctx *c, size_t m, size_t n, size_t rows)  \
    {                                                                          \
        const T *x = fl_in(c, X), *y = fl_in(c, Y), *g = fl_dout(c, OUT);      \
        T *dx = fl_din(c, X), *dy = fl_din(c, Y);                              \
                                                                               \
        for (size_t r = 0; r < rows; r++, g += m) {                            \
            if (dx)                                                            \
                back_x_##t(dx + r * m, g, y + r * n, m, n);                    \
            if (dy)                                                            \
                back_y_##t(dy + r * n, g, x + r * m, m, n);                    \
        }                                                                      \
    }
FL_FLOATS(KERNELS)

static fl_status conv_shift_run(fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, X)->shape, *y = &fl_in_t(c, Y)->shape;

    FL_BY_FLOAT(c, X, run, c, (size_t)x->dim[1], (size_t)y->dim[1],
                (fl_span){ 0, (size_t)x->dim[0] });
    return FL_OK;
}

static fl_status conv_shift_back(fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, X)->shape, *y = &fl_in_t(c, Y)->shape;

    fl_din_zero(c, X);
    fl_din_zero(c, Y);
    if (fl_dout_t(c, OUT))
        FL_BY_FLOAT(c, X, back, c, (size_t)x->dim[1], (size_t)y->dim[1],
                    (size_t)x->dim[0]);
    return FL_OK;
}

static const fl_op_case conv_shift_cases[] = {
    { .in = { "f32[4,17]", "f32[4,3]" } },
    { .in = { "f32[2,5]", "f32[2,5]" } },
    { .in = { "f32[0,8]", "f32[0,3]" } },
};

const fl_op fl_op_conv_shift = {
    .name = "conv_shift",
    .doc = "Out[r, i] = the sum over k of X[r, i + k - (n - 1) / 2] Y[r, k], "
           "where places of X go round and rows of Y have n numbers, an odd "
           "number",
    .in = { { "X", 0 }, { "Y", 0 } },
    .out = { { "Out", 0 } },
    .infer = conv_shift_infer,
    .run = conv_shift_run,
    .back = conv_shift_back,
    .back_uses = FL_USES_IN(X) | FL_USES_IN(Y),
    .cases = conv_shift_cases,
    .n_cases = FL_LEN(conv_shift_cases),
};
