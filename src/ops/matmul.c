/* matmul.c - products of matrices, one or a batch of them.
 *
 * A vector is a row as X and a column as Y (the other way round when it is
 * transposed). An operand of two dimensions serves every product of a batch.
 * Not split among threads: the library rounds differently when a product is
 * cut.
 */
#include "kernel/gemm.h"
#include "ops/helpers.h"
#include "ops/kit.h"

enum { X, Y };
enum { OUT };
enum { TRANSPOSE_X, TRANSPOSE_Y, ALPHA };

/* An operand as it lies in memory: rows x cols, `step` values from one matrix
   of the batch to the next, 0 when there is only one. */
typedef struct operand {
    int64_t rows, cols, step;
    fl_trans trans;
} operand;

/* op(X) is m x k, op(Y) is k x n. */
typedef struct matmul_size {
    operand x, y;
    int64_t batch, m, n, k;
    double alpha;
} matmul_size;

static operand operand_of(const fl_shape *s, int slot, bool trans)
{
    operand o = { .trans = trans ? FL_TRANS : FL_NO_TRANS };

    if (s->rank == 1) {
        o.rows = slot == X ? 1 : s->dim[0];
        o.cols = slot == X ? s->dim[0] : 1;
        return o;
    }
    o.rows = s->dim[s->rank - 2];
    o.cols = s->dim[s->rank - 1];
    o.step = s->rank > 2 ? o.rows * o.cols : 0;
    return o;
}

/* bmm has no attributes. */
static bool is_turned(const fl_op_node *n, int attr)
{
    return fl_op_n_attrs(n->def) && fl_attr_bool(n, attr);
}

static matmul_size size_of(const fl_shape *x, const fl_shape *y,
                           const fl_op_node *n)
{
    matmul_size z = {
        .x = operand_of(x, X, is_turned(n, TRANSPOSE_X)),
        .y = operand_of(y, Y, is_turned(n, TRANSPOSE_Y)),
        .alpha = fl_op_n_attrs(n->def) ? fl_attr_float(n, ALPHA) : 1,
    };
    const fl_shape *many = x->rank > 2 ? x : y;

    z.batch = many->rank > 2 ? fl_shape_count(many, 0, many->rank - 2) : 1;
    z.m = z.x.trans ? z.x.cols : z.x.rows;
    z.k = z.x.trans ? z.x.rows : z.x.cols;
    z.n = z.y.trans ? z.y.rows : z.y.cols;
    /* Rows of a batch over one Y lie below each other: one tall product. */
    if (z.batch > 0 && x->rank > 2 && y->rank <= 2 && !z.x.trans) {
        z.m *= z.batch;
        z.x.rows = z.m;
        z.x.step = 0;
        z.batch = 1;
    }
    return z;
}

static fl_trans other(fl_trans t)
{
    return t ? FL_NO_TRANS : FL_TRANS;
}

/* out = alpha op(X) op(Y), hence
     dX = alpha dOut op(Y)^T,  transposed: alpha op(Y) dOut^T,
     dY = alpha op(X)^T dOut,  transposed: alpha dOut^T op(X).
   An operand that serves the whole batch gets the sum over it. */
#define KERNELS(T, t)                                                          \
    static void forward_##t(const matmul_size *z, const T *x, const T *y,      \
                            T *out)                                            \
    {                                                                          \
        fl_gemm_shape s = { .ta = z->x.trans,                                  \
                            .tb = z->y.trans,                                  \
                            .m = z->m,                                         \
                            .n = z->n,                                         \
                            .k = z->k,                                         \
                            .lda = z->x.cols,                                  \
                            .ldb = z->y.cols,                                  \
                            .ldc = z->n };                                     \
                                                                               \
        for (int64_t i = 0; i < z->batch; i++)                                 \
            fl_gemm_##t(&s, (T)z->alpha, x + i * z->x.step, y + i * z->y.step, \
                        0, out + i * z->m * z->n);                             \
    }                                                                          \
    static void back_x_##t(const matmul_size *z, const T *y, const T *dout,    \
                           T *dx)                                              \
    {                                                                          \
        fl_gemm_shape s = {                                                    \
            .m = z->x.rows, .n = z->x.cols, .k = z->n, .ldc = z->x.cols        \
        };                                                                     \
        bool flip = z->x.trans == FL_TRANS;                                    \
                                                                               \
        s.ta = flip ? z->y.trans : FL_NO_TRANS;                                \
        s.tb = flip ? FL_TRANS : other(z->y.trans);                            \
        s.lda = flip ? z->y.cols : z->n;                                       \
        s.ldb = flip ? z->n : z->y.cols;                                       \
        for (int64_t i = 0; i < z->batch; i++) {                               \
            const T *yi = y + i * z->y.step;                                   \
            const T *gi = dout + i * z->m * z->n;                              \
                                                                               \
            fl_gemm_##t(&s, (T)z->alpha, flip ? yi : gi, flip ? gi : yi,       \
                        i && !z->x.step, dx + i * z->x.step);                  \
        }                                                                      \
    }                                                                          \
    static void back_y_##t(const matmul_size *z, const T *x, const T *dout,    \
                           T *dy)                                              \
    {                                                                          \
        fl_gemm_shape s = {                                                    \
            .m = z->y.rows, .n = z->y.cols, .k = z->m, .ldc = z->y.cols        \
        };                                                                     \
        bool flip = z->y.trans == FL_TRANS;                                    \
                                                                               \
        s.ta = flip ? FL_TRANS : other(z->x.trans);                            \
        s.tb = flip ? z->x.trans : FL_NO_TRANS;                                \
        s.lda = flip ? z->n : z->x.cols;                                       \
        s.ldb = flip ? z->x.cols : z->n;                                       \
        for (int64_t i = 0; i < z->batch; i++) {                               \
            const T *xi = x + i * z->x.step;                                   \
            const T *gi = dout + i * z->m * z->n;                              \
                                                                               \
            fl_gemm_##t(&s, (T)z->alpha, flip ? gi : xi, flip ? xi : gi,       \
                        i && !z->y.step, dy + i * z->y.step);                  \
        }                                                                      \
    }
