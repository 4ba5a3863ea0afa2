/* sample_logits.c - the logits of the labels and of a few drawn classes, for a
 * softmax that does not look at all of them.
 *
 * All rows share the drawn classes, which are log-uniform: class k of n with
 * log((k + 2) / (k + 1)) / log(n + 1). The logarithm of the probability of
 * being among them is taken from each logit; when classes are drawn until there
 * are num_samples different ones, t draws make it 1 - (1 - p)^t, else it is
 * num_samples p.
 */
#include <inttypes.h>
#include <math.h>

#include "ops/helpers.h"
#include "ops/labels.h"
#include "ops/sampler.h"

enum { LOGITS, LABELS, GIVEN_SAMPLES, GIVEN_PROBS };
enum { SAMPLES, PROBS, LOGITS_DIM, LABELS_DIM, SAMPLED_LOGITS, SAMPLED_LABELS };
enum { USE_GIVEN, UNIQ, REMOVE_HITS, NUM_SAMPLES, SEED };

/* What stands for infinity, and hides a label that was drawn as well. */
#define FAR 1e20

/* Draws of one step: rare classes would have it search for ever. */
#define DRAWS_MAX ((uint64_t)1 << 28)

/* --- shapes --------------------------------------------------------------- */

static fl_status refuse(const fl_infer *c, int slot, const char *want)
{
    char buf[FL_SLOT_TEXT_MAX];

    FL_FAIL(FL_ERR_INVAL, "op sample_logits: %s must be %s",
            fl_infer_text(c, slot, buf), want);
}

static fl_status check_number(const fl_infer *c)
{
    int64_t n = fl_int(c, NUM_SAMPLES);
    int64_t classes = fl_infer_in(c, LOGITS)->shape.dim[1];
    bool too_many = classes >= 0 && n > classes && fl_bool(c, UNIQ) &&
                    !fl_bool(c, USE_GIVEN);

    if (n < 1 || n > INT32_MAX || too_many)
        FL_FAIL(FL_ERR_INVAL,
                "op sample_logits: num_samples=%" PRId64
                " is not in 1..%" PRId64 ", the classes of Logits",
                n, classes);
    return FL_OK;
}

static fl_status check_given(const fl_infer *c, const fl_shape *want)
{
    for (int slot = GIVEN_SAMPLES; slot <= GIVEN_PROBS; slot++) {
        const fl_tensor *t = fl_infer_in(c, slot);

        if (!fl_bool(c, USE_GIVEN))
            continue;
        if (!t || !fl_shape_matches(&t->shape, want))
            return refuse(c, slot,
                          "[n, labels and num_samples], with "
                          "use_customized_samples=true");
    }
    if (fl_bool(c, USE_GIVEN))
        FL_TRY(fl_infer_same_dtype(c, LOGITS, GIVEN_PROBS));
    if (fl_bool(c, USE_GIVEN) &&
        fl_infer_in(c, GIVEN_SAMPLES)->dtype != FL_DTYPE_I64)
        return refuse(c, GIVEN_SAMPLES, "i64");
    return FL_OK;
}

/* A note of a shape, with a 0 behind it so that it holds no numbers. */
static void infer_note(const fl_infer *c, int slot, const fl_tensor *of)
{
    fl_infer_dense(c, slot, of->dtype, 3,
                   (int64_t[]){ of->shape.dim[0], of->shape.dim[1], 0 });
}

