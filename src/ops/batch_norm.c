/* batch_norm.c - every channel gets the mean and the deviation of its own.
 *
 *     Y = Scale (X - mean) / sqrt(variance + epsilon) + Bias
 *
 * While training mean and variance are those of the batch, and Mean and
 * Variance move a little towards them; in test, and with use_global_stats,
 * they are Mean and Variance. A batch with one number for each channel has no
 * variance: it is left as it is, as 1.8.5 does. Channels are independent of
 * each other: shares are ranges of channels.
 *
 * Mean and Variance are state of the process. Of replicas the first one moves
 * them, so that a run repeats itself; hogwild threads all do, without locks.
 */
#include <math.h>

#include "base/thread.h"
#include "ops/helpers.h"

enum { X, SCALE, BIAS, MEAN, VARIANCE, MOMENTUM_TENSOR };
enum { Y, MEAN_OUT, VARIANCE_OUT, SAVED_MEAN, SAVED_VARIANCE, RESERVE_SPACE };
enum {
    IS_TEST,
    MOMENTUM,
    EPSILON,
    DATA_LAYOUT,
    FUSE_WITH_RELU,
    USE_GLOBAL_STATS,
    TRAINABLE_STATISTICS
};

#define RANK_LEAST 2
#define RANK_MOST 5

/* X as [outer][channels][inner], and this call's channels. */
typedef struct norm_job {
    size_t outer, channels, inner;
    size_t count; /* numbers of a channel */
    fl_span s;
    bool global; /* Mean and Variance stand for the batch's */
    bool copies; /* one number for each channel */
    double epsilon;
    double momentum; /* forward */
} norm_job;

/* Two numbers per channel of the share. */
typedef struct moments {
    double *a, *b;
} moments;

/* All numbers of the share, row by row: i is the place of one in X, k the
   place of its channel in the share. */
#define WALK(j, i, k, body)                                                    \
    for (size_t o = 0; o < (j)->outer; o++) {                                  \
        size_t row = o * (j)->channels;                                        \
        size_t n_here = (j)->s.hi - (j)->s.lo;                                 \
                                                                               \
        if ((j)->inner == 1)                                                   \
            for (size_t k = 0; k < n_here; k++) {                              \
                size_t i = row + (j)->s.lo + k;                                \
                                                                               \
                body;                                                          \
            }                                                                  \
        else                                                                   \
            for (size_t k = 0; k < n_here; k++)                                \
                for (size_t at = 0; at < (j)->inner; at++) {                   \
                    size_t i = (row + (j)->s.lo + k) * (j)->inner + at;        \
                                                                               \
                    body;                                                      \
                }                                                              \
    }

