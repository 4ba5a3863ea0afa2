/* concat.c - tensors behind one another along an axis. */
#include "ops/helpers.h"
#include "ops/sequences.h"
#include "ops/strips.h"
#include "ops/values.h"

enum { X, AXIS_TENSOR };
enum { OUT };
enum { AXIS };

/* --- strips --------------------------------------------------------------- */

fl_strip fl_strip_of(const fl_shape *s, int axis, fl_dtype dtype)
{
    int64_t n = fl_shape_count(s, axis, s->rank);

    return (fl_strip){ .row_bytes = (size_t)n * fl_dtype_bytes(dtype) };
}

static size_t bytes_of_row(const fl_strip *parts, int n)
{
    size_t bytes = 0;

    for (int i = 0; i < n; i++)
        bytes += parts[i].row_bytes;
    return bytes;
}

void fl_strips_join(char *whole, const fl_strip *parts, int n, fl_span rows)
{
    size_t row_bytes = bytes_of_row(parts, n);

    for (size_t r = rows.lo; row_bytes && r < rows.hi; r++) {
        char *to = whole + r * row_bytes;

        for (int i = 0; i < n; i++) {
            const fl_strip *p = &parts[i];

            if (p->row_bytes && p->data)
                memcpy(to, p->data + r * p->row_bytes, p->row_bytes);
            else
                memset(to, 0, p->row_bytes);
            to += p->row_bytes;
        }
    }
}

void fl_strips_cut(const char *whole, const fl_strip *parts, int n,
                   fl_span rows)
{
    size_t row_bytes = bytes_of_row(parts, n);

    for (size_t r = rows.lo; row_bytes && r < rows.hi; r++) {
        const char *from = whole + r * row_bytes;

        for (int i = 0; i < n; i++) {
            const fl_strip *p = &parts[i];

            if (p->row_bytes && p->data)
                memcpy(p->data + r * p->row_bytes, from, p->row_bytes);
            from += p->row_bytes;
        }
    }
}

/* --- the operator --------------------------------------------------------- */

/* Takes over what `b` knows and `a` does not; false when they differ outside
   the axis. */
static bool unite(fl_shape *a, const fl_shape *b, int axis)
{
    int64_t n = a->dim[axis];

    a->dim[axis] = -1;
    if (!fl_shape_matches(a, b))
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] < 0)
            a->dim[i] = b->dim[i];
    a->dim[axis] = n < 0 || b->dim[axis] < 0 ? -1 : n + b->dim[axis];
    return true;
}

/* Any axis may be the one: as many dimensions as X has, all of them open. */
static fl_status infer_open(fl_infer *c)
{
    fl_shape shape = fl_infer_in(c, X)->shape;

    for (int i = 0; i < shape.rank; i++)
        shape.dim[i] = -1;
    fl_infer_dense(c, OUT, fl_infer_in(c, X)->dtype, shape.rank, shape.dim);
    return FL_OK;
}

static bool all_have_sequences(const fl_infer *c)
{
    for (int i = 0; i < fl_infer_n_in(c, X); i++)
        if (fl_infer_in_at(c, X, i)->n_lod != 1)
            return false;
    return true;
}

/* The sequences of one part behind those of the part before. */
static fl_status infer_sequences(const fl_infer *c)
{
    int64_t *off, base = 0;
    size_t n = 0;

    for (int i = 0; c->running && i < fl_infer_n_in(c, X); i++)
        n += fl_seqs_of(fl_infer_in_at(c, X, i)).n;
    FL_TRY(fl_infer_new_seqs(c, OUT, n, &off));
    for (int i = 0; off && i < fl_infer_n_in(c, X); i++) {
        fl_seqs q = fl_seqs_of(fl_infer_in_at(c, X, i));

        for (size_t k = 1; k <= q.n; k++)
            *++off = base + q.off[k];
        base = *off;
    }
    return FL_OK;
}

static fl_status infer_along(fl_infer *c, int64_t given)
{
    const fl_tensor *x = fl_infer_in(c, X);
    int axis = fl_shape_axis(&x->shape, given);
    fl_shape shape = x->shape;
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    if (axis < 0)
        FL_FAIL(FL_ERR_INVAL, "op concat: %s has no axis %d",
                fl_infer_text_at(c, X, 0, a), (int)given);
    for (int i = 1; i < fl_infer_n_in(c, X); i++) {
        const fl_tensor *t = fl_infer_in_at(c, X, i);

        if (t->dtype != x->dtype || !unite(&shape, &t->shape, axis))
            FL_FAIL(FL_ERR_INVAL, "op concat: %s and %s do not fit at axis %d",
                    fl_infer_text_at(c, X, 0, a), fl_infer_text_at(c, X, i, b),
                    axis);
    }
    fl_tensor_like(fl_infer_out(c, OUT), x);
    fl_infer_out(c, OUT)->shape = shape;
    if (axis == 0 || fl_infer_in(c, AXIS_TENSOR))
        fl_infer_dense(c, OUT, x->dtype, shape.rank, shape.dim);
    if (axis == 0 && !fl_infer_in(c, AXIS_TENSOR) && all_have_sequences(c))
        return infer_sequences(c);
    return FL_OK;
}

