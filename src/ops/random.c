/* random.c - tensors of random numbers. A number depends on the seed, the
 * name of the variable, its row (the index along dimension 0) and its column
 * (the place inside the row) alone, so any split gives the same tensor, and
 * so does a table that makes its rows one by one, or a server that keeps some
 * of the rows: `of` is the name of the whole then, and `from_row` the first row
 * that is wanted. */
#include "base/rng.h"
#include "ops/helpers.h"
#include "ops/values.h"

enum { SHAPE_TENSOR, SHAPE_TENSOR_LIST };
enum { OUT };
enum { SHAPE, A, B, SEED, DTYPE, OF, FROM_ROW };

static fl_status random_infer(fl_infer *c)
{
    static const fl_ints_from from = { SHAPE_TENSOR, SHAPE_TENSOR_LIST, SHAPE };
    fl_shape shape;
    fl_dtype dtype;

    FL_TRY(fl_infer_dims(c, &from, 0, &shape));
    FL_TRY(fl_infer_dtype(c, DTYPE, &dtype));
    if (!fl_dtype_is_float(dtype))
        FL_FAIL(FL_ERR_INVAL, "op %s: dtype %s is not float32 or float64",
                c->node->def->name, fl_str_attr(c, DTYPE));
    if (fl_shape_count(&shape, 1, shape.rank) > UINT32_MAX)
        FL_FAIL(FL_ERR_INVAL, "op %s: a row holds more than %u numbers",
                c->node->def->name, UINT32_MAX);
    if (fl_int(c, FROM_ROW) < 0)
        FL_FAIL(FL_ERR_INVAL, "op %s: from_row is %lld, below 0",
                c->node->def->name, (long long)fl_int(c, FROM_ROW));
    fl_infer_dense(c, OUT, dtype, shape.rank, shape.dim);
    return FL_OK;
}

static fl_status uniform_infer(fl_infer *c)
{
    if (!(fl_float(c, A) <= fl_float(c, B)))
        FL_FAIL(FL_ERR_INVAL, "op %s: min %g is above max %g",
                c->node->def->name, fl_float(c, A), fl_float(c, B));
    return random_infer(c);
}

/* Row `row` of the tensor, which is row `from` of the whole. */
static void fill_row(fl_tensor *t, const fl_init *init, size_t row,
                     uint64_t from, size_t n)
{
    if (t->dtype == FL_DTYPE_F32) {
        fl_init_row(init, from, (float *)t->data + row * n, (uint32_t)n);
        return;
    }
    for (size_t col = 0; col < n; col++)
        ((double *)t->data)[row * n + col] = fl_init_value(init, from, col);
}

static uint64_t stream_of(const fl_op_ctx *c)
{
    const char *of = fl_str_attr(c, OF);
    uint64_t seed = (uint64_t)fl_int(c, SEED);

    if (!*of)
        of = c->node->out[OUT].vars[0]->name;
    return fl_rng_stream(seed ? seed : c->seed, of);
}

static fl_status draw(fl_op_ctx *c, fl_init_kind kind)
{
    fl_tensor *t = fl_out_t(c, OUT);
    size_t n = (size_t)fl_shape_count(&t->shape, 1, t->shape.rank);
    fl_span s = fl_op_span(c, n ? (size_t)t->shape.dim[0] : 0);
    fl_init init = { kind, fl_float(c, A), fl_float(c, B), stream_of(c) };
    uint64_t from = (uint64_t)fl_int(c, FROM_ROW);

    for (size_t row = s.lo; row < s.hi; row++)
        fill_row(t, &init, row, from + row, n);
    return FL_OK;
}

static fl_status uniform_run(fl_op_ctx *c)
{
    return draw(c, FL_INIT_UNIFORM);
}

static fl_status gaussian_run(fl_op_ctx *c)
{
    return draw(c, FL_INIT_GAUSSIAN);
}

static fl_status truncated_run(fl_op_ctx *c)
{
    return draw(c, FL_INIT_TRUNCATED);
}

static const fl_op_case random_cases[] = {
    { .attrs = "{shape=[33,7]}" },
    { .attrs = "{shape=[33,7], seed=5, dtype=float64}" },
    { .attrs = "{shape=[5]}" },
    { .attrs = "{shape=[5,3], of=whole, from_row=7}" },
    { .attrs = "{shape=[2,3,4]}" },
    { .attrs = "{shape=[0,8]}" },
    { .attrs = "{shape=[8,0]}" },
    { .in = { "i32[2] is=[5,3]" } },
    { .in = { "", "i32[1] is=[5];i64[1] is=[3]" }, .attrs = "{shape=[-1,3]}" },
};

#define RANDOM(op, text, infer_, run_, a, a_value, b)                          \
    const fl_op fl_op_##op = {                                                 \
        .name = #op,                                                           \
        .doc =                                                                 \
            "Out = " text "; seed 0 is the seed of the program. With `of` "    \
            "and from_row, Out has the rows from that one on of a variable "   \
            "of that name. ShapeTensor or ShapeTensorList give the shape",     \
        .in = { { "ShapeTensor", FL_VALUE_SLOT },                              \
                { "ShapeTensorList", FL_VALUE_LIST } },                        \
        .out = { { "Out", 0 } },                                               \
        .attrs = { { "shape", FL_ATTR_INTS, "[]" },                            \
                   { a, FL_ATTR_FLOAT, a_value },                              \
                   { b, FL_ATTR_FLOAT, "1" },                                  \
                   { "seed", FL_ATTR_INT, "0" },                               \
                   { "dtype", FL_ATTR_STRING, "float32" },                     \
                   { "of", FL_ATTR_STRING, "" },                               \
                   { "from_row", FL_ATTR_INT, "0" } },                         \
        .flags = FL_OP_SLICED,                                                 \
        .infer = infer_,                                                       \
        .run = run_,                                                           \
        .cases = random_cases,                                                 \
        .n_cases = FL_LEN(random_cases),                                       \
    };

RANDOM(uniform_random, "random numbers in [min, max)", uniform_infer,
       uniform_run, "min", "-1", "max")
RANDOM(gaussian_random, "normal random numbers with mean and deviation std",
       random_infer, gaussian_run, "mean", "0", "std")
RANDOM(truncated_gaussian_random,
       "normal random numbers within two deviations std of mean", random_infer,
       truncated_run, "mean", "0", "std")
