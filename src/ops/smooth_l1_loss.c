/* smooth_l1_loss.c - squared where the difference is small, straight where it
 * is large, added up over each row.
 *
 *     d = (X - Y) InsideWeight, b = sigma^2
 *     Out[i] = sum over the row of OutsideWeight h(d),
 *     h(d) = b d^2 / 2 where |d| < 1 / b, |d| - 1 / (2 b) elsewhere
 *
 * Weights that are left out count as 1.
 */
#include <math.h>

#include "ops/helpers.h"

enum { X, Y, INSIDE_WEIGHT, OUTSIDE_WEIGHT };
enum { DIFF, OUT };
enum { SIGMA };

typedef struct smooth_job {
    size_t width;
    double bend; /* sigma squared */
    fl_span rows;
} smooth_job;

#define KERNELS(T, t)                                                          \
    static T weight_##t(const T *w, size_t i)                                  \
    {                                                                          \
        return w ? w[i] : 1;                                                   \
    }                                                                          \
    static T value_##t(T d, T bend)                                            \
    {                                                                          \
        T size = d < 0 ? -d : d;                                               \
                                                                               \
        return size < 1 / bend ? bend * d * d / 2 : size - 1 / (2 * bend);     \
    }                                                                          \
    static T slope_##t(T d, T bend)                                            \
    {                                                                          \
        T size = d < 0 ? -d : d;                                               \
                                                                               \
        return size < 1 / bend ? bend * d : d > 0 ? 1 : -1;                    \
    }                                                                          \
    static void forward_##t(const fl_op_ctx *c, const smooth_job *j)           \
    {                                                                          \
        const T *x = fl_in(c, X), *y = fl_in(c, Y);                            \
        const T *in = fl_in(c, INSIDE_WEIGHT),                                 \
                *out = fl_in(c, OUTSIDE_WEIGHT);                               \
        T *diff = fl_out(c, DIFF), *loss = fl_out(c, OUT);                     \
                                                                               \
        for (size_t r = j->rows.lo; r < j->rows.hi; r++) {                     \
            double sum = 0;                                                    \
                                                                               \
            for (size_t i = r * j->width; i < (r + 1) * j->width; i++) {       \
                T d = (x[i] - y[i]) * weight_##t(in, i);                       \
                                                                               \
                sum +=                                                         \
                    (double)(value_##t(d, (T)j->bend) * weight_##t(out, i));   \
                if (diff)                                                      \
                    diff[i] = d;                                               \
            }                                                                  \
            loss[r] = (T)sum;                                                  \
        }                                                                      \
    }                                                                          \
    static void backward_##t(const fl_op_ctx *c, const smooth_job *j)          \
    {                                                                          \
        const T *diff = fl_saved_out(c, DIFF), *g = fl_dout(c, OUT);           \
        const T *in = fl_in(c, INSIDE_WEIGHT),                                 \
                *out = fl_in(c, OUTSIDE_WEIGHT);                               \
        T *dx = fl_din(c, X), *dy = fl_din(c, Y);                              \
                                                                               \
        for (size_t r = j->rows.lo; r < j->rows.hi; r++)                       \
            for (size_t i = r * j->width; i < (r + 1) * j->width; i++) {       \
                T d = g[r] * slope_##t(diff[i], (T)j->bend) *                  \
                      weight_##t(in, i) * weight_##t(out, i);                  \
                                                                               \
                if (dx)                                                        \
                    dx[i] = d;                                                 \
                if (dy)                                                        \
                    dy[i] = -d;                                                \
            }                                                                  \
    }
FL_FLOATS(KERNELS)

static fl_status check_like_x(const fl_infer *c, int slot)
{
    char tx[FL_SLOT_TEXT_MAX], ts[FL_SLOT_TEXT_MAX];

    if (!fl_infer_in(c, slot))
        return FL_OK;
    FL_TRY(fl_infer_same_dtype(c, X, slot));
    if (!fl_shape_matches(&fl_infer_in(c, X)->shape,
                          &fl_infer_in(c, slot)->shape))
        FL_FAIL(FL_ERR_INVAL, "op smooth_l1_loss: %s must have the shape of %s",
                fl_infer_text(c, slot, ts), fl_infer_text(c, X, tx));
    return FL_OK;
}

static fl_status smooth_l1_loss_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    char buf[FL_SLOT_TEXT_MAX];

    if (x->shape.rank < 2)
        FL_FAIL(FL_ERR_INVAL,
                "op smooth_l1_loss: %s must have two dimensions or more",
                fl_infer_text(c, X, buf));
    if (!(fl_float(c, SIGMA) > 0))
        FL_FAIL(FL_ERR_INVAL, "op smooth_l1_loss: sigma=%g is not above 0",
                fl_float(c, SIGMA));
    for (int i = Y; i <= OUTSIDE_WEIGHT; i++)
        FL_TRY(check_like_x(c, i));
    FL_TRY(fl_infer_same(c, X, DIFF));
    FL_TRY(fl_infer_same(c, X, OUT));
    fl_infer_out(c, OUT)->shape =
        fl_shape_of(2, (int64_t[]){ x->shape.dim[0], 1 });
    return FL_OK;
}

