/* shape.c - the dimensions of a tensor as numbers (shape), and how many numbers
 * it has (size). */
#include "ops/helpers.h"

enum { INPUT };
enum { OUT };

static fl_status shape_infer(fl_infer *c)
{
    int64_t rank = fl_infer_in(c, INPUT)->shape.rank;

    fl_infer_dense(c, OUT, FL_DTYPE_I32, 1, &rank);
    return FL_OK;
}

static fl_status shape_run(fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, INPUT)->shape;
    int32_t *out = fl_out(c, OUT);

    for (int i = 0; i < x->rank; i++) {
        if (x->dim[i] > INT32_MAX)
            FL_FAIL(FL_ERR_NUMERIC,
                    "dimension %d of Input is %lld, more than i32 can hold", i,
                    (long long)x->dim[i]);
        out[i] = (int32_t)x->dim[i];
    }
    return FL_OK;
}

static fl_status size_infer(fl_infer *c)
{
    fl_infer_dense(c, OUT, FL_DTYPE_I64, 1, (int64_t[]){ 1 });
    return FL_OK;
}

static fl_status size_run(fl_op_ctx *c)
{
    *(int64_t *)fl_out(c, OUT) = fl_tensor_numel(fl_in_t(c, INPUT));
    return FL_OK;
}

static const fl_op_case shape_cases[] = {
    { .in = { "f32[33,7]" } },
    { .in = { "i64[7,1] lod=[0,2,2,7] below=9" } },
    { .in = { "f32[0,8]" } },
};

const fl_op fl_op_shape = {
    .name = "shape",
    .doc = "Out = the dimensions of Input as i32",
    .in = { { "Input", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .infer = shape_infer,
    .run = shape_run,
    .cases = shape_cases,
    .n_cases = FL_LEN(shape_cases),
};

const fl_op fl_op_size = {
    .name = "size",
    .doc = "Out = how many numbers Input has, as i64",
    .in = { { "Input", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .infer = size_infer,
    .run = size_run,
    .cases = shape_cases,
    .n_cases = FL_LEN(shape_cases),
};