static fl_status sample_logits_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, LOGITS), *y = fl_infer_in(c, LABELS);
    int64_t n = x->shape.dim[0], n_true = y->shape.dim[1];
    fl_shape out = { 2,
                     { n, n_true < 0 ? -1 : n_true + fl_int(c, NUM_SAMPLES) } };

    FL_TRY(fl_infer_float(c, LOGITS));
    FL_TRY(fl_infer_ids(c, LABELS));
    if (x->shape.rank != 2)
        return refuse(c, LOGITS, "a matrix");
    if (!fl_shape_matches(&y->shape, &(fl_shape){ 2, { n, -1 } }))
        return refuse(c, LABELS, "a matrix with the rows of Logits");
    FL_TRY(check_number(c));
    FL_TRY(check_given(c, &out));
    fl_infer_dense(c, SAMPLES, FL_DTYPE_I64, 2, out.dim);
    fl_infer_dense(c, PROBS, x->dtype, 2, out.dim);
    fl_infer_dense(c, SAMPLED_LOGITS, x->dtype, 2, out.dim);
    fl_infer_dense(c, SAMPLED_LABELS, FL_DTYPE_I64, 2,
                   (int64_t[]){ n, n_true });
    infer_note(c, LOGITS_DIM, x);
    infer_note(c, LABELS_DIM, y);
    return FL_OK;
}

/* --- drawing -------------------------------------------------------------- */

typedef struct draws {
    int64_t *classes;
    size_t n;
    uint64_t n_draws; /* that it took */
    fl_sampler sampler;
} draws;

static bool was_seen(uint8_t *seen, int64_t k)
{
    uint8_t bit = (uint8_t)(1u << (k % 8));
    bool was = seen[k / 8] & bit;

    seen[k / 8] |= bit;
    return was;
}

/* `seen` has a bit for each class; NULL: a class may be drawn again. */
static fl_status draw_classes(draws *d, uint64_t stream, uint8_t *seen)
{
    for (size_t n = 0; n < d->n; d->n_draws++) {
        int64_t k;

        if (d->n_draws == DRAWS_MAX)
            FL_FAIL(FL_ERR_NUMERIC,
                    "op sample_logits: %" PRIu64 " draws gave %zu different "
                    "classes of %zu; take fewer num_samples",
                    d->n_draws, n, d->n);
        FL_TRY(fl_sampler_draw(&d->sampler, stream, 0, d->n_draws, &k));
        if (!seen || !was_seen(seen, k))
            d->classes[n++] = k;
    }
    return FL_OK;
}

/* Classes are drawn from n of the sampler, of which the last is never drawn. */
static fl_status make_draws(fl_op_ctx *c, draws *d)
{
    int64_t n_classes = fl_in_t(c, LOGITS)->shape.dim[1];
    int64_t seed = fl_int(c, SEED);
    uint64_t stream = seed ? fl_op_stream_of(c, "", seed, FL_STREAM_FIXED)
                           : fl_op_stream(c, 0, FL_STREAM_MOVING);
    size_t bytes = (size_t)n_classes / 8 + 1;
    uint8_t *seen = fl_bool(c, UNIQ) ? fl_scratch(c, bytes) : NULL;

    d->sampler =
        (fl_sampler){ .kind = FL_SAMPLER_LOG_UNIFORM, .n = n_classes + 1 };
    d->n = (size_t)fl_int(c, NUM_SAMPLES);
    d->classes = fl_scratch(c, d->n * sizeof(*d->classes));
    if (!d->classes || (fl_bool(c, UNIQ) && !seen))
        return FL_NOMEM(c);
    if (seen)
        memset(seen, 0, bytes);
    return draw_classes(d, stream, seen);
}

static double prob_of(const draws *d, int64_t k)
{
    double p = fl_sampler_prob(&d->sampler, k);

    if (d->n_draws == d->n)
        return p * (double)d->n;
    return -expm1((double)d->n_draws * log1p(-p));
}

/* --- running -------------------------------------------------------------- */

typedef struct sample_job {
    size_t n_true, width, n_classes;
    const int64_t *samples;
    bool removes_hits;
} sample_job;

static sample_job job_of(const fl_op_ctx *c)
{
    size_t n_true = (size_t)fl_in_t(c, LABELS)->shape.dim[1];

    return (sample_job){
        .n_true = n_true,
        .width = n_true + (size_t)fl_int(c, NUM_SAMPLES),
        .n_classes = (size_t)fl_in_t(c, LOGITS)->shape.dim[1],
        .removes_hits = fl_bool(c, REMOVE_HITS),
    };
}

static double bounded(double x)
{
    return isinf(x) ? copysign(FAR, x) : x;
}

