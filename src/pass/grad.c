/* grad.c - autodiff.
 *
 * A temporary that is written more than once holds several values, each with
 * a gradient of its own. Back reads forward values, so before anything else all
 * but the last get a variable of their own (versions.c), where no other block
 * uses the variable; below, a mark is one value of one variable.
 *
 * Three walks over the block, none of which knows an operator by name:
 *   down  a variable wants a gradient when something that is wanted (usually a
 *         trainable parameter) flows into it through operators that have a back
 *         function
 *   up    from the targets: which operators get a gradient operator, and how
 *         often each variable gets a gradient
 *   up    append the gradient operators; when a variable has got all of its
 *         gradients and there are several, add them up
 */
#include "pass/grad.h"

#include "ir/builder.h"
#include "pass/second.h"
#include "pass/versions.h"

/* What is known of one value of a variable. */
typedef struct mark {
    const fl_var *var;
    int version;              /* which of its values, from 0 */
    struct mark *prev, *next; /* values before and after it; NULL: none */
    bool is_made;             /* an operator writes it */
    bool wants;               /* something wanted flows into it */
    bool reached;             /* a target depends on it */
    int uses;                 /* gradients it will get */
    int got;                  /* gradients it has got */
    const char *seed;         /* a target's own gradient, one of them */
} mark;

/* An operator, and the values that it reads and writes, slot after slot. */
typedef struct site {
    fl_op_node *node;
    mark **in, **out; /* NULL for an empty place */
} site;

typedef struct differ {
    fl_block *block;
    fl_map first, now;  /* marks by variable name: its first value, its last */
    fl_map wanted, cut; /* names that want a gradient, or none, whatever flows
                           into them */
    fl_arena tmp;
    FL_VEC(site) sites; /* of the forward operators */
    const fl_grad_spec *spec;
    bool every;      /* whatever an operator makes wants a gradient */
    char suffix[16]; /* of names of gradients, when they are not the first */
} differ;

/* A new value of a variable. */
static mark *add_mark(differ *d, const fl_var *v)
{
    mark *m = fl_arena_alloc(&d->tmp, sizeof(*m));
    mark *old = fl_map_find(&d->now, v->name);

    m->var = v;
    m->prev = old;
    m->version = old ? old->version + 1 : 0;
    m->wants = fl_map_find(&d->wanted, v->name) != NULL;
    if (old)
        old->next = m;
    else
        fl_map_put(&d->first, v->name, m);
    fl_map_put(&d->now, v->name, m);
    return m;
}

/* The value that a variable has now. */
static mark *mark_of(differ *d, const fl_var *v)
{
    mark *m = fl_map_find(&d->now, v->name);

    return m ? m : add_mark(d, v);
}

/* The value of a leaf that gradients are for: what a run begins with, where it
   is kept from run to run, else the last one. */
static mark *leaf_of(differ *d, const fl_var *v)
{
    mark *m = fl_map_find(&d->first, v->name);

    return m && (v->flags & FL_VAR_PERSIST) ? m : mark_of(d, v);
}

static bool is_trainable(const fl_var *v)
{
    return (v->flags & FL_VAR_PARAM) &&
           !(v->flags & (FL_VAR_FROZEN | FL_VAR_STOP_GRAD)) &&
           fl_dtype_is_float(v->meta.dtype);
}

/* What nobody computes and nobody has cut off: a fed or kept variable that is
   differentiated as parameters are. */
static bool is_open_leaf(const fl_var *v)
{
    return (v->flags & (FL_VAR_DATA | FL_VAR_PERSIST)) &&
           !(v->flags & (FL_VAR_PARAM | FL_VAR_STOP_GRAD)) &&
           v->meta.kind != FL_KIND_ROWS && fl_dtype_is_float(v->meta.dtype);
}

static bool is_differentiable(const fl_op_node *n, int slot)
{
    if (n->is_grad)
        return fl_second_is_wanted(n, slot);
    return !(n->def->in[slot].flags & (FL_SLOT_NO_GRAD | FL_OP_SLOT_STATE));
}

