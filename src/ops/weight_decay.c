/* weight_decay.c - adds the gradient of a penalty on the weights.
 *
 * The penalty acts on every weight, so the result is dense, also when the
 * gradient came as rows + values. Shares are cut by elements, or by rows of
 * the parameter when the gradient has rows: then each share adds the rows that
 * lie in its own part.
 */
#include <inttypes.h>

#include "base/thread.h"
#include "kernel/vec.h"
#include "ops/kit.h"
#include "ops/rows.h"

enum { PARAM, GRAD };
enum { OUT };
enum { L1, L2 };

typedef struct penalty {
    double l1, l2;
} penalty;

/* Weights may change under hogwild threads while they are read. */
#define KERNELS(T, t)                                                          \
    FL_RACY                                                                    \
    static void decay_##t(T *out, const T *w, size_t n, const penalty *p)      \
    {                                                                          \
        const T l1 = (T)p->l1, l2 = (T)p->l2;                                  \
                                                                               \
        for (size_t i = 0; i < n; i++) {                                       \
            T v = w[i];                                                        \
                                                                               \
            out[i] = l2 * v + l1 * (T)((v > 0) - (v < 0));                     \
        }                                                                      \
    }                                                                          \
    static void dense_##t(T *out, const T *w, const T *g, fl_span s,           \
                          const penalty *p)                                    \
    {                                                                          \
        size_t n = s.hi - s.lo;                                                \
                                                                               \
        if (!n)                                                                \
            return;                                                            \
        decay_##t(out + s.lo, w + s.lo, n, p);                                 \
        fl_vec_##t()->add(out + s.lo, g + s.lo, out + s.lo, n);                \
    }                                                                          \
    static void rows_##t(T *out, const T *w, const fl_tensor *g, fl_span s,    \
                         const penalty *p)                                     \
    {                                                                          \
        const T *values = g->data;                                             \
        size_t dim = (size_t)fl_rows_width(g);                                 \
                                                                               \
        if (s.lo < s.hi)                                                       \
            decay_##t(out + s.lo * dim, w + s.lo * dim, (s.hi - s.lo) * dim,   \
                      p);                                                      \
        for (size_t i = 0; i < (size_t)g->shape.dim[0]; i++)                   \
            if (g->rows[i] >= s.lo && g->rows[i] < s.hi)                       \
                fl_vec_##t()->axpy(out + g->rows[i] * dim, 1,                  \
                                   values + i * dim, dim);                     \
    }
FL_FLOATS(KERNELS)

static bool shapes_fit(const fl_tensor *param, const fl_tensor *grad)
{
    fl_shape s = grad->shape;

    if (grad->kind == FL_KIND_ROWS && s.rank > 0)
        s.dim[0] = -1;
    return fl_shape_matches(&param->shape, &s);
}

static fl_status decay_infer(fl_infer *c)
{
    const fl_tensor *param = fl_infer_in(c, PARAM);
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_float(c, PARAM));
    FL_TRY(fl_infer_same_dtype(c, PARAM, GRAD));
    if (!shapes_fit(param, fl_infer_in(c, GRAD)))
        FL_FAIL(FL_ERR_INVAL, "op weight_decay: %s does not fit %s",
                fl_infer_text(c, GRAD, a), fl_infer_text(c, PARAM, b));
    fl_infer_dense(c, OUT, param->dtype, param->shape.rank, param->shape.dim);
    return FL_OK;
}

static fl_status check_rows(const fl_tensor *g, uint64_t height)
{
    for (int64_t i = 0; i < g->shape.dim[0]; i++)
        if (g->rows[i] >= height)
            FL_FAIL(FL_ERR_INVAL,
                    "Grad: row %" PRIu64 " at place %" PRId64
                    " is not below %" PRIu64 ", the rows of Param",
                    g->rows[i], i, height);
    return FL_OK;
}

static fl_status decay_run(fl_op_ctx *c)
{
    const fl_tensor *w = fl_in_t(c, PARAM), *g = fl_in_t(c, GRAD);
    penalty p = { fl_float(c, L1), fl_float(c, L2) };
    size_t height = (size_t)w->shape.dim[0];

    if (g->kind != FL_KIND_ROWS) {
        FL_BY_FLOAT(c, PARAM, dense, fl_out(c, OUT), w->data, g->data,
                    fl_op_span(c, (size_t)fl_tensor_numel(w)), &p);
        return FL_OK;
    }
    FL_TRY(check_rows(g, height));
    FL_BY_FLOAT(c, PARAM, rows, fl_out(c, OUT), w->data, g,
                fl_op_span(c, height), &p);
    return FL_OK;
}

static const fl_op_case decay_cases[] = {
    { .in = { "f32[1]", "f32[1]" }, .attrs = "{l1=0.1}" },
    { .in = { "f32[0,3]", "f32[0,3]" }, .attrs = "{l2=0.1}" },
    { .in = { "f32[33,7]", "f32[33,7]" }, .attrs = "{l1=0.02, l2=0.05}" },
    { .in = { "f32[60,3]", "f32[80,3] rows height=60" }, .attrs = "{l2=0.1}" },
    { .in = { "f32[9,4]", "f32[0,4] rows height=9" }, .attrs = "{l1=0.1}" },
};

const fl_op fl_op_weight_decay = {
    .name = "weight_decay",
    .doc = "Out = Grad + l2 * Param + l1 * sign(Param); always dense: every "
           "weight decays, also where a sparse gradient has no row",
    .in = { { "Param", FL_SLOT_NO_GRAD },
            { "Grad", FL_OP_SLOT_ROWS | FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .attrs = { { "l1", FL_ATTR_FLOAT, "0" }, { "l2", FL_ATTR_FLOAT, "0" } },
    .flags = FL_OP_SLICED | FL_OP_TRAIN_ONLY,
    .infer = decay_infer,
    .run = decay_run,
    .cases = decay_cases,
    .n_cases = FL_LEN(decay_cases),
};
