/* row_conv.c - every row with those that follow it, weighed column by column.
 *
 *     Out[i][d] = sum over w of Filter[w][d] X[i + w][d], inside of a sequence
 *
 * Sequences are those of offsets, or with three dimensions the entries of the
 * first. Forward and for X, shares take sequences; the gradient of Filter is a
 * sum over all rows, of which shares take columns.
 */
#include "ops/helpers.h"
#include "ops/sequences.h"

enum { X, FILTER };
enum { OUT };

typedef struct conv_job {
    const int64_t *off; /* NULL: all sequences have n_steps rows */
    size_t n_seqs, n_steps;
    size_t n_weights, width;
} conv_job;

static conv_job job_of(const fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X);
    const fl_shape *f = &fl_in_t(c, FILTER)->shape;
    conv_job j = { .n_weights = (size_t)f->dim[0], .width = (size_t)f->dim[1] };

    if (x->n_lod) {
        j.off = fl_seqs_of(x).off;
        j.n_seqs = fl_seqs_of(x).n;
        return j;
    }
    j.n_seqs = (size_t)x->shape.dim[0];
    j.n_steps = (size_t)x->shape.dim[1];
    return j;
}

static fl_span rows_of(const conv_job *j, size_t s)
{
    if (j->off)
        return (fl_span){ (size_t)j->off[s], (size_t)j->off[s + 1] };
    return (fl_span){ s * j->n_steps, (s + 1) * j->n_steps };
}

/* Weights that reach no further than the end of the sequence from row i on. */
static size_t reach(const conv_job *j, size_t i, fl_span rows)
{
    return rows.hi - i < j->n_weights ? rows.hi - i : j->n_weights;
}

#define KERNELS(T, t)                                                          \
    static void forward_##t(const conv_job *j, fl_span rows, const T *x,       \
                            const T *f, T *out)                                \
    {                                                                          \
        for (size_t i = rows.lo; i < rows.hi; i++) {                           \
            T *to = out + i * j->width;                                        \
                                                                               \
            memset(to, 0, j->width * sizeof(T));                               \
            for (size_t w = 0; w < reach(j, i, rows); w++)                     \
                for (size_t d = 0; d < j->width; d++)                          \
                    to[d] += f[w * j->width + d] * x[(i + w) * j->width + d];  \
        }                                                                      \
    }                                                                          \
    static void x_back_##t(const conv_job *j, fl_span rows, const T *g,        \
                           const T *f, T *dx)                                  \
    {                                                                          \
        memset(dx + rows.lo * j->width, 0,                                     \
               (rows.hi - rows.lo) * j->width * sizeof(T));                    \
        for (size_t i = rows.lo; i < rows.hi; i++)                             \
            for (size_t w = 0; w < reach(j, i, rows); w++)                     \
                for (size_t d = 0; d < j->width; d++)                          \
                    dx[(i + w) * j->width + d] +=                              \
                        f[w * j->width + d] * g[i * j->width + d];             \
    }                                                                          \
    /* Adds what the rows say of the columns in s. */                          \
    static void filter_back_##t(const conv_job *j, fl_span rows, fl_span s,    \
                                const T *x, const T *g, T *df)                 \
    {                                                                          \
        for (size_t i = rows.lo; i < rows.hi; i++)                             \
            for (size_t w = 0; w < reach(j, i, rows); w++)                     \
                for (size_t d = s.lo; d < s.hi; d++)                           \
                    df[w * j->width + d] +=                                    \
                        x[(i + w) * j->width + d] * g[i * j->width + d];       \
    }                                                                          \
    static void columns_back_##t(const conv_job *j, fl_span s, const T *x,     \
                                 const T *g, T *df)                            \
    {                                                                          \
        for (size_t w = 0; w < j->n_weights; w++)                              \
            memset(df + w * j->width + s.lo, 0, (s.hi - s.lo) * sizeof(T));    \
        for (size_t q = 0; q < j->n_seqs; q++)                                 \
            filter_back_##t(j, rows_of(j, q), s, x, g, df);                    \
    }