/* Whether a drawn class is a label of its row as well. */
static bool hits(const sample_job *j, size_t row, size_t col)
{
    const int64_t *of = j->samples + row * j->width;

    for (size_t i = 0; i < j->n_true && col >= j->n_true; i++)
        if (of[i] == of[col])
            return true;
    return false;
}

#define KERNELS(T, t)                                                          \
    static void put_probs_##t(const sample_job *j, const draws *d, fl_span s,  \
                              T *probs)                                        \
    {                                                                          \
        for (size_t at = s.lo * j->width; at < s.hi * j->width; at++)          \
            probs[at] = (T)prob_of(d, j->samples[at]);                         \
    }                                                                          \
    static void forward_##t(const sample_job *j, fl_span s, const T *logits,   \
                            const T *probs, T *out)                            \
    {                                                                          \
        for (size_t r = s.lo; r < s.hi; r++)                                   \
            for (size_t k = 0; k < j->width; k++) {                            \
                size_t at = r * j->width + k;                                  \
                size_t from = r * j->n_classes + (size_t)j->samples[at];       \
                bool hidden = j->removes_hits && hits(j, r, k);                \
                double x = (double)logits[from] - (hidden ? FAR : 0);          \
                                                                               \
                out[at] = (T)bounded(x - bounded(log((double)probs[at])));     \
            }                                                                  \
    }                                                                          \
    static void backward_##t(const sample_job *j, fl_span s, const T *g,       \
                             T *dlogits)                                       \
    {                                                                          \
        memset(dlogits + s.lo * j->n_classes, 0,                               \
               (s.hi - s.lo) * j->n_classes * sizeof(T));                      \
        for (size_t r = s.lo; r < s.hi; r++)                                   \
            for (size_t k = 0; k < j->width; k++) {                            \
                size_t at = r * j->width + k;                                  \
                                                                               \
                dlogits[r * j->n_classes + (size_t)j->samples[at]] += g[at];   \
            }                                                                  \
    }
FL_FLOATS(KERNELS)

/* Labels of the sampled classes: the first ones. */
static void put_labels(const sample_job *j, fl_span s, int64_t *to)
{
    for (size_t at = s.lo * j->n_true; at < s.hi * j->n_true; at++)
        to[at] = (int64_t)(at % j->n_true);
}

static fl_status copy_given(const fl_op_ctx *c, const sample_job *j)
{
    FL_TRY(fl_check_ids(fl_in_t(c, GIVEN_SAMPLES), "CustomizedSamples",
                        (uint64_t)j->n_classes, 0));
    fl_share_copy(c, fl_out_t(c, SAMPLES), fl_in_t(c, GIVEN_SAMPLES));
    fl_share_copy(c, fl_out_t(c, PROBS), fl_in_t(c, GIVEN_PROBS));
    return FL_OK;
}

static fl_status draw_samples(fl_op_ctx *c, const sample_job *j, fl_span s)
{
    const fl_tensor *label = fl_in_t(c, LABELS);
    int64_t *to = fl_out(c, SAMPLES);
    draws d = { 0 };

    FL_TRY(fl_check_labels(label,
                           (fl_span){ s.lo * j->n_true, s.hi * j->n_true },
                           (int64_t)j->n_classes, 0));
    FL_TRY(make_draws(c, &d));
    for (size_t r = s.lo; r < s.hi; r++) {
        for (size_t k = 0; k < j->n_true; k++)
            to[r * j->width + k] = fl_label_at(label, r * j->n_true + k);
        memcpy(to + r * j->width + j->n_true, d.classes,
               d.n * sizeof(*d.classes));
    }
    FL_BY_FLOAT(c, LOGITS, put_probs, j, &d, s, fl_out(c, PROBS));
    return FL_OK;
}

