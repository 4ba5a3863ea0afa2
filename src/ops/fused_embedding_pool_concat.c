/* fused_embedding_pool_concat.c - the sparse part of a CTR network in one go:
 * for every sample the pooled rows of each slot beside each other, and the
 * dense features beside them.
 *
 *     Out[i] = pool(W[Ids[a], sample i]) ... | X[b][i] ... , as `order` says
 *
 * W is any buffer of rows and Ids point into it: a parameter, rows pulled from
 * a table, rows that came over a wire. The loops walk sample by sample, so Out
 * is written once and in order, and ask for the rows of the next samples
 * ahead.
 */
#include <inttypes.h>

#include "base/thread.h"
#include "ops/helpers.h"
#include "ops/pool_concat.h"

enum { W, IDS, X };
enum { OUT };
enum { ORDER, POOLTYPE, PADDING_IDX, IS_SPARSE, V2 };

static const fl_pool_form form = { .ids = IDS,
                                   .x = X,
                                   .order = ORDER,
                                   .pooltype = POOLTYPE,
                                   .padding_idx = PADDING_IDX,
                                   .v2 = V2 };

/* Samples between the request for a row and its use: with some 26 slots about
   50 rows are on their way. */
#define AHEAD 2
#define LINE_BYTES 64

/* --- rows ----------------------------------------------------------------- */

/* Asks for the rows of sample i; a row of up to 64 bytes lies in one line or
   in two, of a longer one the processor fetches the rest itself. */
static inline void ask_ahead(const fl_pool_job *j, const void *w, size_t bytes,
                             size_t i)
{
    size_t reach = bytes < LINE_BYTES ? bytes - (bytes > 0) : LINE_BYTES;

    if (i >= j->batch)
        return;
    for (size_t s = 0; s < j->n_lookups; s++) {
        const fl_pool_lookup *l = &j->lookups[s];

        for (size_t k = fl_pool_lo(l, i); k < fl_pool_hi(l, i); k++) {
            const char *row = (const char *)w + l->ids[k] * bytes;

            __builtin_prefetch(row);
            __builtin_prefetch(row + reach);
        }
    }
}

#define KERNELS(T, t)                                                            \
    FL_RACY                                                                      \
    static void pool_##t(const fl_pool_job *j, const fl_pool_lookup *l,          \
                         const T *w, size_t i, T *out)                           \
    {                                                                            \
        size_t lo = fl_pool_lo(l, i), hi = fl_pool_hi(l, i);                     \
        bool first = true;                                                       \
                                                                                 \
        for (size_t k = lo; k < hi; k++) {                                       \
            if (fl_pool_is_padding(j, l->ids[k]))                                \
                continue;                                                        \
            if (first)                                                           \
                fl_row_copy_##t(out, w + l->ids[k] * j->dim, j->dim);            \
            else                                                                 \
                fl_row_add_##t(out, 1, w + l->ids[k] * j->dim, j->dim);          \
            first = false;                                                       \
        }                                                                        \
        if (first)                                                               \
            memset(out, 0, j->dim * sizeof(T));                                  \
        else if (fl_pool_factor(j->type, hi - lo) != 1)                          \
            fl_row_scale_##t(out, (T)fl_pool_factor(j->type, hi - lo), out,      \
                             j->dim);                                            \
    }                                                                            \
    FL_RACY                                                                      \
    static void gather_sample_##t(const fl_pool_job *j, const T *w, size_t i,    \
                                  T *out)                                        \
    {                                                                            \
        ask_ahead(j, w, j->dim * sizeof(T), i + AHEAD);                          \
        for (size_t s = 0; s < j->n_lookups; s++) {                              \
            const fl_pool_lookup *l = &j->lookups[s];                            \
                                                                                 \
            if (l->off || j->padded)                                             \
                pool_##t(j, l, w, i, out + l->col);                              \
            else                                                                 \
                fl_row_copy_##t(out + l->col, w + l->ids[i] * j->dim, j->dim);   \
        }                                                                        \
    }                                                                            \
    static void forward_##t(const fl_op_ctx *c, const fl_pool_job *j)            \
    {                                                                            \
        T *out = fl_out(c, OUT);                                                 \
                                                                                 \
        for (size_t i = 0; i < j->batch; i++, out += j->ld) {                    \
            gather_sample_##t(j, fl_in(c, W), i, out);                           \
            fl_pool_copy_dense(j, &c->in[X], i, out);                            \
        }                                                                        \
    }                                                                            \
    /* Rows and values in the order of samples, in a sample in that of         \
       `order`. */ \
    static void rows_back_##t(const fl_pool_job *j, const T *dout,               \
                              fl_tensor *dw)                                     \
    {                                                                            \
        T *value = dw->data;                                                     \
        size_t n = 0;                                                            \
                                                                                 \
        for (size_t i = 0; dout && i < j->batch; i++, dout += j->ld)             \
            for (size_t s = 0; s < j->n_lookups; s++) {                          \
                const fl_pool_lookup *l = &j->lookups[s];                        \
                size_t lo = fl_pool_lo(l, i), hi = fl_pool_hi(l, i);             \
                T a = (T)fl_pool_factor(j->type, hi - lo);                       \
                                                                                 \
                for (size_t k = lo; k < hi; k++) {                               \
                    if (fl_pool_is_padding(j, l->ids[k]))                        \
                        continue;                                                \
                    dw->rows[n] = l->ids[k];                                     \
                    fl_row_scale_##t(value + n++ * j->dim, a, dout + l->col,     \
                                     j->dim);                                    \
                }                                                                \
            }                                                                    \
        dw->shape.dim[0] = (int64_t)n;                                           \
        fl_tensor_set_merged(dw, n <= 1);                                        \
    }                                                                            \
    static void dense_back_##t(const fl_pool_job *j, const T *dout, T *dw)       \
    {                                                                            \
        for (size_t i = 0; i < j->batch; i++, dout += j->ld) {                   \
            ask_ahead(j, dw, j->dim * sizeof(T), i + AHEAD);                     \
            for (size_t s = 0; s < j->n_lookups; s++) {                          \
                const fl_pool_lookup *l = &j->lookups[s];                        \
                size_t lo = fl_pool_lo(l, i), hi = fl_pool_hi(l, i);             \
                T a = (T)fl_pool_factor(j->type, hi - lo);                       \
                                                                                 \
                for (size_t k = lo; k < hi; k++)                                 \
                    if (!fl_pool_is_padding(j, l->ids[k]))                       \
                        fl_row_add_##t(dw + l->ids[k] * j->dim, a,               \
                                       dout + l->col, j->dim);                   \
            }                                                                    \
        }                                                                        \
    }                                                                            \
    static void copy_back_##t(const fl_pool_job *j, const fl_pool_copy *x,       \
                              const T *dout, T *dx)                              \
    {                                                                            \
        for (size_t i = 0; i < j->batch; i++)                                    \
            memcpy(dx + i * x->width, dout + i * j->ld + x->col,                 \
                   x->width * sizeof(T));                                        \
    }
