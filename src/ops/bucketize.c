/* bucketize.c - which of several intervals a number lies in. */
#include "ops/helpers.h"

enum { X };
enum { OUT };
enum { BOUNDARIES };

/* How many of the boundaries are not above x; one more than there are for what
   is no number. */
#define KERNEL(T, t)                                                           \
    static int64_t bucket_of_##t(T x, const double *at, size_t n)              \
    {                                                                          \
        size_t lo = 0, hi = n;                                                 \
                                                                               \
        if (x != x)                                                            \
            return (int64_t)n + 1;                                             \
        while (lo < hi) {                                                      \
            size_t mid = (lo + hi) / 2;                                        \
                                                                               \
            if ((T)at[mid] <= x)                                               \
                lo = mid + 1;                                                  \
            else                                                               \
                hi = mid;                                                      \
        }                                                                      \
        return (int64_t)lo;                                                    \
    }                                                                          \
    static void forward_##t(const fl_op_ctx *c, int64_t *out, const T *x,      \
                            fl_span s)                                         \
    {                                                                          \
        size_t n;                                                              \
        const double *at = fl_attr_floats(c->node, BOUNDARIES, &n);            \
                                                                               \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            out[i] = bucket_of_##t(x[i], at, n);                               \
    }
FL_FLOATS(KERNEL)

static fl_status bucketize_infer(fl_infer *c)
{
    fl_tensor *out = fl_infer_out(c, OUT);
    size_t n;
    const double *at = fl_attr_floats(c->node, BOUNDARIES, &n);

    FL_TRY(fl_infer_float(c, X));
    for (size_t i = 1; i < n; i++)
        if (!(at[i - 1] < at[i]))
            FL_FAIL(FL_ERR_INVAL,
                    "op bucketize: boundary %g follows %g; they must ascend",
                    at[i], at[i - 1]);
    fl_tensor_like(out, fl_infer_in(c, X));
    out->dtype = FL_DTYPE_I64;
    return FL_OK;
}

static fl_status bucketize_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X);

    FL_BY_FLOAT(c, X, forward, c, fl_out(c, OUT), x->data,
                fl_op_span(c, (size_t)fl_tensor_numel(x)));
    return FL_OK;
}

static const fl_op_case bucketize_cases[] = {
    { .in = { "f32[33,7]" }, .attrs = "{boundaries=[-1, 0, 0.5]}" },
    { .in = { "f32[7,1] lod=[0,2,2,7]" }, .attrs = "{boundaries=[0]}" },
    { .in = { "f32[5]" } },
    { .in = { "f32[0,8]" }, .attrs = "{boundaries=[0, 1]}" },
};

const fl_op fl_op_bucketize = {
    .name = "bucketize",
    .doc = "Out = how many of the boundaries, which ascend, are not above X; "
           "for what is not a number one more than there are",
    .in = { { "X", FL_SLOT_NO_GRAD } },
    .out = { { "Out", FL_SLOT_NO_GRAD } },
    .attrs = { { "boundaries", FL_ATTR_FLOATS, "[]" } },
    .flags = FL_OP_SLICED,
    .infer = bucketize_infer,
    .run = bucketize_run,
    .cases = bucketize_cases,
    .n_cases = FL_LEN(bucketize_cases),
};
