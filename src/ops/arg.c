/* arg.c - the place of the largest (arg_max) or smallest (arg_min) number along
 * an axis; of equal ones the first. */
#include "ops/helpers.h"

enum { X };
enum { OUT };
enum { AXIS, KEEPDIMS, DTYPE };

static fl_status arg_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    int axis = fl_shape_axis(&x->shape, fl_int(c, AXIS));
    char buf[FL_SLOT_TEXT_MAX];
    fl_shape shape = x->shape;
    fl_dtype dtype;

    FL_TRY(fl_infer_not_half(c, X));
    FL_TRY(fl_infer_dtype(c, DTYPE, &dtype));
    if (axis < 0 || x->shape.dim[axis] == 0)
        FL_FAIL(FL_ERR_INVAL, "op %s: %s has no axis %d with numbers",
                c->node->def->name, fl_infer_text(c, X, buf),
                (int)fl_int(c, AXIS));
    if (dtype != FL_DTYPE_I64 && dtype != FL_DTYPE_I32)
        FL_FAIL(FL_ERR_INVAL, "op %s: dtype %s is not int32 or int64",
                c->node->def->name, fl_str_attr(c, DTYPE));
    shape.dim[axis] = 1;
    for (int i = axis;
         !fl_bool(c, KEEPDIMS) && shape.rank > 1 && i + 1 < shape.rank; i++)
        shape.dim[i] = shape.dim[i + 1];
    shape.rank -= !fl_bool(c, KEEPDIMS) && shape.rank > 1;
    fl_infer_dense(c, OUT, dtype, shape.rank, shape.dim);
    return FL_OK;
}

typedef enum which { LARGEST, SMALLEST } which;

/* X as [before, n, after]. */
typedef struct extent {
    size_t n, after;
} extent;

#define KERNELS(name, value, T, text, long_text)                               \
    static int64_t max_##name(const T *x, extent e)                            \
    {                                                                          \
        size_t best = 0;                                                       \
                                                                               \
        for (size_t i = 1; i < e.n; i++)                                       \
            if (x[i * e.after] > x[best * e.after])                            \
                best = i;                                                      \
        return (int64_t)best;                                                  \
    }                                                                          \
    static int64_t min_##name(const T *x, extent e)                            \
    {                                                                          \
        size_t best = 0;                                                       \
                                                                               \
        for (size_t i = 1; i < e.n; i++)                                       \
            if (x[i * e.after] < x[best * e.after])                            \
                best = i;                                                      \
        return (int64_t)best;                                                  \
    }                                                                          \
    static int64_t find_##name(const fl_tensor *t, size_t at, extent e,        \
                               which w)                                        \
    {                                                                          \
        const T *x = (const T *)t->data + at;                                  \
                                                                               \
        return w == LARGEST ? max_##name(x, e) : min_##name(x, e);             \
    }
FL_DTYPE_PLAIN_MAP(KERNELS)
#undef KERNELS

static int64_t find(const fl_tensor *x, size_t at, extent e, which w)
{
    switch (x->dtype) {
#define FIND(name, value, T, text, long_text)                                  \
    case FL_DTYPE_##name:                                                      \
        return find_##name(x, at, e, w);
        FL_DTYPE_PLAIN_MAP(FIND)
#undef FIND
    case FL_DTYPE_F16: /* infer has refused it */
        break;
    }
    return 0;
}

static fl_status find_all(fl_op_ctx *c, which w)
{
    const fl_tensor *x = fl_in_t(c, X);
    fl_tensor *out = fl_out_t(c, OUT);
    int axis = fl_shape_axis(&x->shape, fl_int(c, AXIS));
    extent e = { (size_t)x->shape.dim[axis],
                 (size_t)fl_shape_count(&x->shape, axis + 1, x->shape.rank) };
    fl_span s = fl_op_span(c, (size_t)fl_tensor_numel(out));

    for (size_t i = s.lo; i < s.hi; i++) {
        size_t at = i / e.after * e.n * e.after + i % e.after;

        fl_id_put(out, (int64_t)i, find(x, at, e, w));
    }
    return FL_OK;
}

static fl_status arg_max_run(fl_op_ctx *c)
{
    return find_all(c, LARGEST);
}

static fl_status arg_min_run(fl_op_ctx *c)
{
    return find_all(c, SMALLEST);
}

static const fl_op_case arg_cases[] = {
    { .in = { "f32[33,7]" }, .attrs = "{axis=1}" },
    { .in = { "f32[33,7]" }, .attrs = "{axis=0}" },
    { .in = { "f32[5,3,4]" }, .attrs = "{axis=-2, keepdims=true}" },
    { .in = { "f32[9]" }, .attrs = "{axis=0, dtype=int32}" },
    { .in = { "i64[5,4] below=3" }, .attrs = "{axis=1}" },
    { .in = { "f32[0,8]" }, .attrs = "{axis=1}" },
};

#define ARG(op, word)                                                          \
    const fl_op fl_op_##op = {                                                 \
        .name = #op,                                                           \
        .doc = "Out = the place of the " word " number of X along axis, the "  \
               "first of equal ones; keepdims leaves the axis, one long",      \
        .in = { { "X", FL_SLOT_NO_GRAD } },                                    \
        .out = { { "Out", 0 } },                                               \
        .attrs = { { "axis", FL_ATTR_INT, "0" },                               \
                   { "keepdims", FL_ATTR_BOOL, "false" },                      \
                   { "dtype", FL_ATTR_STRING, "int64" } },                     \
        .flags = FL_OP_SLICED,                                                 \
        .infer = arg_infer,                                                    \
        .run = op##_run,                                                       \
        .cases = arg_cases,                                                    \
        .n_cases = FL_LEN(arg_cases),                                          \
    };

ARG(arg_max, "largest")
ARG(arg_min, "smallest")