#define KERNELS(T, t)                                                            \
    /* m->a = means, m->b = variances of the batch; 0 of no numbers. */          \
    static void measure_##t(const norm_job *j, const T *x, const moments *m)     \
    {                                                                            \
        size_t n = j->s.hi - j->s.lo;                                            \
        double count = j->count ? (double)j->count : 1;                          \
                                                                                 \
        WALK(j, i, k, m->a[k] += (double)x[i])                                   \
        for (size_t k = 0; k < n; k++)                                           \
            m->a[k] /= count;                                                    \
        WALK(j, i, k, {                                                          \
            double d = (double)x[i] - m->a[k];                                   \
                                                                                 \
            m->b[k] += d * d;                                                    \
        })                                                                       \
        for (size_t k = 0; k < n; k++)                                           \
            m->b[k] /= count;                                                    \
    }                                                                            \
    static void read_##t(const norm_job *j, const T *mean, const T *variance,    \
                         const moments *m)                                       \
    {                                                                            \
        for (size_t k = 0; k < j->s.hi - j->s.lo; k++) {                         \
            m->a[k] = (double)mean[j->s.lo + k];                                 \
            m->b[k] = (double)variance[j->s.lo + k];                             \
        }                                                                        \
    }                                                                            \
    /* Threads without locks: of two steps at one time one may be lost. */       \
    FL_RACY static void move_##t(const norm_job *j, const double *to,            \
                                 const T *from, T *state)                        \
    {                                                                            \
        for (size_t c = j->s.lo; c < j->s.hi; c++)                               \
            state[c] = (T)((double)from[c] * j->momentum +                       \
                           to[c - j->s.lo] * (1 - j->momentum));                 \
    }                                                                            \
    static void keep_##t(const norm_job *j, const T *from, T *state)             \
    {                                                                            \
        if (state != from)                                                       \
            memcpy(state + j->s.lo, from + j->s.lo,                              \
                   (j->s.hi - j->s.lo) * sizeof(T));                             \
    }                                                                            \
    /* The variances in m->b become 1 / deviation. */                            \
    static void save_##t(const norm_job *j, const moments *m, T *mean,           \
                         T *inverse)                                             \
    {                                                                            \
        for (size_t k = 0; k < j->s.hi - j->s.lo; k++) {                         \
            m->b[k] = 1 / sqrt(m->b[k] + j->epsilon);                            \
            if (mean)                                                            \
                mean[j->s.lo + k] = (T)m->a[k];                                  \
            if (inverse)                                                         \
                inverse[j->s.lo + k] = (T)m->b[k];                               \
        }                                                                        \
    }                                                                            \
    static void forward_##t(const norm_job *j, const moments *m, const T *x,     \
                            const T *scale, const T *bias, T *y)                 \
    {                                                                            \
        scale += j->s.lo;                                                        \
        bias += j->s.lo;                                                         \
        WALK(j, i, k,                                                            \
             y[i] =                                                              \
                 (T)(((double)x[i] - m->a[k]) * m->b[k]) * scale[k] + bias[k])   \
    }                                                                            \
    /* sums->a = sum of dy, sums->b = sum of dy * normalised x */                \
    static void gather_##t(const norm_job *j, const moments *m, const T *x,      \
                           const T *dy, const moments *sums)                     \
    {                                                                            \
        WALK(j, i, k, {                                                          \
            sums->a[k] += (double)dy[i];                                         \
            sums->b[k] += (double)dy[i] * ((double)x[i] - m->a[k]) * m->b[k];    \
        })                                                                       \
    }                                                                            \
    static void give_##t(const norm_job *j, const double *sums, T *d)            \
    {                                                                            \
        for (size_t c = j->s.lo; d && c < j->s.hi; c++)                          \
            d[c] = (T)sums[c - j->s.lo];                                         \
    }                                                                            \
    /* dx = scale / deviation (dy - mean of dy - x' mean of dy x'), where x'   \
       is normalised x; with Mean and Variance the means are not there:        \
       sums hold zeros. */ \
    static void backward_##t(const norm_job *j, const moments *m,                \
                             const moments *sums, const void *const in[3],       \
                             T *dx)                                              \
    {                                                                            \
        const T *x = in[0], *dy = in[1], *scale = (const T *)in[2] + j->s.lo;    \
        double n = (double)j->count;                                             \
                                                                                 \
        WALK(j, i, k, {                                                          \
            double x_norm = ((double)x[i] - m->a[k]) * m->b[k];                  \
            double g = (double)dy[i] - (sums->a[k] + x_norm * sums->b[k]) / n;   \
                                                                                 \
            dx[i] = (T)((double)scale[k] * m->b[k] * g);                         \
        })                                                                       \
    }
FL_FLOATS(KERNELS)

/* --- shapes --------------------------------------------------------------- */

static bool is_channel_last(const fl_op_node *n)
{
    return !strcmp(fl_attr_str(n, DATA_LAYOUT), "NHWC");
}

static int channel_axis(const fl_op_node *n, const fl_shape *x)
{
    return is_channel_last(n) ? x->rank - 1 : 1;
}

