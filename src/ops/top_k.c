/* top_k.c - the largest numbers of each row and their places. Rows are sliced;
 * the k found so far are kept in order, which is quick for the few that are
 * asked for. */
#include "ops/helpers.h"
#include "ops/values.h"

enum { X, K_TENSOR };
enum { OUT, INDICES };
enum { K };

/* The first of equals wins; NaN comes last. */
#define KERNELS(T, t)                                                          \
    static bool above_##t(T a, T b)                                            \
    {                                                                          \
        return a > b || (b != b && a == a);                                    \
    }                                                                          \
    static void forward_row_##t(T *best, int64_t *place, const T *x, size_t n, \
                                size_t k)                                      \
    {                                                                          \
        for (size_t i = 0; i < n; i++) {                                       \
            size_t at = i < k ? i : k;                                         \
                                                                               \
            if (at == k && !above_##t(x[i], best[k - 1]))                      \
                continue;                                                      \
            at -= at == k;                                                     \
            for (; at > 0 && above_##t(x[i], best[at - 1]); at--) {            \
                best[at] = best[at - 1];                                       \
                place[at] = place[at - 1];                                     \
            }                                                                  \
            best[at] = x[i];                                                   \
            place[at] = (int64_t)i;                                            \
        }                                                                      \
    }                                                                          \
    static void forward_##t(T *best, int64_t *place, const T *x, size_t n,     \
                            size_t k, fl_span rows)                            \
    {                                                                          \
        for (size_t r = rows.lo; r < rows.hi; r++)                             \
            forward_row_##t(best + r * k, place + r * k, x + r * n, n, k);     \
    }                                                                          \
    static void backward_##t(T *dx, const int64_t *place, const T *g,          \
                             size_t n, size_t k, fl_span rows)                 \
    {                                                                          \
        for (size_t i = rows.lo * n; i < rows.hi * n; i++)                     \
            dx[i] = 0;                                                         \
        for (size_t i = rows.lo * k; i < rows.hi * k; i++)                     \
            dx[i / k * n + (size_t)place[i]] = g[i];                           \
    }
FL_FLOATS(KERNELS)

static fl_status top_k_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    int last = x->shape.rank - 1;
    int64_t k = -1;
    char buf[FL_SLOT_TEXT_MAX];
    bool known;

    FL_TRY(fl_infer_int(c, K_TENSOR, K, &k, &known));
    if ((known && k < 1) || (x->shape.dim[last] >= 0 && k > x->shape.dim[last]))
        FL_FAIL(FL_ERR_INVAL, "op top_k: %s has no %d largest numbers in a row",
                fl_infer_text(c, X, buf), (int)k);
    FL_TRY(fl_infer_same(c, X, OUT));
    fl_infer_out(c, OUT)->shape.dim[last] = k;
    fl_tensor_like(fl_infer_out(c, INDICES), fl_infer_out(c, OUT));
    fl_infer_out(c, INDICES)->dtype = FL_DTYPE_I64;
    return FL_OK;
}

static fl_span rows_of(const fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;

    return fl_op_span(c, (size_t)fl_shape_count(x, 0, x->rank - 1));
}

static size_t k_of(const fl_op_ctx *c)
{
    return (size_t)fl_read_int(c, K_TENSOR, K);
}

static size_t row_len(const fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;

    return (size_t)x->dim[x->rank - 1];
}

static fl_status top_k_run(fl_op_ctx *c)
{
    FL_BY_FLOAT(c, X, forward, fl_out(c, OUT), fl_out(c, INDICES), fl_in(c, X),
                row_len(c), k_of(c), rows_of(c));
    return FL_OK;
}

static fl_status top_k_back(fl_op_ctx *c)
{
    if (!fl_din_t(c, X))
        return FL_OK;
    if (fl_dout_t(c, OUT))
        FL_BY_FLOAT(c, X, backward, fl_din(c, X), fl_saved_out(c, INDICES),
                    fl_dout(c, OUT), row_len(c), k_of(c), rows_of(c));
    else
        fl_share_zero(c, fl_din_t(c, X));
    return FL_OK;
}

static const fl_op_case top_k_cases[] = {
    { .in = { "f32[33,7]" }, .attrs = "{k=1}" },
    { .in = { "f32[33,7]" }, .attrs = "{k=3}" },
    { .in = { "f32[5,2,7]" }, .attrs = "{k=7}" },
    { .in = { "f32[7,3] lod=[0,2,2,7]" }, .attrs = "{k=2}" },
    { .in = { "f32[33,7]", "i32[1] is=[2]" } },
    { .in = { "f32[0,8]" }, .attrs = "{k=2}" },
};

const fl_op fl_op_top_k = {
    .name = "top_k",
    .doc = "Out = the k largest numbers of each row of X, in descending order, "
           "Indices = their places; of equal ones the first comes first. K "
           "gives k instead",
    .in = { { "X", 0 }, { "K", FL_VALUE_SLOT } },
    .out = { { "Out", 0 }, { "Indices", FL_SLOT_NO_GRAD } },
    .attrs = { { "k", FL_ATTR_INT, "1" } },
    .flags = FL_OP_SLICED,
    .infer = top_k_infer,
    .run = top_k_run,
    .back = top_k_back,
    .back_uses = FL_USES_OUT(INDICES),
    .cases = top_k_cases,
    .n_cases = FL_LEN(top_k_cases),
};
