/* nce.c - noise-contrastive estimation: a row is told from noise, without
 * looking at all classes.
 *
 * A row has its labels and num_neg_samples classes of noise, its samples. With
 * s = sigmoid(input * weight + bias) of a sample and b = num_neg_samples times
 * the probability of its class as noise, a label costs -log(s / (s + b)) and
 * noise -log(b / (s + b)).
 *
 * nce_sample draws the samples alone. With tables behind the weights it comes
 * first; the rows of the samples are looked up, and nce takes them as Weight of
 * three dimensions, so that only classes that occur are pulled and pushed.
 */
#include <inttypes.h>
#include <math.h>

#include "kernel/vec.h"
#include "ops/helpers.h"
#include "ops/labels.h"
#include "ops/sampler.h"

/* The first four of nce are those of nce_sample, and so are the first five
   attributes. */
enum {
    LABEL,
    CUSTOM_PROBS,
    CUSTOM_ALIAS,
    CUSTOM_ALIAS_PROBS,
    INPUT,
    WEIGHT,
    BIAS,
    SAMPLE_WEIGHT,
    SAMPLES
};
enum { COST, SAMPLE_LOGITS, SAMPLE_LABELS };
enum { NUM_CLASSES, NUM_NEG, SAMPLER, SEED, CUSTOM_NEG };
enum { IS_SPARSE = CUSTOM_NEG + 1 }; /* nce */
enum { OF = CUSTOM_NEG + 1 };        /* nce_sample */

#define CLASSES_MAX ((int64_t)1 << 52) /* exact as a double */
#define NEGATIVES_MAX 100000

/* --- the samples ---------------------------------------------------------- */

static fl_status check_counts(const fl_infer *c)
{
    const char *op = c->node->def->name;
    int64_t n = fl_int(c, NUM_CLASSES), k = fl_int(c, NUM_NEG);
    int64_t kind = fl_int(c, SAMPLER);

    if (n < 2 || n > CLASSES_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: num_total_classes=%" PRId64 " is not in 2..%" PRId64,
                op, n, CLASSES_MAX);
    if (k < 1 || k > NEGATIVES_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: num_neg_samples=%" PRId64 " is not in 1..%d", op, k,
                NEGATIVES_MAX);
    if (kind < 0 || kind >= FL_SAMPLER_KINDS)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: sampler=%" PRId64 " is not 0 (uniform), 1 "
                "(log-uniform) or 2 (custom)",
                op, kind);
    return FL_OK;
}

static fl_status check_given(const fl_infer *c)
{
    size_t n;
    const int64_t *given = fl_attr_ints(c->node, CUSTOM_NEG, &n);
    const char *op = c->node->def->name;

    if (n && (int64_t)n != fl_int(c, NUM_NEG))
        FL_FAIL(FL_ERR_INVAL,
                "op %s: custom_neg_classes has %zu classes, num_neg_samples "
                "is %" PRId64,
                op, n, fl_int(c, NUM_NEG));
    for (size_t i = 0; i < n; i++)
        if (given[i] < 0 || given[i] >= fl_int(c, NUM_CLASSES))
            FL_FAIL(FL_ERR_INVAL,
                    "op %s: custom_neg_classes has class %" PRId64
                    " at place %zu, which is not in 0..%" PRId64,
                    op, given[i], i, fl_int(c, NUM_CLASSES) - 1);
    return FL_OK;
}

/* The three arrays of a custom distribution have a number for each class. */
static fl_status check_custom(const fl_infer *c)
{
    bool custom = fl_int(c, SAMPLER) == FL_SAMPLER_CUSTOM;
    char buf[FL_SLOT_TEXT_MAX];

    for (int i = CUSTOM_PROBS; i <= CUSTOM_ALIAS_PROBS; i++) {
        const fl_tensor *t = fl_infer_in(c, i);
        int64_t n = t ? fl_shape_numel(&t->shape) : 0;

        if (!t != !custom)
            FL_FAIL(FL_ERR_INVAL,
                    "op %s: %s; CustomDistProbs, CustomDistAlias and "
                    "CustomDistAliasProbs go with sampler=2",
                    c->node->def->name, fl_infer_text(c, i, buf));
        FL_TRY(i == CUSTOM_ALIAS ? fl_infer_ids(c, i) : fl_infer_float(c, i));
        if (t && n >= 0 && n != fl_int(c, NUM_CLASSES))
            FL_FAIL(FL_ERR_INVAL,
                    "op %s: %s must have a number for each of %" PRId64
                    " classes",
                    c->node->def->name, fl_infer_text(c, i, buf),
                    fl_int(c, NUM_CLASSES));
    }
    return FL_OK;
}

