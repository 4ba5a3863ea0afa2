/* expand.c - a tensor repeated along its axes: a number of times (expand), or
 * until it is as large as another one (expand_as).
 *
 * Shares take rows of X, a row being its last axis: each is written to all of
 * its places, or gets the sum of what comes from them, in ascending order.
 */
#include <inttypes.h>

#include "ops/helpers.h"
#include "ops/values.h"

enum { X, EXPAND_TIMES, EXPAND_TIMES_TENSOR }; /* expand */
enum { TARGET = 1 };                           /* expand_as */
enum { OUT };
enum { TIMES };

static const fl_ints_from times_from = { EXPAND_TIMES, EXPAND_TIMES_TENSOR,
                                         TIMES };

static void infer_out(const fl_infer *c, const fl_shape *shape)
{
    const fl_tensor *x = fl_infer_in(c, X);

    fl_infer_dense(c, OUT, x->dtype, shape->rank, shape->dim);
}

/* Rows that stay where they are keep their sequences. */
static void keep_sequences(const fl_infer *c)
{
    fl_tensor *out = fl_infer_out(c, OUT);
    fl_shape shape = out->shape;

    fl_tensor_like(out, fl_infer_in(c, X));
    out->shape = shape;
}

static fl_status expand_infer(fl_infer *c)
{
    fl_shape times, shape = fl_infer_in(c, X)->shape;
    char buf[FL_SLOT_TEXT_MAX];
    fl_ints v;

    FL_TRY(fl_infer_dims(c, &times_from, 0, &times));
    FL_TRY(fl_infer_ints(c, &times_from, &v));
    if (times.rank != shape.rank)
        FL_FAIL(FL_ERR_INVAL,
                "op expand: %s has %d axes, but expand_times has %d entries",
                fl_infer_text(c, X, buf), shape.rank, times.rank);
    for (int i = 0; i < shape.rank; i++) {
        bool known = shape.dim[i] >= 0 && v.known[i];

        if (known &&
            __builtin_mul_overflow(shape.dim[i], v.at[i], &shape.dim[i]))
            FL_FAIL(FL_ERR_INVAL,
                    "op expand: %s times %" PRId64 " at axis %d is too large",
                    fl_infer_text(c, X, buf), v.at[i], i);
        if (!known)
            shape.dim[i] = -1;
    }
    infer_out(c, &shape);
    if (shape.rank && v.known[0] && v.at[0] == 1)
        keep_sequences(c);
    return FL_OK;
}

static fl_status expand_as_infer(fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    const fl_shape *to = &fl_infer_in(c, TARGET)->shape;
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];
    bool fits = x->rank == to->rank;

    for (int i = 0; i < x->rank && fits; i++)
        fits = x->dim[i] < 0 || to->dim[i] < 0 ||
               (x->dim[i] ? to->dim[i] % x->dim[i] == 0 : to->dim[i] == 0);
    if (!fits)
        FL_FAIL(FL_ERR_INVAL,
                "op expand_as: %s repeated does not give the shape of %s",
                fl_infer_text(c, X, a), fl_infer_text(c, TARGET, b));
    infer_out(c, to);
    return FL_OK;
}

/* How a row of X lies in Out. */
typedef struct layout {
    int rank;
    size_t dim[FL_RANK_MAX], times[FL_RANK_MAX];
    size_t stride[FL_RANK_MAX]; /* in Out, of one step and of one repeat */
    size_t repeat[FL_RANK_MAX];
    size_t n_repeats;
} layout;

static layout layout_of(const fl_shape *x, const fl_shape *out)
{
    layout l = { .rank = x->rank, .n_repeats = 1 };

    for (int i = 0; i < x->rank; i++) {
        l.dim[i] = (size_t)x->dim[i];
        l.times[i] = l.dim[i] ? (size_t)out->dim[i] / l.dim[i] : 0;
        l.stride[i] = (size_t)fl_shape_count(out, i + 1, out->rank);
        l.repeat[i] = l.stride[i] * l.dim[i];
        l.n_repeats *= l.times[i];
    }
    return l;
}

/* Number `at` written in the digits dim[0..n), each worth `step`. */
static size_t place(size_t at, const size_t *dim, const size_t *step, int n)
{
    size_t sum = 0;

    for (int i = n - 1; i >= 0; i--) {
        sum += at % dim[i] * step[i];
        at /= dim[i];
    }
    return sum;
}

