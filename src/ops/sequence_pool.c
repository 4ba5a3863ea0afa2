/* sequence_pool.c - one row per sequence, of the innermost level.
 *
 * Sequences are independent of each other in both directions, so shares are
 * ranges of sequences.
 */
#include <math.h>

#include "kernel/vec.h"
#include "ops/kit.h"
#include "ops/sequences.h"

enum { X };
enum { OUT, MAX_INDEX };
enum { POOLTYPE, PAD_VALUE, IS_TEST };

typedef enum pool_type { AVERAGE, SUM, SQRT, MAX, LAST, FIRST } pool_type;

static const char *const type_names[] = { "AVERAGE", "SUM",  "SQRT",
                                          "MAX",     "LAST", "FIRST" };

typedef struct pool_job {
    pool_type type;
    const int64_t *off;
    size_t width;
    double pad;
    fl_span seqs;
} pool_job;

/* What the sum of len rows is multiplied with. */
static double factor(pool_type type, size_t len)
{
    switch (type) {
    case AVERAGE:
        return 1 / (double)len;
    case SQRT:
        return 1 / sqrt((double)len);
    default:
        return 1;
    }
}

#define KERNELS(T, t)                                                          \
    static void sum_rows_##t(const pool_job *j, const T *x, size_t len,        \
                             T *out)                                           \
    {                                                                          \
        fl_vec_##t()->col_sum(out, x, len, j->width, j->width);                \
        if (len > 1 && j->type != SUM)                                         \
            fl_vec_##t()->scale(out, (T)factor(j->type, len), out, 0,          \
                                j->width);                                     \
    }                                                                          \
    /* The first of equal ones wins; index counts rows of all sequences. */    \
    static void max_rows_##t(const pool_job *j, const T *x, size_t lo,         \
                             size_t hi, T *out, int32_t *index)                \
    {                                                                          \
        if (index) {                                                           \
            fl_vec_##t()->max_rows(out, index, x + lo * j->width, hi - lo,     \
                                   j->width, (int32_t)lo);                     \
            return;                                                            \
        }                                                                      \
        for (size_t k = 0; k < j->width; k++) {                                \
            size_t top = lo;                                                   \
                                                                               \
            for (size_t i = lo + 1; i < hi; i++)                               \
                if (x[i * j->width + k] > x[top * j->width + k])               \
                    top = i;                                                   \
            out[k] = x[top * j->width + k];                                    \
        }                                                                      \
    }                                                                          \
    static void pad_row_##t(const pool_job *j, T *out, int32_t *index)         \
    {                                                                          \
        for (size_t k = 0; k < j->width; k++) {                                \
            out[k] = (T)j->pad;                                                \
            if (index)                                                         \
                index[k] = -1;                                                 \
        }                                                                      \
    }                                                                          \
    static void forward_##t(const pool_job *j, const T *x, T *out,             \
                            int32_t *index)                                    \
    {                                                                          \
        for (size_t s = j->seqs.lo; s < j->seqs.hi; s++) {                     \
            size_t lo = (size_t)j->off[s], hi = (size_t)j->off[s + 1];         \
            T *row = out + s * j->width;                                       \
            int32_t *at = index ? index + s * j->width : NULL;                 \
                                                                               \
            if (lo == hi)                                                      \
                pad_row_##t(j, row, at);                                       \
            else if (j->type == MAX)                                           \
                max_rows_##t(j, x, lo, hi, row, at);                           \
            else if (j->type == FIRST || j->type == LAST)                      \
                memcpy(row, x + (j->type == FIRST ? lo : hi - 1) * j->width,   \
                       j->width * sizeof(T));                                  \
            else                                                               \
                sum_rows_##t(j, x + lo * j->width, hi - lo, row);              \
        }                                                                      \
    }                                                                          \
    static void back_one_##t(const pool_job *j, size_t lo, size_t hi,          \
                             const T *dout, const int32_t *index, T *dx)       \
    {                                                                          \
        memset(dx + lo * j->width, 0, (hi - lo) * j->width * sizeof(T));       \
        for (size_t k = 0; dout && k < j->width; k++) {                        \
            size_t row = j->type == MAX    ? (size_t)index[k]                  \
                         : j->type == LAST ? hi - 1                            \
                                           : lo;                               \
                                                                               \
            dx[row * j->width + k] = dout[k];                                  \
        }                                                                      \
    }                                                                          \
    static void backward_##t(const pool_job *j, const T *dout,                 \
                             const int32_t *index, T *dx)                      \
    {                                                                          \
        for (size_t s = j->seqs.lo; s < j->seqs.hi; s++) {                     \
            size_t lo = (size_t)j->off[s], hi = (size_t)j->off[s + 1];         \
            const T *g = dout ? dout + s * j->width : NULL;                    \
                                                                               \
            if (lo == hi)                                                      \
                continue;                                                      \
            if (!g || j->type >= MAX) {                                        \
                back_one_##t(j, lo, hi, g,                                     \
                             index ? index + s * j->width : NULL, dx);         \
                continue;                                                      \
            }                                                                  \
            for (size_t i = lo; i < hi; i++)                                   \
                fl_vec_##t()->scale(dx + i * j->width,                         \
                                    (T)factor(j->type, hi - lo), g, 0,         \
                                    j->width);                                 \
        }                                                                      \
    }
FL_FLOATS(KERNELS)

static bool parse_type(const char *name, pool_type *out)
{
    for (size_t i = 0; i < FL_LEN(type_names); i++)
        if (!strcmp(type_names[i], name)) {
            *out = (pool_type)i;
            return true;
        }
    return false;
}

