/* crop.c - a part of X, which begins at offsets and has a shape: crop takes the
 * shape of Y or of an attribute, crop_tensor that of tensors too. */
#include <inttypes.h>

#include "ops/helpers.h"
#include "ops/values.h"
#include "ops/walk.h"

enum { X };
enum { CROP_Y = 1, CROP_OFFSETS };
enum { SHAPE_TENSOR = 1, SHAPE_LIST, OFFSETS_TENSOR, OFFSETS_LIST };
enum { OUT };
enum { OFFSETS, SHAPE };
enum { THE_REST = -1 };

/* Where an operator has the two from; `like`: the slot whose shape counts. */
typedef struct sources {
    int like;
    fl_ints_from shape, offsets;
} sources;

static const sources crop_sources = {
    CROP_Y,
    { FL_NO_SLOT, FL_NO_SLOT, SHAPE },
    { CROP_OFFSETS, FL_NO_SLOT, OFFSETS },
};

static const sources crop_tensor_sources = {
    FL_NO_SLOT,
    { SHAPE_TENSOR, SHAPE_LIST, SHAPE },
    { OFFSETS_TENSOR, OFFSETS_LIST, OFFSETS },
};

/* --- infer ---------------------------------------------------------------- */

static fl_status infer_wanted(const fl_infer *c, const sources *from,
                              fl_ints *shape)
{
    const fl_tensor *like =
        from->like == FL_NO_SLOT ? NULL : fl_infer_in(c, from->like);

    if (!like)
        return fl_infer_ints(c, &from->shape, shape);
    *shape = (fl_ints){ .n = like->shape.rank };
    for (int i = 0; i < shape->n; i++) {
        shape->at[i] = like->shape.dim[i];
        shape->known[i] = like->shape.dim[i] >= 0;
    }
    return FL_OK;
}

/* No offsets are offsets of 0. */
static void begin_at_zero(fl_ints *offsets, int rank)
{
    if (offsets->n)
        return;
    offsets->n = rank;
    for (int i = 0; i < rank; i++)
        offsets->known[i] = true;
}

/* The length of axis i of Out, -1 when it is not known. */
static fl_status infer_length(const fl_infer *c, const fl_ints *shape,
                              const fl_ints *offsets, int i, int64_t *out)
{
    int64_t n = fl_infer_in(c, X)->shape.dim[i], at = offsets->at[i];
    bool known = offsets->known[i] && n >= 0;
    char buf[FL_SLOT_TEXT_MAX];

    *out = shape->known[i] ? shape->at[i] : -1;
    if (shape->known[i] && shape->at[i] == THE_REST)
        *out = known ? n - at : -1;
    if (known &&
        (at < 0 || *out < -1 || at > n || (*out >= 0 && *out > n - at)))
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s has no %" PRId64 " places from %" PRId64
                " on along axis %d",
                c->node->def->name, fl_infer_text(c, X, buf), *out, at, i);
    return FL_OK;
}

static fl_status infer(fl_infer *c, const sources *from)
{
    const fl_tensor *x = fl_infer_in(c, X);
    fl_ints shape, offsets;
    fl_shape out = { .rank = x->shape.rank };
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(infer_wanted(c, from, &shape));
    FL_TRY(fl_infer_ints(c, &from->offsets, &offsets));
    begin_at_zero(&offsets, x->shape.rank);
    if (shape.n != x->shape.rank || offsets.n != x->shape.rank)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s needs a length and an offset for each axis; there "
                "are %d and %d",
                c->node->def->name, fl_infer_text(c, X, buf), shape.n,
                offsets.n);
    for (int i = 0; i < out.rank; i++)
        FL_TRY(infer_length(c, &shape, &offsets, i, &out.dim[i]));
    fl_infer_dense(c, OUT, x->dtype, out.rank, out.dim);
    return FL_OK;
}

/* --- run and back ---------------------------------------------------------- */

static fl_walk part_of(const fl_op_ctx *c, const sources *from,
                       const fl_shape *part)
{
    fl_walk w = fl_walk_of(&fl_in_t(c, X)->shape);
    fl_ints offsets;

    fl_read_ints(c, &from->offsets, &offsets);
    begin_at_zero(&offsets, part->rank);
    for (int i = 0; i < part->rank; i++)
        fl_walk_along(&w, i, offsets.at[i], 1, part->dim[i]);
    return w;
}

