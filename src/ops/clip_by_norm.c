/* clip_by_norm.c - shrinks gradients whose length is above a limit: each by
 * its own length, or all by the length they have together.
 *
 * Rows + values are merged first: the length of a gradient is that of the sum
 * over equal rows, not of its parts.
 */
#include <math.h>

#include "kernel/vec.h"
#include "ops/kit.h"
#include "ops/rows.h"

enum { X };
enum { OUT };
enum { MAX_NORM };

#define KERNELS(T, t)                                                          \
    static void square_sum_##t(double *sum, const T *x, size_t n)              \
    {                                                                          \
        *sum += fl_vec_##t()->dot(x, x, n);                                    \
    }                                                                          \
    static void shrink_##t(T *y, const T *x, double by, size_t n)              \
    {                                                                          \
        if (by == 1 && y == x)                                                 \
            return;                                                            \
        for (size_t i = 0; i < n; i++)                                         \
            y[i] = (T)by * x[i];                                               \
    }
FL_FLOATS(KERNELS)

static fl_status check_limit(const fl_infer *c)
{
    double limit = fl_float(c, MAX_NORM);

    if (!(limit > 0) || isinf(limit))
        FL_FAIL(FL_ERR_INVAL, "op %s: max_norm is %g, it must be above 0",
                c->node->def->name, limit);
    return FL_OK;
}

static fl_status clip_infer(fl_infer *c)
{
    FL_TRY(check_limit(c));
    if (fl_infer_n_out(c, OUT) != fl_infer_n_in(c, X))
        FL_FAIL(FL_ERR_INVAL, "op %s: X has %d variables, Out has %d",
                fl_node_type(c->node), fl_infer_n_in(c, X),
                fl_infer_n_out(c, OUT));
    for (int i = 0; i < fl_infer_n_in(c, X); i++) {
        const fl_tensor *x = fl_infer_in_at(c, X, i);

        if (!fl_dtype_is_float(x->dtype))
            FL_FAIL(FL_ERR_TYPE, "op %s: X (%.100s) must be f32 or f64",
                    c->node->def->name, c->node->in[X].vars[i]->name);
        fl_tensor_like(fl_infer_out_at(c, OUT, i), x);
    }
    return FL_OK;
}

/* max_norm / length when the length is above it, else 1. */
static double factor(const fl_op_ctx *c, double square_sum)
{
    double limit = fl_float(c, MAX_NORM);
    double norm = sqrt(square_sum);

    return norm > limit ? limit / norm : 1;
}

static void write_rows(fl_tensor *out, const fl_tensor *in)
{
    size_t n = (size_t)in->shape.dim[0];

    if (n)
        memmove(out->rows, in->rows, n * sizeof(*in->rows));
    out->shape.dim[0] = in->shape.dim[0];
    fl_tensor_set_merged(out, true);
}

static void write_shrunk(fl_tensor *out, const fl_tensor *in, double by)
{
    size_t n = (size_t)fl_tensor_numel(in);

    if (in->kind == FL_KIND_ROWS)
        write_rows(out, in);
    FL_BY_DTYPE(in->dtype, shrink, out->data, in->data, by, n);
}

/* One of X, merged when it carries rows. */
static fl_status take_input(fl_op_ctx *c, int i, fl_tensor *out)
{
    const fl_tensor *x = fl_in_at(c, X, i);

    if (x->kind == FL_KIND_ROWS)
        return fl_rows_merge(c, x, out);
    *out = *x;
    return FL_OK;
}

/* With one input, clipping by its norm is clipping by the global norm. */
static fl_status clip_run(fl_op_ctx *c)
{
    int n = fl_n_in(c, X);
    fl_tensor *x = fl_scratch(c, (size_t)n * sizeof(*x));
    double sum = 0;

    if (!x)
        return FL_NOMEM(c);
    for (int i = 0; i < n; i++) {
        FL_TRY(take_input(c, i, &x[i]));
        FL_BY_DTYPE(x[i].dtype, square_sum, &sum, x[i].data,
                    (size_t)fl_tensor_numel(&x[i]));
    }
    for (int i = 0; i < n; i++)
        write_shrunk(fl_out_at(c, OUT, i), &x[i], factor(c, sum));
    return FL_OK;
}

static const fl_op_case one_cases[] = {
    { .in = { "f32[1]" } },
    { .in = { "f32[0,8]" } },
    { .in = { "f32[33,7]" } },
    { .in = { "f32[33,7]" }, .attrs = "{max_norm=1000}" },
    { .in = { "f32[12,4] rows height=9" } },
    { .in = { "f32[12,4] rows height=9" }, .attrs = "{max_norm=1000}" },
    { .in = { "f32[0,4] rows height=9" } },
};

const fl_op fl_op_clip_by_norm = {
    .name = "clip_by_norm",
    .doc = "Out = X * max_norm / max(norm, max_norm), norm = sqrt(sum(X^2)). "
           "Equal rows of rows + values are added up first; Out has each once",
    .in = { { "X", FL_OP_SLOT_ROWS | FL_SLOT_NO_GRAD } },
    .out = { { "Out", FL_OP_SLOT_ROWS } },
    .attrs = { { "max_norm", FL_ATTR_FLOAT, "1" } },
    .flags = FL_OP_INPLACE,
    .infer = clip_infer,
    .run = clip_run,
    .cases = one_cases,
    .n_cases = FL_LEN(one_cases),
};

static const fl_op_case global_cases[] = {
    { .in = { "f32[1]" } },
    { .in = { "f32[0,8];f32[3]" } },
    { .in = { "f32[33,7];f32[5];f32[12,4] rows height=9" } },
    { .in = { "f32[12,4] rows height=9;f32[3,3]" },
      .attrs = "{max_norm=1000}" },
    { .in = { "f32[0,4] rows height=9;f32[7]" }, .attrs = "{max_norm=0.5}" },
};

const fl_op fl_op_clip_by_global_norm = {
    .name = "clip_by_global_norm",
    .doc = "Out[i] = X[i] * max_norm / max(norm, max_norm), with one norm = "
           "sqrt(sum over all X of X^2). Equal rows of rows + values are "
           "added up first; Out has each once",
    .in = { { "X", FL_OP_SLOT_LIST | FL_OP_SLOT_ROWS | FL_SLOT_NO_GRAD } },
    .out = { { "Out", FL_OP_SLOT_LIST | FL_OP_SLOT_ROWS } },
    .attrs = { { "max_norm", FL_ATTR_FLOAT, "1" } },
    .flags = FL_OP_INPLACE,
    .infer = clip_infer,
    .run = clip_run,
    .cases = global_cases,
    .n_cases = FL_LEN(global_cases),
};
