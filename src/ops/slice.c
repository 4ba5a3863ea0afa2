/* slice.c - a part of a tensor: [start, end) along some of its axes.
 *
 * With R the last axis that is cut, a row of the input is what stands behind
 * its axes before R. Rows that lie inside the slice give one run of memory
 * each, in both directions.
 */
#include <inttypes.h>

#include "ops/helpers.h"
#include "ops/values.h"

enum { INPUT, STARTS_TENSOR, ENDS_TENSOR, STARTS_LIST, ENDS_LIST };
enum { OUT };
enum { AXES, STARTS, ENDS, INFER_FLAGS, DECREASE_AXIS };

static const fl_ints_from starts_from = { STARTS_TENSOR, STARTS_LIST, STARTS };
static const fl_ints_from ends_from = { ENDS_TENSOR, ENDS_LIST, ENDS };

/* What is taken of each axis. */
typedef struct cut {
    int rank, last; /* the last axis that is cut; 0 when none is */
    int64_t whole[FL_RANK_MAX];
    int64_t lo[FL_RANK_MAX], hi[FL_RANK_MAX];
} cut;

/* Negative places count from the end; places outside are moved to it. */
static int64_t place_of(int64_t at, int64_t n)
{
    at = at < 0 ? at + n : at;
    return at < 0 ? 0 : at > n ? n : at;
}

static void cut_axis(cut *k, int axis, int64_t start, int64_t end)
{
    int64_t n = k->whole[axis];

    k->lo[axis] = place_of(start, n);
    k->hi[axis] = place_of(end, n);
    if (k->hi[axis] < k->lo[axis])
        k->hi[axis] = k->lo[axis];
    k->last = axis > k->last ? axis : k->last;
}

/* A place whose axis is taken out ends one behind it; behind the last one, -1,
   that is not 0. */
static int64_t end_of(const fl_op_node *node, int axis, int64_t start,
                      int64_t end)
{
    size_t n;
    const int64_t *drop = fl_attr_ints(node, DECREASE_AXIS, &n);

    for (size_t i = 0; i < n && start == -1 && end == 0; i++)
        if (drop[i] == axis)
            return INT64_MAX;
    return end;
}

static cut cut_all(const fl_shape *x)
{
    cut k = { .rank = x->rank };

    for (int i = 0; i < x->rank; i++) {
        k.whole[i] = x->dim[i];
        k.hi[i] = x->dim[i];
    }
    return k;
}

static int axis_at(const int64_t *axes, int i, int rank)
{
    return (int)(axes[i] < 0 ? axes[i] + rank : axes[i]);
}

/* --- infer ---------------------------------------------------------------- */

static fl_status check_axes(const fl_infer *c, const fl_ints *starts,
                            const fl_ints *ends)
{
    int rank = fl_infer_in(c, INPUT)->shape.rank;
    char buf[FL_SLOT_TEXT_MAX];
    size_t n;
    const int64_t *axes = fl_attr_ints(c->node, AXES, &n);

    for (size_t i = 0; i < n; i++)
        if (axes[i] < -rank || axes[i] >= rank)
            FL_FAIL(FL_ERR_INVAL, "op slice: %s has no axis %" PRId64,
                    fl_infer_text(c, INPUT, buf), axes[i]);
    if ((starts->n >= 0 && (size_t)starts->n != n) ||
        (ends->n >= 0 && (size_t)ends->n != n))
        FL_FAIL(FL_ERR_INVAL,
                "op slice: %zu axes of %s are cut, but there are %d starts and "
                "%d ends",
                n, fl_infer_text(c, INPUT, buf), starts->n, ends->n);
    return FL_OK;
}

/* Dimensions of the slice; -1 where length, start or end is not known. */
static void cut_shape(const fl_infer *c, const fl_ints *starts,
                      const fl_ints *ends, fl_shape *shape)
{
    cut k = cut_all(shape);
    size_t n;
    const int64_t *axes = fl_attr_ints(c->node, AXES, &n);

    for (size_t i = 0; i < n; i++) {
        int axis = axis_at(axes, (int)i, shape->rank);
        bool known = starts->n >= 0 && ends->n >= 0 && starts->known[i] &&
                     ends->known[i] && k.whole[axis] >= 0;

        if (known)
            cut_axis(&k, axis, starts->at[i],
                     end_of(c->node, axis, starts->at[i], ends->at[i]));
        shape->dim[axis] = known ? k.hi[axis] - k.lo[axis] : -1;
    }
}

