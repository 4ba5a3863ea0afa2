/* dist_kit.c - updates and their chains, and operators that talk to servers. */
#include "pass/dist_kit.h"

/* --- lists ---------------------------------------------------------------- */

static bool has_var(const fl_var_list *l, const fl_var *v)
{
    for (size_t i = 0; i < l->len; i++)
        if (l->data[i] == v)
            return true;
    return false;
}

void fl_var_list_add(fl_var_list *l, fl_var *v)
{
    if (v && !has_var(l, v))
        fl_vec_push(l, v);
}

/* --- the update ----------------------------------------------------------- */

static bool updates(const fl_op_node *n, const fl_var *v)
{
    return !n->is_grad && fl_args_count(fl_match_ins(n, "Param"), v) &&
           fl_args_count(fl_match_outs(n, "ParamOut"), v);
}

fl_status fl_dist_find_update(const fl_dist *d, const fl_var *v,
                              fl_op_node **out)
{
    fl_op_node *found = NULL;
    char a[FL_NODE_TEXT_MAX], b[FL_NODE_TEXT_MAX];

    for (fl_op_node *n = fl_program_main(d->main)->first; n; n = n->next) {
        if (!updates(n, v))
            continue;
        if (found)
            FL_FAIL(FL_ERR_INVAL,
                    "parameter %s is updated by %s and by %s; servers make one "
                    "update per gradient",
                    v->name, fl_node_text(found, a), fl_node_text(n, b));
        if (fl_match_ins(n, "Param").n > 1)
            FL_FAIL(FL_ERR_INVAL,
                    "%s updates several parameters at once; write one operator "
                    "for each, as servers keep them apart",
                    fl_node_text(n, a));
        found = n;
    }
    *out = found;
    return FL_OK;
}

fl_status fl_dist_find_decays(const fl_var *w, const fl_op_node *update,
                              fl_node_group *decays, fl_var **grad)
{
    char text[FL_NODE_TEXT_MAX];
    fl_var *g = fl_match_in(update, "Grad");
    fl_op_node *n;

    if (!g)
        FL_FAIL(FL_ERR_INVAL, "%s takes no gradient of parameter %s",
                fl_node_text(update, text), w->name);
    while ((n = fl_match_writer(g)) && fl_match_op(n, "weight_decay") &&
           fl_match_in(n, "Param") == w) {
        fl_node_group_add(decays, n);
        g = fl_match_in(n, "Grad");
    }
    *grad = g;
    return FL_OK;
}

/* --- first values --------------------------------------------------------- */

fl_op_node *fl_dist_find_maker(const fl_dist *d, const char *name)
{
    return fl_match_writer(
        fl_block_find_var(fl_program_main(d->startup), name));
}

bool fl_dist_can_cut(const fl_op_node *maker)
{
    return maker && !maker->is_grad && fl_match_attr(maker, "shape") &&
           (fl_match_op(maker, "fill_constant") ||
            fl_match_attr(maker, "from_row"));
}

static bool makes_this_alone(const fl_op_node *n, const fl_var *v)
{
    int n_vars = 0;

    for (int s = 0; s < fl_node_n_out(n); s++)
        n_vars += n->out[s].n;
    return n_vars == 1 && fl_node_writes_var(n, v) &&
           !(n->def->flags & FL_OP_EFFECT);
}

/* What else the startup program does with it keeps it there. */
static void forget_first_value(const fl_dist *d, const char *name)
{
    fl_block *b = fl_program_main(d->startup);
    fl_var *v = fl_block_find_var(b, name);
    fl_op_node *maker = fl_match_writer(v);

    if (!v || fl_match_wanted(v))
        return;
    if (maker && makes_this_alone(maker, v))
        fl_block_remove(b, maker);
    if (!fl_match_touched(v))
        fl_block_remove_var(b, v);
}

void fl_dist_forget(fl_dist *d, fl_var *v)
{
    fl_block *b = fl_program_main(d->main);

    if (!(v->flags & FL_VAR_PERSIST) || (v->flags & FL_VAR_PARAM) ||
        fl_block_find_var(b, v->name) != v || fl_match_touched(v) ||
        fl_program_is_fetched(d->main, v->name))
        return;
    forget_first_value(d, v->name);
    fl_block_remove_var(b, v);
}

/* --- the chain ------------------------------------------------------------ */

typedef struct search {
    fl_dist_chain *chain;
    fl_node_group decays;
    fl_var_list needed; /* what the update reads, directly or not */
} search;

static fl_status need(search *s, fl_var *v)
{
    const fl_dist_chain *c = s->chain;
    char text[FL_NODE_TEXT_MAX];

    if (!v || v == c->param)
        return FL_OK;
    if (v->flags & (FL_VAR_DATA | FL_VAR_PARAM))
        FL_FAIL(
            FL_ERR_INVAL,
            "%s needs %s, which is %s; the servers that make the update "
            "have the gradient, its state and the learning rate alone: make "
            "the rate a constant or a schedule",
            fl_node_text(c->update, text), v->name,
            v->flags & FL_VAR_DATA ? "fed" : "another parameter");
    fl_var_list_add(&s->needed, v);
    return FL_OK;
}

static bool writes_needed(const search *s, const fl_op_node *n)
{
    for (size_t i = 0; i < s->needed.len; i++)
        if (fl_match_writes(n, s->needed.data[i]))
            return true;
    return false;
}

