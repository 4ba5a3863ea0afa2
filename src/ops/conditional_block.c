/* conditional_block.c - a block of the program that runs when a condition
 * holds. What it writes keeps its old value otherwise, or is 0 when it had
 * none. Back runs the block again, with its gradients behind it: randomness is
 * drawn by counter, so it is the same run. */
#include "ops/helpers.h"
#include "ops/rows.h"
#include "ops/values.h"

enum { COND, INPUT };
enum { OUT, SCOPE };
enum { SUB_BLOCK, IS_SCALAR_CONDITION, SKIP_EAGER_DELETION_VARS };

/* --- infer ---------------------------------------------------------------- */

static fl_status check_condition(const fl_infer *c)
{
    const fl_tensor *t = fl_infer_in(c, COND);
    char buf[FL_SLOT_TEXT_MAX];

    if (fl_bool(c, IS_SCALAR_CONDITION) &&
        (t->dtype != FL_DTYPE_BOOL || !fl_is_one(t)))
        FL_FAIL(FL_ERR_INVAL,
                "op conditional_block: %s must hold one bool, or "
                "is_scalar_condition be false",
                fl_infer_text(c, COND, buf));
    if (fl_attr_block(c->node, SUB_BLOCK) < 1)
        FL_FAIL(FL_ERR_INVAL,
                "op conditional_block: sub_block %lld is no block that can run "
                "inside another",
                (long long)fl_attr_block(c->node, SUB_BLOCK));
    return FL_OK;
}

static const fl_args *out_vars(const fl_op_node *n)
{
    return n->is_grad ? &n->in[fl_op_n_in(n->def) + OUT] : &n->out[OUT];
}

/* Does the variable hold something when the node runs? */
static bool is_kept(const fl_op_node *n, const fl_var *v)
{
    if (v->flags & FL_VAR_PERSIST)
        return true;
    for (const fl_op_node *o = n->prev; o; o = o->prev)
        if (fl_node_writes_var(o, v))
            return true;
    return false;
}

/* What the block will make of it is not known before it runs; the run lays it
   out again. */
static fl_status infer_out(const fl_infer *c, int i)
{
    const fl_var *v = out_vars(c->node)->vars[i];
    fl_tensor *out = fl_infer_out_at(c, OUT, i);

    if (!v)
        FL_FAIL(FL_ERR_INVAL,
                "op conditional_block: entry %d of Out names no variable that "
                "exists; declare it before the operator",
                i);
    if (c->node->is_grad) { /* the run has told its shape */
        fl_tensor_like(out, c->in[fl_op_n_in(c->node->def) + OUT].t[i]);
        return FL_OK;
    }
    if (c->running && out->data && is_kept(c->node, v))
        return FL_OK;
    fl_tensor_like(out, &v->meta);
    for (int d = 0; c->running && d < out->shape.rank; d++)
        if (out->shape.dim[d] < 0)
            out->shape.dim[d] = 0;
    if (c->running) {
        out->n_lod = 0;
        out->kind = FL_KIND_DENSE;
    }
    return FL_OK;
}

static fl_status conditional_block_infer(fl_infer *c)
{
    FL_TRY(check_condition(c));
    for (int i = 0; i < fl_infer_n_out(c, OUT); i++)
        FL_TRY(infer_out(c, i));
    fl_infer_dense(c, SCOPE, FL_DTYPE_U8, 1, (int64_t[]){ 0 });
    return FL_OK;
}

/* --- run ------------------------------------------------------------------ */

static bool holds(const fl_op_ctx *c)
{
    if (fl_bool(c, IS_SCALAR_CONDITION))
        return *(const bool *)fl_in(c, COND);
    for (int i = 0; i < fl_n_in(c, COND); i++)
        if (fl_tensor_numel(fl_in_at(c, COND, i)) == 0)
            return false;
    return true;
}

static fl_status run_block(fl_op_ctx *c, fl_block_call *call, int n)
{
    call->block = (int)fl_attr_block(c->node, SUB_BLOCK);
    call->in_vars = &c->node->in[INPUT];
    call->in = &c->in[INPUT];
    call->out_vars = out_vars(c->node);
    call->results = fl_scratch(c, ((size_t)n + 1) * sizeof(*call->results));
    if (!call->results)
        return FL_NOMEM(c);
    if (!c->blocks)
        FL_FAIL(FL_ERR_UNSUPPORTED,
                "op conditional_block: nothing here can run block %d",
                call->block);
    return c->blocks->run(c->blocks, call);
}