FL_FLOATS(KERNELS)

static fl_status check_batches(const fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    const fl_shape *y = &fl_infer_in(c, Y)->shape;
    char tx[FL_SLOT_TEXT_MAX], ty[FL_SLOT_TEXT_MAX];
    fl_shape a = *x, b = *y;

    if (x->rank < 1 || y->rank < 1)
        FL_FAIL(FL_ERR_INVAL, "op %s: %s and %s must have dimensions",
                c->node->def->name, fl_infer_text(c, X, tx),
                fl_infer_text(c, Y, ty));
    if (x->rank <= 2 || y->rank <= 2)
        return FL_OK;
    a.rank -= 2;
    b.rank -= 2;
    if (!fl_shape_matches(&a, &b))
        FL_FAIL(FL_ERR_INVAL, "op %s: %s and %s are different batches",
                c->node->def->name, fl_infer_text(c, X, tx),
                fl_infer_text(c, Y, ty));
    return FL_OK;
}

/* A side that was a vector and is 1 long disappears from the result; a number
   has the shape [1]. */
static fl_shape out_shape(const fl_shape *x, const fl_shape *y, int64_t m,
                          int64_t n)
{
    fl_shape s = x->rank > 2 ? *x : *y;

    if (s.rank < 2)
        s.rank = 2;
    s.dim[s.rank - 2] = m;
    s.dim[s.rank - 1] = n;
    if (x->rank == 1 && m == 1) {
        s.dim[s.rank - 2] = n;
        s.rank--;
    }
    if (y->rank == 1 && n == 1 && s.rank > 1)
        s.rank--;
    return s;
}

static fl_status matmul_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    const fl_tensor *y = fl_infer_in(c, Y);
    char tx[FL_SLOT_TEXT_MAX], ty[FL_SLOT_TEXT_MAX];
    operand a, b;
    fl_shape out;
    int64_t ka, kb;

    FL_TRY(fl_infer_float(c, X));
    FL_TRY(fl_infer_same_dtype(c, X, Y));
    FL_TRY(check_batches(c));
    a = operand_of(&x->shape, X, is_turned(c->node, TRANSPOSE_X));
    b = operand_of(&y->shape, Y, is_turned(c->node, TRANSPOSE_Y));
    ka = a.trans ? a.rows : a.cols;
    kb = b.trans ? b.cols : b.rows;
    if (ka >= 0 && kb >= 0 && ka != kb)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s%s has rows of %lld, but %s%s has columns of "
                "%lld",
                c->node->def->name, fl_infer_text(c, X, tx),
                a.trans ? " transposed" : "", (long long)ka,
                fl_infer_text(c, Y, ty), b.trans ? " transposed" : "",
                (long long)kb);
    out = out_shape(&x->shape, &y->shape, a.trans ? a.cols : a.rows,
                    b.trans ? b.rows : b.cols);
    fl_infer_dense(c, OUT, x->dtype, out.rank, out.dim);
    return FL_OK;
}

static fl_status matmul_run(fl_op_ctx *c)
{
    matmul_size z =
        size_of(&fl_in_t(c, X)->shape, &fl_in_t(c, Y)->shape, c->node);

    FL_BY_FLOAT(c, X, forward, &z, fl_in(c, X), fl_in(c, Y), fl_out(c, OUT));
    return FL_OK;
}

