/* recurrent.c - a block of the program that runs for each step of sequences of
 * one length.
 *
 * Inputs are cut along their first dimension, which is the steps; inside, a
 * slice has the name of the whole. A state goes from step to step: ex_states
 * name what a step finds of it, states what it makes of it. What a step makes of
 * the outputs is put together along a new first dimension.
 *
 * Where somebody reads step_scopes, it holds the states as each step found
 * them. Back goes through the steps from the last to the first and runs the
 * block again, with its gradients behind it.
 */
#include <inttypes.h>

#include "ops/arrays.h"
#include "ops/blocks.h"
#include "ops/helpers.h"

enum { INPUTS, INITIAL_STATES, PARAMETERS };
enum { OUTPUTS, STEP_SCOPES };
enum { SUB_BLOCK, HAS_STATES, EX_STATES, STATES, REVERSE, IS_TRAIN, SKIP };

/* --- what the block knows things as ---------------------------------------- */

/* Variables of the block by what they are: [inputs, ex_states, parameters] go
   in, [states, outputs] come out. */
typedef struct frame {
    fl_op_ctx *c;
    const fl_block *block;
    fl_block_call call;
    fl_args in_vars, out_vars;
    fl_targs in, dout, din;
    int n_inputs, n_states, n_params, n_outputs;
    int64_t n_steps;
    fl_tensor *slices; /* of the inputs, and of the outputs' gradients */
    fl_array *states;  /* as the step at hand finds them; in back, gradients */
    fl_array *zeros;
} frame;

static fl_status find_var(const fl_op_node *n, const fl_block *b,
                          const char *name, fl_var **out)
{
    *out = fl_block_find_var(b, name);
    if (!*out)
        FL_FAIL(FL_ERR_INVAL, "op %s: block %d has no variable %s",
                fl_node_type(n), b->index, name);
    return FL_OK;
}

static fl_status list_names(const frame *f, const fl_args *args, fl_var **to)
{
    for (int i = 0; i < args->n; i++)
        FL_TRY(find_var(f->c->node, f->block, args->vars[i]->name, &to[i]));
    return FL_OK;
}

static fl_status list_attr(const frame *f, int attr, fl_var **to)
{
    size_t n;
    const char *const *names = fl_attr_strings(f->c->node, attr, &n);

    for (size_t i = 0; i < n; i++)
        FL_TRY(find_var(f->c->node, f->block, names[i], &to[i]));
    return FL_OK;
}

static fl_status list_vars(frame *f)
{
    const fl_op_node *n = f->c->node;
    fl_var **in = f->in_vars.vars, **out = f->out_vars.vars;

    FL_TRY(list_names(f, &n->in[INPUTS], in));
    FL_TRY(list_attr(f, EX_STATES, in + f->n_inputs));
    FL_TRY(list_names(f, &n->in[PARAMETERS], in + f->n_inputs + f->n_states));
    FL_TRY(list_attr(f, STATES, out));
    return list_names(f, fl_out_vars(n, OUTPUTS), out + f->n_states);
}

static void *scratch_zeros(fl_op_ctx *c, size_t n, size_t size)
{
    void *p = fl_scratch(c, (n + 1) * size);

    if (p)
        memset(p, 0, (n + 1) * size);
    return p;
}

static fl_status frame_lists(frame *f)
{
    int n_in = f->n_inputs + f->n_states + f->n_params;
    int n_out = f->n_states + f->n_outputs;
    fl_op_ctx *c = f->c;

    f->in_vars =
        (fl_args){ scratch_zeros(c, (size_t)n_in, sizeof(fl_var *)), n_in };
    f->out_vars =
        (fl_args){ scratch_zeros(c, (size_t)n_out, sizeof(fl_var *)), n_out };
    f->in =
        (fl_targs){ scratch_zeros(c, (size_t)n_in, sizeof(fl_tensor *)), n_in };
    f->din =
        (fl_targs){ scratch_zeros(c, (size_t)n_in, sizeof(fl_tensor *)), n_in };
    f->dout = (fl_targs){ scratch_zeros(c, (size_t)n_out, sizeof(fl_tensor *)),
                          n_out };
    f->slices = scratch_zeros(c, (size_t)f->n_inputs + (size_t)f->n_outputs,
                              sizeof(fl_tensor));
    if (!f->in_vars.vars || !f->out_vars.vars || !f->in.t || !f->din.t ||
        !f->dout.t || !f->slices)
        return FL_NOMEM(c);
    return list_vars(f);
}

