/* scope.c - the values that outlive a run. */
#include "exec/scope.h"

#include "tensor/pack.h"

#define LARGE_PAGE ((size_t)2 << 20)
#define LINE_BYTES ((size_t)64)

/* Fewer bytes than that are few pages anyway. */
#define WORTH_JOINING ((size_t)512 << 10)

void fl_scope_init(fl_scope *s)
{
    memset(s, 0, sizeof(*s));
    fl_mutex_init(&s->mu);
    atomic_init(&s->step, 0);
}

static void free_var(fl_scope_var *v)
{
    fl_data_free(v->block, v->block_bytes);
    fl_free(v->name);
    fl_free(v);
}

void fl_scope_release(fl_scope *s)
{
    for (size_t i = 0; i < s->vars.len; i++)
        free_var(s->vars.data[i]);
    fl_vec_release(&s->vars);
    fl_map_release(&s->by_name);
    fl_buf_release(&s->joined);
    fl_mutex_release(&s->mu);
}

fl_status fl_scope_new(fl_scope **out, fl_scope *parent)
{
    fl_scope *s = fl_alloc(sizeof(*s));

    fl_scope_init(s);
    s->parent = parent;
    *out = s;
    return FL_OK;
}

void fl_scope_free(fl_scope *s)
{
    if (!s)
        return;
    fl_scope_release(s);
    fl_free(s);
}

static bool find_own(fl_scope *s, const char *name, fl_tensor *out)
{
    fl_scope_var *v;

    fl_lock(&s->mu);
    v = fl_map_find(&s->by_name, name);
    if (v)
        *out = v->value;
    fl_unlock(&s->mu);
    return v != NULL;
}

bool fl_scope_find(fl_scope *s, const char *name, fl_tensor *out)
{
    for (; s; s = s->parent)
        if (find_own(s, name, out))
            return true;
    return false;
}

fl_scope *fl_scope_holder(fl_scope *s, const char *name)
{
    fl_tensor t;

    while (s && !find_own(s, name, &t))
        s = s->parent;
    return s;
}

fl_scope *fl_scope_home(fl_scope *s, const char *name)
{
    fl_scope *has = fl_scope_holder(s, name);

    return has ? has : s;
}

fl_status fl_scope_get(fl_scope *s, const char *name, fl_tensor *out)
{
    if (!fl_scope_find(s, name, out))
        FL_FAIL(FL_ERR_NOTFOUND,
                "the scope has no variable %s; run the startup program first",
                name);
    return FL_OK;
}

static fl_scope_var *find_or_add(fl_scope *s, const char *name)
{
    fl_scope_var *v = fl_map_find(&s->by_name, name);

    if (v)
        return v;
    v = fl_alloc(sizeof(*v));
    v->name = fl_strdup(name);
    v->index = s->vars.len;
    fl_map_put(&s->by_name, v->name, v);
    fl_vec_push(&s->vars, v);
    return v;
}

/* Whether the pieces of both lie at the same places of a block. */
static bool has_layout(const fl_tensor *a, const fl_tensor *b)
{
    bool same = fl_tensor_numel(a) * (int64_t)fl_dtype_bytes(a->dtype) ==
                    fl_tensor_numel(b) * (int64_t)fl_dtype_bytes(b->dtype) &&
                a->n_lod == b->n_lod && a->kind != FL_KIND_ARRAY &&
                (a->kind == FL_KIND_ROWS) == (b->kind == FL_KIND_ROWS);

    for (int k = 0; same && k < a->n_lod; k++)
        same = a->lod_len[k] == b->lod_len[k];
    if (same && a->kind == FL_KIND_ROWS)
        same = a->shape.dim[0] == b->shape.dim[0];
    return same;
}

/* A new block with the value, or with room for one like it. */
static fl_status refill(fl_scope_var *v, const fl_tensor *t, fl_pack_what what)
{
    size_t bytes = fl_tensor_packed_bytes(t);
    void *block = fl_try_alloc(bytes);

    if (!block)
        FL_FAIL(FL_ERR_NOMEM, "no memory for variable %s of %zu bytes", v->name,
                bytes);
    memset(block, 0, bytes);
    v->value = fl_pack(block, t, what);
    fl_data_free(v->block, v->block_bytes);
    v->block = block;
    v->block_bytes = bytes;
    return FL_OK;
}

static fl_status fill(fl_scope_var *v, const fl_tensor *t, fl_pack_what what)
{
    if (!v->block || !has_layout(&v->value, t))
        return refill(v, t, what);
    v->value = fl_pack(v->block, t, what);
    return FL_OK;
}

