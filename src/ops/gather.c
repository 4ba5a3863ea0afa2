/* gather.c - rows of X by their numbers: gather has one number per row,
 * gather_nd one for each of the first axes.
 *
 * Of the gradient each share adds up the rows of X that are its own, in the
 * order of the numbers, so rows that are taken several times get the same sum
 * whatever the shares.
 */
#include <inttypes.h>

#include "ops/helpers.h"

enum { X, INDEX };
enum { OUT };

/* --- which rows ----------------------------------------------------------- */

/* What is taken: n rows, each named by one number for each of `axes`. */
typedef struct taken {
    int axes;
    int64_t n;
} taken;

static taken taken_of_rows(const fl_op_ctx *c)
{
    return (taken){ 1, fl_tensor_numel(fl_in_t(c, INDEX)) };
}

static taken taken_of_axes(const fl_op_ctx *c)
{
    const fl_shape *index = &fl_in_t(c, INDEX)->shape;
    int last = index->rank - 1;

    return (taken){ (int)index->dim[last], fl_shape_count(index, 0, last) };
}

/* Bytes of one row of X. */
static size_t row_bytes(const fl_tensor *x, int axes)
{
    return (size_t)fl_shape_count(&x->shape, axes, x->shape.rank) *
           fl_dtype_bytes(x->dtype);
}

static size_t row_at(const fl_op_ctx *c, int axes, int64_t i)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;
    const fl_tensor *index = fl_in_t(c, INDEX);
    int64_t row = 0;

    for (int k = 0; k < axes; k++)
        row = row * x->dim[k] + fl_id_at(index, i * axes + k);
    return (size_t)row;
}

static fl_status check_index(const fl_op_ctx *c, int axes, fl_span s)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;
    const fl_tensor *index = fl_in_t(c, INDEX);

    for (size_t i = s.lo; i < s.hi; i++)
        for (int k = 0; k < axes; k++) {
            int64_t id = fl_id_at(index, (int64_t)i * axes + k);

            if (id < 0 || id >= x->dim[k])
                FL_FAIL(FL_ERR_INVAL,
                        "Index: %" PRId64 " at place %zu is not in 0..%" PRId64
                        ", axis %d of X",
                        id, i, x->dim[k] - 1, k);
        }
    return FL_OK;
}

/* --- infer ---------------------------------------------------------------- */

static fl_status gather_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    const fl_shape *index = &fl_infer_in(c, INDEX)->shape;
    char buf[FL_SLOT_TEXT_MAX];
    fl_shape shape = x->shape;

    FL_TRY(fl_infer_ids(c, INDEX));
    if (index->rank != 1 && !(index->rank == 2 && index->dim[1] == 1))
        FL_FAIL(FL_ERR_INVAL, "op gather: %s must be [n] or [n,1]",
                fl_infer_text(c, INDEX, buf));
    shape.dim[0] = index->dim[0];
    fl_infer_dense(c, OUT, x->dtype, shape.rank, shape.dim);
    return FL_OK;
}

static fl_status gather_nd_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    fl_shape shape = fl_infer_in(c, INDEX)->shape;
    int64_t axes = shape.dim[shape.rank - 1];
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_ids(c, INDEX));
    if (axes < 0 || axes > x->shape.rank ||
        shape.rank - 1 + x->shape.rank - axes > FL_RANK_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "op gather_nd: the last axis of %s must be 0 to %d long, the "
                "axes of %s",
                fl_infer_text(c, INDEX, a), x->shape.rank,
                fl_infer_text(c, X, b));
    shape.rank--;
    for (int i = (int)axes; i < x->shape.rank; i++)
        shape.dim[shape.rank++] = x->shape.dim[i];
    if (!shape.rank)
        shape = fl_shape_of(1, (int64_t[]){ 1 });
    fl_infer_dense(c, OUT, x->dtype, shape.rank, shape.dim);
    return FL_OK;
}

/* --- run ------------------------------------------------------------------ */

static fl_status take_rows(fl_op_ctx *c, taken t)
{
    size_t bytes = row_bytes(fl_in_t(c, X), t.axes);
    fl_span s = fl_op_span(c, (size_t)t.n);

    FL_TRY(check_index(c, t.axes, s));
    for (size_t i = s.lo; i < s.hi && bytes; i++)
        memcpy((char *)fl_out(c, OUT) + i * bytes,
               (const char *)fl_in(c, X) +
                   row_at(c, t.axes, (int64_t)i) * bytes,
               bytes);
    return FL_OK;
}

