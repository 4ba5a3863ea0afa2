/* opt_multi_tensor.c - many updates of one kind become one operator.
 *
 * An update is known by its descriptor alone: role optimize, with the lists
 * Param and Grad. Updates with equal attributes and the same variables in the
 * slots that are no lists (the learning rate) move down to the last of them,
 * if nothing on the way reads or writes what moves. Sparse gradients stay by
 * themselves: their operators take longer, and beside others. */
#include "pass/match.h"
#include "pass/pass.h"

static bool is_list(const fl_op *op, const char *slot)
{
    int i = fl_op_find_in(op, slot);

    return i >= 0 && (op->in[i].flags & FL_OP_SLOT_LIST);
}

static bool has_rows(const fl_op_node *n)
{
    fl_args grads = fl_match_ins(n, "Grad");

    for (int i = 0; i < grads.n; i++)
        if (grads.vars[i]->meta.kind == FL_KIND_ROWS)
            return true;
    return false;
}

static bool is_update(const fl_op_node *n)
{
    return n->role == FL_OP_ROLE_OPTIMIZE && !n->is_grad &&
           is_list(n->def, "Param") && is_list(n->def, "Grad") && !has_rows(n);
}

static bool shares_single_inputs(const fl_op_node *a, const fl_op_node *b)
{
    for (int s = 0; s < fl_node_n_in(a); s++) {
        if (a->def->in[s].flags & FL_OP_SLOT_LIST)
            continue;
        if (a->in[s].n != b->in[s].n ||
            (a->in[s].n && a->in[s].vars[0] != b->in[s].vars[0]))
            return false;
    }
    return true;
}

static bool is_alike(const fl_op_node *a, const fl_op_node *b)
{
    return a->def == b->def && is_update(b) && fl_match_same_attrs(a, b) &&
           shares_single_inputs(a, b);
}

/* The updates before `at` that can sink to it. Members count like anybody else:
   a merged operator updates its parameters in any order. */
static void collect(fl_op_node *at, fl_node_group *g)
{
    fl_traffic t = { 0 };

    fl_node_group_add(g, at);
    fl_traffic_note(&t, at);
    for (fl_op_node *n = at->prev; n && is_update(at); n = n->prev) {
        if (is_alike(at, n) && !fl_traffic_meets(&t, n))
            fl_node_group_add(g, n);
        fl_traffic_note(&t, n);
    }
    fl_traffic_release(&t);
}

/* The group is in reverse order: the last update leads it. */
static void list_slot(fl_op_builder *b, const fl_node_group *g, int slot)
{
    const char *name = fl_node_in_name(g->data[0], slot);

    for (size_t i = g->len; i-- > 0;)
        fl_op_builder_ins(b, name, g->data[i]->in[slot]);
}

static void list_out_slot(fl_op_builder *b, const fl_node_group *g, int slot)
{
    const char *name = fl_node_out_name(g->data[0], slot);

    for (size_t i = g->len; i-- > 0;)
        fl_op_builder_outs(b, name, g->data[i]->out[slot]);
}

static fl_status merge(const fl_node_group *g, fl_op_node **out)
{
    fl_op_node *at = g->data[0];
    fl_op_builder b;

    fl_op_builder_init_like(&b, at);
    for (int s = 0; s < fl_node_n_in(at); s++) {
        if (at->def->in[s].flags & FL_OP_SLOT_LIST)
            list_slot(&b, g, s);
        else
            fl_op_builder_ins(&b, fl_node_in_name(at, s), at->in[s]);
    }
    for (int s = 0; s < fl_node_n_out(at); s++)
        list_out_slot(&b, g, s);
    FL_TRY(fl_op_builder_insert(&b, at, out));
    fl_node_group_remove(g);
    return FL_OK;
}

/* Walks backwards: what was left alone once stays left alone. */
static fl_status multi_tensor_run(fl_program *p, bool *changed)
{
    fl_op_node *prev;

    for (fl_op_node *at = fl_program_main(p)->last; at; at = prev) {
        fl_op_node *merged = at;
        fl_node_group g = { 0 };
        fl_status st = FL_OK;

        collect(at, &g);
        if (g.len > 1) {
            st = merge(&g, &merged);
            *changed = true;
        }
        fl_vec_release(&g);
        FL_TRY(st);
        prev = merged->prev;
    }
    return FL_OK;
}

const fl_pass fl_pass_opt_multi_tensor = {
    .name = "opt_multi_tensor",
    .doc = "join dense updates of one kind",
    .run = multi_tensor_run,
};
