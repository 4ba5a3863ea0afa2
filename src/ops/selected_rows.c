/* selected_rows.c - rows + values: each row once (merge_selected_rows), and
 * the values without their rows (get_tensor_from_selected_rows). */
#include "ops/helpers.h"
#include "ops/rows.h"

enum { X };
enum { OUT };

static fl_status check_rows(const fl_infer *c)
{
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_float(c, X));
    if (fl_infer_in(c, X)->kind != FL_KIND_ROWS)
        FL_FAIL(FL_ERR_INVAL, "op %s: %s is dense, not rows + values",
                c->node->def->name, fl_infer_text(c, X, buf));
    return FL_OK;
}

static fl_status merge_infer(fl_infer *c)
{
    FL_TRY(check_rows(c));
    fl_tensor_like(fl_infer_out(c, OUT), fl_infer_in(c, X));
    return FL_OK;
}

static fl_status merge_run(fl_op_ctx *c)
{
    return fl_rows_sum(c, &c->in[X], fl_out_t(c, OUT));
}

static fl_status values_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    fl_shape shape = x->shape;

    FL_TRY(check_rows(c));
    if (!c->running)
        shape.dim[0] = -1;
    fl_infer_dense(c, OUT, x->dtype, shape.rank, shape.dim);
    return FL_OK;
}

static fl_status values_run(fl_op_ctx *c)
{
    fl_share_copy(c, fl_out_t(c, OUT), fl_in_t(c, X));
    return FL_OK;
}

static const fl_op_case rows_cases[] = {
    { .in = { "f32[33,4] rows height=9" } },
    { .in = { "f32[1,3] rows height=2" } },
    { .in = { "f32[0,8] rows height=9" } },
};

const fl_op fl_op_merge_selected_rows = {
    .name = "merge_selected_rows",
    .doc = "Out = X with each row once, in ascending order, its values added "
           "up",
    .in = { { "X", FL_OP_SLOT_ROWS | FL_SLOT_NO_GRAD } },
    .out = { { "Out", FL_OP_SLOT_ROWS } },
    .infer = merge_infer,
    .run = merge_run,
    .cases = rows_cases,
    .n_cases = FL_LEN(rows_cases),
};

const fl_op fl_op_get_tensor_from_selected_rows = {
    .name = "get_tensor_from_selected_rows",
    .doc = "Out = the values of X, a row for each that it lists",
    .in = { { "X", FL_OP_SLOT_ROWS | FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .infer = values_infer,
    .run = values_run,
    .cases = rows_cases,
    .n_cases = FL_LEN(rows_cases),
};
