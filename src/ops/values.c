/* values.c - reads what values.h describes. */
#include "ops/values.h"

#include <inttypes.h>

#include "ops/helpers.h"

/* A node and its inputs, as infer, run and back all have them. */
typedef struct reader {
    const fl_op_node *node;
    const fl_targs *in;
    bool running;
} reader;

static int n_given(const reader *r, int slot)
{
    return slot == FL_NO_SLOT ? 0 : r->in[slot].n;
}

static void read_attr(const reader *r, int attr, fl_ints *out)
{
    size_t n = 0;
    const int64_t *v = fl_attr_ints(r->node, attr, &n);

    out->n = n > FL_RANK_MAX ? FL_RANK_MAX : (int)n;
    for (int i = 0; i < out->n; i++) {
        out->at[i] = v[i];
        out->known[i] = true;
    }
}

static void read_tensor(const reader *r, int slot, fl_ints *out)
{
    const fl_tensor *t = r->in[slot].t[0];
    int64_t n = fl_shape_numel(&t->shape);

    out->n = n > FL_RANK_MAX ? FL_RANK_MAX : (int)n;
    for (int i = 0; i < out->n; i++) {
        out->known[i] = r->running;
        out->at[i] = r->running ? fl_id_at(t, i) : -1;
    }
}

/* What the attribute says of a list: -1 is nothing, and so is a number whose
   infer_flags is -1. */
static void read_said(const reader *r, int attr, fl_ints *out)
{
    int at = fl_op_find_attr(r->node->def, "infer_flags");
    size_t n = 0;
    const int64_t *flags = at < 0 ? NULL : fl_attr_ints(r->node, at, &n);

    read_attr(r, attr, out);
    for (int i = 0; i < out->n; i++)
        out->known[i] = out->at[i] != -1 && !((size_t)i < n && flags[i] == -1);
}

/* What the attribute says is known already while building. */
static void read_list(const reader *r, const fl_ints_from *from, fl_ints *out)
{
    int n = r->in[from->list].n;
    fl_ints said;

    read_said(r, from->attr, &said);
    out->n = n > FL_RANK_MAX ? FL_RANK_MAX : n;
    for (int i = 0; i < out->n; i++) {
        bool is_said = said.n == out->n && said.known[i];

        out->known[i] = r->running || is_said;
        out->at[i] = r->running ? fl_id_at(r->in[from->list].t[i], 0)
                     : is_said  ? said.at[i]
                                : -1;
    }
}

static void read_ints(const reader *r, const fl_ints_from *from, fl_ints *out)
{
    *out = (fl_ints){ 0 };
    if (n_given(r, from->tensor))
        read_tensor(r, from->tensor, out);
    else if (n_given(r, from->list))
        read_list(r, from, out);
    else
        read_attr(r, from->attr, out);
}

void fl_read_ints(const fl_op_ctx *c, const fl_ints_from *from, fl_ints *out)
{
    read_ints(&(reader){ c->node, c->in, true }, from, out);
}

/* --- checks --------------------------------------------------------------- */

static fl_status check_tensor(const fl_infer *c, int slot)
{
    const fl_shape *s = &fl_infer_in(c, slot)->shape;
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_ids(c, slot));
    if (s->rank != 1 || s->dim[0] > FL_RANK_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s must be a list of at most %d integers, [n]",
                c->node->def->name, fl_infer_text(c, slot, buf), FL_RANK_MAX);
    return FL_OK;
}

bool fl_is_one(const fl_tensor *t)
{
    for (int i = 0; i < t->shape.rank; i++)
        if (t->shape.dim[i] != 1 && t->shape.dim[i] != -1)
            return false;
    return true;
}

static fl_status check_entry(const fl_infer *c, int slot, int i)
{
    const fl_tensor *t = fl_infer_in_at(c, slot, i);
    char buf[FL_SLOT_TEXT_MAX];

    if (!fl_dtype_is_id(t->dtype) || !fl_is_one(t))
        FL_FAIL(FL_ERR_INVAL, "op %s: %s must hold one integer, [1]",
                c->node->def->name, fl_infer_text_at(c, slot, i, buf));
    return FL_OK;
}

/* Names where number i of the list came from. */
static const char *origin(const fl_infer *c, const fl_ints_from *from, int i,
                          char buf[FL_SLOT_TEXT_MAX])
{
    reader r = { c->node, c->in, c->running };

    if (n_given(&r, from->tensor))
        return fl_infer_text(c, from->tensor, buf);
    if (n_given(&r, from->list))
        return fl_infer_text_at(c, from->list, i, buf);
    snprintf(buf, FL_SLOT_TEXT_MAX, "attribute %s",
             c->node->def->attrs[from->attr].name);
    return buf;
}

/* The numbers of a list against what the program was built with. */
static fl_status check_said(const fl_infer *c, const fl_ints_from *from,
                            const fl_ints *got)
{
    reader r = { c->node, c->in, c->running };
    char buf[FL_SLOT_TEXT_MAX];
    fl_ints said;

    read_said(&r, from->attr, &said);
    for (int i = 0; i < got->n && said.n == got->n && c->running; i++)
        if (said.known[i] && said.at[i] != got->at[i])
            FL_FAIL(FL_ERR_INVAL,
                    "op %s: %s is %" PRId64 ", but the program was built with "
                    "%" PRId64 " in its place",
                    c->node->def->name, origin(c, from, i, buf), got->at[i],
                    said.at[i]);
    return FL_OK;
}

