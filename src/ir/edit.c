/* edit.c - changing what stands in a block already. What the operator's infer
 * refuses is put back. */
#include "ir/program.h"

#include "optim/calls.h"

/* Keeps the change if the operator still fits, else says why not. */
static fl_status settle(fl_op_node *n)
{
    FL_TRY(fl_node_infer(n));
    n->block->program->version++;
    return FL_OK;
}

fl_status fl_node_set_attr(fl_op_node *n, const char *name,
                           const fl_attr *value)
{
    fl_attr old;
    fl_status st;
    int i;

    FL_TRY(fl_node_find_attr(n, name, &i));
    old = n->attrs[i];
    st = fl_node_bind_attr(n, name, value);
    if (!st)
        st = settle(n);
    if (st)
        n->attrs[i] = old;
    else
        fl_program_note_maker(n);
    return st;
}

fl_status fl_node_set_arg(fl_op_node *n, fl_args *slot, int i, fl_var *v)
{
    fl_var *old = slot->vars[i];
    fl_status st;

    if (fl_block_find_var(n->block, v->name) != v)
        FL_FAIL(FL_ERR_INVAL, "op %s: variable %s is not in its block",
                fl_node_type(n), v->name);
    fl_node_put_arg(n, slot, i, v);
    st = settle(n);
    if (st)
        fl_node_put_arg(n, slot, i, old);
    return st;
}

static void rename_fetch(fl_program *p, const char *old, const char *name)
{
    if (!fl_program_is_fetched(p, old))
        return;
    for (size_t i = 0; i < p->fetches.len; i++)
        if (!strcmp(p->fetches.data[i], old))
            p->fetches.data[i] = name;
    fl_map_remove(&p->fetched, old);
    fl_map_put(&p->fetched, name, p);
}

fl_status fl_block_rename_var(fl_block *b, fl_var *v, const char *name)
{
    const char *old = v->name;

    FL_TRY(fl_check_name(name));
    if (fl_map_find(&b->vars, name))
        FL_FAIL(FL_ERR_INVAL, "variable %s exists already", name);
    fl_map_remove(&b->vars, old);
    v->name = fl_arena_strdup(&b->program->arena, name);
    fl_map_put(&b->vars, v->name, v);
    rename_fetch(b->program, old, v->name);
    b->program->version++;
    return FL_OK;
}

static const char *keep_text(fl_program *p, const char *s)
{
    return s ? fl_arena_strdup(&p->arena, s) : NULL;
}

fl_status fl_var_set_words(fl_var *v, const fl_var_words *words)
{
    fl_program *p = v->block->program;
    fl_call parsed;
    fl_init init;

    if (words->init)
        FL_TRY(fl_init_parse(words->init, &v->meta.shape, &init));
    if (words->regularizer)
        FL_TRY(fl_decay_parse(words->regularizer, &parsed));
    if (words->clip)
        FL_TRY(fl_clip_parse(words->clip, FL_CLIP_OF_PARAM, &parsed));
    v->init = keep_text(p, words->init);
    v->regularizer = keep_text(p, words->regularizer);
    v->clip = keep_text(p, words->clip);
    return FL_OK;
}
