/* softmax_with_cross_entropy.c - the loss of raw scores, over one axis.
 *
 * The loss is log(sum of exp) minus the score, which loses nothing when a
 * probability is near 1. Scores are taken relative to the largest of their row
 * and not below -64, as 1.8.5 does: the loss of one class is at most about 64.
 * Rows are independent of each other.
 *
 * With many classes this is a walk over memory: so Softmax may lie where Logits
 * lay, and their gradient where Softmax lay. What the loss needs of Logits is
 * read before.
 */
#include <math.h>

#include "kernel/vec.h"
#include "ops/kit.h"
#include "ops/labels.h"

enum { LOGITS, LABEL };
enum { SOFTMAX, LOSS };
enum { SOFT_LABEL, STABLE, IGNORE_INDEX, AXIS };

/* A row is one place outside the axis: its classes lie `step` apart. */
typedef struct loss_job {
    const fl_tensor *label;
    size_t n, step;
    int64_t ignore;
    bool soft;
    fl_span rows;
} loss_job;

static size_t row_start(const loss_job *j, size_t i)
{
    return i / j->step * j->step * j->n + i % j->step;
}

/* With soft labels the weights of a row need not add up to 1:
     loss = sum over k of w[k] (log S - z[k]),
     d loss / d z[k] = p[k] (sum of w) - w[k].
   A gradient of Softmax itself, ds, adds p[k] (ds[k] - sum of ds p). */
