/* auc.c - area under the curve, from two histograms of predictions.
 *
 * A prediction p counts in bucket (int)(p * num_thresholds), among positives
 * or negatives; num_thresholds + 1 buckets. The histograms are state. With
 * slide_steps = 0 they count everything seen; else they keep the last
 * slide_steps batches in a ring:
 *
 *     | batch 0 | batch 1 | ... | batch slide_steps-1 | sum of them | n |
 *
 * where each part is one histogram and n counts the batches; the next batch
 * goes to place n % slide_steps.
 *
 * Hogwild threads count into the same histograms. Every change is an atomic
 * addition, or an exchange whose old value is then taken from the sum, so no
 * count is lost and the sum stays the sum of its parts once all threads are
 * through; two batches that are counted at one time may share a place.
 */
#include <inttypes.h>
#include <math.h>

#include "ops/kit.h"

enum { PREDICT, LABEL, STAT_POS, STAT_NEG }; /* index into .in  */
enum { AUC, STAT_POS_OUT, STAT_NEG_OUT };    /* index into .out */
enum { CURVE, NUM_THRESHOLDS, SLIDE_STEPS };

/* Limits keep the sizes below far from overflow. */
#define THRESHOLDS_MAX (1 << 24)
#define STEPS_MAX 10000

/* --- shapes --------------------------------------------------------------- */

static fl_status check_attrs(const fl_infer *c)
{
    const char *curve = fl_str_attr(c, CURVE);
    int64_t n = fl_int(c, NUM_THRESHOLDS), steps = fl_int(c, SLIDE_STEPS);

    if (strcmp(curve, "ROC") && strcmp(curve, "PR"))
        FL_FAIL(FL_ERR_INVAL, "op auc: curve is %s, not ROC or PR", curve);
    if (n < 1 || n > THRESHOLDS_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "op auc: num_thresholds is %" PRId64 ", not in 1..%d", n,
                THRESHOLDS_MAX);
    if (steps < 0 || steps > STEPS_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "op auc: slide_steps is %" PRId64 ", not in 0..%d", steps,
                STEPS_MAX);
    return FL_OK;
}

/* Elements of a histogram variable. */
static int64_t stat_numel(int64_t n_thresholds, int64_t steps)
{
    return steps ? (steps + 1) * (n_thresholds + 1) + 1 : n_thresholds + 1;
}

/* The number of the batch may be there also where nobody asks for it. */
static fl_status check_stat(const fl_infer *c, int slot)
{
    const fl_tensor *t = fl_infer_in(c, slot);
    int64_t need =
        stat_numel(fl_int(c, NUM_THRESHOLDS), fl_int(c, SLIDE_STEPS));
    int64_t has = fl_shape_numel(&t->shape);
    bool has_turn = !fl_int(c, SLIDE_STEPS) && has == need + 1;
    char buf[FL_SLOT_TEXT_MAX];

    if (t->dtype != FL_DTYPE_I64 || (has >= 0 && has != need && !has_turn))
        FL_FAIL(FL_ERR_INVAL,
                "op auc: %s must be i64 with %" PRId64 " elements",
                fl_infer_text(c, slot, buf), need);
    return FL_OK;
}

/* Predict [n,2] (the second column counts) or [n,1]; Label [n,1] or [n]. */
static fl_status check_samples(const fl_infer *c)
{
    const fl_shape *p = &fl_infer_in(c, PREDICT)->shape;
    const fl_shape *label = &fl_infer_in(c, LABEL)->shape;
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_float(c, PREDICT));
    FL_TRY(fl_infer_ids(c, LABEL));
    if (p->rank != 2 || p->dim[1] == 0 || p->dim[1] > 2)
        FL_FAIL(FL_ERR_INVAL, "op auc: %s must have the shape [n,1] or [n,2]",
                fl_infer_text(c, PREDICT, a));
    if (!fl_shape_matches(label, &(fl_shape){ 2, { p->dim[0], 1 } }) &&
        !fl_shape_matches(label, &(fl_shape){ 1, { p->dim[0] } }))
        FL_FAIL(FL_ERR_INVAL, "op auc: %s does not fit %s",
                fl_infer_text(c, LABEL, a), fl_infer_text(c, PREDICT, b));
    return FL_OK;
}

