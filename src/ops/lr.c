/* lr.c - the global step, and learning rates that follow it. */
#include "optim/lr.h"

#include "ops/kit.h"

enum { OUT };

static void infer_one(const fl_infer *c, fl_dtype dtype)
{
    fl_infer_dense(c, OUT, dtype, 1, (int64_t[]){ 1 });
}

static fl_status need_one(const fl_infer *c, int slot)
{
    char buf[FL_SLOT_TEXT_MAX];

    if (fl_shape_numel(&fl_infer_in(c, slot)->shape) != 1)
        FL_FAIL(FL_ERR_INVAL, "op %s: %s must have one element",
                c->node->def->name, fl_infer_text(c, slot, buf));
    return FL_OK;
}

static fl_status infer_schedule(const fl_infer *c, int step)
{
    FL_TRY(fl_infer_ids(c, step));
    FL_TRY(need_one(c, step));
    infer_one(c, FL_DTYPE_F32);
    return FL_OK;
}

static int64_t step_of(const fl_op_ctx *c, int slot)
{
    const fl_tensor *t = fl_in_t(c, slot);

    return t->dtype == FL_DTYPE_I32 ? *(const int32_t *)t->data
                                    : *(const int64_t *)t->data;
}

static void give(const fl_op_ctx *c, double rate)
{
    *(float *)fl_out(c, OUT) = (float)rate;
}

/* --- global_step ---------------------------------------------------------- */

static fl_status step_infer(fl_infer *c)
{
    infer_one(c, FL_DTYPE_I64);
    return FL_OK;
}

static fl_status step_run(fl_op_ctx *c)
{
    *(int64_t *)fl_out(c, OUT) = (int64_t)c->step_no;
    return FL_OK;
}

static const fl_op_case step_cases[] = { { .attrs = "{}" } };

const fl_op fl_op_global_step = {
    .name = "global_step",
    .doc = "Out = the number of updates made so far: 0 in the first step",
    .out = { { "Out", 0 } },
    .infer = step_infer,
    .run = step_run,
    .cases = step_cases,
    .n_cases = FL_LEN(step_cases),
};

/* --- lr_exponential_decay ------------------------------------------------- */

enum { STEP };
enum { LEARNING_RATE, DECAY_STEPS, DECAY_RATE, STAIRCASE };

static fl_status exponential_infer(fl_infer *c)
{
    if (fl_int(c, DECAY_STEPS) < 1)
        FL_FAIL(FL_ERR_INVAL,
                "op lr_exponential_decay: decay_steps is %lld, not above 0",
                (long long)fl_int(c, DECAY_STEPS));
    return infer_schedule(c, STEP);
}

static fl_status exponential_run(fl_op_ctx *c)
{
    give(c, fl_lr_exponential(fl_float(c, LEARNING_RATE),
                              (double)fl_int(c, DECAY_STEPS),
                              fl_float(c, DECAY_RATE), fl_bool(c, STAIRCASE),
                              step_of(c, STEP)));
    return FL_OK;
}

static const fl_op_case exponential_cases[] = {
    { .in = { "i64[1] below=50" }, .attrs = "{decay_steps=7}" },
    { .in = { "i64[1] below=50" },
      .attrs = "{learning_rate=0.1, decay_steps=5, decay_rate=0.9, "
               "staircase=true}" },
};

