/* argsort.c - numbers in order along an axis, and where each stood before.
 * Equal numbers keep their order; NaN comes last either way. */
#include <math.h>

#include "ops/helpers.h"

enum { X };
enum { OUT, INDICES };
enum { AXIS, DESCENDING };

typedef enum order { ASCENDING, DESCENDS } order;

/* X as [before, n, after]; a lane is n numbers, `after` apart. */
typedef struct lanes {
    size_t n, after, count;
} lanes;

static lanes lanes_of(const fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;
    int axis = fl_shape_axis(x, fl_int(c, AXIS));
    size_t n = (size_t)x->dim[axis];

    return (lanes){ n, (size_t)fl_shape_count(x, axis + 1, x->rank),
                    n ? (size_t)fl_shape_numel(x) / n : 0 };
}

static size_t lane_start(const lanes *l, size_t lane)
{
    return lane / l->after * l->n * l->after + lane % l->after;
}

/* A merge sort from the bottom: `a` and `b` take turns, the sorted places end
   up in what is returned. */
#define KERNELS(name, value, T, text, long_text)                               \
    static bool is_first_##name(T a, T b, order o)                             \
    {                                                                          \
        return (o == DESCENDS ? a >= b : a <= b) || isnan((double)b);          \
    }                                                                          \
    static void merge_##name(const T *x, const int64_t *a, int64_t *b,         \
                             fl_span s, size_t mid, order o)                   \
    {                                                                          \
        size_t i = s.lo, j = mid;                                              \
                                                                               \
        for (size_t k = s.lo; k < s.hi; k++) {                                 \
            bool left = j >= s.hi ||                                           \
                        (i < mid && is_first_##name(x[a[i]], x[a[j]], o));     \
                                                                               \
            b[k] = left ? a[i++] : a[j++];                                     \
        }                                                                      \
    }                                                                          \
    static const int64_t *sort_##name(const T *x, size_t n, int64_t *a,        \
                                      int64_t *b, order o)                     \
    {                                                                          \
        for (size_t i = 0; i < n; i++)                                         \
            a[i] = (int64_t)i;                                                 \
        for (size_t w = 1; w < n; w *= 2) {                                    \
            int64_t *t = a;                                                    \
                                                                               \
            for (size_t i = 0; i < n; i += 2 * w)                              \
                merge_##name(x, a, b,                                          \
                             (fl_span){ i, i + 2 * w < n ? i + 2 * w : n },    \
                             i + w < n ? i + w : n, o);                        \
            a = b;                                                             \
            b = t;                                                             \
        }                                                                      \
        return a;                                                              \
    }                                                                          \
    static void forward_##name(fl_op_ctx *c, const lanes *l, fl_span s,        \
                               int64_t *work)                                  \
    {                                                                          \
        order o = fl_bool(c, DESCENDING) ? DESCENDS : ASCENDING;               \
        T *x = (T *)(work + 2 * l->n), *y = fl_out(c, OUT);                    \
        int64_t *places = fl_out(c, INDICES);                                  \
                                                                               \
        for (size_t lane = s.lo; lane < s.hi; lane++) {                        \
            size_t at = lane_start(l, lane);                                   \
            const int64_t *to;                                                 \
                                                                               \
            for (size_t i = 0; i < l->n; i++)                                  \
                x[i] = ((const T *)fl_in(c, X))[at + i * l->after];            \
            to = sort_##name(x, l->n, work, work + l->n, o);                   \
            for (size_t i = 0; i < l->n; i++) {                                \
                y[at + i * l->after] = x[to[i]];                               \
                places[at + i * l->after] = to[i];                             \
            }                                                                  \
        }                                                                      \
    }
FL_DTYPE_PLAIN_MAP(KERNELS)
#undef KERNELS

static fl_status argsort_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_not_half(c, X));
    if (fl_shape_axis(&x->shape, fl_int(c, AXIS)) < 0)
        FL_FAIL(FL_ERR_INVAL, "op argsort: %s has no axis %d",
                fl_infer_text(c, X, buf), (int)fl_int(c, AXIS));
    fl_tensor_like(fl_infer_out(c, OUT), x);
    fl_tensor_like(fl_infer_out(c, INDICES), x);
    fl_infer_out(c, INDICES)->dtype = FL_DTYPE_I64;
    return FL_OK;
}

static fl_status argsort_run(fl_op_ctx *c)
{
    lanes l = lanes_of(c);
    fl_span s = fl_op_span(c, l.count);
    int64_t *work = fl_scratch(c, 3 * l.n * sizeof(*work) + 1);

    if (!work)
        return FL_NOMEM(c);
    switch (fl_in_t(c, X)->dtype) {
#define SORT(name, value, T, text, long_text)                                  \
    case FL_DTYPE_##name:                                                      \
        forward_##name(c, &l, s, work);                                        \
        break;
        FL_DTYPE_PLAIN_MAP(SORT)
#undef SORT
    case FL_DTYPE_F16: /* infer has refused it */
        break;
    }
    return FL_OK;
}

#define BACK(T, t)                                                             \
    static void backward_##t(T *dx, const T *g, const int64_t *from,           \
                             const lanes *l, fl_span s)                        \
    {                                                                          \
        for (size_t lane = s.lo; lane < s.hi; lane++) {                        \
            size_t at = lane_start(l, lane);                                   \
                                                                               \
            for (size_t i = 0; i < l->n; i++)                                  \
                dx[at + (size_t)from[at + i * l->after] * l->after] =          \
                    g[at + i * l->after];                                      \
        }                                                                      \
    }
FL_FLOATS(BACK)

static fl_status argsort_back(fl_op_ctx *c)
{
    lanes l = lanes_of(c);
    fl_span s = fl_op_span(c, l.count);

    if (!fl_din_t(c, X))
        return FL_OK;
    if (fl_dout_t(c, OUT))
        FL_BY_FLOAT(c, X, backward, fl_din(c, X), fl_dout(c, OUT),
                    fl_saved_out(c, INDICES), &l, s);
    else
        fl_share_zero(c, fl_din_t(c, X));
    return FL_OK;
}

static const fl_op_case argsort_cases[] = {
    { .in = { "f32[33,7]" } },
    { .in = { "f32[33,7]" }, .attrs = "{descending=true}" },
    { .in = { "f32[5,3,4]" }, .attrs = "{axis=0}" },
    { .in = { "i64[5,9] below=4" }, .attrs = "{axis=1}" },
    { .in = { "f32[1,1]" } },
    { .in = { "f32[0,8]" } },
    { .in = { "f32[0,8]" }, .attrs = "{axis=0}" },
};

const fl_op fl_op_argsort = {
    .name = "argsort",
    .doc = "Out = the numbers of X in ascending (or descending) order along "
           "axis, Indices = the places where they stood; equal ones keep "
           "their order",
    .in = { { "X", 0 } },
    .out = { { "Out", 0 }, { "Indices", FL_SLOT_NO_GRAD } },
    .attrs = { { "axis", FL_ATTR_INT, "-1" },
               { "descending", FL_ATTR_BOOL, "false" } },
    .flags = FL_OP_SLICED,
    .infer = argsort_infer,
    .run = argsort_run,
    .back = argsort_back,
    .back_uses = FL_USES_OUT(INDICES),
    .cases = argsort_cases,
    .n_cases = FL_LEN(argsort_cases),
};
