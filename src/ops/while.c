/* while.c - a block of the program that runs as long as a condition holds.
 *
 * The variables that it changes are in X, with their values before the first
 * lap, and in Out, with those after the last; they are the same variables. A lap
 * is one run of the block.
 *
 * Where somebody reads StepScopes, it holds the condition and the values of the
 * changed variables as each lap found them, lap after lap. Back goes through the laps from the
 * last to the first: it runs the block again on what that lap found, with its
 * gradients behind it. What a lap gives for a variable that it changed is what
 * the lap before gets; for others the laps are added up.
 */
#include <stdatomic.h>

#include "base/interrupt.h"
#include "ops/blocks.h"
#include "ops/helpers.h"
#include "ops/values.h"
#include "tensor/array.h"

enum { X, CONDITION };
enum { OUT, STEP_SCOPES };
enum { SUB_BLOCK, IS_TEST, SKIP_EAGER_DELETION_VARS };

static fl_status while_infer(fl_infer *c)
{
    const fl_tensor *t = fl_infer_in(c, CONDITION);
    fl_tensor *scopes = fl_infer_out(c, STEP_SCOPES);
    char buf[FL_SLOT_TEXT_MAX];

    if (t->dtype != FL_DTYPE_BOOL || !fl_is_one(t))
        FL_FAIL(FL_ERR_INVAL, "op while: %s must hold one bool",
                fl_infer_text(c, CONDITION, buf));
    FL_TRY(fl_infer_block(c, SUB_BLOCK));
    FL_TRY(fl_infer_declared(c, OUT));
    fl_infer_dense(c, STEP_SCOPES, FL_DTYPE_U8, 1, (int64_t[]){ 0 });
    if (scopes)
        scopes->kind = FL_KIND_ARRAY;
    return FL_OK;
}

/* --- what laps change ----------------------------------------------------- */

static int find_var(const fl_args *args, const fl_var *v)
{
    for (int i = 0; i < args->n; i++)
        if (args->vars[i] == v)
            return i;
    return -1;
}

/* Where entry i of X is in Out; -1 when laps do not change it, or change it in
   the scope. */
static int changed(const fl_op_node *n, int i)
{
    const fl_var *v = n->in[X].vars[i];

    return v->flags & FL_VAR_PERSIST ? -1 : find_var(fl_out_vars(n, OUT), v);
}

static int count_changed(const fl_op_node *n)
{
    int count = 0;

    for (int i = 0; i < n->in[X].n; i++)
        count += changed(n, i) >= 0;
    return count;
}

static fl_status remember(const fl_op_ctx *c)
{
    fl_array *laps = fl_array_of(fl_out_t(c, STEP_SCOPES));

    FL_TRY(fl_array_put(laps, fl_array_len(laps), fl_in_t(c, CONDITION)));
    for (int i = 0; i < fl_n_in(c, X); i++)
        if (changed(c->node, i) >= 0)
            FL_TRY(fl_array_put(laps, fl_array_len(laps), fl_in_at(c, X, i)));
    return FL_OK;
}

/* --- run ------------------------------------------------------------------ */

static fl_block_call call_of(const fl_op_ctx *c)
{
    return (fl_block_call){
        .block = (int)fl_attr_block(c->node, SUB_BLOCK),
        .in_vars = &c->node->in[X],
        .in = &c->in[X],
        .out_vars = fl_out_vars(c->node, OUT),
    };
}

static bool holds(const fl_op_ctx *c)
{
    return *(const bool *)fl_in(c, CONDITION);
}

static fl_status run_lap(fl_op_ctx *c, fl_block_call *call, bool remembers)
{
    if (remembers)
        FL_TRY(remember(c));
    FL_TRY(fl_block_run(c, call, fl_n_out(c, OUT)));
    for (int i = 0; i < fl_n_out(c, OUT); i++)
        if (call->results[i])
            FL_TRY(fl_out_become(c, fl_out_at(c, OUT, i), call->results[i]));
    return FL_OK;
}

static void stop_laps(void *arg)
{
    atomic_store((atomic_bool *)arg, true);
}

/* Laps may have no end: they can be interrupted between two of them. */
static fl_status while_run(fl_op_ctx *c)
{
    fl_block_call call = call_of(c);
    bool remembers = fl_is_read_later(c->node, STEP_SCOPES);
    atomic_bool is_stopped = false;
    fl_interruptible me = { .kind = FL_INTERRUPT_SOON,
                            .stop = stop_laps,
                            .arg = &is_stopped };
    fl_status st = FL_OK;

    call.kept = &c->out[OUT];
    fl_out_begin(c, OUT);
    if (remembers)
        fl_array_clear(fl_array_of(fl_out_t(c, STEP_SCOPES)));
    fl_interruptible_enter(&me);
    for (; !st && holds(c); call.lap++)
        st = atomic_load(&is_stopped) ? fl_interrupted("a loop (op while)")
                                      : run_lap(c, &call, remembers);
    fl_interruptible_leave(&me);
    return st;
}

