/* teacher_student_sigmoid_loss.c - the loss of a click, and of the score that
 * another model gave. A label says which of them there are:
 *
 *     -2          no click, no score       0 + q   no click, score q
 *     -1          click, no score          1 + q   click, score q
 *
 * and with s(x, z) = log(1 + exp(x)) - x z the loss is s(X, click), plus
 * s(X, q) when there is a score. Where X is not inside its bounds nothing is
 * learned.
 */
#include <tgmath.h>

#include "ops/helpers.h"

enum { X, LABEL };
enum { Y };
enum { UP_BOUND, LOW_BOUND };

static fl_status tssl_infer(fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    const fl_shape *label = &fl_infer_in(c, LABEL)->shape;
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_same(c, X, Y));
    FL_TRY(fl_infer_same_dtype(c, X, LABEL));
    if (x->rank != 2 || x->dim[1] != 1 || !fl_shape_matches(x, label))
        FL_FAIL(FL_ERR_INVAL, "op %s: %s and %s must be [n,1]",
                c->node->def->name, fl_infer_text(c, X, a),
                fl_infer_text(c, LABEL, b));
    return FL_OK;
}

typedef struct bounds {
    double up, low;
} bounds;

/* What click and score of a label add up to, and whether it has a score. */
#define WANTED(z) ((z) < 0 ? (z) >= -1 : (z))
#define SCORED(z) ((z) >= 0)
#define SOFTPLUS(x) ((x) > 0 ? (x) + log1p(exp(-(x))) : log1p(exp(x)))

#define KERNELS(T, t)                                                          \
    static void forward_##t(T *y, const T *x, const T *z, fl_span s)           \
    {                                                                          \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            y[i] =                                                             \
                SOFTPLUS(x[i]) * (1 + SCORED(z[i])) - x[i] * (T)WANTED(z[i]);  \
    }                                                                          \
    static void backward_##t(T *dx, const T *x, const T *z, const T *g,        \
                             bounds in, fl_span s)                             \
    {                                                                          \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            dx[i] = x[i] >= (T)in.up || x[i] <= (T)in.low                      \
                        ? 0                                                    \
                        : g[i] * ((1 + SCORED(z[i])) / (1 + exp(-x[i])) -      \
                                  (T)WANTED(z[i]));                            \
    }
FL_FLOATS(KERNELS)

static fl_span mine(const fl_op_ctx *c)
{
    return fl_op_span(c, (size_t)fl_tensor_numel(fl_in_t(c, X)));
}

static fl_status tssl_run(fl_op_ctx *c)
{
    FL_BY_FLOAT(c, X, forward, fl_out(c, Y), fl_in(c, X), fl_in(c, LABEL),
                mine(c));
    return FL_OK;
}

static fl_status tssl_back(fl_op_ctx *c)
{
    bounds in = { fl_float(c, UP_BOUND), fl_float(c, LOW_BOUND) };

    if (fl_din_t(c, X) && fl_dout_t(c, Y))
        FL_BY_FLOAT(c, X, backward, fl_din(c, X), fl_in(c, X), fl_in(c, LABEL),
                    fl_dout(c, Y), in, mine(c));
    else
        fl_din_zero(c, X);
    return FL_OK;
}

static const fl_op_case tssl_cases[] = {
    { .in = { "f32[33,1]", "f32[33,1]" } },
    { .in = { "f32[5,1]", "f32[5,1]" }, .flags = FL_CASE_POSITIVE },
    { .in = { "f32[4,1]", "f32[4,1] is=[-2,-1,0,1]" } },
    { .in = { "f32[0,1]", "f32[0,1]" } },
};

const fl_op fl_op_teacher_student_sigmoid_loss = {
    .name = "teacher_student_sigmoid_loss",
    .doc = "Y = the loss of X against a click, and against the score of "
           "another model where Label has one: -2 neither, -1 a click, 0 + "
           "score, 1 + score with a click. X outside of its bounds learns "
           "nothing",
    .in = { { "X", 0 }, { "Label", FL_SLOT_NO_GRAD } },
    .out = { { "Y", 0 } },
    .attrs = { { "soft_max_up_bound", FL_ATTR_FLOAT, "15" },
               { "soft_max_lower_bound", FL_ATTR_FLOAT, "-15" } },
    .flags = FL_OP_SLICED,
    .infer = tssl_infer,
    .run = tssl_run,
    .back = tssl_back,
    .back_uses = FL_USES_IN(X) | FL_USES_IN(LABEL),
    .cases = tssl_cases,
    .n_cases = FL_LEN(tssl_cases),
};