/* Does input (slot, i) of an operator, which is m, get a gradient? */
static bool wants_grad(const site *t, int slot, const mark *m)
{
    return m && is_differentiable(t->node, slot) && m->wants;
}

static bool any_input_wants(const site *t)
{
    int at = 0;

    for (int s = 0; s < fl_node_n_in(t->node); s++)
        for (int i = 0; i < t->node->in[s].n; i++, at++)
            if (wants_grad(t, s, t->in[at]))
                return true;
    return false;
}

static bool has_gradient(const site *t)
{
    if (t->node->is_grad && !fl_second_is_known(t->node))
        return false;
    return t->node->def->back && any_input_wants(t);
}

/* Variables that the block sees, its own first: give NULL for the first one. */
static fl_var *next_var(const differ *d, const fl_var *v)
{
    const fl_block *b = v ? v->block : d->block;
    fl_var *next = v ? v->next : b->first_var;

    while (!next && b->parent >= 0) {
        b = b->program->blocks.data[b->parent];
        next = b->first_var;
    }
    return next;
}

static void list_wanted(differ *d)
{
    const fl_grad_spec *s = d->spec;

    for (fl_var *v = next_var(d, NULL); v && !s->wanted; v = next_var(d, v))
        if (is_trainable(v) || is_open_leaf(v))
            fl_map_put(&d->wanted, v->name, v);
    for (size_t i = 0; s->wanted && i < s->n_wanted; i++)
        fl_map_put(&d->wanted, s->wanted[i]->name, s->wanted[i]);
    for (size_t i = 0; i < s->n_no_grad; i++) {
        fl_map_remove(&d->wanted, s->no_grad[i]->name);
        fl_map_put(&d->cut, s->no_grad[i]->name, s->no_grad[i]);
    }
}

static mark **marks_for(differ *d, const fl_args *args, int n_slots)
{
    size_t n = 1;

    for (int s = 0; s < n_slots; s++)
        n += (size_t)args[s].n;
    return fl_arena_alloc(&d->tmp, sizeof(mark *) * n);
}

static void read_values(differ *d, site *t)
{
    int at = 0;

    t->in = marks_for(d, t->node->in, fl_node_n_in(t->node));
    for (int s = 0; s < fl_node_n_in(t->node); s++)
        for (int i = 0; i < t->node->in[s].n; i++, at++)
            if (t->node->in[s].vars[i])
                t->in[at] = mark_of(d, t->node->in[s].vars[i]);
}

/* What nobody computes from anything, where that counts. */
static bool is_source(const differ *d, const site *t)
{
    int n = 0;

    for (int s = 0; s < fl_node_n_in(t->node); s++)
        n += t->node->in[s].n;
    return d->every || (d->spec->all_leaves && !d->spec->wanted && !n);
}

static void write_values(differ *d, site *t)
{
    bool wants = has_gradient(t) || is_source(d, t);
    int at = 0;

    t->out = marks_for(d, t->node->out, fl_node_n_out(t->node));
    for (int s = 0; s < fl_node_n_out(t->node); s++)
        for (int i = 0; i < t->node->out[s].n; i++, at++) {
            const fl_var *v = t->node->out[s].vars[i];

            if (!v)
                continue;
            t->out[at] = add_mark(d, v);
            t->out[at]->is_made = true;
            if (wants && !fl_map_find(&d->cut, v->name) &&
                !(v->flags & FL_VAR_STOP_GRAD) &&
                fl_dtype_is_float(v->meta.dtype))
                t->out[at]->wants = true;
        }
}

/* The slot that lists what a block is given; NULL: none. */
static fl_args *list_of_inputs(fl_op_node *n)
{
    for (int s = 0; s < fl_node_n_in(n) && !n->is_grad; s++)
        if ((n->def->in[s].flags & FL_OP_SLOT_LIST) &&
            !(n->def->in[s].flags & FL_SLOT_NO_GRAD))
            return &n->in[s];
    return NULL;
}

static bool may_keep(const differ *d, const fl_op_node *n, const fl_var *v)
{
    const mark *old = v ? fl_map_find(&d->now, v->name) : NULL;

    return old && old->is_made && old->wants && !(v->flags & FL_VAR_PERSIST) &&
           !fl_node_uses_var(n, v);
}