FL_FLOATS(KERNELS)

/* --- infer ---------------------------------------------------------------- */

static fl_status check_table(const fl_infer *c)
{
    const fl_shape *w = &fl_infer_in(c, W)->shape;
    int64_t padding = fl_int(c, PADDING_IDX);
    char buf[FL_SLOT_TEXT_MAX];

    if (w->rank != 2)
        FL_FAIL(FL_ERR_INVAL,
                "op fused_embedding_pool_concat: %s must have two dimensions",
                fl_infer_text(c, W, buf));
    if (padding < -1 || (w->dim[0] >= 0 && padding >= w->dim[0]))
        FL_FAIL(FL_ERR_INVAL,
                "op fused_embedding_pool_concat: padding_idx=%" PRId64
                " is neither -1 nor a row of %s",
                padding, fl_infer_text(c, W, buf));
    return FL_OK;
}

static fl_status fused_infer(fl_infer *c)
{
    const fl_tensor *w = fl_infer_in(c, W);

    FL_TRY(fl_infer_float(c, W));
    FL_TRY(check_table(c));
    return fl_pool_infer(c, &form, w->dtype, w->shape.dim[1]);
}

static fl_status fused_back_infer(fl_infer *c)
{
    fl_tensor *dw = fl_infer_out(c, W);
    int64_t height = fl_infer_in(c, W)->shape.dim[0];
    int64_t n = 0;

    if (!dw || !fl_bool(c, IS_SPARSE))
        return FL_OK;
    for (int i = 0; i < fl_infer_n_in(c, IDS) && n >= 0; i++) {
        int64_t ids = fl_shape_numel(&fl_infer_in_at(c, IDS, i)->shape);

        n = ids < 0 ? -1 : n + ids;
    }
    dw->kind = FL_KIND_ROWS;
    dw->height = height > 0 ? height : 0;
    dw->shape.dim[0] = n;
    return FL_OK;
}

/* --- run ------------------------------------------------------------------ */

static fl_status make_job(fl_op_ctx *c, fl_pool_job *j)
{
    return fl_pool_job_init(j, c, &form, (size_t)fl_in_t(c, W)->shape.dim[1]);
}

/* One test for all ids of a list; only a failure looks for the place. */
static fl_status check_range(const fl_tensor *ids, int list, uint64_t height)
{
    const uint64_t *id = fl_tensor_ids(ids);
    size_t n = (size_t)ids->shape.dim[0], at = 0;
    unsigned bad = 0;

    for (size_t i = 0; i < n; i++)
        bad |= id[i] >= height;
    if (!bad)
        return FL_OK;
    while (id[at] < height)
        at++;
    FL_FAIL(FL_ERR_INVAL,
            "Ids[%d]: id %" PRId64 " at place %zu is not below the height "
            "%" PRIu64 " of W",
            list, (int64_t)id[at], at, height);
}

