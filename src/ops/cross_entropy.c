/* cross_entropy.c - the loss of predicted probabilities.
 *
 * Two operators: cross_entropy takes classes or weights of all classes,
 * cross_entropy2 classes only and keeps the probability that it looked up, so
 * that its gradient does not need X. Rows are independent of each other.
 */
#include <inttypes.h>
#include <math.h>

#include "kernel/unary.h"
#include "ops/helpers.h"
#include "ops/kit.h"
#include "ops/labels.h"

enum { X, LABEL };
enum { Y, X_SHAPE, MATCH_X }; /* the last two: cross_entropy2 */

enum { SOFT_LABEL, IGNORE_INDEX }; /* cross_entropy */
enum { IGNORE_INDEX_2 };           /* cross_entropy2 */

/* Stands for -log(0), so that one bad row does not turn a mean into inf. */
#define LOSS_MAX 1e20

static fl_shape without_dim(const fl_shape *s, int axis)
{
    fl_shape out = *s;

    out.rank--;
    for (int i = axis; i < out.rank; i++)
        out.dim[i] = s->dim[i + 1];
    return out;
}

fl_status fl_infer_labels(const fl_infer *c, int x, int label, int axis,
                          fl_label_kind kind, fl_shape *loss)
{
    char tx[FL_SLOT_TEXT_MAX], tl[FL_SLOT_TEXT_MAX];
    const fl_shape *has = &fl_infer_in(c, label)->shape;
    fl_shape want = fl_infer_in(c, x)->shape;
    bool soft = kind == FL_LABEL_SOFT;

    FL_TRY(soft ? fl_infer_same_dtype(c, x, label) : fl_infer_ids(c, label));
    *loss = want;
    loss->dim[axis] = 1;
    if (!soft && has->rank == want.rank - 1 && has->rank > 0)
        *loss = without_dim(&want, axis);
    if (!fl_shape_matches(soft ? &want : loss, has))
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s does not fit %s; dimension %d must be %s, the "
                "others equal",
                c->node->def->name, fl_infer_text(c, label, tl),
                fl_infer_text(c, x, tx), axis,
                soft ? "the number of classes" : "1 or left out");
    return FL_OK;
}

/* The first place of `s` with a class that is not allowed, or s.hi. All are
   looked at before one is looked for: most batches have none. */
#define FIND_BAD(T, t)                                                         \
    static size_t find_bad_##t(const T *k, fl_span s, int64_t n_classes,       \
                               int64_t ignore)                                 \
    {                                                                          \
        unsigned bad = 0;                                                      \
        size_t i = s.lo;                                                       \
                                                                               \
        for (; i < s.hi; i++)                                                  \
            bad |= (uint64_t)k[i] >= (uint64_t)n_classes && k[i] != ignore;    \
        if (!bad)                                                              \
            return s.hi;                                                       \
        for (i = s.lo;                                                         \
             (uint64_t)k[i] < (uint64_t)n_classes || k[i] == ignore;)          \
            i++;                                                               \
        return i;                                                              \
    }
FIND_BAD(int32_t, i32)
FIND_BAD(int64_t, i64)

fl_status fl_check_labels(const fl_tensor *label, fl_span s, int64_t n_classes,
                          int64_t ignore)
{
    size_t i = label->dtype == FL_DTYPE_I32
                   ? find_bad_i32(label->data, s, n_classes, ignore)
                   : find_bad_i64(label->data, s, n_classes, ignore);

    if (i < s.hi)
        FL_FAIL(FL_ERR_INVAL,
                "Label: class %" PRId64 " at place %zu is not in 0..%" PRId64,
                fl_label_at(label, i), i, n_classes - 1);
    return FL_OK;
}

/* What every loop over rows needs. */
typedef struct entropy_job {
    const fl_tensor *label;
    int64_t n_classes, ignore;
    fl_span rows;
} entropy_job;

