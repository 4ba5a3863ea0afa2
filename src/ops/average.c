/* average.c - averages of parameters over the updates, for evaluation.
 *
 * moving_average forgets exponentially. Its weight is what the decays leave of
 * the first, empty value: Average / Weight is free of that value, however the
 * decay has changed.
 *
 * average_accumulates adds parameters up over a window that grows with the
 * number of updates. When it is full its sum becomes the old one, which counts
 * until the next is full. Every SUM_MAX updates the sum is set aside, so that
 * small numbers are not added to large ones for ever.
 *
 * Hogwild threads run both on shared weights.
 */
#include <math.h>

#include "base/thread.h"
#include "ops/kit.h"

/* --- moving_average ------------------------------------------------------- */

enum { X, AVERAGE, WEIGHT };
enum { AVERAGE_OUT, WEIGHT_OUT };
enum { DECAY, THRES_STEPS };

#define KERNELS(T, t)                                                          \
    FL_RACY                                                                    \
    static void blend_##t(T *out, const T *old, const T *x, double decay,      \
                          size_t n)                                            \
    {                                                                          \
        const T keep = (T)decay, take = (T)(1 - decay);                        \
                                                                               \
        for (size_t i = 0; i < n; i++)                                         \
            out[i] = keep * old[i] + take * x[i];                              \
    }                                                                          \
    FL_RACY                                                                    \
    static void add_##t(T *out, const T *a, const T *b, size_t n)              \
    {                                                                          \
        for (size_t i = 0; i < n; i++)                                         \
            out[i] = a[i] + b[i];                                              \
    }                                                                          \
    FL_RACY                                                                    \
    static void clear_##t(T *out, const T *x, size_t n)                        \
    {                                                                          \
        (void)x;                                                               \
        for (size_t i = 0; i < n; i++)                                         \
            out[i] = 0;                                                        \
    }
FL_FLOATS(KERNELS)

static fl_status check_like(const fl_infer *c, int slot, int of)
{
    const fl_tensor *t = fl_infer_in(c, slot), *x = fl_infer_in(c, of);
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    if (t->dtype != x->dtype || !fl_shape_matches(&t->shape, &x->shape))
        FL_FAIL(FL_ERR_INVAL, "op %s: %s must be like %s", c->node->def->name,
                fl_infer_text(c, slot, a), fl_infer_text(c, of, b));
    return FL_OK;
}

static fl_status check_one(const fl_infer *c, int slot, fl_dtype dtype)
{
    const fl_tensor *t = fl_infer_in(c, slot);
    char buf[FL_SLOT_TEXT_MAX];

    if (t->dtype != dtype || fl_shape_numel(&t->shape) != 1)
        FL_FAIL(FL_ERR_INVAL, "op %s: %s must be one number of type %s",
                c->node->def->name, fl_infer_text(c, slot, buf),
                fl_dtype_text(dtype));
    return FL_OK;
}

static fl_status moving_infer(fl_infer *c)
{
    double decay = fl_float(c, DECAY);

    FL_TRY(fl_infer_float(c, X));
    FL_TRY(check_like(c, AVERAGE, X));
    FL_TRY(check_one(c, WEIGHT, fl_infer_in(c, X)->dtype));
    if (!(decay >= 0 && decay < 1))
        FL_FAIL(FL_ERR_INVAL,
                "op moving_average: decay is %g, not in 0 to below 1", decay);
    fl_tensor_like(fl_infer_out(c, AVERAGE_OUT), fl_infer_in(c, AVERAGE));
    fl_tensor_like(fl_infer_out(c, WEIGHT_OUT), fl_infer_in(c, WEIGHT));
    return FL_OK;
}

static double decay_now(const fl_op_ctx *c)
{
    double decay = fl_float(c, DECAY), n = (double)c->step_no;
    double early = (1 + n) / (10 + n);

    return fl_bool(c, THRES_STEPS) && early < decay ? early : decay;
}