/* What a block may leave as it was is given to it too, so that a gradient gets
   to the earlier value. */
static void list_kept(const differ *d, fl_op_node *n)
{
    bool is_one =
        (n->def->flags & FL_OP_REMEMBERS) && n->role == FL_OP_ROLE_FORWARD;
    fl_args *to = is_one ? list_of_inputs(n) : NULL;

    for (int s = 0; to && s < fl_node_n_out(n); s++)
        for (int i = 0; i < n->out[s].n; i++)
            if ((n->def->out[s].flags & FL_OP_SLOT_STATE) &&
                may_keep(d, n, n->out[s].vars[i]))
                fl_node_add_arg(n, to, n->out[s].vars[i]);
}

static void walk_down(differ *d)
{
    list_wanted(d);
    for (fl_op_node *n = d->block->first; n; n = n->next) {
        site t = { .node = n };

        list_kept(d, n);
        read_values(d, &t);
        write_values(d, &t);
        fl_vec_push(&d->sites, t);
    }
}

static bool any_target_wants(differ *d)
{
    for (size_t i = 0; i < d->spec->n_targets; i++)
        if (mark_of(d, d->spec->targets[i])->wants)
            return true;
    return false;
}

/* Where all leaves count and no target depends on one, the gradients of what
   lies between the data and the targets are all that can be asked for. */
static void walk_down_again(differ *d)
{
    if (!d->spec->all_leaves || d->spec->wanted || any_target_wants(d))
        return;
    fl_map_release(&d->first);
    fl_map_release(&d->now);
    d->first = d->now = (fl_map){ 0 };
    d->sites.len = 0;
    d->every = true;
    walk_down(d);
}

static bool is_reached(const site *t)
{
    int n = 0;

    for (int s = 0; s < fl_node_n_out(t->node); s++)
        n += t->node->out[s].n;
    if (!has_gradient(t))
        return false;
    for (int at = 0; at < n; at++)
        if (t->out[at] && t->out[at]->reached && t->out[at]->wants)
            return true;
    return false;
}

static bool has_mark(mark *const *marks, const fl_args *args, int n_slots,
                     const mark *m)
{
    int n = 0;

    for (int s = 0; s < n_slots; s++)
        n += args[s].n;
    for (int at = 0; at < n; at++)
        if (marks[at] == m)
            return true;
    return false;
}

/* The operator that takes the place of a value is this one, and needs no more
   than it has kept of it. */
static bool is_remembered(const site *t, const mark *m)
{
    const fl_op_node *n = t->node;

    return (n->def->flags & FL_OP_REMEMBERS) &&
           has_mark(t->out, n->out, fl_node_n_out(n), m->next);
}

/* A value that is gone when back reads it. What a run began with counts as it
   is then: an update may stand between. */
static fl_status check_value(const site *t, const mark *m, unsigned use)
{
    bool is_first = (m->var->flags & FL_VAR_PERSIST) && !m->is_made;

    if (!m->next || is_first || !(t->node->def->back_uses & use) ||
        is_remembered(t, m))
        return FL_OK;
    FL_FAIL(FL_ERR_INVAL,
            "the gradient of %s reads %s, which is written again before that "
            "and is kept or used by another block; give the later value a "
            "variable of its own",
            fl_node_type(t->node), m->var->name);
}

static fl_status use_input(const site *t, int slot, mark *m)
{
    if (!t->node->is_grad)
        FL_TRY(check_value(t, m, FL_USES_IN(slot)));
    if (!wants_grad(t, slot, m))
        return FL_OK;
    m->reached = true;
    m->uses++;
    return FL_OK;
}

/* An output that may keep what it held gets its gradient to the earlier value
   through an input. */
static fl_status use_output(const site *t, int slot, const mark *m)
{
    const fl_op_node *n = t->node;
    const mark *old = m->prev;

    if (n->is_grad)
        return FL_OK;
    if (!(n->def->flags & FL_OP_REMEMBERS))
        FL_TRY(check_value(t, m, FL_USES_OUT(slot)));
    if (!(n->def->out[slot].flags & FL_OP_SLOT_STATE) || !m->reached ||
        !m->wants || !old || !old->wants ||
        has_mark(t->in, n->in, fl_node_n_in(n), old))
        return FL_OK;
    FL_FAIL(FL_ERR_INVAL,
            "variable %s may keep its value through %s, which does not list it "
            "as an input; no gradient gets to the earlier value",
            m->var->name, fl_node_type(n));
}

