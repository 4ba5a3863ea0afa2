/* ratios.c - metrics that are a sum over another: recall among the k best,
 * right order of pairs, log loss, accuracy by class.
 *
 * Stat [rows, 2] holds both sums in f64, in several rows where a metric tells
 * classes apart; the value is the sum of the first column over that of the
 * second. So batches, passes and workers are put together by adding up. Hogwild
 * threads add to the same Stat, each batch at once and atomically. A batch that
 * is refused leaves no trace.
 */
#include <inttypes.h>
#include <math.h>

#include "kernel/vec.h"
#include "ops/kit.h"
#include "ops/labels.h"

enum { X, Y, STAT };    /* index into .in; Y is the label or the other */
enum { OUT, STAT_OUT }; /* index into .out */
enum { K, BY_ROW };     /* of recall_at_k */
#define P_MIN 1e-7      /* log loss: a prediction is at least so far from 0 */
#define BLOCK 512       /* scores that are counted before one looks */
#define NO_LABEL 0      /* that is passed over: 0 is a class like others */

/* --- shapes --------------------------------------------------------------- */

/* Out and Stat, which has so many rows. */
static fl_status infer_stat(fl_infer *c, int64_t rows)
{
    const fl_tensor *t = fl_infer_in(c, STAT);
    char buf[FL_SLOT_TEXT_MAX];

    if (t->dtype != FL_DTYPE_F64 ||
        !fl_shape_matches(&t->shape, &(fl_shape){ 2, { rows, 2 } }))
        FL_FAIL(FL_ERR_INVAL, "op %s: %s must be f64[%" PRId64 ",2]",
                c->node->def->name, fl_infer_text(c, STAT, buf), rows);
    fl_infer_dense(c, OUT, FL_DTYPE_F64, 1, (int64_t[]){ 1 });
    fl_tensor_like(fl_infer_out(c, STAT_OUT), t);
    return FL_OK;
}

static fl_status no_fit(const fl_infer *c)
{
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    FL_FAIL(FL_ERR_INVAL, "op %s: %s does not fit %s", c->node->def->name,
            fl_infer_text(c, Y, a), fl_infer_text(c, X, b));
}

/* X [n, 1...most] of floats. */
static fl_status check_x(const fl_infer *c, int64_t most)
{
    const fl_shape *s = &fl_infer_in(c, X)->shape;
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_float(c, X));
    if (s->rank != 2 || s->dim[1] == 0 || s->dim[1] > most)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s must have two dimensions, of the second 1 to "
                "%" PRId64,
                c->node->def->name, fl_infer_text(c, X, buf), most);
    return FL_OK;
}

/* One label for each row of X. */
static fl_status check_label(const fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    const fl_shape *y = &fl_infer_in(c, Y)->shape;

    FL_TRY(fl_infer_ids(c, Y));
    if (!fl_shape_matches(y, &(fl_shape){ 2, { x->dim[0], 1 } }) &&
        !fl_shape_matches(y, &(fl_shape){ 1, { x->dim[0] } }))
        return no_fit(c);
    return FL_OK;
}

/* --- sums ----------------------------------------------------------------- */

static void add(double *at, double v)
{
    double old, sum;

    __atomic_load(at, &old, __ATOMIC_RELAXED);
    do {
        sum = old + v;
    } while (!__atomic_compare_exchange(at, &old, &sum, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED));
}

static double get(const double *at)
{
    double v;

    __atomic_load(at, &v, __ATOMIC_RELAXED);
    return v;
}

/* Adds n sums, as many as Stat has, and gives the value out. */
static fl_status add_up(const fl_op_ctx *c, const double *sums, int64_t n)
{
    const fl_tensor *from = fl_in_t(c, STAT);
    double *stat = fl_out(c, STAT_OUT), of[2] = { 0 };

    if (stat != from->data)
        memcpy(stat, from->data, (size_t)n * sizeof(*stat));
    for (int64_t i = 0; i < n; i++) {
        if (sums[i] != 0)
            add(&stat[i], sums[i]);
        of[i % 2] += get(&stat[i]);
    }
    *(double *)fl_out(c, OUT) = of[1] > 0 ? of[0] / of[1] : 0;
    return FL_OK;
}

/* --- recall --------------------------------------------------------------- */

static fl_status recall_infer(fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    const fl_shape *y = &fl_infer_in(c, Y)->shape;

    FL_TRY(check_x(c, INT64_MAX));
    FL_TRY(fl_infer_ids(c, Y));
    if (y->rank != 2 ||
        !fl_shape_matches(y, &(fl_shape){ 2, { x->dim[0], -1 } }))
        return no_fit(c);
    if (fl_int(c, K) < 1)
        FL_FAIL(FL_ERR_INVAL, "op recall_at_k: k is %" PRId64 ", not 1 or more",
                fl_int(c, K));
    return infer_stat(c, 1);
}