/* Columns of the loops of functions of one number. */
enum { IS_f32, IS_f64 };
static const double no_attrs[FL_UNARY_ATTRS_MAX];

#define KERNELS(T, t, LOG)                                                         \
    static T loss_of_##t(T p)                                                      \
    {                                                                              \
        T loss = -LOG(p);                                                          \
                                                                                   \
        return loss > (T)LOSS_MAX ? (T)LOSS_MAX : loss;                            \
    }                                                                              \
    /* y holds the probabilities until their logarithms are taken at once; a     \
       class that is passed over counts as a sure one. */ \
    static void hard_##t(const entropy_job *j, const T *x, T *y, T *match)         \
    {                                                                              \
        size_t lo = j->rows.lo, n = j->rows.hi - lo;                               \
                                                                                   \
        for (size_t i = lo; i < lo + n; i++) {                                     \
            int64_t k = fl_label_at(j->label, i);                                  \
            bool skip = k == j->ignore;                                            \
                                                                                   \
            y[i] = skip ? 1 : x[i * (size_t)j->n_classes + (size_t)k];             \
            if (match)                                                             \
                match[i] = skip ? 0 : y[i];                                        \
        }                                                                          \
        fl_unary_of(FL_UNARY_log)->value[IS_##t](y + lo, y + lo, n, no_attrs);     \
        for (size_t i = lo; i < lo + n; i++)                                       \
            y[i] = -y[i] > (T)LOSS_MAX ? (T)LOSS_MAX : 0 - y[i];                   \
    }                                                                              \
    static void soft_##t(const entropy_job *j, const T *x, T *y)                   \
    {                                                                              \
        size_t n = (size_t)j->n_classes;                                           \
        const T *weight = j->label->data;                                          \
                                                                                   \
        for (size_t i = j->rows.lo; i < j->rows.hi; i++) {                         \
            T sum = 0;                                                             \
                                                                                   \
            for (size_t k = i * n; k < (i + 1) * n; k++)                           \
                sum += weight[k] * loss_of_##t(x[k]);                              \
            y[i] = sum;                                                            \
        }                                                                          \
    }                                                                              \
    /* p is X, `step` classes wide, or the probabilities that the forward run  \
       looked up, then step is 1; dy and dmatch may be NULL. */   \
    static void hard_back_##t(const entropy_job *j, const T *p, size_t step,       \
                              const T *dy, const T *dmatch, T *dx)                 \
    {                                                                              \
        size_t n = (size_t)j->n_classes;                                           \
                                                                                   \
        for (size_t i = j->rows.lo; i < j->rows.hi; i++) {                         \
            int64_t k = fl_label_at(j->label, i);                                  \
            T *g;                                                                  \
                                                                                   \
            memset(dx + i * n, 0, n * sizeof(T));                                  \
            if (k == j->ignore)                                                    \
                continue;                                                          \
            g = dx + i * n + (size_t)k;                                            \
            if (dy)                                                                \
                *g = -dy[i] / p[i * step + (step == 1 ? 0 : (size_t)k)];           \
            if (dmatch)                                                            \
                *g += dmatch[i];                                                   \
        }                                                                          \
    }                                                                              \
    static void soft_back_##t(const entropy_job *j, const T *x, const T *dy,       \
                              T *dx)                                               \
    {                                                                              \
        size_t n = (size_t)j->n_classes;                                           \
        const T *weight = j->label->data;                                          \
                                                                                   \
        for (size_t i = j->rows.lo; i < j->rows.hi; i++)                           \
            for (size_t k = i * n; k < (i + 1) * n; k++)                           \
                dx[k] = weight[k] != 0 ? -dy[i] * weight[k] / x[k] : 0;            \
    }
KERNELS(float, f32, logf)
KERNELS(double, f64, log)

