/* cvm.c - shows and clicks, the first two numbers of each row, as features:
 * log(show + 1) and log(click + 1) - log(show + 1), or left out.
 *
 * Where the gradient of these two numbers would be stands CVM: it is what a
 * table counts shows and clicks by, not a slope.
 */
#include <tgmath.h>

#include "ops/helpers.h"
#include "ops/sequences.h"

enum { X, CVM };
enum { Y };
enum { USE_CVM };

/* Shows and clicks of a row. */
#define COUNTS 2

static fl_status cvm_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    const fl_shape *counts = &fl_infer_in(c, CVM)->shape;
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];
    int64_t width = x->shape.rank == 2 ? x->shape.dim[1] : -1;

    FL_TRY(fl_infer_same(c, X, Y));
    FL_TRY(fl_infer_same_dtype(c, X, CVM));
    if (width < COUNTS || counts->rank != 2 || counts->dim[1] != COUNTS)
        FL_FAIL(FL_ERR_INVAL,
                "op cvm: %s must be [n, k], shows and clicks first, and %s "
                "[n,2]",
                fl_infer_text(c, X, a), fl_infer_text(c, CVM, b));
    if (!fl_bool(c, USE_CVM))
        fl_infer_out(c, Y)->shape.dim[1] = width - COUNTS;
    return FL_OK;
}

#define KERNELS(T, t)                                                          \
    static void features_##t(T *y, const T *x, size_t width, fl_span rows)     \
    {                                                                          \
        for (size_t i = rows.lo; i < rows.hi; i++) {                           \
            const T *from = x + i * width;                                     \
            T *to = y + i * width;                                             \
                                                                               \
            memcpy(to, from, width * sizeof(T));                               \
            to[0] = log(from[0] + 1);                                          \
            to[1] = log(from[1] + 1) - to[0];                                  \
        }                                                                      \
    }                                                                          \
    static void rest_##t(T *y, const T *x, size_t width, fl_span rows)         \
    {                                                                          \
        size_t n = width - COUNTS;                                             \
                                                                               \
        for (size_t i = rows.lo; i < rows.hi && n; i++)                        \
            memcpy(y + i * n, x + i * width + COUNTS, n * sizeof(T));          \
    }                                                                          \
    static void back_##t(fl_tensor *dx, const fl_tensor *g, const T *counts,   \
                         size_t width, size_t i)                               \
    {                                                                          \
        T *row = (T *)dx->data + i * width;                                    \
        size_t n = g ? (size_t)g->shape.dim[1] : 0, rest = width - COUNTS;     \
                                                                               \
        memset(row, 0, width * sizeof(T));                                     \
        if (g && rest)                                                         \
            memcpy(row + COUNTS, (const T *)g->data + i * n + n - rest,        \
                   rest * sizeof(T));                                          \
        memcpy(row, counts, COUNTS * sizeof(T));                               \
    }
FL_FLOATS(KERNELS)

static fl_span rows_of(const fl_op_ctx *c)
{
    return fl_op_span(c, (size_t)fl_in_t(c, X)->shape.dim[0]);
}

static size_t width_of(const fl_op_ctx *c)
{
    return (size_t)fl_in_t(c, X)->shape.dim[1];
}

static fl_status cvm_run(fl_op_ctx *c)
{
    if (fl_bool(c, USE_CVM))
        FL_BY_FLOAT(c, X, features, fl_out(c, Y), fl_in(c, X), width_of(c),
                    rows_of(c));
    else
        FL_BY_FLOAT(c, X, rest, fl_out(c, Y), fl_in(c, X), width_of(c),
                    rows_of(c));
    return FL_OK;
}

/* Rows of CVM belong to rows of X, or to its sequences. */
static fl_status cvm_back(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X), *counts = fl_in_t(c, CVM);
    fl_tensor *dx = fl_din_t(c, X);
    fl_seqs q = x->n_lod ? fl_seqs_of(x) : (fl_seqs){ 0 };
    int64_t n = x->n_lod ? (int64_t)q.n : x->shape.dim[0];
    fl_span s = rows_of(c);

    if (!dx)
        return FL_OK;
    if (counts->shape.dim[0] != n)
        FL_FAIL(FL_ERR_INVAL, "CVM has %lld rows, but X has %lld of them",
                (long long)counts->shape.dim[0], (long long)n);
    for (size_t i = s.lo; i < s.hi; i++) {
        size_t of = x->n_lod ? fl_seqs_find(&q, (int64_t)i) : i;
        const char *row = (const char *)counts->data +
                          of * COUNTS * fl_dtype_bytes(counts->dtype);

        FL_BY_FLOAT(c, X, back, dx, fl_dout_t(c, Y), (const void *)row,
                    width_of(c), i);
    }
    return FL_OK;
}

static const fl_op_case cvm_cases[] = {
    { .in = { "f32[33,7]", "f32[33,2]" },
      .flags = FL_CASE_POSITIVE | FL_CASE_NO_SLOPE },
    { .in = { "f32[5,3]", "f32[5,2]" },
      .attrs = "{use_cvm=false}",
      .flags = FL_CASE_NO_SLOPE },
    { .in = { "f32[7,3] lod=[0,2,2,7]", "f32[3,2]" },
      .flags = FL_CASE_POSITIVE | FL_CASE_NO_SLOPE },
    { .in = { "f32[0,8]", "f32[0,2]" }, .flags = FL_CASE_NO_SLOPE },
};

const fl_op fl_op_cvm = {
    .name = "cvm",
    .doc = "Y = X with log(show + 1) and log(click + 1) - log(show + 1) in the "
           "place of its first two numbers, or without these when use_cvm is "
           "false; in their place X@GRAD has CVM",
    .in = { { "X", 0 }, { "CVM", FL_SLOT_NO_GRAD } },
    .out = { { "Y", 0 } },
    .attrs = { { "use_cvm", FL_ATTR_BOOL, "true" } },
    .flags = FL_OP_SLICED,
    .infer = cvm_infer,
    .run = cvm_run,
    .back = cvm_back,
    .back_uses = FL_USES_IN(CVM),
    .cases = cvm_cases,
    .n_cases = FL_LEN(cvm_cases),
};