static fl_status use_site(const site *t)
{
    const fl_op_node *n = t->node;
    int at = 0;

    for (int s = 0; s < fl_node_n_out(n); s++)
        for (int i = 0; i < n->out[s].n; i++, at++)
            if (t->out[at])
                FL_TRY(use_output(t, s, t->out[at]));
    at = 0;
    for (int s = 0; s < fl_node_n_in(n); s++)
        for (int i = 0; i < n->in[s].n; i++, at++)
            if (t->in[at])
                FL_TRY(use_input(t, s, t->in[at]));
    return FL_OK;
}

static fl_status walk_up(differ *d)
{
    for (size_t k = d->sites.len; k-- > 0;)
        if (is_reached(&d->sites.data[k]))
            FL_TRY(use_site(&d->sites.data[k]));
    return FL_OK;
}

static const char *slot_grad(differ *d, const char *slot)
{
    return fl_arena_printf(&d->tmp, "%s" FL_GRAD_SUFFIX, slot);
}

/* "@GRAD" for the value that a variable stands for, see leaf_of. */
static const char *grad_suffix(differ *d, const mark *m)
{
    if (m->var->flags & FL_VAR_PERSIST ? !m->version : !m->next)
        return fl_arena_printf(&d->tmp, FL_GRAD_SUFFIX "%s", d->suffix);
    return fl_arena_printf(&d->tmp, FL_GRAD_SUFFIX "%s@BEFORE@%d", d->suffix,
                           m->version + 1);
}

/* The variable with the whole gradient of a value; that of a mere target is the
   one that it was given. */
static const char *grad_name(differ *d, const mark *m)
{
    if (m->seed && !m->uses)
        return m->seed;
    return fl_arena_printf(&d->tmp, "%s%s", m->var->name, grad_suffix(d, m));
}

/* The variable with gradient i of several. */
static const char *part_name(differ *d, const mark *m, int i)
{
    return fl_arena_printf(&d->tmp, "%s%s@RENAME@%d", m->var->name,
                           grad_suffix(d, m), i);
}

static bool is_sum(const mark *m)
{
    return m->uses > 1 || (m->uses && m->seed);
}

/* The name of the next gradient of a value. */
static const char *next_grad(differ *d, mark *m)
{
    int i = m->got++;

    return is_sum(m) ? part_name(d, m, i) : grad_name(d, m);
}

static fl_status list_dout(differ *d, const site *t, fl_op_builder *b)
{
    const fl_op_node *n = t->node;
    int at = 0;

    for (int s = 0; s < fl_op_n_out(n->def); s++) {
        const char *slot = slot_grad(d, n->def->out[s].name);
        size_t before = b->in.len;
        bool any = false;

        /* Whether it can do without a by-product is the operator's to say. */
        if ((n->def->back_uses & FL_USES_OUT(s)) && !n->out[s].n &&
            !(n->def->out[s].flags & FL_OP_SLOT_BYPRODUCT))
            FL_FAIL(FL_ERR_INVAL,
                    "op %s: its gradient needs output %s, which was left out",
                    n->def->name, n->def->out[s].name);
        for (int i = 0; i < n->out[s].n; i++, at++) {
            const mark *m = t->out[at];
            bool has = m && m->reached && m->wants;

            any |= has;
            fl_op_builder_in_name(b, slot,
                                  has ? grad_name(d, m) : FL_EMPTY_NAME);
        }
        if (!any)
            b->in.len = before;
    }
    return FL_OK;
}

