/* fused_embedding_pool_concat.c - the sparse part of a CTR network in one go:
 * for every sample the pooled rows of each slot beside each other, and the
 * dense features beside them.
 *
 *     Out[i] = pool(W[Ids[a], sample i]) ... | X[b][i] ... , as `order` says
 *
 * W is any buffer of rows and Ids point into it: a parameter, rows pulled from
 * a table, rows that came over a wire. The loops walk sample by sample, so Out
 * is written once and in order, and ask for the rows of the next samples
 * ahead. A slot with exactly one id in every sample, the usual case, takes
 * a path without offsets and without sums.
 */
#include <inttypes.h>
#include <math.h>

#include "base/thread.h"
#include "ops/helpers.h"
#include "ops/kit.h"

enum { W, IDS, X };
enum { OUT };
enum { ORDER, POOLTYPE, PADDING_IDX, IS_SPARSE, V2 };

/* Samples between the request for a row and its use: with some 26 slots about
   50 rows are on their way. */
#define AHEAD 2
#define LINE_BYTES 64

typedef enum pool_type { SUM, AVERAGE, SQRT } pool_type;

/* A column range of Out that is pooled from W. */
typedef struct lookup {
    const uint64_t *ids;
    const int64_t *off; /* NULL: one id per sample */
    size_t col;
} lookup;

/* A column range of Out that is X[from]. */
typedef struct copy {
    int from;
    size_t col, width;
} copy;

typedef struct fused_job {
    lookup *lookups;
    copy *copies;
    size_t n_lookups, n_copies;
    size_t batch, dim, ld; /* ld: columns of Out */
    pool_type type;
    bool padded;
    uint64_t padding;
} fused_job;

/* --- rows ----------------------------------------------------------------- */

/* Four numbers at a time; written out so that no compiler makes a call of
   memcpy from it, which costs more than a short row. */
typedef float quad_f32 __attribute__((vector_size(16), aligned(4), may_alias));
typedef double quad_f64 __attribute__((vector_size(32), aligned(8), may_alias));

/* What the sum of n rows is multiplied with. */
static double factor(pool_type type, size_t n)
{
    if (n <= 1 || type == SUM)
        return 1;
    return type == AVERAGE ? 1 / (double)n : 1 / sqrt((double)n);
}

static inline size_t seq_lo(const lookup *l, size_t i)
{
    return l->off ? (size_t)l->off[i] : i;
}

static inline size_t seq_hi(const lookup *l, size_t i)
{
    return l->off ? (size_t)l->off[i + 1] : i + 1;
}

static inline bool is_padding(const fused_job *j, uint64_t id)
{
    return j->padded && id == j->padding;
}

/* Asks for the rows of sample i; a row of up to 64 bytes lies in one line or
   in two, of a longer one the processor fetches the rest itself. */
static inline void ask_ahead(const fused_job *j, const void *w, size_t bytes,
                             size_t i)
{
    size_t reach = bytes < LINE_BYTES ? bytes - (bytes > 0) : LINE_BYTES;

    if (i >= j->batch)
        return;
    for (size_t s = 0; s < j->n_lookups; s++) {
        const lookup *l = &j->lookups[s];

        for (size_t k = seq_lo(l, i); k < seq_hi(l, i); k++) {
            const char *row = (const char *)w + l->ids[k] * bytes;

            __builtin_prefetch(row);
            __builtin_prefetch(row + reach);
        }
    }
}

