/* range.c - numbers at equal distances. How many there are follows from the
 * values of the inputs, so it is known only when the program runs. */
#include <math.h>

#include "ops/helpers.h"
#include "ops/values.h"

enum { START, END, STEP };
enum { OUT };

/* Numbers of a range, at most what an array can have. */
#define COUNT_MAX 0x1p40

static double number_at(const fl_tensor *t)
{
    return fl_dtype_is_float(t->dtype) ? fl_float_at(t, 0)
                                       : (double)fl_id_at(t, 0);
}

static fl_status check_input(const fl_infer *c, int slot)
{
    const fl_tensor *t = fl_infer_in(c, slot);
    char buf[FL_SLOT_TEXT_MAX];

    if ((!fl_dtype_is_float(t->dtype) && t->dtype != FL_DTYPE_I32 &&
         t->dtype != FL_DTYPE_I64) ||
        !fl_is_one(t))
        FL_FAIL(FL_ERR_INVAL,
                "op range: %s must hold one number of type f32, f64, i32 or "
                "i64",
                fl_infer_text(c, slot, buf));
    return fl_infer_same_dtype(c, START, slot);
}

static fl_status count(const fl_infer *c, int64_t *out)
{
    double start = number_at(fl_infer_in(c, START));
    double end = number_at(fl_infer_in(c, END));
    double step = number_at(fl_infer_in(c, STEP));
    double n = ceil((end - start) / step);

    if (!(n >= 0 && n <= COUNT_MAX) || step == 0)
        FL_FAIL(FL_ERR_INVAL,
                "op range: steps of %g (%s) do not lead from %g (%s) to %g "
                "(%s)",
                step, c->node->in[STEP].vars[0]->name, start,
                c->node->in[START].vars[0]->name, end,
                c->node->in[END].vars[0]->name);
    *out = (int64_t)n;
    return FL_OK;
}

static fl_status range_infer(fl_infer *c)
{
    int64_t n = -1;

    for (int slot = START; slot <= STEP; slot++)
        FL_TRY(check_input(c, slot));
    if (c->running)
        FL_TRY(count(c, &n));
    fl_infer_dense(c, OUT, fl_infer_in(c, START)->dtype, 1, &n);
    return FL_OK;
}

#define KERNELS(T, t)                                                          \
    static void forward_##t(T *y, const T *start, const T *step, fl_span s)    \
    {                                                                          \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            y[i] = (T)(*start + (T)i * *step);                                 \
    }
FL_FLOATS(KERNELS)
KERNELS(int32_t, i32)
KERNELS(int64_t, i64)

static fl_status range_run(fl_op_ctx *c)
{
    fl_tensor *out = fl_out_t(c, OUT);
    fl_span s = fl_op_span(c, (size_t)fl_tensor_numel(out));

    if (out->dtype == FL_DTYPE_I32)
        forward_i32(out->data, fl_in(c, START), fl_in(c, STEP), s);
    else if (out->dtype == FL_DTYPE_I64)
        forward_i64(out->data, fl_in(c, START), fl_in(c, STEP), s);
    else
        FL_BY_FLOAT(c, START, forward, out->data, fl_in(c, START),
                    fl_in(c, STEP), s);
    return FL_OK;
}

static const fl_op_case range_cases[] = {
    { .in = { "i64[1] is=[0]", "i64[1] is=[33]", "i64[1] is=[3]" } },
    { .in = { "i32[1] is=[5]", "i32[1] is=[-6]", "i32[1] is=[-2]" } },
    { .in = { "f32[1] is=[1]", "f32[1] is=[7]", "f32[1] is=[2]" } },
    { .in = { "i64[1] is=[4]", "i64[1] is=[4]", "i64[1] is=[3]" } },
};

const fl_op fl_op_range = {
    .name = "range",
    .doc = "Out = Start, Start + Step, Start + 2 Step, ... before End",
    .in = { { "Start", FL_SLOT_NO_GRAD | FL_OP_SLOT_VALUE },
            { "End", FL_SLOT_NO_GRAD | FL_OP_SLOT_VALUE },
            { "Step", FL_SLOT_NO_GRAD | FL_OP_SLOT_VALUE } },
    .out = { { "Out", 0 } },
    .flags = FL_OP_SLICED,
    .infer = range_infer,
    .run = range_run,
    .cases = range_cases,
    .n_cases = FL_LEN(range_cases),
};
