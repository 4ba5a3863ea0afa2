/* scatter_nd_add.c - numbers added to places of X, each of which is named by
 * one number for each of the first axes. */
#include <inttypes.h>

#include "ops/helpers.h"

enum { X, INDEX, UPDATES };
enum { OUT };

/* Places are n, each of `width` numbers, named by `axes` numbers. */
typedef struct named {
    int axes;
    int64_t n;
    size_t width;
} named;

static named named_of(const fl_shape *x, const fl_shape *index)
{
    int axes = (int)index->dim[index->rank - 1];

    return (named){ axes, fl_shape_count(index, 0, index->rank - 1),
                    (size_t)fl_shape_count(x, axes, x->rank) };
}

static fl_status scatter_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X), *u = fl_infer_in(c, UPDATES);
    fl_shape want = fl_infer_in(c, INDEX)->shape;
    int64_t axes = want.dim[want.rank - 1];
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX], d[FL_SLOT_TEXT_MAX];
    bool fits = axes >= 0 && axes <= x->shape.rank &&
                want.rank - 1 + x->shape.rank - axes <= FL_RANK_MAX;

    FL_TRY(fl_infer_ids(c, INDEX));
    FL_TRY(fl_infer_float(c, X));
    FL_TRY(fl_infer_same_dtype(c, X, UPDATES));
    want.rank--;
    for (int i = (int)axes; fits && i < x->shape.rank; i++)
        want.dim[want.rank++] = x->shape.dim[i];
    if (!fits || !fl_shape_matches(&want, &u->shape))
        FL_FAIL(FL_ERR_INVAL,
                "op scatter_nd_add: the last axis of %s names places of %s, "
                "and %s must have one entry for each",
                fl_infer_text(c, INDEX, a), fl_infer_text(c, X, b),
                fl_infer_text(c, UPDATES, d));
    fl_tensor_like(fl_infer_out(c, OUT), x);
    return FL_OK;
}

static size_t place_of(const fl_op_ctx *c, const named *k, int64_t i)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;
    int64_t at = 0;

    for (int a = 0; a < k->axes; a++)
        at = at * x->dim[a] + fl_id_at(fl_in_t(c, INDEX), i * k->axes + a);
    return (size_t)at * k->width;
}

static fl_status check_index(const fl_op_ctx *c, const named *k)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;

    for (int64_t i = 0; i < k->n * k->axes; i++) {
        int64_t id = fl_id_at(fl_in_t(c, INDEX), i);
        int axis = (int)(i % k->axes);

        if (id < 0 || id >= x->dim[axis])
            FL_FAIL(FL_ERR_INVAL,
                    "Index: %" PRId64 " at place %" PRId64
                    " is not in 0..%" PRId64 ", axis %d of X",
                    id, i / k->axes, x->dim[axis] - 1, axis);
    }
    return FL_OK;
}

#define KERNELS(T, t)                                                          \
    static void add_##t(T *to, const T *from, size_t n)                        \
    {                                                                          \
        for (size_t i = 0; i < n; i++)                                         \
            to[i] += from[i];                                                  \
    }
FL_FLOATS(KERNELS)

static void *number_at(void *data, size_t i, fl_dtype dtype)
{
    return (char *)data + i * fl_dtype_bytes(dtype);
}

static fl_status scatter_run(fl_op_ctx *c)
{
    named k = named_of(&fl_in_t(c, X)->shape, &fl_in_t(c, INDEX)->shape);
    fl_tensor *out = fl_out_t(c, OUT);
    const fl_tensor *u = fl_in_t(c, UPDATES);

    FL_TRY(check_index(c, &k));
    fl_share_copy(c, out, fl_in_t(c, X));
    for (int64_t i = 0; i < k.n && k.width; i++)
        FL_BY_DTYPE(out->dtype, add,
                    number_at(out->data, place_of(c, &k, i), out->dtype),
                    number_at(u->data, (size_t)i * k.width, u->dtype), k.width);
    return FL_OK;
}

static fl_status scatter_back(fl_op_ctx *c)
{
    named k = named_of(&fl_in_t(c, X)->shape, &fl_in_t(c, INDEX)->shape);
    const fl_tensor *g = fl_dout_t(c, OUT);
    fl_tensor *du = fl_din_t(c, UPDATES);

    if (fl_din_t(c, X))
        fl_share_copy(c, fl_din_t(c, X), g);
    if (!g)
        fl_din_zero(c, UPDATES);
    for (int64_t i = 0; du && g && i < k.n && k.width; i++)
        memcpy(number_at(du->data, (size_t)i * k.width, du->dtype),
               number_at(g->data, place_of(c, &k, i), g->dtype),
               k.width * fl_dtype_bytes(g->dtype));
    return FL_OK;
}

static const fl_op_case scatter_cases[] = {
    { .in = { "f32[9,4]", "i64[33,1] below=9", "f32[33,4]" } },
    { .in = { "f32[5,6,3]", "i32[2,2,2] below=5", "f32[2,2,3]" } },
    { .in = { "f32[5,6]", "i64[7,2] below=5", "f32[7]" } },
    { .in = { "f32[9]", "i64[4,1] below=9", "f32[4]" } },
    { .in = { "f32[2,3]", "i64[4,0]", "f32[4,2,3]" } },
    { .in = { "f32[9,4]", "i64[0,1]", "f32[0,4]" } },
};

const fl_op fl_op_scatter_nd_add = {
    .name = "scatter_nd_add",
    .doc =
        "Out = X, with Updates[i...] added at X[Index[i..., 0], "
        "Index[i..., 1], ...]; the last axis of Index has one number for "
        "each of the first axes of X; with none Updates[i] is added to all of "
        "X",
    .in = { { "X", 0 }, { "Index", FL_SLOT_NO_GRAD }, { "Updates", 0 } },
    .out = { { "Out", 0 } },
    .infer = scatter_infer,
    .run = scatter_run,
    .back = scatter_back,
    .back_uses = FL_USES_IN(INDEX),
    .cases = scatter_cases,
    .n_cases = FL_LEN(scatter_cases),
};