/* Samples per row; -1 while the number of labels is not known. */
static fl_status infer_samples(const fl_infer *c, int64_t *out)
{
    const fl_shape *label = &fl_infer_in(c, LABEL)->shape;
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(check_counts(c));
    FL_TRY(check_given(c));
    FL_TRY(check_custom(c));
    FL_TRY(fl_infer_ids(c, LABEL));
    if (label->rank != 2 || label->dim[1] == 0)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s must have two dimensions, rows of one label or more",
                c->node->def->name, fl_infer_text(c, LABEL, buf));
    *out = label->dim[1] < 0 ? -1 : label->dim[1] + fl_int(c, NUM_NEG);
    return FL_OK;
}

static fl_sampler sampler_of(const fl_op_ctx *c)
{
    return (fl_sampler){ .kind = (fl_sampler_kind)fl_int(c, SAMPLER),
                         .n = fl_int(c, NUM_CLASSES),
                         .probs = fl_in_t(c, CUSTOM_PROBS),
                         .alias = fl_in_t(c, CUSTOM_ALIAS),
                         .alias_probs = fl_in_t(c, CUSTOM_ALIAS_PROBS) };
}

static fl_status draw_row(const fl_op_ctx *c, const fl_sampler *s, size_t row,
                          uint64_t stream, int64_t *to)
{
    size_t n_given, n = (size_t)fl_int(c, NUM_NEG);
    const int64_t *given = fl_attr_ints(c->node, CUSTOM_NEG, &n_given);

    for (size_t i = 0; i < n; i++)
        if (n_given)
            to[i] = given[i];
        else
            FL_TRY(fl_sampler_draw(s, stream, row, i, &to[i]));
    return FL_OK;
}

/* The labels of each row, and noise behind them. */
static fl_status fill_samples(const fl_op_ctx *c, fl_span rows, uint64_t stream,
                              int64_t *to)
{
    const fl_tensor *label = fl_in_t(c, LABEL);
    size_t n_true = (size_t)label->shape.dim[1];
    size_t width = n_true + (size_t)fl_int(c, NUM_NEG);
    fl_sampler s = sampler_of(c);

    FL_TRY(fl_check_labels(label,
                           (fl_span){ rows.lo * n_true, rows.hi * n_true },
                           fl_int(c, NUM_CLASSES), 0));
    for (size_t r = rows.lo; r < rows.hi; r++) {
        for (size_t i = 0; i < n_true; i++)
            to[r * width + i] = fl_label_at(label, r * n_true + i);
        FL_TRY(draw_row(c, &s, r, stream, to + r * width + n_true));
    }
    return FL_OK;
}

/* A seed of one's own draws the same classes whatever the variables are
   called. */
static uint64_t stream_for(const fl_op_ctx *c, const char *name)
{
    int64_t seed = fl_int(c, SEED);

    return fl_op_stream_of(c, seed ? "" : name, seed, FL_STREAM_MOVING);
}

/* --- nce_sample ----------------------------------------------------------- */

static fl_status nce_sample_infer(fl_infer *c)
{
    int64_t width;

    FL_TRY(infer_samples(c, &width));
    fl_infer_dense(c, 0, FL_DTYPE_I64, 2,
                   (int64_t[]){ fl_infer_in(c, LABEL)->shape.dim[0], width });
    return FL_OK;
}

static fl_status nce_sample_run(fl_op_ctx *c)
{
    size_t n = (size_t)fl_in_t(c, LABEL)->shape.dim[0];
    const char *of = fl_str_attr(c, OF);
    uint64_t stream = stream_for(c, *of ? of : c->node->out[0].vars[0]->name);

    return fill_samples(c, fl_op_span(c, n), stream, fl_out(c, 0));
}

