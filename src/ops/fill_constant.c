/* fill_constant.c - tensors of one number: of a given shape, or with as many
 * rows as another tensor. */
#include <errno.h>
#include <math.h>

#include "ops/helpers.h"
#include "ops/values.h"

enum { VALUE_TENSOR, SHAPE_TENSOR, SHAPE_TENSOR_LIST }; /* fill_constant */
enum { INPUT };                                         /* ..._like */
enum { OUT };
enum { SHAPE, DTYPE, VALUE, STR_VALUE, INPUT_DIM_IDX, OUTPUT_DIM_IDX };

/* One element, in the type of the output. */
typedef union element {
    float f32;
    double f64;
    int32_t i32;
    int64_t i64;
    uint64_t u64;
    uint8_t u8;
    int8_t i8;
    int16_t i16;
    uint16_t f16;
    bool b;
} element;

/* The number as text; str_value wins when it is not empty. */
static const char *number_of(const fl_op_node *n, char buf[FL_NUMBER_TEXT_MAX])
{
    const char *text = fl_attr_str(n, STR_VALUE);

    return *text ? text : fl_number_text(fl_attr_float(n, VALUE), buf);
}

/* Whole numbers are read digit by digit, since a double holds 53 bits only;
   others ("7.5", "1e3") lose their fraction. */
static bool read_signed(const char *text, int64_t lo, int64_t hi, int64_t *out)
{
    char *end;
    double v;

    errno = 0;
    *out = strtoll(text, &end, 10);
    if (*end || end == text) {
        v = trunc(strtod(text, &end));
        if (*end || end == text || !(v >= -0x1p63 && v < 0x1p63))
            return false;
        *out = (int64_t)v;
    }
    return !errno && *out >= lo && *out <= hi;
}

static bool read_unsigned(const char *text, uint64_t *out)
{
    char *end;
    double v;

    errno = 0;
    *out = strtoull(text, &end, 10);
    if (*end || end == text || strchr(text, '-')) {
        v = trunc(strtod(text, &end));
        if (*end || end == text || !(v >= 0 && v < 0x1p64))
            return false;
        *out = (uint64_t)v;
    }
    return !errno;
}

static bool read_float(const char *text, double *out)
{
    char *end;

    *out = strtod(text, &end);
    return !*end && end != text;
}

/* Any number, of which 0 is false, or a word. */
static bool read_bool(const char *text, bool *out)
{
    double v;

    *out = !strcmp(text, "true");
    if (*out || !strcmp(text, "false"))
        return true;
    if (!read_float(text, &v))
        return false;
    *out = v != 0;
    return true;
}

static bool read_element(const char *text, fl_dtype dtype, element *out)
{
    int64_t i = 0;
    double f = 0;
    bool ok = false;

    switch (dtype) {
    case FL_DTYPE_F32:
        ok = read_float(text, &f);
        out->f32 = (float)f;
        break;
    case FL_DTYPE_F64:
        ok = read_float(text, &out->f64);
        break;
    case FL_DTYPE_I32:
        ok = read_signed(text, INT32_MIN, INT32_MAX, &i);
        out->i32 = (int32_t)i;
        break;
    case FL_DTYPE_I64:
        ok = read_signed(text, INT64_MIN, INT64_MAX, &out->i64);
        break;
    case FL_DTYPE_U64:
        ok = read_unsigned(text, &out->u64);
        break;
    case FL_DTYPE_U8:
        ok = read_signed(text, 0, UINT8_MAX, &i);
        out->u8 = (uint8_t)i;
        break;
    case FL_DTYPE_I8:
        ok = read_signed(text, INT8_MIN, INT8_MAX, &i);
        out->i8 = (int8_t)i;
        break;
    case FL_DTYPE_I16:
        ok = read_signed(text, INT16_MIN, INT16_MAX, &i);
        out->i16 = (int16_t)i;
        break;
    case FL_DTYPE_F16:
        ok = read_float(text, &f);
        out->f16 = fl_half_of(f);
        break;
    case FL_DTYPE_BOOL:
        ok = read_bool(text, &out->b);
        break;
    }
    return ok;
}

/* The element that an operator is for. A float, which most are, needs no
   text. */
static bool element_of(const fl_op_node *n, fl_dtype dtype, element *out)
{
    char buf[FL_NUMBER_TEXT_MAX];

    if (dtype == FL_DTYPE_F32 && !*fl_attr_str(n, STR_VALUE)) {
        out->f32 = (float)fl_attr_float(n, VALUE);
        return true;
    }
    return read_element(number_of(n, buf), dtype, out);
}

static fl_status check_number(const fl_infer *c, fl_dtype dtype)
{
    char buf[FL_NUMBER_TEXT_MAX];
    element e;

    if (!element_of(c->node, dtype, &e))
        FL_FAIL(FL_ERR_INVAL, "op %s: '%s' is no number of type %s",
                c->node->def->name, number_of(c->node, buf),
                fl_dtype_text(dtype));
    return FL_OK;
}

static fl_status check_value_tensor(const fl_infer *c, fl_dtype dtype)
{
    const fl_tensor *t = fl_infer_in(c, VALUE_TENSOR);
    char buf[FL_SLOT_TEXT_MAX];

    if (t->dtype != dtype || !fl_is_one(t))
        FL_FAIL(FL_ERR_INVAL, "op %s: %s must hold one number of type %s",
                c->node->def->name, fl_infer_text(c, VALUE_TENSOR, buf),
                fl_dtype_text(dtype));
    return FL_OK;
}

