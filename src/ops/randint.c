/* randint.c - whole random numbers, and 0 .. n - 1 in random order; others in
 * each step, unless the operator has a seed. */
#include "base/rng.h"
#include "ops/helpers.h"
#include "ops/values.h"

enum { OUT };

static fl_status infer_whole(const fl_infer *c, int attr, fl_dtype *out)
{
    FL_TRY(fl_infer_dtype(c, attr, out));
    if (*out != FL_DTYPE_I32 && *out != FL_DTYPE_I64)
        FL_FAIL(FL_ERR_INVAL, "op %s: dtype %s is not int32 or int64",
                c->node->def->name, fl_str_attr(c, attr));
    return FL_OK;
}

static void put(fl_tensor *t, size_t i, int64_t v)
{
    if (t->dtype == FL_DTYPE_I32)
        ((int32_t *)t->data)[i] = (int32_t)v;
    else
        ((int64_t *)t->data)[i] = v;
}

static uint64_t stream_of(const fl_op_ctx *c, int attr)
{
    int64_t seed = fl_int(c, attr);

    return seed ? fl_rng_stream((uint64_t)seed, "")
                : fl_op_stream(c, 0, FL_STREAM_MOVING);
}

/* --- randint -------------------------------------------------------------- */

enum { SHAPE_TENSOR, SHAPE_TENSOR_LIST };
enum { SHAPE, LOW, HIGH, DTYPE, SEED };

static fl_status randint_infer(fl_infer *c)
{
    static const fl_ints_from from = { SHAPE_TENSOR, SHAPE_TENSOR_LIST, SHAPE };
    fl_shape shape;
    fl_dtype dtype;

    FL_TRY(fl_infer_dims(c, &from, 0, &shape));
    FL_TRY(infer_whole(c, DTYPE, &dtype));
    if (fl_int(c, LOW) >= fl_int(c, HIGH))
        FL_FAIL(FL_ERR_INVAL, "op randint: low %lld is not below high %lld",
                (long long)fl_int(c, LOW), (long long)fl_int(c, HIGH));
    fl_infer_dense(c, OUT, dtype, shape.rank, shape.dim);
    return FL_OK;
}

static fl_status randint_run(fl_op_ctx *c)
{
    fl_tensor *t = fl_out_t(c, OUT);
    fl_span s = fl_op_span(c, (size_t)fl_tensor_numel(t));
    uint64_t stream = stream_of(c, SEED);
    int64_t low = fl_int(c, LOW), n = fl_int(c, HIGH) - low;

    for (size_t i = s.lo; i < s.hi; i++)
        put(t, i, low + (int64_t)(fl_rng_unit(stream, i, 0) * (double)n));
    return FL_OK;
}

static const fl_op_case randint_cases[] = {
    { .attrs = "{shape=[33,7], low=-3, high=5}" },
    { .attrs = "{shape=[5], high=2, dtype=int32, seed=5}" },
    { .attrs = "{shape=[0,8], high=2}" },
    { .in = { "i32[2] is=[5,3]" }, .attrs = "{high=2}" },
    { .in = { "", "i32[1] is=[5];i64[1] is=[3]" },
      .attrs = "{shape=[-1,3], high=2}" },
};

const fl_op fl_op_randint = {
    .name = "randint",
    .doc = "Out = whole random numbers in [low, high), others in each step "
           "unless seed is given. ShapeTensor or ShapeTensorList give the "
           "shape",
    .in = { { "ShapeTensor", FL_VALUE_SLOT },
            { "ShapeTensorList", FL_VALUE_LIST } },
    .out = { { "Out", 0 } },
    .attrs = { { "shape", FL_ATTR_INTS, "[]" },
               { "low", FL_ATTR_INT, "0" },
               { "high", FL_ATTR_INT, "0" },
               { "dtype", FL_ATTR_STRING, "int64" },
               { "seed", FL_ATTR_INT, "0" } },
    .flags = FL_OP_SLICED,
    .infer = randint_infer,
    .run = randint_run,
    .cases = randint_cases,
    .n_cases = FL_LEN(randint_cases),
};

/* --- randperm ------------------------------------------------------------- */

enum { PERM_N, PERM_DTYPE, PERM_SEED };

static fl_status randperm_infer(fl_infer *c)
{
    fl_dtype dtype;

    FL_TRY(infer_whole(c, PERM_DTYPE, &dtype));
    if (fl_int(c, PERM_N) < 0)
        FL_FAIL(FL_ERR_INVAL, "op randperm: n is %lld, below 0",
                (long long)fl_int(c, PERM_N));
    fl_infer_dense(c, OUT, dtype, 1, (int64_t[]){ fl_int(c, PERM_N) });
    return FL_OK;
}

static int64_t at(const fl_tensor *t, size_t i)
{
    return t->dtype == FL_DTYPE_I32 ? ((const int32_t *)t->data)[i]
                                    : ((const int64_t *)t->data)[i];
}

static fl_status randperm_run(fl_op_ctx *c)
{
    fl_tensor *t = fl_out_t(c, OUT);
    uint64_t stream = stream_of(c, PERM_SEED);
    size_t n = (size_t)t->shape.dim[0];

    for (size_t i = 0; i < n; i++)
        put(t, i, (int64_t)i);
    for (size_t i = n; i > 1; i--) {
        size_t k = (size_t)(fl_rng_unit(stream, i, 0) * (double)i);
        int64_t last = at(t, i - 1);

        put(t, i - 1, at(t, k));
        put(t, k, last);
    }
    return FL_OK;
}

static const fl_op_case randperm_cases[] = {
    { .attrs = "{n=33}" },
    { .attrs = "{n=5, dtype=int32, seed=5}" },
    { .attrs = "{n=0}" },
};

const fl_op fl_op_randperm = {
    .name = "randperm",
    .doc = "Out = 0 .. n - 1 in random order, another in each step unless seed "
           "is given",
    .out = { { "Out", 0 } },
    .attrs = { { "n", FL_ATTR_INT, "0" },
               { "dtype", FL_ATTR_STRING, "int64" },
               { "seed", FL_ATTR_INT, "0" } },
    .infer = randperm_infer,
    .run = randperm_run,
    .cases = randperm_cases,
    .n_cases = FL_LEN(randperm_cases),
};