FL_FLOATS(KERNELS)

static fl_status check_x(const fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_float(c, X));
    if (x->n_lod)
        FL_TRY(fl_infer_one_level(c, X));
    if (x->shape.rank != (x->n_lod ? 2 : 3))
        FL_FAIL(FL_ERR_INVAL,
                "op row_conv: %s must have offsets and two dimensions, or no "
                "offsets and three: batch, steps, columns",
                fl_infer_text(c, X, buf));
    return FL_OK;
}

static fl_status row_conv_infer(fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    const fl_shape *f = &fl_infer_in(c, FILTER)->shape;
    char tx[FL_SLOT_TEXT_MAX], tf[FL_SLOT_TEXT_MAX];

    FL_TRY(check_x(c));
    FL_TRY(fl_infer_same_dtype(c, X, FILTER));
    if (!fl_shape_matches(f, &(fl_shape){ 2, { -1, x->dim[x->rank - 1] } }))
        FL_FAIL(FL_ERR_INVAL,
                "op row_conv: %s must have two dimensions and the columns of "
                "%s",
                fl_infer_text(c, FILTER, tf), fl_infer_text(c, X, tx));
    return fl_infer_same(c, X, OUT);
}

static fl_status row_conv_run(fl_op_ctx *c)
{
    conv_job j = job_of(c);
    fl_span s = fl_op_span(c, j.n_seqs);

    for (size_t q = s.lo; q < s.hi; q++)
        FL_BY_FLOAT(c, X, forward, &j, rows_of(&j, q), fl_in(c, X),
                    fl_in(c, FILTER), fl_out(c, OUT));
    return FL_OK;
}

static fl_status row_conv_back(fl_op_ctx *c)
{
    conv_job j = job_of(c);
    fl_span s = fl_op_span(c, j.n_seqs);

    if (!fl_dout_t(c, OUT)) {
        fl_din_zero(c, X);
        fl_din_zero(c, FILTER);
        return FL_OK;
    }
    for (size_t q = s.lo; q < s.hi && fl_din_t(c, X); q++)
        FL_BY_FLOAT(c, X, x_back, &j, rows_of(&j, q), fl_dout(c, OUT),
                    fl_in(c, FILTER), fl_din(c, X));
    if (fl_din_t(c, FILTER))
        FL_BY_FLOAT(c, X, columns_back, &j, fl_op_span(c, j.width), fl_in(c, X),
                    fl_dout(c, OUT), fl_din(c, FILTER));
    return FL_OK;
}

static const fl_op_case row_conv_cases[] = {
    { .in = { "f32[7,3] lod=[0,2,2,7]", "f32[3,3]" } },
    { .in = { "f32[0,3] lod=[0,0]", "f32[3,3]" } },
    { .in = { "f32[2,4,5]", "f32[2,5]" } },
    { .in = { "f32[0,4,5]", "f32[2,5]" } },
    { .in = { "f32[3,33] lod=[0,3]", "f32[6,33]" } },
    { .in = { "f32[36,2] lod=[0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,"
              "34,36]",
              "f32[1,2]" } },
};

const fl_op fl_op_row_conv = {
    .name = "row_conv",
    .doc = "Out[i] = sum over w of Filter[w] X[i + w], column by column, with "
           "the rows that the sequence still has from row i on",
    .in = { { "X", 0 }, { "Filter", 0 } },
    .out = { { "Out", 0 } },
    .flags = FL_OP_SLICED,
    .infer = row_conv_infer,
    .run = row_conv_run,
    .back = row_conv_back,
    .back_uses = FL_USES_IN(X) | FL_USES_IN(FILTER),
    .cases = row_conv_cases,
    .n_cases = FL_LEN(row_conv_cases),
};
