/* data_norm.c - columns normalised by what was counted of all batches so far.
 *
 *     mean = BatchSum / BatchSize, scale = sqrt(BatchSize / BatchSquareSum)
 *     Y = (X - mean) scale, and with scale and shift scale_w Y + bias
 *
 * The three summaries are no parameters: they are counted in the process that
 * trains. data_norm_count takes the numbers of a batch; data_norm_add, which
 * runs with the updates, adds them, so that replicas add theirs together and
 * all of them read the same summaries before. What 1.8.5 calls the gradients
 * of the summaries are these numbers too.
 *
 * With slot_dim columns come in slots of so many, the first of each the number
 * of shows: a slot that was not shown in a row gives zeros, no gradient, and is
 * not counted there.
 */
#include <math.h>

#include "base/thread.h"
#include "ops/helpers.h"

enum { X, BATCH_SIZE, BATCH_SUM, BATCH_SQUARE_SUM, SCALE_W, BIAS };
enum { Y, MEANS, SCALES };
enum {
    EPSILON,
    SLOT_DIM,
    SUMMARY_DECAY_RATE,
    ENABLE_SCALE_AND_SHIFT,
    DATA_LAYOUT,
    SYNC_STATS
};

/* Shows below this are none. */
#define SHOW_MIN 1e-7

#define EPSILON_MAX 1e-3

typedef struct norm_job {
    size_t rows, width;
    size_t slot; /* columns of one; 0: there are no slots */
    double epsilon;
    fl_span s; /* rows or columns of this call */
} norm_job;

/* By column: what normalises it, w and b with scale and shift alone. */
typedef struct columns {
    const void *mean, *scale, *w, *b;
} columns;

/* Columns that are shown together, or not, in a row: [lo, hi). */
typedef struct col_run {
    size_t lo, hi;
    bool shown;
} col_run;

#define FIRST_RUN(s) ((col_run){ .hi = (s).lo })

