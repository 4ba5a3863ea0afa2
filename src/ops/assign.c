/* assign.c - a copy: any type, offsets, rows and arrays included. */
#include "ops/arrays.h"
#include "ops/helpers.h"

enum { X };
enum { OUT };

static fl_status assign_infer(fl_infer *c)
{
    fl_tensor_like(fl_infer_out(c, OUT), fl_infer_in(c, X));
    return FL_OK;
}

/* Of rows + values there may be fewer than infer made room for. */
static void copy_tensor(const fl_op_ctx *c, fl_tensor *to,
                        const fl_tensor *from)
{
    if (to->kind == FL_KIND_ARRAY) {
        if (from)
            fl_array_copy(fl_array_of(to), fl_array_of(from));
        else
            fl_array_clear(fl_array_of(to));
        return;
    }
    if (from && from->kind == FL_KIND_ROWS) {
        size_t n = (size_t)from->shape.dim[0];

        to->shape = from->shape;
        fl_tensor_set_merged(to, fl_tensor_is_merged(from));
        if (n && to->rows != from->rows)
            memcpy(to->rows, from->rows, n * sizeof(*to->rows));
    }
    fl_share_copy(c, to, from);
}

static fl_status assign_run(fl_op_ctx *c)
{
    copy_tensor(c, fl_out_t(c, OUT), fl_in_t(c, X));
    return FL_OK;
}

static fl_status assign_back(fl_op_ctx *c)
{
    if (fl_din_t(c, X))
        copy_tensor(c, fl_din_t(c, X), fl_dout_t(c, OUT));
    return FL_OK;
}

static const fl_op_case assign_cases[] = {
    { .in = { "f32[33,7]" } },
    { .in = { "i64[6,1] below=10" } },
    { .in = { "f32[7,3] lod=[0,2,2,7]" } },
    { .in = { "f32[5,4] rows height=9" } },
    { .in = { "f32[0,8]" } },
};

const fl_op fl_op_assign = {
    .name = "assign",
    .doc = "Out = X: values of any type, with their offsets or rows, or an "
           "array of them",
    .in = { { "X", FL_OP_SLOT_ROWS | FL_OP_SLOT_ARRAY } },
    .out = { { "Out", FL_OP_SLOT_ROWS | FL_OP_SLOT_ARRAY } },
    .flags = FL_OP_INPLACE,
    .infer = assign_infer,
    .run = assign_run,
    .back = assign_back,
    .cases = assign_cases,
    .n_cases = FL_LEN(assign_cases),
};
