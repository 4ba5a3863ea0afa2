/* norm.c - lengths of vectors: along an axis, and of a whole tensor. */
#include <math.h>

#include "kernel/vec.h"
#include "ops/helpers.h"

enum { X };
enum { NORM, OUT };
enum { AXIS, EPSILON };

/* X as [before][n][after]: n numbers, `after` apart, are one vector. */
typedef struct vectors {
    size_t n, after;
    double epsilon;
    fl_span s; /* this call's vectors, of before * after */
} vectors;

static size_t start_of(const vectors *v, size_t i)
{
    return i / v->after * v->n * v->after + i % v->after;
}

#define KERNELS(T, t)                                                          \
    static double dot_##t(const T *a, const T *b, const vectors *v)            \
    {                                                                          \
        double sum = 0;                                                        \
                                                                               \
        if (v->after == 1)                                                     \
            return fl_vec_##t()->dot(a, b, v->n);                              \
        for (size_t i = 0; i < v->n * v->after; i += v->after)                 \
            sum += (double)a[i] * (double)b[i];                                \
        return sum;                                                            \
    }                                                                          \
    static void forward_##t(T *y, T *norms, const T *x, const vectors *v)      \
    {                                                                          \
        for (size_t at = v->s.lo; at < v->s.hi; at++) {                        \
            size_t lo = start_of(v, at);                                       \
            T norm = (T)sqrt(dot_##t(x + lo, x + lo, v) + v->epsilon);         \
                                                                               \
            for (size_t i = 0; i < v->n; i++)                                  \
                y[lo + i * v->after] = x[lo + i * v->after] / norm;            \
            if (norms)                                                         \
                norms[at] = norm;                                              \
        }                                                                      \
    }                                                                          \
    /* dx = (g - x (g . x) / norm^2) / norm */                                 \
    static void backward_##t(T *dx, const T *x, const T *g, const vectors *v)  \
    {                                                                          \
        for (size_t at = v->s.lo; at < v->s.hi; at++) {                        \
            size_t lo = start_of(v, at);                                       \
            double square = dot_##t(x + lo, x + lo, v) + v->epsilon;           \
            T share = (T)(dot_##t(g + lo, x + lo, v) / square);                \
            T norm = (T)sqrt(square);                                          \
                                                                               \
            for (size_t i = lo; i < lo + v->n * v->after; i += v->after)       \
                dx[i] = (g[i] - x[i] * share) / norm;                          \
        }                                                                      \
    }                                                                          \
    static void square_##t(T *out, const T *x, size_t n)                       \
    {                                                                          \
        *out = (T)fl_vec_##t()->dot(x, x, n);                                  \
    }                                                                          \
    static void square_back_##t(T *dx, const T *x, const T *g, fl_span s)      \
    {                                                                          \
        fl_vec_##t()->scale(dx + s.lo, 2 * *g, x + s.lo, 0, s.hi - s.lo);      \
    }
#define L1_KERNELS(T, t)                                                       \
    static void l1_##t(T *out, const T *x, size_t n)                           \
    {                                                                          \
        double sum = 0;                                                        \
                                                                               \
        for (size_t i = 0; i < n; i++)                                         \
            sum += fabs((double)x[i]);                                         \
        *out = (T)sum;                                                         \
    }                                                                          \
    static void l1_back_##t(T *dx, const T *x, const T *g, fl_span s)          \
    {                                                                          \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            dx[i] = x[i] > 0 ? *g : x[i] < 0 ? -*g : 0;                        \
    }
FL_FLOATS(KERNELS)
FL_FLOATS(L1_KERNELS)

/* --- norm ----------------------------------------------------------------- */

static fl_status norm_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    int axis = fl_shape_axis(&x->shape, fl_int(c, AXIS));
    fl_shape norm = x->shape;
    char buf[FL_SLOT_TEXT_MAX];

    if (axis < 0)
        FL_FAIL(FL_ERR_INVAL, "op norm: %s has no axis %d",
                fl_infer_text(c, X, buf), (int)fl_int(c, AXIS));
    if (!(fl_float(c, EPSILON) > 0))
        FL_FAIL(FL_ERR_INVAL,
                "op norm: epsilon=%g is not above 0, and a vector of zeros "
                "would have no direction",
                fl_float(c, EPSILON));
    norm.dim[axis] = 1;
    FL_TRY(fl_infer_same(c, X, OUT));
    fl_infer_dense(c, NORM, x->dtype, norm.rank, norm.dim);
    return FL_OK;
}

static vectors vectors_of(const fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;
    int axis = fl_shape_axis(x, fl_int(c, AXIS));
    vectors v = { .n = (size_t)x->dim[axis],
                  .after = (size_t)fl_shape_count(x, axis + 1, x->rank),
                  .epsilon = fl_float(c, EPSILON) };

    v.s = fl_op_span(c, (size_t)fl_shape_count(x, 0, axis) * v.after);
    return v;
}

static fl_status norm_run(fl_op_ctx *c)
{
    vectors v = vectors_of(c);

    FL_BY_FLOAT(c, X, forward, fl_out(c, OUT), fl_out(c, NORM), fl_in(c, X),
                &v);
    return FL_OK;
}

static fl_status norm_back(fl_op_ctx *c)
{
    vectors v = vectors_of(c);

    if (!fl_din_t(c, X))
        return FL_OK;
    if (fl_dout_t(c, OUT))
        FL_BY_FLOAT(c, X, backward, fl_din(c, X), fl_in(c, X), fl_dout(c, OUT),
                    &v);
    else
        fl_share_zero(c, fl_din_t(c, X));
    return FL_OK;
}

static const fl_op_case norm_cases[] = {
    { .in = { "f32[1,1]" } },
    { .in = { "f32[33,7]" } },
    { .in = { "f32[33,7]" }, .attrs = "{axis=0, epsilon=0.25}" },
    { .in = { "f32[5,4,7]" }, .attrs = "{axis=1}" },
    { .in = { "f32[7,3] lod=[0,2,2,7]" } },
    { .in = { "f32[0,8]" } },
    { .in = { "f32[0,8]" }, .attrs = "{axis=0}" },
    { .in = { "f32[8,0]" } },
};

const fl_op fl_op_norm = {
    .name = "norm",
    .doc = "Norm = the square root of (the sum of X * X along axis + epsilon), "
           "with 1 in the place of axis; Out = X / Norm",
    .in = { { "X", 0 } },
    .out = { { "Norm", FL_OP_SLOT_BYPRODUCT | FL_SLOT_NO_GRAD }, { "Out", 0 } },
    .attrs = { { "axis", FL_ATTR_INT, "-1" },
               { "epsilon", FL_ATTR_FLOAT, "1e-10" } },
    .flags = FL_OP_SLICED,
    .infer = norm_infer,
    .run = norm_run,
    .back = norm_back,
    .back_uses = FL_USES_IN(X),
    .cases = norm_cases,
    .n_cases = FL_LEN(norm_cases),
};

/* --- squared_l2_norm, l1_norm --------------------------------------------- */

enum { SQUARE };

static fl_status square_infer(fl_infer *c)
{
    FL_TRY(fl_infer_float(c, X));
    fl_infer_dense(c, SQUARE, fl_infer_in(c, X)->dtype, 1, (int64_t[]){ 1 });
    return FL_OK;
}

static fl_status square_run(fl_op_ctx *c)
{
    FL_BY_FLOAT(c, X, square, fl_out(c, SQUARE), fl_in(c, X),
                (size_t)fl_tensor_numel(fl_in_t(c, X)));
    return FL_OK;
}

static fl_status square_back(fl_op_ctx *c)
{
    fl_tensor *dx = fl_din_t(c, X);

    if (!dx)
        return FL_OK;
    if (fl_dout_t(c, SQUARE))
        FL_BY_FLOAT(c, X, square_back, dx->data, fl_in(c, X),
                    fl_dout(c, SQUARE),
                    fl_op_span(c, (size_t)fl_tensor_numel(dx)));
    else
        fl_share_zero(c, dx);
    return FL_OK;
}

static fl_status l1_run(fl_op_ctx *c)
{
    FL_BY_FLOAT(c, X, l1, fl_out(c, SQUARE), fl_in(c, X),
                (size_t)fl_tensor_numel(fl_in_t(c, X)));
    return FL_OK;
}

static fl_status l1_back(fl_op_ctx *c)
{
    fl_tensor *dx = fl_din_t(c, X);

    if (dx && fl_dout_t(c, SQUARE))
        FL_BY_FLOAT(c, X, l1_back, dx->data, fl_in(c, X), fl_dout(c, SQUARE),
                    fl_op_span(c, (size_t)fl_tensor_numel(dx)));
    else
        fl_din_zero(c, X);
    return FL_OK;
}

static const fl_op_case square_cases[] = {
    { .in = { "f32[1]" } },
    { .in = { "f32[33,7]" } },
    { .in = { "f32[5,3] lod=[0,2,2,5]" } },
    { .in = { "f32[0,8]" } },
};

const fl_op fl_op_squared_l2_norm = {
    .name = "squared_l2_norm",
    .doc = "Out = the sum of X * X over all elements, of shape [1]",
    .in = { { "X", 0 } },
    .out = { { "Out", 0 } },
    .infer = square_infer,
    .run = square_run,
    .back = square_back,
    .back_uses = FL_USES_IN(X),
    .cases = square_cases,
    .n_cases = FL_LEN(square_cases),
};

const fl_op fl_op_l1_norm = {
    .name = "l1_norm",
    .doc = "Out = the sum of |X| over all elements, of shape [1]",
    .in = { { "X", 0 } },
    .out = { { "Out", 0 } },
    .infer = square_infer,
    .run = l1_run,
    .back = l1_back,
    .back_uses = FL_USES_IN(X),
    .cases = square_cases,
    .n_cases = FL_LEN(square_cases),
};