#define KERNELS(T, t)                                                            \
    static bool next_run_##t(const norm_job *j, const T *row, size_t end,        \
                             col_run *r)                                         \
    {                                                                            \
        r->lo = r->hi;                                                           \
        if (r->lo >= end)                                                        \
            return false;                                                        \
        r->hi = j->slot ? r->lo + j->slot : end;                                 \
        r->shown = !j->slot || fabs((double)row[r->lo]) >= SHOW_MIN;             \
        return true;                                                             \
    }                                                                            \
    /* *bad becomes the first place whose summaries are none, or their number. \
       Threads read them while others add. */ \
    FL_RACY static void measure_##t(const fl_op_ctx *c, T *means, T *scales,     \
                                    size_t *bad)                                 \
    {                                                                            \
        const T *size = fl_in(c, BATCH_SIZE), *sum = fl_in(c, BATCH_SUM);        \
        const T *square = fl_in(c, BATCH_SQUARE_SUM);                            \
        size_t n = (size_t)fl_tensor_numel(fl_in_t(c, BATCH_SIZE));              \
                                                                                 \
        for (*bad = 0; *bad < n; *bad += 1) {                                    \
            size_t i = *bad;                                                     \
                                                                                 \
            if (!(size[i] > 0 && square[i] > 0))                                 \
                return;                                                          \
            means[i] = sum[i] / size[i];                                         \
            scales[i] = (T)sqrt((double)size[i] / (double)square[i]);            \
        }                                                                        \
    }                                                                            \
    static void forward_row_##t(const norm_job *j, const columns *by,            \
                                const T *x, T *y)                                \
    {                                                                            \
        const T *mean = by->mean, *scale = by->scale, *w = by->w, *b = by->b;    \
        col_run r = { 0 };                                                       \
                                                                                 \
        while (next_run_##t(j, x, j->width, &r))                                 \
            for (size_t i = r.lo; i < r.hi; i++) {                               \
                T v = (x[i] - mean[i]) * scale[i];                               \
                                                                                 \
                y[i] = r.shown ? (w ? v * w[i] + b[i] : v) : 0;                  \
            }                                                                    \
    }                                                                            \
    static void forward_##t(const norm_job *j, const columns *by, const T *x,    \
                            T *y)                                                \
    {                                                                            \
        for (size_t r = j->s.lo; r < j->s.hi; r++)                               \
            forward_row_##t(j, by, x + r * j->width, y + r * j->width);          \
    }                                                                            \
    static void back_row_##t(const norm_job *j, const columns *by, const T *x,   \
                             const T *dy, T *dx)                                 \
    {                                                                            \
        const T *scale = by->scale, *w = by->w;                                  \
        col_run r = { 0 };                                                       \
                                                                                 \
        while (next_run_##t(j, x, j->width, &r))                                 \
            for (size_t i = r.lo; i < r.hi; i++)                                 \
                dx[i] = r.shown ? dy[i] * scale[i] * (w ? w[i] : 1) : 0;         \
    }                                                                            \
    static void backward_##t(const norm_job *j, const columns *by, const T *x,   \
                             const T *dy, T *dx)                                 \
    {                                                                            \
        for (size_t r = j->s.lo; r < j->s.hi; r++)                               \
            back_row_##t(j, by, x + r * j->width, dy + r * j->width,             \
                         dx + r * j->width);                                     \
    }                                                                            \
    /* One row's part of the gradients of scale_w and bias. */                   \
    static void shift_row_##t(const norm_job *j, const columns *by,              \
                              const T *x, const T *dy, T *const to[2])           \
    {                                                                            \
        const T *mean = by->mean, *scale = by->scale;                            \
        col_run r = FIRST_RUN(j->s);                                             \
                                                                                 \
        while (next_run_##t(j, x, j->s.hi, &r))                                  \
            for (size_t i = r.lo; r.shown && i < r.hi; i++) {                    \
                if (to[0])                                                       \
                    to[0][i] += dy[i] * (x[i] - mean[i]) * scale[i];             \
                if (to[1])                                                       \
                    to[1][i] += dy[i];                                           \
            }                                                                    \
    }                                                                            \
    static void shift_back_##t(const fl_op_ctx *c, const norm_job *j,            \
                               const columns *by)                                \
    {                                                                            \
        const T *x = fl_in(c, X), *dy = fl_dout(c, Y);                           \
        T *const to[] = { fl_din(c, SCALE_W), fl_din(c, BIAS) };                 \
                                                                                 \
        for (size_t r = 0; r < j->rows; r++)                                     \
            shift_row_##t(j, by, x + r * j->width, dy + r * j->width, to);       \
    }                                                                            \
    static void count_row_##t(const norm_job *j, const T *x, const T *mean,      \
                              T *const to[3])                                    \
    {                                                                            \
        col_run r = FIRST_RUN(j->s);                                             \
                                                                                 \
        while (next_run_##t(j, x, j->s.hi, &r))                                  \
            for (size_t i = r.lo; r.shown && i < r.hi; i++) {                    \
                T d = x[i] - mean[i];                                            \
                                                                                 \
                to[0][i] += 1;                                                   \
                to[1][i] += x[i];                                                \
                to[2][i] += d * d;                                               \
            }                                                                    \
    }                                                                            \
    /* The numbers of a batch: how many, their sum, the sum of the squares of  \
       what they differ from the mean, a little added for each. Slots count    \
       as one row of their means. */ \
    static void count_##t(const norm_job *j, const T *x, const T *mean,          \
                          void *const out[3])                                    \
    {                                                                            \
        T *const to[] = { out[0], out[1], out[2] };                              \
                                                                                 \
        for (size_t r = 0; r < j->rows; r++)                                     \
            count_row_##t(j, x + r * j->width, mean, to);                        \
        for (size_t i = j->s.lo; i < j->s.hi; i++) {                             \
            T n = to[0][i];                                                      \
                                                                                 \
            if (j->slot && n > 0) {                                              \
                to[1][i] /= n;                                                   \
                to[2][i] /= n;                                                   \
                to[0][i] = 1;                                                    \
            }                                                                    \
            to[2][i] += n * (T)j->epsilon;                                       \
        }                                                                        \
    }                                                                            \
    /* Threads without locks: of two batches at one time one may be lost. */     \
    FL_RACY static void add_##t(fl_span s, double decay, const T *from,          \
                                const T *batch, T *to)                           \
    {                                                                            \
        for (size_t i = s.lo; i < s.hi; i++)                                     \
            to[i] = from[i] * (T)decay + batch[i];                               \
    }
FL_FLOATS(KERNELS)

/* --- what the operators share --------------------------------------------- */