fl_status fl_scope_reserve(fl_scope *s, const char *name, const fl_tensor *meta,
                           fl_tensor *out)
{
    fl_scope_var *v;
    size_t bytes;
    fl_status st;

    st = fl_err_ctx(fl_tensor_bytes(meta, &bytes), "variable %s", name);
    if (st)
        return st;
    fl_lock(&s->mu);
    v = find_or_add(s, name);
    st = fill(v, meta, FL_PACK_ROOM);
    if (!st)
        *out = v->value;
    fl_unlock(&s->mu);
    return st;
}

/* Offsets that the operator made itself lie elsewhere. */
static bool is_in_block(const fl_scope_var *v, const fl_tensor *t)
{
    bool same = t->data == v->value.data && t->rows == v->value.rows &&
                t->n_lod == v->value.n_lod && t->kind != FL_KIND_ARRAY;

    for (int k = 0; same && k < t->n_lod; k++)
        same = t->lod[k] == v->value.lod[k];
    return same;
}

static fl_status settle(fl_scope_var *v, fl_tensor *t)
{
    if (is_in_block(v, t)) {
        v->value = *t;
        return FL_OK;
    }
    FL_TRY(refill(v, t, FL_PACK_ALL));
    *t = v->value;
    return FL_OK;
}

fl_status fl_scope_settle(fl_scope *s, const char *name, fl_tensor *t)
{
    fl_status st;

    fl_lock(&s->mu);
    st = settle(find_or_add(s, name), t);
    fl_unlock(&s->mu);
    return st;
}

static fl_status check_value(const fl_tensor *t)
{
    const fl_tensor *items = t->data;
    size_t bytes;

    FL_TRY(fl_tensor_check(t));
    for (int64_t i = 0; t->kind == FL_KIND_ARRAY && i < t->shape.dim[0]; i++) {
        if (items[i].kind == FL_KIND_ARRAY)
            FL_FAIL(FL_ERR_UNSUPPORTED, "an array of arrays");
        FL_TRY(check_value(&items[i]));
    }
    if (t->n_lod)
        FL_TRY(fl_lod_check(t));
    return fl_tensor_bytes(t, &bytes);
}

/* --- together ------------------------------------------------------------- */

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* Bytes of its numbers, where they are all that the value has; else 0. */
static size_t joinable_bytes(const fl_scope_var *v)
{
    size_t bytes;

    if (v->value.kind != FL_KIND_DENSE || v->value.n_lod ||
        fl_tensor_bytes(&v->value, &bytes))
        return 0;
    return round_up(bytes, LINE_BYTES);
}

static void join_var(fl_scope_var *v, void *to)
{
    memcpy(to, v->value.data,
           (size_t)fl_tensor_numel(&v->value) * fl_dtype_bytes(v->value.dtype));
    v->value.data = to;
    fl_data_free(v->block, v->block_bytes);
    v->block = NULL;
    v->block_bytes = 0;
}

void fl_scope_join(fl_scope *s)
{
    size_t all = 0;
    char *at;

    FL_ASSERT(!s->joined.data);
    for (size_t i = 0; i < s->vars.len; i++)
        all += joinable_bytes(s->vars.data[i]);
    if (all < WORTH_JOINING)
        return;
    at = fl_buf_reserve(&s->joined, round_up(all, LARGE_PAGE));
    for (size_t i = 0; at && i < s->vars.len; i++) {
        size_t bytes = joinable_bytes(s->vars.data[i]);

        if (bytes)
            join_var(s->vars.data[i], at);
        at += bytes;
    }
}

/* --- from outside --------------------------------------------------------- */

fl_status fl_scope_set(fl_scope *s, const char *name, const fl_tensor *value)
{
    fl_status st = fl_err_ctx(check_value(value), "variable %s", name);

    if (st)
        return st;
    fl_lock(&s->mu);
    st = fill(find_or_add(s, name), value, FL_PACK_ALL);
    fl_unlock(&s->mu);
    return st;
}

bool fl_scope_drop(fl_scope *s, const char *name)
{
    fl_scope_var *v, *last;

    fl_lock(&s->mu);
    v = fl_map_find(&s->by_name, name);
    if (v) {
        last = s->vars.data[--s->vars.len];
        last->index = v->index;
        s->vars.data[v->index] = last;
        fl_map_remove(&s->by_name, name);
    }
    fl_unlock(&s->mu);
    if (v)
        free_var(v);
    return v != NULL;
}

const char *fl_scope_name(fl_scope *s, size_t i)
{
    const char *name;

    fl_lock(&s->mu);
    name = i < s->vars.len ? s->vars.data[i]->name : NULL;
    fl_unlock(&s->mu);
    return name;
}

uint64_t fl_scope_step(const fl_scope *s)
{
    return atomic_load(&s->step);
}

void fl_scope_set_step(fl_scope *s, uint64_t step)
{
    atomic_store(&s->step, step);
}
