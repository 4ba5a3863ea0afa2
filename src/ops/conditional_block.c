/* conditional_block.c - a block of the program that runs when a condition
 * holds. What it writes keeps its old value otherwise, or is 0 when it had
 * none. Back runs the block again, with its gradients behind it: randomness is
 * drawn by counter, so it is the same run.
 *
 * A variable in Input and in Out is changed. Where somebody reads Scope, it
 * holds the values of those before the run, in the order of Input; what comes
 * back for a changed one goes through the block, or past it when it did not
 * run.
 */
#include "ops/blocks.h"
#include "ops/helpers.h"
#include "ops/values.h"
#include "tensor/array.h"

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
    return fl_infer_block(c, SUB_BLOCK);
}

static fl_status conditional_block_infer(fl_infer *c)
{
    fl_tensor *scope = fl_infer_out(c, SCOPE);

    FL_TRY(check_condition(c));
    FL_TRY(fl_infer_declared(c, OUT));
    fl_infer_dense(c, SCOPE, FL_DTYPE_U8, 1, (int64_t[]){ 0 });
    if (scope)
        scope->kind = FL_KIND_ARRAY;
    return FL_OK;
}

/* Where entry i of Input is in Out; -1 when the block does not change it, or
   changes it in the scope of the run. */
static int changed(const fl_op_node *n, int i)
{
    const fl_var *v = n->in[INPUT].vars[i];
    const fl_args *out = fl_out_vars(n, OUT);

    for (int k = 0; k < out->n && !(v->flags & FL_VAR_PERSIST); k++)
        if (out->vars[k] == v)
            return k;
    return -1;
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

static fl_block_call call_of(const fl_op_ctx *c)
{
    return (fl_block_call){
        .block = (int)fl_attr_block(c->node, SUB_BLOCK),
        .in_vars = &c->node->in[INPUT],
        .in = &c->in[INPUT],
        .out_vars = fl_out_vars(c->node, OUT),
    };
}

static fl_status remember(const fl_op_ctx *c)
{
    fl_array *kept = fl_array_of(fl_out_t(c, SCOPE));

    fl_array_clear(kept);
    for (int i = 0; i < fl_n_in(c, INPUT); i++)
        if (changed(c->node, i) >= 0)
            FL_TRY(
                fl_array_put(kept, fl_array_len(kept), fl_in_at(c, INPUT, i)));
    return FL_OK;
}

static fl_status conditional_block_run(fl_op_ctx *c)
{
    fl_block_call call = call_of(c);

    call.kept = &c->out[OUT];
    if (fl_is_read_later(c->node, SCOPE))
        FL_TRY(remember(c));
    fl_out_begin(c, OUT);
    if (!holds(c))
        return FL_OK;
    FL_TRY(fl_block_run(c, &call, fl_n_out(c, OUT)));
    for (int i = 0; i < fl_n_out(c, OUT); i++)
        if (call.results[i])
            FL_TRY(fl_out_become(c, fl_out_at(c, OUT, i), call.results[i]));
    return FL_OK;
}

/* --- back ----------------------------------------------------------------- */

/* Inputs as the block found them. */
static fl_status found_inputs(fl_op_ctx *c, fl_targs *out)
{
    int n = fl_n_in(c, INPUT);
    size_t next = 0;

    out->n = n;
    out->t = fl_scratch(c, ((size_t)n + 1) * sizeof(*out->t));
    if (!out->t)
        return FL_NOMEM(c);
    for (int i = 0; i < n; i++)
        out->t[i] =
            (fl_tensor *)(changed(c->node, i) < 0
                              ? fl_in_at(c, INPUT, i)
                              : fl_array_at(
                                    fl_array_of(fl_saved_out_t(c, SCOPE)),
                                    next++));
    return FL_OK;
}

/* The gradient of an input is what came back for it, or nothing. */
static fl_status put_gradient(fl_op_ctx *c, fl_tensor *to,
                              const fl_tensor *found, const fl_tensor *came)
{
    fl_tensor_like(to, found);
    if (to->kind != FL_KIND_ARRAY)
        FL_TRY(c->blocks->place(c->blocks, to));
    fl_grad_clear(c, to);
    return came ? fl_grad_add(to, came) : FL_OK;
}

static fl_status put_gradients(fl_op_ctx *c, const fl_block_call *call,
                               const fl_tensor *const *through)
{
    for (int i = 0; i < fl_n_out(c, INPUT); i++) {
        fl_tensor *to = fl_din_at(c, INPUT, i);
        int k = changed(c->node, i);
        const fl_tensor *came = through ? through[i] : NULL;

        if (!to)
            continue;
        if (k >= 0) {
            FL_TRY(put_gradient(c, to, call->in->t[i],
                                through ? came : call->dout->t[k]));
            continue;
        }
        fl_grad_clear(c, to);
        if (came)
            FL_TRY(fl_grad_add(to, came));
    }
    return FL_OK;
}

static fl_status conditional_block_back(fl_op_ctx *c)
{
    fl_block_call call = call_of(c);
    fl_targs in;

    FL_TRY(found_inputs(c, &in));
    call.in = &in;
    call.dout = &c->in[fl_op_n_in(c->node->def) + fl_op_n_out(c->node->def)];
    call.din = &c->out[INPUT];
    if (holds(c))
        FL_TRY(fl_block_run(c, &call, fl_n_out(c, INPUT)));
    return put_gradients(c, &call, call.results);
}

static fl_status conditional_block_back_infer(fl_infer *c)
{
    for (int i = 0; i < fl_infer_n_in(c, INPUT); i++)
        if (changed(c->node, i) >= 0)
            return fl_back_needs(c, SCOPE);
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
           "run. Scope holds what the block changes as it was before, where "
           "somebody reads it",
    .in = { { "Cond", FL_OP_SLOT_LIST | FL_SLOT_NO_GRAD },
            { "Input", FL_OP_SLOT_LIST | FL_OP_SLOT_OPTIONAL | FL_OP_SLOT_ROWS |
                           FL_OP_SLOT_ARRAY } },
    .out = { { "Out", FL_OP_SLOT_LIST | FL_OP_SLOT_STATE | FL_OP_SLOT_OPTIONAL |
                          FL_OP_SLOT_ROWS | FL_OP_SLOT_ARRAY },
             { "Scope", FL_OP_SLOT_BYPRODUCT | FL_OP_SLOT_ARRAY } },
    .attrs = { { "sub_block", FL_ATTR_BLOCK, "-1" },
               { "is_scalar_condition", FL_ATTR_BOOL, "false" },
               { "skip_eager_deletion_vars", FL_ATTR_STRINGS, "[]" } },
    .flags = FL_OP_EFFECT | FL_OP_REMEMBERS,
    .infer = conditional_block_infer,
    .run = conditional_block_run,
    .back = conditional_block_back,
    .back_uses = FL_USES_IN(COND) | FL_USES_IN(INPUT) | FL_USES_OUT(OUT) |
                 FL_USES_OUT(SCOPE),
    .back_infer = conditional_block_back_infer,
    .cases = conditional_block_cases,
    .n_cases = FL_LEN(conditional_block_cases),
};
