/* layer_norm.c - every row gets the mean and the deviation of its own.
 *
 *     Y = Scale (X - mean) / sqrt(variance + epsilon) + Bias
 *
 * A row is what lies behind begin_norm_axis; Scale and Bias have a number for
 * each of its places. Rows are independent of each other, and so are places in
 * the gradients of Scale and Bias, which sum over all rows.
 */
#include <math.h>

#include "kernel/vec.h"
#include "ops/helpers.h"

enum { X, SCALE, BIAS };
enum { Y, MEAN, VARIANCE };
enum { BEGIN_NORM_AXIS, EPSILON };

typedef struct norm_job {
    size_t rows, width;
    double epsilon;
} norm_job;

/* What normalises one row. */
typedef struct line {
    double mean, inverse; /* inverse: 1 / deviation */
} line;

#define KERNELS(T, t)                                                            \
    static double variance_##t(const T *x, size_t n, double mean)                \
    {                                                                            \
        double sum = 0;                                                          \
                                                                                 \
        for (size_t i = 0; i < n; i++) {                                         \
            double d = (double)x[i] - mean;                                      \
                                                                                 \
            sum += d * d;                                                        \
        }                                                                        \
        return sum / (double)n;                                                  \
    }                                                                            \
    static void forward_##t(const fl_op_ctx *c, const norm_job *j, fl_span s)    \
    {                                                                            \
        const T *scale = fl_in(c, SCALE), *bias = fl_in(c, BIAS);                \
        T *means = fl_out(c, MEAN), *variances = fl_out(c, VARIANCE);            \
                                                                                 \
        for (size_t r = s.lo; r < s.hi; r++) {                                   \
            const T *x = (const T *)fl_in(c, X) + r * j->width;                  \
            T *y = (T *)fl_out(c, Y) + r * j->width;                             \
            double mean = fl_vec_##t()->sum(x, j->width) / (double)j->width;     \
            double variance = variance_##t(x, j->width, mean);                   \
            double inverse = 1 / sqrt(variance + j->epsilon);                    \
                                                                                 \
            for (size_t i = 0; i < j->width; i++)                                \
                y[i] = (T)(((double)x[i] - mean) * inverse) *                    \
                           (scale ? scale[i] : 1) +                              \
                       (bias ? bias[i] : 0);                                     \
            if (means)                                                           \
                means[r] = (T)mean;                                              \
            if (variances)                                                       \
                variances[r] = (T)variance;                                      \
        }                                                                        \
    }                                                                            \
    static line line_at_##t(const fl_op_ctx *c, const norm_job *j, size_t r)     \
    {                                                                            \
        const T *means = fl_saved_out(c, MEAN);                                  \
        const T *variances = fl_saved_out(c, VARIANCE);                          \
                                                                                 \
        return (line){ (double)means[r],                                         \
                       1 / sqrt((double)variances[r] + j->epsilon) };            \
    }                                                                            \
    /* With g = dy scale and x' = normalised x:                                \
       dx = (g - mean of g - x' mean of g x') / deviation */ \
    static void row_back_##t(const T *const in[3], size_t n, const line *l,      \
                             T *dx)                                              \
    {                                                                            \
        const T *x = in[0], *dy = in[1], *scale = in[2];                         \
        double sum = 0, along = 0;                                               \
                                                                                 \
        for (size_t i = 0; i < n; i++) {                                         \
            double g = (double)dy[i] * (double)(scale ? scale[i] : 1);           \
                                                                                 \
            sum += g;                                                            \
            along += g * ((double)x[i] - l->mean) * l->inverse;                  \
        }                                                                        \
        for (size_t i = 0; i < n; i++) {                                         \
            double g = (double)dy[i] * (double)(scale ? scale[i] : 1);           \
            double x_norm = ((double)x[i] - l->mean) * l->inverse;               \
                                                                                 \
            dx[i] =                                                              \
                (T)((g - (sum + x_norm * along) / (double)n) * l->inverse);      \
        }                                                                        \
    }                                                                            \
    static void backward_##t(const fl_op_ctx *c, const norm_job *j, fl_span s,   \
                             T *dx)                                              \
    {                                                                            \
        const T *x = fl_in(c, X), *dy = fl_dout(c, Y);                           \
                                                                                 \
        for (size_t r = s.lo; r < s.hi; r++) {                                   \
            const T *in[] = { x + r * j->width, dy + r * j->width,               \
                              fl_in(c, SCALE) };                                 \
            line l = line_at_##t(c, j, r);                                       \
                                                                                 \
            row_back_##t(in, j->width, &l, dx + r * j->width);                   \
        }                                                                        \
    }                                                                            \
    /* The places in s of the gradients of Scale and Bias; rows in ascending   \
       order. */ \
    static void sum_rows_##t(const fl_op_ctx *c, const norm_job *j, fl_span s)   \
    {                                                                            \
        T *dscale = fl_din(c, SCALE), *dbias = fl_din(c, BIAS);                  \
                                                                                 \
        for (size_t r = 0; r < j->rows; r++) {                                   \
            const T *x = (const T *)fl_in(c, X) + r * j->width;                  \
            const T *dy = (const T *)fl_dout(c, Y) + r * j->width;               \
            line l = line_at_##t(c, j, r);                                       \
                                                                                 \
            for (size_t i = s.lo; dscale && i < s.hi; i++)                       \
                dscale[i] += dy[i] * (T)(((double)x[i] - l.mean) * l.inverse);   \
            for (size_t i = s.lo; dbias && i < s.hi; i++)                        \
                dbias[i] += dy[i];                                               \
        }                                                                        \
    }
FL_FLOATS(KERNELS)

