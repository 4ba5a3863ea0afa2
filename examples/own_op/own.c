/* own.c - an operator, an update rule, a format and a mode of our own, in a
 * library that programs link (train.c) and the commands open:
 *
 *     flotilla ops --set plugins=./libown.so --sweep squash
 */
#include "own.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <flotilla/experimental/format.h>
#include <flotilla/experimental/mode.h>
#include <flotilla/experimental/op.h>
#include <flotilla/experimental/plugin.h>
#include <flotilla/experimental/rule.h>

/* --- an operator: Out = X / sqrt(1 + alpha X^2) ----------------------------- */

enum { X };
enum { OUT };
enum { ALPHA };

/* One kernel for both float types; d is the derivative's factor. */
#define KERNELS(T, t)                                                          \
    static void forward_##t(T *y, const T *x, T alpha, fl_span s)              \
    {                                                                          \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            y[i] = x[i] / (T)sqrt((double)(1 + alpha * x[i] * x[i]));          \
    }                                                                          \
    static void backward_##t(T *dx, const T *x, const T *dy, T alpha,          \
                             fl_span s)                                        \
    {                                                                          \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            dx[i] = dy[i] * (T)pow((double)(1 + alpha * x[i] * x[i]), -1.5);   \
    }
KERNELS(float, f32)
KERNELS(double, f64)

static fl_status squash_infer(fl_infer *c)
{
    if (fl_attr_float(fl_infer_node(c), ALPHA) < 0)
        return fl_err_set(FL_ERR_INVAL, "squash: alpha is below 0");
    return fl_infer_same(c, X, OUT);
}

static fl_status squash_run(fl_op_ctx *c)
{
    double alpha = fl_attr_float(fl_op_ctx_node(c), ALPHA);
    const fl_tensor *x = fl_in_t(c, X);
    fl_span s = fl_op_span(c, (size_t)fl_tensor_numel(x));

    if (x->dtype == FL_DTYPE_F64)
        forward_f64(fl_out(c, OUT), x->data, alpha, s);
    else
        forward_f32(fl_out(c, OUT), x->data, (float)alpha, s);
    return FL_OK;
}

static fl_status squash_back(fl_op_ctx *c)
{
    double alpha = fl_attr_float(fl_op_ctx_node(c), ALPHA);
    const fl_tensor *x = fl_in_t(c, X);
    fl_span s = fl_op_span(c, (size_t)fl_tensor_numel(x));

    if (x->dtype == FL_DTYPE_F64)
        backward_f64(fl_din(c, X), x->data, fl_dout(c, OUT), alpha, s);
    else
        backward_f32(fl_din(c, X), x->data, fl_dout(c, OUT), (float)alpha, s);
    return FL_OK;
}

/* The sweep draws these inputs, and runs all checks on them. */
static const fl_op_case squash_cases[] = {
    { .in = { "f32[33,7]" } },
    { .in = { "f32[0,8]" } },
    { .in = { "f32[5]" }, .attrs = "{alpha=0.25}" },
};

static const fl_op squash = {
    .name = "squash",
    .doc =
        "Out = X / sqrt(1 + alpha X^2): near 0 a line, at most 1/sqrt(alpha)",
    .in = { { "X", 0 } },
    .out = { { "Out", 0 } },
    .attrs = { { "alpha", FL_ATTR_FLOAT, "1.0" } },
    .flags = FL_OP_SLICED,
    .infer = squash_infer,
    .run = squash_run,
    .back = squash_back,
    .back_uses = FL_USES_IN(X),
    .cases = squash_cases,
    .n_cases = sizeof(squash_cases) / sizeof(squash_cases[0]),
};

/* --- a rule: steps of one size, in the direction of a mean of gradients ------ */

#define UPDATES(T, t)                                                          \
    static void step_##t(T *w, T *const *state, const T *g, size_t n,          \
                         const fl_hyper *h)                                    \
    {                                                                          \
        T *mean = state[0], keep = (T)h->p[0], lr = (T)h->lr;                  \
                                                                               \
        for (size_t i = 0; i < n; i++) {                                       \
            mean[i] = keep * mean[i] + (1 - keep) * g[i];                      \
            w[i] -= lr * (T)((mean[i] > 0) - (mean[i] < 0));                   \
        }                                                                      \
    }
UPDATES(float, f32)
UPDATES(double, f64)

static const fl_rule sign_mean = {
    .name = "sign_mean",
    .doc = "Moment = keep Moment + (1 - keep) Grad, "
           "Param -= LearningRate sign(Moment)",
    .params = { { .name = "keep", .value = 0.9, .lo = 0, .hi = 1 } },
    .states = { { .slot = "Moment",
                  .out_slot = "MomentOut",
                  .suffix = "moment" } },
    .update_f32 = step_f32,
    .update_f64 = step_f64,
};

/* --- a format: LABEL ID,ID,ID ----------------------------------------------- */

enum { LABEL, IDS, IDS_MAX = 64 };

static const fl_slot slots[] = { { .name = "label", .width = 1 },
                                 { .name = "ids" } };

static bool read_line(void *state, const char *at, const char *end,
                      fl_format_record *r)
{
    uint64_t ids[IDS_MAX], label = at < end && *at == '1';
    size_t n = 0;

    (void)state;
    if (end - at < 3 || at[1] != ' ' || (*at != '0' && *at != '1'))
        return fl_format_bad(r, "it does not begin with 0 or 1 and a blank");
    for (at++; at < end; n++) {
        char *next;

        if (n == IDS_MAX)
            return fl_format_bad(r, "more than %d ids", IDS_MAX);
        ids[n] = strtoull(at + 1, &next, 10);
        if (next == at + 1 || next > end || (next < end && *next != ','))
            return fl_format_bad(r, "id %zu is no number", n + 1);
        at = next;
    }
    fl_format_put_ids(r, LABEL, &label, 1);
    fl_format_put_ids(r, IDS, ids, n);
    return true;
}

static const fl_format_def comma_ids = {
    .size = sizeof(fl_format_def),
    .name = "comma_ids",
    .doc = "LABEL ID,ID,...; slots label and ids",
    .slots = slots,
    .n_slots = sizeof(slots) / sizeof(slots[0]),
    .line = read_line,
};

/* --- a mode: async, and each trainer says at its end what it has sent --------- */

typedef struct tally {
    fl_job *job;
    atomic_ullong n_rows;
} tally;

static void *tally_open(fl_job *job)
{
    tally *t = calloc(1, sizeof(*t));

    if (t)
        t->job = job;
    return t;
}

static fl_status tally_push(void *mode, const char *table, const fl_rows *rows)
{
    tally *t = mode;

    atomic_fetch_add(&t->n_rows, rows->n);
    return fl_mode_push(t->job, table, rows);
}

static fl_status tally_stop(void *mode)
{
    const tally *t = mode;

    printf("pushed %llu rows\n", (unsigned long long)t->n_rows);
    return FL_OK;
}

static const fl_mode_def tally_mode = {
    .size = sizeof(fl_mode_def),
    .name = "tally",
    .doc = "async; each trainer says at its end how many rows it has pushed",
    .open = tally_open,
    .close = free,
    .push = tally_push,
    .stop = tally_stop,
};

/* --- all of it ---------------------------------------------------------------- */

fl_status own_add(fl_ctx *c)
{
    fl_status st = fl_op_add(&squash);

    if (!st)
        st = fl_rule_add(&sign_mean);
    if (!st)
        st = fl_format_add(&comma_ids);
    return st ? st : fl_ctx_add_mode(c, &tally_mode);
}

fl_status flotilla_plugin(fl_ctx *c)
{
    return own_add(c);
}
