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

/* --- schedules of one step ------------------------------------------------ */

enum { STEP };

/* An operator Step -> Out whose rate is RATE(c, step); CHECK(c) looks at the
   attributes. */
#define SCHEDULE(NAME, DOC, CHECK, RATE, CASES, ...)                           \
    static fl_status NAME##_infer(fl_infer *c)                                 \
    {                                                                          \
        FL_TRY(CHECK(c));                                                      \
        return infer_schedule(c, STEP);                                        \
    }                                                                          \
    static fl_status NAME##_run(fl_op_ctx *c)                                  \
    {                                                                          \
        give(c, RATE(c, step_of(c, STEP)));                                    \
        return FL_OK;                                                          \
    }                                                                          \
    const fl_op fl_op_##NAME = {                                               \
        .name = #NAME,                                                         \
        .doc = DOC,                                                            \
        .in = { { "Step", FL_SLOT_NO_GRAD } },                                 \
        .out = { { "Out", 0 } },                                               \
        .attrs = { __VA_ARGS__ },                                              \
        .infer = NAME##_infer,                                                 \
        .run = NAME##_run,                                                     \
        .cases = CASES,                                                        \
        .n_cases = FL_LEN(CASES),                                              \
    };

/* An attribute that is a number of steps, or divides. */
static fl_status above_zero(const fl_infer *c, int attr)
{
    const fl_attr_def *def = &c->node->def->attrs[attr];
    double v =
        def->type == FL_ATTR_INT ? (double)fl_int(c, attr) : fl_float(c, attr);

    if (!(v > 0))
        FL_FAIL(FL_ERR_INVAL, "op %s: %s is %g, not above 0",
                c->node->def->name, def->name, v);
    return FL_OK;
}

/* --- decay by periods ----------------------------------------------------- */

enum { LEARNING_RATE, DECAY_STEPS, DECAY_RATE, STAIRCASE };

static fl_status check_periods(const fl_infer *c)
{
    return above_zero(c, DECAY_STEPS);
}

static fl_lr_decay periods_of(const fl_op_ctx *c)
{
    return (fl_lr_decay){ .lr = fl_float(c, LEARNING_RATE),
                          .steps = (double)fl_int(c, DECAY_STEPS),
                          .rate = fl_float(c, DECAY_RATE),
                          .staircase = fl_bool(c, STAIRCASE) };
}

static const fl_op_case periods_cases[] = {
    { .in = { "i64[1] below=50" }, .attrs = "{decay_steps=7}" },
    { .in = { "i64[1] below=50" },
      .attrs = "{learning_rate=0.1, decay_steps=5, decay_rate=0.9, "
               "staircase=true}" },
};

#define PERIODS(NAME, DOC, RATE)                                               \
    static double NAME##_rate(const fl_op_ctx *c, int64_t step)                \
    {                                                                          \
        fl_lr_decay d = periods_of(c);                                         \
                                                                               \
        return RATE(&d, step);                                                 \
    }                                                                          \
    SCHEDULE(NAME, DOC "; with staircase Step / decay_steps is rounded down",  \
             check_periods, NAME##_rate, periods_cases,                        \
             { "learning_rate", FL_ATTR_FLOAT, "1" },                          \
             { "decay_steps", FL_ATTR_INT, "1" },                              \
             { "decay_rate", FL_ATTR_FLOAT, "0.5" },                           \
             { "staircase", FL_ATTR_BOOL, "false" })

PERIODS(lr_exponential_decay,
        "Out = learning_rate * decay_rate^(Step / decay_steps)",
        fl_lr_exponential)
PERIODS(lr_natural_exp_decay,
        "Out = learning_rate * exp(-decay_rate * Step / decay_steps)",
        fl_lr_natural_exp)
PERIODS(lr_inverse_time_decay,
        "Out = learning_rate / (1 + decay_rate * Step / decay_steps)",
        fl_lr_inverse_time)

/* --- lr_noam_decay -------------------------------------------------------- */

enum { NOAM_RATE, D_MODEL, NOAM_WARMUP };

static fl_status check_noam(const fl_infer *c)
{
    FL_TRY(above_zero(c, D_MODEL));
    return above_zero(c, NOAM_WARMUP);
}

static double noam_rate(const fl_op_ctx *c, int64_t step)
{
    return fl_lr_noam(fl_float(c, NOAM_RATE), fl_float(c, D_MODEL),
                      fl_float(c, NOAM_WARMUP), step);
}

static const fl_op_case noam_cases[] = {
    { .in = { "i64[1] below=50" } },
    { .in = { "i32[1] below=50" },
      .attrs = "{learning_rate=0.5, d_model=512, warmup_steps=7}" },
};

