/* sequence_mask.c - lengths to rows of ones, then zeros. */
#include "ops/helpers.h"
#include "ops/kit.h"
#include "ops/values.h"

enum { X, MAX_LEN_TENSOR };
enum { Y };
enum { MAXLEN, OUT_DTYPE };

static int64_t largest(const fl_tensor *x)
{
    int64_t most = 0;

    for (int64_t i = 0; i < fl_tensor_numel(x); i++)
        most = fl_id_at(x, i) > most ? fl_id_at(x, i) : most;
    return most;
}

/* Columns of Y: as given, or the largest length; -1 while it is not known. */
static fl_status mask_width(const fl_infer *c, int64_t *out)
{
    const fl_tensor *given = fl_infer_in(c, MAX_LEN_TENSOR);
    int64_t width = given ? -1 : fl_int(c, MAXLEN);
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_ids(c, MAX_LEN_TENSOR));
    if (given && c->running && fl_tensor_numel(given) != 1)
        FL_FAIL(FL_ERR_INVAL, "op sequence_mask: %s must be one number",
                fl_infer_text(c, MAX_LEN_TENSOR, buf));
    if (given && c->running)
        width = fl_id_at(given, 0);
    if (width < -1)
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_mask: %s=%lld is neither a number of columns nor "
                "-1, which stands for the largest number of X",
                given ? "MaxLenTensor" : "maxlen", (long long)width);
    *out = width == -1 && c->running ? largest(fl_infer_in(c, X)) : width;
    return FL_OK;
}

static fl_status sequence_mask_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    fl_shape shape = x->shape;
    char buf[FL_SLOT_TEXT_MAX];
    fl_dtype dtype;

    FL_TRY(fl_infer_ids(c, X));
    FL_TRY(fl_infer_dtype(c, OUT_DTYPE, &dtype));
    if (dtype == FL_DTYPE_F16)
        FL_FAIL(FL_ERR_TYPE, "op sequence_mask: out_dtype float16 is not "
                             "possible; cast what it gives");
    if (shape.rank >= FL_RANK_MAX)
        FL_FAIL(FL_ERR_INVAL, "op sequence_mask: %s has too many dimensions",
                fl_infer_text(c, X, buf));
    FL_TRY(mask_width(c, &shape.dim[shape.rank++]));
    fl_infer_dense(c, Y, dtype, shape.rank, shape.dim);
    return FL_OK;
}

#define MASK(name, value, T, text, long_text)                                  \
    static void mask_##name(const fl_tensor *x, void *out, fl_span rows,       \
                            size_t width)                                      \
    {                                                                          \
        typedef T type;                                                        \
        type *y = (type *)out + rows.lo * width;                               \
                                                                               \
        for (size_t i = rows.lo; i < rows.hi; i++, y += width) {               \
            int64_t n = fl_id_at(x, (int64_t)i);                               \
                                                                               \
            for (size_t k = 0; k < width; k++)                                 \
                y[k] = (type)((int64_t)k < n);                                 \
        }                                                                      \
    }
FL_DTYPE_PLAIN_MAP(MASK)
#undef MASK

static fl_status sequence_mask_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X);
    fl_tensor *y = fl_out_t(c, Y);
    fl_span rows = fl_op_span(c, (size_t)fl_tensor_numel(x));
    size_t width = (size_t)y->shape.dim[y->shape.rank - 1];

    switch (y->dtype) {
#define MASK(name, value, T, text, long_text)                                  \
    case FL_DTYPE_##name:                                                      \
        mask_##name(x, y->data, rows, width);                                  \
        break;
        FL_DTYPE_PLAIN_MAP(MASK)
#undef MASK
    case FL_DTYPE_F16: /* infer has refused it */
        break;
    }
    return FL_OK;
}

static const fl_op_case sequence_mask_cases[] = {
    { .in = { "i64[5] below=4" } },
    { .in = { "i64[5,1] below=4" }, .attrs = "{maxlen=3, out_dtype=float32}" },
    { .in = { "i32[2,3] below=9" }, .attrs = "{maxlen=4, out_dtype=i32}" },
    { .in = { "i64[4] below=4", "i64[1] below=3" }, .attrs = "{out_dtype=u8}" },
    { .in = { "i64[1] below=1" } },
    { .in = { "i64[0]" }, .attrs = "{out_dtype=float64}" },
    { .in = { "i64[33] below=4" }, .attrs = "{maxlen=2}" },
};

const fl_op fl_op_sequence_mask = {
    .name = "sequence_mask",
    .doc = "Y[..., k] = 1 where k < X[...], else 0, as out_dtype; k goes up to "
           "MaxLenTensor or maxlen, -1: the largest number of X",
    .in = { { "X", FL_SLOT_NO_GRAD | FL_OP_SLOT_VALUE },
            { "MaxLenTensor", FL_VALUE_SLOT } },
    .out = { { "Y", FL_SLOT_NO_GRAD } },
    .attrs = { { "maxlen", FL_ATTR_INT, "-1" },
               { "out_dtype", FL_ATTR_STRING, "int64" } },
    .flags = FL_OP_SLICED,
    .infer = sequence_mask_infer,
    .run = sequence_mask_run,
    .cases = sequence_mask_cases,
    .n_cases = FL_LEN(sequence_mask_cases),
};
