/* index_select.c - the places of an axis that a list names, in its order. */
#include <inttypes.h>

#include "ops/helpers.h"

enum { X, INDEX };
enum { OUT };
enum { DIM };

/* X as blocks of `n` strips, each of `strip` numbers. */
typedef struct strips {
    size_t blocks, n, strip;
} strips;

static strips strips_of(const fl_op_ctx *c, const fl_shape *x)
{
    int axis = fl_shape_axis(x, fl_int(c, DIM));

    return (strips){ (size_t)fl_shape_count(x, 0, axis), (size_t)x->dim[axis],
                     (size_t)fl_shape_count(x, axis + 1, x->rank) };
}

static fl_status index_select_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    const fl_shape *index = &fl_infer_in(c, INDEX)->shape;
    int axis = fl_shape_axis(&x->shape, fl_int(c, DIM));
    char buf[FL_SLOT_TEXT_MAX];
    fl_shape shape = x->shape;

    FL_TRY(fl_infer_ids(c, INDEX));
    if (axis < 0)
        FL_FAIL(FL_ERR_INVAL, "op index_select: %s has no axis %" PRId64,
                fl_infer_text(c, X, buf), fl_int(c, DIM));
    if (index->rank != 1 && !(index->rank == 2 && index->dim[1] == 1))
        FL_FAIL(FL_ERR_INVAL, "op index_select: %s must be [n] or [n,1]",
                fl_infer_text(c, INDEX, buf));
    shape.dim[axis] = index->dim[0];
    fl_infer_dense(c, OUT, x->dtype, shape.rank, shape.dim);
    return FL_OK;
}

static fl_status index_select_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X), *index = fl_in_t(c, INDEX);
    strips k = strips_of(c, &x->shape);
    size_t bytes = k.strip * fl_dtype_bytes(x->dtype);
    size_t m = (size_t)fl_tensor_numel(index);
    fl_span s = fl_op_span(c, k.blocks * m);

    for (size_t i = s.lo; i < s.hi; i++) {
        int64_t at = fl_id_at(index, (int64_t)(i % m));

        if (at < 0 || (size_t)at >= k.n)
            FL_FAIL(FL_ERR_INVAL,
                    "Index: %" PRId64 " at place %zu is not in 0..%zu, axis "
                    "%" PRId64 " of X",
                    at, i % m, k.n - 1, fl_int(c, DIM));
        memcpy((char *)fl_out(c, OUT) + i * bytes,
               (const char *)x->data + (i / m * k.n + (size_t)at) * bytes,
               bytes);
    }
    return FL_OK;
}

/* A block of X belongs to one share, so places that are taken several times add
   up in the order of the list. */
#define KERNELS(T, t)                                                          \
    static void add_back_##t(T *dx, const T *g, const fl_tensor *index,        \
                             strips k, fl_span s)                              \
    {                                                                          \
        size_t m = (size_t)fl_tensor_numel(index), block = k.n * k.strip;      \
                                                                               \
        for (size_t b = s.lo; b < s.hi; b++) {                                 \
            for (size_t i = 0; i < block; i++)                                 \
                dx[b * block + i] = 0;                                         \
            for (size_t i = 0; g && i < m * k.strip; i++) {                    \
                size_t at = (size_t)fl_id_at(index, (int64_t)(i / k.strip));   \
                                                                               \
                dx[b * block + at * k.strip + i % k.strip] +=                  \
                    g[b * m * k.strip + i];                                    \
            }                                                                  \
        }                                                                      \
    }
FL_FLOATS(KERNELS)

static fl_status index_select_back(fl_op_ctx *c)
{
    strips k = strips_of(c, &fl_in_t(c, X)->shape);

    if (fl_din_t(c, X))
        FL_BY_FLOAT(c, X, add_back, fl_din(c, X), fl_dout(c, OUT),
                    fl_in_t(c, INDEX), k, fl_op_blocks(c, k.blocks, 1));
    return FL_OK;
}

static const fl_op_case index_select_cases[] = {
    { .in = { "f32[33,7]", "i64[9] below=7" }, .attrs = "{dim=1}" },
    { .in = { "f32[5,3,4]", "i32[2] below=5" } },
    { .in = { "f32[5,3,4]", "i64[5,1] below=3" }, .attrs = "{dim=-2}" },
    { .in = { "i64[5,4] below=9", "i64[2] below=4" }, .attrs = "{dim=1}" },
    { .in = { "f32[0,8]", "i64[2] below=8" }, .attrs = "{dim=1}" },
    { .in = { "f32[4,8]", "i64[0]" }, .attrs = "{dim=1}" },
};

const fl_op fl_op_index_select = {
    .name = "index_select",
    .doc = "Out = the places of X along dim that Index lists; gradients of a "
           "place that is taken several times add up",
    .in = { { "X", 0 }, { "Index", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .attrs = { { "dim", FL_ATTR_INT, "0" } },
    .flags = FL_OP_SLICED,
    .infer = index_select_infer,
    .run = index_select_run,
    .back = index_select_back,
    .back_uses = FL_USES_IN(INDEX),
    .cases = index_select_cases,
    .n_cases = FL_LEN(index_select_cases),
};