/* --- back ----------------------------------------------------------------- */

/* One walk from the last lap to the first. */
typedef struct walk {
    fl_op_ctx *c;
    fl_block_call call;
    const fl_array *laps;
    size_t n_laps;
    int n_x, n_out;
    size_t stride;          /* values that are remembered of a lap */
    fl_array *grads;        /* of Out's entries, behind the lap at hand */
    fl_array *spare;        /* zeros for those that have none */
    fl_targs in, dout, din; /* of the call */
} walk;

static bool is_smooth(const fl_var *v)
{
    return fl_dtype_is_float(v->meta.dtype) && !(v->flags & FL_VAR_STOP_GRAD);
}

static fl_tensor **scratch_list(fl_op_ctx *c, int n)
{
    fl_tensor **t = fl_scratch(c, ((size_t)n + 1) * sizeof(*t));

    if (t)
        memset(t, 0, ((size_t)n + 1) * sizeof(*t));
    return t;
}

static fl_status walk_init(walk *w, fl_op_ctx *c)
{
    const fl_op_node *n = c->node;

    w->c = c;
    w->call = call_of(c);
    w->laps = fl_array_of(fl_saved_out_t(c, STEP_SCOPES));
    w->n_x = fl_n_in(c, X);
    w->n_out = fl_out_vars(n, OUT)->n;
    w->stride = (size_t)count_changed(n) + 1;
    w->n_laps = fl_array_len(w->laps) / w->stride;
    w->in = (fl_targs){ scratch_list(c, w->n_x), w->n_x };
    w->din = (fl_targs){ scratch_list(c, w->n_x), w->n_x };
    w->dout = (fl_targs){ scratch_list(c, w->n_out), w->n_out };
    if (!w->in.t || !w->din.t || !w->dout.t)
        return FL_NOMEM(c);
    w->call.in = &w->in;
    w->call.din = &w->din;
    w->call.dout = &w->dout;
    w->grads = fl_array_new();
    w->spare = fl_array_new();
    return FL_OK;
}

static void walk_release(walk *w)
{
    fl_array_free(w->grads);
    fl_array_free(w->spare);
}

/* Gradients as they came, and the inputs whose gradients laps pass on or
   give. */
static fl_status walk_begin(walk *w)
{
    const fl_op_node *n = w->c->node;
    const fl_targs *came = &w->c->in[fl_op_n_in(n->def) + fl_op_n_out(n->def)];

    for (int k = 0; k < came->n; k++)
        if (came->t[k])
            FL_TRY(fl_array_put(w->grads, (size_t)k, came->t[k]));
    for (int i = 0; i < w->n_x; i++) {
        const fl_var *v = n->in[X].vars[i];

        if (is_smooth(v) && (changed(n, i) >= 0 || fl_din_at(w->c, X, i)))
            w->din.t[i] = (fl_tensor *)fl_in_at(w->c, X, i);
        if (fl_din_at(w->c, X, i) && changed(n, i) < 0)
            fl_grad_clear(w->c, fl_din_at(w->c, X, i));
    }
    return FL_OK;
}

/* The value of entry k of Out behind a lap. */
static const fl_tensor *value_behind(const walk *w, size_t lap, int k)
{
    const fl_op_node *n = w->c->node;
    size_t at = (lap + 1) * w->stride + 1;

    if (lap + 1 < w->n_laps)
        for (int i = 0; i < w->n_x; i++) {
            int out = changed(n, i);

            if (out == k)
                return fl_array_at(w->laps, at);
            at += out >= 0;
        }
    return w->c->in[fl_op_n_in(n->def) + OUT].t[k];
}

static fl_status zeros_like(walk *w, int k, const fl_tensor *like)
{
    fl_tensor *t;

    FL_TRY(fl_array_make(w->spare, (size_t)k, like, &t));
    fl_grad_clear(w->c, t);
    w->dout.t[k] = t;
    return FL_OK;
}

static fl_status feed_lap(walk *w, size_t lap)
{
    const fl_op_node *n = w->c->node;
    size_t at = lap * w->stride + 1;

    for (int i = 0; i < w->n_x; i++)
        w->in.t[i] =
            (fl_tensor *)(changed(n, i) >= 0 ? fl_array_at(w->laps, at++)
                                             : fl_in_at(w->c, X, i));
    for (int k = 0; k < w->n_out; k++) {
        const fl_var *v = fl_out_vars(n, OUT)->vars[k];

        w->dout.t[k] = (fl_tensor *)fl_array_at(w->grads, (size_t)k);
        if (!w->dout.t[k] && is_smooth(v) && !(v->flags & FL_VAR_PERSIST))
            FL_TRY(zeros_like(w, k, value_behind(w, lap, k)));
    }
    w->call.lap = lap;
    return FL_OK;
}

