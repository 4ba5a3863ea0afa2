/* cast.c - the same numbers in another type. */
#include <math.h>

#include "ops/helpers.h"

enum { X };
enum { OUT };
enum { OUT_DTYPE, IN_DTYPE };

/* The numbers that a float may have to become an integer: lo <= v < hi after
   the fraction is cut off. */
typedef struct range {
    double lo, hi;
} range;

static const range ranges[] = {
    [FL_DTYPE_I32] = { -0x1p31, 0x1p31 }, [FL_DTYPE_I64] = { -0x1p63, 0x1p63 },
    [FL_DTYPE_U64] = { 0, 0x1p64 },       [FL_DTYPE_U8] = { 0, 0x1p8 },
    [FL_DTYPE_I8] = { -0x1p7, 0x1p7 },    [FL_DTYPE_I16] = { -0x1p15, 0x1p15 },
};

static bool has_fractions(fl_dtype d)
{
    return fl_dtype_is_float(d) || d == FL_DTYPE_F16;
}

static double number_at(const fl_tensor *x, size_t i)
{
    if (x->dtype == FL_DTYPE_F16)
        return (double)fl_half_value(((const uint16_t *)x->data)[i]);
    return fl_float_at(x, (int64_t)i);
}

/* NaN fails both comparisons. */
static fl_status check_range(const fl_tensor *x, fl_dtype to, fl_span s)
{
    for (size_t i = s.lo; i < s.hi; i++) {
        double v = trunc(number_at(x, i));

        if (!(v >= ranges[to].lo && v < ranges[to].hi))
            FL_FAIL(FL_ERR_NUMERIC, "X: %g at place %zu does not fit in %s",
                    number_at(x, i), i, fl_dtype_text(to));
    }
    return FL_OK;
}

#define FROM(dtype, S, value)                                                  \
    case FL_DTYPE_##dtype:                                                     \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            y[i] = TO_TYPE(value(((const S *)x->data)[i]));                    \
        break;
#define AS_IT_IS(v) (v)

/* One function per type to convert to. */
#define TO(name, value, T, text, long_text)                                    \
    static void to_##name(void *out, const fl_tensor *x, fl_span s)            \
    {                                                                          \
        typedef T type;                                                        \
        type *y = out;                                                         \
                                                                               \
        switch (x->dtype) {                                                    \
            FROM(F32, float, AS_IT_IS)                                         \
            FROM(F64, double, AS_IT_IS)                                        \
            FROM(I32, int32_t, AS_IT_IS)                                       \
            FROM(I64, int64_t, AS_IT_IS)                                       \
            FROM(U64, uint64_t, AS_IT_IS)                                      \
            FROM(U8, uint8_t, AS_IT_IS)                                        \
            FROM(BOOL, bool, AS_IT_IS)                                         \
            FROM(I8, int8_t, AS_IT_IS)                                         \
            FROM(I16, int16_t, AS_IT_IS)                                       \
            FROM(F16, uint16_t, fl_half_value)                                 \
        }                                                                      \
    }
#define TO_TYPE(v) (type)(v)
FL_DTYPE_PLAIN_MAP(TO)
#undef TO_TYPE
#define TO_TYPE(v) fl_half_of((double)(v))
TO(F16, 7, uint16_t, "f16", "float16")
#undef TO_TYPE
#undef TO

static void convert(fl_tensor *to, const fl_tensor *from, fl_span s)
{
    switch (to->dtype) {
#define TO(name, value, T, text, long_text)                                    \
    case FL_DTYPE_##name:                                                      \
        to_##name(to->data, from, s);                                          \
        break;
        FL_DTYPE_MAP(TO)
#undef TO
    }
}

static fl_status cast_infer(fl_infer *c)
{
    fl_tensor *out = fl_infer_out(c, OUT);
    const fl_tensor *x = fl_infer_in(c, X);
    char buf[FL_SLOT_TEXT_MAX];
    fl_dtype in_dtype, out_dtype;

    FL_TRY(fl_infer_dtype(c, OUT_DTYPE, &out_dtype));
    if (*fl_str_attr(c, IN_DTYPE)) {
        FL_TRY(fl_infer_dtype(c, IN_DTYPE, &in_dtype));
        if (in_dtype != x->dtype)
            FL_FAIL(FL_ERR_INVAL, "op cast: %s is not of in_dtype %s",
                    fl_infer_text(c, X, buf), fl_str_attr(c, IN_DTYPE));
    }
    fl_tensor_like(out, x);
    out->dtype = out_dtype;
    return FL_OK;
}

static fl_status cast_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X);
    fl_tensor *out = fl_out_t(c, OUT);
    fl_span s = fl_op_span(c, (size_t)fl_tensor_numel(x));

    if (has_fractions(x->dtype) && !has_fractions(out->dtype) &&
        out->dtype != FL_DTYPE_BOOL)
        FL_TRY(check_range(x, out->dtype, s));
    convert(out, x, s);
    return FL_OK;
}

/* What went through an integer has the gradient 0. */
static fl_status cast_back(fl_op_ctx *c)
{
    fl_tensor *dx = fl_din_t(c, X);
    const fl_tensor *g = fl_dout_t(c, OUT);

    if (!dx)
        return FL_OK;
    if (g && has_fractions(g->dtype) && has_fractions(dx->dtype))
        convert(dx, g, fl_op_span(c, (size_t)fl_tensor_numel(dx)));
    else
        fl_share_zero(c, dx);
    return FL_OK;
}

static const fl_op_case cast_cases[] = {
    { .in = { "f32[33,7]" }, .attrs = "{out_dtype=float64}" },
    { .in = { "f32[33,7]" }, .attrs = "{out_dtype=int64}" },
    { .in = { "f32[33,7]" }, .attrs = "{out_dtype=i32}" },
    { .in = { "i64[33,1] below=1000" }, .attrs = "{out_dtype=float32}" },
    { .in = { "i64[7,1] lod=[0,2,2,7] below=10" },
      .attrs = "{in_dtype=int64, out_dtype=u64}" },
    { .in = { "f32[33,7]" }, .attrs = "{out_dtype=bool}" },
    { .in = { "i64[33,1] below=3" }, .attrs = "{out_dtype=bool}" },
    { .in = { "bool[33,7]" }, .attrs = "{out_dtype=float32}" },
    { .in = { "bool[33,7]" }, .attrs = "{in_dtype=bool, out_dtype=i64}" },
    { .in = { "i64[33,1] below=100" }, .attrs = "{out_dtype=int8}" },
    { .in = { "i16[33,7] below=100" }, .attrs = "{out_dtype=float32}" },
    { .in = { "i8[33,7] below=100" }, .attrs = "{out_dtype=f16}" },
    { .in = { "f32[0,8]" }, .attrs = "{out_dtype=float64}" },
};

const fl_op fl_op_cast = {
    .name = "cast",
    .doc = "Out = X as out_dtype; floats lose their fraction on the way to an "
           "integer and must fit in it, integers wrap around; a bool is "
           "whether a number is not 0, and 0 or 1 as a number; in_dtype, when "
           "given, must be the type of X",
    .in = { { "X", 0 } },
    .out = { { "Out", 0 } },
    .attrs = { { "out_dtype", FL_ATTR_STRING, "float32" },
               { "in_dtype", FL_ATTR_STRING, "" } },
    .flags = FL_OP_SLICED,
    .infer = cast_infer,
    .run = cast_run,
    .back = cast_back,
    .cases = cast_cases,
    .n_cases = FL_LEN(cast_cases),
};
