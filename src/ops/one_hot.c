/* one_hot.c - a row of `depth` numbers per id, with a 1 at its place: one_hot
 * puts it where ids has a last axis of length 1, one_hot_v2 behind all axes. */
#include <inttypes.h>

#include "ops/helpers.h"
#include "ops/values.h"

enum { X, DEPTH_TENSOR };
enum { OUT };
enum { DEPTH, DTYPE, ALLOW_OUT_OF_RANGE };

/* Out is of `rank` axes: those of X, and the last is the depth. */
static fl_status infer_rank(fl_infer *c, int rank)
{
    const fl_tensor *x = fl_infer_in(c, X);
    fl_tensor *out = fl_infer_out(c, OUT);
    char buf[FL_SLOT_TEXT_MAX];
    int64_t depth = -1;
    bool known;
    fl_dtype dtype;

    FL_TRY(fl_infer_ids(c, X));
    FL_TRY(fl_infer_dtype(c, DTYPE, &dtype));
    FL_TRY(fl_infer_int(c, DEPTH_TENSOR, DEPTH, &depth, &known));
    if (known && depth < 1)
        FL_FAIL(FL_ERR_INVAL, "op %s: %s is %" PRId64 ", below 1",
                c->node->def->name,
                fl_infer_in(c, DEPTH_TENSOR)
                    ? fl_infer_text(c, DEPTH_TENSOR, buf)
                    : "depth",
                depth);
    fl_tensor_like(out, x);
    out->dtype = dtype;
    out->shape.rank = rank;
    out->shape.dim[rank - 1] = depth;
    return FL_OK;
}

static fl_status one_hot_infer(fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    char buf[FL_SLOT_TEXT_MAX];

    if (x->rank < 2 || (x->dim[x->rank - 1] != 1 && x->dim[x->rank - 1] != -1))
        FL_FAIL(FL_ERR_INVAL,
                "op one_hot: %s must have two axes or more, the last of which "
                "is 1 long",
                fl_infer_text(c, X, buf));
    return infer_rank(c, x->rank);
}

static fl_status one_hot_v2_infer(fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    char buf[FL_SLOT_TEXT_MAX];

    if (x->rank == FL_RANK_MAX)
        FL_FAIL(FL_ERR_INVAL, "op one_hot_v2: %s has no room for an axis more",
                fl_infer_text(c, X, buf));
    return infer_rank(c, x->rank + 1);
}

/* Element i of a tensor of zeros becomes 1. */
static void put_one(fl_tensor *t, size_t i)
{
    switch (t->dtype) {
#define ONE(name, value, T, text, long_text)                                   \
    case FL_DTYPE_##name:                                                      \
        ((T *)t->data)[i] = (T)1;                                              \
        break;
        FL_DTYPE_PLAIN_MAP(ONE)
#undef ONE
    case FL_DTYPE_F16:
        ((uint16_t *)t->data)[i] = fl_half_of(1);
        break;
    }
}

static fl_status one_hot_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X);
    fl_tensor *out = fl_out_t(c, OUT);
    int64_t depth = out->shape.dim[out->shape.rank - 1];
    size_t row = (size_t)depth * fl_dtype_bytes(out->dtype);
    fl_span s = fl_op_span(c, (size_t)fl_tensor_numel(x));

    for (size_t i = s.lo; i < s.hi; i++) {
        int64_t id = fl_id_at(x, (int64_t)i);

        memset((char *)out->data + i * row, 0, row);
        if (id >= 0 && id < depth)
            put_one(out, i * (size_t)depth + (size_t)id);
        else if (!fl_bool(c, ALLOW_OUT_OF_RANGE))
            FL_FAIL(FL_ERR_INVAL,
                    "X: id %" PRId64 " at place %zu is not in 0..%" PRId64
                    " (depth %" PRId64 "; allow_out_of_range gives zeros)",
                    id, i, depth - 1, depth);
    }
    return FL_OK;
}

static const fl_op_case one_hot_cases[] = {
    { .in = { "i64[33,1] below=7" }, .attrs = "{depth=7}" },
    { .in = { "i64[3,2,1] below=7" }, .attrs = "{depth=7, dtype=float64}" },
    { .in = { "i32[7,1] lod=[0,2,2,7] below=9" },
      .attrs = "{depth=4, allow_out_of_range=true}" },
    { .in = { "i64[5,1] below=4", "i32[1] is=[4]" } },
    { .in = { "i64[0,1]" }, .attrs = "{depth=7}" },
};

static const fl_op_case one_hot_v2_cases[] = {
    { .in = { "i64[33] below=7" }, .attrs = "{depth=7}" },
    { .in = { "i64[3,2] below=7" }, .attrs = "{depth=7, dtype=int64}" },
    { .in = { "i64[5,1] below=4", "i32[1] is=[4]" } },
    { .in = { "i64[0,1]" }, .attrs = "{depth=7}" },
};

#define ONE_HOT(op, text, infer_)                                              \
    const fl_op fl_op_##op = {                                                 \
        .name = #op,                                                           \
        .doc = "Out = " text ", 0 but for a 1 at the place that X says; "      \
               "depth_tensor gives the depth instead of depth. Ids outside "   \
               "of it are an error, or all zeros with allow_out_of_range",     \
        .in = { { "X", FL_SLOT_NO_GRAD }, { "depth_tensor", FL_VALUE_SLOT } }, \
        .out = { { "Out", 0 } },                                               \
        .attrs = { { "depth", FL_ATTR_INT, "-1" },                             \
                   { "dtype", FL_ATTR_STRING, "float32" },                     \
                   { "allow_out_of_range", FL_ATTR_BOOL, "false" } },          \
        .flags = FL_OP_SLICED,                                                 \
        .infer = infer_,                                                       \
        .run = one_hot_run,                                                    \
        .cases = op##_cases,                                                   \
        .n_cases = FL_LEN(op##_cases),                                         \
    };

ONE_HOT(one_hot, "depth numbers for each row of X [..., 1]", one_hot_infer)
ONE_HOT(one_hot_v2, "depth numbers for each number of X, along a last axis",
        one_hot_v2_infer)
