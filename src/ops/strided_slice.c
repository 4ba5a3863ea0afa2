/* strided_slice.c - a part of a tensor: from start on by steps, which may lead
 * backwards, to before end. */
#include <inttypes.h>

#include "ops/helpers.h"
#include "ops/values.h"
#include "ops/walk.h"

enum {
    INPUT,
    STARTS_TENSOR,
    ENDS_TENSOR,
    STRIDES_TENSOR,
    STARTS_LIST,
    ENDS_LIST,
    STRIDES_LIST
};
enum { OUT };
enum { AXES, STARTS, ENDS, STRIDES };

/* The limits of all axes that are cut. */
typedef struct cuts {
    const int64_t *axes;
    size_t n;
    fl_ints from[3]; /* starts, ends, steps */
} cuts;

static const fl_ints_from sources[3] = {
    { STARTS_TENSOR, STARTS_LIST, STARTS },
    { ENDS_TENSOR, ENDS_LIST, ENDS },
    { STRIDES_TENSOR, STRIDES_LIST, STRIDES },
};

static int64_t between(int64_t v, int64_t lo, int64_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

/* The places of one axis of length n that a cut takes. */
typedef struct places {
    int64_t start, step, count;
} places;

/* Negative limits count from the end; those outside are moved to it. Backwards
   the end may lie before place 0. */
static places places_of(const cuts *k, size_t i, int64_t n)
{
    int64_t start = k->from[0].at[i], end = k->from[1].at[i];
    int64_t step = k->from[2].at[i];
    int64_t lo = step < 0 ? -1 : 0, hi = step < 0 ? n - 1 : n, way;

    start = between(start < 0 ? start + n : start, lo, hi);
    end = between(end < 0 ? end + n : end, lo, hi);
    way = step < 0 ? start - end : end - start;
    return (places){ start, step,
                     way > 0 ? (way - 1) / (step < 0 ? -step : step) + 1 : 0 };
}

/* --- infer ---------------------------------------------------------------- */

static fl_status check_cuts(const fl_infer *c, const cuts *k)
{
    const fl_shape *x = &fl_infer_in(c, INPUT)->shape;
    char buf[FL_SLOT_TEXT_MAX];

    for (size_t i = 0; i < k->n; i++)
        if (fl_shape_axis(x, k->axes[i]) < 0)
            FL_FAIL(FL_ERR_INVAL, "op strided_slice: %s has no axis %" PRId64,
                    fl_infer_text(c, INPUT, buf), k->axes[i]);
    for (int s = 0; s < 3; s++)
        if ((size_t)k->from[s].n != k->n)
            FL_FAIL(FL_ERR_INVAL,
                    "op strided_slice: %zu axes of %s are cut, but there are "
                    "%d %s",
                    k->n, fl_infer_text(c, INPUT, buf), k->from[s].n,
                    c->node->def->attrs[STARTS + s].name);
    for (size_t i = 0; i < k->n; i++)
        if (k->from[2].known[i] && !k->from[2].at[i])
            FL_FAIL(FL_ERR_INVAL,
                    "op strided_slice: steps of 0 lead nowhere along axis "
                    "%" PRId64 " of %s",
                    k->axes[i], fl_infer_text(c, INPUT, buf));
    return FL_OK;
}

static bool is_known(const cuts *k, size_t i)
{
    return k->from[0].known[i] && k->from[1].known[i] && k->from[2].known[i];
}

static fl_status strided_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, INPUT);
    fl_shape shape = x->shape;
    cuts k;

    k.axes = fl_attr_ints(c->node, AXES, &k.n);
    for (int s = 0; s < 3; s++)
        FL_TRY(fl_infer_ints(c, &sources[s], &k.from[s]));
    FL_TRY(check_cuts(c, &k));
    for (size_t i = 0; i < k.n; i++) {
        int axis = fl_shape_axis(&shape, k.axes[i]);
        int64_t n = x->shape.dim[axis];

        shape.dim[axis] =
            is_known(&k, i) && n >= 0 ? places_of(&k, i, n).count : -1;
    }
    fl_infer_dense(c, OUT, x->dtype, shape.rank, shape.dim);
    return FL_OK;
}