static entropy_job job_of(const fl_op_ctx *c, int64_t ignore)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;
    int64_t rows = fl_shape_count(x, 0, x->rank - 1);

    return (entropy_job){ .label = fl_in_t(c, LABEL),
                          .n_classes = x->dim[x->rank - 1],
                          .ignore = ignore,
                          .rows = fl_op_span(c, (size_t)rows) };
}

static fl_status infer_loss(fl_infer *c, fl_label_kind kind)
{
    const fl_tensor *x = fl_infer_in(c, X);
    char buf[FL_SLOT_TEXT_MAX];

    if (x->shape.rank < 2)
        FL_FAIL(FL_ERR_INVAL, "op %s: %s must have two dimensions or more",
                c->node->def->name, fl_infer_text(c, X, buf));
    FL_TRY(fl_infer_same(c, X, Y));
    return fl_infer_labels(c, X, LABEL, x->shape.rank - 1, kind,
                           &fl_infer_out(c, Y)->shape);
}

/* --- cross_entropy -------------------------------------------------------- */

static fl_status cross_entropy_infer(fl_infer *c)
{
    return infer_loss(c,
                      fl_bool(c, SOFT_LABEL) ? FL_LABEL_SOFT : FL_LABEL_CLASS);
}

static fl_status cross_entropy_run(fl_op_ctx *c)
{
    entropy_job j = job_of(c, fl_int(c, IGNORE_INDEX));

    if (fl_bool(c, SOFT_LABEL)) {
        FL_BY_FLOAT(c, X, soft, &j, fl_in(c, X), fl_out(c, Y));
        return FL_OK;
    }
    FL_TRY(fl_check_labels(j.label, j.rows, j.n_classes, j.ignore));
    FL_BY_FLOAT(c, X, hard, &j, fl_in(c, X), fl_out(c, Y), NULL);
    return FL_OK;
}

static fl_status cross_entropy_back(fl_op_ctx *c)
{
    entropy_job j = job_of(c, fl_int(c, IGNORE_INDEX));

    if (!fl_din_t(c, X))
        return FL_OK;
    if (!fl_dout_t(c, Y)) {
        fl_share_zero(c, fl_din_t(c, X));
        return FL_OK;
    }
    if (fl_bool(c, SOFT_LABEL))
        FL_BY_FLOAT(c, X, soft_back, &j, fl_in(c, X), fl_dout(c, Y),
                    fl_din(c, X));
    else
        FL_BY_FLOAT(c, X, hard_back, &j, fl_in(c, X), (size_t)j.n_classes,
                    fl_dout(c, Y), NULL, fl_din(c, X));
    return FL_OK;
}

static const fl_op_case cross_entropy_cases[] = {
    { .in = { "f32[6,7]", "i64[6,1] below=7" }, .flags = FL_CASE_PROB },
    { .in = { "f32[0,7]", "i64[0,1] below=7" }, .flags = FL_CASE_PROB },
    { .in = { "f32[33,2]", "i64[33,1] below=2" }, .flags = FL_CASE_PROB },
    { .in = { "f32[2,3,4]", "i32[2,3,1] below=4" }, .flags = FL_CASE_PROB },
    { .in = { "f32[17,3]", "i64[17,1] below=3" },
      .attrs = "{ignore_index=1}",
      .flags = FL_CASE_PROB },
    { .in = { "f32[6,7]", "i64[6] below=7" }, .flags = FL_CASE_PROB },
    { .in = { "f32[2,3,4]", "i32[2,3] below=4" }, .flags = FL_CASE_PROB },
    { .in = { "f32[17,3]", "f32[17,3]" },
      .attrs = "{soft_label=true}",
      .flags = FL_CASE_PROB },
    { .in = { "f32[0,3]", "f32[0,3]" },
      .attrs = "{soft_label=true}",
      .flags = FL_CASE_PROB },
};