SCHEDULE(lr_noam_decay,
         "Out = learning_rate * d_model^-0.5 * min(n^-0.5, n * "
         "warmup_steps^-1.5) with n = Step + 1",
         check_noam, noam_rate, noam_cases,
         { "learning_rate", FL_ATTR_FLOAT, "1" },
         { "d_model", FL_ATTR_FLOAT, "1" },
         { "warmup_steps", FL_ATTR_FLOAT, "1" })

/* --- lr_polynomial_decay -------------------------------------------------- */

enum { POLY_RATE, POLY_STEPS, POLY_END, POLY_POWER, POLY_CYCLE };

static fl_status check_polynomial(const fl_infer *c)
{
    FL_TRY(above_zero(c, POLY_POWER));
    return above_zero(c, POLY_STEPS);
}

static double polynomial_rate(const fl_op_ctx *c, int64_t step)
{
    fl_lr_polynomial p = { .lr = fl_float(c, POLY_RATE),
                           .steps = (double)fl_int(c, POLY_STEPS),
                           .end = fl_float(c, POLY_END),
                           .power = fl_float(c, POLY_POWER),
                           .cycle = fl_bool(c, POLY_CYCLE) };

    return fl_lr_polynomial_decay(&p, step);
}

static const fl_op_case polynomial_cases[] = {
    { .in = { "i64[1] below=50" }, .attrs = "{decay_steps=25}" },
    { .in = { "i64[1] below=50" },
      .attrs = "{learning_rate=0.1, decay_steps=7, end_learning_rate=0.001, "
               "power=2}" },
    { .in = { "i64[1] below=50" },
      .attrs = "{learning_rate=0.1, decay_steps=7, cycle=true}" },
};

SCHEDULE(lr_polynomial_decay,
         "Out = (learning_rate - end_learning_rate) * (1 - Step / "
         "decay_steps)^power + end_learning_rate, and end_learning_rate "
         "behind decay_steps; with cycle decay_steps grows to its next "
         "multiple instead",
         check_polynomial, polynomial_rate, polynomial_cases,
         { "learning_rate", FL_ATTR_FLOAT, "1" },
         { "decay_steps", FL_ATTR_INT, "1" },
         { "end_learning_rate", FL_ATTR_FLOAT, "0.0001" },
         { "power", FL_ATTR_FLOAT, "1" }, { "cycle", FL_ATTR_BOOL, "false" })

/* --- lr_cosine_decay ------------------------------------------------------ */

enum { COS_RATE, STEP_EACH_EPOCH, EPOCHS };

static fl_status check_cosine(const fl_infer *c)
{
    FL_TRY(above_zero(c, STEP_EACH_EPOCH));
    return above_zero(c, EPOCHS);
}

static double cosine_rate(const fl_op_ctx *c, int64_t step)
{
    return fl_lr_cosine(fl_float(c, COS_RATE),
                        (double)fl_int(c, STEP_EACH_EPOCH),
                        (double)fl_int(c, EPOCHS), step);
}

static const fl_op_case cosine_cases[] = {
    { .in = { "i64[1] below=50" } },
    { .in = { "i64[1] below=50" },
      .attrs = "{learning_rate=0.1, step_each_epoch=10, epochs=6}" },
};

SCHEDULE(lr_cosine_decay,
         "Out = learning_rate * 0.5 * (cos(pi * floor(Step / step_each_epoch) "
         "/ epochs) + 1)",
         check_cosine, cosine_rate, cosine_cases,
         { "learning_rate", FL_ATTR_FLOAT, "1" },
         { "step_each_epoch", FL_ATTR_INT, "1" },
         { "epochs", FL_ATTR_INT, "1" })

/* --- lr_piecewise_decay --------------------------------------------------- */

enum { BOUNDARIES, VALUES };

static fl_status check_pieces(const fl_infer *c)
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
    return FL_OK;
}

static double piece_rate(const fl_op_ctx *c, int64_t step)
{
    size_t n, n_values;
    const int64_t *boundaries = fl_attr_ints(c->node, BOUNDARIES, &n);
    const double *values = fl_attr_floats(c->node, VALUES, &n_values);

    return fl_lr_piecewise(boundaries, values, n, step);
}

static const fl_op_case piecewise_cases[] = {
    { .in = { "i64[1] below=50" } },
    { .in = { "i64[1] below=50" },
      .attrs = "{boundaries=[10,30], values=[0.1,0.01,0.001]}" },
};

SCHEDULE(lr_piecewise_decay,
         "Out = values[i], where i counts the boundaries that Step has reached",
         check_pieces, piece_rate, piecewise_cases,
         { "boundaries", FL_ATTR_INTS, "[]" },
         { "values", FL_ATTR_FLOATS, "[1]" })

/* --- lr_linear_warmup ----------------------------------------------------- */

enum { X, WARMUP_STEP };
enum { WARMUP_STEPS, START_LR, END_LR };

static fl_status warmup_infer(fl_infer *c)
{
    FL_TRY(above_zero(c, WARMUP_STEPS));
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
