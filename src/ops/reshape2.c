/* reshape2.c - the same numbers in another shape. */
#include "ops/helpers.h"

enum { X };
enum { OUT, XSHAPE };
enum { SHAPE };

static fl_status mismatch(const fl_infer *c)
{
    char buf[FL_SLOT_TEXT_MAX], text[FL_SHAPE_TEXT_MAX];
    fl_shape wanted;

    FL_TRY(fl_infer_shape(c, SHAPE, -1, &wanted));
    FL_FAIL(FL_ERR_INVAL, "op reshape2: %s does not fit into shape %s",
            fl_infer_text(c, X, buf), fl_shape_text(&wanted, text));
}

/* Fills in 0 (copied from X) and -1 (what is left). Copied dimensions stand
   on both sides and cancel out, so the rest may be known while the batch is
   not, and may be right while the batch is empty. */
static fl_status solve(const fl_infer *c, const fl_shape *x, fl_shape *out)
{
    fl_shape rest = *x;
    int64_t known = 1, left;
    int open = -1;

    FL_TRY(fl_infer_shape(c, SHAPE, -1, out));
    for (int i = 0; i < out->rank; i++) {
        if (out->dim[i] == 0) {
            if (i >= x->rank)
                return mismatch(c);
            out->dim[i] = x->dim[i];
            rest.dim[i] = 1;
        } else if (out->dim[i] > 0) {
            if (__builtin_mul_overflow(known, out->dim[i], &known))
                return mismatch(c);
        } else if (open >= 0) {
            FL_FAIL(FL_ERR_INVAL, "op reshape2: shape has more than one -1");
        } else {
            open = i;
        }
    }
    left = fl_shape_numel(&rest);
    if (left < 0)
        return FL_OK;
    if (open < 0 ? left != known : left % known != 0)
        return mismatch(c);
    if (open >= 0)
        out->dim[open] = left / known;
    return FL_OK;
}

/* Offsets stay when dimension 0 is that of X, whatever its size. */
static bool keeps_rows(const fl_infer *c, const fl_shape *x,
                       const fl_shape *out)
{
    int64_t width = fl_shape_count(x, 1, x->rank);
    size_t n;

    return fl_attr_ints(c->node, SHAPE, &n)[0] == 0 ||
           (width > 0 && width == fl_shape_count(out, 1, out->rank));
}

/* [0, dims of X]: a note of the old shape that carries no data. */
static fl_status infer_xshape(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    char buf[FL_SLOT_TEXT_MAX];
    int64_t dims[FL_RANK_MAX] = { 0 };

    if (!fl_infer_out(c, XSHAPE))
        return FL_OK;
    if (x->shape.rank == FL_RANK_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "op reshape2: %s has too many dimensions for XShape",
                fl_infer_text(c, X, buf));
    for (int i = 0; i < x->shape.rank; i++)
        dims[i + 1] = x->shape.dim[i];
    fl_infer_dense(c, XSHAPE, x->dtype, x->shape.rank + 1, dims);
    return FL_OK;
}

static fl_status reshape2_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    fl_shape shape;

    FL_TRY(solve(c, &x->shape, &shape));
    fl_tensor_like(fl_infer_out(c, OUT), x);
    fl_infer_out(c, OUT)->shape = shape;
    if (!keeps_rows(c, &x->shape, &shape))
        fl_infer_dense(c, OUT, x->dtype, shape.rank, shape.dim);
    return infer_xshape(c);
}

static fl_status reshape2_run(fl_op_ctx *c)
{
    fl_share_copy(c, fl_out_t(c, OUT), fl_in_t(c, X));
    return FL_OK;
}

static fl_status reshape2_back(fl_op_ctx *c)
{
    if (fl_din_t(c, X))
        fl_share_copy(c, fl_din_t(c, X), fl_dout_t(c, OUT));
    return FL_OK;
}

static const fl_op_case reshape2_cases[] = {
    { .in = { "f32[6,6]" }, .attrs = "{shape=[-1,3]}" },
    { .in = { "f32[12,7]" }, .attrs = "{shape=[6,2,7,1]}" },
    { .in = { "f32[33,4,5]" }, .attrs = "{shape=[0,-1]}" },
    { .in = { "i64[6,2] below=9" }, .attrs = "{shape=[3,4]}" },
    { .in = { "f32[7,4] lod=[0,2,2,7]" }, .attrs = "{shape=[-1,2,2]}" },
    { .in = { "f32[0,8]" }, .attrs = "{shape=[-1,4]}" },
    { .in = { "f32[0,8]" }, .attrs = "{shape=[0,4,-1]}" },
};

const fl_op fl_op_reshape2 = {
    .name = "reshape2",
    .doc = "Out = X in another shape: 0 copies the dimension of X, one -1 "
           "takes what is left; XShape is [0, dims of X] and holds no numbers",
    .in = { { "X", 0 } },
    .out = { { "Out", 0 }, { "XShape", FL_OP_SLOT_BYPRODUCT } },
    .attrs = { { "shape", FL_ATTR_INTS, "[]" } },
    .flags = FL_OP_INPLACE | FL_OP_SLICED,
    .infer = reshape2_infer,
    .run = reshape2_run,
    .back = reshape2_back,
    .cases = reshape2_cases,
    .n_cases = FL_LEN(reshape2_cases),
};