static fl_status concat_infer(fl_infer *c)
{
    int64_t axis;
    bool known;

    FL_TRY(fl_infer_int(c, AXIS_TENSOR, AXIS, &axis, &known));
    return known ? infer_along(c, axis) : infer_open(c);
}

/* The strips of all parts, their data still missing. */
static fl_strip *strips_of(fl_op_ctx *c, fl_span *rows)
{
    const fl_tensor *x = fl_in_t(c, X);
    int axis = fl_shape_axis(&x->shape, fl_read_int(c, AXIS_TENSOR, AXIS));
    int n = fl_n_in(c, X);
    fl_strip *parts = fl_scratch(c, (size_t)n * sizeof(*parts));

    for (int i = 0; parts && i < n; i++)
        parts[i] = fl_strip_of(&fl_in_at(c, X, i)->shape, axis, x->dtype);
    *rows = fl_op_span(c, (size_t)fl_shape_count(&x->shape, 0, axis));
    return parts;
}

static fl_status concat_run(fl_op_ctx *c)
{
    int n = fl_n_in(c, X);
    fl_span rows;
    fl_strip *parts = strips_of(c, &rows);

    if (!parts)
        return FL_NOMEM(c);
    for (int i = 0; i < n; i++)
        parts[i].data = fl_in_at(c, X, i)->data;
    fl_strips_join(fl_out(c, OUT), parts, n, rows);
    return FL_OK;
}

static void zero_gradients(fl_op_ctx *c)
{
    for (int i = 0; i < fl_n_out(c, X); i++)
        if (fl_din_at(c, X, i))
            fl_share_zero(c, fl_din_at(c, X, i));
}

static fl_status concat_back(fl_op_ctx *c)
{
    int n = fl_n_in(c, X);
    fl_span rows;
    fl_strip *parts;

    if (!fl_dout_t(c, OUT)) {
        zero_gradients(c);
        return FL_OK;
    }
    parts = strips_of(c, &rows);
    if (!parts)
        return FL_NOMEM(c);
    for (int i = 0; i < n; i++)
        parts[i].data = fl_din_at(c, X, i) ? fl_din_at(c, X, i)->data : NULL;
    fl_strips_cut(fl_dout(c, OUT), parts, n, rows);
    return FL_OK;
}

static const fl_op_case concat_cases[] = {
    { .in = { "f32[6,7]" }, .attrs = "{axis=1}" },
    { .in = { "f32[6,7];f32[1,7]" }, .attrs = "{axis=0}" },
    { .in = { "f32[33,7];f32[33,1];f32[33,5]" }, .attrs = "{axis=1}" },
    { .in = { "f32[3,4,5];f32[3,4,2]" }, .attrs = "{axis=-1}" },
    { .in = { "f32[3,2,5];f32[3,0,5];f32[3,4,5]" }, .attrs = "{axis=1}" },
    { .in = { "i64[6,1] below=9;i64[6,2] below=9" }, .attrs = "{axis=1}" },
    { .in = { "f32[7,3] lod=[0,2,2,7];f32[7,1]" }, .attrs = "{axis=1}" },
    { .in = { "f32[7,3] lod=[0,2,2,7];f32[2,3] lod=[0,2]" } },
    { .in = { "f32[0,3] lod=[0,0];f32[2,3] lod=[0,1,2]" } },
    { .in = { "f32[0,8];f32[0,2]" }, .attrs = "{axis=1}" },
    { .in = { "f32[6,7];f32[6,2]", "i32[1] is=[1]" } },
};

const fl_op fl_op_concat = {
    .name = "concat",
    .doc = "Out = X[0], X[1], ... behind one another along axis (from the end "
           "when negative), which AxisTensor may give; along axis 0, or one "
           "that is given, offsets are dropped",
    .in = { { "X", FL_OP_SLOT_LIST }, { "AxisTensor", FL_VALUE_SLOT } },
    .out = { { "Out", 0 } },
    .attrs = { { "axis", FL_ATTR_INT, "0" } },
    .flags = FL_OP_SLICED,
    .infer = concat_infer,
    .run = concat_run,
    .back = concat_back,
    .cases = concat_cases,
    .n_cases = FL_LEN(concat_cases),
};