#define KERNELS(T, t)                                                            \
    static inline __attribute__((always_inline)) void copy_row_##t(              \
        T *out, const T *row, size_t dim)                                        \
    {                                                                            \
        size_t d = 0;                                                            \
                                                                                 \
        for (; d + 4 <= dim; d += 4)                                             \
            *(quad_##t *)(out + d) = *(const quad_##t *)(row + d);               \
        for (; d < dim; d++)                                                     \
            out[d] = row[d];                                                     \
    }                                                                            \
    /* out += a * row */                                                         \
    static inline __attribute__((always_inline)) void add_row_##t(               \
        T *out, T a, const T *row, size_t dim)                                   \
    {                                                                            \
        size_t d = 0;                                                            \
                                                                                 \
        for (; d + 4 <= dim; d += 4)                                             \
            *(quad_##t *)(out + d) += a * *(const quad_##t *)(row + d);          \
        for (; d < dim; d++)                                                     \
            out[d] += a * row[d];                                                \
    }                                                                            \
    static inline void scale_row_##t(T *out, T a, const T *row, size_t dim)      \
    {                                                                            \
        size_t d = 0;                                                            \
                                                                                 \
        for (; d + 4 <= dim; d += 4)                                             \
            *(quad_##t *)(out + d) = a * *(const quad_##t *)(row + d);           \
        for (; d < dim; d++)                                                     \
            out[d] = a * row[d];                                                 \
    }                                                                            \
    FL_RACY                                                                      \
    static void pool_##t(const fused_job *j, const lookup *l, const T *w,        \
                         size_t i, T *out)                                       \
    {                                                                            \
        size_t lo = seq_lo(l, i), hi = seq_hi(l, i);                             \
        bool first = true;                                                       \
                                                                                 \
        for (size_t k = lo; k < hi; k++) {                                       \
            if (is_padding(j, l->ids[k]))                                        \
                continue;                                                        \
            if (first)                                                           \
                copy_row_##t(out, w + l->ids[k] * j->dim, j->dim);               \
            else                                                                 \
                add_row_##t(out, 1, w + l->ids[k] * j->dim, j->dim);             \
            first = false;                                                       \
        }                                                                        \
        if (first)                                                               \
            memset(out, 0, j->dim * sizeof(T));                                  \
        else if (factor(j->type, hi - lo) != 1)                                  \
            scale_row_##t(out, (T)factor(j->type, hi - lo), out, j->dim);        \
    }                                                                            \
    FL_RACY                                                                      \
    static void gather_sample_##t(const fused_job *j, const T *w, size_t i,      \
                                  T *out)                                        \
    {                                                                            \
        ask_ahead(j, w, j->dim * sizeof(T), i + AHEAD);                          \
        for (size_t s = 0; s < j->n_lookups; s++) {                              \
            const lookup *l = &j->lookups[s];                                    \
                                                                                 \
            if (l->off || j->padded)                                             \
                pool_##t(j, l, w, i, out + l->col);                              \
            else                                                                 \
                copy_row_##t(out + l->col, w + l->ids[i] * j->dim, j->dim);      \
        }                                                                        \
    }                                                                            \
    static void forward_##t(const fl_op_ctx *c, const fused_job *j)              \
    {                                                                            \
        T *out = fl_out(c, OUT);                                                 \
                                                                                 \
        for (size_t i = 0; i < j->batch; i++, out += j->ld) {                    \
            gather_sample_##t(j, fl_in(c, W), i, out);                           \
            for (size_t s = 0; s < j->n_copies; s++) {                           \
                const copy *x = &j->copies[s];                                   \
                const T *from = fl_in_at(c, X, x->from)->data;                   \
                                                                                 \
                memcpy(out + x->col, from + i * x->width,                        \
                       x->width * sizeof(T));                                    \
            }                                                                    \
        }                                                                        \
    }                                                                            \
    /* Rows and values in the order of samples, in a sample in that of         \
       `order`. */ \
    static void rows_back_##t(const fused_job *j, const T *dout,                 \
                              fl_tensor *dw)                                     \
    {                                                                            \
        T *value = dw->data;                                                     \
        size_t n = 0;                                                            \
                                                                                 \
        for (size_t i = 0; dout && i < j->batch; i++, dout += j->ld)             \
            for (size_t s = 0; s < j->n_lookups; s++) {                          \
                const lookup *l = &j->lookups[s];                                \
                size_t lo = seq_lo(l, i), hi = seq_hi(l, i);                     \
                T a = (T)factor(j->type, hi - lo);                               \
                                                                                 \
                for (size_t k = lo; k < hi; k++) {                               \
                    if (is_padding(j, l->ids[k]))                                \
                        continue;                                                \
                    dw->rows[n] = l->ids[k];                                     \
                    scale_row_##t(value + n++ * j->dim, a, dout + l->col,        \
                                  j->dim);                                       \
                }                                                                \
            }                                                                    \
        dw->shape.dim[0] = (int64_t)n;                                           \
        fl_tensor_set_merged(dw, n <= 1);                                        \
    }                                                                            \
    static void dense_back_##t(const fused_job *j, const T *dout, T *dw)         \
    {                                                                            \
        for (size_t i = 0; i < j->batch; i++, dout += j->ld) {                   \
            ask_ahead(j, dw, j->dim * sizeof(T), i + AHEAD);                     \
            for (size_t s = 0; s < j->n_lookups; s++) {                          \
                const lookup *l = &j->lookups[s];                                \
                size_t lo = seq_lo(l, i), hi = seq_hi(l, i);                     \
                T a = (T)factor(j->type, hi - lo);                               \
                                                                                 \
                for (size_t k = lo; k < hi; k++)                                 \
                    if (!is_padding(j, l->ids[k]))                               \
                        add_row_##t(dw + l->ids[k] * j->dim, a, dout + l->col,   \
                                    j->dim);                                     \
            }                                                                    \
        }                                                                        \
    }                                                                            \
    static void copy_back_##t(const fused_job *j, const copy *x,                 \
                              const T *dout, T *dx)                              \
    {                                                                            \
        for (size_t i = 0; i < j->batch; i++)                                    \
            memcpy(dx + i * x->width, dout + i * j->ld + x->col,                 \
                   x->width * sizeof(T));                                        \
    }
