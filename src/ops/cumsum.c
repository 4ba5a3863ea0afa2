/* cumsum.c - sums of all numbers so far along an axis.
 *
 * exclusive leaves out the number itself, reverse begins at the end. The
 * gradient is the same sum, begun at the other end.
 */
#include <inttypes.h>

#include "ops/helpers.h"

enum { X };
enum { OUT };
enum { AXIS, EXCLUSIVE, REVERSE };

/* Lines of n numbers, `apart` from each other; `apart` lines lie side by
   side. */
typedef struct lines {
    size_t n, apart;
    bool exclusive, backwards;
} lines;

static fl_status cumsum_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_not_half(c, X));
    if (fl_shape_axis(&x->shape, fl_int(c, AXIS)) < 0)
        FL_FAIL(FL_ERR_INVAL, "op cumsum: %s has no axis %" PRId64,
                fl_infer_text(c, X, buf), fl_int(c, AXIS));
    if (!fl_dtype_is_float(x->dtype) && x->dtype != FL_DTYPE_I32 &&
        x->dtype != FL_DTYPE_I64)
        FL_FAIL(FL_ERR_TYPE, "op cumsum: %s must be f32, f64, i32 or i64",
                fl_infer_text(c, X, buf));
    fl_tensor_like(fl_infer_out(c, OUT), x);
    return FL_OK;
}

/* Integers wrap around, so they are added as unsigned numbers. */
#define KERNELS(T, t, SUM)                                                     \
    static void sum_##t(T *y, const T *x, size_t line, lines k)                \
    {                                                                          \
        size_t first = line / k.apart * k.n * k.apart + line % k.apart;        \
        SUM so_far = 0;                                                        \
                                                                               \
        for (size_t i = 0; i < k.n; i++) {                                     \
            size_t at = first + (k.backwards ? k.n - 1 - i : i) * k.apart;     \
            SUM with = so_far + (SUM)x[at];                                    \
                                                                               \
            y[at] = (T)(k.exclusive ? so_far : with);                          \
            so_far = with;                                                     \
        }                                                                      \
    }
KERNELS(float, f32, float)
KERNELS(double, f64, double)
KERNELS(int32_t, i32, uint32_t)
KERNELS(int64_t, i64, uint64_t)

static void sum_line(fl_dtype dtype, void *y, const void *x, size_t line,
                     lines k)
{
    if (dtype == FL_DTYPE_I32)
        sum_i32(y, x, line, k);
    else if (dtype == FL_DTYPE_I64)
        sum_i64(y, x, line, k);
    else
        FL_BY_DTYPE(dtype, sum, y, x, line, k);
}

static void sum_all(const fl_op_ctx *c, fl_tensor *to, const fl_tensor *from,
                    bool backwards)
{
    const fl_shape *s = &to->shape;
    int axis = fl_shape_axis(s, fl_int(c, AXIS));
    lines k = { (size_t)s->dim[axis],
                (size_t)fl_shape_count(s, axis + 1, s->rank),
                fl_bool(c, EXCLUSIVE), backwards };
    fl_span mine = fl_op_span(c, (size_t)fl_shape_count(s, 0, axis) * k.apart);

    for (size_t line = mine.lo; line < mine.hi; line++)
        sum_line(to->dtype, to->data, from->data, line, k);
}

static fl_status cumsum_run(fl_op_ctx *c)
{
    sum_all(c, fl_out_t(c, OUT), fl_in_t(c, X), fl_bool(c, REVERSE));
    return FL_OK;
}

static fl_status cumsum_back(fl_op_ctx *c)
{
    if (fl_din_t(c, X) && fl_dout_t(c, OUT))
        sum_all(c, fl_din_t(c, X), fl_dout_t(c, OUT), !fl_bool(c, REVERSE));
    else
        fl_din_zero(c, X);
    return FL_OK;
}

static const fl_op_case cumsum_cases[] = {
    { .in = { "f32[33,7]" } },
    { .in = { "f32[33,7]" }, .attrs = "{axis=0, exclusive=true}" },
    { .in = { "f32[5,3,4]" }, .attrs = "{axis=1, reverse=true}" },
    { .in = { "f32[9]" }, .attrs = "{axis=0, exclusive=true, reverse=true}" },
    { .in = { "i64[5,4] below=9" }, .attrs = "{axis=1}" },
    { .in = { "i32[5,4] below=9" }, .attrs = "{axis=0}" },
    { .in = { "f32[0,8]" } },
};

const fl_op fl_op_cumsum = {
    .name = "cumsum",
    .doc = "Out = the sum of the numbers of X so far along axis; exclusive "
           "leaves out the number itself, reverse begins at the end. Integers "
           "wrap around",
    .in = { { "X", 0 } },
    .out = { { "Out", 0 } },
    .attrs = { { "axis", FL_ATTR_INT, "-1" },
               { "exclusive", FL_ATTR_BOOL, "false" },
               { "reverse", FL_ATTR_BOOL, "false" } },
    .flags = FL_OP_SLICED,
    .infer = cumsum_infer,
    .run = cumsum_run,
    .back = cumsum_back,
    .cases = cumsum_cases,
    .n_cases = FL_LEN(cumsum_cases),
};
