/* grad.c - autodiff.
 *
 * A temporary that is written more than once holds several values, each with
 * a gradient of its own; before anything else all but the last get a variable
 * of their own (versions.c), so that below a variable is one value.
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
#include "pass/versions.h"

/* What is known of one variable. */
typedef struct mark {
    bool wants;   /* something wanted flows into it */
    bool is_cut;  /* it wants nothing, whatever flows into it */
    bool reached; /* a target depends on it */
    int writers;
    int uses;         /* gradients it will get */
    int got;          /* gradients it has got */
    const char *seed; /* a target's own gradient, one of them */
} mark;

typedef struct differ {
    fl_block *block;
    fl_map marks; /* by variable name */
    fl_arena tmp;
    fl_op_node *last; /* the last forward operator */
    const fl_grad_spec *spec;
    char suffix[16]; /* of names of gradients, when they are not the first */
} differ;

static mark *mark_of(differ *d, const fl_var *v)
{
    mark *m = fl_map_find(&d->marks, v->name);

    if (!m) {
        m = fl_arena_alloc(&d->tmp, sizeof(*m));
        fl_map_put(&d->marks, v->name, m);
    }
    return m;
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
    return !(n->def->in[slot].flags & (FL_SLOT_NO_GRAD | FL_OP_SLOT_STATE));
}

/* Does input (slot, i) of the node get a gradient? */
static bool wants_grad(differ *d, const fl_op_node *n, int slot, int i)
{
    const fl_var *v = n->in[slot].vars[i];

    return v && is_differentiable(n, slot) && mark_of(d, v)->wants;
}

static bool any_input_wants(differ *d, const fl_op_node *n)
{
    for (int s = 0; s < fl_node_n_in(n); s++)
        for (int i = 0; i < n->in[s].n; i++)
            if (wants_grad(d, n, s, i))
                return true;
    return false;
}

static void mark_wanted(differ *d)
{
    const fl_grad_spec *s = d->spec;

    if (!s->wanted)
        for (fl_var *v = d->block->first_var; v; v = v->next)
            mark_of(d, v)->wants = is_trainable(v) || is_open_leaf(v);
    for (size_t i = 0; s->wanted && i < s->n_wanted; i++)
        mark_of(d, s->wanted[i])->wants = true;
    for (size_t i = 0; i < s->n_no_grad; i++)
        *mark_of(d, s->no_grad[i]) = (mark){ .is_cut = true };
}

static void walk_down(differ *d)
{
    mark_wanted(d);
    for (fl_op_node *n = d->block->first; n; n = n->next) {
        bool wants = n->def->back && !n->is_grad && any_input_wants(d, n);

        for (int s = 0; s < fl_node_n_out(n); s++)
            for (int i = 0; i < n->out[s].n; i++) {
                fl_var *v = n->out[s].vars[i];

                mark *m = mark_of(d, v);

                m->writers++;
                if (wants && !m->is_cut && !(v->flags & FL_VAR_STOP_GRAD) &&
                    fl_dtype_is_float(v->meta.dtype))
                    m->wants = true;
            }
        if (n == d->last)
            break;
    }
}

static bool is_reached(differ *d, const fl_op_node *n)
{
    if (!n->def->back || n->is_grad || !any_input_wants(d, n))
        return false;
    for (int s = 0; s < fl_node_n_out(n); s++)
        for (int i = 0; i < n->out[s].n; i++) {
            const mark *m = mark_of(d, n->out[s].vars[i]);

            if (m->reached && m->wants)
                return true;
        }
    return false;
}

static fl_status walk_up(differ *d)
{
    for (fl_op_node *n = d->last; n; n = n->prev) {
        if (!is_reached(d, n))
            continue;
        for (int s = 0; s < fl_node_n_in(n); s++)
            for (int i = 0; i < n->in[s].n; i++) {
                mark *m;

                if (!wants_grad(d, n, s, i))
                    continue;
                m = mark_of(d, n->in[s].vars[i]);
                m->reached = true;
                m->uses++;
                if (m->writers > 1)
                    FL_FAIL(FL_ERR_INVAL,
                            "variable %s is written %d times and is kept or "
                            "used by another block; only a temporary of one "
                            "block can have a gradient for each of its values",
                            n->in[s].vars[i]->name, m->writers);
            }
    }
    return FL_OK;
}

static const char *slot_grad(differ *d, const char *slot)
{
    return fl_arena_printf(&d->tmp, "%s" FL_GRAD_SUFFIX, slot);
}

/* The variable with the whole gradient of v; that of a mere target is the one
   that it was given. */
static const char *grad_name(differ *d, const fl_var *v)
{
    const mark *m = mark_of(d, v);

    if (m->seed && !m->uses)
        return m->seed;
    return fl_arena_printf(&d->tmp, "%s" FL_GRAD_SUFFIX "%s", v->name,
                           d->suffix);
}

/* The variable with gradient i of several. */
static const char *part_name(differ *d, const fl_var *v, int i)
{
    return fl_arena_printf(&d->tmp, "%s" FL_GRAD_SUFFIX "%s@RENAME@%d", v->name,
                           d->suffix, i);
}

static bool is_sum(const mark *m)
{
    return m->uses > 1 || (m->uses && m->seed);
}