static size_t up_to(ptrdiff_t n)
{
    return n < BLOCK ? (size_t)n : BLOCK;
}

/* Is class y among the k best of a row? Of equals the first is better; a score
   that is no number is never among them. Most rows end at the first block. */
#define KERNELS(T, t)                                                          \
    static bool is_top_##t(const T *x, int64_t n, int64_t y, int64_t k)        \
    {                                                                          \
        const T *own = x + y, *end = x + n;                                    \
        size_t above = 0, most = (size_t)k;                                    \
                                                                               \
        for (const T *at = x; at < own && above < most; at += BLOCK)           \
            above += fl_vec_##t()->count_from(at, *own, up_to(own - at));      \
        for (const T *at = own + 1; at < end && above < most; at += BLOCK)     \
            above += fl_vec_##t()->count_above(at, *own, up_to(end - at));     \
        return above < most && *own == *own;                                   \
    }
FL_FLOATS(KERNELS)

static bool is_top(const fl_tensor *x, int64_t row, int64_t y, int64_t k)
{
    int64_t n = x->shape.dim[1];

    if (x->dtype == FL_DTYPE_F64)
        return is_top_f64((const double *)x->data + row * n, n, y, k);
    return is_top_f32((const float *)x->data + row * n, n, y, k);
}

static fl_status recall_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X), *y = fl_in_t(c, Y);
    int64_t n = x->shape.dim[0], m = y->shape.dim[1], k = fl_int(c, K);
    int64_t labels = 0, rows = 0;

    FL_TRY(fl_check_labels(y, (fl_span){ 0, (size_t)(n * m) }, x->shape.dim[1],
                           NO_LABEL));
    for (int64_t i = 0; i < n; i++) {
        int64_t found = 0;

        for (int64_t j = 0; j < m; j++)
            found += is_top(x, i, fl_label_at(y, (size_t)(i * m + j)), k);
        labels += found;
        rows += found > 0;
    }
    if (fl_bool(c, BY_ROW))
        return add_up(c, (double[]){ (double)rows, (double)n }, 2);
    return add_up(c, (double[]){ (double)labels, (double)(n * m) }, 2);
}

/* --- pairs ---------------------------------------------------------------- */

static fl_status pair_infer(fl_infer *c)
{
    FL_TRY(check_x(c, INT64_MAX));
    FL_TRY(fl_infer_same_dtype(c, X, Y));
    if (!fl_shape_matches(&fl_infer_in(c, Y)->shape, &fl_infer_in(c, X)->shape))
        return no_fit(c);
    return infer_stat(c, 1);
}

static fl_status pair_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X), *y = fl_in_t(c, Y);
    int64_t n = fl_tensor_numel(x);
    double right = 0;

    for (int64_t i = 0; i < n; i++) {
        double a = fl_float_at(x, i), b = fl_float_at(y, i);

        right += a > b ? 1 : a == b ? 0.5 : 0;
    }
    return add_up(c, (double[]){ right, (double)n }, 2);
}

/* --- log loss ------------------------------------------------------------- */

static fl_status log_loss_infer(fl_infer *c)
{
    FL_TRY(check_x(c, 2));
    FL_TRY(check_label(c));
    return infer_stat(c, 1);
}

static fl_status log_loss_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X), *y = fl_in_t(c, Y);
    int64_t n = x->shape.dim[0], width = x->shape.dim[1];
    double sum = 0;

    FL_TRY(fl_check_labels(y, (fl_span){ 0, (size_t)n }, 2, NO_LABEL));
    for (int64_t i = 0; i < n; i++) {
        double p = fl_float_at(x, i * width + width - 1);

        if (!(p >= 0 && p <= 1))
            FL_FAIL(FL_ERR_NUMERIC, "X: %g in row %" PRId64 " is not in [0, 1]",
                    p, i);
        p = fl_label_at(y, (size_t)i) ? p : 1 - p;
        sum -= log(p > P_MIN ? p : P_MIN);
    }
    return add_up(c, (double[]){ sum, (double)n }, 2);
}

/* --- accuracy by class ---------------------------------------------------- */

static fl_status class_infer(fl_infer *c)
{
    FL_TRY(check_x(c, INT64_MAX));
    FL_TRY(check_label(c));
    return infer_stat(c, fl_infer_in(c, X)->shape.dim[1]);
}

static fl_status class_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X), *y = fl_in_t(c, Y);
    int64_t n = x->shape.dim[0], n_classes = x->shape.dim[1];
    size_t bytes = (size_t)(2 * n_classes) * sizeof(double);
    double *sums = fl_scratch(c, bytes);

    if (!sums)
        return FL_NOMEM(c);
    memset(sums, 0, bytes);
    FL_TRY(fl_check_labels(y, (fl_span){ 0, (size_t)n }, n_classes, NO_LABEL));
    for (int64_t i = 0; i < n; i++) {
        int64_t label = fl_label_at(y, (size_t)i);

        sums[2 * label] += is_top(x, i, label, 1);
        sums[2 * label + 1] += 1;
    }
    return add_up(c, sums, 2 * n_classes);
}