static fl_status moving_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X);
    size_t n = (size_t)fl_tensor_numel(x);
    double decay = decay_now(c);
    const double one64 = 1;
    const float one32 = 1;
    const void *one = x->dtype == FL_DTYPE_F64 ? (const void *)&one64 : &one32;

    FL_BY_FLOAT(c, X, blend, fl_out(c, AVERAGE_OUT), fl_in(c, AVERAGE), x->data,
                decay, n);
    FL_BY_FLOAT(c, X, blend, fl_out(c, WEIGHT_OUT), fl_in(c, WEIGHT), one,
                decay, 1);
    return FL_OK;
}

static const fl_op_case moving_cases[] = {
    { .in = { "f32[33,7]", "f32[33,7]", "f32[1] below=1" } },
    { .in = { "f32[1]", "f32[1]", "f32[1] below=1" },
      .attrs = "{decay=0.5, thres_steps=true}" },
    { .in = { "f32[0,3]", "f32[0,3]", "f32[1]" } },
};

#define STATE (FL_OP_SLOT_STATE | FL_SLOT_NO_GRAD)

const fl_op fl_op_moving_average = {
    .name = "moving_average",
    .doc = "AverageOut = decay * Average + (1 - decay) * X; WeightOut = decay "
           "* Weight + 1 - decay, so that Average / Weight is the average of "
           "what X was. With thres_steps the decay is at most (1 + n) / (10 + "
           "n) in step n",
    .in = { { "X", FL_SLOT_NO_GRAD },
            { "Average", STATE },
            { "Weight", STATE } },
    .out = { { "AverageOut", 0 }, { "WeightOut", 0 } },
    .attrs = { { "decay", FL_ATTR_FLOAT, "0.999" },
               { "thres_steps", FL_ATTR_BOOL, "false" } },
    .flags = FL_OP_TRAIN_ONLY,
    .infer = moving_infer,
    .run = moving_run,
    .cases = moving_cases,
    .n_cases = FL_LEN(moving_cases),
};

/* --- average_accumulates -------------------------------------------------- */

enum { PARAM, SUM_1, SUM_2, SUM_3, N_NOW, N_OLD, N_UPDATES };
enum { WINDOW, MIN_WINDOW, MAX_WINDOW };

#define SUM_MAX 16384

static fl_status window_infer(fl_infer *c)
{
    int64_t lo = fl_int(c, MIN_WINDOW), hi = fl_int(c, MAX_WINDOW);

    FL_TRY(fl_infer_float(c, PARAM));
    for (int s = SUM_1; s <= SUM_3; s++)
        FL_TRY(check_like(c, s, PARAM));
    for (int s = N_NOW; s <= N_UPDATES; s++)
        FL_TRY(check_one(c, s, FL_DTYPE_I64));
    if (!(fl_float(c, WINDOW) >= 0) || lo < 1 || hi < lo)
        FL_FAIL(FL_ERR_INVAL,
                "op average_accumulates: a window of %g of the updates, but "
                "from %lld to %lld of them, is none; it wants 0 <= "
                "average_window and 1 <= min_average_window <= "
                "max_average_window",
                fl_float(c, WINDOW), (long long)lo, (long long)hi);
    for (int s = SUM_1; s <= N_UPDATES; s++)
        fl_tensor_like(fl_infer_out(c, s - SUM_1), fl_infer_in(c, s));
    return FL_OK;
}

/* The counters of a parameter are shared by hogwild threads, like its sums. */
FL_RACY
static int64_t count_get(const fl_op_ctx *c, int slot)
{
    return *(const int64_t *)fl_in(c, slot);
}

FL_RACY
static void count_set(const fl_op_ctx *c, int slot, int64_t n)
{
    *(int64_t *)fl_out(c, slot - SUM_1) = n;
}

static void *sum_out(const fl_op_ctx *c, int slot)
{
    return fl_out(c, slot - SUM_1);
}

static void add_sums(const fl_op_ctx *c, int to, const void *a, const void *b)
{
    FL_BY_FLOAT(c, PARAM, add, sum_out(c, to), a, b,
                (size_t)fl_tensor_numel(fl_in_t(c, PARAM)));
}

static void clear_sum(const fl_op_ctx *c, int slot)
{
    FL_BY_FLOAT(c, PARAM, clear, sum_out(c, slot), NULL,
                (size_t)fl_tensor_numel(fl_in_t(c, PARAM)));
}

