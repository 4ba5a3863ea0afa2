/* match.c - finding groups of operators and putting one in their place. */
#include "pass/match.h"

#include "ir/attr.h"

/* --- one operator --------------------------------------------------------- */

bool fl_match_op(const fl_op_node *n, const char *name)
{
    return n && !n->is_grad && !strcmp(n->def->name, name);
}

fl_args fl_match_ins(const fl_op_node *n, const char *slot)
{
    for (int s = 0; n && s < fl_node_n_in(n); s++)
        if (!strcmp(fl_node_in_name(n, s), slot))
            return n->in[s];
    return (fl_args){ 0 };
}

fl_args fl_match_outs(const fl_op_node *n, const char *slot)
{
    for (int s = 0; n && s < fl_node_n_out(n); s++)
        if (!strcmp(fl_node_out_name(n, s), slot))
            return n->out[s];
    return (fl_args){ 0 };
}

fl_var *fl_match_in(const fl_op_node *n, const char *slot)
{
    fl_args a = fl_match_ins(n, slot);

    return a.n == 1 ? a.vars[0] : NULL;
}

fl_var *fl_match_out(const fl_op_node *n, const char *slot)
{
    fl_args a = fl_match_outs(n, slot);

    return a.n == 1 ? a.vars[0] : NULL;
}

const fl_attr *fl_match_attr(const fl_op_node *n, const char *name)
{
    int i = fl_op_find_attr(n->def, name);

    return i < 0 ? NULL : &n->attrs[i];
}

bool fl_match_same_attrs(const fl_op_node *a, const fl_op_node *b)
{
    for (int i = 0; i < fl_op_n_attrs(a->def); i++)
        if (!fl_attr_equal(&a->attrs[i], &b->attrs[i]))
            return false;
    return true;
}

/* --- variables ------------------------------------------------------------ */

int fl_args_count(fl_args a, const fl_var *v)
{
    int count = 0;

    for (int i = 0; i < a.n; i++)
        count += a.vars[i] == v;
    return count;
}

/* A gradient operator takes the state of its forward one to read it. */
static bool changes_in(const fl_op_node *n, int slot)
{
    return !n->is_grad && (n->def->in[slot].flags & FL_OP_SLOT_STATE);
}

bool fl_match_writes(const fl_op_node *n, const fl_var *v)
{
    if (fl_node_writes_var(n, v))
        return true;
    for (int s = 0; s < fl_node_n_in(n); s++)
        if (changes_in(n, s) && fl_args_count(n->in[s], v))
            return true;
    return false;
}

fl_op_node *fl_match_writer(const fl_var *v)
{
    fl_op_node *found = NULL;

    if (!v)
        return NULL;
    for (const fl_use *u = v->first_use; u; u = u->next) {
        if (u->node == found || u->node->block->index ||
            !fl_match_writes(u->node, v))
            continue;
        if (found)
            return NULL;
        found = u->node;
    }
    return found;
}

static bool same_args(const fl_args *a, const fl_args *b)
{
    if (a->n != b->n)
        return false;
    for (int i = 0; i < a->n; i++)
        if (a->vars[i] != b->vars[i])
            return false;
    return true;
}

static bool is_grad_of(const fl_var *grad, const fl_var *v)
{
    size_t n = strlen(v->name);

    return !strncmp(grad->name, v->name, n) &&
           !strcmp(grad->name + n, FL_GRAD_SUFFIX);
}

/* Two operators may have all their inputs in common; what comes in from above
   tells their gradients apart. */
static bool gets_grads_of(const fl_args *grads, const fl_args *outs)
{
    if (grads->n && grads->n != outs->n)
        return false;
    for (int i = 0; i < grads->n; i++)
        if (grads->vars[i] && !is_grad_of(grads->vars[i], outs->vars[i]))
            return false;
    return true;
}

/* Outputs that the gradient does not use may be left out of it. */
static bool is_gradient(const fl_op_node *g, const fl_op_node *n)
{
    int n_in = fl_op_n_in(n->def);
    int n_out = fl_op_n_out(n->def);

    if (!g->is_grad || g->def != n->def)
        return false;
    for (int s = 0; s < n_in; s++)
        if (!same_args(&g->in[s], &n->in[s]))
            return false;
    for (int s = 0; s < n_out; s++)
        if ((g->in[n_in + s].n && !same_args(&g->in[n_in + s], &n->out[s])) ||
            !gets_grads_of(&g->in[n_in + n_out + s], &n->out[s]))
            return false;
    return fl_match_same_attrs(g, n);
}