/* --- descriptors ---------------------------------------------------------- */

#define IN_WITH(name)                                                          \
    {                                                                          \
        { "X", FL_SLOT_NO_GRAD }, { name, FL_SLOT_NO_GRAD },                   \
        {                                                                      \
            "Stat", FL_OP_SLOT_STATE | FL_OP_SLOT_COUNT | FL_SLOT_NO_GRAD      \
        }                                                                      \
    }
#define OUT_OF_ALL                                                             \
    {                                                                          \
        { "Out", 0 },                                                          \
        {                                                                      \
            "StatOut", 0                                                       \
        }                                                                      \
    }

static const fl_op_case recall_cases[] = {
    { .in = { "f32[1,1]", "i64[1,1] below=1", "f64[1,2] below=9" } },
    { .in = { "f32[0,4]", "i64[0,1] below=4", "f64[1,2] below=9" } },
    { .in = { "f32[33,9]", "i64[33,2] below=9", "f64[1,2] below=9" },
      .attrs = "{k=3}" },
    { .in = { "f32[33,9]", "i32[33,2] below=9", "f64[1,2] below=9" },
      .attrs = "{k=3, by_row=true}" },
};

const fl_op fl_op_recall_at_k = {
    .name = "recall_at_k",
    .doc = "Out = share of the classes in Label [n,m] that are among the k "
           "best scores of their row of X [n,classes], or with by_row of the "
           "rows that have one there (hit rate), over all that Stat f64[1,2] "
           "has seen: found, all",
    .in = IN_WITH("Label"),
    .out = OUT_OF_ALL,
    .attrs = { { "k", FL_ATTR_INT, "20" },
               { "by_row", FL_ATTR_BOOL, "false" } },
    .infer = recall_infer,
    .run = recall_run,
    .cases = recall_cases,
    .n_cases = FL_LEN(recall_cases),
};

static const fl_op_case pair_cases[] = {
    { .in = { "f32[1,1]", "f32[1,1]", "f64[1,2] below=9" } },
    { .in = { "f32[0,1]", "f32[0,1]", "f64[1,2] below=9" } },
    { .in = { "f32[33,4]", "f32[33,4]", "f64[1,2] below=9" } },
};

const fl_op fl_op_pair_accuracy = {
    .name = "pair_accuracy",
    .doc = "Out = share of places where X, the score of what is right, is "
           "above Y, that of what is wrong; equal ones count half; over all "
           "that Stat f64[1,2] has seen: right, all",
    .in = IN_WITH("Y"),
    .out = OUT_OF_ALL,
    .infer = pair_infer,
    .run = pair_run,
    .cases = pair_cases,
    .n_cases = FL_LEN(pair_cases),
};

static const fl_op_case log_loss_cases[] = {
    { .in = { "f32[1,1] below=1", "i64[1] below=2", "f64[1,2] below=9" } },
    { .in = { "f32[0,2] below=1", "i64[0,1] below=2", "f64[1,2] below=9" } },
    { .in = { "f32[33,2] below=1", "i64[33,1] below=2", "f64[1,2] below=9" } },
};

const fl_op fl_op_mean_log_loss = {
    .name = "mean_log_loss",
    .doc = "Out = mean of -log of the chance that X [n,1] or its last column "
           "gives to Label, 0 or 1, over all that Stat f64[1,2] has seen: sum, "
           "number; a chance counts as at least 1e-7",
    .in = IN_WITH("Label"),
    .out = OUT_OF_ALL,
    .infer = log_loss_infer,
    .run = log_loss_run,
    .cases = log_loss_cases,
    .n_cases = FL_LEN(log_loss_cases),
};

static const fl_op_case class_cases[] = {
    { .in = { "f32[1,1]", "i64[1,1] below=1", "f64[1,2] below=9" } },
    { .in = { "f32[0,3]", "i64[0,1] below=3", "f64[3,2] below=9" } },
    { .in = { "f32[33,5]", "i64[33] below=5", "f64[5,2] below=9" } },
};

const fl_op fl_op_class_accuracy = {
    .name = "class_accuracy",
    .doc = "Out = share of rows of X [n,classes] whose best score is that of "
           "Label, over all that Stat f64[classes,2] has seen: by class right "
           "ones, and all",
    .in = IN_WITH("Label"),
    .out = OUT_OF_ALL,
    .infer = class_infer,
    .run = class_run,
    .cases = class_cases,
    .n_cases = FL_LEN(class_cases),
};
