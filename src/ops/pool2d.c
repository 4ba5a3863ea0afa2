/* pool2d.c - the largest or the mean of what a window sees, channel by
 * channel. */
#include <math.h>

#include "ops/helpers.h"
#include "ops/images.h"

enum { X };
enum { OUT };
enum {
    POOLING_TYPE,
    KSIZE,
    GLOBAL_POOLING,
    STRIDES,
    PADDINGS,
    EXCLUSIVE,
    ADAPTIVE,
    CEIL_MODE,
    DATA_FORMAT,
    PADDING_ALGORITHM
};

static const fl_window_attrs attrs = { .strides = STRIDES,
                                       .paddings = PADDINGS,
                                       .dilations = -1,
                                       .algorithm = PADDING_ALGORITHM,
                                       .format = DATA_FORMAT,
                                       .ceil = CEIL_MODE };

static bool is_adaptive(const fl_op_node *n)
{
    return fl_attr_bool(n, ADAPTIVE) && !fl_attr_bool(n, GLOBAL_POOLING);
}

/* A window over all of the image has one place; with `adaptive`, ksize is the
   number of places. */
static void fit_whole(const fl_op_node *n, const int64_t ksize[2],
                      fl_windows *w)
{
    for (int i = 0; i < 2; i++) {
        fl_side_size *s = &w->side[i];

        if (fl_attr_bool(n, GLOBAL_POOLING))
            *s = (fl_side_size){ .in = s->in,
                                 .out = 1,
                                 .window = s->in,
                                 .stride = 1,
                                 .dilation = 1 };
        else
            s->out = ksize[i];
    }
}

static fl_status pool_of(const fl_op_node *n, const fl_shape *x, fl_windows *w)
{
    bool is_whole = fl_attr_bool(n, GLOBAL_POOLING) || is_adaptive(n);
    const int64_t one[] = { 1, 1 };
    size_t len;
    const int64_t *ksize = fl_attr_ints(n, KSIZE, &len);

    if (len != 2 || ksize[0] < 1 || ksize[1] < 1) {
        if (!fl_attr_bool(n, GLOBAL_POOLING))
            FL_FAIL(FL_ERR_INVAL,
                    "op pool2d: ksize must be two numbers of at least 1");
        ksize = one;
    }
    FL_TRY(fl_windows_of(n, x, is_whole ? one : ksize, &attrs, w));
    if (is_whole)
        fit_whole(n, ksize, w);
    return FL_OK;
}

static fl_status pool2d_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    const char *type = fl_str_attr(c, POOLING_TYPE);
    fl_windows w;
    fl_shape out;

    FL_TRY(fl_infer_float(c, X));
    if (strcmp(type, "max") && strcmp(type, "avg"))
        FL_FAIL(FL_ERR_INVAL,
                "op pool2d: pooling_type %s; max and avg are possible", type);
    FL_TRY(pool_of(c->node, &x->shape, &w));
    out = fl_windows_shape(&w, w.c);
    fl_infer_dense(c, OUT, x->dtype, 4, out.dim);
    return FL_OK;
}

/* --- windows --------------------------------------------------------------- */

/* What the window at a place sees of a side: on the image, and with what lies
   beside it. */
typedef struct view {
    int64_t lo, hi, size;
} view;

static view look(const fl_side_size *s, int64_t place, bool adaptive)
{
    int64_t lo = place * s->stride - s->before;
    int64_t hi = lo + s->window;
    int64_t end = s->in + s->after;

    if (adaptive) {
        lo = place * s->in / s->out;
        hi = ((place + 1) * s->in + s->out - 1) / s->out;
        return (view){ lo, hi, hi - lo };
    }
    hi = hi < end ? hi : end;
    return (view){ lo > 0 ? lo : 0, hi < s->in ? hi : s->in, hi - lo };
}

typedef struct pool {
    fl_windows w;
    bool adaptive, exclusive;
} pool;

