/* addmm.c - a product of two matrices, and a matrix added to it, or a row, a
 * column or a number of it. */
#include "kernel/gemm.h"
#include "ops/helpers.h"

enum { INPUT, X, Y };
enum { OUT };
enum { ALPHA, BETA };

/* X is m x k, Y k x n; Input has steps of 0 where it is repeated. */
typedef struct addmm_job {
    size_t m, n, k, row_step, col_step;
    double alpha, beta;
} addmm_job;

static fl_status addmm_infer(fl_infer *c)
{
    const fl_shape *in = &fl_infer_in(c, INPUT)->shape;
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    const fl_shape *y = &fl_infer_in(c, Y)->shape;
    fl_shape out = { 2, { x->dim[0], y->dim[1] } }, want = out;
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX], d[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_float(c, X));
    FL_TRY(fl_infer_same_dtype(c, X, Y));
    FL_TRY(fl_infer_same_dtype(c, X, INPUT));
    for (int i = 0; i < 2 && in->rank == 2; i++)
        if (in->dim[i] == 1)
            want.dim[i] = 1;
    if (x->rank != 2 ||
        !fl_shape_matches(y, &(fl_shape){ 2, { x->dim[1], -1 } }) ||
        !fl_shape_matches(in, &want))
        FL_FAIL(FL_ERR_INVAL,
                "op addmm: %s and %s have no product, or %s is not of its "
                "shape, with 1 where it is repeated",
                fl_infer_text(c, X, a), fl_infer_text(c, Y, b),
                fl_infer_text(c, INPUT, d));
    fl_tensor_like(fl_infer_out(c, OUT), fl_infer_in(c, INPUT));
    fl_infer_out(c, OUT)->shape = out;
    return FL_OK;
}

#define KERNELS(T, t)                                                          \
    static void forward_##t(const addmm_job *j, const T *in, const T *x,       \
                            const T *y, T *out)                                \
    {                                                                          \
        fl_gemm_shape z = { .m = (int64_t)j->m,                                \
                            .n = (int64_t)j->n,                                \
                            .k = (int64_t)j->k,                                \
                            .lda = (int64_t)j->k,                              \
                            .ldb = (int64_t)j->n,                              \
                            .ldc = (int64_t)j->n };                            \
                                                                               \
        for (size_t i = 0; i < j->m; i++)                                      \
            for (size_t k = 0; k < j->n; k++)                                  \
                out[i * j->n + k] =                                            \
                    (T)j->beta * in[i * j->row_step + k * j->col_step];        \
        fl_gemm_##t(&z, (T)j->alpha, x, y, 1, out);                            \
    }                                                                          \
    static void input_back_##t(const addmm_job *j, const T *g, T *din)         \
    {                                                                          \
        for (size_t i = 0; i < j->m; i++)                                      \
            for (size_t k = 0; k < j->n; k++)                                  \
                din[i * j->row_step + k * j->col_step] +=                      \
                    (T)j->beta * g[i * j->n + k];                              \
    }                                                                          \
    static void x_back_##t(const addmm_job *j, const T *g, const T *y, T *dx)  \
    {                                                                          \
        fl_gemm_shape z = { .tb = FL_TRANS,                                    \
                            .m = (int64_t)j->m,                                \
                            .n = (int64_t)j->k,                                \
                            .k = (int64_t)j->n,                                \
                            .lda = (int64_t)j->n,                              \
                            .ldb = (int64_t)j->n,                              \
                            .ldc = (int64_t)j->k };                            \
                                                                               \
        fl_gemm_##t(&z, (T)j->alpha, g, y, 0, dx);                             \
    }                                                                          \
    static void y_back_##t(const addmm_job *j, const T *g, const T *x, T *dy)  \
    {                                                                          \
        fl_gemm_shape z = { .ta = FL_TRANS,                                    \
                            .m = (int64_t)j->k,                                \
                            .n = (int64_t)j->n,                                \
                            .k = (int64_t)j->m,                                \
                            .lda = (int64_t)j->k,                              \
                            .ldb = (int64_t)j->n,                              \
                            .ldc = (int64_t)j->n };                            \
                                                                               \
        fl_gemm_##t(&z, (T)j->alpha, x, g, 0, dy);                             \
    }
FL_FLOATS(KERNELS)

static addmm_job job_of(const fl_op_ctx *c)
{
    const fl_shape *in = &fl_in_t(c, INPUT)->shape;
    const fl_shape *x = &fl_in_t(c, X)->shape;

    return (addmm_job){
        .m = (size_t)x->dim[0],
        .n = (size_t)fl_in_t(c, Y)->shape.dim[1],
        .k = (size_t)x->dim[1],
        .row_step = in->dim[0] == 1 ? 0 : (size_t)in->dim[1],
        .col_step = in->dim[1] == 1 ? 0 : 1,
        .alpha = fl_float(c, ALPHA),
        .beta = fl_float(c, BETA),
    };
}

static fl_status addmm_run(fl_op_ctx *c)
{
    addmm_job j = job_of(c);

    if (j.m && j.n)
        FL_BY_FLOAT(c, X, forward, &j, fl_in(c, INPUT), fl_in(c, X),
                    fl_in(c, Y), fl_out(c, OUT));
    return FL_OK;
}

static fl_status addmm_back(fl_op_ctx *c)
{
    addmm_job j = job_of(c);

    for (int slot = INPUT; slot <= Y; slot++)
        fl_din_zero(c, slot);
    if (!fl_dout_t(c, OUT) || !j.m || !j.n)
        return FL_OK;
    if (fl_din_t(c, INPUT))
        FL_BY_FLOAT(c, X, input_back, &j, fl_dout(c, OUT), fl_din(c, INPUT));
    if (fl_din_t(c, X))
        FL_BY_FLOAT(c, X, x_back, &j, fl_dout(c, OUT), fl_in(c, Y),
                    fl_din(c, X));
    if (fl_din_t(c, Y))
        FL_BY_FLOAT(c, X, y_back, &j, fl_dout(c, OUT), fl_in(c, X),
                    fl_din(c, Y));
    return FL_OK;
}

static const fl_op_case addmm_cases[] = {
    { .in = { "f32[4,3]", "f32[4,5]", "f32[5,3]" } },
    { .in = { "f32[1,3]", "f32[4,5]", "f32[5,3]" },
      .attrs = "{Alpha=0.5, Beta=2}" },
    { .in = { "f32[4,1]", "f32[4,2]", "f32[2,3]" }, .attrs = "{Beta=-1}" },
    { .in = { "f32[1,1]", "f32[2,2]", "f32[2,2]" } },
    { .in = { "f32[1,3]", "f32[0,5]", "f32[5,3]" } },
};

const fl_op fl_op_addmm = {
    .name = "addmm",
    .doc = "Out = Beta Input + Alpha X Y, where Input may have one row or one "
           "column for all",
    .in = { { "Input", 0 }, { "X", 0 }, { "Y", 0 } },
    .out = { { "Out", 0 } },
    .attrs = { { "Alpha", FL_ATTR_FLOAT, "1" },
               { "Beta", FL_ATTR_FLOAT, "1" } },
    .infer = addmm_infer,
    .run = addmm_run,
    .back = addmm_back,
    .back_uses = FL_USES_IN(X) | FL_USES_IN(Y),
    .cases = addmm_cases,
    .n_cases = FL_LEN(addmm_cases),
};