/* The gradient has all variables of the forward operator. */
fl_op_node *fl_match_grad(const fl_op_node *n)
{
    const fl_var *v = NULL;

    for (int s = 0; n && s < fl_node_n_in(n) && !v; s++)
        v = n->in[s].n ? n->in[s].vars[0] : NULL;
    for (const fl_use *u = v ? v->first_use : NULL; u; u = u->next)
        if (is_gradient(u->node, n))
            return u->node;
    return NULL;
}

fl_op_node *fl_match_step(const fl_var *w, const fl_var *grad)
{
    for (const fl_use *u = grad ? grad->first_use : NULL; u; u = u->next)
        if (fl_match_op(u->node, "sgd") && fl_match_in(u->node, "Param") == w &&
            fl_match_out(u->node, "ParamOut") == w &&
            fl_match_in(u->node, "Grad") == grad)
            return u->node;
    return NULL;
}

/* --- groups --------------------------------------------------------------- */

void fl_node_group_add(fl_node_group *g, fl_op_node *n)
{
    if (n)
        fl_vec_push(g, n);
}

bool fl_node_group_has(const fl_node_group *g, const fl_op_node *n)
{
    for (size_t i = 0; i < g->len; i++)
        if (g->data[i] == n)
            return true;
    return false;
}

bool fl_node_group_owns(const fl_node_group *g, const fl_var *v)
{
    if (!v)
        return true;
    if (v->flags || fl_program_is_fetched(v->block->program, v->name) ||
        !fl_match_writer(v))
        return false;
    for (const fl_use *u = v->first_use; u; u = u->next)
        if (!fl_node_group_has(g, u->node))
            return false;
    return true;
}

static void note_args(fl_map *m, const fl_args *a)
{
    for (int i = 0; i < a->n; i++)
        if (a->vars[i])
            fl_map_put(m, a->vars[i]->name, a->vars[i]);
}

void fl_traffic_note(fl_traffic *t, const fl_op_node *n)
{
    for (int s = 0; s < fl_node_n_in(n); s++)
        note_args(changes_in(n, s) ? &t->written : &t->read, &n->in[s]);
    for (int s = 0; s < fl_node_n_out(n); s++)
        note_args(&t->written, &n->out[s]);
}

static bool any_in(const fl_map *m, const fl_args *a)
{
    for (int i = 0; i < a->n; i++)
        if (a->vars[i] && fl_map_find(m, a->vars[i]->name))
            return true;
    return false;
}

bool fl_traffic_meets(const fl_traffic *t, const fl_op_node *n)
{
    for (int s = 0; s < fl_node_n_in(n); s++)
        if (any_in(&t->written, &n->in[s]) ||
            (changes_in(n, s) && any_in(&t->read, &n->in[s])))
            return true;
    for (int s = 0; s < fl_node_n_out(n); s++)
        if (any_in(&t->written, &n->out[s]) || any_in(&t->read, &n->out[s]))
            return true;
    return false;
}

void fl_traffic_release(fl_traffic *t)
{
    fl_map_release(&t->read);
    fl_map_release(&t->written);
}

static fl_op_node *next_of(fl_op_node *n)
{
    return n->next;
}

static fl_op_node *prev_of(fl_op_node *n)
{
    return n->prev;
}

/* Can all members met on the way from `from` to `to` move to `to`? */
static bool can_gather(const fl_node_group *g, fl_op_node *from,
                       const fl_op_node *to, fl_op_node *(*step)(fl_op_node *))
{
    fl_traffic t = { 0 };
    bool ok = true;

    for (fl_op_node *n = from; n != to && ok; n = step(n)) {
        if (fl_node_group_has(g, n))
            fl_traffic_note(&t, n);
        else
            ok = !fl_traffic_meets(&t, n);
    }
    fl_traffic_release(&t);
    return ok;
}

static bool is_of_one_role(const fl_node_group *g)
{
    for (size_t i = 1; i < g->len; i++)
        if (g->data[i]->role != g->data[0]->role)
            return false;
    return true;
}

/* The first and the last member in the block: a walk in both directions until
   all have been met, since members mostly stand near each other. */
static void find_ends(const fl_node_group *g, fl_op_node **first,
                      fl_op_node **last)
{
    fl_op_node *down = g->data[0]->next, *up = g->data[0]->prev;

    *first = *last = g->data[0];
    for (size_t met = 1; met < g->len && (down || up);) {
        if (down && fl_node_group_has(g, down)) {
            *last = down;
            met++;
        }
        if (up && fl_node_group_has(g, up)) {
            *first = up;
            met++;
        }
        down = down ? down->next : NULL;
        up = up ? up->prev : NULL;
    }
}