static fl_status frame_init(frame *f, fl_op_ctx *c)
{
    const fl_op_node *n = c->node;

    f->c = c;
    f->block = fl_block_of(n, SUB_BLOCK);
    f->n_inputs = n->in[INPUTS].n;
    f->n_states = n->in[INITIAL_STATES].n;
    f->n_params = n->in[PARAMETERS].n;
    f->n_outputs = fl_out_vars(n, OUTPUTS)->n;
    f->n_steps = fl_in_at(c, INPUTS, 0)->shape.dim[0];
    f->states = fl_array_new();
    f->zeros = fl_array_new();
    FL_TRY(frame_lists(f));
    f->call = (fl_block_call){ .block = f->block->index,
                               .in_vars = &f->in_vars,
                               .in = &f->in,
                               .out_vars = &f->out_vars };
    return FL_OK;
}

static void frame_release(frame *f)
{
    fl_array_free(f->states);
    fl_array_free(f->zeros);
}

/* --- one step ------------------------------------------------------------- */

/* Step t of a whole, without the first dimension. */
static fl_tensor slice_of(const fl_tensor *whole, int64_t t)
{
    fl_tensor s = { .size = sizeof(s), .dtype = whole->dtype };
    size_t bytes = (size_t)fl_shape_count(&whole->shape, 1, whole->shape.rank) *
                   fl_dtype_bytes(whole->dtype);

    s.shape = fl_shape_of(whole->shape.rank - 1, whole->shape.dim + 1);
    s.data = (char *)whole->data + (size_t)t * bytes;
    return s;
}

/* Steps are numbered as they run. */
static int64_t place_of(const frame *f, int64_t step)
{
    return fl_attr_bool(f->c->node, REVERSE) ? f->n_steps - 1 - step : step;
}

static void feed_inputs(frame *f, int64_t step)
{
    int64_t t = place_of(f, step);

    for (int i = 0; i < f->n_inputs; i++) {
        f->slices[i] = slice_of(fl_in_at(f->c, INPUTS, i), t);
        f->in.t[i] = &f->slices[i];
    }
    for (int i = 0; i < f->n_params; i++)
        f->in.t[f->n_inputs + f->n_states + i] =
            (fl_tensor *)fl_in_at(f->c, PARAMETERS, i);
    f->call.lap = (uint64_t)step;
}

/* --- infer ---------------------------------------------------------------- */

static fl_status check_steps(const fl_infer *c)
{
    const fl_tensor *first = fl_infer_in_at(c, INPUTS, 0);

    for (int i = 0; i < fl_infer_n_in(c, INPUTS); i++) {
        const fl_tensor *x = fl_infer_in_at(c, INPUTS, i);

        if (x->shape.rank < 1)
            FL_FAIL(FL_ERR_INVAL, "op recurrent: inputs[%d] has no steps", i);
        if (c->running && x->shape.dim[0] != first->shape.dim[0])
            FL_FAIL(FL_ERR_INVAL,
                    "op recurrent: inputs[%d] has %" PRId64 " steps, and "
                    "inputs[0] %" PRId64,
                    i, x->shape.dim[0], first->shape.dim[0]);
    }
    return FL_OK;
}

static fl_status check_states(const fl_infer *c)
{
    size_t n_ex, n;

    fl_attr_strings(c->node, EX_STATES, &n_ex);
    fl_attr_strings(c->node, STATES, &n);
    if (n_ex != n || (int)n != fl_infer_n_in(c, INITIAL_STATES))
        FL_FAIL(FL_ERR_INVAL,
                "op recurrent: %zu ex_states, %zu states and %d "
                "initial_states must be equally many",
                n_ex, n, fl_infer_n_in(c, INITIAL_STATES));
    return FL_OK;
}

