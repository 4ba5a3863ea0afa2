/* partial_concat.c - the same columns of several matrices, side by side
 * (partial_concat) or added up (partial_sum). */
#include <inttypes.h>

#include "ops/helpers.h"

enum { X };
enum { OUT };
enum { START_INDEX, LENGTH };

/* Columns [from, from + n) of matrices `width` wide. */
typedef struct columns {
    size_t width, from, n;
} columns;

/* Of matrices `width` wide; n is -1 when they are not all inside. */
static int64_t columns_of(const fl_op_node *node, int64_t width, int64_t *from)
{
    int64_t start = fl_attr_int(node, START_INDEX);
    int64_t n = fl_attr_int(node, LENGTH);

    *from = start < 0 ? start + width : start;
    n = n < 0 ? width - *from : n;
    return *from < 0 || *from + n > width ? -1 : n;
}

/* Matrices that are alike, and *n columns of each. */
static fl_status check_parts(const fl_infer *c, int64_t *n)
{
    const fl_tensor *x = fl_infer_in(c, X);
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];
    int64_t from;

    FL_TRY(fl_infer_float(c, X));
    for (int i = 0; i < fl_infer_n_in(c, X); i++) {
        const fl_tensor *t = fl_infer_in_at(c, X, i);

        if (t->dtype != x->dtype || t->shape.rank != 2 ||
            !fl_shape_matches(&t->shape, &x->shape))
            FL_FAIL(FL_ERR_INVAL, "op %s: %s and %s must be [n, k], both alike",
                    c->node->def->name, fl_infer_text_at(c, X, 0, a),
                    fl_infer_text_at(c, X, i, b));
    }
    *n = x->shape.dim[1] < 0 ? -1 : columns_of(c->node, x->shape.dim[1], &from);
    if (*n < 0)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s has no %" PRId64 " columns from %" PRId64 " on",
                c->node->def->name, fl_infer_text_at(c, X, 0, a),
                fl_int(c, LENGTH), fl_int(c, START_INDEX));
    return FL_OK;
}

static fl_status concat_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    int64_t n;

    FL_TRY(check_parts(c, &n));
    fl_infer_dense(c, OUT, x->dtype, 2,
                   (int64_t[]){ x->shape.dim[0], n * fl_infer_n_in(c, X) });
    return FL_OK;
}

static fl_status sum_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    int64_t n;

    FL_TRY(check_parts(c, &n));
    fl_infer_dense(c, OUT, x->dtype, 2, (int64_t[]){ x->shape.dim[0], n });
    return FL_OK;
}

static columns read_columns(const fl_op_ctx *c)
{
    int64_t width = fl_in_t(c, X)->shape.dim[1], from;
    int64_t n = columns_of(c->node, width, &from);

    return (columns){ (size_t)width, (size_t)from, (size_t)n };
}

static fl_span rows_of(const fl_op_ctx *c)
{
    return fl_op_span(c, (size_t)fl_in_t(c, X)->shape.dim[0]);
}

/* Columns of part i stand at `at` of rows `wide` wide. */
#define KERNELS(T, t)                                                          \
    static void take_##t(T *y, size_t wide, const T *x, columns k, fl_span s)  \
    {                                                                          \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            memcpy(y + i * wide, x + i * k.width + k.from, k.n * sizeof(T));   \
    }                                                                          \
    static void add_##t(T *y, const T *x, columns k, fl_span s)                \
    {                                                                          \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            for (size_t j = 0; j < k.n; j++)                                   \
                y[i * k.n + j] += x[i * k.width + k.from + j];                 \
    }                                                                          \
    static void give_##t(T *dx, const T *g, size_t wide, columns k, fl_span s) \
    {                                                                          \
        for (size_t i = s.lo; i < s.hi; i++) {                                 \
            memset(dx + i * k.width, 0, k.width * sizeof(T));                  \
            if (g)                                                             \
                memcpy(dx + i * k.width + k.from, g + i * wide,                \
                       k.n * sizeof(T));                                       \
        }                                                                      \
    }
FL_FLOATS(KERNELS)

/* Where the columns of part i begin in a row of numbers. */
static void *part_at(const void *row, size_t i, size_t n, fl_dtype dtype)
{
    return row ? (char *)row + i * n * fl_dtype_bytes(dtype) : NULL;
}

static fl_status concat_run(fl_op_ctx *c)
{
    columns k = read_columns(c);
    size_t wide = k.n * (size_t)fl_n_in(c, X);

    for (int i = 0; k.n && i < fl_n_in(c, X); i++) {
        const fl_tensor *x = fl_in_at(c, X, i);

        FL_BY_FLOAT(c, X, take,
                    part_at(fl_out(c, OUT), (size_t)i, k.n, x->dtype), wide,
                    x->data, k, rows_of(c));
    }
    return FL_OK;
}

static fl_status sum_run(fl_op_ctx *c)
{
    columns k = read_columns(c);

    if (k.n)
        FL_BY_FLOAT(c, X, take, fl_out(c, OUT), k.n, fl_in(c, X), k,
                    rows_of(c));
    for (int i = 1; k.n && i < fl_n_in(c, X); i++)
        FL_BY_FLOAT(c, X, add, fl_out(c, OUT), fl_in_at(c, X, i)->data, k,
                    rows_of(c));
    return FL_OK;
}

/* The gradient of part i lies i * apart numbers behind that of the first. */
static void give_all(fl_op_ctx *c, size_t wide, size_t apart)
{
    columns k = read_columns(c);

    for (int i = 0; k.width && i < fl_n_in(c, X); i++) {
        fl_tensor *dx = fl_din_at(c, X, i);

        if (dx)
            FL_BY_FLOAT(c, X, give, dx->data,
                        part_at(fl_dout(c, OUT), (size_t)i, apart, dx->dtype),
                        wide, k, rows_of(c));
    }
}

static fl_status concat_back(fl_op_ctx *c)
{
    columns k = read_columns(c);

    give_all(c, k.n * (size_t)fl_n_in(c, X), k.n);
    return FL_OK;
}

static fl_status sum_back(fl_op_ctx *c)
{
    give_all(c, read_columns(c).n, 0);
    return FL_OK;
}

static const fl_op_case partial_cases[] = {
    { .in = { "f32[33,7];f32[33,7];f32[33,7]" },
      .attrs = "{start_index=2, length=3}" },
    { .in = { "f32[5,4];f32[5,4]" }, .attrs = "{start_index=-2}" },
    { .in = { "f32[5,4]" } },
    { .in = { "f32[0,8];f32[0,8]" }, .attrs = "{length=2}" },
};

#define PARTIAL(op, text, infer_, run_, back_)                                 \
    const fl_op fl_op_##op = {                                                 \
        .name = #op,                                                           \
        .doc = "Out = columns start_index (from the end when negative) to "    \
               "start_index + length (-1: to the last) of each X, " text,      \
        .in = { { "X", FL_OP_SLOT_LIST } },                                    \
        .out = { { "Out", 0 } },                                               \
        .attrs = { { "start_index", FL_ATTR_INT, "0" },                        \
                   { "length", FL_ATTR_INT, "-1" } },                          \
        .flags = FL_OP_SLICED,                                                 \
        .infer = infer_,                                                       \
        .run = run_,                                                           \
        .back = back_,                                                         \
        .cases = partial_cases,                                                \
        .n_cases = FL_LEN(partial_cases),                                      \
    };

PARTIAL(partial_concat, "side by side", concat_infer, concat_run, concat_back)
PARTIAL(partial_sum, "added up", sum_infer, sum_run, sum_back)
