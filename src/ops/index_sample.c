/* index_sample.c - numbers of each row by their places in it. */
#include <inttypes.h>

#include "ops/helpers.h"

enum { X, INDEX };
enum { OUT };

static fl_status index_sample_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    fl_shape shape = fl_infer_in(c, INDEX)->shape;
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_ids(c, INDEX));
    if (x->shape.rank != 2 || shape.rank != 2 ||
        (x->shape.dim[0] >= 0 && shape.dim[0] >= 0 &&
         x->shape.dim[0] != shape.dim[0]))
        FL_FAIL(FL_ERR_INVAL,
                "op index_sample: %s and %s must be [n, k] and [n, m]",
                fl_infer_text(c, X, a), fl_infer_text(c, INDEX, b));
    if (shape.dim[0] < 0)
        shape.dim[0] = x->shape.dim[0];
    fl_infer_dense(c, OUT, x->dtype, 2, shape.dim);
    return FL_OK;
}

static size_t width(const fl_tensor *t)
{
    return (size_t)t->shape.dim[1];
}

static fl_span rows_of(const fl_op_ctx *c)
{
    return fl_op_span(c, (size_t)fl_in_t(c, X)->shape.dim[0]);
}

static fl_status index_sample_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X), *index = fl_in_t(c, INDEX);
    size_t size = fl_dtype_bytes(x->dtype), m = width(index), k = width(x);
    fl_span rows = rows_of(c);

    for (size_t i = rows.lo * m; i < rows.hi * m; i++) {
        int64_t at = fl_id_at(index, (int64_t)i);

        if (at < 0 || (size_t)at >= k)
            FL_FAIL(FL_ERR_INVAL,
                    "Index: %" PRId64 " in row %zu is not in 0..%zu, the "
                    "places of a row of X",
                    at, i / m, k - 1);
        memcpy((char *)fl_out(c, OUT) + i * size,
               (const char *)x->data + (i / m * k + (size_t)at) * size, size);
    }
    return FL_OK;
}

#define KERNELS(T, t)                                                          \
    static void backward_##t(T *dx, const T *g, const fl_tensor *index,        \
                             size_t k, fl_span rows)                           \
    {                                                                          \
        size_t m = width(index);                                               \
                                                                               \
        for (size_t i = rows.lo * k; i < rows.hi * k; i++)                     \
            dx[i] = 0;                                                         \
        for (size_t i = rows.lo * m; g && i < rows.hi * m; i++)                \
            dx[i / m * k + (size_t)fl_id_at(index, (int64_t)i)] += g[i];       \
    }
FL_FLOATS(KERNELS)

static fl_status index_sample_back(fl_op_ctx *c)
{
    if (fl_din_t(c, X))
        FL_BY_FLOAT(c, X, backward, fl_din(c, X), fl_dout(c, OUT),
                    fl_in_t(c, INDEX), width(fl_in_t(c, X)), rows_of(c));
    return FL_OK;
}

static const fl_op_case index_sample_cases[] = {
    { .in = { "f32[33,7]", "i64[33,9] below=7" } },
    { .in = { "f32[5,4]", "i32[5,1] below=4" } },
    { .in = { "i64[5,4] below=9", "i64[5,2] below=4" } },
    { .in = { "f32[0,8]", "i64[0,2]" } },
    { .in = { "f32[4,8]", "i64[4,0]" } },
};

const fl_op fl_op_index_sample = {
    .name = "index_sample",
    .doc = "Out[i,j] = X[i, Index[i,j]]",
    .in = { { "X", 0 }, { "Index", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .flags = FL_OP_SLICED,
    .infer = index_sample_infer,
    .run = index_sample_run,
    .back = index_sample_back,
    .back_uses = FL_USES_IN(INDEX),
    .cases = index_sample_cases,
    .n_cases = FL_LEN(index_sample_cases),
};
