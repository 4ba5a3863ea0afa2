/* sampling_id.c - for each row of probabilities, the place that a random number
 * falls on. */
#include "base/rng.h"
#include "ops/kit.h"

enum { X };
enum { OUT };
enum { MIN, MAX, SEED };

static fl_status sampling_id_infer(fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_float(c, X));
    if (x->rank != 2 || !x->dim[1])
        FL_FAIL(FL_ERR_INVAL,
                "op sampling_id: %s must be a matrix with columns",
                fl_infer_text(c, X, buf));
    if (!(fl_float(c, MIN) < fl_float(c, MAX)))
        FL_FAIL(FL_ERR_INVAL, "op sampling_id: min %g is not below max %g",
                fl_float(c, MIN), fl_float(c, MAX));
    fl_infer_dense(c, OUT, FL_DTYPE_I64, 1, x->dim);
    return FL_OK;
}

#define KERNELS(T, t)                                                          \
    static void draw_##t(const T *x, size_t n, double r, int64_t *out)         \
    {                                                                          \
        size_t k = 0;                                                          \
                                                                               \
        while (k + 1 < n && (r -= (double)x[k]) >= 0)                          \
            k++;                                                               \
        *out = (int64_t)k;                                                     \
    }
FL_FLOATS(KERNELS)

static fl_status sampling_id_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X);
    size_t n = (size_t)x->shape.dim[1], size = fl_dtype_bytes(x->dtype);
    fl_span s = fl_op_span(c, (size_t)x->shape.dim[0]);
    int64_t seed = fl_int(c, SEED), *out = fl_out(c, OUT);
    uint64_t stream = seed ? fl_rng_stream((uint64_t)seed, "")
                           : fl_op_stream(c, 0, FL_STREAM_MOVING);
    double low = fl_float(c, MIN), high = fl_float(c, MAX);

    for (size_t i = s.lo; i < s.hi; i++) {
        double r = low + fl_rng_unit(stream, i, 0) * (high - low);
        const void *row = (const char *)x->data + i * n * size;

        FL_BY_FLOAT(c, X, draw, row, n, r, out + i);
    }
    return FL_OK;
}

static const fl_op_case sampling_id_cases[] = {
    { .in = { "f32[33,5] below=1" }, .attrs = "{seed=3}" },
    { .in = { "f32[4,1]" } },
    { .in = { "f32[0,4]" } },
};

const fl_op fl_op_sampling_id = {
    .name = "sampling_id",
    .doc = "Out = for each row of X, which has probabilities, the first place "
           "up to which they sum to more than a random number in [min, max), "
           "or the last place; other numbers in each step unless seed is given",
    .in = { { "X", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .attrs = { { "min", FL_ATTR_FLOAT, "0" },
               { "max", FL_ATTR_FLOAT, "1" },
               { "seed", FL_ATTR_INT, "0" } },
    .flags = FL_OP_SLICED,
    .infer = sampling_id_infer,
    .run = sampling_id_run,
    .cases = sampling_id_cases,
    .n_cases = FL_LEN(sampling_id_cases),
};
