/* kldiv_loss.c - how far a distribution, given as logarithms, is from the one
 * that it should be. A place whose target is 0 or below counts nothing.
 */
#include <tgmath.h>

#include "ops/helpers.h"

enum { X, TARGET };
enum { LOSS };
enum { REDUCTION };

/* What becomes of the numbers of all places, and by what their sum is
   divided. */
static const struct reduction {
    const char *name;
    bool keeps;    /* one number per place */
    int first_dim; /* dims [0, first_dim) are counted; -1: all of them */
} reductions[] = {
    { "none", true, 0 },
    { "mean", false, -1 },
    { "batchmean", false, 1 },
    { "sum", false, 0 },
};

static const struct reduction *reduction_of(const fl_op_node *n)
{
    for (size_t i = 0; i < FL_LEN(reductions); i++)
        if (!strcmp(fl_attr_str(n, REDUCTION), reductions[i].name))
            return &reductions[i];
    return NULL;
}

static double divisor_of(const fl_op_ctx *c, const struct reduction *r)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;
    int hi = r->first_dim < 0 ? x->rank : r->first_dim;
    int64_t n = fl_shape_count(x, 0, hi);

    return n > 0 ? (double)n : 1;
}

#define KERNELS(T, t)                                                          \
    static T loss_at_##t(T x, T target)                                        \
    {                                                                          \
        return target > 0 ? target * (log(target) - x) : 0;                    \
    }                                                                          \
    static void forward_##t(const T *x, const T *target, fl_span s, T *loss)   \
    {                                                                          \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            loss[i] = loss_at_##t(x[i], target[i]);                            \
    }                                                                          \
    static void fold_##t(const T *x, const T *target, size_t n,                \
                         double divisor, T *loss)                              \
    {                                                                          \
        double sum = 0;                                                        \
                                                                               \
        for (size_t i = 0; i < n; i++)                                         \
            sum += (double)loss_at_##t(x[i], target[i]);                       \
        *loss = (T)(sum / divisor);                                            \
    }                                                                          \
    /* g holds one number per place, or one for all. */                        \
    static void backward_##t(const T *target, const T *g, size_t g_step,       \
                             double divisor, fl_span s, T *dx)                 \
    {                                                                          \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            dx[i] =                                                            \
                target[i] > 0 ? -target[i] * g[i * g_step] / (T)divisor : 0;   \
    }
FL_FLOATS(KERNELS)

static fl_status kldiv_loss_infer(fl_infer *c)
{
    const struct reduction *r = reduction_of(c->node);
    char tx[FL_SLOT_TEXT_MAX], tt[FL_SLOT_TEXT_MAX];

    if (!r)
        FL_FAIL(FL_ERR_INVAL,
                "op kldiv_loss: reduction '%s' is not none, mean, batchmean or "
                "sum",
                fl_str_attr(c, REDUCTION));
    FL_TRY(fl_infer_same_dtype(c, X, TARGET));
    if (!fl_shape_matches(&fl_infer_in(c, X)->shape,
                          &fl_infer_in(c, TARGET)->shape))
        FL_FAIL(FL_ERR_INVAL,
                "op kldiv_loss: %s and %s must have the same "
                "shape",
                fl_infer_text(c, X, tx), fl_infer_text(c, TARGET, tt));
    FL_TRY(fl_infer_same(c, X, LOSS));
    if (!r->keeps)
        fl_infer_dense(c, LOSS, fl_infer_in(c, X)->dtype, 1, (int64_t[]){ 1 });
    return FL_OK;
}

static size_t count(const fl_op_ctx *c)
{
    return (size_t)fl_tensor_numel(fl_in_t(c, X));
}

static fl_status kldiv_loss_run(fl_op_ctx *c)
{
    const struct reduction *r = reduction_of(c->node);

    if (r->keeps)
        FL_BY_FLOAT(c, X, forward, fl_in(c, X), fl_in(c, TARGET),
                    fl_op_span(c, count(c)), fl_out(c, LOSS));
    else if (c->ith == 0) /* one sum, in one order */
        FL_BY_FLOAT(c, X, fold, fl_in(c, X), fl_in(c, TARGET), count(c),
                    divisor_of(c, r), fl_out(c, LOSS));
    return FL_OK;
}

static fl_status kldiv_loss_back(fl_op_ctx *c)
{
    const struct reduction *r = reduction_of(c->node);

    if (!fl_dout_t(c, LOSS))
        fl_din_zero(c, X);
    else if (fl_din_t(c, X))
        FL_BY_FLOAT(c, X, backward, fl_in(c, TARGET), fl_dout(c, LOSS),
                    (size_t)r->keeps, divisor_of(c, r), fl_op_span(c, count(c)),
                    fl_din(c, X));
    return FL_OK;
}

static const fl_op_case kldiv_loss_cases[] = {
    { .in = { "f32[6,7]", "f32[6,7] below=1" }, .attrs = "{reduction=none}" },
    { .in = { "f32[0,7]", "f32[0,7]" }, .attrs = "{reduction=none}" },
    { .in = { "f32[33,3]", "f32[33,3]" } },
    { .in = { "f32[0,3]", "f32[0,3]" } },
    { .in = { "f32[33,3]", "f32[33,3] below=1" },
      .attrs = "{reduction=batchmean}" },
    { .in = { "f32[5,1] lod=[0,2,2,5]", "f32[5,1]" },
      .attrs = "{reduction=sum}" },
};

const fl_op fl_op_kldiv_loss = {
    .name = "kldiv_loss",
    .doc = "Target (log Target - X), place by place (reduction=none), or its "
           "mean, its sum, or its sum over the number of rows (batchmean); X "
           "holds logarithms, and a target that is not above 0 counts nothing",
    .in = { { "X", 0 }, { "Target", FL_SLOT_NO_GRAD } },
    .out = { { "Loss", 0 } },
    .attrs = { { "reduction", FL_ATTR_STRING, "mean" } },
    .flags = FL_OP_SLICED,
    .infer = kldiv_loss_infer,
    .run = kldiv_loss_run,
    .back = kldiv_loss_back,
    .back_uses = FL_USES_IN(TARGET),
    .cases = kldiv_loss_cases,
    .n_cases = FL_LEN(kldiv_loss_cases),
};
