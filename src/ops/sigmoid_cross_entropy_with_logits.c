/* sigmoid_cross_entropy_with_logits.c - the loss of raw scores for labels
 * between 0 and 1, number by number, in a form that never overflows.
 */
#include "kernel/vec.h"
#include "ops/helpers.h"
#include "ops/labels.h"

enum { X, LABEL };
enum { OUT };
enum { NORMALIZE, IGNORE_INDEX };

/* What a sum over no label is divided by. */
#define COUNT_MIN 1e-5

#define KERNELS(T, t)                                                          \
    /* The place of the first label that is NaN, or n. */                      \
    static void find_nan_##t(const T *label, size_t n, size_t *out)            \
    {                                                                          \
        *out = fl_vec_##t()->find_not_finite(label, n);                        \
        while (*out < n && label[*out] == label[*out])                         \
            *out += 1 + fl_vec_##t()->find_not_finite(label + *out + 1,        \
                                                      n - *out - 1);           \
    }                                                                          \
    static void forward_##t(const T *x, const T *label, T *out, fl_span s,     \
                            double ignore, double scale)                       \
    {                                                                          \
        size_t n = s.hi - s.lo;                                                \
                                                                               \
        fl_vec_##t()->logistic_loss(out + s.lo, x + s.lo, label + s.lo,        \
                                    (T)ignore, n);                             \
        if (scale != 1)                                                        \
            fl_vec_##t()->scale(out + s.lo, (T)scale, out + s.lo, 0, n);       \
    }                                                                          \
    static void backward_##t(const T *x, const T *label, const T *dout, T *dx, \
                             fl_span s, const double set[2])                   \
    {                                                                          \
        size_t n = s.hi - s.lo;                                                \
                                                                               \
        fl_vec_##t()->logistic_grad(dx + s.lo, x + s.lo, label + s.lo,         \
                                    dout + s.lo, (T)set[0], n);                \
        if (set[1] != 1)                                                       \
            fl_vec_##t()->scale(dx + s.lo, (T)set[1], dx + s.lo, 0, n);        \
    }                                                                          \
    static void count_##t(const T *label, size_t n, double ignore,             \
                          size_t *out)                                         \
    {                                                                          \
        *out = 0;                                                              \
        for (size_t i = 0; i < n; i++)                                         \
            *out += label[i] != (T)ignore;                                     \
    }
FL_FLOATS(KERNELS)

static fl_status sigmoid_loss_infer(fl_infer *c)
{
    char tx[FL_SLOT_TEXT_MAX], tl[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_same_dtype(c, X, LABEL));
    if (!fl_shape_matches(&fl_infer_in(c, X)->shape,
                          &fl_infer_in(c, LABEL)->shape))
        FL_FAIL(FL_ERR_INVAL,
                "op sigmoid_cross_entropy_with_logits: %s and %s must have "
                "the same shape",
                fl_infer_text(c, X, tx), fl_infer_text(c, LABEL, tl));
    return fl_infer_same(c, X, OUT);
}

static size_t count_all(const fl_op_ctx *c)
{
    return (size_t)fl_tensor_numel(fl_in_t(c, LABEL));
}

/* Every share counts all labels, so that each has the same factor. */
static double scale_of(const fl_op_ctx *c)
{
    size_t n;

    if (!fl_bool(c, NORMALIZE))
        return 1;
    FL_BY_FLOAT(c, X, count, fl_in(c, LABEL), count_all(c),
                (double)fl_int(c, IGNORE_INDEX), &n);
    return 1 / (n ? (double)n : COUNT_MIN);
}

fl_status fl_check_label_numbers(const fl_tensor *label)
{
    size_t n = (size_t)fl_tensor_numel(label), bad;

    FL_BY_DTYPE(label->dtype, find_nan, label->data, n, &bad);
    if (bad < n)
        FL_FAIL(FL_ERR_NUMERIC, "Label: the value at place %zu is NaN", bad);
    return FL_OK;
}

static fl_status sigmoid_loss_run(fl_op_ctx *c)
{
    fl_span s = fl_op_span(c, count_all(c));

    if (s.lo == s.hi)
        return FL_OK;
    FL_TRY(fl_check_label_numbers(fl_in_t(c, LABEL)));
    FL_BY_FLOAT(c, X, forward, fl_in(c, X), fl_in(c, LABEL), fl_out(c, OUT), s,
                (double)fl_int(c, IGNORE_INDEX), scale_of(c));
    return FL_OK;
}

static fl_status sigmoid_loss_back(fl_op_ctx *c)
{
    fl_span s = fl_op_span(c, count_all(c));
    const double set[] = { (double)fl_int(c, IGNORE_INDEX), scale_of(c) };

    if (!fl_din_t(c, X) || s.lo == s.hi)
        return FL_OK;
    if (!fl_dout_t(c, OUT)) {
        fl_share_zero(c, fl_din_t(c, X));
        return FL_OK;
    }
    FL_BY_FLOAT(c, X, backward, fl_in(c, X), fl_in(c, LABEL), fl_dout(c, OUT),
                fl_din(c, X), s, set);
    return FL_OK;
}

static const fl_op_case sigmoid_loss_cases[] = {
    { .in = { "f32[6,7]", "f32[6,7]" } },
    { .in = { "f32[0,7]", "f32[0,7]" } },
    { .in = { "f32[33,7]", "f32[33,7]" }, .flags = FL_CASE_BINARY },
    { .in = { "f32[33,7]", "f32[33,7]" },
      .attrs = "{normalize=true, ignore_index=0}",
      .flags = FL_CASE_BINARY },
    { .in = { "f32[0,1]", "f32[0,1]" }, .attrs = "{normalize=true}" },
};

const fl_op fl_op_sigmoid_cross_entropy_with_logits = {
    .name = "sigmoid_cross_entropy_with_logits",
    .doc = "Out = max(X, 0) - X Label + log(1 + exp(-|X|)), number by number; "
           "0 where Label is ignore_index; normalize divides by the number of "
           "labels that are not ignored; a NaN label is an error",
    .in = { { "X", 0 }, { "Label", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .attrs = { { "normalize", FL_ATTR_BOOL, "false" },
               { "ignore_index", FL_ATTR_INT, "-100" } },
    .flags = FL_OP_INPLACE | FL_OP_SLICED,
    .infer = sigmoid_loss_infer,
    .run = sigmoid_loss_run,
    .back = sigmoid_loss_back,
    .back_uses = FL_USES_IN(X) | FL_USES_IN(LABEL),
    .cases = sigmoid_loss_cases,
    .n_cases = FL_LEN(sigmoid_loss_cases),
};
