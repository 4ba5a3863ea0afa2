/* pad.c - a tensor inside a larger one, the rest of which is pad_value: pad
 * says how much stands before and behind along each axis, pad_constant_like
 * takes the size of another tensor and begins at place 0. */
#include <inttypes.h>

#include "ops/helpers.h"
#include "ops/walk.h"

enum { X };
enum { LARGE, SMALL }; /* of pad_constant_like */
enum { OUT };
enum { PAD_VALUE, PADDINGS };

/* --- infer ---------------------------------------------------------------- */

static fl_status pad_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    fl_shape shape = x->shape;
    char buf[FL_SLOT_TEXT_MAX];
    size_t n;
    const int64_t *pads = fl_attr_ints(c->node, PADDINGS, &n);

    FL_TRY(fl_infer_float(c, X));
    if (n != 2 * (size_t)shape.rank)
        FL_FAIL(FL_ERR_INVAL,
                "op pad: paddings has %zu numbers; %s needs two for each of "
                "its %d axes",
                n, fl_infer_text(c, X, buf), shape.rank);
    for (size_t i = 0; i < n; i++) {
        if (pads[i] < 0)
            FL_FAIL(FL_ERR_INVAL, "op pad: paddings has %" PRId64 ", below 0",
                    pads[i]);
        if (shape.dim[i / 2] >= 0)
            shape.dim[i / 2] += pads[i];
    }
    fl_infer_dense(c, OUT, x->dtype, shape.rank, shape.dim);
    return FL_OK;
}

static fl_status like_infer(fl_infer *c)
{
    const fl_tensor *large = fl_infer_in(c, LARGE);
    const fl_tensor *small = fl_infer_in(c, SMALL);
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];
    bool fits = large->shape.rank == small->shape.rank;

    FL_TRY(fl_infer_float(c, LARGE));
    FL_TRY(fl_infer_same_dtype(c, LARGE, SMALL));
    for (int i = 0; fits && i < small->shape.rank; i++)
        fits = small->shape.dim[i] <= large->shape.dim[i] ||
               large->shape.dim[i] < 0;
    if (!fits)
        FL_FAIL(FL_ERR_INVAL, "op pad_constant_like: %s does not fit into %s",
                fl_infer_text(c, SMALL, a), fl_infer_text(c, LARGE, b));
    fl_infer_dense(c, OUT, large->dtype, large->shape.rank, large->shape.dim);
    return FL_OK;
}

/* --- moving the numbers --------------------------------------------------- */

/* Where `small` lies in a tensor of shape `large`; pads may be NULL. */
static fl_walk inside(const fl_shape *large, const fl_shape *small,
                      const int64_t *pads)
{
    fl_walk w = fl_walk_of(large);

    for (int i = 0; i < small->rank; i++)
        fl_walk_along(&w, i, pads ? pads[2 * i] : 0, 1, small->dim[i]);
    return w;
}

#define KERNELS(T, t)                                                          \
    static void fill_##t(T *y, double value, size_t n)                         \
    {                                                                          \
        for (size_t i = 0; i < n; i++)                                         \
            y[i] = (T)value;                                                   \
    }
FL_FLOATS(KERNELS)

static void surround(fl_op_ctx *c, const fl_tensor *small, const int64_t *pads)
{
    fl_tensor *out = fl_out_t(c, OUT);
    fl_walk w = inside(&out->shape, &small->shape, pads);

    FL_BY_DTYPE(out->dtype, fill, out->data, fl_float(c, PAD_VALUE),
                (size_t)fl_tensor_numel(out));
    fl_walk_put(&w, fl_dtype_bytes(out->dtype), small->data, out->data);
}

static void take_back(const fl_op_ctx *c, fl_tensor *d, const int64_t *pads)
{
    const fl_tensor *g = fl_dout_t(c, OUT);
    fl_walk w;

    if (!d)
        return;
    if (!g) {
        fl_share_zero(c, d);
        return;
    }
    w = inside(&g->shape, &d->shape, pads);
    fl_walk_take(&w, fl_dtype_bytes(d->dtype), d->data, g->data);
}

static fl_status pad_run(fl_op_ctx *c)
{
    size_t n;

    surround(c, fl_in_t(c, X), fl_attr_ints(c->node, PADDINGS, &n));
    return FL_OK;
}

static fl_status pad_back(fl_op_ctx *c)
{
    size_t n;

    take_back(c, fl_din_t(c, X), fl_attr_ints(c->node, PADDINGS, &n));
    return FL_OK;
}

static fl_status like_run(fl_op_ctx *c)
{
    surround(c, fl_in_t(c, SMALL), NULL);
    return FL_OK;
}

static fl_status like_back(fl_op_ctx *c)
{
    take_back(c, fl_din_t(c, SMALL), NULL);
    return FL_OK;
}

static const fl_op_case pad_cases[] = {
    { .in = { "f32[33,7]" }, .attrs = "{paddings=[0,1,2,0], pad_value=0.5}" },
    { .in = { "f32[9]" }, .attrs = "{paddings=[2,3]}" },
    { .in = { "f32[5,3,4]" }, .attrs = "{paddings=[1,0,0,2,1,1]}" },
    { .in = { "f32[0,8]" }, .attrs = "{paddings=[0,0,1,1]}" },
};

static const fl_op_case like_cases[] = {
    { .in = { "f32[9,8]", "f32[5,7]" }, .attrs = "{pad_value=0.5}" },
    { .in = { "f32[4,3,2]", "f32[4,1,2]" } },
    { .in = { "f32[9]", "f32[9]" } },
    { .in = { "f32[3,8]", "f32[0,8]" } },
};

const fl_op fl_op_pad = {
    .name = "pad",
    .doc = "Out = X with pad_value around it: paddings has two numbers for "
           "each axis, places before and places behind",
    .in = { { "X", 0 } },
    .out = { { "Out", 0 } },
    .attrs = { { "pad_value", FL_ATTR_FLOAT, "0" },
               { "paddings", FL_ATTR_INTS, "[]" } },
    .infer = pad_infer,
    .run = pad_run,
    .back = pad_back,
    .cases = pad_cases,
    .n_cases = FL_LEN(pad_cases),
};

const fl_op fl_op_pad_constant_like = {
    .name = "pad_constant_like",
    .doc = "Out = Y with pad_value behind it along each axis, as large as X",
    .in = { { "X", FL_SLOT_NO_GRAD }, { "Y", 0 } },
    .out = { { "Out", 0 } },
    .attrs = { { "pad_value", FL_ATTR_FLOAT, "0" } },
    .infer = like_infer,
    .run = like_run,
    .back = like_back,
    .cases = like_cases,
    .n_cases = FL_LEN(like_cases),
};