#define KERNELS(T, t)                                                          \
    static void add_rows_##t(fl_op_ctx *c, taken from, fl_span own,            \
                             size_t width)                                     \
    {                                                                          \
        const T *g = fl_dout(c, OUT);                                          \
        T *dx = fl_din(c, X);                                                  \
                                                                               \
        for (int64_t i = 0; i < from.n; i++) {                                 \
            size_t row = row_at(c, from.axes, i);                              \
                                                                               \
            if (row < own.lo || row >= own.hi)                                 \
                continue;                                                      \
            for (size_t k = 0; k < width; k++)                                 \
                dx[row * width + k] += g[(size_t)i * width + k];               \
        }                                                                      \
    }
FL_FLOATS(KERNELS)

static fl_status give_back(fl_op_ctx *c, taken t)
{
    fl_tensor *dx = fl_din_t(c, X);
    size_t bytes;
    fl_span own;

    if (!dx)
        return FL_OK;
    bytes = row_bytes(dx, t.axes);
    own = fl_op_span(c, (size_t)fl_shape_count(&dx->shape, 0, t.axes));
    if (own.lo < own.hi && bytes)
        memset((char *)dx->data + own.lo * bytes, 0, (own.hi - own.lo) * bytes);
    if (fl_dout_t(c, OUT) && bytes)
        FL_BY_FLOAT(c, X, add_rows, c, t, own,
                    bytes / fl_dtype_bytes(dx->dtype));
    return FL_OK;
}

static fl_status gather_run(fl_op_ctx *c)
{
    return take_rows(c, taken_of_rows(c));
}

static fl_status gather_back(fl_op_ctx *c)
{
    return give_back(c, taken_of_rows(c));
}

static fl_status gather_nd_run(fl_op_ctx *c)
{
    return take_rows(c, taken_of_axes(c));
}

static fl_status gather_nd_back(fl_op_ctx *c)
{
    return give_back(c, taken_of_axes(c));
}

static const fl_op_case gather_cases[] = {
    { .in = { "f32[33,7]", "i64[50] below=33" } },
    { .in = { "f32[5,2,3]", "i32[4] below=5" } },
    { .in = { "f32[9]", "i64[1] below=9" } },
    { .in = { "i64[5,2] below=9", "i64[4,1] below=5" } },
    { .in = { "f32[0,8]", "i64[0]" } },
    { .in = { "f32[5,8]", "i64[0]" } },
};

static const fl_op_case gather_nd_cases[] = {
    { .in = { "f32[33,7]", "i64[50,1] below=33" } },
    { .in = { "f32[5,6,3]", "i32[4,2] below=5" } },
    { .in = { "f32[5,6]", "i64[3,4,2] below=5" } },
    { .in = { "f32[5,6]", "i64[2] below=5" } },
    { .in = { "i64[5,2] below=9", "i64[4,1] below=5" } },
    { .in = { "f32[5,3]", "i64[2,0]" } },
    { .in = { "f32[0,8]", "i64[0,1]" } },
};

const fl_op fl_op_gather = {
    .name = "gather",
    .doc = "Out[i] = X[Index[i]]; the gradients of a row that is taken several "
           "times add up, whatever overwrite says",
    .in = { { "X", 0 }, { "Index", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .attrs = { { "overwrite", FL_ATTR_BOOL, "true" } },
    .flags = FL_OP_SLICED,
    .infer = gather_infer,
    .run = gather_run,
    .back = gather_back,
    .back_uses = FL_USES_IN(INDEX),
    .cases = gather_cases,
    .n_cases = FL_LEN(gather_cases),
};

const fl_op fl_op_gather_nd = {
    .name = "gather_nd",
    .doc = "Out[i...] = X[Index[i..., 0], Index[i..., 1], ...]: the last axis "
           "of Index has one number for each of the first axes of X; without "
           "any, all of X is taken",
    .in = { { "X", 0 }, { "Index", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .flags = FL_OP_SLICED,
    .infer = gather_nd_infer,
    .run = gather_nd_run,
    .back = gather_nd_back,
    .back_uses = FL_USES_IN(INDEX),
    .cases = gather_nd_cases,
    .n_cases = FL_LEN(gather_nd_cases),
};
