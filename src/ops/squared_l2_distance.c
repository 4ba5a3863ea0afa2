/* squared_l2_distance.c - how far the rows of X are from those of Y, where Y
 * may have one row for all of X. Dimensions behind the first are one row. */
#include "kernel/vec.h"
#include "ops/helpers.h"

enum { X, Y };
enum { SUB_RESULT, OUT };

/* Rows of X and of Y, all of one width. */
typedef struct rows {
    const void *x, *y;
    size_t n, width;
    size_t y_step; /* 0: one row of Y for all */
} rows;

static fl_status distance_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    int64_t n = x->shape.dim[0];
    int64_t width = fl_shape_count(&x->shape, 1, x->shape.rank);

    FL_TRY(fl_infer_float(c, X));
    FL_TRY(fl_infer_same_dtype(c, X, Y));
    FL_TRY(fl_infer_rows_alike(c, X, Y));
    fl_infer_dense(c, SUB_RESULT, x->dtype, 2, (int64_t[]){ n, width });
    fl_tensor_like(fl_infer_out(c, OUT), x);
    fl_infer_out(c, OUT)->shape = fl_shape_of(2, (int64_t[]){ n, 1 });
    return FL_OK;
}

static rows rows_of(const fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X), *y = fl_in_t(c, Y);
    size_t width = (size_t)fl_shape_count(&x->shape, 1, x->shape.rank);

    return (rows){ .x = x->data,
                   .y = y->data,
                   .n = (size_t)x->shape.dim[0],
                   .width = width,
                   .y_step = y->shape.dim[0] == 1 ? 0 : width };
}

#define KERNELS(T, t)                                                            \
    static void forward_##t(const rows *r, fl_span s, T *sub, T *row, T *out)    \
    {                                                                            \
        const T *x = r->x, *y = r->y;                                            \
                                                                                 \
        for (size_t i = s.lo; i < s.hi; i++) {                                   \
            T *d = sub ? sub + i * r->width : row;                               \
                                                                                 \
            fl_vec_##t()->sub(d, x + i * r->width, y + i * r->y_step,            \
                              r->width);                                         \
            out[i] = (T)fl_vec_##t()->dot(d, d, r->width);                       \
        }                                                                        \
    }                                                                            \
    /* to = 2 sign g (x - y), row by row. */                                     \
    static void backward_##t(const rows *r, fl_span s, T sign, const T *g,       \
                             T *to)                                              \
    {                                                                            \
        const T *x = r->x, *y = r->y;                                            \
                                                                                 \
        for (size_t i = s.lo; i < s.hi; i++) {                                   \
            T *d = to + i * r->width;                                            \
                                                                                 \
            fl_vec_##t()->sub(d, x + i * r->width, y + i * r->y_step,            \
                              r->width);                                         \
            fl_vec_##t()->scale(d, 2 * sign * g[i], d, 0, r->width);             \
        }                                                                        \
    }                                                                            \
    /* The only row of Y hears of every row of X: columns s of its gradient.   \
     */ \
    static void shared_back_##t(const rows *r, fl_span s, const T *g, T *dy)     \
    {                                                                            \
        const T *x = r->x, *y = r->y;                                            \
                                                                                 \
        memset(dy + s.lo, 0, (s.hi - s.lo) * sizeof(T));                         \
        for (size_t i = 0; i < r->n; i++)                                        \
            for (size_t k = s.lo; k < s.hi; k++)                                 \
                dy[k] -= 2 * g[i] * (x[i * r->width + k] - y[k]);                \
    }
FL_FLOATS(KERNELS)

static fl_status distance_run(fl_op_ctx *c)
{
    rows r = rows_of(c);
    size_t bytes = fl_dtype_bytes(fl_in_t(c, X)->dtype);
    void *row = fl_scratch(c, (r.width + 1) * bytes);

    if (!row)
        return FL_NOMEM(c);
    FL_BY_FLOAT(c, X, forward, &r, fl_op_span(c, r.n), fl_out(c, SUB_RESULT),
                row, fl_out(c, OUT));
    return FL_OK;
}

static fl_status distance_back(fl_op_ctx *c)
{
    rows r = rows_of(c);
    const void *g = fl_dout(c, OUT);
    fl_span s = fl_op_span(c, r.n);

    if (!fl_dout_t(c, OUT)) {
        fl_din_zero(c, X);
        fl_din_zero(c, Y);
        return FL_OK;
    }
    if (fl_din_t(c, X))
        FL_BY_FLOAT(c, X, backward, &r, s, 1, g, fl_din(c, X));
    if (fl_din_t(c, Y) && r.y_step)
        FL_BY_FLOAT(c, X, backward, &r, s, -1, g, fl_din(c, Y));
    else if (fl_din_t(c, Y))
        FL_BY_FLOAT(c, X, shared_back, &r, fl_op_span(c, r.width), g,
                    fl_din(c, Y));
    return FL_OK;
}

static const fl_op_case distance_cases[] = {
    { .in = { "f32[6,7]", "f32[6,7]" } },
    { .in = { "f32[0,7]", "f32[0,7]" } },
    { .in = { "f32[33,5]", "f32[33,5]" } },
    { .in = { "f32[9,33]", "f32[1,33]" } },
    { .in = { "f32[0,5]", "f32[1,5]" } },
    { .in = { "f32[5,2,3] lod=[0,2,2,5]", "f32[1,2,3]" } },
};

const fl_op fl_op_squared_l2_distance = {
    .name = "squared_l2_distance",
    .doc = "Out[i] = |X[i] - Y[i]|^2, row by row, or with the one row that Y "
           "has; sub_result = X - Y",
    .in = { { "X", 0 }, { "Y", 0 } },
    .out = { { "sub_result", FL_OP_SLOT_BYPRODUCT }, { "Out", 0 } },
    .flags = FL_OP_SLICED,
    .infer = distance_infer,
    .run = distance_run,
    .back = distance_back,
    .back_uses = FL_USES_IN(X) | FL_USES_IN(Y),
    .cases = distance_cases,
    .n_cases = FL_LEN(distance_cases),
};