fl_op_node *fl_node_group_place(const fl_node_group *g)
{
    fl_op_node *first, *last;

    if (!g->len || !is_of_one_role(g))
        return NULL;
    find_ends(g, &first, &last);
    if (can_gather(g, first, last, next_of))
        return last;
    if (can_gather(g, last, first, prev_of))
        return first;
    return NULL;
}

fl_op_node *fl_node_group_end(const fl_node_group *g)
{
    fl_op_node *first, *last;

    if (!g->len)
        return NULL;
    find_ends(g, &first, &last);
    return can_gather(g, first, last, next_of) ? last : NULL;
}

bool fl_match_touched(const fl_var *v)
{
    return v->first_use != NULL;
}

bool fl_match_wanted(const fl_var *v)
{
    for (const fl_use *u = v->first_use; u; u = u->next)
        if (fl_node_uses_var(u->node, v))
            return true;
    return fl_program_is_fetched(v->block->program, v->name);
}

void fl_match_drop(fl_block *b, fl_var *v)
{
    if (v && !v->flags && fl_block_find_var(b, v->name) == v &&
        !fl_program_is_fetched(b->program, v->name) && !fl_match_touched(v))
        fl_block_remove_var(b, v);
}

static void drop_temporaries(fl_block *b, const fl_args *args, int n_slots)
{
    for (int s = 0; s < n_slots; s++)
        for (int i = 0; i < args[s].n; i++)
            fl_match_drop(b, args[s].vars[i]);
}

void fl_node_group_remove(const fl_node_group *g)
{
    for (size_t i = 0; i < g->len; i++)
        fl_block_remove(g->data[i]->block, g->data[i]);
    for (size_t i = 0; i < g->len; i++) {
        const fl_op_node *n = g->data[i];

        drop_temporaries(n->block, n->in, fl_node_n_in(n));
        drop_temporaries(n->block, n->out, fl_node_n_out(n));
    }
}

/* --- fusions -------------------------------------------------------------- */

static fl_status replace(const fl_fusion *f, const fl_node_group *forward,
                         const fl_node_group *backward,
                         const fl_node_group *all, bool *fused)
{
    fl_op_node *place = fl_node_group_place(forward);
    fl_op_node *grad_place = fl_node_group_place(backward);
    fl_op_node *n;

    if (!place || (backward->len && !grad_place) || !f->owns(f->what, all))
        return FL_OK;
    FL_TRY(f->insert(f->what, place, &n));
    if (grad_place)
        FL_TRY(f->insert_grad(f->what, n, grad_place));
    fl_node_group_remove(all);
    *fused = true;
    return FL_OK;
}

fl_status fl_fuse(const fl_fusion *f, bool *fused)
{
    fl_node_group forward = { 0 }, backward = { 0 }, all = { 0 };
    fl_status st;

    for (size_t i = 0; i < f->n_forward; i++) {
        fl_node_group_add(&forward, f->forward[i]);
        fl_node_group_add(&all, f->forward[i]);
    }
    for (size_t i = 0; i < f->n_backward; i++) {
        fl_node_group_add(&backward, f->backward[i]);
        fl_node_group_add(&all, f->backward[i]);
    }
    st = replace(f, &forward, &backward, &all, fused);
    fl_vec_release(&forward);
    fl_vec_release(&backward);
    fl_vec_release(&all);
    return st;
}

/* --- sweeps --------------------------------------------------------------- */

/* Once over the block. A fusion may have removed n and its neighbours: the walk
   goes on at the nearest operator before it that is left. */
static fl_status sweep_once(fl_program *p, fl_fuse_fn fuse, bool *any)
{
    fl_op_node *n = fl_program_main(p)->first;

    while (n) {
        fl_op_node *back = n->prev;
        bool fused = false;

        FL_TRY(fuse(n, &fused));
        *any |= fused;
        if (!fused) {
            n = n->next;
            continue;
        }
        while (back && !back->is_linked)
            back = back->prev;
        n = back ? back : fl_program_main(p)->first;
    }
    return FL_OK;
}

fl_status fl_match_sweep(fl_program *p, fl_fuse_fn fuse, bool *changed)
{
    bool any;

    do {
        any = false;
        FL_TRY(sweep_once(p, fuse, &any));
        *changed |= any;
    } while (any);
    return FL_OK;
}
