/* dot.c - products of vectors, one for each row. */
#include "kernel/vec.h"
#include "ops/helpers.h"

enum { X, Y };
enum { OUT };

static fl_status dot_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X), *y = fl_infer_in(c, Y);
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_float(c, X));
    FL_TRY(fl_infer_same_dtype(c, X, Y));
    if (x->shape.rank > 2 || !fl_shape_matches(&x->shape, &y->shape))
        FL_FAIL(FL_ERR_INVAL,
                "op dot: %s and %s must both be [k] or both be [n, k]",
                fl_infer_text(c, X, a), fl_infer_text(c, Y, b));
    if (x->shape.rank == 1)
        fl_infer_dense(c, OUT, x->dtype, 1, (int64_t[]){ 1 });
    else
        fl_infer_dense(c, OUT, x->dtype, 2, (int64_t[]){ x->shape.dim[0], 1 });
    return FL_OK;
}

#define KERNELS(T, t)                                                          \
    static void forward_##t(T *out, const T *x, const T *y, size_t n,          \
                            fl_span rows)                                      \
    {                                                                          \
        for (size_t i = rows.lo; i < rows.hi; i++)                             \
            out[i] = (T)fl_vec_##t()->dot(x + i * n, y + i * n, n);            \
    }                                                                          \
    static void backward_##t(T *d, const T *other, const T *g, size_t n,       \
                             fl_span rows)                                     \
    {                                                                          \
        for (size_t i = rows.lo; i < rows.hi; i++)                             \
            fl_vec_##t()->scale(d + i * n, g[i], other + i * n, 0, n);         \
    }
FL_FLOATS(KERNELS)

static size_t width(const fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;

    return (size_t)x->dim[x->rank - 1];
}

static fl_span rows_of(const fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;

    return fl_op_span(c, (size_t)fl_shape_count(x, 0, x->rank - 1));
}

static fl_status dot_run(fl_op_ctx *c)
{
    FL_BY_FLOAT(c, X, forward, fl_out(c, OUT), fl_in(c, X), fl_in(c, Y),
                width(c), rows_of(c));
    return FL_OK;
}

static fl_status dot_back(fl_op_ctx *c)
{
    for (int slot = X; slot <= Y; slot++)
        if (fl_din_t(c, slot) && fl_dout_t(c, OUT))
            FL_BY_FLOAT(c, X, backward, fl_din(c, slot),
                        fl_in(c, slot == X ? Y : X), fl_dout(c, OUT), width(c),
                        rows_of(c));
        else
            fl_din_zero(c, slot);
    return FL_OK;
}

static const fl_op_case dot_cases[] = {
    { .in = { "f32[33,7]", "f32[33,7]" } },
    { .in = { "f32[9]", "f32[9]" } },
    { .in = { "f32[0,8]", "f32[0,8]" } },
};

const fl_op fl_op_dot = {
    .name = "dot",
    .doc = "Out = the sum of X Y, for each row where there are rows",
    .in = { { "X", 0 }, { "Y", 0 } },
    .out = { { "Out", 0 } },
    .flags = FL_OP_SLICED,
    .infer = dot_infer,
    .run = dot_run,
    .back = dot_back,
    .back_uses = FL_USES_IN(X) | FL_USES_IN(Y),
    .cases = dot_cases,
    .n_cases = FL_LEN(dot_cases),
};