static fl_status take_lap(walk *w)
{
    const fl_op_node *n = w->c->node;

    for (int k = 0; k < w->n_out; k++)
        fl_array_drop(w->grads, (size_t)k);
    for (int i = 0; i < w->n_x; i++) {
        const fl_tensor *got = w->call.results[i];
        int k = changed(n, i);

        if (!got)
            continue;
        if (k >= 0)
            FL_TRY(fl_array_put(w->grads, (size_t)k, got));
        else if (fl_din_at(w->c, X, i))
            FL_TRY(fl_grad_add(fl_din_at(w->c, X, i), got));
    }
    return FL_OK;
}

/* What is left of the changed ones goes to their first values. */
static fl_status walk_end(const walk *w)
{
    const fl_op_node *n = w->c->node;
    size_t at = 1;

    for (int i = 0; i < w->n_x; i++) {
        int k = changed(n, i);
        const fl_tensor *got;
        fl_tensor *to = fl_din_at(w->c, X, i);

        if (k < 0)
            continue;
        got = fl_array_at(w->grads, (size_t)k);
        if (to && !got) {
            fl_tensor_like(to, w->n_laps ? fl_array_at(w->laps, at)
                                         : fl_in_at(w->c, X, i));
            if (to->kind != FL_KIND_ARRAY)
                FL_TRY(w->c->blocks->place(w->c->blocks, to));
            fl_grad_clear(w->c, to);
        } else if (to) {
            FL_TRY(fl_out_become(w->c, to, got));
        }
        at++;
    }
    return FL_OK;
}

static fl_status walk_back(walk *w)
{
    FL_TRY(walk_begin(w));
    for (size_t lap = w->n_laps; lap-- > 0;) {
        FL_TRY(feed_lap(w, lap));
        FL_TRY(fl_block_run(w->c, &w->call, w->n_x));
        FL_TRY(take_lap(w));
    }
    return walk_end(w);
}

static fl_status while_back(fl_op_ctx *c)
{
    walk w = { 0 };
    fl_status st = walk_init(&w, c);

    if (!st)
        st = walk_back(&w);
    walk_release(&w);
    return st;
}

static fl_status while_back_infer(fl_infer *c)
{
    if (fl_bool(c, IS_TEST))
        FL_FAIL(FL_ERR_INVAL, "op while: with is_test=true a loop has no "
                              "gradient; leave it out for training");
    return fl_back_needs(c, STEP_SCOPES);
}

/* Of a loop that makes no lap; tests/api runs those that do. */
static const fl_op_case while_cases[] = {
    { .in = { "f32[3,2]", "bool[1] is=[0]", "f32[3,2]" },
      .attrs = "{sub_block=1}" },
};

const fl_op fl_op_while = {
    .name = "while",
    .doc = "runs block sub_block as long as Condition, one bool, is true. X "
           "lists what the block reads of outer blocks, Out what it writes "
           "there; a variable in both goes from lap to lap. StepScopes holds "
           "what each lap found of these, where a gradient needs it",
    .in = { { "X", FL_OP_SLOT_LIST | FL_OP_SLOT_OPTIONAL | FL_OP_SLOT_ROWS |
                       FL_OP_SLOT_ARRAY | FL_OP_SLOT_UNSET },
            { "Condition", FL_SLOT_NO_GRAD } },
    .out = { { "Out", FL_OP_SLOT_LIST | FL_OP_SLOT_STATE | FL_OP_SLOT_OPTIONAL |
                          FL_OP_SLOT_ROWS | FL_OP_SLOT_ARRAY },
             { "StepScopes", FL_OP_SLOT_BYPRODUCT | FL_OP_SLOT_ARRAY } },
    .attrs = { { "sub_block", FL_ATTR_BLOCK, "-1" },
               { "is_test", FL_ATTR_BOOL, "false" },
               { "skip_eager_deletion_vars", FL_ATTR_STRINGS, "[]" } },
    .flags = FL_OP_EFFECT | FL_OP_REMEMBERS,
    .infer = while_infer,
    .run = while_run,
    .back = while_back,
    .back_infer = while_back_infer,
    .back_uses = FL_USES_IN(X) | FL_USES_OUT(OUT) | FL_USES_OUT(STEP_SCOPES),
    .cases = while_cases,
    .n_cases = FL_LEN(while_cases),
};
