/* precision_recall.c - how right the classes are that were found, of this batch
 * and of all that was counted before.
 *
 * A class has four counts: rows that were rightly found to be of it (TP),
 * wrongly (FP), rightly not (TN) and wrongly not (FN).
 */
#include <inttypes.h>

#include "ops/helpers.h"
#include "ops/labels.h"

enum { MAX_PROBS, INDICES, LABELS, WEIGHTS, STATES_INFO };
enum { BATCH_METRICS, ACCUM_METRICS, ACCUM_STATES };
enum { CLASS_NUMBER };
enum { TP, FP, TN, FN, N_COUNTS };
enum { N_METRICS = 6 };

#define CLASSES_MAX ((int64_t)1 << 32)

/* --- shapes --------------------------------------------------------------- */

static fl_status check_column(const fl_infer *c, int slot)
{
    const fl_tensor *t = fl_infer_in(c, slot);
    fl_shape want = { 2, { fl_infer_in(c, MAX_PROBS)->shape.dim[0], 1 } };
    char buf[FL_SLOT_TEXT_MAX];

    if (t && !fl_shape_matches(&t->shape, &want))
        FL_FAIL(FL_ERR_INVAL,
                "op precision_recall: %s must be [n,1] with the rows of "
                "MaxProbs",
                fl_infer_text(c, slot, buf));
    return FL_OK;
}

static fl_status check_states(const fl_infer *c)
{
    const fl_tensor *t = fl_infer_in(c, STATES_INFO);
    fl_shape want = { 2, { fl_int(c, CLASS_NUMBER), N_COUNTS } };
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_same_dtype(c, MAX_PROBS, STATES_INFO));
    if (t && !fl_shape_matches(&t->shape, &want))
        FL_FAIL(FL_ERR_INVAL,
                "op precision_recall: %s must be [class_number,4], "
                "class_number=%" PRId64,
                fl_infer_text(c, STATES_INFO, buf), fl_int(c, CLASS_NUMBER));
    return FL_OK;
}

static fl_status precision_recall_infer(fl_infer *c)
{
    int64_t n = fl_int(c, CLASS_NUMBER);

    if (n < 1 || n > CLASSES_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "op precision_recall: class_number=%" PRId64
                " is not in 1..%" PRId64,
                n, CLASSES_MAX);
    FL_TRY(fl_infer_float(c, MAX_PROBS));
    FL_TRY(fl_infer_ids(c, INDICES));
    FL_TRY(fl_infer_ids(c, LABELS));
    FL_TRY(fl_infer_same_dtype(c, MAX_PROBS, WEIGHTS));
    for (int slot = MAX_PROBS; slot <= WEIGHTS; slot++)
        FL_TRY(check_column(c, slot));
    FL_TRY(check_states(c));
    fl_infer_dense(c, BATCH_METRICS, FL_DTYPE_F64, 1, (int64_t[]){ N_METRICS });
    fl_infer_dense(c, ACCUM_METRICS, FL_DTYPE_F64, 1, (int64_t[]){ N_METRICS });
    fl_infer_dense(c, ACCUM_STATES, fl_infer_in(c, MAX_PROBS)->dtype, 2,
                   (int64_t[]){ n, N_COUNTS });
    return FL_OK;
}

/* --- counting ------------------------------------------------------------- */

/* TN is what is left of all when the three other counts are taken away. */
static void count_batch(const fl_op_ctx *c, double *counts, size_t n_classes)
{
    const fl_tensor *weights = fl_in_t(c, WEIGHTS);
    size_t n = (size_t)fl_in_t(c, INDICES)->shape.dim[0];
    double all = 0;

    for (size_t i = 0; i < n; i++) {
        size_t found = (size_t)fl_label_at(fl_in_t(c, INDICES), i);
        size_t label = (size_t)fl_label_at(fl_in_t(c, LABELS), i);
        double w = weights ? fl_float_at(weights, (int64_t)i) : 1;

        all += w;
        if (found == label) {
            counts[found * N_COUNTS + TP] += w;
            continue;
        }
        counts[found * N_COUNTS + FP] += w;
        counts[label * N_COUNTS + FN] += w;
    }
    for (double *k = counts; k < counts + n_classes * N_COUNTS; k += N_COUNTS)
        k[TN] = all - k[TP] - k[FP] - k[FN];
}

/* --- metrics -------------------------------------------------------------- */

static double ratio(double right, double wrong)
{
    return right > 0 || wrong > 0 ? right / (right + wrong) : 1;
}