FL_FLOATS(KERNELS)

/* --- infer ---------------------------------------------------------------- */

static bool parse_type(const char *name, pool_type *out)
{
    static const char *const names[] = { "SUM", "AVERAGE", "SQRT" };

    for (size_t i = 0; i < FL_LEN(names); i++)
        if (!strcmp(names[i], name)) {
            *out = (pool_type)i;
            return true;
        }
    return false;
}

/* Every entry of Ids and of X stands in `order` once. */
static fl_status check_order(const fl_infer *c)
{
    int64_t n_ids = fl_infer_n_in(c, IDS), n_x = fl_infer_n_in(c, X);
    size_t n;
    const int64_t *order = fl_attr_ints(c->node, ORDER, &n);

    if ((int64_t)n != n_ids + n_x)
        FL_FAIL(FL_ERR_INVAL,
                "op fused_embedding_pool_concat: order has %zu entries for "
                "%" PRId64 " Ids and %" PRId64 " X",
                n, n_ids, n_x);
    for (size_t i = 0; i < n; i++) {
        if (order[i] >= n_ids || order[i] < -n_x)
            FL_FAIL(FL_ERR_INVAL,
                    "op fused_embedding_pool_concat: entry %" PRId64
                    " of order names no input",
                    order[i]);
        for (size_t k = 0; k < i; k++)
            if (order[k] == order[i])
                FL_FAIL(FL_ERR_INVAL,
                        "op fused_embedding_pool_concat: order names %" PRId64
                        " twice",
                        order[i]);
    }
    return FL_OK;
}

static fl_status check_attrs(const fl_infer *c)
{
    const fl_shape *w = &fl_infer_in(c, W)->shape;
    int64_t padding = fl_int(c, PADDING_IDX);
    char buf[FL_SLOT_TEXT_MAX];
    pool_type type;

    if (!parse_type(fl_str_attr(c, POOLTYPE), &type))
        FL_FAIL(FL_ERR_INVAL,
                "op fused_embedding_pool_concat: pooltype is %s; there are "
                "SUM, AVERAGE and SQRT",
                fl_str_attr(c, POOLTYPE));
    if (w->rank != 2)
        FL_FAIL(FL_ERR_INVAL,
                "op fused_embedding_pool_concat: %s must have two dimensions",
                fl_infer_text(c, W, buf));
    if (padding < -1 || (w->dim[0] >= 0 && padding >= w->dim[0]))
        FL_FAIL(FL_ERR_INVAL,
                "op fused_embedding_pool_concat: padding_idx=%" PRId64
                " is neither -1 nor a row of %s",
                padding, fl_infer_text(c, W, buf));
    return check_order(c);
}

static fl_status check_ids(const fl_infer *c, int i)
{
    const fl_tensor *t = fl_infer_in_at(c, IDS, i);
    bool fits = fl_bool(c, V2) ? t->shape.rank == 1
                               : t->shape.rank == 2 && t->shape.dim[1] == 1;
    char buf[FL_SLOT_TEXT_MAX];

    if (t->dtype != FL_DTYPE_I64 && t->dtype != FL_DTYPE_U64)
        FL_FAIL(FL_ERR_INVAL,
                "op fused_embedding_pool_concat: %s must be i64 or u64",
                fl_infer_text_at(c, IDS, i, buf));
    if (!fits || t->n_lod > 1)
        FL_FAIL(FL_ERR_INVAL,
                "op fused_embedding_pool_concat: %s must have the shape %s "
                "and at most one level of offsets",
                fl_infer_text_at(c, IDS, i, buf),
                fl_bool(c, V2) ? "[n]" : "[n,1]");
    return FL_OK;
}

static fl_status check_x(const fl_infer *c, int i)
{
    const fl_tensor *t = fl_infer_in_at(c, X, i);
    char buf[FL_SLOT_TEXT_MAX];

    if (t->dtype != fl_infer_in(c, W)->dtype || t->shape.rank != 2)
        FL_FAIL(FL_ERR_INVAL,
                "op fused_embedding_pool_concat: %s must have two dimensions "
                "and the type of W, %s",
                fl_infer_text_at(c, X, i, buf),
                fl_dtype_text(fl_infer_in(c, W)->dtype));
    return FL_OK;
}

/* The number of samples of one input; -1 when it is not known yet. */
static int64_t samples_of(const fl_infer *c, int slot, int i)
{
    const fl_tensor *t = fl_infer_in_at(c, slot, i);

    if (slot == X || t->n_lod == 0)
        return t->shape.dim[0];
    return c->running ? t->lod_len[0] - 1 : -1;
}

