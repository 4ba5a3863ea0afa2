/* reshape2.c - the same numbers in another shape. */
#include "ops/reshape.h"

#include "ops/helpers.h"
#include "ops/values.h"

enum { X, SHAPE_IN, SHAPE_TENSOR };
enum { OUT = FL_RESHAPE_OUT, XSHAPE = FL_RESHAPE_XSHAPE };
enum { SHAPE };

static fl_status mismatch(const fl_infer *c, const fl_ints *wanted)
{
    fl_shape shape = fl_shape_of(wanted->n, wanted->at);
    char buf[FL_SLOT_TEXT_MAX], text[FL_SHAPE_TEXT_MAX];

    FL_FAIL(FL_ERR_INVAL, "op reshape2: %s does not fit into shape %s",
            fl_infer_text(c, X, buf), fl_shape_text(&shape, text));
}

/* While a tensor is still to say the shape, a 0 or -1 in it may be anything:
   only what is known of it is promised. */
static bool promise(const fl_ints *wanted, const fl_shape *x, fl_shape *out)
{
    bool all = true;

    for (int i = 0; i < wanted->n; i++) {
        all = all && wanted->known[i];
        out->dim[i] = wanted->at[i];
        if (wanted->at[i] == 0)
            out->dim[i] = i < x->rank ? x->dim[i] : -1;
    }
    return !all;
}

/* Fills in 0 (copied from X) and -1 (what is left). Copied dimensions stand
   on both sides and cancel out, so the rest may be known while the batch is
   not, and may be right while the batch is empty. */
static fl_status solve(const fl_infer *c, const fl_shape *x,
                       const fl_ints *wanted, fl_shape *out)
{
    fl_shape rest = *x;
    int64_t known = 1, left;
    int open = -1;

    for (int i = 0; i < wanted->n; i++) {
        if (wanted->at[i] == 0) {
            if (i >= x->rank)
                return mismatch(c, wanted);
            rest.dim[i] = 1;
        } else if (wanted->at[i] > 0) {
            if (__builtin_mul_overflow(known, wanted->at[i], &known))
                return mismatch(c, wanted);
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
        return mismatch(c, wanted);
    if (open >= 0)
        out->dim[open] = left / known;
    return FL_OK;
}

/* Offsets stay when dimension 0 is that of X, whatever its size. */
static fl_row_kind row_kind(const fl_ints *wanted, const fl_shape *x,
                            const fl_shape *out)
{
    int64_t width = fl_shape_count(x, 1, x->rank);

    if (wanted->at[0] == 0 ||
        (width > 0 && width == fl_shape_count(out, 1, out->rank)))
        return FL_ROWS_STAY;
    return FL_ROWS_CHANGE;
}

/* XShape, [0, dims of X]: a note of the old shape that holds no numbers. */
static fl_status infer_xshape(const fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    char buf[FL_SLOT_TEXT_MAX];
    int64_t dims[FL_RANK_MAX] = { 0 };

    if (!fl_infer_out(c, XSHAPE))
        return FL_OK;
    if (x->shape.rank == FL_RANK_MAX)
        FL_FAIL(FL_ERR_INVAL, "op %s: %s has too many dimensions for XShape",
                c->node->def->name, fl_infer_text(c, X, buf));
    for (int i = 0; i < x->shape.rank; i++)
        dims[i + 1] = x->shape.dim[i];
    fl_infer_dense(c, XSHAPE, x->dtype, x->shape.rank + 1, dims);
    return FL_OK;
}

fl_status fl_infer_reshaped(const fl_infer *c, const fl_shape *shape,
                            fl_row_kind rows)
{
    const fl_tensor *x = fl_infer_in(c, X);

    if (rows == FL_ROWS_STAY) {
        fl_tensor_like(fl_infer_out(c, OUT), x);
        fl_infer_out(c, OUT)->shape = *shape;
    } else {
        fl_infer_dense(c, OUT, x->dtype, shape->rank, shape->dim);
    }
    return infer_xshape(c);
}

static fl_status reshape2_infer(fl_infer *c)
{
    static const fl_ints_from from = { SHAPE_IN, SHAPE_TENSOR, SHAPE };
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    fl_shape shape;
    fl_ints wanted;

    FL_TRY(fl_infer_dims(c, &from, -1, &shape));
    FL_TRY(fl_infer_ints(c, &from, &wanted));
    if (!promise(&wanted, x, &shape))
        FL_TRY(solve(c, x, &wanted, &shape));
    return fl_infer_reshaped(c, &shape, row_kind(&wanted, x, &shape));
}

fl_status fl_reshape_run(fl_op_ctx *c)
{
    fl_share_copy(c, fl_out_t(c, OUT), fl_in_t(c, X));
    return FL_OK;
}

fl_status fl_reshape_back(fl_op_ctx *c)
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
    { .in = { "f32[6,6]", "i32[2] is=[-1,9]" } },
    { .in = { "f32[6,6]", "", "i32[1] is=[9];i64[1] is=[4]" },
      .attrs = "{shape=[-1,4]}" },
};

/* reshape is the older form, which programs give no XShape. */
#define RESHAPE(op)                                                            \
    const fl_op fl_op_##op = {                                                 \
        .name = #op,                                                           \
        .doc =                                                                 \
            "Out = X in another shape: 0 copies the dimension of X, one -1 "   \
            "takes what is left; XShape is [0, dims of X] and holds no "       \
            "numbers. "                                                        \
            "Shape or the list ShapeTensor give the shape instead of shape",   \
        .in = { { "X", 0 },                                                    \
                { "Shape", FL_VALUE_SLOT },                                    \
                { "ShapeTensor", FL_VALUE_LIST } },                            \
        .out = { { "Out", 0 }, { "XShape", FL_OP_SLOT_BYPRODUCT } },           \
        .attrs = { { "shape", FL_ATTR_INTS, "[]" } },                          \
        .flags = FL_OP_INPLACE | FL_OP_SLICED,                                 \
        .infer = reshape2_infer,                                               \
        .run = fl_reshape_run,                                                 \
        .back = fl_reshape_back,                                               \
        .cases = reshape2_cases,                                               \
        .n_cases = FL_LEN(reshape2_cases),                                     \
    };
RESHAPE(reshape2)
RESHAPE(reshape)