static fl_status check_count(const fl_infer *c, const fl_ints_from *from)
{
    size_t n =
        (size_t)(from->list == FL_NO_SLOT ? 0 : fl_infer_n_in(c, from->list));

    if (!n)
        fl_attr_ints(c->node, from->attr, &n);
    if (n > FL_RANK_MAX)
        FL_FAIL(FL_ERR_INVAL, "op %s: %s has %zu entries, at most %d fit",
                c->node->def->name, c->node->def->attrs[from->attr].name, n,
                FL_RANK_MAX);
    return FL_OK;
}

fl_status fl_infer_ints(const fl_infer *c, const fl_ints_from *from,
                        fl_ints *out)
{
    reader r = { c->node, c->in, c->running };

    if (n_given(&r, from->tensor)) {
        FL_TRY(check_tensor(c, from->tensor));
        read_ints(&r, from, out);
        return FL_OK;
    }
    FL_TRY(check_count(c, from));
    if (!n_given(&r, from->list)) {
        read_ints(&r, from, out);
        return FL_OK;
    }
    for (int i = 0; i < fl_infer_n_in(c, from->list); i++)
        FL_TRY(check_entry(c, from->list, i));
    read_ints(&r, from, out);
    return check_said(c, from, out);
}

fl_status fl_infer_dims(const fl_infer *c, const fl_ints_from *from,
                        int64_t least, fl_shape *out)
{
    char buf[FL_SLOT_TEXT_MAX];
    fl_ints v;

    FL_TRY(fl_infer_ints(c, from, &v));
    if (v.n == -1)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s has no known length, so the number of dimensions "
                "is open",
                c->node->def->name, origin(c, from, 0, buf));
    if (v.n == 0)
        FL_FAIL(FL_ERR_INVAL, "op %s: %s has 0 entries, 1 to %d are possible",
                c->node->def->name, origin(c, from, 0, buf), FL_RANK_MAX);
    *out = fl_shape_of(v.n, v.at);
    for (int i = 0; i < v.n; i++)
        if (v.known[i] && v.at[i] < least)
            FL_FAIL(FL_ERR_INVAL,
                    "op %s: %s gives %" PRId64
                    " for dimension %d; it must be at least %" PRId64,
                    c->node->def->name, origin(c, from, i, buf), v.at[i], i,
                    least);
    return FL_OK;
}

/* --- one number ----------------------------------------------------------- */

fl_status fl_infer_int(const fl_infer *c, int slot, int attr, int64_t *out,
                       bool *is_known)
{
    const fl_tensor *t = fl_infer_in(c, slot);

    if (!t) {
        *out = fl_attr_int(c->node, attr);
        *is_known = true;
        return FL_OK;
    }
    FL_TRY(check_entry(c, slot, 0));
    *is_known = c->running;
    if (c->running)
        *out = fl_id_at(t, 0);
    return FL_OK;
}

fl_status fl_infer_number(const fl_infer *c, int slot)
{
    const fl_tensor *t = fl_infer_in(c, slot);
    char buf[FL_SLOT_TEXT_MAX];

    if (t && (!fl_dtype_is_float(t->dtype) || !fl_is_one(t)))
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s must hold one number of type f32 or f64, [1]",
                c->node->def->name, fl_infer_text(c, slot, buf));
    return FL_OK;
}

int64_t fl_read_int(const fl_op_ctx *c, int slot, int attr)
{
    const fl_tensor *t = fl_in_t(c, slot);

    return t ? fl_id_at(t, 0) : fl_int(c, attr);
}

double fl_read_float(const fl_op_ctx *c, int slot, int attr)
{
    const fl_tensor *t = fl_in_t(c, slot);

    return t ? fl_float_at(t, 0) : fl_float(c, attr);
}

/* --- the batch of another tensor ------------------------------------------ */

static int64_t batch_of(const fl_infer *c, const fl_tensor *in, int64_t dim)
{
    if (dim > 0 || in->n_lod == 0)
        return in->shape.dim[dim];
    return c->running ? in->lod_len[in->n_lod - 1] - 1 : -1;
}

/* Only dimension `to` may be open. */
static fl_status check_closed(const fl_infer *c, const fl_shape *shape,
                              int64_t to)
{
    char text[FL_SHAPE_TEXT_MAX];

    for (int i = 0; i < shape->rank; i++)
        if (i != to && shape->dim[i] < 0)
            FL_FAIL(FL_ERR_INVAL,
                    "op %s: shape %s leaves open more than dimension "
                    "output_dim_idx=%d",
                    c->node->def->name, fl_shape_text(shape, text), (int)to);
    return FL_OK;
}

fl_status fl_infer_batch_like(const fl_infer *c, const fl_batch_like *like,
                              fl_shape *out)
{
    const fl_tensor *in = fl_infer_in(c, like->input);
    int64_t from = fl_int(c, like->from), to = fl_int(c, like->to);
    char buf[FL_SLOT_TEXT_MAX], text[FL_SHAPE_TEXT_MAX];

    FL_TRY(fl_infer_shape(c, like->shape, -1, out));
    if (from < 0 || from >= in->shape.rank || to < 0 || to >= out->rank)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s has no dimension input_dim_idx=%d, or shape %s "
                "none at output_dim_idx=%d",
                c->node->def->name, fl_infer_text(c, like->input, buf),
                (int)from, fl_shape_text(out, text), (int)to);
    out->dim[to] = batch_of(c, in, from);
    return check_closed(c, out, to);
}