static fl_status matmul_back(fl_op_ctx *c)
{
    matmul_size z =
        size_of(&fl_in_t(c, X)->shape, &fl_in_t(c, Y)->shape, c->node);

    /* Without a batch there is no product to write what is shared by it. */
    if (!fl_dout_t(c, OUT) || z.batch == 0) {
        fl_din_zero(c, X);
        fl_din_zero(c, Y);
        return FL_OK;
    }
    if (fl_din(c, X))
        FL_BY_FLOAT(c, X, back_x, &z, fl_in(c, Y), fl_dout(c, OUT),
                    fl_din(c, X));
    if (fl_din(c, Y))
        FL_BY_FLOAT(c, X, back_y, &z, fl_in(c, X), fl_dout(c, OUT),
                    fl_din(c, Y));
    return FL_OK;
}

static const fl_op_case matmul_cases[] = {
    { .in = { "f32[6,7]", "f32[7,5]" } },
    { .in = { "f32[33,7]", "f32[7,33]" } },
    { .in = { "f32[0,7]", "f32[7,5]" } },
    { .in = { "f32[0,2,7]", "f32[7,5]" } },
    { .in = { "f32[0,7,2]", "f32[7,5]" }, .attrs = "{transpose_X=true}" },
    { .in = { "f32[7,6]", "f32[7,5]" },
      .attrs = "{transpose_X=true, alpha=0.5}" },
    { .in = { "f32[6,7]", "f32[5,7]" }, .attrs = "{transpose_Y=true}" },
    { .in = { "f32[7,6]", "f32[5,7]" },
      .attrs = "{transpose_X=true, transpose_Y=true, alpha=2}" },
    { .in = { "f32[3,6,7]", "f32[3,7,5]" } },
    { .in = { "f32[2,2,3,4]", "f32[2,2,5,4]" }, .attrs = "{transpose_Y=true}" },
    { .in = { "f32[3,6,7]", "f32[7,5]" } },
    { .in = { "f32[3,7,6]", "f32[7,5]" }, .attrs = "{transpose_X=true}" },
    { .in = { "f32[6,7]", "f32[3,7,5]" } },
    { .in = { "f32[7,6]", "f32[3,5,7]" },
      .attrs = "{transpose_X=true, transpose_Y=true}" },
    { .in = { "f32[7]", "f32[7]" } },
    { .in = { "f32[7]", "f32[7,3]" } },
    { .in = { "f32[4,7]", "f32[7]" } },
    { .in = { "f32[2,4,7]", "f32[7]" } },
    { .in = { "f32[7]", "f32[2,7,3]" } },
    { .in = { "f32[4]", "f32[3]" },
      .attrs = "{transpose_X=true, transpose_Y=true}" },
};

const fl_op fl_op_matmul = {
    .name = "matmul",
    .doc = "Out = alpha op(X) op(Y), op transposes the last two dimensions "
           "where asked; the others are a batch, and a matrix or a vector "
           "serves every product of a batch",
    .in = { { "X", 0 }, { "Y", 0 } },
    .out = { { "Out", 0 } },
    .attrs = { { "transpose_X", FL_ATTR_BOOL, "false" },
               { "transpose_Y", FL_ATTR_BOOL, "false" },
               { "alpha", FL_ATTR_FLOAT, "1" } },
    .infer = matmul_infer,
    .run = matmul_run,
    .back = matmul_back,
    .back_uses = FL_USES_IN(X) | FL_USES_IN(Y),
    .cases = matmul_cases,
    .n_cases = FL_LEN(matmul_cases),
};

static fl_status bmm_infer(fl_infer *c)
{
    char tx[FL_SLOT_TEXT_MAX], ty[FL_SLOT_TEXT_MAX];

    if (fl_infer_in(c, X)->shape.rank != 3 ||
        fl_infer_in(c, Y)->shape.rank != 3)
        FL_FAIL(FL_ERR_INVAL,
                "op bmm: %s and %s must have three dimensions; matmul takes "
                "others",
                fl_infer_text(c, X, tx), fl_infer_text(c, Y, ty));
    return matmul_infer(c);
}

static const fl_op_case bmm_cases[] = {
    { .in = { "f32[3,6,7]", "f32[3,7,5]" } },
    { .in = { "f32[1,2,1]", "f32[1,1,2]" } },
    { .in = { "f32[0,2,7]", "f32[0,7,5]" } },
};

const fl_op fl_op_bmm = {
    .name = "bmm",
    .doc = "Out = X Y for each pair of matrices of two batches",
    .in = { { "X", 0 }, { "Y", 0 } },
    .out = { { "Out", 0 } },
    .infer = bmm_infer,
    .run = matmul_run,
    .back = matmul_back,
    .back_uses = FL_USES_IN(X) | FL_USES_IN(Y),
    .cases = bmm_cases,
    .n_cases = FL_LEN(bmm_cases),
};