const fl_op fl_op_lr_exponential_decay = {
    .name = "lr_exponential_decay",
    .doc = "Out = learning_rate * decay_rate^(Step / decay_steps); with "
           "staircase the exponent is rounded down",
    .in = { { "Step", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .attrs = { { "learning_rate", FL_ATTR_FLOAT, "1" },
               { "decay_steps", FL_ATTR_INT, "1" },
               { "decay_rate", FL_ATTR_FLOAT, "0.5" },
               { "staircase", FL_ATTR_BOOL, "false" } },
    .infer = exponential_infer,
    .run = exponential_run,
    .cases = exponential_cases,
    .n_cases = FL_LEN(exponential_cases),
};

/* --- lr_piecewise_decay --------------------------------------------------- */

enum { BOUNDARIES, VALUES };

static fl_status piecewise_infer(fl_infer *c)
{
    size_t n, n_values;
    const int64_t *b = fl_attr_ints(c->node, BOUNDARIES, &n);

    fl_attr_floats(c->node, VALUES, &n_values);
    if (n_values != n + 1)
        FL_FAIL(FL_ERR_INVAL,
                "op lr_piecewise_decay: %zu boundaries need %zu values, not "
                "%zu",
                n, n + 1, n_values);
    for (size_t i = 1; i < n; i++)
        if (b[i] <= b[i - 1])
            FL_FAIL(FL_ERR_INVAL,
                    "op lr_piecewise_decay: boundary %lld follows %lld",
                    (long long)b[i], (long long)b[i - 1]);
    return infer_schedule(c, STEP);
}

static fl_status piecewise_run(fl_op_ctx *c)
{
    size_t n, n_values;
    const int64_t *boundaries = fl_attr_ints(c->node, BOUNDARIES, &n);
    const double *values = fl_attr_floats(c->node, VALUES, &n_values);

    give(c, fl_lr_piecewise(boundaries, values, n, step_of(c, STEP)));
    return FL_OK;
}

static const fl_op_case piecewise_cases[] = {
    { .in = { "i64[1] below=50" } },
    { .in = { "i64[1] below=50" },
      .attrs = "{boundaries=[10,30], values=[0.1,0.01,0.001]}" },
};

const fl_op fl_op_lr_piecewise_decay = {
    .name = "lr_piecewise_decay",
    .doc = "Out = values[i], where i counts the boundaries that Step has "
           "reached",
    .in = { { "Step", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .attrs = { { "boundaries", FL_ATTR_INTS, "[]" },
               { "values", FL_ATTR_FLOATS, "[1]" } },
    .infer = piecewise_infer,
    .run = piecewise_run,
    .cases = piecewise_cases,
    .n_cases = FL_LEN(piecewise_cases),
};

/* --- lr_linear_warmup ----------------------------------------------------- */

enum { X, WARMUP_STEP };
enum { WARMUP_STEPS, START_LR, END_LR };

static fl_status warmup_infer(fl_infer *c)
{
    if (fl_int(c, WARMUP_STEPS) < 1)
        FL_FAIL(FL_ERR_INVAL,
                "op lr_linear_warmup: warmup_steps is %lld, not above 0",
                (long long)fl_int(c, WARMUP_STEPS));
    FL_TRY(fl_infer_float(c, X));
    FL_TRY(need_one(c, X));
    return infer_schedule(c, WARMUP_STEP);
}

static fl_status warmup_run(fl_op_ctx *c)
{
    double inner = fl_float_at(fl_in_t(c, X), 0);

    give(c, fl_lr_warmup(inner, (double)fl_int(c, WARMUP_STEPS),
                         fl_float(c, START_LR), fl_float(c, END_LR),
                         step_of(c, WARMUP_STEP)));
    return FL_OK;
}

static const fl_op_case warmup_cases[] = {
    { .in = { "f32[1]", "i64[1] below=15" },
      .attrs = "{warmup_steps=15, start_lr=0.01, end_lr=0.1}" },
    { .in = { "f32[1]", "i64[1] below=50" }, .attrs = "{warmup_steps=1}" },
};

const fl_op fl_op_lr_linear_warmup = {
    .name = "lr_linear_warmup",
    .doc = "Out = start_lr + (end_lr - start_lr) * Step / warmup_steps while "
           "Step is below warmup_steps, then X",
    .in = { { "X", FL_SLOT_NO_GRAD }, { "Step", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .attrs = { { "warmup_steps", FL_ATTR_INT, "1" },
               { "start_lr", FL_ATTR_FLOAT, "0" },
               { "end_lr", FL_ATTR_FLOAT, "1" } },
    .infer = warmup_infer,
    .run = warmup_run,
    .cases = warmup_cases,
    .n_cases = FL_LEN(warmup_cases),
};