static fl_status check_attrs(const fl_infer *c, int epsilon, int slot_dim)
{
    const fl_tensor *x = fl_infer_in(c, X);
    double e = fl_float(c, epsilon);
    int64_t slot = fl_int(c, slot_dim);
    char buf[FL_SLOT_TEXT_MAX];

    if (c->running ? x->shape.rank != 2 : x->shape.rank < 2)
        FL_FAIL(FL_ERR_INVAL, "op %s: %s must have two dimensions",
                c->node->def->name, fl_infer_text(c, X, buf));
    if (!(e > 0 && e < EPSILON_MAX))
        FL_FAIL(FL_ERR_INVAL, "op %s: epsilon=%g is not between 0 and %g",
                c->node->def->name, e, EPSILON_MAX);
    if (slot > 0 && x->shape.dim[1] >= 0 && x->shape.dim[1] % slot)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: slot_dim=%lld does not divide the columns of %s",
                c->node->def->name, (long long)slot, fl_infer_text(c, X, buf));
    return FL_OK;
}

static fl_status check_per_column(const fl_infer *c, int slot)
{
    int64_t width = fl_infer_in(c, X)->shape.dim[1];
    const fl_tensor *t = fl_infer_in(c, slot);
    char tx[FL_SLOT_TEXT_MAX], ts[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_same_dtype(c, X, slot));
    if (t && !fl_shape_matches(&t->shape, &(fl_shape){ 1, { width } }))
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s must have one number for each column of %s",
                c->node->def->name, fl_infer_text(c, slot, ts),
                fl_infer_text(c, X, tx));
    return FL_OK;
}

static norm_job job_of(const fl_op_ctx *c, int64_t slot, double epsilon)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;

    return (norm_job){ .rows = (size_t)x->dim[0],
                       .width = (size_t)x->dim[1],
                       .slot = slot > 0 ? (size_t)slot : 0,
                       .epsilon = epsilon };
}

/* A call that has columns has whole slots. */
static fl_span columns_of(const fl_op_ctx *c, const norm_job *j)
{
    return fl_op_blocks(c, j->width, j->slot ? j->slot : 16);
}

/* This call's columns of `t` become 0. */
static void zero_columns(const norm_job *j, fl_tensor *t)
{
    size_t bytes = t ? fl_dtype_bytes(t->dtype) : 0;

    if (t && j->s.lo < j->s.hi)
        memset((char *)t->data + j->s.lo * bytes, 0,
               (j->s.hi - j->s.lo) * bytes);
}

static void count_batch(const fl_op_ctx *c, norm_job *j, const fl_tensor *means,
                        fl_tensor *const to[3])
{
    void *const data[] = { to[0]->data, to[1]->data, to[2]->data };

    j->s = columns_of(c, j);
    for (int i = 0; i < 3; i++)
        zero_columns(j, to[i]);
    FL_BY_DTYPE(means->dtype, count, j, fl_in(c, X), means->data, data);
}

/* --- data_norm ------------------------------------------------------------ */

static fl_status check_shift(const fl_infer *c)
{
    bool has_both = fl_infer_in(c, SCALE_W) && fl_infer_in(c, BIAS);

    if (fl_bool(c, ENABLE_SCALE_AND_SHIFT) && !has_both)
        FL_FAIL(FL_ERR_INVAL, "op data_norm: scale_w and bias are there when "
                              "enable_scale_and_shift is true");
    return FL_OK;
}

/* A feed may be of another type than its declaration, so that types are looked
   at when there is one. */
static fl_status infer_like(fl_infer *c, int in, int out)
{
    if (c->running)
        return fl_infer_same(c, in, out);
    if (fl_infer_out(c, out))
        fl_tensor_like(fl_infer_out(c, out), fl_infer_in(c, in));
    return FL_OK;
}

static fl_status data_norm_infer(fl_infer *c)
{
    FL_TRY(check_attrs(c, EPSILON, SLOT_DIM));
    FL_TRY(check_shift(c));
    for (int i = BATCH_SIZE; i <= BIAS; i++)
        FL_TRY(check_per_column(c, i));
    FL_TRY(infer_like(c, X, Y));
    FL_TRY(infer_like(c, BATCH_SIZE, MEANS));
    return infer_like(c, BATCH_SIZE, SCALES);
}

