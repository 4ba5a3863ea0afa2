/* scope.c - the values that outlive a run. */
#include "exec/scope.h"

void fl_scope_init(fl_scope *s)
{
    memset(s, 0, sizeof(*s));
    fl_mutex_init(&s->mu);
    atomic_init(&s->step, 0);
}

static void free_var(fl_scope_var *v)
{
    fl_data_free(v->value.data, v->cap_bytes);
    fl_free(v->name);
    fl_free(v);
}

void fl_scope_release(fl_scope *s)
{
    for (size_t i = 0; i < s->vars.len; i++)
        free_var(s->vars.data[i]);
    fl_vec_release(&s->vars);
    fl_map_release(&s->by_name);
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

static fl_status grow(fl_scope_var *v, size_t bytes)
{
    void *data;

    if (v->value.data && v->cap_bytes == bytes)
        return FL_OK;
    data = fl_try_alloc(bytes);
    if (!data)
        FL_FAIL(FL_ERR_NOMEM, "no memory for variable %s of %zu bytes", v->name,
                bytes);
    memset(data, 0, bytes);
    fl_data_free(v->value.data, v->cap_bytes);
    v->value.data = data;
    v->cap_bytes = bytes;
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
    st = grow(v, bytes);
    if (!st) {
        v->value.size = sizeof(fl_tensor);
        v->value.dtype = meta->dtype;
        v->value.kind = FL_KIND_DENSE;
        v->value.shape = meta->shape;
        *out = v->value;
    }
    fl_unlock(&s->mu);
    return st;
}

fl_status fl_scope_set(fl_scope *s, const char *name, const fl_tensor *value)
{
    size_t bytes;
    fl_tensor t;

    FL_TRY(fl_err_ctx(fl_tensor_check(value), "variable %s", name));
    if (value->kind != FL_KIND_DENSE)
        FL_FAIL(FL_ERR_INVAL, "variable %s: the scope holds dense values",
                name);
    FL_TRY(fl_tensor_bytes(value, &bytes));
    FL_TRY(fl_scope_reserve(s, name, value, &t));
    if (bytes)
        memcpy(t.data, value->data, bytes);
    return FL_OK;
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
