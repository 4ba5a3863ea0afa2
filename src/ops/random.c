/* random.c - tensors of random numbers. A number depends on the seed of the
 * program and the name of the variable, or on a seed of the operator's own, on
 * its row (the index along dimension 0) and its column (the place inside the
 * row) alone, so any split gives the same tensor, and so does a table that makes
 * its rows one by one, or a server that keeps some of the rows: `of` is the name
 * of the whole then, and `from_row` the first row that is wanted. */
#include "base/rng.h"
#include "ops/helpers.h"
#include "ops/values.h"

enum { SHAPE_TENSOR, SHAPE_TENSOR_LIST };
enum { INPUT }; /* ..._batch_size_like */
enum { OUT };
enum { SHAPE, A, B, SEED, DTYPE, OWN };
enum { OF = OWN, FROM_ROW, DIAG_NUM, DIAG_STEP, DIAG_VAL };
enum { INPUT_DIM_IDX = OWN, OUTPUT_DIM_IDX }; /* ..._batch_size_like */

static fl_status infer_numbers(fl_infer *c, const fl_shape *shape)
{
    fl_dtype dtype;

    FL_TRY(fl_infer_dtype(c, DTYPE, &dtype));
    if (!fl_dtype_is_float(dtype))
        FL_FAIL(FL_ERR_INVAL, "op %s: dtype %s is not float32 or float64",
                c->node->def->name, fl_str_attr(c, DTYPE));
    if (fl_shape_count(shape, 1, shape->rank) > UINT32_MAX)
        FL_FAIL(FL_ERR_INVAL, "op %s: a row holds more than %u numbers",
                c->node->def->name, UINT32_MAX);
    fl_infer_dense(c, OUT, dtype, shape->rank, shape->dim);
    return FL_OK;
}

static fl_status random_infer(fl_infer *c)
{
    static const fl_ints_from from = { SHAPE_TENSOR, SHAPE_TENSOR_LIST, SHAPE };
    fl_shape shape;

    FL_TRY(fl_infer_dims(c, &from, 0, &shape));
    if (fl_int(c, FROM_ROW) < 0)
        FL_FAIL(FL_ERR_INVAL, "op %s: from_row is %lld, below 0",
                c->node->def->name, (long long)fl_int(c, FROM_ROW));
    return infer_numbers(c, &shape);
}

static fl_status like_infer(fl_infer *c)
{
    static const fl_batch_like like = { INPUT, SHAPE, INPUT_DIM_IDX,
                                        OUTPUT_DIM_IDX };
    fl_shape shape;

    FL_TRY(fl_infer_batch_like(c, &like, &shape));
    return infer_numbers(c, &shape);
}

static fl_status check_range(const fl_infer *c)
{
    if (!(fl_float(c, A) <= fl_float(c, B)))
        FL_FAIL(FL_ERR_INVAL, "op %s: min %g is above max %g",
                c->node->def->name, fl_float(c, A), fl_float(c, B));
    return FL_OK;
}

/* Places of a diagonal are counted through all rows: one is diag_step + 1
   behind the other. Rows of another variable have a part of them. */
static fl_status check_diagonal(const fl_infer *c)
{
    int64_t n = fl_int(c, DIAG_NUM), step = fl_int(c, DIAG_STEP), size;

    if (n < 0 || step < 0 || n > INT32_MAX || step > INT32_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: diag_num=%lld and diag_step=%lld are not in 0..%d",
                c->node->def->name, (long long)n, (long long)step, INT32_MAX);
    size = fl_shape_numel(&fl_infer_out(c, OUT)->shape);
    if (n && !*fl_str_attr(c, OF) && size >= 0 && (n - 1) * (step + 1) >= size)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %lld numbers have no place for diag_num=%lld, "
                "diag_step=%lld",
                c->node->def->name, (long long)size, (long long)n,
                (long long)step);
    return FL_OK;
}

static fl_status uniform_infer(fl_infer *c)
{
    FL_TRY(check_range(c));
    FL_TRY(random_infer(c));
    return check_diagonal(c);
}

static fl_status uniform_like_infer(fl_infer *c)
{
    FL_TRY(check_range(c));
    return like_infer(c);
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

    if (seed)
        return fl_rng_stream(seed, "");
    if (!*of)
        of = c->node->out[OUT].vars[0]->name;
    return fl_rng_stream(c->seed, of);
}

static fl_init init_of(const fl_op_ctx *c, fl_init_kind kind, uint64_t stream)
{
    return (fl_init){ kind, fl_float(c, A), fl_float(c, B), stream };
}

/* This call's rows of Out, which begins with row `from` of the whole. */
static void draw_rows(fl_op_ctx *c, const fl_init *init, uint64_t from)
{
    fl_tensor *t = fl_out_t(c, OUT);
    size_t n = (size_t)fl_shape_count(&t->shape, 1, t->shape.rank);
    fl_span s = fl_op_span(c, n ? (size_t)t->shape.dim[0] : 0);

    for (size_t row = s.lo; row < s.hi; row++)
        fill_row(t, init, row, from + row, n);
}

static fl_status draw(fl_op_ctx *c, fl_init_kind kind)
{
    fl_init init = init_of(c, kind, stream_of(c));

    draw_rows(c, &init, (uint64_t)fl_int(c, FROM_ROW));
    return FL_OK;
}

/* As many rows as there are in a batch: without a seed, others in each step. */
static fl_status draw_like(fl_op_ctx *c, fl_init_kind kind)
{
    int64_t seed = fl_int(c, SEED);
    fl_init init = init_of(c, kind,
                           seed ? fl_rng_stream((uint64_t)seed, "")
                                : fl_op_stream(c, 0, FL_STREAM_MOVING));

    draw_rows(c, &init, 0);
    return FL_OK;
}