static norm_job norm_of(const fl_op_ctx *c)
{
    return job_of(c, fl_int(c, SLOT_DIM), fl_float(c, EPSILON));
}

static fl_status refuse_summary(const fl_op_ctx *c, size_t i)
{
    FL_FAIL(FL_ERR_NUMERIC,
            "BatchSize %g and BatchSquareSum %g at place %zu are not above 0; "
            "begin with a count of rows and squares that are",
            fl_float_at(fl_in_t(c, BATCH_SIZE), (int64_t)i),
            fl_float_at(fl_in_t(c, BATCH_SQUARE_SUM), (int64_t)i), i);
}

/* Scale and shift, where they are asked for: NULL else. */
static const void *shift_of(const fl_op_ctx *c, int slot)
{
    return fl_bool(c, ENABLE_SCALE_AND_SHIFT) ? fl_in(c, slot) : NULL;
}

/* Every share measures for itself, and the first one tells. */
static fl_status data_norm_run(fl_op_ctx *c)
{
    norm_job j = norm_of(c);
    size_t bytes = (j.width + 1) * fl_dtype_bytes(fl_in_t(c, X)->dtype);
    void *mean = c->ith ? NULL : fl_out(c, MEANS);
    void *scale = c->ith ? NULL : fl_out(c, SCALES);
    columns by = { .w = shift_of(c, SCALE_W), .b = shift_of(c, BIAS) };
    size_t bad;

    mean = mean ? mean : fl_scratch(c, bytes);
    scale = scale ? scale : fl_scratch(c, bytes);
    if (!mean || !scale)
        return FL_NOMEM(c);
    FL_BY_FLOAT(c, X, measure, c, mean, scale, &bad);
    if (bad < j.width)
        return refuse_summary(c, bad);
    by.mean = mean;
    by.scale = scale;
    j.s = fl_op_span(c, j.rows);
    FL_BY_FLOAT(c, X, forward, &j, &by, fl_in(c, X), fl_out(c, Y));
    return FL_OK;
}

/* The summaries have no gradient that autodiff asks for; whoever does gets the
   numbers of the batch. */
static void summaries_back(const fl_op_ctx *c, norm_job *j)
{
    fl_tensor *const to[] = { fl_din_t(c, BATCH_SIZE), fl_din_t(c, BATCH_SUM),
                              fl_din_t(c, BATCH_SQUARE_SUM) };

    if (to[0] && to[1] && to[2])
        count_batch(c, j, fl_saved_out_t(c, MEANS), to);
}

static fl_status data_norm_back(fl_op_ctx *c)
{
    norm_job j = norm_of(c);
    columns by = { fl_saved_out(c, MEANS), fl_saved_out(c, SCALES),
                   shift_of(c, SCALE_W), NULL };

    summaries_back(c, &j);
    j.s = columns_of(c, &j);
    zero_columns(&j, fl_din_t(c, SCALE_W));
    zero_columns(&j, fl_din_t(c, BIAS));
    if (!fl_dout_t(c, Y)) {
        fl_din_zero(c, X);
        return FL_OK;
    }
    if (fl_bool(c, ENABLE_SCALE_AND_SHIFT) &&
        (fl_din_t(c, SCALE_W) || fl_din_t(c, BIAS)))
        FL_BY_FLOAT(c, X, shift_back, c, &j, &by);
    j.s = fl_op_span(c, j.rows);
    if (fl_din_t(c, X))
        FL_BY_FLOAT(c, X, backward, &j, &by, fl_in(c, X), fl_dout(c, Y),
                    fl_din(c, X));
    return FL_OK;
}

static fl_status data_norm_back_infer(fl_infer *c)
{
    int n = !!fl_infer_out(c, BATCH_SIZE) + !!fl_infer_out(c, BATCH_SUM) +
            !!fl_infer_out(c, BATCH_SQUARE_SUM);

    if (n % 3)
        FL_FAIL(FL_ERR_INVAL, "op data_norm_grad: the numbers of a batch come "
                              "for all three summaries or for none");
    FL_TRY(fl_back_needs(c, MEANS));
    return fl_back_needs(c, SCALES);
}

#define SUMMARIES(n) "f32[" n "] below=9", "f32[" n "]", "f32[" n "] below=9"

