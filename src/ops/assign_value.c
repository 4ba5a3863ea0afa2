/* assign_value.c - numbers that stand in the program. */
#include "ops/helpers.h"

enum { OUT };
enum { SHAPE, DTYPE, FP32_VALUES, INT32_VALUES, INT64_VALUES, BOOL_VALUES };

/* The attribute that holds the numbers of a type; -1: none does. */
static int values_of(fl_dtype dtype)
{
    switch (dtype) {
    case FL_DTYPE_F32:
    case FL_DTYPE_F64:
        return FP32_VALUES;
    case FL_DTYPE_I32:
        return INT32_VALUES;
    case FL_DTYPE_I64:
        return INT64_VALUES;
    case FL_DTYPE_BOOL:
        return BOOL_VALUES;
    default:
        return -1;
    }
}

static size_t count_of(const fl_op_node *n, int attr)
{
    size_t len;

    if (attr == FP32_VALUES)
        fl_attr_floats(n, attr, &len);
    else
        fl_attr_ints(n, attr, &len);
    return len;
}

static fl_status assign_value_infer(fl_infer *c)
{
    char text[FL_SHAPE_TEXT_MAX];
    fl_shape shape;
    fl_dtype dtype;
    int attr;

    FL_TRY(fl_infer_shape(c, SHAPE, 0, &shape));
    FL_TRY(fl_infer_dtype(c, DTYPE, &dtype));
    attr = values_of(dtype);
    if (attr < 0)
        FL_FAIL(FL_ERR_INVAL,
                "op assign_value: dtype %s is none of float32, float64, int32, "
                "int64 and bool",
                fl_str_attr(c, DTYPE));
    if ((int64_t)count_of(c->node, attr) != fl_shape_numel(&shape))
        FL_FAIL(FL_ERR_INVAL,
                "op assign_value: %s has %zu numbers, which do not fill shape "
                "%s",
                c->node->def->attrs[attr].name, count_of(c->node, attr),
                fl_shape_text(&shape, text));
    fl_infer_dense(c, OUT, dtype, shape.rank, shape.dim);
    return FL_OK;
}

static fl_status assign_value_run(fl_op_ctx *c)
{
    fl_tensor *out = fl_out_t(c, OUT);
    int attr = values_of(out->dtype);
    size_t n = count_of(c->node, attr), len;

    for (size_t i = 0; i < n; i++)
        switch (out->dtype) {
        case FL_DTYPE_F32:
            ((float *)out->data)[i] =
                (float)fl_attr_floats(c->node, attr, &len)[i];
            break;
        case FL_DTYPE_F64:
            ((double *)out->data)[i] = fl_attr_floats(c->node, attr, &len)[i];
            break;
        case FL_DTYPE_I32:
        case FL_DTYPE_I64:
            fl_id_put(out, (int64_t)i, fl_attr_ints(c->node, attr, &len)[i]);
            break;
        default:
            ((bool *)out->data)[i] = fl_attr_ints(c->node, attr, &len)[i] != 0;
        }
    return FL_OK;
}

static const fl_op_case assign_value_cases[] = {
    { .attrs = "{shape=[2,3], fp32_values=[1,2,3.5,4,5,6]}" },
    { .attrs = "{shape=[2], dtype=int64, int64_values=[7,-9007199254740993]}" },
    { .attrs = "{shape=[3], dtype=int32, int32_values=[1,2,3]}" },
    { .attrs = "{shape=[2], dtype=bool, bool_values=[1,0]}" },
    { .attrs = "{shape=[0,4]}" },
};

const fl_op fl_op_assign_value = {
    .name = "assign_value",
    .doc = "Out = the numbers of fp32_values, int32_values, int64_values or "
           "bool_values, whichever dtype says, in the given shape",
    .out = { { "Out", 0 } },
    .attrs = { { "shape", FL_ATTR_INTS, "[]" },
               { "dtype", FL_ATTR_STRING, "float32" },
               { "fp32_values", FL_ATTR_FLOATS, "[]" },
               { "int32_values", FL_ATTR_INTS, "[]" },
               { "int64_values", FL_ATTR_INTS, "[]" },
               { "bool_values", FL_ATTR_INTS, "[]" } },
    .infer = assign_value_infer,
    .run = assign_value_run,
    .cases = assign_value_cases,
    .n_cases = FL_LEN(assign_value_cases),
};
