/* prelu.c - a rectifier whose slope below 0 is learned: one for all, one for
 * each channel (axis 1), or one for each place of a row. */
#include "ops/helpers.h"

enum { X, ALPHA };
enum { OUT };
enum { MODE };

/* Which slope a number has: that of its place in a row, over `run`, modulo
   `n`. */
typedef struct slopes {
    size_t n, run;
} slopes;

static bool is_mode(const fl_op_node *n, const char *mode)
{
    return !strcmp(fl_attr_str(n, MODE), mode);
}

/* How many slopes a mode wants; -1 when that is not known yet. */
static int64_t n_slopes(const fl_op_node *n, const fl_shape *x)
{
    if (is_mode(n, "channel"))
        return x->rank > 1 ? x->dim[1] : 1;
    return is_mode(n, "element") ? fl_shape_count(x, 1, x->rank) : 1;
}

static fl_status prelu_infer(fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    int64_t want = n_slopes(c->node, x);
    int64_t got = fl_shape_numel(&fl_infer_in(c, ALPHA)->shape);
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_same(c, X, OUT));
    FL_TRY(fl_infer_same_dtype(c, X, ALPHA));
    if (!is_mode(c->node, "all") && !is_mode(c->node, "channel") &&
        !is_mode(c->node, "element"))
        FL_FAIL(FL_ERR_INVAL,
                "op prelu: mode '%s' is not all, channel or element",
                fl_str_attr(c, MODE));
    if (want >= 0 && got >= 0 && want != got)
        FL_FAIL(FL_ERR_INVAL,
                "op prelu: %s must have %lld numbers for %s in mode %s",
                fl_infer_text(c, ALPHA, a), (long long)want,
                fl_infer_text(c, X, b), fl_str_attr(c, MODE));
    return FL_OK;
}

static slopes slopes_of(const fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;

    return (slopes){ (size_t)n_slopes(c->node, x),
                     is_mode(c->node, "channel") && x->rank > 2
                         ? (size_t)fl_shape_count(x, 2, x->rank)
                         : 1 };
}

#define KERNELS(T, t)                                                          \
    static void forward_##t(T *y, const T *x, const T *alpha, slopes k,        \
                            fl_span s)                                         \
    {                                                                          \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            y[i] = x[i] > 0 ? x[i] : alpha[i / k.run % k.n] * x[i];            \
    }                                                                          \
    static void to_x_##t(T *dx, const T *x, const T *alpha, const T *g,        \
                         slopes k, size_t n)                                   \
    {                                                                          \
        for (size_t i = 0; i < n; i++)                                         \
            dx[i] = x[i] > 0 ? g[i] : alpha[i / k.run % k.n] * g[i];           \
    }                                                                          \
    static void to_alpha_##t(T *d, const T *x, const T *g, slopes k, size_t n) \
    {                                                                          \
        for (size_t i = 0; i < n; i++)                                         \
            if (!(x[i] > 0))                                                   \
                d[i / k.run % k.n] += x[i] * g[i];                             \
    }
FL_FLOATS(KERNELS)

static fl_status prelu_run(fl_op_ctx *c)
{
    size_t n = (size_t)fl_tensor_numel(fl_in_t(c, X));

    FL_BY_FLOAT(c, X, forward, fl_out(c, OUT), fl_in(c, X), fl_in(c, ALPHA),
                slopes_of(c), (fl_span){ 0, n });
    return FL_OK;
}

static fl_status prelu_back(fl_op_ctx *c)
{
    size_t n = (size_t)fl_tensor_numel(fl_in_t(c, X));
    const void *g = fl_dout(c, OUT);

    if (!fl_dout_t(c, OUT))
        fl_din_zero(c, X);
    else if (fl_din_t(c, X))
        FL_BY_FLOAT(c, X, to_x, fl_din(c, X), fl_in(c, X), fl_in(c, ALPHA), g,
                    slopes_of(c), n);
    fl_din_zero(c, ALPHA);
    if (fl_din_t(c, ALPHA) && fl_dout_t(c, OUT))
        FL_BY_FLOAT(c, X, to_alpha, fl_din(c, ALPHA), fl_in(c, X), g,
                    slopes_of(c), n);
    return FL_OK;
}

static const fl_op_case prelu_cases[] = {
    { .in = { "f32[33,7]", "f32[1]" }, .attrs = "{mode=all}" },
    { .in = { "f32[5,3,4]", "f32[1,3,1]" }, .attrs = "{mode=channel}" },
    { .in = { "f32[33,7]", "f32[7]" }, .attrs = "{mode=channel}" },
    { .in = { "f32[5,3,4]", "f32[1,3,4]" }, .attrs = "{mode=element}" },
    { .in = { "f32[0,8]", "f32[1,8]" }, .attrs = "{mode=element}" },
};

const fl_op fl_op_prelu = {
    .name = "prelu",
    .doc = "Out = X, or Alpha X where X is not above 0; Alpha is one number "
           "(mode all), one for each place of axis 1 (channel) or one for each "
           "place of a row (element)",
    .in = { { "X", 0 }, { "Alpha", 0 } },
    .out = { { "Out", 0 } },
    .attrs = { { "mode", FL_ATTR_STRING, "all" } },
    .infer = prelu_infer,
    .run = prelu_run,
    .back = prelu_back,
    .back_uses = FL_USES_IN(X) | FL_USES_IN(ALPHA),
    .cases = prelu_cases,
    .n_cases = FL_LEN(prelu_cases),
};