static fl_status recurrent_infer(fl_infer *c)
{
    fl_tensor *scopes = fl_infer_out(c, STEP_SCOPES);

    FL_TRY(fl_infer_block(c, SUB_BLOCK));
    FL_TRY(check_steps(c));
    FL_TRY(check_states(c));
    FL_TRY(fl_infer_declared(c, OUTPUTS));
    fl_infer_dense(c, STEP_SCOPES, FL_DTYPE_U8, 1, (int64_t[]){ 0 });
    if (scopes)
        scopes->kind = FL_KIND_ARRAY;
    return FL_OK;
}

/* --- run ------------------------------------------------------------------ */

static fl_status begin_states(frame *f)
{
    for (int i = 0; i < f->n_states; i++)
        FL_TRY(fl_array_put(f->states, (size_t)i,
                            fl_in_at(f->c, INITIAL_STATES, i)));
    return FL_OK;
}

static void feed_states(frame *f, const fl_array *from, size_t at)
{
    for (int i = 0; i < f->n_states; i++)
        f->in.t[f->n_inputs + i] =
            (fl_tensor *)fl_array_at(from, at + (size_t)i);
}

/* Output i of a step goes to its place in the whole, which the first step that
   runs makes room for. */
static fl_status put_output(frame *f, int i, int64_t step)
{
    const fl_tensor *got = f->call.results[f->n_states + i];
    fl_tensor *out = fl_out_at(f->c, OUTPUTS, i), slice;
    size_t bytes;

    if (!got)
        return FL_OK;
    if (step == 0) {
        out->dtype = got->dtype;
        out->shape.rank = got->shape.rank + 1;
        out->shape.dim[0] = f->n_steps;
        for (int d = 0; d < got->shape.rank; d++)
            out->shape.dim[d + 1] = got->shape.dim[d];
        FL_TRY(f->c->blocks->place(f->c->blocks, out));
    }
    slice = slice_of(out, place_of(f, step));
    if (!fl_shape_equal(&slice.shape, &got->shape))
        FL_FAIL(FL_ERR_INVAL,
                "op recurrent: %s has another shape in step %" PRId64
                " than in the first",
                f->out_vars.vars[f->n_states + i]->name, step);
    FL_TRY(fl_tensor_bytes(got, &bytes));
    if (bytes)
        memcpy(slice.data, got->data, bytes);
    return FL_OK;
}

static fl_status take_step(frame *f, int64_t step)
{
    for (int i = 0; i < f->n_outputs; i++)
        FL_TRY(put_output(f, i, step));
    for (int i = 0; i < f->n_states; i++)
        if (f->call.results[i])
            FL_TRY(fl_array_put(f->states, (size_t)i, f->call.results[i]));
    return FL_OK;
}

static fl_status run_steps(frame *f)
{
    bool remembers = fl_is_read_later(f->c->node, STEP_SCOPES);
    fl_array *seen =
        remembers ? fl_array_of(fl_out_t(f->c, STEP_SCOPES)) : NULL;

    if (remembers)
        fl_array_clear(seen);
    FL_TRY(begin_states(f));
    for (int64_t step = 0; step < f->n_steps; step++) {
        for (int i = 0; i < f->n_states && remembers; i++)
            fl_array_share(seen, fl_array_len(seen), f->states, (size_t)i);
        feed_inputs(f, step);
        feed_states(f, f->states, 0);
        FL_TRY(fl_block_run(f->c, &f->call, f->out_vars.n));
        FL_TRY(take_step(f, step));
    }
    return FL_OK;
}

static fl_status recurrent_run(fl_op_ctx *c)
{
    frame f = { 0 };
    fl_status st = frame_init(&f, c);

    if (!st)
        st = run_steps(&f);
    frame_release(&f);
    return st;
}

/* --- back ----------------------------------------------------------------- */

