/* mul.c - the product of two tensors seen as matrices.
 *
 * X is a matrix of m rows by joining its first x_num_col_dims dimensions, Y
 * one of k rows in the same way. Shares take blocks of rows of Out and of both
 * gradients (kernel/gemm.h says why blocks).
 */
#include "kernel/gemm.h"
#include "kernel/gemm_bf16.h"
#include "ops/helpers.h"
#include "ops/kit.h"
#include "ops/products_bf16.h"

enum { X, Y };
enum { OUT, ROUNDED };
enum { X_COL_DIMS, Y_COL_DIMS, PRECISION };

#define KERNELS(T, t)                                                          \
    static void forward_##t(const fl_op_ctx *c, const fl_product *z,           \
                            const T *x, const T *y, T *out)                    \
    {                                                                          \
        fl_span r = fl_op_blocks(c, (size_t)z->m, FL_GEMM_BLOCK);              \
        fl_gemm_shape s = { .ta = FL_NO_TRANS,                                 \
                            .tb = FL_NO_TRANS,                                 \
                            .m = z->m,                                         \
                            .n = z->n,                                         \
                            .k = z->k,                                         \
                            .lda = z->k,                                       \
                            .ldb = z->n,                                       \
                            .ldc = z->n };                                     \
                                                                               \
        fl_gemm_rows_##t(&s, (int64_t)r.lo, (int64_t)r.hi, x, y, out);         \
    }
FL_FLOATS(KERNELS)

static fl_status check_col_dims(const fl_infer *c, int slot, int attr)
{
    int64_t cols = fl_int(c, attr);
    char buf[FL_SLOT_TEXT_MAX];

    if (cols < 1 || cols >= fl_infer_in(c, slot)->shape.rank)
        FL_FAIL(FL_ERR_INVAL,
                "op mul: %s=%lld must leave %s at least one dimension on "
                "either side",
                c->node->def->attrs[attr].name, (long long)cols,
                fl_infer_text(c, slot, buf));
    return FL_OK;
}

static fl_status mul_infer(fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    const fl_shape *y = &fl_infer_in(c, Y)->shape;
    int xc = (int)fl_int(c, X_COL_DIMS);
    int yc = (int)fl_int(c, Y_COL_DIMS);
    char tx[FL_SLOT_TEXT_MAX], ty[FL_SLOT_TEXT_MAX];
    fl_tensor *out = fl_infer_out(c, OUT);
    int64_t kx, ky;

    FL_TRY(fl_infer_float(c, X));
    FL_TRY(fl_infer_same_dtype(c, X, Y));
    FL_TRY(check_col_dims(c, X, X_COL_DIMS));
    FL_TRY(check_col_dims(c, Y, Y_COL_DIMS));
    kx = fl_shape_count(x, xc, x->rank);
    ky = fl_shape_count(y, 0, yc);
    if (kx >= 0 && ky >= 0 && kx != ky)
        FL_FAIL(FL_ERR_INVAL,
                "op mul: %s has %lld columns after x_num_col_dims=%d, but %s "
                "has %lld rows",
                fl_infer_text(c, X, tx), (long long)kx, xc,
                fl_infer_text(c, Y, ty), (long long)ky);
    if (xc + y->rank - yc > FL_RANK_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "op mul: the product of %s and %s has more than %d dimensions",
                fl_infer_text(c, X, tx), fl_infer_text(c, Y, ty), FL_RANK_MAX);
    FL_TRY(fl_product_check_precision(c, PRECISION));
    fl_product_infer_rounded(
        c, ROUNDED,
        fl_product_is_bf16(c->node, PRECISION, fl_infer_in(c, X)->dtype),
        &(fl_product){ .m = fl_shape_count(x, 0, xc), .k = kx }, 0);
    fl_tensor_like(out, fl_infer_in(c, X));
    out->shape.rank = xc + y->rank - yc;
    for (int i = yc; i < y->rank; i++)
        out->shape.dim[xc + i - yc] = y->dim[i];
    return FL_OK;
}

static fl_product size_of(const fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;
    const fl_shape *y = &fl_in_t(c, Y)->shape;
    int xc = (int)fl_int(c, X_COL_DIMS);
    int yc = (int)fl_int(c, Y_COL_DIMS);

    return (fl_product){ .m = fl_shape_count(x, 0, xc),
                         .k = fl_shape_count(x, xc, x->rank),
                         .n = fl_shape_count(y, yc, y->rank) };
}

static bool is_bf16(const fl_op_ctx *c, const fl_product *z)
{
    return fl_product_is_bf16(c->node, PRECISION, fl_in_t(c, X)->dtype) &&
           z->m > 0 && z->n > 0 && z->k > 0;
}