/* Elements that a mean is over. */
static double count_of(const pool *p, view v, view h)
{
    int64_t n = p->exclusive || p->adaptive ? (v.hi - v.lo) * (h.hi - h.lo)
                                            : v.size * h.size;

    return n > 0 ? (double)n : 1;
}

/* Calls M for each place of each channel of one image: `v` and `h` are what it
   sees, `o` where its output is. */
#define EACH_PLACE(p, M)                                                       \
    for (int64_t k = 0; k < (p)->w.c; k++)                                     \
        for (int64_t y = 0; y < (p)->w.side[0].out; y++)                       \
            for (int64_t z = 0; z < (p)->w.side[1].out; z++) {                 \
                view v = look(&(p)->w.side[0], y, (p)->adaptive);              \
                view h = look(&(p)->w.side[1], z, (p)->adaptive);              \
                int64_t o =                                                    \
                    (p)->w.is_last                                             \
                        ? (y * (p)->w.side[1].out + z) * (p)->w.c + k          \
                        : (k * (p)->w.side[0].out + y) * (p)->w.side[1].out +  \
                              z;                                               \
                                                                               \
                M;                                                             \
            }

#define KERNELS(T, t)                                                          \
    static int64_t largest_##t(const pool *p, const T *x, int64_t k, view v,   \
                               view h)                                         \
    {                                                                          \
        int64_t best = -1;                                                     \
                                                                               \
        for (int64_t i = v.lo; i < v.hi; i++)                                  \
            for (int64_t j = h.lo; j < h.hi; j++) {                            \
                int64_t at = fl_pixel(&p->w, k, i, j);                         \
                                                                               \
                if (best < 0 || x[at] > x[best])                               \
                    best = at;                                                 \
            }                                                                  \
        return best;                                                           \
    }                                                                          \
    static T mean_##t(const pool *p, const T *x, int64_t k, view v, view h)    \
    {                                                                          \
        T sum = 0;                                                             \
                                                                               \
        for (int64_t i = v.lo; i < v.hi; i++)                                  \
            for (int64_t j = h.lo; j < h.hi; j++)                              \
                sum += x[fl_pixel(&p->w, k, i, j)];                            \
        return sum / (T)count_of(p, v, h);                                     \
    }                                                                          \
    static void max_##t(const pool *p, const T *x, T *out)                     \
    {                                                                          \
        EACH_PLACE(p, int64_t best = largest_##t(p, x, k, v, h);               \
                   out[o] = best < 0 ? -(T)INFINITY : x[best])                 \
    }                                                                          \
    static void avg_##t(const pool *p, const T *x, T *out)                     \
    {                                                                          \
        EACH_PLACE(p, out[o] = mean_##t(p, x, k, v, h))                        \
    }                                                                          \
    static void max_back_##t(const pool *p, const T *x, const T *dout, T *dx)  \
    {                                                                          \
        EACH_PLACE(p, int64_t best = largest_##t(p, x, k, v, h);               \
                   if (best >= 0) dx[best] += dout[o])                         \
    }                                                                          \
    static void avg_back_##t(const pool *p, const T *dout, T *dx)              \
    {                                                                          \
        EACH_PLACE(p, T part = dout[o] / (T)count_of(p, v, h);                 \
                   for (int64_t i = v.lo; i < v.hi;                            \
                        i++) for (int64_t j = h.lo; j < h.hi; j++)             \
                       dx[fl_pixel(&p->w, k, i, j)] += part)                   \
    }                                                                          \
    static void run_##t(const pool *p, bool is_max, const T *x, T *out)        \
    {                                                                          \
        int64_t in = p->w.c * p->w.side[0].in * p->w.side[1].in;               \
        int64_t each = p->w.c * p->w.side[0].out * p->w.side[1].out;           \
                                                                               \
        for (int64_t i = 0; i < p->w.n; i++, x += in, out += each)             \
            if (is_max)                                                        \
                max_##t(p, x, out);                                            \
            else                                                               \
                avg_##t(p, x, out);                                            \
    }                                                                          \
    static void back_##t(const pool *p, bool is_max, const T *x,               \
                         const T *dout, T *dx)                                 \
    {                                                                          \
        int64_t in = p->w.c * p->w.side[0].in * p->w.side[1].in;               \
        int64_t each = p->w.c * p->w.side[0].out * p->w.side[1].out;           \
                                                                               \
        for (int64_t i = 0; i < p->w.n; i++, dout += each, dx += in)           \
            if (is_max)                                                        \
                max_back_##t(p, x + i * in, dout, dx);                         \
            else                                                               \
                avg_back_##t(p, dout, dx);                                     \
    }
