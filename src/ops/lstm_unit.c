/* lstm_unit.c - one step of a long short-term memory, from its products.
 *
 *     i, f, o = sigmoid(x_i), sigmoid(x_f + forget_bias), sigmoid(x_o)
 *     c = f C_prev + i tanh(x_g)      h = o tanh(c)
 *
 * A row of X has the columns of i, f, o and g, one behind the other. Back
 * computes the gates again.
 */
#include <math.h>

#include "ops/helpers.h"
#include "ops/kit.h"

enum { X, C_PREV };
enum { C, H };
enum { FORGET_BIAS };

typedef struct gates {
    double i, f, o, g;
} gates;

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

#define KERNELS(T, t)                                                          \
    static gates gates_##t(const T *x, size_t k, size_t d, double bias)        \
    {                                                                          \
        return (gates){ .i = sigmoid((double)x[k]),                            \
                        .f = sigmoid((double)x[d + k] + bias),                 \
                        .o = sigmoid((double)x[2 * d + k]),                    \
                        .g = tanh((double)x[3 * d + k]) };                     \
    }                                                                          \
    static void forward_##t(const fl_op_ctx *ctx, fl_span s, size_t d,         \
                            double bias)                                       \
    {                                                                          \
        const T *x = fl_in(ctx, X), *prev = fl_in(ctx, C_PREV);                \
        T *c = fl_out(ctx, C), *h = fl_out(ctx, H);                            \
                                                                               \
        for (size_t at = s.lo * d; at < s.hi * d; at++) {                      \
            gates z = gates_##t(x + at / d * 4 * d, at % d, d, bias);          \
            double cell = z.f * (double)prev[at] + z.i * z.g;                  \
                                                                               \
            c[at] = (T)cell;                                                   \
            h[at] = (T)(z.o * tanh(cell));                                     \
        }                                                                      \
    }                                                                          \
    static void give_##t(T *dx, const gates *z, const gates *dz, size_t d)     \
    {                                                                          \
        dx[0] = (T)(dz->i * z->i * (1 - z->i));                                \
        dx[d] = (T)(dz->f * z->f * (1 - z->f));                                \
        dx[2 * d] = (T)(dz->o * z->o * (1 - z->o));                            \
        dx[3 * d] = (T)(dz->g * (1 - z->g * z->g));                            \
    }                                                                          \
    static void backward_##t(const fl_op_ctx *ctx, fl_span s, size_t d,        \
                             double bias)                                      \
    {                                                                          \
        const T *x = fl_in(ctx, X), *prev = fl_in(ctx, C_PREV);                \
        const T *dc = fl_dout(ctx, C), *dh = fl_dout(ctx, H);                  \
        T *dx = fl_din(ctx, X), *dprev = fl_din(ctx, C_PREV);                  \
                                                                               \
        for (size_t at = s.lo * d; at < s.hi * d; at++) {                      \
            size_t row = at / d * 4 * d;                                       \
            gates z = gates_##t(x + row, at % d, d, bias);                     \
            double p = (double)prev[at], h = tanh(z.f * p + z.i * z.g);        \
            double gh = dh ? (double)dh[at] : 0;                               \
            double gc = (dc ? (double)dc[at] : 0) + gh * z.o * (1 - h * h);    \
            gates dz = { gc * z.g, gc * p, gh * h, gc * z.i };                 \
                                                                               \
            if (dx)                                                            \
                give_##t(dx + row + at % d, &z, &dz, d);                       \
            if (dprev)                                                         \
                dprev[at] = (T)(gc * z.f);                                     \
        }                                                                      \
    }
FL_FLOATS(KERNELS)

static fl_status lstm_unit_infer(fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    const fl_tensor *prev = fl_infer_in(c, C_PREV);
    int64_t d = prev->shape.rank == 2 ? prev->shape.dim[1] : -1;
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_float(c, X));
    FL_TRY(fl_infer_same_dtype(c, X, C_PREV));
    if (x->rank != 2 || prev->shape.rank != 2 || d < 1 || x->dim[1] != 4 * d ||
        !fl_shape_matches(&prev->shape,
                          &(fl_shape){ .rank = 2, .dim = { x->dim[0], d } }))
        FL_FAIL(FL_ERR_INVAL,
                "op lstm_unit: %s must be [n,4D] where %s is [n,D]",
                fl_infer_text(c, X, a), fl_infer_text(c, C_PREV, b));
    for (int slot = C; slot <= H; slot++)
        if (fl_infer_out(c, slot))
            fl_tensor_like(fl_infer_out(c, slot), prev);
    return FL_OK;
}

static fl_status lstm_unit_run(fl_op_ctx *c)
{
    const fl_shape *s = &fl_in_t(c, C_PREV)->shape;

    FL_BY_FLOAT(c, X, forward, c, fl_op_span(c, (size_t)s->dim[0]),
                (size_t)s->dim[1], fl_float(c, FORGET_BIAS));
    return FL_OK;
}

static fl_status lstm_unit_back(fl_op_ctx *c)
{
    const fl_shape *s = &fl_in_t(c, C_PREV)->shape;

    FL_BY_FLOAT(c, X, backward, c, fl_op_span(c, (size_t)s->dim[0]),
                (size_t)s->dim[1], fl_float(c, FORGET_BIAS));
    return FL_OK;
}

static const fl_op_case lstm_unit_cases[] = {
    { .in = { "f32[5,12]", "f32[5,3]" } },
    { .in = { "f32[40,4]", "f32[40,1]" }, .attrs = "{forget_bias=1.5}" },
    { .in = { "f32[0,12]", "f32[0,3]" } },
};

const fl_op fl_op_lstm_unit = {
    .name = "lstm_unit",
    .doc = "one step of a long short-term memory for a batch of rows: with X = "
           "[i f o g], C = sigmoid(f + forget_bias) C_prev + sigmoid(i) "
           "tanh(g), H = sigmoid(o) tanh(C)",
    .in = { { "X", 0 }, { "C_prev", 0 } },
    .out = { { "C", 0 }, { "H", 0 } },
    .attrs = { { "forget_bias", FL_ATTR_FLOAT, "0" } },
    .flags = FL_OP_SLICED,
    .infer = lstm_unit_infer,
    .run = lstm_unit_run,
    .back = lstm_unit_back,
    .back_uses = FL_USES_IN(X) | FL_USES_IN(C_PREV),
    .cases = lstm_unit_cases,
    .n_cases = FL_LEN(lstm_unit_cases),
};