static void list_din(differ *d, const site *t, fl_op_builder *b)
{
    const fl_op_node *n = t->node;
    int at = 0;

    for (int s = 0; s < fl_op_n_in(n->def); s++) {
        const char *slot = slot_grad(d, n->def->in[s].name);
        size_t before = b->out.len;
        bool any = false;

        for (int i = 0; i < n->in[s].n; i++, at++) {
            bool wants = wants_grad(t, s, t->in[at]);

            any |= wants;
            fl_op_builder_out_name(
                b, slot, wants ? next_grad(d, t->in[at]) : FL_EMPTY_NAME);
        }
        if (!any)
            b->out.len = before;
    }
}

/* All gradients of a value are there: add them up if there are several. */
static fl_status sum_up(differ *d, mark *m)
{
    fl_op_builder b = { .type = d->spec->sum_op, .role = FL_OP_ROLE_BACKWARD };

    if (!is_sum(m) || m->got != m->uses)
        return FL_OK;
    m->got++; /* once */
    if (m->seed)
        fl_op_builder_in_name(&b, "X", m->seed);
    for (int i = 0; i < m->uses; i++)
        fl_op_builder_in_name(&b, "X", part_name(d, m, i));
    fl_op_builder_out_name(&b, "Out", grad_name(d, m));
    return fl_op_builder_put(&b, d->block, NULL, NULL);
}

static fl_status sum_inputs(differ *d, const site *t)
{
    int at = 0;

    for (int s = 0; s < fl_op_n_in(t->node->def); s++)
        for (int i = 0; i < t->node->in[s].n; i++, at++)
            if (wants_grad(t, s, t->in[at]))
                FL_TRY(sum_up(d, t->in[at]));
    return FL_OK;
}

static fl_status append_second(differ *d, const site *t);

static fl_status append_grad(differ *d, const site *t)
{
    fl_op_builder b;
    fl_status st;

    if (t->node->is_grad)
        return append_second(d, t);
    fl_op_builder_init_grad(&b, t->node);
    st = list_dout(d, t, &b);
    if (!st) {
        list_din(d, t, &b);
        st = fl_op_builder_put(&b, d->block, NULL, NULL);
    }
    fl_op_builder_release(&b);
    return st ? st : sum_inputs(d, t);
}

/* --- gradients of gradients ----------------------------------------------- */

/* Names by slot and entry; NULL where `name_of` gives none. */
static const char *const *const *name_slots(
    differ *d, const fl_args *args, int n_slots, mark **marks,
    const char *(*name_of)(differ *d, const fl_op_node *n, int slot, mark *m),
    const fl_op_node *n)
{
    const char ***names =
        fl_arena_alloc(&d->tmp, sizeof(*names) * ((size_t)n_slots + 1));
    int at = 0;

    for (int s = 0; s < n_slots; s++) {
        names[s] =
            fl_arena_alloc(&d->tmp, sizeof(char *) * ((size_t)args[s].n + 1));
        for (int i = 0; i < args[s].n; i++, at++)
            names[s][i] = marks[at] ? name_of(d, n, s, marks[at]) : NULL;
        if (!args[s].n)
            names[s] = NULL;
    }
    return (const char *const *const *)names;
}

static const char *name_that_came(differ *d, const fl_op_node *n, int slot,
                                  mark *m)
{
    (void)n;
    (void)slot;
    return m->reached && m->wants ? grad_name(d, m) : NULL;
}

static const char *name_wanted(differ *d, const fl_op_node *n, int slot,
                               mark *m)
{
    return is_differentiable(n, slot) && m->wants ? next_grad(d, m) : NULL;
}

static fl_status append_second(differ *d, const site *t)
{
    fl_op_node *n = t->node;
    fl_second s = { .node = n,
                    .sum_op = d->spec->sum_op,
                    .zeros_op = d->spec->zeros_op };
    int at = 0;

    s.came = name_slots(d, n->out, fl_node_n_out(n), t->out, name_that_came, n);
    s.wanted = name_slots(d, n->in, fl_node_n_in(n), t->in, name_wanted, n);
    FL_TRY(fl_second_append(&s));
    for (int slot = 0; slot < fl_node_n_in(n); slot++)
        for (int i = 0; i < n->in[slot].n; i++, at++)
            if (wants_grad(t, slot, t->in[at]))
                FL_TRY(sum_up(d, t->in[at]));
    return FL_OK;
}

/* --- targets and results --------------------------------------------------- */