static fl_status need_inputs(search *s, const fl_op_node *n)
{
    char text[FL_NODE_TEXT_MAX];

    if (n->is_grad || (n->def->flags & (FL_OP_EFFECT | FL_OP_WAITS)))
        FL_FAIL(FL_ERR_INVAL,
                "%s cannot run on a server, which the update of parameter %s "
                "would need",
                fl_node_text(n, text), s->chain->param->name);
    for (int k = 0; k < fl_node_n_in(n); k++)
        for (int i = 0; i < n->in[k].n; i++)
            FL_TRY(need(s, n->in[k].vars[i]));
    return FL_OK;
}

/* Everything but the gradient, which comes from the trainers. */
static fl_status need_of_update(search *s)
{
    const fl_op_node *n = s->chain->update;
    int grad = fl_op_find_in(n->def, "Grad");

    for (int k = 0; k < fl_node_n_in(n); k++)
        for (int i = 0; i < n->in[k].n && k != grad; i++)
            FL_TRY(need(s, n->in[k].vars[i]));
    return FL_OK;
}

static void keep_args(fl_dist_chain *c, const fl_args *args, int n_slots)
{
    for (int k = 0; k < n_slots; k++)
        for (int i = 0; i < args[k].n; i++)
            if (args[k].vars[i] && (args[k].vars[i]->flags & FL_VAR_PERSIST))
                fl_var_list_add(&c->kept, args[k].vars[i]);
}

/* Walks backwards, so that what feeds the rate is found after the rate. */
static fl_status gather(search *s)
{
    fl_dist_chain *c = s->chain;
    fl_node_group found = { 0 };
    fl_status st = need_of_update(s);

    for (fl_op_node *n = c->update->prev; n && !st; n = n->prev) {
        if (fl_node_group_has(&s->decays, n)) {
            fl_node_group_add(&found, n);
        } else if (writes_needed(s, n)) {
            fl_node_group_add(&found, n);
            st = need_inputs(s, n);
        }
    }
    for (size_t i = found.len; i-- > 0;)
        fl_node_group_add(&c->nodes, found.data[i]);
    fl_node_group_add(&c->nodes, c->update);
    fl_vec_release(&found);
    return st;
}

fl_status fl_dist_chain_find(fl_dist_chain *out, const fl_dist *d, fl_var *w,
                             fl_op_node *update)
{
    search s = { .chain = out };
    fl_status st;

    *out = (fl_dist_chain){ .param = w, .update = update };
    fl_var_list_add(&out->kept, w);
    if (d->config.server_adds)
        return FL_OK;
    st = fl_dist_find_decays(w, update, &s.decays, &out->grad);
    if (!st)
        st = gather(&s);
    for (size_t i = 0; i < out->nodes.len && !st; i++) {
        const fl_op_node *n = out->nodes.data[i];

        keep_args(out, n->in, fl_node_n_in(n));
        keep_args(out, n->out, fl_node_n_out(n));
    }
    fl_vec_release(&s.decays);
    fl_vec_release(&s.needed);
    if (st)
        fl_dist_chain_release(out);
    return st;
}

void fl_dist_chain_release(fl_dist_chain *c)
{
    fl_vec_release(&c->nodes);
    fl_vec_release(&c->kept);
}

bool fl_dist_chain_is_like(const fl_dist_chain *c, const fl_var *v)
{
    return fl_shape_equal(&v->meta.shape, &c->param->meta.shape);
}

bool fl_dist_chain_writes(const fl_dist_chain *c, const fl_var *v)
{
    for (size_t i = 0; i < c->nodes.len; i++)
        if (fl_match_writes(c->nodes.data[i], v))
            return true;
    return false;
}

/* --- operators ------------------------------------------------------------ */

bool fl_dist_has_op(const fl_program *p, const char *name)
{
    for (const fl_op_node *n = fl_program_main(p)->first; n; n = n->next)
        if (fl_match_op(n, name))
            return true;
    return false;
}

fl_status fl_dist_insert_send(fl_dist *d, const fl_var *w, const fl_var *x,
                              fl_op_node *before)
{
    fl_op_builder b = { .type = "send", .role = FL_OP_ROLE_RPC };

    fl_op_builder_in(&b, "Param", w);
    fl_op_builder_in(&b, "X", x);
    return fl_op_builder_put(&b, fl_program_main(d->main), before, NULL);
}

void fl_dist_pushed(const fl_dist *d, fl_var_list *out)
{
    for (const fl_op_node *n = fl_program_main(d->main)->first; n;
         n = n->next) {
        if (!fl_match_op(n, "push_sparse"))
            continue;
        fl_var_list_add(out, fl_match_in(n, "Keys"));
        fl_var_list_add(out, fl_match_in(n, "Grad"));
    }
}

fl_status fl_dist_insert_recv(const fl_dist *d, fl_program *p,
                              fl_op_node *before)
{
    fl_op_builder b = { .type = "recv", .role = FL_OP_ROLE_RPC };

    for (size_t i = 0; i < d->params.len; i++)
        fl_op_builder_out_name(&b, "Out", d->params.data[i].name);
    return fl_op_builder_put(&b, fl_program_main(p), before, NULL);
}

fl_status fl_dist_append_barrier(fl_dist *d, const fl_var_list *x)
{
    fl_op_builder b = { .type = "send_barrier", .role = FL_OP_ROLE_RPC };

    for (size_t i = 0; i < x->len; i++)
        fl_op_builder_in(&b, "X", x->data[i]);
    return fl_op_builder_put(&b, fl_program_main(d->main), NULL, NULL);
}
