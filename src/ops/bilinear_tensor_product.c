/* bilinear_tensor_product.c - a number for each pair of rows and each matrix
 * between them.
 *
 *     Out[i][k] = X[i] Weight[k] Y[i] + Bias[k]
 *
 * Shares take blocks of rows that do not depend on their number: a product
 * rounds differently when it is cut elsewhere. For Weight, they take matrices.
 */
#include "kernel/gemm.h"
#include "kernel/vec.h"
#include "ops/helpers.h"

enum { X, Y, WEIGHT, BIAS };
enum { OUT };

typedef struct bilinear_job {
    size_t n, n_out, x_width, y_width;
    const void *x, *y, *weight;
} bilinear_job;

static bilinear_job job_of(const fl_op_ctx *c)
{
    const fl_shape *w = &fl_in_t(c, WEIGHT)->shape;

    return (bilinear_job){ .n = (size_t)fl_in_t(c, X)->shape.dim[0],
                           .n_out = (size_t)w->dim[0],
                           .x_width = (size_t)w->dim[1],
                           .y_width = (size_t)w->dim[2],
                           .x = fl_in(c, X),
                           .y = fl_in(c, Y),
                           .weight = fl_in(c, WEIGHT) };
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static fl_gemm_shape product(fl_trans ta, fl_trans tb, size_t m, size_t n,
                             size_t k)
{
    return (fl_gemm_shape){ .ta = ta,
                            .tb = tb,
                            .m = (int64_t)m,
                            .n = (int64_t)n,
                            .k = (int64_t)k,
                            .lda = (int64_t)(ta ? m : k),
                            .ldb = (int64_t)(tb ? k : n),
                            .ldc = (int64_t)n };
}

#define KERNELS(T, t)                                                          \
    static const T *matrix_##t(const bilinear_job *j, size_t k)                \
    {                                                                          \
        return (const T *)j->weight + k * j->x_width * j->y_width;             \
    }                                                                          \
    /* left has room for the rows in s times Weight[k]. */                     \
    static void forward_##t(const bilinear_job *j, fl_span s, const T *bias,   \
                            T *left, T *out)                                   \
    {                                                                          \
        fl_gemm_shape z = product(FL_NO_TRANS, FL_NO_TRANS, s.hi - s.lo,       \
                                  j->y_width, j->x_width);                     \
        const T *x = (const T *)j->x + s.lo * j->x_width, *y = j->y;           \
                                                                               \
        for (size_t k = 0; k < j->n_out; k++) {                                \
            fl_gemm_##t(&z, 1, x, matrix_##t(j, k), 0, left);                  \
            for (size_t i = s.lo; i < s.hi; i++)                               \
                out[i * j->n_out + k] =                                        \
                    (T)fl_vec_##t()->dot(left + (i - s.lo) * j->y_width,       \
                                         y + i * j->y_width, j->y_width) +     \
                    (bias ? bias[k] : 0);                                      \
        }                                                                      \
    }                                                                          \
    /* Rows in s of X or Y, each times what came for its number k. */          \
    static void weigh_##t(const bilinear_job *j, int side, fl_span s,          \
                          size_t k, const T *g, T *to)                         \
    {                                                                          \
        size_t width = side == X ? j->x_width : j->y_width;                    \
        const T *rows = side == X ? j->x : j->y;                               \
                                                                               \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            fl_vec_##t()->scale(to + (i - s.lo) * width, g[i * j->n_out + k],  \
                                rows + i * width, 0, width);                   \
    }                                                                          \
    static void rows_back_##t(const bilinear_job *j, fl_span s, const T *g,    \
                              T *some, T *dx, T *dy)                           \
    {                                                                          \
        size_t n = s.hi - s.lo;                                                \
        fl_gemm_shape for_x =                                                  \
            product(FL_NO_TRANS, FL_TRANS, n, j->x_width, j->y_width);         \
        fl_gemm_shape for_y =                                                  \
            product(FL_NO_TRANS, FL_NO_TRANS, n, j->y_width, j->x_width);      \
                                                                               \
        for (size_t k = 0; k < j->n_out && dx; k++) {                          \
            weigh_##t(j, Y, s, k, g, some);                                    \
            fl_gemm_##t(&for_x, 1, some, matrix_##t(j, k), k > 0,              \
                        dx + s.lo * j->x_width);                               \
        }                                                                      \
        for (size_t k = 0; k < j->n_out && dy; k++) {                          \
            weigh_##t(j, X, s, k, g, some);                                    \
            fl_gemm_##t(&for_y, 1, some, matrix_##t(j, k), k > 0,              \
                        dy + s.lo * j->y_width);                               \
        }                                                                      \
    }                                                                          \
    static void weight_back_##t(const bilinear_job *j, size_t k, const T *g,   \
                                T *some, T *dw)                                \
    {                                                                          \
        fl_gemm_shape z =                                                      \
            product(FL_TRANS, FL_NO_TRANS, j->x_width, j->y_width, j->n);      \
                                                                               \
        weigh_##t(j, X, (fl_span){ 0, j->n }, k, g, some);                     \
        fl_gemm_##t(&z, 1, some, j->y, 0, dw + k * j->x_width * j->y_width);   \
    }                                                                          \
    static void bias_back_##t(const bilinear_job *j, const T *g, T *db)        \
    {                                                                          \
        fl_vec_##t()->col_sum(db, g, j->n, j->n_out, j->n_out);                \
    }
FL_FLOATS(KERNELS)

/* --- shapes --------------------------------------------------------------- */

static fl_status refuse(const fl_infer *c, int slot, const char *want)
{
    char buf[FL_SLOT_TEXT_MAX];

    FL_FAIL(FL_ERR_INVAL, "op bilinear_tensor_product: %s must be %s",
            fl_infer_text(c, slot, buf), want);
}