static void infer_max_index(const fl_infer *c, pool_type type)
{
    const fl_tensor *out = fl_infer_out(c, OUT);
    fl_tensor *index = fl_infer_out(c, MAX_INDEX);

    if (!index)
        return;
    fl_tensor_like(index, out);
    index->dtype = FL_DTYPE_I32;
    if (type != MAX)
        fl_infer_dense(c, MAX_INDEX, FL_DTYPE_I32, 1, (int64_t[]){ 0 });
    /* A clone for test has the variables of its program: none of the rows. */
    else if (fl_bool(c, IS_TEST) && index->shape.rank > 0)
        index->shape.dim[0] = 0;
}

static fl_status sequence_pool_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    fl_tensor *out = fl_infer_out(c, OUT);
    char buf[FL_SLOT_TEXT_MAX];
    pool_type type;

    FL_TRY(fl_infer_float(c, X));
    if (!parse_type(fl_str_attr(c, POOLTYPE), &type))
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_pool: pooltype is %s; there are AVERAGE, SUM, "
                "SQRT, MAX, LAST and FIRST",
                fl_str_attr(c, POOLTYPE));
    FL_TRY(fl_infer_seqs(c, X));
    if (type == MAX && x->shape.dim[0] > INT32_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_pool: %s has too many rows for pooltype MAX",
                fl_infer_text(c, X, buf));
    fl_tensor_like(out, x);
    out->n_lod = x->n_lod - 1;
    out->kind = out->n_lod ? FL_KIND_RAGGED : FL_KIND_DENSE;
    out->shape.dim[0] = c->running ? x->lod_len[x->n_lod - 1] - 1 : -1;
    infer_max_index(c, type);
    return FL_OK;
}

static pool_job job_of(const fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X);
    int level = x->n_lod - 1;
    pool_job j = {
        .off = x->lod[level],
        .width = (size_t)fl_shape_count(&x->shape, 1, x->shape.rank),
        .pad = fl_float(c, PAD_VALUE),
        .seqs = fl_op_span(c, (size_t)x->lod_len[level] - 1),
    };

    FL_ASSERT(parse_type(fl_str_attr(c, POOLTYPE), &j.type));
    return j;
}

static fl_status sequence_pool_run(fl_op_ctx *c)
{
    pool_job j = job_of(c);
    bool indexed = j.type == MAX && !fl_bool(c, IS_TEST);

    FL_BY_FLOAT(c, X, forward, &j, fl_in(c, X), fl_out(c, OUT),
                indexed ? fl_out(c, MAX_INDEX) : NULL);
    return FL_OK;
}

static fl_status sequence_pool_back_infer(fl_infer *c)
{
    const fl_tensor *index =
        fl_infer_in(c, fl_op_n_in(c->node->def) + MAX_INDEX);

    if (!strcmp(fl_str_attr(c, POOLTYPE), "MAX") &&
        (!index || fl_bool(c, IS_TEST)))
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_pool_grad: MaxIndex of sequence_pool was left "
                "out");
    return FL_OK;
}

static fl_status sequence_pool_back(fl_op_ctx *c)
{
    pool_job j = job_of(c);

    if (fl_din_t(c, X))
        FL_BY_FLOAT(c, X, backward, &j, fl_dout(c, OUT),
                    fl_saved_out(c, MAX_INDEX), fl_din(c, X));
    return FL_OK;
}

static const fl_op_case sequence_pool_cases[] = {
    { .in = { "f32[7,5] lod=[0,2,2,7]" }, .attrs = "{pooltype=SUM}" },
    { .in = { "f32[7,5] lod=[0,2,2,7]" },
      .attrs = "{pooltype=AVERAGE, pad_value=-0.5}" },
    { .in = { "f32[7,5] lod=[0,0,3,7]" }, .attrs = "{pooltype=SQRT}" },
    { .in = { "f32[7,5] lod=[0,2,7,7]" },
      .attrs = "{pooltype=MAX, pad_value=0.25}" },
    { .in = { "f32[7,5] lod=[0,2,2,7]" }, .attrs = "{pooltype=LAST}" },
    { .in = { "f32[7,5] lod=[0,2,2,7]" }, .attrs = "{pooltype=FIRST}" },
    { .in = { "f32[0,5] lod=[0,0,0]" }, .attrs = "{pooltype=MAX}" },
    { .in = { "f32[0,5] lod=[0]" }, .attrs = "{pooltype=AVERAGE}" },
    { .in = { "f32[5,2,3] lod=[0,1,5]" }, .attrs = "{pooltype=SQRT}" },
    { .in = { "f32[33,7] lod=[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,"
              "18,33]" },
      .attrs = "{pooltype=AVERAGE}" },
};

const fl_op fl_op_sequence_pool = {
    .name = "sequence_pool",
    .doc = "Out[s] = AVERAGE, SUM, SQRT (sum / sqrt(length)), MAX, LAST or "
           "FIRST over the rows of sequence s of the innermost level, "
           "pad_value for an empty one; outer offsets stay; MAX: MaxIndex is "
           "the row of X that was taken (-1: none), not filled when is_test",
    .in = { { "X", 0 } },
    .out = { { "Out", 0 }, { "MaxIndex", FL_OP_SLOT_BYPRODUCT } },
    .attrs = { { "pooltype", FL_ATTR_STRING, "AVERAGE" },
               { "pad_value", FL_ATTR_FLOAT, "0" },
               { "is_test", FL_ATTR_BOOL, "false" } },
    .flags = FL_OP_SLICED,
    .infer = sequence_pool_infer,
    .run = sequence_pool_run,
    .back = sequence_pool_back,
    .back_uses = FL_USES_OUT(MAX_INDEX),
    .back_infer = sequence_pool_back_infer,
    .cases = sequence_pool_cases,
    .n_cases = FL_LEN(sequence_pool_cases),
};