static const fl_op_case nce_sample_cases[] = {
    { .in = { "i64[6,1] below=17" },
      .attrs = "{num_total_classes=17, num_neg_samples=4}" },
    { .in = { "i64[0,1] below=17" },
      .attrs = "{num_total_classes=17, num_neg_samples=4}" },
    { .in = { "i32[33,2] below=17" },
      .attrs = "{num_total_classes=17, num_neg_samples=3, sampler=1, seed=5}" },
    { .in = { "i64[33,1] below=5", "f32[5] below=1", "i64[5] below=5",
              "f32[5] below=1" },
      .attrs = "{num_total_classes=5, num_neg_samples=3, sampler=2}" },
};

#define SAMPLE_SLOTS                                                           \
    { "Label", FL_SLOT_NO_GRAD },                                              \
        { "CustomDistProbs", FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD },          \
        { "CustomDistAlias", FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD },          \
    {                                                                          \
        "CustomDistAliasProbs", FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD          \
    }
#define SAMPLE_ATTRS                                                           \
    { "num_total_classes", FL_ATTR_INT, "0" },                                 \
        { "num_neg_samples", FL_ATTR_INT, "10" },                              \
        { "sampler", FL_ATTR_INT, "0" }, { "seed", FL_ATTR_INT, "0" },         \
    {                                                                          \
        "custom_neg_classes", FL_ATTR_INTS, "[]"                               \
    }
#define SAMPLE_DOC                                                             \
    "num_neg_samples classes of noise, which are custom_neg_classes or drawn " \
    "anew in every step, by sampler: 0 uniform, 1 log-uniform (class k with "  \
    "log((k + 2) / (k + 1)) / log(num_total_classes)), 2 by CustomDistProbs, " \
    "whose alias table is in the two other arrays"

const fl_op fl_op_nce_sample = {
    .name = "nce_sample",
    .doc = "Out = in each row the classes of Label and " SAMPLE_DOC ". They "
           "are those that an nce draws whose Cost has the name that is in of, "
           "or the name of Out",
    .in = { SAMPLE_SLOTS },
    .out = { { "Out", 0 } },
    .attrs = { SAMPLE_ATTRS, { "of", FL_ATTR_STRING, "" } },
    .flags = FL_OP_SLICED,
    .infer = nce_sample_infer,
    .run = nce_sample_run,
    .cases = nce_sample_cases,
    .n_cases = FL_LEN(nce_sample_cases),
};

/* --- nce: shapes ---------------------------------------------------------- */

static bool takes_rows(const fl_tensor *weight)
{
    return weight->shape.rank == 3;
}

static fl_status refuse(const fl_infer *c, int slot, const char *want)
{
    char buf[FL_SLOT_TEXT_MAX];

    FL_FAIL(FL_ERR_INVAL, "op nce: %s must be %s", fl_infer_text(c, slot, buf),
            want);
}

static fl_status check_weights(const fl_infer *c, int64_t n, int64_t width)
{
    const fl_tensor *w = fl_infer_in(c, WEIGHT), *b = fl_infer_in(c, BIAS);
    int64_t dim = fl_infer_in(c, INPUT)->shape.dim[1];
    int64_t classes = fl_int(c, NUM_CLASSES);
    fl_shape rows = { 3, { n, width, dim } }, one = { 3, { n, width, 1 } };

    FL_TRY(fl_infer_same_dtype(c, INPUT, WEIGHT));
    FL_TRY(fl_infer_same_dtype(c, INPUT, BIAS));
    if (takes_rows(w)) {
        if (!fl_infer_in(c, SAMPLES) || !fl_shape_matches(&w->shape, &rows))
            return refuse(c, WEIGHT, "the rows of Samples, as wide as Input");
        if (b && !fl_shape_matches(&b->shape, &one))
            return refuse(c, BIAS, "one number for each of Samples");
        return FL_OK;
    }
    if (!fl_shape_matches(&w->shape, &(fl_shape){ 2, { classes, dim } }))
        return refuse(c, WEIGHT, "[num_total_classes, width of Input]");
    if (b && fl_shape_numel(&b->shape) != classes &&
        fl_shape_numel(&b->shape) >= 0)
        return refuse(c, BIAS, "num_total_classes numbers");
    return FL_OK;
}

