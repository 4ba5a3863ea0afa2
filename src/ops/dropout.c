/* dropout.c - some numbers at random become 0. What stays is a matter of the
 * stream and of the place alone, hence the same for any split. */
#include "base/rng.h"
#include "ops/helpers.h"
#include "ops/values.h"

enum { X, SEED_TENSOR };
enum { OUT, MASK };
enum { DROPOUT_PROB, IS_TEST, FIX_SEED, SEED, DROPOUT_IMPLEMENTATION };

#define DOWNGRADE "downgrade_in_infer"
#define UPSCALE "upscale_in_train"

/* Out = X * mask * factor, in training and in test. */
static double factor_of(const fl_op_ctx *c)
{
    double p = fl_float(c, DROPOUT_PROB);
    bool upscale = !strcmp(fl_str_attr(c, DROPOUT_IMPLEMENTATION), UPSCALE);

    if (fl_bool(c, IS_TEST))
        return upscale ? 1 : 1 - p;
    return upscale && p < 1 ? 1 / (1 - p) : 1;
}

/* A seed that is a value says all: operators with the same one drop the same
   numbers. */
static uint64_t stream_of(const fl_op_ctx *c)
{
    if (fl_in_t(c, SEED_TENSOR))
        return fl_op_stream_of(c, "", fl_read_int(c, SEED_TENSOR, SEED),
                               FL_STREAM_FIXED);
    return fl_op_stream(c, fl_read_int(c, SEED_TENSOR, SEED),
                        fl_bool(c, FIX_SEED) ? FL_STREAM_FIXED
                                             : FL_STREAM_MOVING);
}

#define KERNELS(T, t)                                                          \
    static void forward_##t(T *y, const T *x, uint8_t *mask, T factor,         \
                            double p, uint64_t stream, fl_span s)              \
    {                                                                          \
        for (size_t i = s.lo; i < s.hi; i++) {                                 \
            bool stays = p <= 0 || fl_rng_unit(stream, 0, i) >= p;             \
                                                                               \
            y[i] = stays ? x[i] * factor : 0;                                  \
            if (mask)                                                          \
                mask[i] = stays;                                               \
        }                                                                      \
    }                                                                          \
    static void backward_##t(T *dx, const uint8_t *mask, const T *g, T factor, \
                             fl_span s)                                        \
    {                                                                          \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            dx[i] = mask[i] ? g[i] * factor : 0;                               \
    }
FL_FLOATS(KERNELS)

static fl_status dropout_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    const char *kind = fl_str_attr(c, DROPOUT_IMPLEMENTATION);
    double p = fl_float(c, DROPOUT_PROB);
    int64_t seed;
    bool known;

    FL_TRY(fl_infer_int(c, SEED_TENSOR, SEED, &seed, &known));
    if (!(p >= 0 && p <= 1))
        FL_FAIL(FL_ERR_INVAL, "op dropout: dropout_prob %g is not in 0..1", p);
    if (strcmp(kind, DOWNGRADE) && strcmp(kind, UPSCALE))
        FL_FAIL(FL_ERR_INVAL,
                "op dropout: dropout_implementation '%s' is neither " DOWNGRADE
                " nor " UPSCALE,
                kind);
    fl_infer_dense(c, MASK, FL_DTYPE_U8, x->shape.rank, x->shape.dim);
    return fl_infer_same(c, X, OUT);
}

static fl_span span_of(const fl_op_ctx *c)
{
    return fl_op_span(c, (size_t)fl_tensor_numel(fl_in_t(c, X)));
}

static fl_status dropout_run(fl_op_ctx *c)
{
    double p = fl_bool(c, IS_TEST) ? 0 : fl_float(c, DROPOUT_PROB);

    FL_BY_FLOAT(c, X, forward, fl_out(c, OUT), fl_in(c, X), fl_out(c, MASK),
                factor_of(c), p, stream_of(c), span_of(c));
    return FL_OK;
}

static fl_status dropout_back(fl_op_ctx *c)
{
    if (!fl_din_t(c, X))
        return FL_OK;
    if (fl_dout_t(c, OUT))
        FL_BY_FLOAT(c, X, backward, fl_din(c, X), fl_saved_out(c, MASK),
                    fl_dout(c, OUT), factor_of(c), span_of(c));
    else
        fl_share_zero(c, fl_din_t(c, X));
    return FL_OK;
}

static fl_status dropout_back_infer(fl_infer *c)
{
    return fl_back_needs(c, MASK);
}

static const fl_op_case dropout_cases[] = {
    { .in = { "f32[33,7]" },
      .attrs = "{dropout_prob=0.4, fix_seed=true, seed=7}" },
    { .in = { "f32[33,7]" },
      .attrs = "{dropout_prob=0.4, fix_seed=true, seed=7, "
               "dropout_implementation=upscale_in_train}" },
    { .in = { "f32[33,7]" }, .attrs = "{dropout_prob=0.4}" },
    { .in = { "f32[5,3] lod=[0,2,2,5]" }, .attrs = "{dropout_prob=0}" },
    { .in = { "f32[33,7]" },
      .attrs = "{dropout_prob=1, dropout_implementation=upscale_in_train}" },
    { .in = { "f32[33,7]" }, .attrs = "{dropout_prob=0.4, is_test=true}" },
    { .in = { "f32[33,7]" },
      .attrs = "{dropout_prob=0.4, is_test=true, "
               "dropout_implementation=upscale_in_train}" },
    { .in = { "f32[33,7]", "i32[1] is=[7]" }, .attrs = "{dropout_prob=0.4}" },
    { .in = { "f32[0,8]" }, .attrs = "{dropout_prob=0.5}" },
};

const fl_op fl_op_dropout = {
    .name = "dropout",
    .doc = "Out = X * Mask, each Mask 0 with probability p = dropout_prob; "
           "upscale_in_train divides by 1 - p while training, "
           "downgrade_in_infer multiplies by 1 - p when is_test is true. "
           "fix_seed draws the same Mask in every step. Seed, when given, is "
           "all that Mask depends on",
    .in = { { "X", 0 }, { "Seed", FL_VALUE_SLOT } },
    .out = { { "Out", 0 }, { "Mask", FL_OP_SLOT_BYPRODUCT } },
    .attrs = { { "dropout_prob", FL_ATTR_FLOAT, "0.5" },
               { "is_test", FL_ATTR_BOOL, "false" },
               { "fix_seed", FL_ATTR_BOOL, "false" },
               { "seed", FL_ATTR_INT, "0" },
               { "dropout_implementation", FL_ATTR_STRING, DOWNGRADE } },
    .flags = FL_OP_INPLACE | FL_OP_SLICED,
    .infer = dropout_infer,
    .run = dropout_run,
    .back = dropout_back,
    .back_uses = FL_USES_OUT(MASK),
    .back_infer = dropout_back_infer,
    .cases = dropout_cases,
    .n_cases = FL_LEN(dropout_cases),
};