/* Whole updates count. */
static bool is_full(const fl_op_ctx *c, int64_t n_now, int64_t n_updates)
{
    int64_t most = fl_int(c, MAX_WINDOW);
    double window = floor(fl_float(c, WINDOW) * (double)n_updates);

    return n_now >= fl_int(c, MIN_WINDOW) &&
           (n_now >= most || (double)n_now >= window);
}

/* Sums that are not changed must still be carried over. */
static void carry_over(const fl_op_ctx *c, int slot)
{
    size_t bytes;

    if (sum_out(c, slot) != fl_in(c, slot) &&
        !fl_tensor_bytes(fl_in_t(c, slot), &bytes) && bytes)
        memcpy(sum_out(c, slot), fl_in(c, slot), bytes);
}

static fl_status window_run(fl_op_ctx *c)
{
    int64_t n_now = count_get(c, N_NOW) + 1, n_old = count_get(c, N_OLD);
    int64_t n_updates = count_get(c, N_UPDATES) + 1;

    carry_over(c, SUM_2);
    carry_over(c, SUM_3);
    add_sums(c, SUM_1, fl_in(c, SUM_1), fl_in(c, PARAM));
    if (n_updates % SUM_MAX == 0) {
        add_sums(c, SUM_2, sum_out(c, SUM_2), sum_out(c, SUM_1));
        clear_sum(c, SUM_1);
    }
    if (is_full(c, n_now, n_updates)) {
        add_sums(c, SUM_3, sum_out(c, SUM_1), sum_out(c, SUM_2));
        clear_sum(c, SUM_1);
        clear_sum(c, SUM_2);
        n_old = n_now;
        n_now = 0;
    }
    count_set(c, N_NOW, n_now);
    count_set(c, N_OLD, n_old);
    count_set(c, N_UPDATES, n_updates);
    return FL_OK;
}

#define COUNTS "i64[1] below=3", "i64[1] below=9", "i64[1] below=20"

static const fl_op_case window_cases[] = {
    { .in = { "f32[33,7]", "f32[33,7]", "f32[33,7]", "f32[33,7]", COUNTS },
      .attrs = "{average_window=0.5}" },
    { .in = { "f32[5]", "f32[5]", "f32[5]", "f32[5]", COUNTS },
      .attrs = "{average_window=0.5, min_average_window=1, "
               "max_average_window=1}" },
    { .in = { "f32[0,3]", "f32[0,3]", "f32[0,3]", "f32[0,3]", COUNTS },
      .attrs = "{average_window=0.15}" },
};

const fl_op fl_op_average_accumulates = {
    .name = "average_accumulates",
    .doc = "out_sum_1 = in_sum_1 + param, counted in num_accumulates and "
           "num_updates. When num_accumulates has reached min_average_window "
           "and min(max_average_window, average_window * num_updates) without "
           "its fraction, the "
           "sums become out_sum_3, their number old_num_accumulates, and a new "
           "sum begins. The average is (sum_1 + sum_2 + sum_3) / "
           "(num_accumulates + old_num_accumulates)",
    .in = { { "param", FL_SLOT_NO_GRAD },
            { "in_sum_1", STATE },
            { "in_sum_2", STATE },
            { "in_sum_3", STATE },
            { "in_num_accumulates", STATE },
            { "in_old_num_accumulates", STATE },
            { "in_num_updates", STATE } },
    .out = { { "out_sum_1", 0 },
             { "out_sum_2", 0 },
             { "out_sum_3", 0 },
             { "out_num_accumulates", 0 },
             { "out_old_num_accumulates", 0 },
             { "out_num_updates", 0 } },
    .attrs = { { "average_window", FL_ATTR_FLOAT, "0" },
               { "min_average_window", FL_ATTR_INT, "10000" },
               { "max_average_window", FL_ATTR_INT, "10000" } },
    .flags = FL_OP_TRAIN_ONLY,
    .infer = window_infer,
    .run = window_run,
    .cases = window_cases,
    .n_cases = FL_LEN(window_cases),
};