/* The gradient that is wanted of entry i of what goes in; NULL: none. */
static fl_tensor *wanted(const frame *f, int i)
{
    if (i < f->n_inputs)
        return fl_din_at(f->c, INPUTS, i);
    i -= f->n_inputs;
    if (i < f->n_states)
        return fl_din_at(f->c, INITIAL_STATES, i);
    return fl_din_at(f->c, PARAMETERS, i - f->n_states);
}

static bool is_smooth(const fl_var *v)
{
    return fl_dtype_is_float(v->meta.dtype) && !(v->flags & FL_VAR_STOP_GRAD);
}

static void begin_back(frame *f)
{
    for (int i = 0; i < f->in_vars.n; i++) {
        bool is_state = i >= f->n_inputs && i < f->n_inputs + f->n_states;

        if (wanted(f, i))
            fl_grad_clear(f->c, wanted(f, i));
        if (wanted(f, i) || (is_state && is_smooth(f->in_vars.vars[i])))
            f->din.t[i] = &f->slices[0]; /* any: it is wanted */
    }
    f->call.din = &f->din;
    f->call.dout = &f->dout;
}

/* Gradients behind a step: of its states from the step after it, and of its
   outputs from outside. */
static fl_status feed_gradients(frame *f, int64_t step, const fl_array *seen)
{
    const fl_op_node *n = f->c->node;
    const fl_targs *came = &f->c->in[fl_op_n_in(n->def) + fl_op_n_out(n->def)];

    for (int i = 0; i < f->n_states; i++) {
        const fl_tensor *like =
            fl_array_at(seen, (size_t)(step * f->n_states + i));
        fl_tensor *t = (fl_tensor *)fl_array_at(f->states, (size_t)i);

        if (!t && is_smooth(f->out_vars.vars[i])) {
            FL_TRY(fl_array_make(f->zeros, (size_t)i, like, &t));
            fl_grad_clear(f->c, t);
        }
        f->dout.t[i] = t;
    }
    for (int i = 0; i < came->n; i++)
        if (came->t[i]) {
            f->slices[f->n_inputs + i] =
                slice_of(came->t[i], place_of(f, step));
            f->dout.t[f->n_states + i] = &f->slices[f->n_inputs + i];
        }
    return FL_OK;
}

static fl_status take_gradients(frame *f, int64_t step)
{
    for (int i = 0; i < f->in_vars.n; i++) {
        const fl_tensor *got = f->call.results[i];
        int state = i - f->n_inputs;
        fl_tensor slice;

        if (state >= 0 && state < f->n_states) {
            fl_array_drop(f->states, (size_t)state);
            if (got)
                FL_TRY(fl_array_put(f->states, (size_t)state, got));
        } else if (got && wanted(f, i) && state < 0) {
            slice = slice_of(wanted(f, i), place_of(f, step));
            FL_TRY(fl_grad_add(&slice, got));
        } else if (got && wanted(f, i)) {
            FL_TRY(fl_grad_add(wanted(f, i), got));
        }
    }
    return FL_OK;
}

static fl_status back_steps(frame *f)
{
    const fl_array *seen = fl_array_of(fl_saved_out_t(f->c, STEP_SCOPES));

    begin_back(f);
    for (int64_t step = f->n_steps; step-- > 0;) {
        feed_inputs(f, step);
        feed_states(f, seen, (size_t)(step * f->n_states));
        FL_TRY(feed_gradients(f, step, seen));
        FL_TRY(fl_block_run(f->c, &f->call, f->in_vars.n));
        FL_TRY(take_gradients(f, step));
    }
    for (int i = 0; i < f->n_states; i++) {
        const fl_tensor *left = fl_array_at(f->states, (size_t)i);

        if (left && fl_din_at(f->c, INITIAL_STATES, i))
            FL_TRY(fl_grad_add(fl_din_at(f->c, INITIAL_STATES, i), left));
    }
    return FL_OK;
}

