/* select.c - one of several variables, chosen by a number: select_input takes
 * the value of the Mask-th, select_output gives the Mask-th a value. Their
 * gradients go to the one that was chosen; the others get zeros. */
#include <inttypes.h>

#include "ops/arrays.h"
#include "ops/blocks.h"
#include "ops/helpers.h"
#include "ops/values.h"

enum { X, MASK };
enum { OUT };

static fl_status check_mask(const fl_infer *c)
{
    const fl_tensor *t = fl_infer_in(c, MASK);
    char buf[FL_SLOT_TEXT_MAX];

    if (!fl_is_one(t) || (t->dtype != FL_DTYPE_I32 && t->dtype != FL_DTYPE_I64))
        FL_FAIL(FL_ERR_INVAL, "op %s: %s must hold one integer",
                c->node->def->name, fl_infer_text(c, MASK, buf));
    return FL_OK;
}

static fl_status read_mask(const fl_op_node *n, const fl_tensor *mask, int n_x,
                           int *out)
{
    int64_t i = fl_id_at(mask, 0);

    if (i < 0 || i >= n_x)
        FL_FAIL(FL_ERR_INVAL, "op %s: Mask is %" PRId64 ", and there are %d",
                fl_node_type(n), i, n_x);
    *out = (int)i;
    return FL_OK;
}

/* --- select_input --------------------------------------------------------- */

/* Dimensions in which the choices differ are not known before the run. */
static void join_shapes(fl_tensor *out, const fl_tensor *more)
{
    for (int d = 0; d < out->shape.rank && d < more->shape.rank; d++)
        if (out->shape.dim[d] != more->shape.dim[d])
            out->shape.dim[d] = -1;
}

static fl_status select_input_infer(fl_infer *c)
{
    fl_tensor *out = fl_infer_out(c, OUT);
    int chosen = 0;

    FL_TRY(check_mask(c));
    if (c->running)
        FL_TRY(read_mask(c->node, fl_infer_in(c, MASK), fl_infer_n_in(c, X),
                         &chosen));
    fl_tensor_like(out, fl_infer_in_at(c, X, chosen));
    for (int i = 1; i < fl_infer_n_in(c, X) && !c->running; i++)
        join_shapes(out, fl_infer_in_at(c, X, i));
    return FL_OK;
}

static void copy_any(const fl_op_ctx *c, fl_tensor *to, const fl_tensor *from)
{
    if (to->kind == FL_KIND_ARRAY)
        fl_array_copy(fl_array_of(to), fl_array_of(from));
    else
        fl_share_copy(c, to, from);
}

static fl_status select_input_run(fl_op_ctx *c)
{
    int chosen;

    FL_TRY(read_mask(c->node, fl_in_t(c, MASK), fl_n_in(c, X), &chosen));
    copy_any(c, fl_out_t(c, OUT), fl_in_at(c, X, chosen));
    return FL_OK;
}

static fl_status select_input_back(fl_op_ctx *c)
{
    int chosen;

    FL_TRY(read_mask(c->node, fl_in_t(c, MASK), fl_n_in(c, X), &chosen));
    for (int i = 0; i < fl_n_in(c, X); i++) {
        fl_tensor *to = fl_din_at(c, X, i);

        if (to)
            fl_grad_clear(c, to);
        if (to && i == chosen && fl_dout_t(c, OUT))
            copy_any(c, to, fl_dout_t(c, OUT));
    }
    return FL_OK;
}

static const fl_op_case select_input_cases[] = {
    { .in = { "f32[3,2];f32[3,2]", "i32[1] is=[1]" } },
    { .in = { "f32[3,2];f32[4,2];f32[1,2]", "i64[1] is=[0]" } },
    { .in = { "i64[3,1] below=9;i64[3,1] below=9", "i32[1] is=[0]" } },
    { .in = { "f32[0,2];f32[0,2]", "i32[1] is=[0]" } },
};

const fl_op fl_op_select_input = {
    .name = "select_input",
    .doc = "Out = X[Mask]",
    .in = { { "X", FL_OP_SLOT_LIST | FL_OP_SLOT_ARRAY },
            { "Mask", FL_SLOT_NO_GRAD | FL_OP_SLOT_VALUE } },
    .out = { { "Out", FL_OP_SLOT_ARRAY } },
    .infer = select_input_infer,
    .run = select_input_run,
    .back = select_input_back,
    .back_uses = FL_USES_IN(MASK),
    .cases = select_input_cases,
    .n_cases = FL_LEN(select_input_cases),
};

/* --- select_output -------------------------------------------------------- */

static fl_status select_output_infer(fl_infer *c)
{
    FL_TRY(check_mask(c));
    for (int i = 0; i < fl_infer_n_out(c, OUT); i++)
        fl_tensor_like(fl_infer_out_at(c, OUT, i), fl_infer_in(c, X));
    return FL_OK;
}

static fl_status select_output_run(fl_op_ctx *c)
{
    int chosen;

    FL_TRY(read_mask(c->node, fl_in_t(c, MASK), fl_n_out(c, OUT), &chosen));
    for (int i = 0; i < fl_n_out(c, OUT); i++)
        if (i == chosen)
            copy_any(c, fl_out_at(c, OUT, i), fl_in_t(c, X));
        else
            fl_grad_clear(c, fl_out_at(c, OUT, i));
    return FL_OK;
}

static fl_status select_output_back(fl_op_ctx *c)
{
    fl_tensor *to = fl_din_t(c, X);
    int n = fl_out_vars(c->node, OUT)->n, chosen;

    FL_TRY(read_mask(c->node, fl_in_t(c, MASK), n, &chosen));
    fl_grad_clear(c, to);
    if (fl_dout_at(c, OUT, chosen))
        copy_any(c, to, fl_dout_at(c, OUT, chosen));
    return FL_OK;
}

static const fl_op_case select_output_cases[] = {
    { .in = { "f32[3,2]", "i32[1] is=[0]" } },
    { .in = { "f32[0,2]", "i64[1] is=[0]" } },
};

const fl_op fl_op_select_output = {
    .name = "select_output",
    .doc = "Out[Mask] = X; the others are 0",
    .in = { { "X", FL_OP_SLOT_ARRAY },
            { "Mask", FL_SLOT_NO_GRAD | FL_OP_SLOT_VALUE } },
    .out = { { "Out", FL_OP_SLOT_LIST | FL_OP_SLOT_ARRAY } },
    .infer = select_output_infer,
    .run = select_output_run,
    .back = select_output_back,
    .back_uses = FL_USES_IN(MASK) | FL_USES_OUT(OUT),
    .cases = select_output_cases,
    .n_cases = FL_LEN(select_output_cases),
};