#define KERNELS(T, t, EXP, LOG)                                                  \
    static T largest_##t(const loss_job *j, const T *x)                          \
    {                                                                            \
        T top = x[0];                                                            \
                                                                                 \
        for (size_t at = j->step; at < j->n * j->step; at += j->step)            \
            top = x[at] > top ? x[at] : top;                                     \
        return top;                                                              \
    }                                                                            \
    static T score_##t(T x, T top)                                               \
    {                                                                            \
        T z = x - top;                                                           \
                                                                                 \
        return z < FL_SOFTMAX_LEAST ? FL_SOFTMAX_LEAST : z;                      \
    }                                                                            \
    /* A row to its probabilities p, which may be NULL. */                       \
    static fl_softmax_of softmax_##t(const loss_job *j, const T *x, T *p)        \
    {                                                                            \
        T top, sum = 0;                                                          \
                                                                                 \
        if (j->step == 1)                                                        \
            return fl_vec_##t()->softmax(p, x, j->n);                            \
        top = largest_##t(j, x);                                                 \
        for (size_t at = 0; at < j->n * j->step; at += j->step) {                \
            T e = EXP(score_##t(x[at], top));                                    \
                                                                                 \
            sum += e;                                                            \
            if (p)                                                               \
                p[at] = e;                                                       \
        }                                                                        \
        for (size_t at = 0; p && at < j->n * j->step; at += j->step)             \
            p[at] /= sum;                                                        \
        return (fl_softmax_of){ (double)top, (double)sum };                      \
    }                                                                            \
    static T hard_loss_##t(const loss_job *j, const T *x, T *p, int64_t k)       \
    {                                                                            \
        T own = k == j->ignore ? 0 : x[(size_t)k * j->step];                     \
        fl_softmax_of of = softmax_##t(j, x, p);                                 \
                                                                                 \
        if (k == j->ignore)                                                      \
            return 0;                                                            \
        return LOG((T)of.sum) - score_##t(own, (T)of.max);                       \
    }                                                                            \
    static T soft_loss_##t(const loss_job *j, const T *x, T *p, const T *w)      \
    {                                                                            \
        T top = largest_##t(j, x);                                               \
        double weight = 0, score = 0;                                            \
        fl_softmax_of of;                                                        \
                                                                                 \
        for (size_t at = 0; at < j->n * j->step; at += j->step) {                \
            weight += (double)w[at];                                             \
            score += (double)w[at] * (double)score_##t(x[at], top);              \
        }                                                                        \
        of = softmax_##t(j, x, p);                                               \
        return (T)(weight * log(of.sum) - score);                                \
    }                                                                            \
    static void forward_##t(const loss_job *j, const T *logits, T *softmax,      \
                            T *loss)                                             \
    {                                                                            \
        for (size_t i = j->rows.lo; i < j->rows.hi; i++) {                       \
            size_t at = row_start(j, i);                                         \
            T *p = softmax ? softmax + at : NULL;                                \
                                                                                 \
            if (j->soft)                                                         \
                loss[i] = soft_loss_##t(j, logits + at, p,                       \
                                        (const T *)j->label->data + at);         \
            else                                                                 \
                loss[i] = hard_loss_##t(j, logits + at, p,                       \
                                        fl_label_at(j->label, i));               \
        }                                                                        \
    }                                                                            \
    /* Of a row with weights w, or one class (NULL); ds is the gradient of     \
       Softmax or NULL. The class itself is left to the caller. */ \
    static void row_back_##t(const loss_job *j, const T *p, const T *ds,         \
                             const T *w, T g, T *dx)                             \
    {                                                                            \
        T dot = 0, all = w ? 0 : g;                                              \
                                                                                 \
        for (size_t at = 0; at < j->n * j->step; at += j->step) {                \
            dot += ds ? ds[at] * p[at] : 0;                                      \
            all += w ? g * w[at] : 0;                                            \
        }                                                                        \
        for (size_t at = 0; at < j->n * j->step; at += j->step)                  \
            dx[at] =                                                             \
                p[at] * (all + (ds ? ds[at] - dot : 0)) - (w ? g * w[at] : 0);   \
    }                                                                            \
    static void backward_##t(const loss_job *j, const T *softmax,                \
                             const T *dloss, const T *dsoftmax, T *dlogits)      \
    {                                                                            \
        for (size_t i = j->rows.lo; i < j->rows.hi; i++) {                       \
            size_t at = row_start(j, i);                                         \
            const T *w = j->soft ? (const T *)j->label->data + at : NULL;        \
            const T *ds = dsoftmax ? dsoftmax + at : NULL;                       \
            int64_t k = w ? j->ignore : fl_label_at(j->label, i);                \
            T g = !dloss || (!w && k == j->ignore) ? 0 : dloss[i];               \
                                                                                 \
            if (!w && !ds && j->step == 1)                                       \
                fl_vec_##t()->scale(dlogits + at, g, softmax + at, 0, j->n);     \
            else                                                                 \
                row_back_##t(j, softmax + at, ds, w, g, dlogits + at);           \
            if (k != j->ignore)                                                  \
                dlogits[at + (size_t)k * j->step] -= g;                          \
        }                                                                        \
    }
KERNELS(float, f32, expf, logf)
KERNELS(double, f64, exp, log)

static fl_status swce_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, LOGITS);
    int axis = fl_shape_axis(&x->shape, fl_int(c, AXIS));
    fl_tensor *loss = fl_infer_out(c, LOSS);
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_float(c, LOGITS));
    if (axis < 0)
        FL_FAIL(FL_ERR_INVAL,
                "op softmax_with_cross_entropy: %s has no axis %lld",
                fl_infer_text(c, LOGITS, buf), (long long)fl_int(c, AXIS));
    FL_TRY(fl_infer_same(c, LOGITS, SOFTMAX));
    fl_tensor_like(loss, x);
    return fl_infer_labels(
        c, LOGITS, LABEL, axis,
        fl_bool(c, SOFT_LABEL) ? FL_LABEL_SOFT : FL_LABEL_CLASS, &loss->shape);
}

static loss_job job_of(const fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, LOGITS)->shape;
    int axis = fl_shape_axis(x, fl_int(c, AXIS));
    int64_t step = fl_shape_count(x, axis + 1, x->rank);
    int64_t rows = fl_shape_count(x, 0, axis) * step;

    return (loss_job){ .label = fl_in_t(c, LABEL),
                       .n = (size_t)x->dim[axis],
                       .step = (size_t)step,
                       .ignore = fl_int(c, IGNORE_INDEX),
                       .soft = fl_bool(c, SOFT_LABEL),
                       .rows = fl_op_span(c, (size_t)rows) };
}

