/* arrays.c - sums of arrays, and places in them. */
#include "ops/arrays.h"

#include <inttypes.h>

#include "kernel/vec.h"
#include "ops/values.h"

#define ADD(T, t)                                                              \
    static void add_##t(fl_tensor *to, const fl_tensor *a, const fl_tensor *b) \
    {                                                                          \
        fl_vec_##t()->add(to->data, a->data, b->data,                          \
                          (size_t)fl_tensor_numel(to));                        \
    }
FL_FLOATS(ADD)

/* Values are shared, so that the sum is a new one. */
static fl_status add_at(fl_array *to, size_t i, const fl_tensor *more)
{
    const fl_tensor *old = fl_array_at(to, i);
    char a[FL_SHAPE_TEXT_MAX], b[FL_SHAPE_TEXT_MAX];
    fl_array *sum;
    fl_tensor *t;
    fl_status st;

    if (!fl_shape_equal(&old->shape, &more->shape) ||
        old->dtype != more->dtype || !fl_dtype_is_float(old->dtype))
        FL_FAIL(FL_ERR_INVAL,
                "place %zu of two arrays that are added up has %s%s and %s%s",
                i, fl_dtype_text(old->dtype), fl_shape_text(&old->shape, a),
                fl_dtype_text(more->dtype), fl_shape_text(&more->shape, b));
    sum = fl_array_new();
    st = fl_array_make(sum, 0, old, &t);
    if (!st) {
        FL_BY_DTYPE(t->dtype, add, t, old, more);
        fl_array_share(to, i, sum, 0);
    }
    fl_array_free(sum);
    return st;
}

fl_status fl_array_add(fl_array *to, const fl_array *from)
{
    for (size_t i = 0; i < fl_array_len(from); i++) {
        const fl_tensor *more = fl_array_at(from, i);

        if (!more)
            continue;
        if (fl_array_at(to, i))
            FL_TRY(add_at(to, i, more));
        else
            fl_array_share(to, i, from, i);
    }
    return FL_OK;
}

fl_status fl_infer_index(const fl_infer *c, int slot)
{
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_ids(c, slot));
    if (!fl_is_one(fl_infer_in(c, slot)))
        FL_FAIL(FL_ERR_INVAL, "op %s: %s must hold one integer",
                c->node->def->name, fl_infer_text(c, slot, buf));
    return FL_OK;
}

fl_status fl_read_index(const fl_op_node *n, const fl_tensor *index,
                        size_t *out)
{
    int64_t i = fl_id_at(index, 0);

    if (i < 0 || i >= FL_ARRAY_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %" PRId64 " is no place of an array; 0 to %d are",
                fl_node_type(n), i, FL_ARRAY_MAX - 1);
    *out = (size_t)i;
    return FL_OK;
}

fl_status fl_infer_array(const fl_infer *c, int slot)
{
    char buf[FL_SLOT_TEXT_MAX];

    if (fl_infer_in(c, slot)->kind != FL_KIND_ARRAY)
        FL_FAIL(FL_ERR_INVAL, "op %s: %s must be an array", c->node->def->name,
                fl_infer_text(c, slot, buf));
    return FL_OK;
}

void fl_infer_array_of(const fl_infer *c, int slot, const fl_tensor *like)
{
    fl_tensor *out = fl_infer_out(c, slot);

    if (!out)
        return;
    fl_tensor_like(out, like);
    out->kind = FL_KIND_ARRAY;
}