/* Gradients of a target that has others of an earlier call get a suffix. */
static bool is_free(differ *d)
{
    for (const fl_var *v = next_var(d, NULL); v; v = next_var(d, v))
        for (const mark *m = fl_map_find(&d->first, v->name); m; m = m->next)
            if (m->reached && m->uses &&
                fl_block_find_var(d->block, grad_name(d, m)))
                return false;
    return true;
}

static void choose_suffix(differ *d)
{
    for (int k = 1; !is_free(d); k++)
        snprintf(d->suffix, sizeof(d->suffix), "@%d", k);
}

static bool is_made(const fl_grad_spec *s, size_t target)
{
    return !s->target_grads || !s->target_grads[target];
}

/* Where a target that others depend on gets its ones, which are added to what
   comes from them. */
static const char *seed_name(differ *d, const fl_var *target)
{
    const char *name =
        fl_arena_printf(&d->tmp, "%s" FL_GRAD_SUFFIX "%s%s", target->name,
                        d->suffix, mark_of(d, target)->uses ? "@SEED" : "");

    while (fl_block_find_var(d->block, name))
        name = fl_arena_printf(&d->tmp, "%s@", name);
    return name;
}

static fl_status make_seeds(differ *d)
{
    const fl_grad_spec *s = d->spec;

    for (size_t i = 0; i < s->n_targets; i++) {
        mark *m = mark_of(d, s->targets[i]);

        if (!m->wants)
            continue;
        if (!is_made(s, i)) {
            m->seed = s->target_grads[i]->name;
            continue;
        }
        m->seed = seed_name(d, s->targets[i]);
        FL_TRY(s->seed(s->targets[i], m->seed));
    }
    return FL_OK;
}

static void add_pair(differ *d, fl_var *v, fl_grad_pairs *out)
{
    fl_grad_pair pair = { v, NULL };
    const mark *m = leaf_of(d, v);

    if (m->reached)
        pair.grad = fl_block_find_var(d->block, grad_name(d, m));
    fl_vec_push(out, pair);
}

static void list_pairs(differ *d, fl_grad_pairs *out)
{
    for (size_t i = 0; i < d->spec->n_wanted; i++)
        add_pair(d, d->spec->wanted[i], out);
    for (fl_var *v = next_var(d, NULL); v && !d->spec->wanted;
         v = next_var(d, v))
        if (is_trainable(v) && leaf_of(d, v)->reached)
            add_pair(d, v, out);
}

static fl_status check_targets(differ *d)
{
    const fl_grad_spec *s = d->spec;

    for (size_t i = 0; i < s->n_targets; i++) {
        if (!s->wanted && !s->all_leaves && !mark_of(d, s->targets[i])->wants)
            FL_FAIL(FL_ERR_INVAL,
                    "loss %s does not depend on any trainable parameter",
                    s->targets[i]->name);
        mark_of(d, s->targets[i])->reached = true;
    }
    return FL_OK;
}

static fl_status differentiate(differ *d, fl_grad_pairs *out)
{
    FL_TRY(fl_versions_part(d->block, d->spec->copy_op));
    walk_down(d);
    walk_down_again(d);
    FL_TRY(check_targets(d));
    FL_TRY(walk_up(d));
    choose_suffix(d);
    FL_TRY(make_seeds(d));
    for (size_t k = d->sites.len; k-- > 0;)
        if (is_reached(&d->sites.data[k]))
            FL_TRY(append_grad(d, &d->sites.data[k]));
    list_pairs(d, out);
    return FL_OK;
}

fl_status fl_grad_append(fl_block *b, const fl_grad_spec *spec,
                         fl_grad_pairs *out)
{
    differ d = { .block = b, .spec = spec };
    fl_status st;

    fl_arena_init(&d.tmp, 64 << 10);
    st = differentiate(&d, out);
    fl_map_release(&d.first);
    fl_map_release(&d.now);
    fl_map_release(&d.wanted);
    fl_map_release(&d.cut);
    fl_vec_release(&d.sites);
    fl_arena_release(&d.tmp);
    return fl_err_ctx(st, "backward of %s", spec->targets[0]->name);
}