static const fl_op_case data_norm_cases[] = {
    { .in = { "f32[6,5]", SUMMARIES("5") } },
    { .in = { "f32[0,5]", SUMMARIES("5") } },
    { .in = { "f32[1,7]", SUMMARIES("7") }, .attrs = "{epsilon=0.0005}" },
    { .in = { "f32[33,6]", SUMMARIES("6") }, .attrs = "{slot_dim=3}" },
    { .in = { "f32[9,33]", SUMMARIES("33"), "f32[33]", "f32[33]" },
      .attrs = "{enable_scale_and_shift=true}" },
    { .in = { "f32[9,6]", SUMMARIES("6"), "f32[6]", "f32[6]" },
      .attrs = "{enable_scale_and_shift=true, slot_dim=2}" },
    { .in = { "f32[7,3] lod=[0,2,2,7]", SUMMARIES("3") } },
};

const fl_op fl_op_data_norm = {
    .name = "data_norm",
    .doc = "Y = (X - Means) Scales, with Means = BatchSum / BatchSize and "
           "Scales = sqrt(BatchSize / BatchSquareSum), column by column, and "
           "with enable_scale_and_shift scale_w times that plus bias. With "
           "slot_dim above 0 columns are slots of so many, the first of each "
           "its shows: a slot without gives zeros and, unlike in PaddlePaddle "
           "1.8.5, no gradient. What its gradient gives for the summaries are "
           "the numbers of the batch, as data_norm_count has them, which adds "
           "them with data_norm_add. summary_decay_rate, data_layout and "
           "sync_stats are taken and change nothing here",
    .in = { { "X", 0 },
            { "BatchSize", FL_SLOT_NO_GRAD },
            { "BatchSum", FL_SLOT_NO_GRAD },
            { "BatchSquareSum", FL_SLOT_NO_GRAD },
            { "scale_w", FL_OP_SLOT_OPTIONAL },
            { "bias", FL_OP_SLOT_OPTIONAL } },
    .out = { { "Y", 0 },
             { "Means", FL_OP_SLOT_BYPRODUCT },
             { "Scales", FL_OP_SLOT_BYPRODUCT } },
    .attrs = { { "epsilon", FL_ATTR_FLOAT, "0.0001" },
               { "slot_dim", FL_ATTR_INT, "-1" },
               { "summary_decay_rate", FL_ATTR_FLOAT, "0.9999999" },
               { "enable_scale_and_shift", FL_ATTR_BOOL, "false" },
               { "data_layout", FL_ATTR_STRING, "NCHW" },
               { "sync_stats", FL_ATTR_BOOL, "false" } },
    .flags = FL_OP_SLICED,
    .infer = data_norm_infer,
    .run = data_norm_run,
    .back = data_norm_back,
    .back_uses = FL_USES_IN(X) | FL_USES_IN(SCALE_W) | FL_USES_OUT(MEANS) |
                 FL_USES_OUT(SCALES),
    .back_infer = data_norm_back_infer,
    .cases = data_norm_cases,
    .n_cases = FL_LEN(data_norm_cases),
};

/* --- data_norm_count ------------------------------------------------------ */

enum { COUNT_MEANS = 1 }; /* behind X */
enum { COUNT_EPSILON, COUNT_SLOT_DIM };

static fl_status data_norm_count_infer(fl_infer *c)
{
    FL_TRY(check_attrs(c, COUNT_EPSILON, COUNT_SLOT_DIM));
    FL_TRY(check_per_column(c, COUNT_MEANS));
    for (int i = 0; i < 3; i++)
        FL_TRY(fl_infer_same(c, COUNT_MEANS, i));
    return FL_OK;
}

static fl_status data_norm_count_run(fl_op_ctx *c)
{
    fl_tensor *const to[] = { fl_out_t(c, 0), fl_out_t(c, 1), fl_out_t(c, 2) };
    norm_job j =
        job_of(c, fl_int(c, COUNT_SLOT_DIM), fl_float(c, COUNT_EPSILON));

    count_batch(c, &j, fl_in_t(c, COUNT_MEANS), to);
    return FL_OK;
}

static const fl_op_case data_norm_count_cases[] = {
    { .in = { "f32[6,5]", "f32[5]" } },
    { .in = { "f32[0,5]", "f32[5]" } },
    { .in = { "f32[9,33]", "f32[33]" } },
    { .in = { "f32[33,6]", "f32[6]" }, .attrs = "{slot_dim=3}" },
};