static smooth_job job_of(const fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;
    double sigma = fl_float(c, SIGMA);

    return (smooth_job){ .width = (size_t)fl_shape_count(x, 1, x->rank),
                         .bend = sigma * sigma,
                         .rows = fl_op_span(c, (size_t)x->dim[0]) };
}

static fl_status smooth_l1_loss_run(fl_op_ctx *c)
{
    smooth_job j = job_of(c);

    FL_BY_FLOAT(c, X, forward, c, &j);
    return FL_OK;
}

static fl_status smooth_l1_loss_back(fl_op_ctx *c)
{
    smooth_job j = job_of(c);

    if (fl_dout_t(c, OUT)) {
        FL_BY_FLOAT(c, X, backward, c, &j);
        return FL_OK;
    }
    fl_din_zero(c, X);
    fl_din_zero(c, Y);
    return FL_OK;
}

static fl_status smooth_l1_loss_back_infer(fl_infer *c)
{
    return fl_back_needs(c, DIFF);
}

static const fl_op_case smooth_l1_loss_cases[] = {
    { .in = { "f32[6,7]", "f32[6,7]" } },
    { .in = { "f32[0,7]", "f32[0,7]" } },
    { .in = { "f32[1,1]", "f32[1,1]" } },
    { .in = { "f32[33,2,3]", "f32[33,2,3]", "f32[33,2,3]", "f32[33,2,3]" },
      .attrs = "{sigma=1.7}" },
    { .in = { "f32[5,3] lod=[0,2,2,5]", "f32[5,3]", "", "f32[5,3]" } },
};

const fl_op fl_op_smooth_l1_loss = {
    .name = "smooth_l1_loss",
    .doc = "Out[i] = the sum over row i of OutsideWeight h(Diff), Diff = "
           "InsideWeight (X - Y), with h(d) = (sigma d)^2 / 2 where |d| is "
           "below 1 / sigma^2 and |d| - 1 / (2 sigma^2) elsewhere; weights "
           "that are left out are 1",
    .in = { { "X", 0 },
            { "Y", 0 },
            { "InsideWeight", FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD },
            { "OutsideWeight", FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD } },
    .out = { { "Diff", FL_OP_SLOT_BYPRODUCT }, { "Out", 0 } },
    .attrs = { { "sigma", FL_ATTR_FLOAT, "1" } },
    .flags = FL_OP_SLICED,
    .infer = smooth_l1_loss_infer,
    .run = smooth_l1_loss_run,
    .back = smooth_l1_loss_back,
    .back_uses = FL_USES_IN(INSIDE_WEIGHT) | FL_USES_IN(OUTSIDE_WEIGHT) |
                 FL_USES_OUT(DIFF),
    .back_infer = smooth_l1_loss_back_infer,
    .cases = smooth_l1_loss_cases,
    .n_cases = FL_LEN(smooth_l1_loss_cases),
};
