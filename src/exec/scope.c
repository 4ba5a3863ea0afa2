/* scope.c - the values that outlive a run. */
#include "exec/scope.h"

void fl_scope_init(fl_scope *s)
{
    memset(s, 0, sizeof(*s));
    fl_mutex_init(&s->mu);
    atomic_init(&s->step, 0);
}

void fl_scope_release(fl_scope *s)
{
    for (size_t i = 0; i < s->vars.len; i++) {
        fl_scope_var *v = s->vars.data[i];

        fl_data_free(v->value.data, v->cap_bytes);
        fl_free(v->name);
        fl_free(v);
    }
    fl_vec_release(&s->vars);
    fl_map_release(&s->by_name);
    fl_mutex_release(&s->mu);
}

bool fl_scope_find(fl_scope *s, const char *name, fl_tensor *out)
{
    fl_scope_var *v;

    fl_lock(&s->mu);
    v = fl_map_find(&s->by_name, name);
    if (v)
        *out = v->value;
    fl_unlock(&s->mu);
    return v != NULL;
}

static fl_scope_var *find_or_add(fl_scope *s, const char *name)
{
    fl_scope_var *v = fl_map_find(&s->by_name, name);

    if (v)
        return v;
    v = fl_alloc(sizeof(*v));
    v->name = fl_strdup(name);
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
        v->value.dtype = meta->dtype;
        v->value.kind = FL_KIND_DENSE;
        v->value.shape = meta->shape;
        *out = v->value;
    }
    fl_unlock(&s->mu);
    return st;
}