static fl_status check_attrs(const fl_infer *c)
{
    const char *layout = fl_str_attr(c, DATA_LAYOUT);
    double momentum = fl_float(c, MOMENTUM), epsilon = fl_float(c, EPSILON);

    if (strcmp(layout, "NCHW") && strcmp(layout, "NHWC"))
        FL_FAIL(FL_ERR_INVAL,
                "op batch_norm: data_layout '%s' is neither NCHW nor NHWC",
                layout);
    if (!(epsilon > 0))
        FL_FAIL(FL_ERR_INVAL, "op batch_norm: epsilon=%g is not above 0",
                epsilon);
    if (!(momentum >= 0 && momentum <= 1))
        FL_FAIL(FL_ERR_INVAL, "op batch_norm: momentum=%g is not in [0, 1]",
                momentum);
    if (fl_bool(c, FUSE_WITH_RELU))
        FL_FAIL(FL_ERR_INVAL, "op batch_norm: fuse_with_relu is not done here; "
                              "put a relu behind");
    return FL_OK;
}

static fl_status check_per_channel(const fl_infer *c, int slot)
{
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    int64_t channels = x->dim[channel_axis(c->node, x)];
    char tx[FL_SLOT_TEXT_MAX], ts[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_same_dtype(c, X, slot));
    if (!fl_shape_matches(&fl_infer_in(c, slot)->shape,
                          &(fl_shape){ 1, { channels } }))
        FL_FAIL(FL_ERR_INVAL,
                "op batch_norm: %s must have one number for each channel of "
                "%s, dimension %d",
                fl_infer_text(c, slot, ts), fl_infer_text(c, X, tx),
                channel_axis(c->node, x));
    return FL_OK;
}

static fl_status batch_norm_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    const fl_tensor *momentum = fl_infer_in(c, MOMENTUM_TENSOR);
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(check_attrs(c));
    if (x->shape.rank < RANK_LEAST || x->shape.rank > RANK_MOST)
        FL_FAIL(FL_ERR_INVAL, "op batch_norm: %s must have %d to %d dimensions",
                fl_infer_text(c, X, buf), RANK_LEAST, RANK_MOST);
    for (int i = SCALE; i <= VARIANCE; i++)
        FL_TRY(check_per_channel(c, i));
    FL_TRY(fl_infer_float(c, MOMENTUM_TENSOR));
    if (momentum && fl_shape_numel(&momentum->shape) != 1)
        FL_FAIL(FL_ERR_INVAL, "op batch_norm: %s must be one number",
                fl_infer_text(c, MOMENTUM_TENSOR, buf));
    FL_TRY(fl_infer_same(c, X, Y));
    for (int i = MEAN_OUT; i <= SAVED_VARIANCE; i++)
        FL_TRY(fl_infer_same(c, MEAN, i));
    fl_infer_dense(c, RESERVE_SPACE, x->dtype, 1, (int64_t[]){ 0 });
    return FL_OK;
}

/* Columns are cut at whole cache lines, planes anywhere. */
static norm_job job_of(const fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;
    int axis = channel_axis(c->node, x);
    bool is_test = fl_bool(c, IS_TEST) && !fl_bool(c, TRAINABLE_STATISTICS);
    norm_job j = { .outer = (size_t)fl_shape_count(x, 0, axis),
                   .channels = (size_t)x->dim[axis],
                   .inner = (size_t)fl_shape_count(x, axis + 1, x->rank),
                   .global = is_test || fl_bool(c, USE_GLOBAL_STATS),
                   .epsilon = fl_float(c, EPSILON) };

    j.count = j.outer * j.inner;
    j.copies = j.count == 1 && !j.global;
    j.s = fl_op_blocks(c, j.channels, j.inner == 1 ? 16 : 1);
    return j;
}

static moments new_moments(fl_op_ctx *c, const norm_job *j)
{
    size_t n = j->s.hi - j->s.lo;
    double *p = fl_scratch(c, (2 * n + 1) * sizeof(*p));

    if (p)
        memset(p, 0, 2 * n * sizeof(*p));
    return (moments){ p, p ? p + n : NULL };
}