static fl_status check_inputs(const fl_infer *c, int64_t n, int64_t width)
{
    const fl_tensor *x = fl_infer_in(c, INPUT);
    const fl_tensor *weight = fl_infer_in(c, SAMPLE_WEIGHT);
    const fl_tensor *samples = fl_infer_in(c, SAMPLES);
    int64_t n_weights = weight ? fl_shape_numel(&weight->shape) : n;

    FL_TRY(fl_infer_float(c, INPUT));
    if (!fl_shape_matches(&x->shape, &(fl_shape){ 2, { n, -1 } }))
        return refuse(c, INPUT,
                      "two-dimensional, with a row for each of "
                      "Label");
    FL_TRY(fl_infer_same_dtype(c, INPUT, SAMPLE_WEIGHT));
    if (n >= 0 && n_weights >= 0 && n_weights != n)
        return refuse(c, SAMPLE_WEIGHT, "one number for each row of Label");
    if (samples &&
        (samples->dtype != FL_DTYPE_I64 ||
         !fl_shape_matches(&samples->shape, &(fl_shape){ 2, { n, width } })))
        return refuse(c, SAMPLES,
                      "i64, with the labels and num_neg_samples "
                      "classes in each row");
    return check_weights(c, n, width);
}

static fl_status nce_infer(fl_infer *c)
{
    int64_t n = fl_infer_in(c, LABEL)->shape.dim[0], width;
    fl_dtype dtype = fl_infer_in(c, INPUT)->dtype;

    FL_TRY(infer_samples(c, &width));
    FL_TRY(check_inputs(c, n, width));
    fl_infer_dense(c, COST, dtype, 2, (int64_t[]){ n, 1 });
    fl_infer_dense(c, SAMPLE_LOGITS, dtype, 2, (int64_t[]){ n, width });
    fl_infer_dense(c, SAMPLE_LABELS, FL_DTYPE_I64, 2, (int64_t[]){ n, width });
    return FL_OK;
}

/* --- nce: numbers --------------------------------------------------------- */

typedef struct nce_job {
    size_t rows, n_true, width, dim;
    bool takes_rows;
    double n_neg;
    fl_sampler sampler;
    const int64_t *samples;
    const void *x, *weight, *bias, *sample_weight;
} nce_job;

static nce_job job_of(const fl_op_ctx *c)
{
    const fl_shape *label = &fl_in_t(c, LABEL)->shape;
    int64_t n_neg = fl_int(c, NUM_NEG);

    return (nce_job){ .rows = (size_t)label->dim[0],
                      .n_true = (size_t)label->dim[1],
                      .width = (size_t)(label->dim[1] + n_neg),
                      .dim = (size_t)fl_in_t(c, INPUT)->shape.dim[1],
                      .takes_rows = takes_rows(fl_in_t(c, WEIGHT)),
                      .n_neg = (double)n_neg,
                      .sampler = sampler_of(c),
                      .x = fl_in(c, INPUT),
                      .weight = fl_in(c, WEIGHT),
                      .bias = fl_in(c, BIAS),
                      .sample_weight = fl_in(c, SAMPLE_WEIGHT) };
}

/* Where the weights of sample `at` lie. */
static size_t weight_row(const nce_job *j, size_t at)
{
    return j->takes_rows ? at : (size_t)j->samples[at];
}

static double noise_at(const nce_job *j, size_t at)
{
    return j->n_neg * fl_sampler_prob(&j->sampler, j->samples[at]);
}

static bool is_label(const nce_job *j, size_t at)
{
    return at % j->width < j->n_true;
}

/* log((s + b) / s) and log((s + b) / b) for s = sigmoid(z): written so that a
   large z of either sign loses nothing. */
static double cost_of(bool label, double z, double b)
{
    if (!label)
        return log1p(1 / ((1 + exp(-z)) * b));
    if (z < 0)
        return log(b + (1 + b) * exp(z)) - z;
    return log1p(b * (1 + exp(-z)));
}

static double slope_of(bool label, double s, double b)
{
    return (label ? -b : s) * (1 - s) / (s + b);
}