static void copy_values(fl_tensor *to, const fl_tensor *from)
{
    size_t size = fl_dtype_bytes(from->dtype);
    size_t n = (size_t)fl_tensor_numel(from);

    if (n)
        memcpy(to->data, from->data, n * size);
    if (from->kind == FL_KIND_ROWS && from->shape.dim[0])
        memcpy(to->rows, from->rows,
               (size_t)from->shape.dim[0] * sizeof(*to->rows));
}

static fl_status take_results(fl_op_ctx *c, const fl_block_call *call)
{
    for (int i = 0; i < fl_n_out(c, OUT); i++) {
        fl_tensor *out = fl_out_at(c, OUT, i);

        if (!call->results[i])
            continue;
        fl_tensor_like(out, call->results[i]);
        fl_tensor_set_merged(out, fl_tensor_is_merged(call->results[i]));
        FL_TRY(c->blocks->place(c->blocks, out));
        copy_values(out, call->results[i]);
    }
    return FL_OK;
}

static fl_status conditional_block_run(fl_op_ctx *c)
{
    fl_block_call call = { 0 };

    if (holds(c)) {
        FL_TRY(run_block(c, &call, fl_n_out(c, OUT)));
        return take_results(c, &call);
    }
    for (int i = 0; i < fl_n_out(c, OUT); i++)
        if (!is_kept(c->node, c->node->out[OUT].vars[i]))
            fl_share_zero(c, fl_out_at(c, OUT, i));
    return FL_OK;
}

/* --- back ----------------------------------------------------------------- */

static fl_status take_gradient(fl_op_ctx *c, fl_tensor *to,
                               const fl_tensor *from)
{
    if (from && from->kind != FL_KIND_ROWS) {
        copy_values(to, from);
        return FL_OK;
    }
    fl_share_zero(c, to);
    return from ? fl_rows_add_to(from, to) : FL_OK;
}

static fl_status conditional_block_back(fl_op_ctx *c)
{
    int n = fl_n_out(c, INPUT);
    fl_block_call call = {
        .dout =
            &c->in[fl_op_n_in(c->node->def) + fl_op_n_out(c->node->def) + OUT],
        .din = &c->out[INPUT],
        .sum_op = "sum"
    };
    bool ran = holds(c);

    if (ran)
        FL_TRY(run_block(c, &call, n));
    for (int i = 0; i < n; i++)
        if (fl_din_at(c, INPUT, i))
            FL_TRY(take_gradient(c, fl_din_at(c, INPUT, i),
                                 ran ? call.results[i] : NULL));
    return FL_OK;
}

/* Of a block that does not run; tests/exec runs those that do. */
static const fl_op_case conditional_block_cases[] = {
    { .in = { "bool[1] is=[0]", "f32[3,2]", "f32[3,2]" },
      .attrs = "{sub_block=1, is_scalar_condition=true}" },
    { .in = { "f32[0,4]", "f32[3,2];f32[4]", "f32[3,2];i64[2]" },
      .attrs = "{sub_block=1}" },
};

const fl_op fl_op_conditional_block = {
    .name = "conditional_block",
    .doc = "runs block sub_block when Cond, one bool, is true, or, when "
           "is_scalar_condition is false, when no Cond is empty. Input lists "
           "what the block reads of outer blocks, Out what it writes there; "
           "that keeps its value, or is 0 without one, when the block does not "
           "run. Scope holds nothing",
    .in = { { "Cond", FL_OP_SLOT_LIST | FL_SLOT_NO_GRAD },
            { "Input", FL_OP_SLOT_LIST | FL_OP_SLOT_OPTIONAL } },
    .out = { { "Out",
               FL_OP_SLOT_LIST | FL_OP_SLOT_STATE | FL_OP_SLOT_OPTIONAL },
             { "Scope", FL_OP_SLOT_BYPRODUCT } },
    .attrs = { { "sub_block", FL_ATTR_BLOCK, "-1" },
               { "is_scalar_condition", FL_ATTR_BOOL, "false" },
               { "skip_eager_deletion_vars", FL_ATTR_STRINGS, "[]" } },
    .flags = FL_OP_EFFECT,
    .infer = conditional_block_infer,
    .run = conditional_block_run,
    .back = conditional_block_back,
    .back_uses = FL_USES_IN(COND) | FL_USES_IN(INPUT) | FL_USES_OUT(OUT),
    .cases = conditional_block_cases,
    .n_cases = FL_LEN(conditional_block_cases),
};