/* Checks the inputs of one slot and makes their batches one. */
static fl_status check_slot(const fl_infer *c, int slot, int64_t *batch)
{
    char buf[FL_SLOT_TEXT_MAX];

    for (int i = 0; i < fl_infer_n_in(c, slot); i++) {
        int64_t n;

        FL_TRY(slot == IDS ? check_ids(c, i) : check_x(c, i));
        n = samples_of(c, slot, i);
        if (*batch >= 0 && n >= 0 && *batch != n)
            FL_FAIL(FL_ERR_INVAL,
                    "op fused_embedding_pool_concat: %s has %" PRId64
                    " samples, others have %" PRId64,
                    fl_infer_text_at(c, slot, i, buf), n, *batch);
        if (n >= 0)
            *batch = n;
    }
    return FL_OK;
}

static fl_status fused_infer(fl_infer *c)
{
    const fl_tensor *w = fl_infer_in(c, W);
    int64_t out[] = { -1, 0 };
    bool known;

    FL_TRY(fl_infer_float(c, W));
    FL_TRY(check_attrs(c));
    FL_TRY(check_slot(c, IDS, &out[0]));
    FL_TRY(check_slot(c, X, &out[0]));
    known = w->shape.dim[1] >= 0;
    out[1] = w->shape.dim[1] * fl_infer_n_in(c, IDS);
    for (int i = 0; i < fl_infer_n_in(c, X); i++) {
        int64_t width = fl_infer_in_at(c, X, i)->shape.dim[1];

        known = known && width >= 0;
        out[1] += width;
    }
    if (!known)
        out[1] = -1;
    fl_infer_dense(c, OUT, w->dtype, 2, out);
    return FL_OK;
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

/* Offsets 0, 1, 2, ...: every sample has exactly one id. */
static bool one_each(const fl_tensor *ids, size_t batch)
{
    int64_t differ = 0;

    if ((size_t)ids->shape.dim[0] != batch)
        return false;
    for (size_t i = 0; i <= batch; i++)
        differ |= ids->lod[0][i] ^ (int64_t)i;
    return differ == 0;
}

static lookup lookup_of(const fl_tensor *ids, size_t batch, size_t col)
{
    bool one = ids->n_lod == 0 || one_each(ids, batch);

    return (lookup){ .ids = fl_tensor_ids(ids),
                     .off = one ? NULL : ids->lod[0],
                     .col = col };
}

static size_t batch_of(const fl_tensor *ids)
{
    return (size_t)(ids->n_lod ? ids->lod_len[0] - 1 : ids->shape.dim[0]);
}

/* Lays the inputs out along the columns of Out. */
static void lay_out(const fl_op_ctx *c, fused_job *j)
{
    size_t n;
    const int64_t *order = fl_attr_ints(c->node, ORDER, &n);

    for (size_t i = 0; i < n; i++) {
        const fl_tensor *x;

        if (order[i] >= 0) {
            j->lookups[j->n_lookups++] =
                lookup_of(fl_in_at(c, IDS, (int)order[i]), j->batch, j->ld);
            j->ld += j->dim;
            continue;
        }
        x = fl_in_at(c, X, (int)(-1 - order[i]));
        j->copies[j->n_copies++] = (copy){ .from = (int)(-1 - order[i]),
                                           .col = j->ld,
                                           .width = (size_t)x->shape.dim[1] };
        j->ld += (size_t)x->shape.dim[1];
    }
}

static fl_status make_job(fl_op_ctx *c, fused_job *j)
{
    size_t n_ids = (size_t)fl_n_in(c, IDS), n_x = (size_t)fl_n_in(c, X);

    *j = (fused_job){ .batch = batch_of(fl_in_t(c, IDS)),
                      .dim = (size_t)fl_in_t(c, W)->shape.dim[1],
                      .padded = fl_int(c, PADDING_IDX) >= 0,
                      .padding = (uint64_t)fl_int(c, PADDING_IDX) };
    FL_ASSERT(parse_type(fl_str_attr(c, POOLTYPE), &j->type));
    j->lookups = fl_scratch(c, (n_ids + 1) * sizeof(*j->lookups));
    j->copies = fl_scratch(c, (n_x + 1) * sizeof(*j->copies));
    if (!j->lookups || !j->copies)
        return FL_NOMEM(c);
    lay_out(c, j);
    return FL_OK;
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
    fused_job j;

    for (int i = 0; i < fl_n_in(c, IDS); i++)
        FL_TRY(check_range(fl_in_at(c, IDS, i), i, height));
    FL_TRY(make_job(c, &j));
    FL_BY_FLOAT(c, W, forward, c, &j);
    return FL_OK;
}

static void back_w(const fl_op_ctx *c, const fused_job *j, fl_tensor *dw)
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

static void back_x(const fl_op_ctx *c, const fused_job *j, const copy *x)
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
    fused_job j;

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