/* Precision, recall and the harmonic mean of both. */
static void write_metrics(double *to, double precision, double recall)
{
    to[0] = precision;
    to[1] = recall;
    to[2] = precision > 0 || recall > 0
                ? 2 * precision * recall / (precision + recall)
                : 0;
}

/* The means over classes first, then the metrics of their sum. */
static void measure(const double *counts, size_t n_classes, double *to)
{
    double sum[N_COUNTS] = { 0 }, precision = 0, recall = 0;

    for (size_t k = 0; k < n_classes; k++) {
        const double *of = counts + k * N_COUNTS;

        for (int i = 0; i < N_COUNTS; i++)
            sum[i] += of[i];
        precision += ratio(of[TP], of[FP]);
        recall += ratio(of[TP], of[FN]);
    }
    write_metrics(to, precision / (double)n_classes,
                  recall / (double)n_classes);
    write_metrics(to + N_METRICS / 2, ratio(sum[TP], sum[FP]),
                  ratio(sum[TP], sum[FN]));
}

static void keep_counts(fl_tensor *to, const double *counts)
{
    for (int64_t i = 0; i < fl_tensor_numel(to); i++)
        if (to->dtype == FL_DTYPE_F32)
            ((float *)to->data)[i] = (float)counts[i];
        else
            ((double *)to->data)[i] = counts[i];
}

static fl_status precision_recall_run(fl_op_ctx *c)
{
    const fl_tensor *before = fl_in_t(c, STATES_INFO);
    size_t n_classes = (size_t)fl_int(c, CLASS_NUMBER);
    size_t n = n_classes * N_COUNTS;
    fl_span all = { 0, (size_t)fl_in_t(c, INDICES)->shape.dim[0] };
    double *counts = fl_scratch(c, n * sizeof(*counts));

    if (!counts)
        return FL_NOMEM(c);
    FL_TRY(fl_check_ids(fl_in_t(c, INDICES), "Indices", n_classes, 0));
    FL_TRY(fl_check_labels(fl_in_t(c, LABELS), all, (int64_t)n_classes, 0));
    memset(counts, 0, n * sizeof(*counts));
    count_batch(c, counts, n_classes);
    measure(counts, n_classes, fl_out(c, BATCH_METRICS));
    for (size_t i = 0; i < n && before; i++)
        counts[i] += fl_float_at(before, (int64_t)i);
    measure(counts, n_classes, fl_out(c, ACCUM_METRICS));
    keep_counts(fl_out_t(c, ACCUM_STATES), counts);
    return FL_OK;
}

static const fl_op_case precision_recall_cases[] = {
    { .in = { "f32[33,1]", "i32[33,1] below=5", "i32[33,1] below=5" },
      .attrs = "{class_number=5}" },
    { .in = { "f32[6,1]", "i64[6,1] below=3", "i64[6,1] below=3", "f32[6,1]",
              "f32[3,4]" },
      .attrs = "{class_number=3}",
      .flags = FL_CASE_POSITIVE },
    { .in = { "f32[0,1]", "i32[0,1]", "i32[0,1]" },
      .attrs = "{class_number=2}" },
};

#define OPTIONAL (FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD)

const fl_op fl_op_precision_recall = {
    .name = "precision_recall",
    .doc = "BatchMetrics = precision, recall and F1 of Indices, the classes "
           "found, against Labels, rows counting as Weights: the means over "
           "classes, and behind them those of all rows; AccumMetrics = the "
           "same with what StatesInfo has counted, and AccumStatesInfo = the "
           "counts TP, FP, TN, FN of each class",
    .in = { { "MaxProbs", FL_SLOT_NO_GRAD },
            { "Indices", FL_SLOT_NO_GRAD },
            { "Labels", FL_SLOT_NO_GRAD },
            { "Weights", OPTIONAL },
            { "StatesInfo", OPTIONAL | FL_OP_SLOT_STATE | FL_OP_SLOT_COUNT } },
    .out = { { "BatchMetrics", FL_SLOT_NO_GRAD },
             { "AccumMetrics", FL_SLOT_NO_GRAD },
             { "AccumStatesInfo", FL_SLOT_NO_GRAD } },
    .attrs = { { "class_number", FL_ATTR_INT, "0" } },
    .infer = precision_recall_infer,
    .run = precision_recall_run,
    .cases = precision_recall_cases,
    .n_cases = FL_LEN(precision_recall_cases),
};