#define KERNELS(T, t)                                                          \
    static double logit_##t(const nce_job *j, size_t row, size_t at)           \
    {                                                                          \
        const T *x = (const T *)j->x + row * j->dim;                           \
        size_t k = weight_row(j, at);                                          \
        const T *w = (const T *)j->weight + k * j->dim;                        \
        const T *bias = j->bias;                                               \
                                                                               \
        return fl_vec_##t()->dot(x, w, j->dim) + (bias ? (double)bias[k] : 0); \
    }                                                                          \
    static double row_weight_##t(const nce_job *j, size_t row)                 \
    {                                                                          \
        const T *w = j->sample_weight;                                         \
                                                                               \
        return w ? (double)w[row] : 1;                                         \
    }                                                                          \
    static void forward_##t(const nce_job *j, fl_span s, T *cost, T *logits)   \
    {                                                                          \
        for (size_t row = s.lo; row < s.hi; row++) {                           \
            double sum = 0;                                                    \
                                                                               \
            for (size_t at = row * j->width; at < (row + 1) * j->width;        \
                 at++) {                                                       \
                double z = logit_##t(j, row, at);                              \
                                                                               \
                sum += cost_of(is_label(j, at), z, noise_at(j, at));           \
                if (logits)                                                    \
                    logits[at] = (T)(1 / (1 + exp(-z)));                       \
            }                                                                  \
            cost[row] = (T)(sum * row_weight_##t(j, row));                     \
        }                                                                      \
    }                                                                          \
    /* g[at] = what comes back for the logit of a sample */                    \
    static void slopes_##t(const nce_job *j, const T *logits, const T *dcost,  \
                           T *g)                                               \
    {                                                                          \
        for (size_t at = 0; at < j->rows * j->width; at++) {                   \
            size_t row = at / j->width;                                        \
            double slope = slope_of(is_label(j, at), (double)logits[at],       \
                                    noise_at(j, at));                          \
                                                                               \
            g[at] = (T)((double)dcost[row] * row_weight_##t(j, row) * slope);  \
        }                                                                      \
    }                                                                          \
    static void input_back_##t(const nce_job *j, fl_span s, const T *g, T *dx) \
    {                                                                          \
        const T *w = j->weight;                                                \
                                                                               \
        for (size_t row = s.lo; row < s.hi; row++) {                           \
            memset(dx + row * j->dim, 0, j->dim * sizeof(T));                  \
            for (size_t at = row * j->width; at < (row + 1) * j->width; at++)  \
                fl_vec_##t()->axpy(dx + row * j->dim, g[at],                   \
                                   w + weight_row(j, at) * j->dim, j->dim);    \
        }                                                                      \
    }                                                                          \
    /* A row of its own for every sample. */                                   \
    static void rows_back_##t(const nce_job *j, fl_span s, const T *g, T *dw)  \
    {                                                                          \
        for (size_t at = s.lo * j->width; at < s.hi * j->width; at++)          \
            fl_vec_##t()->scale(dw + at * j->dim, g[at],                       \
                                (const T *)j->x + at / j->width * j->dim, 0,   \
                                j->dim);                                       \
    }                                                                          \
    /* The columns in s of all classes. */                                     \
    static void dense_back_##t(const nce_job *j, fl_span s, const T *g, T *dw) \
    {                                                                          \
        const T *x = j->x;                                                     \
        size_t n = s.hi - s.lo;                                                \
                                                                               \
        for (int64_t k = 0; n && k < j->sampler.n; k++)                        \
            memset(dw + (size_t)k * j->dim + s.lo, 0, n * sizeof(T));          \
        for (size_t at = 0; n && at < j->rows * j->width; at++)                \
            fl_vec_##t()->axpy(dw + weight_row(j, at) * j->dim + s.lo, g[at],  \
                               x + at / j->width * j->dim + s.lo, n);          \
    }                                                                          \
    static void bias_back_##t(const nce_job *j, const T *g, T *db)             \
    {                                                                          \
        size_t n = j->takes_rows ? j->rows * j->width : (size_t)j->sampler.n;  \
                                                                               \
        memset(db, 0, n * sizeof(T));                                          \
        for (size_t at = 0; at < j->rows * j->width; at++)                     \
            db[weight_row(j, at)] += g[at];                                    \
    }
FL_FLOATS(KERNELS)

/* --- nce: running --------------------------------------------------------- */