static fl_status recurrent_back(fl_op_ctx *c)
{
    frame f = { 0 };
    fl_status st = frame_init(&f, c);

    if (!st)
        st = back_steps(&f);
    frame_release(&f);
    return st;
}

static fl_status recurrent_back_infer(fl_infer *c)
{
    return fl_back_needs(c, STEP_SCOPES);
}

/* tests/api runs blocks. */
static const fl_op_case recurrent_cases[] = {
    { .in = { "f32[0,3,2]", NULL, NULL, "f32[0,3,2]" },
      .attrs = "{sub_block=1}" },
};

const fl_op fl_op_recurrent = {
    .name = "recurrent",
    .doc = "runs block sub_block for each step of the inputs, their first "
           "dimension, from the end when reverse is true. A step finds its "
           "slice of each input under the name of the whole, and in ex_states "
           "what the step before made of the states, or initial_states; "
           "outputs are put together along a new first dimension",
    .in = { { "inputs", FL_OP_SLOT_LIST },
            { "initial_states", FL_OP_SLOT_LIST | FL_OP_SLOT_OPTIONAL },
            { "parameters", FL_OP_SLOT_LIST | FL_OP_SLOT_OPTIONAL } },
    .out = { { "outputs", FL_OP_SLOT_LIST },
             { "step_scopes", FL_OP_SLOT_BYPRODUCT | FL_OP_SLOT_ARRAY } },
    .attrs = { { "sub_block", FL_ATTR_BLOCK, "-1" },
               { "has_states", FL_ATTR_BOOL, "false" },
               { "ex_states", FL_ATTR_STRINGS, "[]" },
               { "states", FL_ATTR_STRINGS, "[]" },
               { "reverse", FL_ATTR_BOOL, "false" },
               { "is_train", FL_ATTR_BOOL, "true" },
               { "skip_eager_deletion_vars", FL_ATTR_STRINGS, "[]" } },
    .flags = FL_OP_EFFECT,
    .infer = recurrent_infer,
    .run = recurrent_run,
    .back = recurrent_back,
    .back_infer = recurrent_back_infer,
    .back_uses = FL_USES_IN(INPUTS) | FL_USES_IN(INITIAL_STATES) |
                 FL_USES_IN(PARAMETERS) | FL_USES_OUT(OUTPUTS) |
                 FL_USES_OUT(STEP_SCOPES),
    .cases = recurrent_cases,
    .n_cases = FL_LEN(recurrent_cases),
};

/* --- rnn_memory_helper ---------------------------------------------------- */

enum { HELPER_X };
enum { HELPER_OUT };

static fl_status rnn_memory_helper_infer(fl_infer *c)
{
    fl_tensor_like(fl_infer_out(c, HELPER_OUT), fl_infer_in(c, HELPER_X));
    return FL_OK;
}

static fl_status rnn_memory_helper_run(fl_op_ctx *c)
{
    fl_share_copy(c, fl_out_t(c, HELPER_OUT), fl_in_t(c, HELPER_X));
    return FL_OK;
}

static fl_status rnn_memory_helper_back(fl_op_ctx *c)
{
    if (fl_din_t(c, HELPER_X))
        fl_share_copy(c, fl_din_t(c, HELPER_X), fl_dout_t(c, HELPER_OUT));
    return FL_OK;
}

static const fl_op_case rnn_memory_helper_cases[] = {
    { .in = { "f32[33,7]" } },
    { .in = { "f32[0,7]" } },
};

const fl_op fl_op_rnn_memory_helper = {
    .name = "rnn_memory_helper",
    .doc = "Out = X: a state or an output of a step under a name of its own",
    .in = { { "X", 0 } },
    .out = { { "Out", 0 } },
    .attrs = { { "dtype", FL_ATTR_STRING, "float32" } },
    .flags = FL_OP_INPLACE,
    .infer = rnn_memory_helper_infer,
    .run = rnn_memory_helper_run,
    .back = rnn_memory_helper_back,
    .cases = rnn_memory_helper_cases,
    .n_cases = FL_LEN(rnn_memory_helper_cases),
};
