/* grad.c - autodiff.
 *
 * Three walks over the block, none of which knows an operator by name:
 *   down  a variable wants a gradient when a trainable parameter flows into it
 *         through operators that have a back function
 *   up    from the loss: which operators get a gradient operator, and how
 *         often each variable gets a gradient
 *   up    append the gradient operators; when a variable has got all of its
 *         gradients and there are several, add them up
 */
#include "pass/grad.h"

/* What is known of one variable. */
typedef struct mark {
    bool wants;   /* a trainable parameter flows into it */
    bool reached; /* the loss depends on it */
    int writers;
    int uses; /* gradients it will get */
    int got;  /* gradients it has got */
} mark;

typedef FL_VEC(fl_arg) arg_vec;

typedef struct differ {
    fl_block *block;
    fl_map marks; /* by variable name */
    fl_arena tmp;
    fl_op_node *last; /* the last forward operator */
    const char *sum_op;
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

static bool is_differentiable(const fl_op_node *n, int slot)
{
    return !(n->def->in[slot].flags & (FL_SLOT_NO_GRAD | FL_SLOT_STATE));
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

static void walk_down(differ *d)
{
    for (fl_var *v = d->block->first_var; v; v = v->next)
        mark_of(d, v)->wants = is_trainable(v);
    for (fl_op_node *n = d->block->first; n; n = n->next) {
        bool wants = n->def->back && !n->is_grad && any_input_wants(d, n);

        for (int s = 0; s < fl_node_n_out(n); s++)
            for (int i = 0; i < n->out[s].n; i++) {
                fl_var *v = n->out[s].vars[i];

                mark_of(d, v)->writers++;
                if (wants && !(v->flags & FL_VAR_STOP_GRAD) &&
                    fl_dtype_is_float(v->meta.dtype))
                    mark_of(d, v)->wants = true;
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
                            "variable %s is written %d times; a variable with "
                            "a gradient must be written once",
                            n->in[s].vars[i]->name, m->writers);
            }
    }
    return FL_OK;
}

static void add_arg(arg_vec *v, const char *slot, const char *var)
{
    fl_arg a = { slot, var };

    fl_vec_push(v, a);
}

static const char *grad_name(differ *d, const char *name)
{
    return fl_arena_printf(&d->tmp, "%s" FL_GRAD_SUFFIX, name);
}

/* The name of the next gradient of v. */
static const char *next_grad(differ *d, const fl_var *v)
{
    mark *m = mark_of(d, v);

    if (m->uses == 1) {
        m->got = 1;
        return grad_name(d, v->name);
    }
    return fl_arena_printf(&d->tmp, "%s" FL_GRAD_SUFFIX "@RENAME@%d", v->name,
                           m->got++);
}

static void list_forward(const fl_op_node *n, arg_vec *in)
{
    for (int s = 0; s < fl_op_n_in(n->def); s++)
        for (int i = 0; i < n->in[s].n; i++)
            add_arg(in, n->def->in[s].name, n->in[s].vars[i]->name);
    for (int s = 0; s < fl_op_n_out(n->def); s++)
        for (int i = 0; i < n->out[s].n; i++)
            if (n->def->back_uses & FL_USES_OUT(s))
                add_arg(in, n->def->out[s].name, n->out[s].vars[i]->name);
}

static fl_status list_dout(differ *d, const fl_op_node *n, arg_vec *in)
{
    for (int s = 0; s < fl_op_n_out(n->def); s++) {
        const char *slot = grad_name(d, n->def->out[s].name);
        size_t before = in->len;
        bool any = false;

        /* Whether it can do without a by-product is the operator's to say. */
        if ((n->def->back_uses & FL_USES_OUT(s)) && !n->out[s].n &&
            !(n->def->out[s].flags & FL_SLOT_BYPRODUCT))
            FL_FAIL(FL_ERR_INVAL,
                    "op %s: its gradient needs output %s, which was left out",
                    n->def->name, n->def->out[s].name);
        for (int i = 0; i < n->out[s].n; i++) {
            const mark *m = mark_of(d, n->out[s].vars[i]);
            bool has = m->reached && m->wants;

            any |= has;
            add_arg(in, slot,
                    has ? grad_name(d, n->out[s].vars[i]->name)
                        : FL_EMPTY_NAME);
        }
        if (!any)
            in->len = before;
    }
    return FL_OK;
}

static void list_din(differ *d, const fl_op_node *n, arg_vec *out)
{
    for (int s = 0; s < fl_op_n_in(n->def); s++) {
        const char *slot = grad_name(d, n->def->in[s].name);
        size_t before = out->len;
        bool any = false;

        for (int i = 0; i < n->in[s].n; i++) {
            bool wants = wants_grad(d, n, s, i);

            any |= wants;
            add_arg(out, slot,
                    wants ? next_grad(d, n->in[s].vars[i]) : FL_EMPTY_NAME);
        }
        if (!any)
            out->len = before;
    }
}

/* All gradients of v are there: add them up if there are several. */
static fl_status sum_up(differ *d, const fl_var *v)
{
    mark *m = mark_of(d, v);
    fl_arg out = { "Out", grad_name(d, v->name) };
    fl_op_spec spec = {
        .type = d->sum_op, .out = &out, .n_out = 1, .role = FL_OP_ROLE_BACKWARD
    };
    arg_vec in = { 0 };
    fl_status st;

    if (m->uses < 2 || m->got < m->uses)
        return FL_OK;
    for (int i = 0; i < m->uses; i++)
        add_arg(&in, "X",
                fl_arena_printf(&d->tmp, "%s" FL_GRAD_SUFFIX "@RENAME@%d",
                                v->name, i));
    m->got = 0; /* once */
    m->uses = 1;
    spec.in = in.data;
    spec.n_in = in.len;
    st = fl_block_append(d->block, &spec, NULL);
    fl_vec_release(&in);
    return st;
}

static fl_status append_grad(differ *d, const fl_op_node *n)
{
    fl_named_attr attrs[FL_ATTRS_MAX];
    fl_op_spec spec = { .role = FL_OP_ROLE_BACKWARD,
                        .attrs = attrs,
                        .tag = n->tag };
    arg_vec in = { 0 }, out = { 0 };
    fl_status st;

    spec.type = fl_arena_printf(&d->tmp, "%s_grad", n->def->name);
    spec.n_attrs = (size_t)fl_op_n_attrs(n->def);
    for (size_t i = 0; i < spec.n_attrs; i++)
        attrs[i] = (fl_named_attr){ n->def->attrs[i].name, n->attrs[i] };
    list_forward(n, &in);
    st = list_dout(d, n, &in);
    if (!st) {
        list_din(d, n, &out);
        spec.in = in.data;
        spec.n_in = in.len;
        spec.out = out.data;
        spec.n_out = out.len;
        st = fl_block_append(d->block, &spec, NULL);
    }
    fl_vec_release(&in);
    fl_vec_release(&out);
    for (int s = 0; s < fl_op_n_in(n->def) && !st; s++)
        for (int i = 0; i < n->in[s].n && !st; i++)
            if (wants_grad(d, n, s, i))
                st = sum_up(d, n->in[s].vars[i]);
    return st;
}

static fl_status differentiate(differ *d, fl_var *loss, fl_grad_pairs *out)
{
    walk_down(d);
    if (!mark_of(d, loss)->wants)
        FL_FAIL(FL_ERR_INVAL,
                "loss %s does not depend on any trainable parameter",
                loss->name);
    mark_of(d, loss)->reached = true;
    FL_TRY(walk_up(d));
    for (fl_op_node *n = d->last; n; n = n->prev)
        if (is_reached(d, n))
            FL_TRY(append_grad(d, n));
    for (fl_var *v = d->block->first_var; v; v = v->next) {
        fl_grad_pair pair = { v, NULL };

        if (!is_trainable(v) || !mark_of(d, v)->reached)
            continue;
        pair.grad = fl_block_find_var(d->block, grad_name(d, v->name));
        fl_vec_push(out, pair);
    }
    return FL_OK;
}

fl_status fl_grad_append(fl_block *b, fl_var *loss, const char *sum_op,
                         fl_grad_pairs *out)
{
    differ d = { .block = b, .last = b->last, .sum_op = sum_op };
    fl_status st;

    fl_arena_init(&d.tmp, 64 << 10);
    st = differentiate(&d, loss, out);
    fl_map_release(&d.marks);
    fl_arena_release(&d.tmp);
    return fl_err_ctx(st, "backward of %s", loss->name);
}
