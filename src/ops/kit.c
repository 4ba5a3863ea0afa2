/* kit.c - the functions every operator file leans on. */
#include "ops/kit.h"

#include <inttypes.h>

#include "base/hash.h"

static fl_tensor *arg(const fl_targs *a, int i)
{
    return i < a->n ? a->t[i] : NULL;
}

static int first_out(const fl_op_ctx *c)
{
    return fl_op_n_in(c->node->def);
}

static int first_dout(const fl_op_ctx *c)
{
    return fl_op_n_in(c->node->def) + fl_op_n_out(c->node->def);
}

const fl_tensor *fl_in_at(const fl_op_ctx *c, int slot, int i)
{
    return arg(&c->in[slot], i);
}

const fl_tensor *fl_in_t(const fl_op_ctx *c, int slot)
{
    return arg(&c->in[slot], 0);
}

fl_tensor *fl_out_at(const fl_op_ctx *c, int slot, int i)
{
    return arg(&c->out[slot], i);
}

fl_tensor *fl_out_t(const fl_op_ctx *c, int slot)
{
    return arg(&c->out[slot], 0);
}

int fl_n_in(const fl_op_ctx *c, int slot)
{
    return c->in[slot].n;
}

int fl_n_out(const fl_op_ctx *c, int slot)
{
    return c->out[slot].n;
}

const fl_tensor *fl_saved_out_t(const fl_op_ctx *c, int slot)
{
    return arg(&c->in[first_out(c) + slot], 0);
}

const fl_tensor *fl_dout_at(const fl_op_ctx *c, int slot, int i)
{
    return arg(&c->in[first_dout(c) + slot], i);
}

const fl_tensor *fl_dout_t(const fl_op_ctx *c, int slot)
{
    return fl_dout_at(c, slot, 0);
}

fl_tensor *fl_din_at(const fl_op_ctx *c, int slot, int i)
{
    return fl_out_at(c, slot, i);
}

fl_tensor *fl_din_t(const fl_op_ctx *c, int slot)
{
    return fl_out_t(c, slot);
}

static void *data_of(const fl_tensor *t)
{
    return t ? t->data : NULL;
}

const void *fl_in(const fl_op_ctx *c, int slot)
{
    return data_of(fl_in_t(c, slot));
}

void *fl_out(const fl_op_ctx *c, int slot)
{
    return data_of(fl_out_t(c, slot));
}

const void *fl_saved_out(const fl_op_ctx *c, int slot)
{
    return data_of(fl_saved_out_t(c, slot));
}

const void *fl_dout(const fl_op_ctx *c, int slot)
{
    return data_of(fl_dout_t(c, slot));
}

void *fl_din(const fl_op_ctx *c, int slot)
{
    return data_of(fl_din_t(c, slot));
}

void fl_out_rows(const fl_op_ctx *c, int slot, size_t n)
{
    fl_tensor *t = fl_out_t(c, slot);

    FL_DEBUG_ASSERT((int64_t)n <= t->shape.dim[0]);
    t->shape.dim[0] = (int64_t)n;
}

fl_span fl_op_blocks(const fl_op_ctx *c, size_t n, size_t block)
{
    size_t blocks = (n + block - 1) / block;
    size_t lo = blocks * (size_t)c->ith / (size_t)c->nth * block;
    size_t hi = blocks * ((size_t)c->ith + 1) / (size_t)c->nth * block;

    return (fl_span){ lo, hi < n ? hi : n };
}

fl_span fl_op_span(const fl_op_ctx *c, size_t n)
{
    return fl_op_blocks(c, n, 16);
}

void *fl_scratch(fl_op_ctx *c, size_t bytes)
{
    return fl_arena_try_alloc(c->scratch, bytes);
}

void *fl_op_workspace(const fl_op_ctx *c)
{
    return c->workspace->buf.data;
}

bool fl_op_is_last(const fl_op_ctx *c)
{
    return atomic_fetch_add(&c->workspace->n_done, 1) == c->nth - 1;
}

void *fl_op_keep(fl_op_ctx *c, size_t bytes, void (*release)(void *))
{
    if (!*c->keep) {
        *c->keep = fl_alloc(bytes);
        *c->keep_free = release;
    }
    return *c->keep;
}

uint64_t fl_op_stream_at(const fl_op_ctx *c, int i, int64_t seed,
                         fl_stream_kind kind)
{
    return fl_op_stream_of(c, c->node->out[0].vars[i]->name, seed, kind);
}

uint64_t fl_op_stream_of(const fl_op_ctx *c, const char *name, int64_t seed,
                         fl_stream_kind kind)
{
    uint64_t stream = fl_rng_stream(seed ? (uint64_t)seed : c->seed, name);

    if (kind == FL_STREAM_MOVING)
        stream = fl_mix64(stream ^ fl_mix64(c->step_no + 1)) +
                 (uint64_t)c->replica + ((uint64_t)c->turn << 32) +
                 fl_mix64(c->lap) * (c->lap > 0);
    return stream;
}

uint64_t fl_op_stream(const fl_op_ctx *c, int64_t seed, fl_stream_kind kind)
{
    return fl_op_stream_at(c, 0, seed, kind);
}

/* --- infer --------------------------------------------------------------- */

const fl_tensor *fl_infer_in_at(const fl_infer *c, int slot, int i)
{
    return arg(&c->in[slot], i);
}

const fl_tensor *fl_infer_in(const fl_infer *c, int slot)
{
    return arg(&c->in[slot], 0);
}

int fl_infer_n_in(const fl_infer *c, int slot)
{
    return c->in[slot].n;
}