/* The name of the next gradient of v. */
static const char *next_grad(differ *d, const fl_var *v)
{
    mark *m = mark_of(d, v);
    int i = m->got++;

    return is_sum(m) ? part_name(d, v, i) : grad_name(d, v);
}

static fl_status list_dout(differ *d, const fl_op_node *n, fl_op_builder *b)
{
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
        for (int i = 0; i < n->out[s].n; i++) {
            const mark *m = mark_of(d, n->out[s].vars[i]);
            bool has = m->reached && m->wants;

            any |= has;
            fl_op_builder_in_name(
                b, slot, has ? grad_name(d, n->out[s].vars[i]) : FL_EMPTY_NAME);
        }
        if (!any)
            b->in.len = before;
    }
    return FL_OK;
}

static void list_din(differ *d, const fl_op_node *n, fl_op_builder *b)
{
    for (int s = 0; s < fl_op_n_in(n->def); s++) {
        const char *slot = slot_grad(d, n->def->in[s].name);
        size_t before = b->out.len;
        bool any = false;

        for (int i = 0; i < n->in[s].n; i++) {
            bool wants = wants_grad(d, n, s, i);

            any |= wants;
            fl_op_builder_out_name(b, slot,
                                   wants ? next_grad(d, n->in[s].vars[i])
                                         : FL_EMPTY_NAME);
        }
        if (!any)
            b->out.len = before;
    }
}

/* All gradients of v are there: add them up if there are several. */
static fl_status sum_up(differ *d, const fl_var *v)
{
    fl_op_builder b = { .type = d->spec->sum_op, .role = FL_OP_ROLE_BACKWARD };
    mark *m = mark_of(d, v);

    if (!is_sum(m) || m->got != m->uses)
        return FL_OK;
    m->got++; /* once */
    if (m->seed)
        fl_op_builder_in_name(&b, "X", m->seed);
    for (int i = 0; i < m->uses; i++)
        fl_op_builder_in_name(&b, "X", part_name(d, v, i));
    fl_op_builder_out_name(&b, "Out", grad_name(d, v));
    return fl_op_builder_put(&b, d->block, NULL, NULL);
}

static fl_status append_grad(differ *d, const fl_op_node *n)
{
    fl_op_builder b;
    fl_status st;

    fl_op_builder_init_grad(&b, n);
    st = list_dout(d, n, &b);
    if (!st) {
        list_din(d, n, &b);
        st = fl_op_builder_put(&b, d->block, NULL, NULL);
    }
    fl_op_builder_release(&b);
    for (int s = 0; s < fl_op_n_in(n->def) && !st; s++)
        for (int i = 0; i < n->in[s].n && !st; i++)
            if (wants_grad(d, n, s, i))
                st = sum_up(d, n->in[s].vars[i]);
    return st;
}

/* --- targets and results --------------------------------------------------- */

/* Gradients of a target that has others of an earlier call get a suffix. */
static bool is_free(differ *d)
{
    for (const fl_var *v = d->block->first_var; v; v = v->next) {
        const mark *m = fl_map_find(&d->marks, v->name);

        if (m && m->reached && m->uses &&
            fl_block_find_var(d->block, grad_name(d, v)))
            return false;
    }
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

    if (mark_of(d, v)->reached)
        pair.grad = fl_block_find_var(d->block, grad_name(d, v));
    fl_vec_push(out, pair);
}

static void list_pairs(differ *d, fl_grad_pairs *out)
{
    for (size_t i = 0; i < d->spec->n_wanted; i++)
        add_pair(d, d->spec->wanted[i], out);
    for (fl_var *v = d->block->first_var; v && !d->spec->wanted; v = v->next)
        if (is_trainable(v) && mark_of(d, v)->reached)
            add_pair(d, v, out);
}

static fl_status check_targets(differ *d)
{
    const fl_grad_spec *s = d->spec;

    for (size_t i = 0; i < s->n_targets; i++) {
        if (!s->wanted && !mark_of(d, s->targets[i])->wants)
            FL_FAIL(FL_ERR_INVAL,
                    "loss %s does not depend on any trainable parameter",
                    s->targets[i]->name);
        mark_of(d, s->targets[i])->reached = true;
    }
    return FL_OK;
}

static fl_status differentiate(differ *d, fl_grad_pairs *out)
{
    FL_TRY(fl_versions_part(d->block));
    walk_down(d);
    FL_TRY(check_targets(d));
    FL_TRY(walk_up(d));
    choose_suffix(d);
    FL_TRY(make_seeds(d));
    for (fl_op_node *n = d->last; n; n = n->prev)
        if (is_reached(d, n))
            FL_TRY(append_grad(d, n));
    list_pairs(d, out);
    return FL_OK;
}

fl_status fl_grad_append(fl_block *b, const fl_grad_spec *spec,
                         fl_grad_pairs *out)
{
    differ d = { .block = b, .last = b->last, .spec = spec };
    fl_status st;

    fl_arena_init(&d.tmp, 64 << 10);
    st = differentiate(&d, out);
    fl_map_release(&d.marks);
    fl_arena_release(&d.tmp);
    return fl_err_ctx(st, "backward of %s", spec->targets[0]->name);
}