static void write_rows(const fl_tensor *x, fl_tensor *out, fl_span rows)
{
    layout l = layout_of(&x->shape, &out->shape);
    size_t size = fl_dtype_bytes(x->dtype), n = l.dim[l.rank - 1];

    for (size_t r = rows.lo; r < rows.hi; r++) {
        size_t at = place(r, l.dim, l.stride, l.rank - 1);

        for (size_t k = 0; k < l.n_repeats; k++)
            memcpy((char *)out->data +
                       (at + place(k, l.times, l.repeat, l.rank)) * size,
                   (const char *)x->data + r * n * size, n * size);
    }
}

#define KERNELS(T, t)                                                          \
    static void add_rows_##t(fl_tensor *dx, const fl_tensor *g, fl_span rows)  \
    {                                                                          \
        layout l = layout_of(&dx->shape, &g->shape);                           \
        size_t n = l.dim[l.rank - 1];                                          \
                                                                               \
        for (size_t r = rows.lo; r < rows.hi; r++) {                           \
            const T *from =                                                    \
                (const T *)g->data + place(r, l.dim, l.stride, l.rank - 1);    \
            T *to = (T *)dx->data + r * n;                                     \
                                                                               \
            memset(to, 0, n * sizeof(T));                                      \
            for (size_t k = 0; k < l.n_repeats; k++) {                         \
                const T *row = from + place(k, l.times, l.repeat, l.rank);     \
                                                                               \
                for (size_t i = 0; i < n; i++)                                 \
                    to[i] += row[i];                                           \
            }                                                                  \
        }                                                                      \
    }
FL_FLOATS(KERNELS)

static fl_span rows_of(const fl_op_ctx *c, const fl_shape *x)
{
    if (fl_shape_numel(x) == 0)
        return (fl_span){ 0, 0 };
    return fl_op_span(c, (size_t)fl_shape_count(x, 0, x->rank - 1));
}

static fl_status expand_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X);

    write_rows(x, fl_out_t(c, OUT), rows_of(c, &x->shape));
    return FL_OK;
}

static fl_status expand_back(fl_op_ctx *c)
{
    fl_tensor *dx = fl_din_t(c, X);
    const fl_tensor *g = fl_dout_t(c, OUT);

    if (!dx)
        return FL_OK;
    if (g)
        FL_BY_FLOAT(c, X, add_rows, dx, g, rows_of(c, &dx->shape));
    else
        fl_share_zero(c, dx);
    return FL_OK;
}

static const fl_op_case expand_cases[] = {
    { .in = { "f32[33,7]" }, .attrs = "{expand_times=[2,3]}" },
    { .in = { "f32[5,1]" }, .attrs = "{expand_times=[1,4]}" },
    { .in = { "f32[5,2,3]" }, .attrs = "{expand_times=[1,3,2]}" },
    { .in = { "f32[5,2] lod=[0,2,5]" }, .attrs = "{expand_times=[1,3]}" },
    { .in = { "i64[5,2] below=9" }, .attrs = "{expand_times=[2,1]}" },
    { .in = { "f32[5,2]", "i32[2] is=[2,3]" } },
    { .in = { "f32[5,2]", "", "i32[1] is=[2];i64[1] is=[3]" },
      .attrs = "{expand_times=[-1,3]}" },
    { .in = { "f32[0,8]" }, .attrs = "{expand_times=[2,3]}" },
    { .in = { "f32[3,8]" }, .attrs = "{expand_times=[0,1]}" },
};

static const fl_op_case expand_as_cases[] = {
    { .in = { "f32[33,7]", "f32[66,7]" } },
    { .in = { "f32[5,1]", "f32[5,4]" } },
    { .in = { "i64[5,2] below=9", "f32[5,4]" } },
    { .in = { "f32[0,8]", "f32[0,16]" } },
};

const fl_op fl_op_expand = {
    .name = "expand",
    .doc = "Out = X repeated expand_times[i] times along each axis i; "
           "ExpandTimes or the list expand_times_tensor give the times instead",
    .in = { { "X", 0 },
            { "ExpandTimes", FL_VALUE_SLOT },
            { "expand_times_tensor", FL_VALUE_LIST } },
    .out = { { "Out", 0 } },
    .attrs = { { "expand_times", FL_ATTR_INTS, "[]" } },
    .flags = FL_OP_SLICED,
    .infer = expand_infer,
    .run = expand_run,
    .back = expand_back,
    .cases = expand_cases,
    .n_cases = FL_LEN(expand_cases),
};

const fl_op fl_op_expand_as = {
    .name = "expand_as",
    .doc = "Out = X repeated along each axis until it has the shape of "
           "target_tensor",
    .in = { { "X", 0 }, { "target_tensor", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .flags = FL_OP_SLICED,
    .infer = expand_as_infer,
    .run = expand_run,
    .back = expand_back,
    .cases = expand_as_cases,
    .n_cases = FL_LEN(expand_as_cases),
};