/* Axes of decrease_axis go; each is one long. */
static fl_status drop_axes(const fl_infer *c, fl_shape *shape)
{
    char buf[FL_SLOT_TEXT_MAX];
    size_t n;
    const int64_t *drop = fl_attr_ints(c->node, DECREASE_AXIS, &n);
    unsigned gone = 0;
    int rank = shape->rank;

    for (size_t i = 0; i < n; i++) {
        if (drop[i] < 0 || drop[i] >= rank ||
            (shape->dim[drop[i]] != 1 && shape->dim[drop[i]] != -1))
            FL_FAIL(FL_ERR_INVAL,
                    "op slice: decrease_axis %" PRId64
                    " of %s is not one long after the cut, but %" PRId64,
                    drop[i], fl_infer_text(c, INPUT, buf),
                    drop[i] < 0 || drop[i] >= rank ? 0 : shape->dim[drop[i]]);
        gone |= 1u << drop[i];
    }
    shape->rank = 0;
    for (int i = 0; i < rank; i++)
        if (!(gone >> i & 1))
            shape->dim[shape->rank++] = shape->dim[i];
    if (!shape->rank)
        *shape = fl_shape_of(1, (int64_t[]){ 1 });
    return FL_OK;
}

static bool cuts_rows(const fl_infer *c)
{
    int rank = fl_infer_in(c, INPUT)->shape.rank;
    size_t n;
    const int64_t *axes = fl_attr_ints(c->node, AXES, &n);

    for (size_t i = 0; i < n; i++)
        if (axis_at(axes, (int)i, rank) == 0)
            return true;
    return false;
}

static fl_status slice_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, INPUT);
    fl_tensor *out = fl_infer_out(c, OUT);
    fl_shape shape = x->shape;
    fl_ints starts, ends;

    FL_TRY(fl_infer_ints(c, &starts_from, &starts));
    FL_TRY(fl_infer_ints(c, &ends_from, &ends));
    FL_TRY(check_axes(c, &starts, &ends));
    cut_shape(c, &starts, &ends, &shape);
    FL_TRY(drop_axes(c, &shape));
    if (cuts_rows(c)) {
        fl_infer_dense(c, OUT, x->dtype, shape.rank, shape.dim);
    } else {
        fl_tensor_like(out, x);
        out->shape = shape;
    }
    return FL_OK;
}

/* --- moving the numbers --------------------------------------------------- */

static cut cut_of(const fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, INPUT)->shape;
    cut k = cut_all(x);
    fl_ints starts, ends;
    size_t n;
    const int64_t *axes = fl_attr_ints(c->node, AXES, &n);

    fl_read_ints(c, &starts_from, &starts);
    fl_read_ints(c, &ends_from, &ends);
    for (size_t i = 0; i < n; i++) {
        int axis = axis_at(axes, (int)i, x->rank);

        cut_axis(&k, axis, starts.at[i],
                 end_of(c->node, axis, starts.at[i], ends.at[i]));
    }
    return k;
}

/* Which row of the slice is row `row` of the whole; -1: none. */
static int64_t row_in_slice(const cut *k, int64_t row)
{
    int64_t at = 0, scale = 1;

    for (int i = k->last - 1; i >= 0; i--) {
        int64_t x = row % k->whole[i];

        row /= k->whole[i];
        if (x < k->lo[i] || x >= k->hi[i])
            return -1;
        at += (x - k->lo[i]) * scale;
        scale *= k->hi[i] - k->lo[i];
    }
    return at;
}

/* Rows of the whole, cut at the last axis: bytes of all of it, those before
   the slice and those inside. */
typedef struct run {
    size_t row, skip, part;
} run;

static run run_of(const cut *k, const fl_tensor *x)
{
    size_t one = (size_t)fl_shape_count(&x->shape, k->last + 1, k->rank) *
                 fl_dtype_bytes(x->dtype);

    return (run){ .row = one * (size_t)k->whole[k->last],
                  .skip = one * (size_t)k->lo[k->last],
                  .part = one * (size_t)(k->hi[k->last] - k->lo[k->last]) };
}