static fl_status auc_infer(fl_infer *c)
{
    FL_TRY(check_attrs(c));
    FL_TRY(check_samples(c));
    FL_TRY(check_stat(c, STAT_POS));
    FL_TRY(check_stat(c, STAT_NEG));
    fl_infer_dense(c, AUC, FL_DTYPE_F64, 1, (int64_t[]){ 1 });
    fl_tensor_like(fl_infer_out(c, STAT_POS_OUT), fl_infer_in(c, STAT_POS));
    fl_tensor_like(fl_infer_out(c, STAT_NEG_OUT), fl_infer_in(c, STAT_NEG));
    return FL_OK;
}

/* --- samples -------------------------------------------------------------- */

static double predict_at(const fl_tensor *t, int64_t i)
{
    int64_t width = t->shape.dim[1], at = i * width + width - 1;

    return fl_float_at(t, at);
}

static int64_t label_at(const fl_tensor *t, int64_t i)
{
    return t->dtype == FL_DTYPE_I32 ? ((const int32_t *)t->data)[i]
                                    : ((const int64_t *)t->data)[i];
}

/* The product is rounded in the type of the prediction. */
static int64_t bucket_at(const fl_tensor *t, int64_t i, int64_t n_thresholds)
{
    double p = predict_at(t, i);

    if (t->dtype == FL_DTYPE_F64)
        return (int64_t)(p * (double)n_thresholds);
    return (int64_t)((float)p * (float)n_thresholds);
}

/* Before anything is counted: a refused batch leaves no trace. */
static fl_status check_values(const fl_tensor *predict, const fl_tensor *label)
{
    for (int64_t i = 0; i < predict->shape.dim[0]; i++) {
        double p = predict_at(predict, i);
        int64_t y = label_at(label, i);

        if (!(p >= 0 && p <= 1))
            FL_FAIL(FL_ERR_NUMERIC,
                    "Predict: %g in row %" PRId64 " is not in [0, 1]", p, i);
        if (y != 0 && y != 1)
            FL_FAIL(FL_ERR_INVAL,
                    "Label: %" PRId64 " in row %" PRId64 " is not 0 or 1", y,
                    i);
    }
    return FL_OK;
}

/* --- counting ------------------------------------------------------------- */

static int64_t count_get(const int64_t *at)
{
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}

static int64_t count_add(int64_t *at, int64_t v)
{
    return __atomic_fetch_add(at, v, __ATOMIC_RELAXED);
}

typedef struct histogram {
    int64_t *part; /* this batch's place in the ring; NULL without a ring */
    int64_t *sum;
} histogram;

/* Empties a place of the ring and takes what it held from the sum. */
static void forget(const histogram *h, int64_t n_buckets)
{
    for (int64_t i = 0; i < n_buckets; i++)
        if (count_get(&h->part[i]))
            count_add(&h->sum[i],
                      -__atomic_exchange_n(&h->part[i], 0, __ATOMIC_RELAXED));
}

/* The histogram for this batch, with place `turn` of the ring made free. */
static histogram open_histogram(int64_t *stat, int64_t n_buckets, int64_t steps,
                                int64_t turn)
{
    histogram h = { .sum = stat };

    if (!steps)
        return h;
    h.part = stat + (int64_t)((uint64_t)turn % (uint64_t)steps) * n_buckets;
    h.sum = stat + steps * n_buckets;
    forget(&h, n_buckets);
    return h;
}

static void count_one(const histogram *h, int64_t bucket)
{
    if (h->part)
        count_add(&h->part[bucket], 1);
    count_add(&h->sum[bucket], 1);
}

/* --- the area ------------------------------------------------------------- */

/* Trapezoids under (false positives, true positives), from the highest bucket
   down. One class alone gives 0. */
static double area_of(const int64_t *pos, const int64_t *neg, int64_t n)
{
    double tp = 0, fp = 0, area = 0;

    for (int64_t i = n - 1; i >= 0; i--) {
        double p = (double)count_get(&pos[i]), q = (double)count_get(&neg[i]);

        area += q * (tp + p + tp) / 2;
        tp += p;
        fp += q;
    }
    return tp > 0 && fp > 0 ? area / tp / fp : 0;
}