static fl_status sample_logits_run(fl_op_ctx *c)
{
    sample_job j = job_of(c);
    fl_span s = { 0, (size_t)fl_in_t(c, LOGITS)->shape.dim[0] };

    j.samples = fl_out(c, SAMPLES);
    if (s.lo == s.hi)
        return FL_OK;
    if (fl_bool(c, USE_GIVEN))
        FL_TRY(copy_given(c, &j));
    else
        FL_TRY(draw_samples(c, &j, s));
    put_labels(&j, s, fl_out(c, SAMPLED_LABELS));
    FL_BY_FLOAT(c, LOGITS, forward, &j, s, fl_in(c, LOGITS), fl_out(c, PROBS),
                fl_out(c, SAMPLED_LOGITS));
    return FL_OK;
}

static fl_status sample_logits_back(fl_op_ctx *c)
{
    sample_job j = job_of(c);
    fl_span s = { 0, (size_t)fl_in_t(c, LOGITS)->shape.dim[0] };

    j.samples = fl_saved_out(c, SAMPLES);
    if (fl_din_t(c, LOGITS) && fl_dout_t(c, SAMPLED_LOGITS) && s.hi)
        FL_BY_FLOAT(c, LOGITS, backward, &j, s, fl_dout(c, SAMPLED_LOGITS),
                    fl_din(c, LOGITS));
    else
        fl_din_zero(c, LOGITS);
    return FL_OK;
}

static const fl_op_case sample_logits_cases[] = {
    { .in = { "f32[6,17]", "i64[6,1] below=17" },
      .attrs = "{num_samples=5, remove_accidental_hits=false}" },
    { .in = { "f32[33,9]", "i64[33,2] below=9" },
      .attrs = "{num_samples=9, seed=3, remove_accidental_hits=false}" },
    { .in = { "f32[6,9]", "i64[6,1] below=9" },
      .attrs = "{num_samples=20, uniq=false, remove_accidental_hits=false}" },
    { .in = { "f32[2,5]", "i64[2,1] is=[1,4]", "i64[2,3] is=[1,2,2,4,0,4]",
              "f32[2,3] below=1" },
      .attrs = "{num_samples=2, use_customized_samples=true}",
      .flags = FL_CASE_NO_SLOPE },
    { .in = { "f32[0,9]", "i64[0,1]" }, .attrs = "{num_samples=3}" },
};

#define GIVEN (FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD)

const fl_op fl_op_sample_logits = {
    .name = "sample_logits",
    .doc = "Samples = in each row its Labels and num_samples classes, drawn "
           "log-uniformly for all rows at once, different ones with uniq; "
           "Probabilities = those of being drawn; SampledLogits = the Logits "
           "of Samples less the logarithm of Probabilities, and less 1e20 "
           "where a label was drawn, with remove_accidental_hits; "
           "SampledLabels = the places of the labels. With "
           "use_customized_samples samples and probabilities are given. "
           "LogitsDim and LabelsDim hold no numbers",
    .in = { { "Logits", 0 },
            { "Labels", FL_SLOT_NO_GRAD },
            { "CustomizedSamples", GIVEN },
            { "CustomizedProbabilities", GIVEN } },
    .out = { { "Samples", FL_SLOT_NO_GRAD },
             { "Probabilities", FL_SLOT_NO_GRAD },
             { "LogitsDim", FL_OP_SLOT_BYPRODUCT | FL_SLOT_NO_GRAD },
             { "LabelsDim", FL_OP_SLOT_BYPRODUCT | FL_SLOT_NO_GRAD },
             { "SampledLogits", 0 },
             { "SampledLabels", FL_SLOT_NO_GRAD } },
    .attrs = { { "use_customized_samples", FL_ATTR_BOOL, "false" },
               { "uniq", FL_ATTR_BOOL, "true" },
               { "remove_accidental_hits", FL_ATTR_BOOL, "true" },
               { "num_samples", FL_ATTR_INT, "1" },
               { "seed", FL_ATTR_INT, "0" } },
    .infer = sample_logits_infer,
    .run = sample_logits_run,
    .back = sample_logits_back,
    .back_uses = FL_USES_OUT(SAMPLES),
    .cases = sample_logits_cases,
    .n_cases = FL_LEN(sample_logits_cases),
};
