/* roll.c - places moved along axes; what leaves at one end comes in at the
 * other. */
#include <inttypes.h>

#include "ops/helpers.h"

enum { X };
enum { OUT };
enum { SHIFTS, DIMS };

static fl_status roll_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    size_t n, n_dims;
    const int64_t *dims = fl_attr_ints(c->node, DIMS, &n_dims);
    char buf[FL_SLOT_TEXT_MAX];

    fl_attr_ints(c->node, SHIFTS, &n);
    if (n != n_dims)
        FL_FAIL(FL_ERR_INVAL,
                "op roll: there are %zu shifts and %zu dims; each axis needs "
                "one",
                n, n_dims);
    for (size_t i = 0; i < n; i++)
        if (fl_shape_axis(&x->shape, dims[i]) < 0)
            FL_FAIL(FL_ERR_INVAL, "op roll: %s has no axis %" PRId64,
                    fl_infer_text(c, X, buf), dims[i]);
    fl_tensor_like(fl_infer_out(c, OUT), x);
    return FL_OK;
}

typedef enum way { FORWARD, BACKWARD } way;

/* How far the places of an axis of length n move on. */
static size_t shift_of(const fl_op_ctx *c, size_t i, size_t n, way w)
{
    size_t len;
    int64_t by = fl_attr_ints(c->node, SHIFTS, &len)[i];

    by %= (int64_t)n;
    by = w == FORWARD ? by : -by;
    return (size_t)(by < 0 ? by + (int64_t)n : by);
}

static void roll_axis(const fl_tensor *like, int axis, size_t shift,
                      const char *from, char *to)
{
    const fl_shape *s = &like->shape;
    size_t n = (size_t)s->dim[axis];
    size_t inner = (size_t)fl_shape_count(s, axis + 1, s->rank) *
                   fl_dtype_bytes(like->dtype);

    for (int64_t o = 0; o < fl_shape_count(s, 0, axis); o++) {
        memcpy(to + shift * inner, from, (n - shift) * inner);
        memcpy(to, from + (n - shift) * inner, shift * inner);
        from += n * inner;
        to += n * inner;
    }
}

/* An axis after the other, in rooms of its own but for the last. */
static fl_status roll_all(fl_op_ctx *c, const fl_tensor *from, fl_tensor *to,
                          way w)
{
    size_t bytes = (size_t)fl_tensor_numel(to) * fl_dtype_bytes(to->dtype), n;
    const int64_t *dims = fl_attr_ints(c->node, DIMS, &n);
    char *room[] = { fl_scratch(c, bytes + 1), fl_scratch(c, bytes + 1) };
    const char *at = from->data;

    if (!room[0] || !room[1])
        return FL_NOMEM(c);
    if (!bytes || !n) {
        fl_share_copy(c, to, from);
        return FL_OK;
    }
    for (size_t i = 0; i < n; i++) {
        int axis = fl_shape_axis(&to->shape, dims[i]);
        size_t shift = shift_of(c, i, (size_t)to->shape.dim[axis], w);
        char *next = i + 1 == n ? to->data : room[i % 2];

        roll_axis(to, axis, shift, at, next);
        at = next;
    }
    return FL_OK;
}

static fl_status roll_run(fl_op_ctx *c)
{
    return roll_all(c, fl_in_t(c, X), fl_out_t(c, OUT), FORWARD);
}

static fl_status roll_back(fl_op_ctx *c)
{
    if (fl_din_t(c, X) && fl_dout_t(c, OUT))
        return roll_all(c, fl_dout_t(c, OUT), fl_din_t(c, X), BACKWARD);
    fl_din_zero(c, X);
    return FL_OK;
}

static const fl_op_case roll_cases[] = {
    { .in = { "f32[5,3]" }, .attrs = "{shifts=[2], dims=[0]}" },
    { .in = { "f32[2,3,4]" }, .attrs = "{shifts=[-1,5,1], dims=[1,-1,0]}" },
    { .in = { "i64[4,1]" }, .attrs = "{shifts=[1], dims=[0]}" },
    { .in = { "f32[3,2]" } },
    { .in = { "f32[0,3]" }, .attrs = "{shifts=[2], dims=[1]}" },
};

const fl_op fl_op_roll = {
    .name = "roll",
    .doc =
        "Out = X with the places of axis dims[i] moved on by shifts[i]; what "
        "leaves at one end comes in at the other",
    .in = { { "X", 0 } },
    .out = { { "Out", 0 } },
    .attrs = { { "shifts", FL_ATTR_INTS, "[]" },
               { "dims", FL_ATTR_INTS, "[]" } },
    .infer = roll_infer,
    .run = roll_run,
    .back = roll_back,
    .cases = roll_cases,
    .n_cases = FL_LEN(roll_cases),
};
