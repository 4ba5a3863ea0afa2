/* linspace.c - numbers at equal distances, the first and the last of which are
 * given. How many there are is known only when the program runs. */
#include "ops/helpers.h"
#include "ops/values.h"

enum { START, STOP, NUM };
enum { OUT };

static fl_status linspace_infer(fl_infer *c)
{
    char buf[FL_SLOT_TEXT_MAX];
    int64_t n = -1;

    FL_TRY(fl_infer_number(c, START));
    FL_TRY(fl_infer_number(c, STOP));
    FL_TRY(fl_infer_same_dtype(c, START, STOP));
    FL_TRY(fl_infer_ids(c, NUM));
    if (!fl_is_one(fl_infer_in(c, NUM)))
        FL_FAIL(FL_ERR_INVAL, "op linspace: %s must hold one integer, [1]",
                fl_infer_text(c, NUM, buf));
    if (c->running) {
        n = fl_id_at(fl_infer_in(c, NUM), 0);
        if (n < 1 || n > INT32_MAX)
            FL_FAIL(FL_ERR_INVAL,
                    "op linspace: %s is %lld; 1 to %d numbers are possible",
                    fl_infer_text(c, NUM, buf), (long long)n, INT32_MAX);
    }
    fl_infer_dense(c, OUT, fl_infer_in(c, START)->dtype, 1, &n);
    return FL_OK;
}

#define KERNELS(T, t)                                                          \
    static void fill_##t(T *y, T start, T stop, size_t n, fl_span s)           \
    {                                                                          \
        T step = n > 1 ? (stop - start) / (T)(n - 1) : 0;                      \
                                                                               \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            y[i] = start + step * (T)i;                                        \
    }
FL_FLOATS(KERNELS)

static fl_status linspace_run(fl_op_ctx *c)
{
    size_t n = (size_t)fl_tensor_numel(fl_out_t(c, OUT));
    fl_span s = fl_op_span(c, n);

    if (fl_in_t(c, START)->dtype == FL_DTYPE_F32)
        fill_f32(fl_out(c, OUT), *(const float *)fl_in(c, START),
                 *(const float *)fl_in(c, STOP), n, s);
    else
        fill_f64(fl_out(c, OUT), *(const double *)fl_in(c, START),
                 *(const double *)fl_in(c, STOP), n, s);
    return FL_OK;
}

static const fl_op_case linspace_cases[] = {
    { .in = { "f32[1] is=[1]", "f32[1] is=[7]", "i32[1] is=[33]" } },
    { .in = { "f64[1] is=[5]", "f64[1] is=[-5]", "i64[1] is=[1]" } },
};

const fl_op fl_op_linspace = {
    .name = "linspace",
    .doc = "Out = Num numbers at equal distances from Start to Stop",
    .in = { { "Start", FL_SLOT_NO_GRAD },
            { "Stop", FL_SLOT_NO_GRAD },
            { "Num", FL_SLOT_NO_GRAD | FL_OP_SLOT_VALUE } },
    .out = { { "Out", 0 } },
    .flags = FL_OP_SLICED,
    .infer = linspace_infer,
    .run = linspace_run,
    .cases = linspace_cases,
    .n_cases = FL_LEN(linspace_cases),
};