FL_FLOATS(KERNELS)

static fl_status read_pool(const fl_op_ctx *c, pool *p)
{
    p->adaptive = is_adaptive(c->node);
    p->exclusive = fl_bool(c, EXCLUSIVE);
    return pool_of(c->node, &fl_in_t(c, X)->shape, &p->w);
}

static bool is_max(const fl_op_ctx *c)
{
    return !strcmp(fl_str_attr(c, POOLING_TYPE), "max");
}

static fl_status pool2d_run(fl_op_ctx *c)
{
    pool p;

    FL_TRY(read_pool(c, &p));
    FL_BY_FLOAT(c, X, run, &p, is_max(c), fl_in(c, X), fl_out(c, OUT));
    return FL_OK;
}

static fl_status pool2d_back(fl_op_ctx *c)
{
    pool p;

    FL_TRY(read_pool(c, &p));
    fl_din_zero(c, X);
    FL_BY_FLOAT(c, X, back, &p, is_max(c), fl_in(c, X), fl_dout(c, OUT),
                fl_din(c, X));
    return FL_OK;
}

static const fl_op_case pool2d_cases[] = {
    { .in = { "f32[2,3,6,6]" }, .attrs = "{ksize=[2,2], strides=[2,2]}" },
    { .in = { "f32[2,3,5,6]" },
      .attrs = "{pooling_type=avg, ksize=[3,2], strides=[2,2], "
               "paddings=[1,1]}" },
    { .in = { "f32[2,3,5,6]" },
      .attrs = "{pooling_type=avg, ksize=[3,2], strides=[2,2], paddings=[1,1], "
               "exclusive=false, ceil_mode=true}" },
    { .in = { "f32[2,3,5,5]" },
      .attrs = "{pooling_type=avg, global_pooling=true}" },
    { .in = { "f32[2,5,5,3]" },
      .attrs = "{pooling_type=avg, ksize=[2,3], adaptive=true, "
               "data_format=NHWC}" },
    { .in = { "f32[2,3,5,5]" },
      .attrs = "{ksize=[3,3], strides=[2,2], padding_algorithm=SAME}" },
    { .in = { "f32[0,3,4,4]" }, .attrs = "{ksize=[2,2]}" },
};

const fl_op fl_op_pool2d = {
    .name = "pool2d",
    .doc = "Out = the largest, or with pooling_type avg the mean, of what a "
           "window of ksize sees of each channel of the images X; over all of "
           "an image with global_pooling; with adaptive, ksize is the number "
           "of places",
    .in = { { "X", 0 } },
    .out = { { "Out", 0 } },
    .attrs = { { "pooling_type", FL_ATTR_STRING, "max" },
               { "ksize", FL_ATTR_INTS, "[1,1]" },
               { "global_pooling", FL_ATTR_BOOL, "false" },
               { "strides", FL_ATTR_INTS, "[1,1]" },
               { "paddings", FL_ATTR_INTS, "[0,0]" },
               { "exclusive", FL_ATTR_BOOL, "true" },
               { "adaptive", FL_ATTR_BOOL, "false" },
               { "ceil_mode", FL_ATTR_BOOL, "false" },
               { "data_format", FL_ATTR_STRING, "NCHW" },
               { "padding_algorithm", FL_ATTR_STRING, "EXPLICIT" } },
    .infer = pool2d_infer,
    .run = pool2d_run,
    .back = pool2d_back,
    .back_uses = FL_USES_IN(X),
    .cases = pool2d_cases,
    .n_cases = FL_LEN(pool2d_cases),
};
