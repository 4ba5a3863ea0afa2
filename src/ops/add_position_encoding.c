/* add_position_encoding.c - rows of a sequence, each with a pattern of waves
 * that tells its place.
 *
 * Of the columns the first half gets sin(place / 10000^(k / (half - 1))) for
 * column k, the second half the cosines.
 */
#include <math.h>

#include "kernel/vec.h"
#include "ops/helpers.h"
#include "ops/sequences.h"

enum { X };
enum { OUT };
enum { ALPHA, BETA };

static fl_status position_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    int64_t width = x->shape.dim[x->shape.rank - 1];
    char buf[FL_SLOT_TEXT_MAX];

    if (x->shape.rank != (x->n_lod ? 2 : 3) || (width > 0 && width % 2))
        FL_FAIL(FL_ERR_INVAL,
                "op add_position_encoding: %s must have offsets and two "
                "dimensions, or three: batch, steps, columns, whose number is "
                "even",
                fl_infer_text(c, X, buf));
    if (x->n_lod)
        FL_TRY(fl_infer_one_level(c, X));
    return fl_infer_same(c, X, OUT);
}

/* The place of a row in its sequence. */
static size_t place_of(const fl_tensor *x, size_t row)
{
    fl_seqs q;

    if (!x->n_lod)
        return row % (size_t)x->shape.dim[1];
    q = fl_seqs_of(x);
    return row - (size_t)q.off[fl_seqs_find(&q, (int64_t)row)];
}

/* How fast the wave of column k is; one column alone is the slowest. */
static double pace_of(size_t k, size_t half)
{
    return half > 1 ? pow(10000, (double)k / (double)(half - 1)) : 10000;
}

#define KERNELS(T, t)                                                          \
    static void forward_##t(const fl_op_ctx *c, size_t row, size_t half)       \
    {                                                                          \
        double place = (double)place_of(fl_in_t(c, X), row);                   \
        T alpha = (T)fl_float(c, ALPHA), beta = (T)fl_float(c, BETA);          \
        const T *x = (const T *)fl_in(c, X) + row * 2 * half;                  \
        T *out = (T *)fl_out(c, OUT) + row * 2 * half;                         \
                                                                               \
        for (size_t k = 0; k < half; k++) {                                    \
            double at = place / pace_of(k, half);                              \
                                                                               \
            out[k] = alpha * x[k] + beta * (T)sin(at);                         \
            out[half + k] = alpha * x[half + k] + beta * (T)cos(at);           \
        }                                                                      \
    }                                                                          \
    static void backward_##t(fl_span s, T alpha, const T *g, T *dx)            \
    {                                                                          \
        fl_vec_##t()->scale(dx + s.lo, alpha, g + s.lo, 0, s.hi - s.lo);       \
    }
FL_FLOATS(KERNELS)

static fl_status position_run(fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;
    size_t half = (size_t)x->dim[x->rank - 1] / 2;
    fl_span s = fl_op_span(c, (size_t)fl_shape_count(x, 0, x->rank - 1));

    for (size_t row = s.lo; row < s.hi; row++)
        FL_BY_FLOAT(c, X, forward, c, row, half);
    return FL_OK;
}

static fl_status position_back(fl_op_ctx *c)
{
    fl_span s = fl_op_span(c, (size_t)fl_tensor_numel(fl_in_t(c, X)));

    if (fl_din_t(c, X) && fl_dout_t(c, OUT) && s.lo < s.hi) {
        if (fl_in_t(c, X)->dtype == FL_DTYPE_F32)
            backward_f32(s, (float)fl_float(c, ALPHA), fl_dout(c, OUT),
                         fl_din(c, X));
        else
            backward_f64(s, fl_float(c, ALPHA), fl_dout(c, OUT), fl_din(c, X));
        return FL_OK;
    }
    fl_din_zero(c, X);
    return FL_OK;
}

static const fl_op_case position_cases[] = {
    { .in = { "f32[2,3,4]" }, .attrs = "{alpha=0.5, beta=2}" },
    { .in = { "f32[7,6] lod=[0,2,2,7]" } },
    { .in = { "f32[33,2] lod=[0,33]" } },
    { .in = { "f32[0,3,4]" } },
};

const fl_op fl_op_add_position_encoding = {
    .name = "add_position_encoding",
    .doc = "Out = alpha X + beta P, where P tells the place of a row in its "
           "sequence: sines of place / 10000^(k / (half - 1)) in the first "
           "half of the columns, cosines in the second. Sequences have "
           "offsets, or X has three dimensions",
    .in = { { "X", 0 } },
    .out = { { "Out", 0 } },
    .attrs = { { "alpha", FL_ATTR_FLOAT, "1" },
               { "beta", FL_ATTR_FLOAT, "1" } },
    .flags = FL_OP_SLICED,
    .infer = position_infer,
    .run = position_run,
    .back = position_back,
    .cases = position_cases,
    .n_cases = FL_LEN(position_cases),
};