const fl_op fl_op_data_norm_count = {
    .name = "data_norm_count",
    .doc = "the numbers of a batch for the summaries of data_norm, column by "
           "column: Size = its rows, Sum = the sum of X, SquareSum = the sum "
           "of (X - Means)^2 + Size epsilon; with slot_dim above 0 the rows "
           "that show a slot count as one row: Sum and the sum of squares are "
           "divided by their number",
    .in = { { "X", FL_SLOT_NO_GRAD }, { "Means", FL_SLOT_NO_GRAD } },
    .out = { { "Size", 0 }, { "Sum", 0 }, { "SquareSum", 0 } },
    .attrs = { { "epsilon", FL_ATTR_FLOAT, "0.0001" },
               { "slot_dim", FL_ATTR_INT, "-1" } },
    .flags = FL_OP_SLICED | FL_OP_TRAIN_ONLY,
    .infer = data_norm_count_infer,
    .run = data_norm_count_run,
    .cases = data_norm_count_cases,
    .n_cases = FL_LEN(data_norm_count_cases),
};

/* --- data_norm_add -------------------------------------------------------- */

enum { N_SUMMARIES = 3 }; /* the numbers of the batch lie behind them */
enum { DECAY_RATE };

static fl_status data_norm_add_infer(fl_infer *c)
{
    double decay = fl_float(c, DECAY_RATE);
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    if (!(decay > 0 && decay <= 1))
        FL_FAIL(FL_ERR_INVAL,
                "op data_norm_add: summary_decay_rate=%g is not above 0 and at "
                "most 1",
                decay);
    for (int i = 0; i < N_SUMMARIES; i++) {
        int batch = N_SUMMARIES + i;

        FL_TRY(fl_infer_same_dtype(c, i, batch));
        if (!fl_shape_matches(&fl_infer_in(c, i)->shape,
                              &fl_infer_in(c, batch)->shape))
            FL_FAIL(FL_ERR_INVAL,
                    "op data_norm_add: %s and %s must have the same shape",
                    fl_infer_text(c, i, a), fl_infer_text(c, batch, b));
        FL_TRY(fl_infer_same(c, i, i));
    }
    return FL_OK;
}

static fl_status data_norm_add_run(fl_op_ctx *c)
{
    for (int i = 0; i < N_SUMMARIES; i++)
        FL_BY_FLOAT(c, i, add,
                    fl_op_span(c, (size_t)fl_tensor_numel(fl_in_t(c, i))),
                    fl_float(c, DECAY_RATE), fl_in(c, i),
                    fl_in(c, N_SUMMARIES + i), fl_out(c, i));
    return FL_OK;
}

static const fl_op_case data_norm_add_cases[] = {
    { .in = { "f32[33]", "f32[33]", "f32[33]", "f32[33]", "f32[33]",
              "f32[33]" },
      .attrs = "{summary_decay_rate=0.9}" },
    { .in = { "f32[0]", "f32[0]", "f32[0]", "f32[0]", "f32[0]", "f32[0]" } },
};

const fl_op fl_op_data_norm_add = {
    .name = "data_norm_add",
    .doc = "the numbers of a batch are added to the summaries of data_norm: "
           "BatchSizeOut = summary_decay_rate BatchSize + Size, and so the "
           "others",
    .in = { { "BatchSize", FL_OP_SLOT_STATE | FL_SLOT_NO_GRAD },
            { "BatchSum", FL_OP_SLOT_STATE | FL_SLOT_NO_GRAD },
            { "BatchSquareSum", FL_OP_SLOT_STATE | FL_SLOT_NO_GRAD },
            { "Size", FL_SLOT_NO_GRAD },
            { "Sum", FL_SLOT_NO_GRAD },
            { "SquareSum", FL_SLOT_NO_GRAD } },
    .out = { { "BatchSizeOut", 0 },
             { "BatchSumOut", 0 },
             { "BatchSquareSumOut", 0 } },
    .attrs = { { "summary_decay_rate", FL_ATTR_FLOAT, "0.9999999" } },
    .flags = FL_OP_SLICED | FL_OP_TRAIN_ONLY,
    .infer = data_norm_add_infer,
    .run = data_norm_add_run,
    .cases = data_norm_add_cases,
    .n_cases = FL_LEN(data_norm_add_cases),
};
