/* builder.c - one operator, collected part by part and put into a block. */
#include "ir/builder.h"

void fl_op_builder_init_like(fl_op_builder *b, const fl_op_node *n)
{
    *b = (fl_op_builder){ .type = fl_node_type(n),
                          .role = n->role,
                          .tag = n->tag };
    for (int i = 0; i < fl_op_n_attrs(n->def); i++)
        fl_op_builder_attr(b, n->def->attrs[i].name, &n->attrs[i]);
}

void fl_op_builder_init_grad(fl_op_builder *b, const fl_op_node *n)
{
    fl_op_builder_init_like(b, n);
    b->type = fl_arena_printf(&b->tmp, "%s_grad", n->def->name);
    b->role = FL_OP_ROLE_BACKWARD;
    for (int s = 0; s < fl_node_n_in(n); s++)
        fl_op_builder_ins(b, fl_node_in_name(n, s), n->in[s]);
    for (int s = 0; s < fl_node_n_out(n); s++)
        if (n->def->back_uses & FL_USES_OUT(s))
            fl_op_builder_ins(b, fl_node_out_name(n, s), n->out[s]);
}

void fl_op_builder_release(fl_op_builder *b)
{
    fl_vec_release(&b->in);
    fl_vec_release(&b->out);
    fl_vec_release(&b->attrs);
    fl_arena_release(&b->tmp);
}

/* --- variables ------------------------------------------------------------ */

void fl_op_builder_in_name(fl_op_builder *b, const char *slot, const char *name)
{
    fl_vec_push(&b->in, ((fl_arg){ slot, name }));
}

void fl_op_builder_out_name(fl_op_builder *b, const char *slot,
                            const char *name)
{
    fl_vec_push(&b->out, ((fl_arg){ slot, name }));
}

void fl_op_builder_in(fl_op_builder *b, const char *slot, const fl_var *v)
{
    if (v)
        fl_op_builder_in_name(b, slot, v->name);
}

void fl_op_builder_out(fl_op_builder *b, const char *slot, const fl_var *v)
{
    if (v)
        fl_op_builder_out_name(b, slot, v->name);
}

static const char *name_at(fl_args vars, int i)
{
    return vars.vars[i] ? vars.vars[i]->name : FL_EMPTY_NAME;
}

void fl_op_builder_ins(fl_op_builder *b, const char *slot, fl_args vars)
{
    for (int i = 0; i < vars.n; i++)
        fl_op_builder_in_name(b, slot, name_at(vars, i));
}

void fl_op_builder_outs(fl_op_builder *b, const char *slot, fl_args vars)
{
    for (int i = 0; i < vars.n; i++)
        fl_op_builder_out_name(b, slot, name_at(vars, i));
}

/* --- attributes ----------------------------------------------------------- */

static void add_attr(fl_op_builder *b, const char *name, fl_attr value)
{
    fl_vec_push(&b->attrs, ((fl_named_attr){ name, value }));
}

void fl_op_builder_attr(fl_op_builder *b, const char *name,
                        const fl_attr *value)
{
    if (value)
        add_attr(b, name, *value);
}

void fl_op_builder_bool(fl_op_builder *b, const char *name, bool v)
{
    add_attr(b, name, (fl_attr){ .type = FL_ATTR_BOOL, .b = v });
}

void fl_op_builder_int(fl_op_builder *b, const char *name, int64_t v)
{
    add_attr(b, name, (fl_attr){ .type = FL_ATTR_INT, .i = v });
}

void fl_op_builder_float(fl_op_builder *b, const char *name, double v)
{
    add_attr(b, name, (fl_attr){ .type = FL_ATTR_FLOAT, .f = v });
}

void fl_op_builder_str(fl_op_builder *b, const char *name, const char *v)
{
    add_attr(b, name, (fl_attr){ .type = FL_ATTR_STRING, .s = v });
}

void fl_op_builder_ints(fl_op_builder *b, const char *name, const int64_t *v,
                        size_t n)
{
    add_attr(b, name, (fl_attr){ .type = FL_ATTR_INTS, .ints = v, .n = n });
}

void fl_op_builder_floats(fl_op_builder *b, const char *name, const double *v,
                          size_t n)
{
    add_attr(b, name, (fl_attr){ .type = FL_ATTR_FLOATS, .floats = v, .n = n });
}

void fl_op_builder_strings(fl_op_builder *b, const char *name,
                           const char *const *v, size_t n)
{
    add_attr(b, name,
             (fl_attr){ .type = FL_ATTR_STRINGS, .strings = v, .n = n });
}

void fl_op_builder_update(fl_op_builder *b, const fl_update *u)
{
    for (int i = 0; i < fl_rule_n_params(u->rule); i++) {
        const fl_rule_param *p = &u->rule->params[i];

        if (p->is_flag)
            fl_op_builder_bool(b, p->name, u->p[i] != 0);
        else
            fl_op_builder_float(b, p->name, u->p[i]);
    }
}

fl_attr *fl_op_builder_find_attr(fl_op_builder *b, const char *name)
{
    for (size_t i = 0; i < b->attrs.len; i++)
        if (!strcmp(b->attrs.data[i].name, name))
            return &b->attrs.data[i].value;
    return NULL;
}

/* --- into a block --------------------------------------------------------- */

fl_status fl_op_builder_put(fl_op_builder *b, fl_block *block,
                            fl_op_node *before, fl_op_node **out)
{
    fl_op_spec spec = { .type = b->type,
                        .redeclares = b->redeclares,
                        .in = b->in.data,
                        .out = b->out.data,
                        .n_in = b->in.len,
                        .n_out = b->out.len,
                        .attrs = b->attrs.data,
                        .n_attrs = b->attrs.len,
                        .role = b->role,
                        .tag = b->tag };
    fl_status st = fl_block_insert(block, before, &spec, out);

    fl_op_builder_release(b);
    return st;
}

fl_status fl_op_builder_insert(fl_op_builder *b, fl_op_node *place,
                               fl_op_node **out)
{
    b->role = place->role;
    b->tag = place->tag;
    return fl_op_builder_put(b, place->block, place, out);
}
