/* tril_triu.c - the lower or the upper part of each matrix, 0 elsewhere. */
#include "ops/helpers.h"

enum { X };
enum { OUT };
enum { DIAGONAL, LOWER };

static fl_status tril_triu_infer(fl_infer *c)
{
    char buf[FL_SLOT_TEXT_MAX];

    if (fl_infer_in(c, X)->shape.rank < 2)
        FL_FAIL(FL_ERR_INVAL, "op tril_triu: %s must have two dimensions",
                fl_infer_text(c, X, buf));
    fl_tensor_like(fl_infer_out(c, OUT), fl_infer_in(c, X));
    return FL_OK;
}

/* Places [lo, hi) of row r of a matrix that stay. */
static fl_span kept(const fl_op_ctx *c, size_t r, size_t columns)
{
    int64_t border = (int64_t)r + fl_int(c, DIAGONAL) + fl_bool(c, LOWER);
    size_t at = border < 0                   ? 0
                : (uint64_t)border > columns ? columns
                                             : (size_t)border;

    return fl_bool(c, LOWER) ? (fl_span){ 0, at } : (fl_span){ at, columns };
}

static void keep(const fl_op_ctx *c, const fl_tensor *from, fl_tensor *to)
{
    int rank = to->shape.rank;
    size_t rows = (size_t)to->shape.dim[rank - 2];
    size_t columns = (size_t)to->shape.dim[rank - 1];
    size_t size = fl_dtype_bytes(to->dtype), bytes = columns * size;
    fl_span s = fl_op_span(
        c, bytes ? (size_t)fl_shape_count(&to->shape, 0, rank - 1) : 0);

    for (size_t r = s.lo; r < s.hi; r++) {
        fl_span k = kept(c, r % rows, columns);
        char *row = (char *)to->data + r * bytes;

        memset(row, 0, bytes);
        memcpy(row + k.lo * size,
               (const char *)from->data + r * bytes + k.lo * size,
               (k.hi - k.lo) * size);
    }
}

static fl_status tril_triu_run(fl_op_ctx *c)
{
    keep(c, fl_in_t(c, X), fl_out_t(c, OUT));
    return FL_OK;
}

static fl_status tril_triu_back(fl_op_ctx *c)
{
    if (fl_din_t(c, X) && fl_dout_t(c, OUT))
        keep(c, fl_dout_t(c, OUT), fl_din_t(c, X));
    else
        fl_din_zero(c, X);
    return FL_OK;
}

static const fl_op_case tril_triu_cases[] = {
    { .in = { "f32[33,7]" }, .attrs = "{lower=true}" },
    { .in = { "f32[33,7]" }, .attrs = "{lower=false, diagonal=-2}" },
    { .in = { "f32[3,4,5]" }, .attrs = "{lower=true, diagonal=2}" },
    { .in = { "f32[4,4]" }, .attrs = "{lower=false, diagonal=9}" },
    { .in = { "i64[5,4] below=9" }, .attrs = "{lower=true, diagonal=-9}" },
    { .in = { "f32[0,8]" }, .attrs = "{lower=true}" },
};

const fl_op fl_op_tril_triu = {
    .name = "tril_triu",
    .doc = "Out = X on and below the diagonal of its last two axes (lower), or "
           "on and above it, 0 elsewhere; diagonal moves it to the right",
    .in = { { "X", 0 } },
    .out = { { "Out", 0 } },
    .attrs = { { "diagonal", FL_ATTR_INT, "0" },
               { "lower", FL_ATTR_BOOL, "false" } },
    .flags = FL_OP_SLICED,
    .infer = tril_triu_infer,
    .run = tril_triu_run,
    .back = tril_triu_back,
    .cases = tril_triu_cases,
    .n_cases = FL_LEN(tril_triu_cases),
};