static fl_status swce_run(fl_op_ctx *c)
{
    loss_job j = job_of(c);

    if (!j.n && j.rows.lo < j.rows.hi)
        FL_FAIL(FL_ERR_INVAL, "Logits has rows without a class");
    if (!j.soft)
        FL_TRY(fl_check_labels(j.label, j.rows, (int64_t)j.n, j.ignore));
    FL_BY_FLOAT(c, LOGITS, forward, &j, fl_in(c, LOGITS), fl_out(c, SOFTMAX),
                fl_out(c, LOSS));
    return FL_OK;
}

static fl_status swce_back_infer(fl_infer *c)
{
    return fl_back_needs(c, SOFTMAX);
}

static fl_status swce_back(fl_op_ctx *c)
{
    loss_job j = job_of(c);

    if (fl_din_t(c, LOGITS))
        FL_BY_FLOAT(c, LOGITS, backward, &j, fl_saved_out(c, SOFTMAX),
                    fl_dout(c, LOSS), fl_dout(c, SOFTMAX), fl_din(c, LOGITS));
    return FL_OK;
}

static const fl_op_case swce_cases[] = {
    { .in = { "f32[6,7]", "i64[6,1] below=7" } },
    { .in = { "f32[0,7]", "i64[0,1] below=7" } },
    { .in = { "f32[33,2]", "i64[33,1] below=2" } },
    { .in = { "f32[3,4,5]", "i64[3,1,5] below=4" }, .attrs = "{axis=1}" },
    { .in = { "f32[4,3]", "i32[1,3] below=4" }, .attrs = "{axis=0}" },
    { .in = { "f32[3,4,5]", "i64[3,5] below=4" }, .attrs = "{axis=1}" },
    { .in = { "f32[6,7]", "i64[6] below=7" } },
    { .in = { "f32[17,3]", "i64[17,1] below=3" }, .attrs = "{ignore_index=1}" },
    { .in = { "f32[17,3]", "i64[17,1] below=3" },
      .attrs = "{numeric_stable_mode=false}" },
    { .in = { "f32[17,3]", "f32[17,3]" }, .attrs = "{soft_label=true}" },
    { .in = { "f32[2,3,5]", "f32[2,3,5]" },
      .attrs = "{soft_label=true, axis=1}" },
};

const fl_op fl_op_softmax_with_cross_entropy = {
    .name = "softmax_with_cross_entropy",
    .doc = "Softmax of Logits along axis and Loss = -log Softmax[Label], or "
           "with soft_label the sum of -Label log Softmax; scores are taken "
           "relative to the largest, at least -64, with any "
           "numeric_stable_mode, as on CPUs in PaddlePaddle 1.8.5; the class "
           "ignore_index has loss 0 and, unlike there, gradient 0",
    .in = { { "Logits", 0 }, { "Label", FL_SLOT_NO_GRAD } },
    .out = { { "Softmax", FL_OP_SLOT_BYPRODUCT }, { "Loss", 0 } },
    .attrs = { { "soft_label", FL_ATTR_BOOL, "false" },
               { "numeric_stable_mode", FL_ATTR_BOOL, "true" },
               { "ignore_index", FL_ATTR_INT, "-100" },
               { "axis", FL_ATTR_INT, "-1" } },
    .flags = FL_OP_INPLACE | FL_OP_OVER_OUT | FL_OP_SLICED,
    .infer = swce_infer,
    .run = swce_run,
    .back = swce_back,
    .back_uses = FL_USES_IN(LABEL) | FL_USES_OUT(SOFTMAX),
    .back_infer = swce_back_infer,
    .cases = swce_cases,
    .n_cases = FL_LEN(swce_cases),
};