static fl_status run(fl_op_ctx *c, const sources *from)
{
    fl_tensor *out = fl_out_t(c, OUT);
    fl_walk w = part_of(c, from, &out->shape);

    fl_walk_take(&w, fl_dtype_bytes(out->dtype), out->data, fl_in(c, X));
    return FL_OK;
}

static fl_status back(fl_op_ctx *c, const sources *from)
{
    const fl_tensor *g = fl_dout_t(c, OUT);
    fl_walk w;

    fl_din_zero(c, X);
    if (!g || !fl_din_t(c, X))
        return FL_OK;
    w = part_of(c, from, &g->shape);
    fl_walk_put(&w, fl_dtype_bytes(g->dtype), g->data, fl_din(c, X));
    return FL_OK;
}

#define FUNCTIONS(op)                                                          \
    static fl_status op##_infer(fl_infer *c)                                   \
    {                                                                          \
        return infer(c, &op##_sources);                                        \
    }                                                                          \
    static fl_status op##_run(fl_op_ctx *c)                                    \
    {                                                                          \
        return run(c, &op##_sources);                                          \
    }                                                                          \
    static fl_status op##_back(fl_op_ctx *c)                                   \
    {                                                                          \
        return back(c, &op##_sources);                                         \
    }
FUNCTIONS(crop)
FUNCTIONS(crop_tensor)

static const fl_op_case crop_cases[] = {
    { .in = { "f32[9,7]" }, .attrs = "{offsets=[2,0], shape=[4,7]}" },
    { .in = { "f32[5,4,3]", "f32[2,4,1]" } },
    { .in = { "f32[5,4]", "f32[2,2]", "i32[2] is=[3,1]" } },
    { .in = { "i64[6] below=9" }, .attrs = "{offsets=[4], shape=[-1]}" },
    { .in = { "f32[0,8]" }, .attrs = "{shape=[0,3]}" },
};

static const fl_op_case crop_tensor_cases[] = {
    { .in = { "f32[9,7]" }, .attrs = "{offsets=[2,1], shape=[4,-1]}" },
    { .in = { "f32[9,7]", "i32[2] is=[3,2]", "", "i32[2] is=[1,5]" } },
    { .in = { "f32[9,7]", "", "i32[1] is=[3];i32[1] is=[2]", "",
              "i32[1] is=[6];i32[1] is=[0]" },
      .attrs = "{shape=[-1,2], offsets=[-1,-1]}" },
    { .in = { "f32[0,8]" }, .attrs = "{shape=[0,3]}" },
};

#define ATTRS                                                                  \
    { "offsets", FL_ATTR_INTS, "[]" },                                         \
    {                                                                          \
        "shape", FL_ATTR_INTS, "[]"                                            \
    }

const fl_op fl_op_crop = {
    .name = "crop",
    .doc = "Out = the part of X that begins at Offsets, or at offsets, and has "
           "the shape of Y, or shape, where -1 stands for all that is left",
    .in = { { "X", 0 },
            { "Y", FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD },
            { "Offsets", FL_VALUE_SLOT } },
    .out = { { "Out", 0 } },
    .attrs = { ATTRS },
    .infer = crop_infer,
    .run = crop_run,
    .back = crop_back,
    .back_uses = FL_USES_IN(CROP_OFFSETS),
    .cases = crop_cases,
    .n_cases = FL_LEN(crop_cases),
};

const fl_op fl_op_crop_tensor = {
    .name = "crop_tensor",
    .doc =
        "Out = the part of X that begins at Offsets, OffsetsTensor or "
        "offsets, and has the shape of Shape, ShapeTensor or shape, where -1 "
        "stands for all that is left",
    .in = { { "X", 0 },
            { "Shape", FL_VALUE_SLOT },
            { "ShapeTensor", FL_VALUE_LIST },
            { "Offsets", FL_VALUE_SLOT },
            { "OffsetsTensor", FL_VALUE_LIST } },
    .out = { { "Out", 0 } },
    .attrs = { ATTRS },
    .infer = crop_tensor_infer,
    .run = crop_tensor_run,
    .back = crop_tensor_back,
    .back_uses = FL_USES_IN(OFFSETS_TENSOR) | FL_USES_IN(OFFSETS_LIST),
    .cases = crop_tensor_cases,
    .n_cases = FL_LEN(crop_tensor_cases),
};
