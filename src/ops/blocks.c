/* blocks.c - running a block, and taking what it made. */
#include "ops/blocks.h"

#include "kernel/vec.h"
#include "ops/arrays.h"
#include "ops/helpers.h"
#include "ops/rows.h"

fl_status fl_infer_block(const fl_infer *c, int attr)
{
    int64_t block = fl_attr_block(c->node, attr);

    if (block < 1)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s %lld is no block that can run inside another",
                c->node->def->name, c->node->def->attrs[attr].name,
                (long long)block);
    return FL_OK;
}

fl_block *fl_block_of(const fl_op_node *n, int attr)
{
    return n->block->program->blocks.data[fl_attr_block(n, attr)];
}

const fl_args *fl_out_vars(const fl_op_node *n, int slot)
{
    return n->is_grad ? &n->in[fl_op_n_in(n->def) + slot] : &n->out[slot];
}

bool fl_is_kept(const fl_op_node *n, const fl_var *v)
{
    if (v->flags & FL_VAR_PERSIST)
        return true;
    for (const fl_op_node *o = n->prev; o; o = o->prev)
        if (fl_node_writes_var(o, v))
            return true;
    return false;
}

static void infer_unknown(fl_tensor *out)
{
    for (int d = 0; d < out->shape.rank; d++)
        if (out->shape.dim[d] < 0)
            out->shape.dim[d] = 0;
    out->n_lod = 0;
    if (out->kind != FL_KIND_ARRAY)
        out->kind = FL_KIND_DENSE;
}

static fl_status infer_declared(const fl_infer *c, int slot, int i)
{
    const fl_var *v = fl_out_vars(c->node, slot)->vars[i];
    fl_tensor *out = fl_infer_out_at(c, slot, i);

    if (!v)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: entry %d of %s names no variable that exists; declare "
                "it before the operator",
                c->node->def->name, i, c->node->def->out[slot].name);
    if (c->node->is_grad) { /* the run has told its shape */
        fl_tensor_like(out, c->in[fl_op_n_in(c->node->def) + slot].t[i]);
        return FL_OK;
    }
    if (c->running && out->data && fl_is_kept(c->node, v))
        return FL_OK;
    fl_tensor_like(out, &v->meta);
    if (c->running)
        infer_unknown(out);
    return FL_OK;
}

bool fl_is_read_later(const fl_op_node *n, int slot)
{
    const fl_var *v = n->out[slot].n ? n->out[slot].vars[0] : NULL;

    for (const fl_use *u = v ? v->first_use : NULL; u; u = u->next)
        if (u->node != n)
            return true;
    return false;
}

fl_status fl_infer_declared(const fl_infer *c, int slot)
{
    for (int i = 0; i < fl_infer_n_out(c, slot); i++)
        FL_TRY(infer_declared(c, slot, i));
    return FL_OK;
}

void fl_grad_clear(const fl_op_ctx *c, fl_tensor *to)
{
    if (to->kind == FL_KIND_ARRAY)
        fl_array_clear(fl_array_of(to));
    else
        fl_share_zero(c, to);
}

void fl_out_begin(const fl_op_ctx *c, int slot)
{
    for (int i = 0; i < fl_n_out(c, slot); i++)
        if (!fl_is_kept(c->node, c->node->out[slot].vars[i]))
            fl_grad_clear(c, fl_out_at(c, slot, i));
}

fl_status fl_block_run(fl_op_ctx *c, fl_block_call *call, int n)
{
    call->copy_op = "assign";
    call->sum_op = "sum";
    if (!call->results)
        call->results = fl_scratch(c, ((size_t)n + 1) * sizeof(*call->results));
    if (!call->results)
        return FL_NOMEM(c);
    if (!c->blocks)
        FL_FAIL(FL_ERR_UNSUPPORTED, "op %s: nothing here can run block %d",
                c->node->def->name, call->block);
    return c->blocks->run(c->blocks, call);
}

static void copy_values(fl_tensor *to, const fl_tensor *from)
{
    size_t size = fl_dtype_bytes(from->dtype);
    size_t n = (size_t)fl_tensor_numel(from);

    if (n && to->data != from->data)
        memcpy(to->data, from->data, n * size);
    if (from->kind == FL_KIND_ROWS && from->shape.dim[0])
        memcpy(to->rows, from->rows,
               (size_t)from->shape.dim[0] * sizeof(*to->rows));
}

/* Offsets of what a block made last no longer than its run. */
static fl_status keep_offsets(fl_op_ctx *c, fl_tensor *out)
{
    for (int k = 0; k < out->n_lod; k++) {
        size_t bytes = (size_t)out->lod_len[k] * sizeof(int64_t);
        int64_t *copy = fl_arena_try_alloc(c->step, bytes);

        if (!copy)
            return FL_NOMEM(c);
        memcpy(copy, out->lod[k], bytes);
        out->lod[k] = copy;
    }
    return FL_OK;
}

fl_status fl_out_become(fl_op_ctx *c, fl_tensor *out, const fl_tensor *value)
{
    fl_tensor_like(out, value);
    if (value->kind == FL_KIND_ARRAY) {
        fl_array_copy(fl_array_of(out), fl_array_of(value));
        return FL_OK;
    }
    fl_tensor_set_merged(out, fl_tensor_is_merged(value));
    FL_TRY(keep_offsets(c, out));
    FL_TRY(c->blocks->place(c->blocks, out));
    copy_values(out, value);
    return FL_OK;
}

#define ADD(T, t)                                                              \
    static void add_##t(fl_tensor *to, const fl_tensor *from)                  \
    {                                                                          \
        fl_vec_##t()->axpy(to->data, 1, from->data,                            \
                           (size_t)fl_tensor_numel(from));                     \
    }
FL_FLOATS(ADD)

fl_status fl_grad_add(fl_tensor *to, const fl_tensor *from)
{
    char a[FL_SHAPE_TEXT_MAX], b[FL_SHAPE_TEXT_MAX];

    if (to->kind == FL_KIND_ARRAY)
        return fl_array_add(fl_array_of(to), fl_array_of(from));
    if (from->kind == FL_KIND_ROWS)
        return fl_rows_add_to(from, to);
    if (!fl_shape_equal(&to->shape, &from->shape))
        FL_FAIL(FL_ERR_INVAL,
                "a block gave a gradient of shape %s for a value of shape %s",
                fl_shape_text(&from->shape, a), fl_shape_text(&to->shape, b));
    FL_BY_DTYPE(to->dtype, add, to, from);
    return FL_OK;
}
