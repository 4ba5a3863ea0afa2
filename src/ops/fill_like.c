/* fill_like.c - one number everywhere, in the shape of another tensor:
 * fill_any_like, fill_zeros_like and fill_zeros_like2. */
#include <math.h>

#include "ops/helpers.h"

enum { X };
enum { OUT };
enum { VALUE, DTYPE }; /* of fill_any_like */
enum { ZEROS_DTYPE };  /* of fill_zeros_like2 */

static fl_status fill_any_like_infer(fl_infer *c)
{
    fl_dtype dtype = fl_infer_in(c, X)->dtype;
    double value = fl_float(c, VALUE);

    if (*fl_str_attr(c, DTYPE))
        FL_TRY(fl_infer_dtype(c, DTYPE, &dtype));
    if (!fl_dtype_is_float(dtype) && dtype != FL_DTYPE_F16 &&
        !(fabs(value) <= 0x1p53))
        FL_FAIL(FL_ERR_INVAL, "op fill_any_like: %g is no number of type %s",
                value, fl_dtype_text(dtype));
    fl_tensor_like(fl_infer_out(c, OUT), fl_infer_in(c, X));
    fl_infer_out(c, OUT)->dtype = dtype;
    return FL_OK;
}

static void fill(fl_tensor *t, double value, fl_span s)
{
    switch (t->dtype) {
#define FILL(name, number, T, text, long_text)                                 \
    case FL_DTYPE_##name:                                                      \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            ((T *)t->data)[i] = (T)value;                                      \
        break;
        FL_DTYPE_PLAIN_MAP(FILL)
#undef FILL
    case FL_DTYPE_F16:
        for (size_t i = s.lo; i < s.hi; i++)
            ((uint16_t *)t->data)[i] = fl_half_of(value);
        break;
    }
}

static fl_status fill_any_like_run(fl_op_ctx *c)
{
    fl_tensor *out = fl_out_t(c, OUT);

    fill(out, fl_float(c, VALUE), fl_op_span(c, (size_t)fl_tensor_numel(out)));
    return FL_OK;
}

static fl_status fill_zeros_like_infer(fl_infer *c)
{
    fl_tensor_like(fl_infer_out(c, OUT), fl_infer_in(c, X));
    return FL_OK;
}

static fl_status fill_zeros_like2_infer(fl_infer *c)
{
    fl_tensor *out = fl_infer_out(c, OUT);

    fl_tensor_like(out, fl_infer_in(c, X));
    if (*fl_str_attr(c, ZEROS_DTYPE))
        FL_TRY(fl_infer_dtype(c, ZEROS_DTYPE, &out->dtype));
    return FL_OK;
}

static fl_status fill_zeros_like_run(fl_op_ctx *c)
{
    fl_share_zero(c, fl_out_t(c, OUT));
    return FL_OK;
}

static const fl_op_case fill_zeros_like_cases[] = {
    { .in = { "f32[33,7]" } },
    { .in = { "i64[5,1] lod=[0,2,5]" } },
    { .in = { "f32[0,8]" } },
};

static const fl_op_case fill_zeros_like2_cases[] = {
    { .in = { "f32[33,7]" }, .attrs = "{dtype=int64}" },
    { .in = { "i64[5,1] lod=[0,2,5]" } },
    { .in = { "f32[0,8]" } },
};

static const fl_op_case fill_any_like_cases[] = {
    { .in = { "f32[33,7]" }, .attrs = "{value=0.37}" },
    { .in = { "f32[3,7]" }, .attrs = "{value=-2, dtype=int32}" },
    { .in = { "i64[5,1] lod=[0,2,5]" }, .attrs = "{value=7}" },
    { .in = { "i32[5,1] below=9" }, .attrs = "{value=2.75}" },
    { .in = { "f32[0,8]" }, .attrs = "{value=1}" },
};

const fl_op fl_op_fill_zeros_like = {
    .name = "fill_zeros_like",
    .doc = "Out = 0 everywhere, of the shape and type of X",
    .in = { { "X", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .flags = FL_OP_SLICED,
    .infer = fill_zeros_like_infer,
    .run = fill_zeros_like_run,
    .cases = fill_zeros_like_cases,
    .n_cases = FL_LEN(fill_zeros_like_cases),
};

const fl_op fl_op_fill_zeros_like2 = {
    .name = "fill_zeros_like2",
    .doc = "Out = 0 everywhere, of the shape of X, and of its type unless "
           "dtype says another",
    .in = { { "X", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .attrs = { { "dtype", FL_ATTR_STRING, "" } },
    .flags = FL_OP_SLICED,
    .infer = fill_zeros_like2_infer,
    .run = fill_zeros_like_run,
    .cases = fill_zeros_like2_cases,
    .n_cases = FL_LEN(fill_zeros_like2_cases),
};

const fl_op fl_op_fill_any_like = {
    .name = "fill_any_like",
    .doc = "Out = value everywhere, of the shape of X, and of its type unless "
           "dtype says another; whole numbers lose the fraction",
    .in = { { "X", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .attrs = { { "value", FL_ATTR_FLOAT, "0" },
               { "dtype", FL_ATTR_STRING, "" } },
    .flags = FL_OP_SLICED,
    .infer = fill_any_like_infer,
    .run = fill_any_like_run,
    .cases = fill_any_like_cases,
    .n_cases = FL_LEN(fill_any_like_cases),
};