static fl_status take_samples(const fl_op_ctx *c, const nce_job *j, fl_span s,
                              int64_t *to)
{
    const fl_tensor *given = fl_in_t(c, SAMPLES);

    if (!given)
        return fill_samples(
            c, s, stream_for(c, c->node->out[COST].vars[0]->name), to);
    FL_TRY(fl_check_ids(given, "Samples", (uint64_t)j->sampler.n, 0));
    if (s.lo < s.hi)
        memcpy(to + s.lo * j->width,
               (const int64_t *)given->data + s.lo * j->width,
               (s.hi - s.lo) * j->width * sizeof(*to));
    return FL_OK;
}

static fl_status nce_run(fl_op_ctx *c)
{
    nce_job j = job_of(c);
    fl_span s = fl_op_span(c, j.rows);
    int64_t *samples = fl_out(c, SAMPLE_LABELS);

    if (!samples)
        samples = fl_scratch(c, (j.rows * j.width + 1) * sizeof(*samples));
    if (!samples)
        return FL_NOMEM(c);
    FL_TRY(take_samples(c, &j, s, samples));
    j.samples = samples;
    FL_BY_FLOAT(c, INPUT, forward, &j, s, fl_out(c, COST),
                fl_out(c, SAMPLE_LOGITS));
    return FL_OK;
}

static void weight_back(const fl_op_ctx *c, const nce_job *j, const void *g)
{
    fl_tensor *dw = fl_din_t(c, WEIGHT);
    fl_span rows = fl_op_span(c, j->rows);

    if (!j->takes_rows && dw->kind != FL_KIND_ROWS) {
        FL_BY_FLOAT(c, INPUT, dense_back, j, fl_op_span(c, j->dim), g,
                    dw->data);
        return;
    }
    FL_BY_FLOAT(c, INPUT, rows_back, j, rows, g, dw->data);
    if (dw->kind == FL_KIND_ROWS && rows.lo < rows.hi)
        memcpy(dw->rows + rows.lo * j->width, j->samples + rows.lo * j->width,
               (rows.hi - rows.lo) * j->width * sizeof(*dw->rows));
}

static fl_status no_gradient(const fl_op_ctx *c)
{
    fl_tensor *dw = fl_din_t(c, WEIGHT);

    fl_din_zero(c, INPUT);
    fl_din_zero(c, BIAS);
    if (!dw || dw->kind != FL_KIND_ROWS)
        fl_din_zero(c, WEIGHT);
    else if (c->ith == 0)
        dw->shape.dim[0] = 0;
    return FL_OK;
}

static fl_status nce_back(fl_op_ctx *c)
{
    nce_job j = job_of(c);
    size_t bytes = fl_dtype_bytes(fl_in_t(c, INPUT)->dtype);
    void *g = fl_scratch(c, (j.rows * j.width + 1) * bytes);

    if (!fl_dout_t(c, COST))
        return no_gradient(c);
    if (!g)
        return FL_NOMEM(c);
    j.samples = fl_saved_out(c, SAMPLE_LABELS);
    FL_BY_FLOAT(c, INPUT, slopes, &j, fl_saved_out(c, SAMPLE_LOGITS),
                fl_dout(c, COST), g);
    if (fl_din_t(c, INPUT))
        FL_BY_FLOAT(c, INPUT, input_back, &j, fl_op_span(c, j.rows), g,
                    fl_din(c, INPUT));
    if (fl_din_t(c, WEIGHT))
        weight_back(c, &j, g);
    if (fl_din_t(c, BIAS) && c->ith == 0)
        FL_BY_FLOAT(c, INPUT, bias_back, &j, g, fl_din(c, BIAS));
    return FL_OK;
}

/* With is_sparse the gradient of Weight is rows + values, one of each for
   every sample. */
static fl_status nce_back_infer(fl_infer *c)
{
    const fl_tensor *w = fl_infer_in(c, WEIGHT);
    fl_tensor *dw = fl_infer_out(c, WEIGHT);
    int64_t width;

    FL_TRY(fl_back_needs(c, SAMPLE_LOGITS));
    FL_TRY(fl_back_needs(c, SAMPLE_LABELS));
    if (!dw || !fl_bool(c, IS_SPARSE) || takes_rows(w))
        return FL_OK;
    FL_TRY(infer_samples(c, &width));
    dw->kind = FL_KIND_ROWS;
    dw->height = fl_int(c, NUM_CLASSES);
    dw->shape.dim[0] = fl_shape_numel(
        &(fl_shape){ 2, { fl_infer_in(c, LABEL)->shape.dim[0], width } });
    return FL_OK;
}