static fl_status forward_bf16(fl_op_ctx *c, const fl_product *z)
{
    const fl_product_bf16 p = { .size = *z,
                                .x = fl_in(c, X),
                                .w = fl_in(c, Y),
                                .rounded = fl_out(c, ROUNDED),
                                .out = fl_out(c, OUT) };

    return fl_product_bf16_run(c, &p);
}

/* A part of the gradient of Out. */
static void round_rows(const void *arg, size_t row, size_t rows, uint16_t *to)
{
    const fl_op_ctx *c = arg;
    size_t n = (size_t)size_of(c).n;

    fl_bf16_way_here()->narrow(to, (const float *)fl_dout(c, OUT) + row * n,
                               rows * n);
}

static fl_status backward_bf16(fl_op_ctx *c, const fl_product *z)
{
    const fl_product_bf16_back p = { .size = *z,
                                     .x = fl_in(c, X),
                                     .w = fl_in(c, Y),
                                     .rounded = fl_saved_out(c, ROUNDED),
                                     .round = round_rows,
                                     .arg = c,
                                     .dx = fl_din(c, X),
                                     .dw = fl_din(c, Y) };

    return fl_product_bf16_back_run(c, &p);
}

static fl_status mul_run(fl_op_ctx *c)
{
    fl_product z = size_of(c);

    if (is_bf16(c, &z))
        return forward_bf16(c, &z);
    FL_BY_FLOAT(c, X, forward, c, &z, fl_in(c, X), fl_in(c, Y), fl_out(c, OUT));
    return FL_OK;
}

static fl_status mul_back(fl_op_ctx *c)
{
    fl_product z = size_of(c);

    if (!fl_dout_t(c, OUT)) {
        fl_din_zero(c, X);
        fl_din_zero(c, Y);
        return FL_OK;
    }
    if (is_bf16(c, &z))
        return backward_bf16(c, &z);
    FL_BY_FLOAT(c, X, fl_product_back, c, &z, fl_in(c, X), fl_in(c, Y),
                fl_dout(c, OUT), fl_din(c, X), fl_din(c, Y));
    return FL_OK;
}

static unsigned mul_back_reads(const fl_op_node *n)
{
    return fl_product_back_input(n, ROUNDED, PRECISION) | FL_USES_IN(Y);
}

static const fl_op_case mul_cases[] = {
    { .in = { "f32[6,7]", "f32[7,5]" } },
    { .in = { "f32[0,7]", "f32[7,5]" } },
    { .in = { "f32[5,0]", "f32[0,3]" } },
    { .in = { "f32[33,7]", "f32[7,1]" } },
    { .in = { "f32[1,33]", "f32[33,3]" } },
    { .in = { "f32[6,3,4]", "f32[12,5]" } },
    { .in = { "f32[3,4,5]", "f32[5,7]" }, .attrs = "{x_num_col_dims=2}" },
    { .in = { "f32[4,6]", "f32[2,3,5]" }, .attrs = "{y_num_col_dims=2}" },
    { .in = { "f32[4,3] lod=[0,1,1,4]", "f32[3,2]" } },
    { .in = { "f32[300,140]", "f32[140,9]" } }, /* several blocks of rows */
    { .in = { "f32[150,20]", "f32[20,17]" },
      .attrs = "{precision=bf16}",
      .flags = FL_CASE_UNIT | FL_CASE_ROUNDED },
    { .in = { "f32[5,3,4]", "f32[12,5]" },
      .attrs = "{precision=bf16}",
      .flags = FL_CASE_ROUNDED },
    { .in = { "f32[0,7]", "f32[7,5]" },
      .attrs = "{precision=bf16}",
      .flags = FL_CASE_ROUNDED },
};

const fl_op fl_op_mul = {
    .name = "mul",
    .doc = "Out = X Y as matrices: X has the product of its first "
           "x_num_col_dims dimensions as rows, Y of its first y_num_col_dims; "
           "Out keeps X's offsets; with precision=bf16 operands of f32 are "
           "rounded to it, and Rounded keeps those of X for the gradient",
    .in = { { "X", 0 }, { "Y", 0 } },
    .out = { { "Out", 0 }, { "Rounded", FL_OP_SLOT_BYPRODUCT } },
    .attrs = { { "x_num_col_dims", FL_ATTR_INT, "1" },
               { "y_num_col_dims", FL_ATTR_INT, "1" },
               { "precision", FL_ATTR_STRING, "" } },
    .flags = FL_OP_SLICED | FL_OP_BY_FORM,
    .infer = mul_infer,
    .run = mul_run,
    .back = mul_back,
    .back_uses = FL_USES_IN(X) | FL_USES_IN(Y) | FL_USES_OUT(ROUNDED),
    .back_reads = mul_back_reads,
    .cases = mul_cases,
    .n_cases = FL_LEN(mul_cases),
};