static fl_status check_shapes(const fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    const fl_shape *y = &fl_infer_in(c, Y)->shape;
    const fl_shape *w = &fl_infer_in(c, WEIGHT)->shape;
    const fl_tensor *bias = fl_infer_in(c, BIAS);

    if (x->rank != 2)
        return refuse(c, X, "a matrix");
    if (!fl_shape_matches(y, &(fl_shape){ 2, { x->dim[0], -1 } }))
        return refuse(c, Y, "a matrix with the rows of X");
    if (!fl_shape_matches(w, &(fl_shape){ 3, { -1, x->dim[1], y->dim[1] } }))
        return refuse(c, WEIGHT, "[size, columns of X, columns of Y]");
    if (bias &&
        !fl_shape_matches(&bias->shape, &(fl_shape){ 2, { 1, w->dim[0] } }))
        return refuse(c, BIAS, "[1, size], a number for each matrix of Weight");
    return FL_OK;
}

static fl_status bilinear_infer(fl_infer *c)
{
    FL_TRY(fl_infer_float(c, X));
    for (int slot = Y; slot <= BIAS; slot++)
        FL_TRY(fl_infer_same_dtype(c, X, slot));
    FL_TRY(check_shapes(c));
    fl_tensor_like(fl_infer_out(c, OUT), fl_infer_in(c, X));
    fl_infer_out(c, OUT)->shape.dim[1] = fl_infer_in(c, WEIGHT)->shape.dim[0];
    return FL_OK;
}

/* --- running -------------------------------------------------------------- */

static fl_span block_from(size_t lo, size_t hi)
{
    return (fl_span){ lo, hi - lo < FL_GEMM_BLOCK ? hi : lo + FL_GEMM_BLOCK };
}

/* Room for n rows of the wider of X and Y. */
static void *make_room(fl_op_ctx *c, const bilinear_job *j, size_t n)
{
    return fl_scratch(c, (n * larger(j->x_width, j->y_width) + 1) *
                             fl_dtype_bytes(fl_in_t(c, X)->dtype));
}

static fl_status bilinear_run(fl_op_ctx *c)
{
    bilinear_job j = job_of(c);
    fl_span s = fl_op_blocks(c, j.n, FL_GEMM_BLOCK);
    void *room = make_room(c, &j, FL_GEMM_BLOCK);

    if (!room)
        return FL_NOMEM(c);
    for (size_t i = s.lo; i < s.hi; i += FL_GEMM_BLOCK)
        FL_BY_FLOAT(c, X, forward, &j, block_from(i, s.hi), fl_in(c, BIAS),
                    room, fl_out(c, OUT));
    return FL_OK;
}

static fl_status back_rows(fl_op_ctx *c, const bilinear_job *j)
{
    fl_span s = fl_op_blocks(c, j->n, FL_GEMM_BLOCK);
    void *room = make_room(c, j, FL_GEMM_BLOCK);

    if (!room)
        return FL_NOMEM(c);
    for (size_t i = s.lo; i < s.hi; i += FL_GEMM_BLOCK)
        FL_BY_FLOAT(c, X, rows_back, j, block_from(i, s.hi), fl_dout(c, OUT),
                    room, fl_din(c, X), fl_din(c, Y));
    return FL_OK;
}

static fl_status back_weight(fl_op_ctx *c, const bilinear_job *j)
{
    fl_span s = fl_op_blocks(c, j->n_out, 1);
    void *room = make_room(c, j, j->n);

    if (!room)
        return FL_NOMEM(c);
    for (size_t k = s.lo; k < s.hi; k++)
        FL_BY_FLOAT(c, X, weight_back, j, k, fl_dout(c, OUT), room,
                    fl_din(c, WEIGHT));
    return FL_OK;
}

static fl_status bilinear_back(fl_op_ctx *c)
{
    bilinear_job j = job_of(c);

    if (!fl_dout_t(c, OUT)) {
        for (int slot = X; slot <= BIAS; slot++)
            fl_din_zero(c, slot);
        return FL_OK;
    }
    FL_TRY(back_rows(c, &j));
    if (fl_din_t(c, WEIGHT))
        FL_TRY(back_weight(c, &j));
    if (fl_din_t(c, BIAS) && c->ith == 0)
        FL_BY_FLOAT(c, X, bias_back, &j, fl_dout(c, OUT), fl_din(c, BIAS));
    return FL_OK;
}

static const fl_op_case bilinear_cases[] = {
    { .in = { "f32[6,5]", "f32[6,4]", "f32[3,5,4]", "f32[1,3]" } },
    { .in = { "f32[0,5]", "f32[0,4]", "f32[3,5,4]", "f32[1,3]" } },
    { .in = { "f32[150,2]", "f32[150,3]", "f32[2,2,3]" } },
    { .in = { "f32[5,1] lod=[0,2,2,5]", "f32[5,7]", "f32[1,1,7]" } },
};

const fl_op fl_op_bilinear_tensor_product = {
    .name = "bilinear_tensor_product",
    .doc = "Out[i][k] = X[i] Weight[k] Y[i] + Bias[k], where Weight[k] is a "
           "matrix",
    .in = { { "X", 0 },
            { "Y", 0 },
            { "Weight", 0 },
            { "Bias", FL_OP_SLOT_OPTIONAL } },
    .out = { { "Out", 0 } },
    .flags = FL_OP_SLICED,
    .infer = bilinear_infer,
    .run = bilinear_run,
    .back = bilinear_back,
    .back_uses = FL_USES_IN(X) | FL_USES_IN(Y) | FL_USES_IN(WEIGHT),
    .cases = bilinear_cases,
    .n_cases = FL_LEN(bilinear_cases),
};
