/* tensor_array_to_tensor.c - all values of an array as one tensor: next to each
 * other along an axis, or stacked along a new one. */
#include <inttypes.h>

#include "ops/arrays.h"
#include "ops/helpers.h"

enum { X };
enum { OUT, OUT_INDEX };
enum { AXIS, USE_STACK };

static int64_t size_along(const fl_op_node *n, const fl_tensor *t, int axis)
{
    return fl_attr_bool(n, USE_STACK) ? 1 : t->shape.dim[axis];
}

static int find_axis(const fl_infer *c, const fl_tensor *like)
{
    fl_shape s = like->shape;

    s.rank += fl_bool(c, USE_STACK) && s.rank < FL_RANK_MAX;
    return fl_shape_axis(&s, fl_int(c, AXIS));
}

/* All values fit the first one but along the axis. */
static fl_status check_values(const fl_infer *c, int axis, int64_t *along)
{
    const fl_array *a = fl_array_of(fl_infer_in(c, X));
    const fl_tensor *first = fl_array_at(a, 0);

    *along = 0;
    for (size_t i = 0; i < fl_array_len(a); i++) {
        const fl_tensor *t = fl_array_at(a, i);
        fl_shape s;

        if (!t)
            FL_FAIL(FL_ERR_INVAL,
                    "op tensor_array_to_tensor: X has nothing at place %zu", i);
        s = t->shape;
        if (!fl_bool(c, USE_STACK) && s.rank == first->shape.rank)
            s.dim[axis] = first->shape.dim[axis];
        if (t->dtype != first->dtype || !fl_shape_equal(&s, &first->shape))
            FL_FAIL(FL_ERR_INVAL,
                    "op tensor_array_to_tensor: place %zu of X does not fit "
                    "place 0",
                    i);
        *along += size_along(c->node, t, axis);
    }
    return FL_OK;
}

static void infer_shape(const fl_infer *c, const fl_tensor *like, int axis,
                        int64_t along)
{
    fl_shape s = like->shape;

    if (fl_bool(c, USE_STACK)) {
        for (int d = s.rank++; d > axis; d--)
            s.dim[d] = s.dim[d - 1];
    }
    s.dim[axis] = along;
    fl_infer_dense(c, OUT, like->dtype, s.rank, s.dim);
}

static fl_status tensor_array_to_tensor_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X), *like = x;
    int64_t along = -1, n = -1;
    int axis;

    FL_TRY(fl_infer_array(c, X));
    if (c->running) {
        n = (int64_t)fl_array_len(fl_array_of(x));
        like = fl_array_at(fl_array_of(x), 0);
        if (!like)
            FL_FAIL(FL_ERR_INVAL,
                    "op tensor_array_to_tensor: X has nothing at place 0");
    }
    axis = find_axis(c, like);
    if (axis < 0)
        FL_FAIL(FL_ERR_INVAL,
                "op tensor_array_to_tensor: axis %" PRId64 " of values of rank "
                "%d",
                fl_int(c, AXIS), like->shape.rank);
    if (c->running)
        FL_TRY(check_values(c, axis, &along));
    infer_shape(c, like, axis, along);
    fl_infer_dense(c, OUT_INDEX, FL_DTYPE_I32, 1, &n);
    return FL_OK;
}

/* Rows of a value as they lie in Out: `outer` pieces, each `piece` bytes of
   `row`. */
typedef struct layout {
    size_t outer, inner_bytes, row_bytes;
    int axis;
} layout;

static layout layout_of(const fl_tensor *whole, int64_t axis)
{
    layout l = { .axis = fl_shape_axis(&whole->shape, axis) };
    int rank = whole->shape.rank;

    l.outer = (size_t)fl_shape_count(&whole->shape, 0, l.axis);
    l.inner_bytes = (size_t)fl_shape_count(&whole->shape, l.axis + 1, rank) *
                    fl_dtype_bytes(whole->dtype);
    l.row_bytes = (size_t)whole->shape.dim[l.axis] * l.inner_bytes;
    return l;
}

static fl_status tensor_array_to_tensor_run(fl_op_ctx *c)
{
    const fl_array *a = fl_array_of(fl_in_t(c, X));
    fl_tensor *out = fl_out_t(c, OUT), *index = fl_out_t(c, OUT_INDEX);
    layout l = layout_of(out, fl_int(c, AXIS));
    size_t at = 0;

    for (size_t i = 0; i < fl_array_len(a); i++) {
        const fl_tensor *t = fl_array_at(a, i);
        size_t n = (size_t)size_along(c->node, t, l.axis);
        size_t piece = n * l.inner_bytes;

        for (size_t k = 0; k < l.outer && piece; k++)
            memcpy((char *)out->data + k * l.row_bytes + at,
                   (const char *)t->data + k * piece, piece);
        if (index)
            ((int32_t *)index->data)[i] =
                (int32_t)(fl_bool(c, USE_STACK) ? t->shape.dim[l.axis]
                                                : (int64_t)n);
        at += piece;
    }
    return FL_OK;
}

static fl_status tensor_array_to_tensor_back(fl_op_ctx *c)
{
    const fl_array *a = fl_array_of(fl_in_t(c, X));
    const fl_tensor *dout = fl_dout_t(c, OUT);
    fl_array *to = fl_array_of(fl_din_t(c, X));
    layout l = layout_of(dout, fl_int(c, AXIS));
    size_t at = 0;

    fl_array_clear(to);
    for (size_t i = 0; i < fl_array_len(a); i++) {
        size_t piece = (size_t)size_along(c->node, fl_array_at(a, i), l.axis) *
                       l.inner_bytes;
        fl_tensor *d;

        FL_TRY(fl_array_make(to, i, fl_array_at(a, i), &d));
        for (size_t k = 0; k < l.outer && piece; k++)
            memcpy((char *)d->data + k * piece,
                   (const char *)dout->data + k * l.row_bytes + at, piece);
        at += piece;
    }
    return FL_OK;
}

static const fl_op_case tensor_array_to_tensor_cases[] = {
    { .in = { "f32[3,4] array" } },
    { .in = { "f32[3,4] array" }, .attrs = "{use_stack=true, axis=2}" },
};

const fl_op fl_op_tensor_array_to_tensor = {
    .name = "tensor_array_to_tensor",
    .doc = "Out = the values of the array X next to each other along axis, or "
           "stacked along a new axis; OutIndex = their sizes along it",
    .in = { { "X", FL_OP_SLOT_ARRAY } },
    .out = { { "Out", 0 }, { "OutIndex", FL_OP_SLOT_BYPRODUCT } },
    .attrs = { { "axis", FL_ATTR_INT, "0" },
               { "use_stack", FL_ATTR_BOOL, "false" } },
    .infer = tensor_array_to_tensor_infer,
    .run = tensor_array_to_tensor_run,
    .back = tensor_array_to_tensor_back,
    .back_uses = FL_USES_IN(X),
    .cases = tensor_array_to_tensor_cases,
    .n_cases = FL_LEN(tensor_array_to_tensor_cases),
};
