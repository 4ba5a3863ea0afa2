/* relu.c - rectifier. The smallest complete operator; copy it to start one. */
#include "kernel/vec.h"
#include "ops/kit.h"

enum { X };   /* index into .in  */
enum { OUT }; /* index into .out */

#define KERNELS(T, t)                                                          \
    static void forward_##t(T *y, const T *x, fl_span s)                       \
    {                                                                          \
        fl_vec_##t()->relu(y + s.lo, x + s.lo, s.hi - s.lo);                   \
    }                                                                          \
    /* Reads y, not x, so the planner may drop x after the forward run. */     \
    static void backward_##t(T *dx, const T *y, const T *dy, fl_span s)        \
    {                                                                          \
        fl_vec_##t()->relu_grad(dx + s.lo, y + s.lo, dy + s.lo, s.hi - s.lo);  \
    }
FL_FLOATS(KERNELS) /* once for f32, once for f64 */

static fl_status relu_infer(fl_infer *c)
{
    return fl_infer_same(c, X, OUT); /* Out has the shape and type of X */
}

static fl_span span_of(const fl_op_ctx *c)
{
    return fl_op_span(c, (size_t)fl_tensor_numel(fl_in_t(c, X)));
}

static fl_status relu_run(fl_op_ctx *c)
{
    FL_BY_FLOAT(c, X, forward, fl_out(c, OUT), fl_in(c, X), span_of(c));
    return FL_OK;
}

static fl_status relu_back(fl_op_ctx *c)
{
    FL_BY_FLOAT(c, X, backward, fl_din(c, X), fl_saved_out(c, OUT),
                fl_dout(c, OUT), span_of(c));
    return FL_OK;
}

/* tests/ops runs these for shape, gradient, threads and in-place. */
static const fl_op_case relu_cases[] = {
    { .in = { "f32[1]" } },
    { .in = { "f32[0,8]" } }, /* an empty batch is legal */
    { .in = { "f32[33,7]" } },
};

const fl_op fl_op_relu = {
    .name = "relu",
    .doc = "Out = max(X, 0), element by element; the gradient at 0 is 0",
    .in = { { "X", 0 } },
    .out = { { "Out", 0 } },
    .flags = FL_OP_INPLACE | FL_OP_SLICED,
    .infer = relu_infer,
    .run = relu_run,
    .back = relu_back,
    .back_uses = FL_USES_OUT(OUT),
    .cases = relu_cases,
    .n_cases = FL_LEN(relu_cases),
};
