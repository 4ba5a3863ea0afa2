/* dist_send.c - gradients of dense parameters are sent, and the update leaves
 * the trainer.
 *
 *     mul_grad (..) -> (Y@GRAD=w@GRAD)
 *     weight_decay (Param=w, Grad=w@GRAD) -> (Out=d)
 *     adam (Param=w, Grad=d, Moment1=.., LearningRate=rate, ..)
 *
 * becomes
 *
 *     mul_grad (..) -> (Y@GRAD=w@GRAD)
 *     send (Param=w, X=w@GRAD)
 *
 * A gradient is sent as soon as it is there, so that the network works while
 * the rest is computed. State goes from both programs; the learning rate stays
 * where something else of the trainer reads it, as a push to a table does.
 */
#include "pass/dist_kit.h"

/* What the updates used, to be looked through when all of them are gone. */
typedef struct leftovers {
    fl_node_group nodes;
    fl_var_list vars;
} leftovers;

static fl_op_node *reader_of_grad(const fl_dist_chain *c)
{
    size_t i = 0;

    while (!fl_node_uses_var(c->nodes.data[i], c->grad))
        i++;
    return c->nodes.data[i];
}

/* Behind the last operator that writes the gradient, and behind what is sent
   there already. */
static fl_status find_place(const fl_dist_chain *c, fl_op_node **out)
{
    fl_op_node *n = reader_of_grad(c)->prev;
    char text[FL_NODE_TEXT_MAX];

    while (n && !fl_node_writes_var(n, c->grad))
        n = n->prev;
    if (!n)
        FL_FAIL(FL_ERR_INVAL,
                "%s: no operator computes the gradient %s of parameter %s",
                fl_node_text(c->update, text), c->grad->name, c->param->name);
    do
        n = n->next;
    while (fl_match_op(n, "send"));
    *out = n;
    return FL_OK;
}

static void remove_node(fl_op_node *n)
{
    fl_node_group one = { 0 };

    fl_node_group_add(&one, n);
    fl_node_group_remove(&one);
    fl_vec_release(&one);
}

static void remove_update(const fl_dist_chain *c, leftovers *left)
{
    for (size_t i = 0; i < c->nodes.len; i++) {
        fl_op_node *n = c->nodes.data[i];

        if (n != c->update && !fl_node_group_has(&left->nodes, n))
            fl_node_group_add(&left->nodes, n);
    }
    for (size_t i = 0; i < c->kept.len; i++)
        fl_var_list_add(&left->vars, c->kept.data[i]);
    remove_node(c->update);
}

static fl_status send_param(fl_dist *d, const fl_dist_param *p, leftovers *left,
                            bool *changed)
{
    fl_var *w = fl_block_find_var(fl_program_main(d->main), p->name);
    fl_op_node *update = NULL, *place = NULL;
    fl_dist_chain c;
    fl_status st;

    FL_TRY(fl_dist_find_update(d, w, &update));
    if (!update)
        return FL_OK;
    FL_TRY(fl_dist_chain_find(&c, d, w, update));
    st = find_place(&c, &place);
    if (!st)
        st = fl_dist_insert_send(d, w, c.grad, place);
    if (!st) {
        remove_update(&c, left);
        *changed = true;
    }
    fl_dist_chain_release(&c);
    return st;
}

/* --- what nobody reads any more ------------------------------------------- */

/* State that the operator writes itself is not read by anyone else. */
static bool is_read_by_others(const fl_op_node *n, const fl_var *v)
{
    const fl_program *p = n->block->program;

    for (size_t i = 0; i < p->blocks.len; i++)
        for (fl_op_node *m = p->blocks.data[i]->first; m; m = m->next)
            if (m != n && fl_node_uses_var(m, v))
                return true;
    return fl_program_is_fetched(p, v->name);
}

static bool is_useless(const fl_op_node *n)
{
    for (int s = 0; s < fl_node_n_out(n); s++)
        for (int i = 0; i < n->out[s].n; i++)
            if (n->out[s].vars[i] && is_read_by_others(n, n->out[s].vars[i]))
                return false;
    return true;
}

/* From the last operator on, as each may be the last reader of another. */
static void remove_useless(const fl_dist *d, const leftovers *left)
{
    fl_op_node *prev;

    for (fl_op_node *n = fl_program_main(d->main)->last; n; n = prev) {
        prev = n->prev;
        if (fl_node_group_has(&left->nodes, n) && is_useless(n))
            remove_node(n);
    }
}

static fl_status send_spread(fl_dist *d, bool *changed)
{
    leftovers left = { 0 };
    fl_status st = FL_OK;

    for (size_t i = 0; i < d->params.len && !st; i++)
        st = send_param(d, &d->params.data[i], &left, changed);
    if (!st) {
        remove_useless(d, &left);
        for (size_t i = 0; i < left.vars.len; i++)
            fl_dist_forget(d, left.vars.data[i]);
    }
    fl_vec_release(&left.nodes);
    fl_vec_release(&left.vars);
    return st;
}

const fl_pass fl_pass_dist_send = {
    .name = "dist_send",
    .doc = "send gradients of dense parameters instead of using them",
    .spread = send_spread,
};