/* --- running -------------------------------------------------------------- */

/* The running numbers move, or stay: in test, where there is no variance, and
   in every replica but the first. */
static void move_state(const fl_op_ctx *c, const norm_job *j, const moments *m)
{
    const double *to[] = { m->a, m->b };
    bool stays = j->global || j->count < 2 || c->worker.part > 0;

    for (int i = 0; i < 2; i++) {
        const void *from = fl_in(c, MEAN + i);
        void *state = fl_out(c, MEAN_OUT + i);

        if (stays)
            FL_BY_FLOAT(c, X, keep, j, from, state);
        else
            FL_BY_FLOAT(c, X, move, j, to[i], from, state);
    }
}

/* With one number for each channel. */
static void copy_channels(const norm_job *j, fl_tensor *to,
                          const fl_tensor *from)
{
    size_t bytes = fl_dtype_bytes(to->dtype);

    memcpy((char *)to->data + j->s.lo * bytes,
           (const char *)from->data + j->s.lo * bytes,
           (j->s.hi - j->s.lo) * bytes);
}

static fl_status batch_norm_run(fl_op_ctx *c)
{
    const fl_tensor *momentum = fl_in_t(c, MOMENTUM_TENSOR);
    norm_job j = job_of(c);
    moments m = new_moments(c, &j);

    if (!m.a)
        return FL_NOMEM(c);
    j.momentum = momentum ? fl_float_at(momentum, 0) : fl_float(c, MOMENTUM);
    if (j.global)
        FL_BY_FLOAT(c, X, read, &j, fl_in(c, MEAN), fl_in(c, VARIANCE), &m);
    else
        FL_BY_FLOAT(c, X, measure, &j, fl_in(c, X), &m);
    move_state(c, &j, &m);
    FL_BY_FLOAT(c, X, save, &j, &m, fl_out(c, SAVED_MEAN),
                fl_out(c, SAVED_VARIANCE));
    if (j.copies)
        copy_channels(&j, fl_out_t(c, Y), fl_in_t(c, X));
    else
        FL_BY_FLOAT(c, X, forward, &j, &m, fl_in(c, X), fl_in(c, SCALE),
                    fl_in(c, BIAS), fl_out(c, Y));
    return FL_OK;
}

static fl_status batch_norm_back(fl_op_ctx *c)
{
    norm_job j = job_of(c);
    moments m = new_moments(c, &j), sums = new_moments(c, &j);
    const void *in[] = { fl_in(c, X), fl_dout(c, Y), fl_in(c, SCALE) };

    if (!m.a || !sums.a)
        return FL_NOMEM(c);
    if (!in[1]) {
        for (int i = X; i <= BIAS; i++)
            fl_din_zero(c, i);
        return FL_OK;
    }
    FL_BY_FLOAT(c, X, read, &j, fl_saved_out(c, SAVED_MEAN),
                fl_saved_out(c, SAVED_VARIANCE), &m);
    if (!j.copies)
        FL_BY_FLOAT(c, X, gather, &j, &m, in[0], in[1], &sums);
    FL_BY_FLOAT(c, X, give, &j, sums.a, fl_din(c, BIAS));
    FL_BY_FLOAT(c, X, give, &j, sums.b, fl_din(c, SCALE));
    if (j.global)
        memset(sums.a, 0, 2 * (j.s.hi - j.s.lo) * sizeof(*sums.a));
    if (fl_din_t(c, X) && j.copies)
        copy_channels(&j, fl_din_t(c, X), fl_dout_t(c, Y));
    else if (fl_din_t(c, X))
        FL_BY_FLOAT(c, X, backward, &j, &m, &sums, in, fl_din(c, X));
    return FL_OK;
}