int fl_infer_n_out(const fl_infer *c, int slot)
{
    return c->out[slot].n;
}

fl_tensor *fl_infer_out_at(const fl_infer *c, int slot, int i)
{
    return arg(&c->out[slot], i);
}

fl_tensor *fl_infer_out(const fl_infer *c, int slot)
{
    return arg(&c->out[slot], 0);
}

const char *fl_infer_text(const fl_infer *c, int slot,
                          char buf[FL_SLOT_TEXT_MAX])
{
    const fl_args *args = &c->node->in[slot];
    const fl_tensor *t = fl_infer_in(c, slot);
    char shape[FL_SHAPE_TEXT_MAX];

    if (!t) {
        snprintf(buf, FL_SLOT_TEXT_MAX, "%s (left out)",
                 fl_node_in_name(c->node, slot));
        return buf;
    }
    snprintf(buf, FL_SLOT_TEXT_MAX, "%s (%.100s: %s%s)",
             fl_node_in_name(c->node, slot), args->vars[0]->name,
             fl_dtype_text(t->dtype), fl_shape_text(&t->shape, shape));
    return buf;
}

int fl_float_index(fl_dtype dtype, const fl_op_node *n)
{
    if (dtype != FL_DTYPE_F32 && dtype != FL_DTYPE_F64)
        fl_die(__FILE__, __LINE__, "op %s has no form for %s", n->def->name,
               fl_dtype_text(dtype));
    return dtype == FL_DTYPE_F64;
}

/* A program may be built over f16, to be looked at or cast; it is a run that
   has no arithmetic for it. */
static bool is_half_so_far(const fl_infer *c, const fl_tensor *t)
{
    return !c->running && t->dtype == FL_DTYPE_F16;
}

fl_status fl_infer_float(const fl_infer *c, int slot)
{
    const fl_tensor *t = fl_infer_in(c, slot);
    char buf[FL_SLOT_TEXT_MAX];

    if (t && !fl_dtype_is_float(t->dtype) && !is_half_so_far(c, t))
        FL_FAIL(FL_ERR_TYPE, "op %s: %s must be f32 or f64", c->node->def->name,
                fl_infer_text(c, slot, buf));
    return FL_OK;
}

fl_status fl_infer_ids(const fl_infer *c, int slot)
{
    const fl_tensor *t = fl_infer_in(c, slot);
    char buf[FL_SLOT_TEXT_MAX];

    if (t && !fl_dtype_is_id(t->dtype))
        FL_FAIL(FL_ERR_TYPE, "op %s: %s must be i64, u64 or i32",
                c->node->def->name, fl_infer_text(c, slot, buf));
    return FL_OK;
}

fl_status fl_infer_same_dtype(const fl_infer *c, int a, int b)
{
    const fl_tensor *x = fl_infer_in(c, a);
    const fl_tensor *y = fl_infer_in(c, b);
    char ta[FL_SLOT_TEXT_MAX], tb[FL_SLOT_TEXT_MAX];

    if (x && y && x->dtype != y->dtype)
        FL_FAIL(FL_ERR_TYPE, "op %s: %s and %s have different types",
                c->node->def->name, fl_infer_text(c, a, ta),
                fl_infer_text(c, b, tb));
    return FL_OK;
}

fl_status fl_back_needs(const fl_infer *c, int slot)
{
    const fl_op *op = c->node->def;

    if (!fl_infer_in(c, fl_op_n_in(op) + slot))
        FL_FAIL(FL_ERR_INVAL,
                "op %s_grad: %s of %s was left out, but the gradient reads it",
                op->name, op->out[slot].name, op->name);
    return FL_OK;
}

fl_status fl_infer_same(fl_infer *c, int in, int out)
{
    FL_TRY(fl_infer_float(c, in));
    if (fl_infer_out(c, out))
        fl_tensor_like(fl_infer_out(c, out), fl_infer_in(c, in));
    return FL_OK;
}

void fl_infer_dense(const fl_infer *c, int slot, fl_dtype dtype, int rank,
                    const int64_t *dims)
{
    fl_tensor *t = fl_infer_out(c, slot);

    if (!t)
        return;
    t->dtype = dtype;
    t->kind = FL_KIND_DENSE;
    t->shape = fl_shape_of(rank, dims);
    t->n_lod = 0;
}

fl_status fl_infer_workspace(const fl_infer *c, size_t bytes, void **out)
{
    void *workspace = fl_buf_reserve(&c->workspace->buf, bytes);

    if (!workspace)
        FL_FAIL(FL_ERR_NOMEM, "no memory for %zu bytes of work space of %s",
                bytes, c->node->def->name);
    *out = workspace;
    return FL_OK;
}

/* --- checks -------------------------------------------------------------- */

fl_status fl_check_ids(const fl_tensor *ids, const char *slot, uint64_t limit,
                       int64_t skip)
{
    int64_t n = fl_tensor_numel(ids);

    for (int64_t i = 0; limit && i < n; i++) {
        int64_t id = fl_id_at(ids, i);

        if ((uint64_t)id >= limit && id != skip)
            FL_FAIL(FL_ERR_INVAL,
                    "%s: id %" PRId64 " at place %" PRId64
                    " is not in 0..%" PRIu64,
                    slot, id, i, limit - 1);
    }
    return FL_OK;
}

const fl_op_node *fl_op_ctx_node(const fl_op_ctx *c)
{
    return c->node;
}

const fl_op_node *fl_infer_node(const fl_infer *c)
{
    return c->node;
}