/* --- moving the numbers --------------------------------------------------- */

static fl_walk walk_of(const fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, INPUT)->shape;
    fl_walk w = fl_walk_of(x);
    cuts k;

    k.axes = fl_attr_ints(c->node, AXES, &k.n);
    for (int s = 0; s < 3; s++)
        fl_read_ints(c, &sources[s], &k.from[s]);
    for (size_t i = 0; i < k.n; i++) {
        int axis = fl_shape_axis(x, k.axes[i]);
        places p = places_of(&k, i, x->dim[axis]);

        fl_walk_along(&w, axis, p.start, p.step, p.count);
    }
    return w;
}

static fl_status strided_run(fl_op_ctx *c)
{
    fl_walk w = walk_of(c);

    fl_walk_take(&w, fl_dtype_bytes(fl_in_t(c, INPUT)->dtype), fl_out(c, OUT),
                 fl_in(c, INPUT));
    return FL_OK;
}

static fl_status strided_back(fl_op_ctx *c)
{
    fl_tensor *dx = fl_din_t(c, INPUT);
    fl_walk w = walk_of(c);

    if (!dx)
        return FL_OK;
    fl_share_zero(c, dx);
    if (fl_dout_t(c, OUT))
        fl_walk_put(&w, fl_dtype_bytes(dx->dtype), fl_dout(c, OUT), dx->data);
    return FL_OK;
}

static const fl_op_case strided_cases[] = {
    { .in = { "f32[33,7]" },
      .attrs = "{axes=[1], starts=[1], ends=[6], strides=[2]}" },
    { .in = { "f32[33,7]" },
      .attrs = "{axes=[0,1], starts=[-1,-2], ends=[-100,0], strides=[-3,-1]}" },
    { .in = { "i64[5,3,4] below=9" },
      .attrs = "{axes=[-1], starts=[0], ends=[100], strides=[3]}" },
    { .in = { "f32[9]" },
      .attrs = "{axes=[0], starts=[5], ends=[2], strides=[1]}" },
    { .in = { "f32[5,4]", "i32[2] is=[1,3]", "i64[2] is=[3,0]",
              "i32[2] is=[1,-2]" },
      .attrs = "{axes=[0,1]}" },
    { .in = { "f32[5,4]", "", "", "", "i32[1] is=[0]", "i32[1] is=[4]",
              "i32[1] is=[2]" },
      .attrs = "{axes=[0], starts=[-1], ends=[-1], strides=[-1]}" },
    { .in = { "f32[5,4]", "", "", "", "i32[1] is=[1];i32[1] is=[0]" },
      .attrs = "{axes=[0,1], starts=[1,10], ends=[3,4], strides=[1,1], "
               "infer_flags=[1,-1]}" },
    { .in = { "f32[0,8]" },
      .attrs = "{axes=[0,1], starts=[0,6], ends=[3,1], strides=[1,-2]}" },
};

const fl_op fl_op_strided_slice = {
    .name = "strided_slice",
    .doc = "Out = the places of Input along axes from starts on, strides "
           "apart, before ends; limits count from the end when negative, and "
           "strides below 0 lead backwards. All three may come as tensors",
    .in = { { "Input", 0 },
            { "StartsTensor", FL_VALUE_SLOT },
            { "EndsTensor", FL_VALUE_SLOT },
            { "StridesTensor", FL_VALUE_SLOT },
            { "StartsTensorList", FL_VALUE_LIST },
            { "EndsTensorList", FL_VALUE_LIST },
            { "StridesTensorList", FL_VALUE_LIST } },
    .out = { { "Out", 0 } },
    .attrs = { { "axes", FL_ATTR_INTS, "[]" },
               { "starts", FL_ATTR_INTS, "[]" },
               { "ends", FL_ATTR_INTS, "[]" },
               { "strides", FL_ATTR_INTS, "[]" },
               { "infer_flags", FL_ATTR_INTS, "[]" },
               { "decrease_axis", FL_ATTR_INTS, "[]" } },
    .infer = strided_infer,
    .run = strided_run,
    .back = strided_back,
    .cases = strided_cases,
    .n_cases = FL_LEN(strided_cases),
};