static fl_status batch_norm_back_infer(fl_infer *c)
{
    FL_TRY(fl_back_needs(c, SAVED_MEAN));
    return fl_back_needs(c, SAVED_VARIANCE);
}

#define PER_CHANNEL(n)                                                         \
    "f32[" n "]", "f32[" n "]", "f32[" n "]", "f32[" n "] below=2"

static const fl_op_case batch_norm_cases[] = {
    { .in = { "f32[12,5]", PER_CHANNEL("5") } },
    { .in = { "f32[0,5]", PER_CHANNEL("5") } },
    { .in = { "f32[1,5]", PER_CHANNEL("5") } },
    { .in = { "f32[7,33]", PER_CHANNEL("33") },
      .attrs = "{momentum=0.3, epsilon=0.01}" },
    { .in = { "f32[4,3,2,3]", PER_CHANNEL("3") } },
    { .in = { "f32[4,2,3]", PER_CHANNEL("3") }, .attrs = "{data_layout=NHWC}" },
    { .in = { "f32[9,5]", PER_CHANNEL("5") }, .attrs = "{is_test=true}" },
    { .in = { "f32[9,5]", PER_CHANNEL("5") },
      .attrs = "{use_global_stats=true}" },
    { .in = { "f32[9,5]", PER_CHANNEL("5"), "f32[1] below=1" },
      .attrs = "{is_test=true, trainable_statistics=true}" },
    { .in = { "f32[7,3] lod=[0,2,2,7]", PER_CHANNEL("3") } },
};

const fl_op fl_op_batch_norm = {
    .name = "batch_norm",
    .doc = "Y = Scale (X - mean) / sqrt(variance + epsilon) + Bias, channel by "
           "channel: dimension 1 (data_layout=NCHW) or the last (NHWC). Mean "
           "and variance are those of the batch, which are in SavedMean and, "
           "as 1 / sqrt(variance + epsilon), in SavedVariance, and Mean and "
           "Variance become momentum times themselves plus the rest of these "
           "(MomentumTensor stands for momentum). In test (is_test, unless "
           "trainable_statistics) and with use_global_stats they are Mean and "
           "Variance, which then stay. The variance is the biased one. One "
           "row of single numbers, which has none, is left as it is",
    .in = { { "X", 0 },
            { "Scale", 0 },
            { "Bias", 0 },
            { "Mean", FL_OP_SLOT_STATE | FL_SLOT_NO_GRAD },
            { "Variance", FL_OP_SLOT_STATE | FL_SLOT_NO_GRAD },
            { "MomentumTensor", FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD } },
    .out = { { "Y", 0 },
             { "MeanOut", FL_SLOT_NO_GRAD },
             { "VarianceOut", FL_SLOT_NO_GRAD },
             { "SavedMean", FL_OP_SLOT_BYPRODUCT },
             { "SavedVariance", FL_OP_SLOT_BYPRODUCT },
             { "ReserveSpace", FL_OP_SLOT_BYPRODUCT } },
    .attrs = { { "is_test", FL_ATTR_BOOL, "false" },
               { "momentum", FL_ATTR_FLOAT, "0.9" },
               { "epsilon", FL_ATTR_FLOAT, "1e-05" },
               { "data_layout", FL_ATTR_STRING, "NCHW" },
               { "fuse_with_relu", FL_ATTR_BOOL, "false" },
               { "use_global_stats", FL_ATTR_BOOL, "false" },
               { "trainable_statistics", FL_ATTR_BOOL, "false" } },
    .flags = FL_OP_SLICED,
    .infer = batch_norm_infer,
    .run = batch_norm_run,
    .back = batch_norm_back,
    .back_uses = FL_USES_IN(X) | FL_USES_IN(SCALE) | FL_USES_OUT(SAVED_MEAN) |
                 FL_USES_OUT(SAVED_VARIANCE),
    .back_infer = batch_norm_back_infer,
    .cases = batch_norm_cases,
    .n_cases = FL_LEN(batch_norm_cases),
};