/* A state whose new value is another variable starts from the old one. */
static int64_t *start_state(const fl_op_ctx *c, int in, int out)
{
    const fl_tensor *from = fl_in_t(c, in);
    int64_t *to = fl_out(c, out);

    if (to != from->data)
        memcpy(to, from->data, (size_t)fl_tensor_numel(from) * sizeof(*to));
    return to;
}

static fl_status auc_run(fl_op_ctx *c)
{
    const fl_tensor *predict = fl_in_t(c, PREDICT), *label = fl_in_t(c, LABEL);
    int64_t n_thresholds = fl_int(c, NUM_THRESHOLDS), n = n_thresholds + 1;
    int64_t steps = fl_int(c, SLIDE_STEPS), turn = 0;
    int64_t counter = stat_numel(n_thresholds, steps) - 1;
    int64_t *stat_pos, *stat_neg;
    histogram pos, neg;

    FL_TRY(check_values(predict, label));
    stat_pos = start_state(c, STAT_POS, STAT_POS_OUT);
    stat_neg = start_state(c, STAT_NEG, STAT_NEG_OUT);
    if (steps) {
        turn = count_add(&stat_pos[counter], 1);
        count_add(&stat_neg[counter], 1);
    }
    pos = open_histogram(stat_pos, n, steps, turn);
    neg = open_histogram(stat_neg, n, steps, turn);
    for (int64_t i = 0; i < predict->shape.dim[0]; i++)
        count_one(label_at(label, i) ? &pos : &neg,
                  bucket_at(predict, i, n_thresholds));
    *(double *)fl_out(c, AUC) = area_of(pos.sum, neg.sum, n);
    return FL_OK;
}

static const fl_op_case auc_cases[] = {
    { .in = { "f32[1,1] below=1", "i64[1,1] below=2", "i64[1,8] below=9",
              "i64[1,8] below=9" },
      .attrs = "{num_thresholds=7, slide_steps=0}" },
    { .in = { "f32[0,2] below=1", "i64[0,1] below=2", "i64[1,8] below=9",
              "i64[1,8] below=9" },
      .attrs = "{num_thresholds=7, slide_steps=0}" },
    { .in = { "f32[33,2] below=1", "i64[33,1] below=2", "i64[33] below=9",
              "i64[33] below=9" },
      .attrs = "{num_thresholds=7, slide_steps=3}" },
    { .in = { "f32[33,1] below=1", "i64[33] below=2", "i64[1,201] below=9",
              "i64[1,201] below=9" },
      .attrs = "{curve=PR, num_thresholds=200, slide_steps=0}" },
};

#define COUNT (FL_OP_SLOT_STATE | FL_OP_SLOT_COUNT | FL_SLOT_NO_GRAD)

const fl_op fl_op_auc = {
    .name = "auc",
    .doc = "AUC = area under the ROC curve of the predictions counted so far "
           "(slide_steps = 0) or of the last slide_steps batches; 0 when there "
           "is one class only. curve may say ROC or PR, and both give this "
           "area, as PaddlePaddle 1.8.5 does. The last column of Predict is "
           "the probability of Label 1. StatPos and StatNeg are i64: "
           "[1, num_thresholds+1], or [(slide_steps+1)*(num_thresholds+1)+1] "
           "for a ring of batches, their sum and the number of batches",
    .in = { { "Predict", FL_SLOT_NO_GRAD },
            { "Label", FL_SLOT_NO_GRAD },
            { "StatPos", COUNT },
            { "StatNeg", COUNT } },
    .out = { { "AUC", 0 }, { "StatPosOut", 0 }, { "StatNegOut", 0 } },
    .attrs = { { "curve", FL_ATTR_STRING, "ROC" },
               { "num_thresholds", FL_ATTR_INT, "4095" },
               { "slide_steps", FL_ATTR_INT, "1" } },
    .infer = auc_infer,
    .run = auc_run,
    .cases = auc_cases,
    .n_cases = FL_LEN(auc_cases),
};
