/* bpr_loss.c - the score of the right class against all others.
 *
 *     Y = mean over the other classes j of log(1 + exp(x[j] - x[label]))
 */
#include "kernel/unary.h"
#include "kernel/vec.h"
#include "ops/helpers.h"
#include "ops/labels.h"

enum { X, LABEL };
enum { Y };

/* F of all numbers, in place; `at` is 0 for f32, 1 for f64. */
static void apply(fl_unary_kind f, int at, void *x, size_t n)
{
    static const double no_attrs[FL_UNARY_ATTRS_MAX];

    fl_unary_of(f)->value[at](x, x, n, no_attrs);
}

#define KERNELS(T, t)                                                          \
    /* What all scores are above that of the right class. */                   \
    static void above_##t(const T *x, size_t n, size_t right, T *to)           \
    {                                                                          \
        fl_vec_##t()->scale(to, 1, x, -x[right], n);                           \
    }                                                                          \
    static void forward_##t(const fl_tensor *label, fl_span s, size_t n,       \
                            const T *x, T *tmp, T *y)                          \
    {                                                                          \
        for (size_t i = s.lo; i < s.hi; i++) {                                 \
            size_t right = (size_t)fl_label_at(label, i);                      \
                                                                               \
            above_##t(x + i * n, n, right, tmp);                               \
            apply(FL_UNARY_softplus, sizeof(T) == sizeof(double), tmp, n);     \
            tmp[right] = 0;                                                    \
            y[i] = (T)(fl_vec_##t()->sum(tmp, n) / (double)(n - 1));           \
        }                                                                      \
    }                                                                          \
    static void backward_##t(const fl_tensor *label, fl_span s, size_t n,      \
                             const T *x, const T *dy, T *dx)                   \
    {                                                                          \
        for (size_t i = s.lo; i < s.hi; i++) {                                 \
            size_t right = (size_t)fl_label_at(label, i);                      \
            T *row = dx + i * n;                                               \
                                                                               \
            above_##t(x + i * n, n, right, row);                               \
            apply(FL_UNARY_sigmoid, sizeof(T) == sizeof(double), row, n);      \
            row[right] = 0;                                                    \
            fl_vec_##t()->scale(row, dy[i] / (T)(n - 1), row, 0, n);           \
            row[right] = (T)-fl_vec_##t()->sum(row, n);                        \
        }                                                                      \
    }
FL_FLOATS(KERNELS)

static fl_status bpr_loss_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    int last = x->shape.rank - 1;
    char buf[FL_SLOT_TEXT_MAX];

    if (last < 1 || x->shape.dim[last] == 0 || x->shape.dim[last] == 1)
        FL_FAIL(FL_ERR_INVAL,
                "op bpr_loss: %s must have two dimensions or more and two "
                "classes or more in the last",
                fl_infer_text(c, X, buf));
    FL_TRY(fl_infer_same(c, X, Y));
    return fl_infer_labels(c, X, LABEL, last, FL_LABEL_CLASS,
                           &fl_infer_out(c, Y)->shape);
}

static size_t n_classes(const fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;

    return (size_t)x->dim[x->rank - 1];
}

/* No class is let through unseen: 0, which may be, is one of them. */
static fl_status bpr_loss_run(fl_op_ctx *c)
{
    const fl_tensor *label = fl_in_t(c, LABEL);
    fl_span s = fl_op_span(c, (size_t)fl_tensor_numel(label));
    size_t n = n_classes(c);
    void *tmp = fl_scratch(c, n * fl_dtype_bytes(fl_in_t(c, X)->dtype));

    FL_TRY(fl_check_labels(label, s, (int64_t)n, 0));
    if (!tmp)
        return FL_NOMEM(c);
    FL_BY_FLOAT(c, X, forward, label, s, n, fl_in(c, X), tmp, fl_out(c, Y));
    return FL_OK;
}

static fl_status bpr_loss_back(fl_op_ctx *c)
{
    const fl_tensor *label = fl_in_t(c, LABEL);
    fl_span s = fl_op_span(c, (size_t)fl_tensor_numel(label));

    if (!fl_dout_t(c, Y))
        fl_din_zero(c, X);
    else if (fl_din_t(c, X))
        FL_BY_FLOAT(c, X, backward, label, s, n_classes(c), fl_in(c, X),
                    fl_dout(c, Y), fl_din(c, X));
    return FL_OK;
}

static const fl_op_case bpr_loss_cases[] = {
    { .in = { "f32[6,7]", "i64[6,1] below=7" } },
    { .in = { "f32[0,7]", "i64[0,1] below=7" } },
    { .in = { "f32[1,17]", "i64[1,1] below=17" } },
    { .in = { "f32[33,2]", "i32[33] below=2" } },
    { .in = { "f32[2,3,4]", "i64[2,3,1] below=4" } },
    { .in = { "f32[7,3] lod=[0,2,2,7]", "i64[7,1] below=3" } },
};

const fl_op fl_op_bpr_loss = {
    .name = "bpr_loss",
    .doc = "Y = the mean over the classes j beside Label of "
           "log(1 + exp(X[j] - X[Label])), row by row",
    .in = { { "X", 0 }, { "Label", FL_SLOT_NO_GRAD } },
    .out = { { "Y", 0 } },
    .flags = FL_OP_SLICED,
    .infer = bpr_loss_infer,
    .run = bpr_loss_run,
    .back = bpr_loss_back,
    .back_uses = FL_USES_IN(X) | FL_USES_IN(LABEL),
    .cases = bpr_loss_cases,
    .n_cases = FL_LEN(bpr_loss_cases),
};