static void put(fl_tensor *t, size_t i, double v)
{
    if (t->dtype == FL_DTYPE_F32)
        ((float *)t->data)[i] = (float)v;
    else
        ((double *)t->data)[i] = v;
}

/* The places of the diagonal in this call's rows. */
static void draw_diagonal(fl_op_ctx *c)
{
    fl_tensor *t = fl_out_t(c, OUT);
    size_t n = (size_t)fl_shape_count(&t->shape, 1, t->shape.rank);
    size_t apart = (size_t)fl_int(c, DIAG_STEP) + 1;
    size_t first = (size_t)fl_int(c, FROM_ROW) * n;
    fl_span s = fl_op_span(c, n ? (size_t)t->shape.dim[0] : 0);

    for (size_t i = 0; i < (size_t)fl_int(c, DIAG_NUM); i++)
        if (i * apart >= first + s.lo * n && i * apart < first + s.hi * n)
            put(t, i * apart - first, fl_float(c, DIAG_VAL));
}

static fl_status uniform_run(fl_op_ctx *c)
{
    FL_TRY(draw(c, FL_INIT_UNIFORM));
    draw_diagonal(c);
    return FL_OK;
}

static fl_status uniform_like_run(fl_op_ctx *c)
{
    return draw_like(c, FL_INIT_UNIFORM);
}

static fl_status gaussian_like_run(fl_op_ctx *c)
{
    return draw_like(c, FL_INIT_GAUSSIAN);
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

static const fl_op_case like_cases[] = {
    { .in = { "f32[33,7]" }, .attrs = "{shape=[-1,4]}" },
    { .in = { "f64[3,5]" },
      .attrs = "{shape=[2,-1], input_dim_idx=1, output_dim_idx=1, "
               "dtype=float64, seed=5}" },
    { .in = { "f32[7,3] lod=[0,2,2,7]" }, .attrs = "{shape=[-1,2]}" },
    { .in = { "f32[0,8]" }, .attrs = "{shape=[-1,4]}" },
};

#define NUMBER_ATTRS(a, a_value, b)                                            \
    { "shape", FL_ATTR_INTS, "[]" }, { a, FL_ATTR_FLOAT, a_value },            \
        { b, FL_ATTR_FLOAT, "1" }, { "seed", FL_ATTR_INT, "0" },               \
    {                                                                          \
        "dtype", FL_ATTR_STRING, "float32"                                     \
    }

#define RANDOM(op, text, infer_, run_, ...)                                    \
    const fl_op fl_op_##op = {                                                 \
        .name = #op,                                                           \
        .doc =                                                                 \
            "Out = " text "; seed 0 is the seed of the program, and other "    \
            "numbers for each variable. With `of` "                            \
            "and from_row, Out has the rows from that one on of a variable "   \
            "of that name. ShapeTensor or ShapeTensorList give the shape",     \
        .in = { { "ShapeTensor", FL_VALUE_SLOT },                              \
                { "ShapeTensorList", FL_VALUE_LIST } },                        \
        .out = { { "Out", 0 } },                                               \
        .attrs = { __VA_ARGS__ },                                              \
        .flags = FL_OP_SLICED,                                                 \
        .infer = infer_,                                                       \
        .run = run_,                                                           \
        .cases = random_cases,                                                 \
        .n_cases = FL_LEN(random_cases),                                       \
    };

#define OF_ROWS                                                                \
    { "of", FL_ATTR_STRING, "" },                                              \
    {                                                                          \
        "from_row", FL_ATTR_INT, "0"                                           \
    }

RANDOM(uniform_random,
       "random numbers in [min, max), and diag_val at diag_num places that are "
       "diag_step + 1 apart",
       uniform_infer, uniform_run, NUMBER_ATTRS("min", "-1", "max"), OF_ROWS,
       { "diag_num", FL_ATTR_INT, "0" }, { "diag_step", FL_ATTR_INT, "0" },
       { "diag_val", FL_ATTR_FLOAT, "1" })
RANDOM(gaussian_random, "normal random numbers with mean and deviation std",
       random_infer, gaussian_run, NUMBER_ATTRS("mean", "0", "std"), OF_ROWS)
RANDOM(truncated_gaussian_random,
       "normal random numbers within two deviations std of mean", random_infer,
       truncated_run, NUMBER_ATTRS("mean", "0", "std"), OF_ROWS)

#define RANDOM_LIKE(op, text, infer_, run_, ...)                               \
    const fl_op fl_op_##op = {                                                 \
        .name = #op,                                                           \
        .doc = "Out = " text ", others in each step unless seed is given; "    \
               "dimension output_dim_idx of the shape is dimension "           \
               "input_dim_idx of Input",                                       \
        .in = { { "Input", FL_SLOT_NO_GRAD } },                                \
        .out = { { "Out", 0 } },                                               \
        .attrs = { __VA_ARGS__,                                                \
                   { "input_dim_idx", FL_ATTR_INT, "0" },                      \
                   { "output_dim_idx", FL_ATTR_INT, "0" } },                   \
        .flags = FL_OP_SLICED,                                                 \
        .infer = infer_,                                                       \
        .run = run_,                                                           \
        .cases = like_cases,                                                   \
        .n_cases = FL_LEN(like_cases),                                         \
    };

RANDOM_LIKE(uniform_random_batch_size_like, "random numbers in [min, max)",
            uniform_like_infer, uniform_like_run,
            NUMBER_ATTRS("min", "-1", "max"))
RANDOM_LIKE(gaussian_random_batch_size_like,
            "normal random numbers with mean and deviation std", like_infer,
            gaussian_like_run, NUMBER_ATTRS("mean", "0", "std"))