static fl_status check_axis(const fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    int64_t axis = fl_int(c, BEGIN_NORM_AXIS);
    char buf[FL_SLOT_TEXT_MAX];

    if (axis < 1 || axis >= x->rank)
        FL_FAIL(FL_ERR_INVAL,
                "op layer_norm: begin_norm_axis=%lld is not in 1..%d, the "
                "dimensions of %s behind the first",
                (long long)axis, x->rank - 1, fl_infer_text(c, X, buf));
    if (fl_shape_count(x, (int)axis, x->rank) == 0)
        FL_FAIL(FL_ERR_INVAL, "op layer_norm: the rows of %s have no numbers",
                fl_infer_text(c, X, buf));
    if (!(fl_float(c, EPSILON) >= 0))
        FL_FAIL(FL_ERR_INVAL, "op layer_norm: epsilon=%g is not 0 or above",
                fl_float(c, EPSILON));
    return FL_OK;
}

/* Scale and Bias may have the dimensions of a row, or one. */
static fl_status check_per_place(const fl_infer *c, int slot)
{
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    const fl_tensor *t = fl_infer_in(c, slot);
    int64_t width = fl_shape_count(x, (int)fl_int(c, BEGIN_NORM_AXIS), x->rank);
    int64_t has = t ? fl_shape_numel(&t->shape) : width;
    char tx[FL_SLOT_TEXT_MAX], ts[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_same_dtype(c, X, slot));
    if (has >= 0 && width >= 0 && has != width)
        FL_FAIL(FL_ERR_INVAL,
                "op layer_norm: %s must have %lld numbers, one for each place "
                "of a row of %s",
                fl_infer_text(c, slot, ts), (long long)width,
                fl_infer_text(c, X, tx));
    return FL_OK;
}

static fl_status layer_norm_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    int64_t rows;

    FL_TRY(check_axis(c));
    FL_TRY(check_per_place(c, SCALE));
    FL_TRY(check_per_place(c, BIAS));
    rows = fl_shape_count(&x->shape, 0, (int)fl_int(c, BEGIN_NORM_AXIS));
    FL_TRY(fl_infer_same(c, X, Y));
    fl_infer_dense(c, MEAN, x->dtype, 1, &rows);
    fl_infer_dense(c, VARIANCE, x->dtype, 1, &rows);
    return FL_OK;
}

static norm_job job_of(const fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;
    int axis = (int)fl_int(c, BEGIN_NORM_AXIS);

    return (norm_job){ .rows = (size_t)fl_shape_count(x, 0, axis),
                       .width = (size_t)fl_shape_count(x, axis, x->rank),
                       .epsilon = fl_float(c, EPSILON) };
}

static fl_status layer_norm_run(fl_op_ctx *c)
{
    norm_job j = job_of(c);

    FL_BY_FLOAT(c, X, forward, c, &j, fl_op_span(c, j.rows));
    return FL_OK;
}

static fl_status layer_norm_back(fl_op_ctx *c)
{
    norm_job j = job_of(c);

    fl_din_zero(c, SCALE);
    fl_din_zero(c, BIAS);
    if (!fl_dout_t(c, Y)) {
        fl_din_zero(c, X);
        return FL_OK;
    }
    FL_BY_FLOAT(c, X, sum_rows, c, &j, fl_op_span(c, j.width));
    if (fl_din_t(c, X))
        FL_BY_FLOAT(c, X, backward, c, &j, fl_op_span(c, j.rows), fl_din(c, X));
    return FL_OK;
}

static fl_status layer_norm_back_infer(fl_infer *c)
{
    FL_TRY(fl_back_needs(c, MEAN));
    return fl_back_needs(c, VARIANCE);
}

static const fl_op_case layer_norm_cases[] = {
    { .in = { "f32[6,7]", "f32[7]", "f32[7]" } },
    { .in = { "f32[0,7]", "f32[7]", "f32[7]" } },
    { .in = { "f32[1,17]" } },
    { .in = { "f32[33,2]", "f32[2]" } },
    { .in = { "f32[3,4,5]", "f32[20]", "f32[20]" } },
    { .in = { "f32[3,4,5]", "f32[5]", "f32[5]" },
      .attrs = "{begin_norm_axis=2, epsilon=0.001}" },
    { .in = { "f32[4,33]", "", "f32[33]" } },
    { .in = { "f32[7,3] lod=[0,2,2,7]", "f32[3]", "f32[3]" } },
};

const fl_op fl_op_layer_norm = {
    .name = "layer_norm",
    .doc = "Y = Scale (X - Mean) / sqrt(Variance + epsilon) + Bias, where Mean "
           "and Variance are those of each row, that is of the dimensions from "
           "begin_norm_axis on; Scale and Bias have a number for each place of "
           "a row and count as 1 and 0 when they are left out",
    .in = { { "X", 0 },
            { "Scale", FL_OP_SLOT_OPTIONAL },
            { "Bias", FL_OP_SLOT_OPTIONAL } },
    .out = { { "Y", 0 },
             { "Mean", FL_OP_SLOT_BYPRODUCT },
             { "Variance", FL_OP_SLOT_BYPRODUCT } },
    .attrs = { { "begin_norm_axis", FL_ATTR_INT, "1" },
               { "epsilon", FL_ATTR_FLOAT, "1e-05" } },
    .flags = FL_OP_SLICED,
    .infer = layer_norm_infer,
    .run = layer_norm_run,
    .back = layer_norm_back,
    .back_uses = FL_USES_IN(X) | FL_USES_IN(SCALE) | FL_USES_OUT(MEAN) |
                 FL_USES_OUT(VARIANCE),
    .back_infer = layer_norm_back_infer,
    .cases = layer_norm_cases,
    .n_cases = FL_LEN(layer_norm_cases),
};