static fl_span rows_of(const fl_op_ctx *c, const cut *k)
{
    const fl_shape *x = &fl_in_t(c, INPUT)->shape;

    return fl_op_span(c, (size_t)fl_shape_count(x, 0, k->last));
}

static fl_status slice_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, INPUT);
    cut k = cut_of(c);
    run u = run_of(&k, x);
    fl_span rows = rows_of(c, &k);

    for (size_t r = rows.lo; r < rows.hi && u.part; r++) {
        int64_t to = row_in_slice(&k, (int64_t)r);

        if (to >= 0)
            memcpy((char *)fl_out(c, OUT) + (size_t)to * u.part,
                   (const char *)x->data + r * u.row + u.skip, u.part);
    }
    return FL_OK;
}

static fl_status slice_back(fl_op_ctx *c)
{
    fl_tensor *dx = fl_din_t(c, INPUT);
    const char *g = fl_dout(c, OUT);
    cut k = cut_of(c);
    fl_span rows = rows_of(c, &k);
    run u;

    if (!dx)
        return FL_OK;
    u = run_of(&k, dx);
    for (size_t r = rows.lo; r < rows.hi && u.row; r++) {
        char *row = (char *)dx->data + r * u.row;
        int64_t from = row_in_slice(&k, (int64_t)r);

        memset(row, 0, u.row);
        if (from >= 0 && g && u.part)
            memcpy(row + u.skip, g + (size_t)from * u.part, u.part);
    }
    return FL_OK;
}

static const fl_op_case slice_cases[] = {
    { .in = { "f32[33,7]" }, .attrs = "{axes=[1], starts=[2], ends=[5]}" },
    { .in = { "f32[33,7]" }, .attrs = "{axes=[0], starts=[-5], ends=[100]}" },
    { .in = { "f32[5,3,4]" },
      .attrs = "{axes=[0,2], starts=[1,-3], ends=[4,-1]}" },
    { .in = { "f32[5,3,4]" },
      .attrs = "{axes=[1], starts=[2], ends=[3], decrease_axis=[1]}" },
    { .in = { "f32[5,3]" },
      .attrs = "{axes=[0,1], starts=[1,1], ends=[2,2], "
               "decrease_axis=[0,1]}" },
    { .in = { "f32[5,3]", "i32[1] is=[-1]", "i32[1] is=[0]" },
      .attrs = "{axes=[1], decrease_axis=[1]}" },
    { .in = { "i64[7,3] lod=[0,2,2,7] below=9" },
      .attrs = "{axes=[1], starts=[0], ends=[1]}" },
    { .in = { "f32[5,4]", "i32[2] is=[1,0]", "i64[2] is=[3,2]" },
      .attrs = "{axes=[0,1]}" },
    { .in = { "f32[5,4]", "", "", "i32[1] is=[1];i32[1] is=[0]",
              "i64[1] is=[3];i64[1] is=[2]" },
      .attrs = "{axes=[0,1], starts=[-1,0], ends=[-1,2]}" },
    { .in = { "f32[5,4]" }, .attrs = "{axes=[1], starts=[3], ends=[1]}" },
    { .in = { "f32[0,8]" }, .attrs = "{axes=[1], starts=[1], ends=[3]}" },
    { .in = { "f32[0,8]" }, .attrs = "{axes=[0], starts=[0], ends=[3]}" },
};

const fl_op fl_op_slice = {
    .name = "slice",
    .doc = "Out = the places [starts, ends) of Input along axes, from the end "
           "when negative; axes of decrease_axis, one long, are taken out. "
           "Starts and ends may come as tensors",
    .in = { { "Input", 0 },
            { "StartsTensor", FL_VALUE_SLOT },
            { "EndsTensor", FL_VALUE_SLOT },
            { "StartsTensorList", FL_VALUE_LIST },
            { "EndsTensorList", FL_VALUE_LIST } },
    .out = { { "Out", 0 } },
    .attrs = { { "axes", FL_ATTR_INTS, "[]" },
               { "starts", FL_ATTR_INTS, "[]" },
               { "ends", FL_ATTR_INTS, "[]" },
               { "infer_flags", FL_ATTR_INTS, "[]" },
               { "decrease_axis", FL_ATTR_INTS, "[]" } },
    .flags = FL_OP_SLICED,
    .infer = slice_infer,
    .run = slice_run,
    .back = slice_back,
    .cases = slice_cases,
    .n_cases = FL_LEN(slice_cases),
};
