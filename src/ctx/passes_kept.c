/* passes_kept.c - counters that the pass that is gone on with begins with. */
#include <string.h>

#include "ctx/passes_inside.h"

void fl_passes_drop_kept(fl_passes *p)
{
    for (size_t i = 0; i < p->kept.len; i++) {
        fl_free(p->kept.data[i].name);
        fl_free(p->kept.data[i].value.data);
    }
    fl_vec_release(&p->kept);
}

/* What an operator keeps from batch to batch, and no optimizer does. */
static bool is_counter(const fl_op_node *n, const fl_var *v)
{
    return n->role == FL_OP_ROLE_FORWARD && (v->flags & FL_VAR_PERSIST) &&
           !(v->flags & (FL_VAR_PARAM | FL_VAR_TABLE)) &&
           fl_node_writes_var(n, v);
}

static bool is_kept(const fl_passes *p, const char *name)
{
    for (size_t i = 0; i < p->kept.len; i++)
        if (!strcmp(p->kept.data[i].name, name))
            return true;
    return false;
}

static void keep(fl_passes *p, fl_scope *s, const char *name)
{
    fl_kept_value k;
    size_t bytes;

    if (is_kept(p, name) || !fl_scope_find(s, name, &k.value) ||
        fl_tensor_bytes(&k.value, &bytes))
        return;
    k.name = fl_strdup(name);
    k.value.data = memcpy(fl_alloc(bytes + 1), k.value.data, bytes);
    fl_vec_push(&p->kept, k);
}

static void keep_counters(fl_passes *p, fl_scope *s, const fl_op_node *n)
{
    for (int i = 0; i < fl_node_n_in(n); i++)
        for (int k = 0; k < n->in[i].n; k++)
            if (is_counter(n, n->in[i].vars[k]))
                keep(p, s, n->in[i].vars[k]->name);
}

void fl_passes_keep(fl_passes *p, fl_scope *s, const fl_program *program)
{
    fl_passes_drop_kept(p);
    for (size_t b = 0; p->before.has_now && b < program->blocks.len; b++)
        for (const fl_op_node *n = program->blocks.data[b]->first; n;
             n = n->next)
            keep_counters(p, s, n);
}

fl_status fl_passes_restore(fl_passes *p, fl_scope *s)
{
    for (size_t i = 0; i < p->kept.len; i++)
        FL_TRY(fl_scope_set(s, p->kept.data[i].name, &p->kept.data[i].value));
    fl_passes_drop_kept(p);
    return FL_OK;
}