#define GIVEN                                                                  \
    "{num_total_classes=17, num_neg_samples=3, "                               \
    "custom_neg_classes=[5,5,1]"
#define DRAWN "{num_total_classes=17, num_neg_samples=3"
#define NO_CUSTOM "", "", ""

static const fl_op_case nce_cases[] = {
    { .in = { "i64[6,1] below=17", NO_CUSTOM, "f32[6,5]", "f32[17,5]",
              "f32[17,1]" },
      .attrs = GIVEN "}" },
    { .in = { "i64[0,1] below=17", NO_CUSTOM, "f32[0,5]", "f32[17,5]",
              "f32[17,1]" },
      .attrs = GIVEN "}" },
    { .in = { "i64[33,1] below=17", NO_CUSTOM, "f32[33,7]", "f32[17,7]" },
      .attrs = DRAWN "}" },
    { .in = { "i32[6,2] below=17", NO_CUSTOM, "f32[6,5]", "f32[17,5]",
              "f32[17]", "f32[6,1]" },
      .attrs = DRAWN ", sampler=1}" },
    { .in = { "i64[6,1] below=5", "f32[5] below=1", "i64[5] below=5",
              "f32[5] below=1", "f32[6,33]", "f32[5,33]", "f32[5,1]" },
      .attrs = "{num_total_classes=5, num_neg_samples=2, sampler=2}" },
    { .in = { "i64[6,1] below=17", NO_CUSTOM, "f32[6,5]", "f32[17,5]",
              "f32[17,1]" },
      .attrs = GIVEN ", is_sparse=true}" },
    { .in = { "i64[0,1] below=17", NO_CUSTOM, "f32[0,5]", "f32[17,5]" },
      .attrs = DRAWN ", is_sparse=true}" },
    { .in = { "i64[6,1] below=17", NO_CUSTOM, "f32[6,5]", "f32[6,4,5]",
              "f32[6,4,1]", "", "i64[6,4] below=17" },
      .attrs = DRAWN "}" },
};

const fl_op fl_op_nce = {
    .name = "nce",
    .doc = "Cost = for each row the sum of -log(s / (s + b)) over its labels "
           "and of -log(b / (s + b)) over its noise, times SampleWeight, with "
           "s = sigmoid(Input Weight[class] + Bias[class]) and b = "
           "num_neg_samples times the probability of the class as noise. A "
           "row has its labels and " SAMPLE_DOC ". SampleLabels are the "
           "classes, or Samples, where these are given; SampleLogits holds s. "
           "Weight and Bias have a row for each class or, with three "
           "dimensions, for each of Samples. is_sparse makes the gradient of "
           "Weight rows + values",
    .in = { SAMPLE_SLOTS,
            { "Input", 0 },
            { "Weight", 0 },
            { "Bias", FL_OP_SLOT_OPTIONAL },
            { "SampleWeight", FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD },
            { "Samples", FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD } },
    .out = { { "Cost", 0 },
             { "SampleLogits", FL_OP_SLOT_BYPRODUCT },
             { "SampleLabels", FL_OP_SLOT_BYPRODUCT } },
    .attrs = { SAMPLE_ATTRS, { "is_sparse", FL_ATTR_BOOL, "false" } },
    .flags = FL_OP_SLICED,
    .infer = nce_infer,
    .run = nce_run,
    .back = nce_back,
    .back_uses = FL_USES_IN(CUSTOM_PROBS) | FL_USES_IN(INPUT) |
                 FL_USES_IN(WEIGHT) | FL_USES_IN(SAMPLE_WEIGHT) |
                 FL_USES_OUT(SAMPLE_LOGITS) | FL_USES_OUT(SAMPLE_LABELS),
    .back_infer = nce_back_infer,
    .cases = nce_cases,
    .n_cases = FL_LEN(nce_cases),
};