static fl_status fused_run(fl_op_ctx *c)
{
    uint64_t height = (uint64_t)fl_in_t(c, W)->shape.dim[0];
    fl_pool_job j;

    for (int i = 0; i < fl_n_in(c, IDS); i++)
        FL_TRY(check_range(fl_in_at(c, IDS, i), i, height));
    FL_TRY(make_job(c, &j));
    FL_BY_FLOAT(c, W, forward, c, &j);
    return FL_OK;
}

static void back_w(const fl_op_ctx *c, const fl_pool_job *j, fl_tensor *dw)
{
    const void *dout = fl_dout(c, OUT);

    if (dw->kind == FL_KIND_ROWS) {
        FL_BY_FLOAT(c, W, rows_back, j, dout, dw);
        return;
    }
    fl_share_zero(c, dw);
    if (dout)
        FL_BY_FLOAT(c, W, dense_back, j, dout, dw->data);
}

static void back_x(const fl_op_ctx *c, const fl_pool_job *j,
                   const fl_pool_copy *x)
{
    fl_tensor *dx = fl_din_at(c, X, x->from);

    if (!dx)
        return;
    if (fl_dout_t(c, OUT))
        FL_BY_FLOAT(c, W, copy_back, j, x, fl_dout(c, OUT), dx->data);
    else
        fl_share_zero(c, dx);
}

static fl_status fused_back(fl_op_ctx *c)
{
    fl_pool_job j;

    FL_TRY(make_job(c, &j));
    if (fl_din_t(c, W))
        back_w(c, &j, fl_din_t(c, W));
    for (size_t i = 0; i < j.n_copies; i++)
        back_x(c, &j, &j.copies[i]);
    return FL_OK;
}

static const fl_op_case fused_cases[] = {
    { .in = { "f32[17,5]", "i64[7,1] lod=[0,2,2,7] below=17;"
                           "i64[3,1] lod=[0,1,2,3] below=17;"
                           "i64[3,1] below=17" },
      .attrs = "{order=[0,1,2]}" },
    { .in = { "f32[17,4]", "i64[7,1] lod=[0,2,2,7] below=17;u64[3,1] below=17",
              "f32[3,2];f32[3,7]" },
      .attrs = "{order=[-2,1,-1,0], pooltype=AVERAGE, is_sparse=true}" },
    { .in = { "f32[4,3]", "i64[9,1] lod=[0,2,2,9] below=4;i64[3,1] below=4",
              "f32[3,2]" },
      .attrs = "{order=[1,0,-1], pooltype=SQRT, padding_idx=2, "
               "is_sparse=true}" },
    { .in = { "f32[4,3]", "i64[9,1] lod=[0,2,2,9] below=4;i64[3,1] below=4" },
      .attrs = "{order=[1,0], pooltype=AVERAGE, padding_idx=0}" },
    { .in = { "f32[33,7]",
              "i64[33] below=33;u64[40] lod=[0,9,9,10,11,12,13,"
              "14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,"
              "30,31,32,33,34,35,36,37,38,39,40] below=33",
              "f32[33,1]" },
      .attrs = "{order=[0,-1,1], v2=true, is_sparse=true}" },
    { .in = { "f32[17,5]", "i64[0,1] lod=[0] below=17;i64[0,1] below=17",
              "f32[0,3]" },
      .attrs = "{order=[0,1,-1], is_sparse=true}" },
    { .in = { "f32[17,5]", "i64[0,1] lod=[0,0,0] below=17" },
      .attrs = "{order=[0]}" },
};

const fl_op fl_op_fused_embedding_pool_concat = {
    .name = "fused_embedding_pool_concat",
    .doc = "Out[i] = the pieces of sample i beside each other, as order says: "
           "entry e >= 0 is SUM, AVERAGE or SQRT (sum / sqrt(count)) of the "
           "rows W[Ids[e]] of the sample (zeros without ids), entry -1-j is "
           "X[j][i]; the id padding_idx (-1: none) gives zeros and gets no "
           "gradient; is_sparse makes the gradient of W rows + values; v2 "
           "takes ids of shape [n], else they are [n,1]",
    .in = { { "W", 0 },
            { "Ids", FL_OP_SLOT_LIST | FL_SLOT_NO_GRAD },
            { "X", FL_OP_SLOT_LIST | FL_OP_SLOT_OPTIONAL } },
    .out = { { "Out", 0 } },
    .attrs = { { "order", FL_ATTR_INTS, "[]" },
               { "pooltype", FL_ATTR_STRING, "SUM" },
               { "padding_idx", FL_ATTR_INT, "-1" },
               { "is_sparse", FL_ATTR_BOOL, "false" },
               { "v2", FL_ATTR_BOOL, "false" } },
    .infer = fused_infer,
    .run = fused_run,
    .back = fused_back,
    .back_uses = FL_USES_IN(IDS),
    .back_infer = fused_back_infer,
    .cases = fused_cases,
    .n_cases = FL_LEN(fused_cases),
};