static fl_status fill_constant_infer(fl_infer *c)
{
    static const fl_ints_from from = { SHAPE_TENSOR, SHAPE_TENSOR_LIST, SHAPE };
    fl_shape shape;
    fl_dtype dtype;

    FL_TRY(fl_infer_dims(c, &from, 0, &shape));
    FL_TRY(fl_infer_dtype(c, DTYPE, &dtype));
    FL_TRY(fl_infer_in(c, VALUE_TENSOR) ? check_value_tensor(c, dtype)
                                        : check_number(c, dtype));
    fl_infer_dense(c, OUT, dtype, shape.rank, shape.dim);
    return FL_OK;
}

static fl_status like_infer(fl_infer *c)
{
    static const fl_batch_like like = { INPUT, SHAPE, INPUT_DIM_IDX,
                                        OUTPUT_DIM_IDX };
    fl_shape shape;
    fl_dtype dtype;

    FL_TRY(fl_infer_dtype(c, DTYPE, &dtype));
    FL_TRY(check_number(c, dtype));
    FL_TRY(fl_infer_batch_like(c, &like, &shape));
    fl_infer_dense(c, OUT, dtype, shape.rank, shape.dim);
    return FL_OK;
}

/* This call's share of Out becomes the element. */
static void fill(fl_op_ctx *c, const void *e)
{
    fl_tensor *out = fl_out_t(c, OUT);
    fl_span s = fl_op_span(c, (size_t)fl_tensor_numel(out));
    size_t size = fl_dtype_bytes(out->dtype);

    for (size_t i = s.lo; i < s.hi; i++)
        memcpy((char *)out->data + i * size, e, size);
}

static fl_status fill_run(fl_op_ctx *c)
{
    element e = { 0 };

    FL_ASSERT(element_of(c->node, fl_out_t(c, OUT)->dtype, &e));
    fill(c, &e);
    return FL_OK;
}

static fl_status fill_constant_run(fl_op_ctx *c)
{
    if (!fl_in_t(c, VALUE_TENSOR))
        return fill_run(c);
    fill(c, fl_in(c, VALUE_TENSOR));
    return FL_OK;
}

static const fl_op_case fill_constant_cases[] = {
    { .attrs = "{shape=[6,7], value=0.37}" },
    { .attrs = "{shape=[1], value=7, dtype=int64}" },
    { .attrs = "{shape=[33], str_value=\"-9007199254740993\", dtype=i64}" },
    { .attrs = "{shape=[33], value=2, dtype=bool}" },
    { .attrs = "{shape=[33], str_value=\"false\", dtype=bool}" },
    { .attrs = "{shape=[0,8], value=1, dtype=float64}" },
    { .in = { "i64[1]", "i32[2] is=[3,4]" }, .attrs = "{dtype=int64}" },
    { .in = { "", "i64[2] is=[0,4]" }, .attrs = "{value=2}" },
    { .in = { "", "", "i32[1] is=[5];i64[1] is=[2]" },
      .attrs = "{shape=[-1,2], value=2, dtype=int64}" },
};

static const fl_op_case like_cases[] = {
    { .in = { "f32[33,7]" }, .attrs = "{shape=[-1,4], value=1.5}" },
    { .in = { "f32[3,5]" },
      .attrs = "{shape=[2,-1], input_dim_idx=1, output_dim_idx=1, "
               "dtype=int64, value=2}" },
    { .in = { "f32[7,3] lod=[0,2,2,7]" }, .attrs = "{shape=[-1,2], value=1}" },
    { .in = { "f32[0,8]" }, .attrs = "{shape=[-1,4], value=1}" },
};

const fl_op fl_op_fill_constant = {
    .name = "fill_constant",
    .doc = "Out = value everywhere, of the given shape and type; str_value, "
           "when not empty, stands for value: all 64 bits of an integer. "
           "ValueTensor gives the value, ShapeTensor or ShapeTensorList the "
           "shape, which is -1 while building",
    .in = { { "ValueTensor", FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD },
            { "ShapeTensor", FL_VALUE_SLOT },
            { "ShapeTensorList", FL_VALUE_LIST } },
    .out = { { "Out", 0 } },
    .attrs = { { "shape", FL_ATTR_INTS, "[]" },
               { "dtype", FL_ATTR_STRING, "float32" },
               { "value", FL_ATTR_FLOAT, "0" },
               { "str_value", FL_ATTR_STRING, "" } },
    .flags = FL_OP_SLICED,
    .infer = fill_constant_infer,
    .run = fill_constant_run,
    .cases = fill_constant_cases,
    .n_cases = FL_LEN(fill_constant_cases),
};

const fl_op fl_op_fill_constant_batch_size_like = {
    .name = "fill_constant_batch_size_like",
    .doc = "Out = value everywhere, of the given shape with dimension "
           "output_dim_idx taken from dimension input_dim_idx of Input; for "
           "dimension 0 of a ragged Input, the number of its sequences",
    .in = { { "Input", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .attrs = { { "shape", FL_ATTR_INTS, "[]" },
               { "dtype", FL_ATTR_STRING, "float32" },
               { "value", FL_ATTR_FLOAT, "0" },
               { "str_value", FL_ATTR_STRING, "" },
               { "input_dim_idx", FL_ATTR_INT, "0" },
               { "output_dim_idx", FL_ATTR_INT, "0" } },
    .flags = FL_OP_SLICED,
    .infer = like_infer,
    .run = fill_run,
    .cases = like_cases,
    .n_cases = FL_LEN(like_cases),
};