const fl_op fl_op_cross_entropy = {
    .name = "cross_entropy",
    .doc = "Y = -log X[Label] per row, or with soft_label the sum of "
           "-Label log X; rows of the class ignore_index have loss and "
           "gradient 0; a probability of 0 has loss 1e20",
    .in = { { "X", 0 }, { "Label", FL_SLOT_NO_GRAD } },
    .out = { { "Y", 0 } },
    .attrs = { { "soft_label", FL_ATTR_BOOL, "false" },
               { "ignore_index", FL_ATTR_INT, "-100" } },
    .flags = FL_OP_SLICED,
    .infer = cross_entropy_infer,
    .run = cross_entropy_run,
    .back = cross_entropy_back,
    .back_uses = FL_USES_IN(X) | FL_USES_IN(LABEL),
    .cases = cross_entropy_cases,
    .n_cases = FL_LEN(cross_entropy_cases),
};

/* --- cross_entropy2 ------------------------------------------------------- */

static fl_status cross_entropy2_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    fl_tensor *match = fl_infer_out(c, MATCH_X);

    FL_TRY(infer_loss(c, FL_LABEL_CLASS));
    if (match)
        fl_tensor_like(match, fl_infer_out(c, Y));
    fl_infer_dense(c, X_SHAPE, x->dtype, 1, (int64_t[]){ 0 });
    return FL_OK;
}

static fl_status cross_entropy2_run(fl_op_ctx *c)
{
    entropy_job j = job_of(c, fl_int(c, IGNORE_INDEX_2));

    FL_TRY(fl_check_labels(j.label, j.rows, j.n_classes, j.ignore));
    FL_BY_FLOAT(c, X, hard, &j, fl_in(c, X), fl_out(c, Y), fl_out(c, MATCH_X));
    return FL_OK;
}

static fl_status cross_entropy2_back_infer(fl_infer *c)
{
    return fl_back_needs(c, MATCH_X);
}

static fl_status cross_entropy2_back(fl_op_ctx *c)
{
    entropy_job j = job_of(c, fl_int(c, IGNORE_INDEX_2));

    if (fl_din_t(c, X))
        FL_BY_FLOAT(c, X, hard_back, &j, fl_saved_out(c, MATCH_X), 1,
                    fl_dout(c, Y), fl_dout(c, MATCH_X), fl_din(c, X));
    return FL_OK;
}

static const fl_op_case cross_entropy2_cases[] = {
    { .in = { "f32[6,7]", "i64[6,1] below=7" }, .flags = FL_CASE_PROB },
    { .in = { "f32[0,7]", "i64[0,1] below=7" }, .flags = FL_CASE_PROB },
    { .in = { "f32[33,2]", "i64[33,1] below=2" }, .flags = FL_CASE_PROB },
    { .in = { "f32[6,7]", "i64[6] below=7" }, .flags = FL_CASE_PROB },
    { .in = { "f32[17,3]", "i64[17,1] below=3" },
      .attrs = "{ignore_index=1}",
      .flags = FL_CASE_PROB },
};

const fl_op fl_op_cross_entropy2 = {
    .name = "cross_entropy2",
    .doc = "Y = -log X[Label] per row, MatchX = X[Label]; rows of the class "
           "ignore_index have loss and gradient 0; a probability of 0 has "
           "loss 1e20; XShape holds no data",
    .in = { { "X", 0 }, { "Label", FL_SLOT_NO_GRAD } },
    .out = { { "Y", 0 },
             { "XShape", FL_OP_SLOT_BYPRODUCT },
             { "MatchX", FL_OP_SLOT_BYPRODUCT } },
    .attrs = { { "ignore_index", FL_ATTR_INT, "-100" } },
    .flags = FL_OP_SLICED,
    .infer = cross_entropy2_infer,
    .run = cross_entropy2_run,
    .back = cross_entropy2_back,
    .back_uses = FL_USES_IN(LABEL) | FL_USES_OUT(MATCH_X),
    .back_infer = cross_entropy2_back_infer,
    .cases = cross_entropy2_cases,
    .n_cases = FL_LEN(cross_entropy2_cases),
};
