/* second.c - the rules of second.h as operators. */
#include "pass/second.h"

#include "ir/builder.h"

typedef enum rule {
    NONE,
    LINEAR,
    BILINEAR,
    STEPWISE,
    SQUARE,
    ROOT,
    ELU,
    RATIO
} rule;

static const struct {
    const char *name;
    rule rule;
} rules[] = {
#define FL_SECOND(name, rule) { #name, rule },
#include "pass/second.def"
#undef FL_SECOND
};

static rule rule_of(const fl_op_node *n)
{
    for (size_t i = 0; i < FL_LEN(rules); i++)
        if (!strcmp(rules[i].name, n->def->name))
            return rules[i].rule;
    return NONE;
}

bool fl_second_is_known(const fl_op_node *n)
{
    return n->is_grad && rule_of(n) != NONE;
}

/* The first slot with gradients that came to the operator. */
static int first_dout(const fl_op_node *n)
{
    return fl_op_n_in(n->def) + fl_op_n_out(n->def);
}

static bool is_smooth(const fl_op_node *n, int slot)
{
    return !(n->def->in[slot].flags &
             (FL_SLOT_NO_GRAD | FL_OP_SLOT_STATE | FL_OP_SLOT_VALUE));
}

bool fl_second_is_wanted(const fl_op_node *n, int slot)
{
    int n_in = fl_op_n_in(n->def);
    rule r = rule_of(n);

    if (slot >= first_dout(n))
        return true;
    if (r == ROOT || r == RATIO)
        return slot == n_in || (r == RATIO && slot == 1);
    return (r == BILINEAR || r == SQUARE || r == ELU) && slot < n_in &&
           is_smooth(n, slot);
}

/* A name that is free. */
static const char *new_name(const fl_second *s)
{
    return fl_program_name(s->node->block->program, "second@GRAD");
}

static fl_status make_zeros(const fl_second *s, const fl_var *like,
                            const char *name)
{
    fl_op_builder b = { .type = s->zeros_op, .role = FL_OP_ROLE_BACKWARD };

    fl_op_builder_in(&b, "X", like);
    fl_op_builder_out_name(&b, "Out", name);
    return fl_op_builder_put(&b, s->node->block, NULL, NULL);
}

/* An operator like the node's forward one, or like the node, without
   arguments; what it adds to its result is left out. */
static void init_like(const fl_second *s, fl_op_builder *b, const char *type)
{
    fl_attr *bias;

    fl_op_builder_init_like(b, s->node);
    b->type = type;
    b->role = FL_OP_ROLE_BACKWARD;
    bias = fl_op_builder_find_attr(b, "bias");
    if (bias && bias->type == FL_ATTR_FLOAT)
        bias->f = 0;
}

/* --- linear --------------------------------------------------------------- */

static fl_status put_dd(const fl_second *s, fl_op_builder *b, int slot, int i)
{
    const fl_op_node *n = s->node;
    const char *name = s->came[slot] ? s->came[slot][i] : NULL;

    if (!is_smooth(n, slot)) {
        fl_op_builder_in(b, n->def->in[slot].name, n->in[slot].vars[i]);
        return FL_OK;
    }
    if (!name) {
        name = new_name(s);
        FL_TRY(make_zeros(s, n->in[slot].vars[i], name));
    }
    fl_op_builder_in_name(b, n->def->in[slot].name, name);
    return FL_OK;
}

/* Out@GRAD's gradient is f(dd); of a list of outputs, those that are wanted. */
static fl_status append_linear(const fl_second *s)
{
    const fl_op_node *n = s->node;
    int dout = first_dout(n);
    fl_op_builder b;
    fl_status st = FL_OK;

    init_like(s, &b, n->def->name);
    for (int slot = 0; slot < fl_op_n_in(n->def); slot++)
        for (int i = 0; i < n->in[slot].n && !st; i++)
            st = put_dd(s, &b, slot, i);
    for (int i = 0; i < n->in[dout].n; i++) {
        const char *name = s->wanted[dout] ? s->wanted[dout][i] : NULL;

        fl_op_builder_out_name(&b, n->def->out[0].name,
                               name ? name : new_name(s));
    }
    if (st) {
        fl_op_builder_release(&b);
        return st;
    }
    return fl_op_builder_put(&b, n->block, NULL, NULL);
}

/* --- bilinear ------------------------------------------------------------- */

/* f(X, Y) with a name in the place of input `slot`. */
static fl_status append_product(const fl_second *s, int slot, const char *dd,
                                const char *out)
{
    const fl_op_node *n = s->node;
    fl_op_builder b;

    init_like(s, &b, n->def->name);
    for (int k = 0; k < 2; k++)
        fl_op_builder_in_name(&b, n->def->in[k].name,
                              k == slot ? dd : n->in[k].vars[0]->name);
    fl_op_builder_out_name(&b, n->def->out[0].name, out);
    return fl_op_builder_put(&b, n->block, NULL, NULL);
}

static fl_status append_sum(const fl_second *s, const char *const parts[2],
                            const char *out)
{
    fl_op_builder b = { .type = s->sum_op, .role = FL_OP_ROLE_BACKWARD };

    fl_op_builder_in_name(&b, "X", parts[0]);
    fl_op_builder_in_name(&b, "X", parts[1]);
    fl_op_builder_out_name(&b, "Out", out);
    return fl_op_builder_put(&b, s->node->block, NULL, NULL);
}

static fl_status append_products(const fl_second *s, const char *const dd[2],
                                 const char *out)
{
    const char *parts[2];

    if (!dd[0] || !dd[1])
        return append_product(s, dd[0] ? 0 : 1, dd[0] ? dd[0] : dd[1], out);
    for (int k = 0; k < 2; k++) {
        parts[k] = new_name(s);
        FL_TRY(append_product(s, k, dd[k], parts[k]));
    }
    return append_sum(s, parts, out);
}

/* The gradient of input `slot`: f_grad with dd in the place of the other. */
static fl_status append_factor(const fl_second *s, int slot, const char *dd,
                               const char *out)
{
    const fl_op_node *n = s->node;
    int dout = first_dout(n);
    fl_op_builder b;

    if (!dd)
        return make_zeros(s, n->in[slot].vars[0], out);
    init_like(s, &b, fl_node_type(n));
    for (int k = 0; k < 2; k++)
        fl_op_builder_in_name(&b, n->def->in[k].name,
                              k == slot ? n->in[k].vars[0]->name : dd);
    fl_op_builder_in(&b, fl_node_in_name(n, dout), n->in[dout].vars[0]);
    fl_op_builder_out_name(&b, fl_node_out_name(n, slot), out);
    return fl_op_builder_put(&b, n->block, NULL, NULL);
}

static const char *first_of(const char *const *const *names, int slot)
{
    return names[slot] ? names[slot][0] : NULL;
}

static fl_status append_bilinear(const fl_second *s)
{
    const char *dd[] = { first_of(s->came, 0), first_of(s->came, 1) };
    int dout = first_dout(s->node);

    if (first_of(s->wanted, dout))
        FL_TRY(append_products(s, dd, first_of(s->wanted, dout)));
    for (int k = 0; k < 2; k++)
        if (first_of(s->wanted, k))
            FL_TRY(append_factor(s, k, dd[1 - k], first_of(s->wanted, k)));
    return FL_OK;
}

/* --- stepwise ------------------------------------------------------------- */

/* The same gradient operator, with dd for what came. */
static fl_status append_stepwise(const fl_second *s)
{
    const fl_op_node *n = s->node;
    int dout = first_dout(n);
    fl_op_builder b;

    init_like(s, &b, fl_node_type(n));
    for (int slot = 0; slot < dout; slot++)
        fl_op_builder_ins(&b, fl_node_in_name(n, slot), n->in[slot]);
    fl_op_builder_in_name(&b, fl_node_in_name(n, dout), first_of(s->came, 0));
    fl_op_builder_out_name(&b, fl_node_out_name(n, 0),
                           first_of(s->wanted, dout));
    return fl_op_builder_put(&b, n->block, NULL, NULL);
}

/* --- curved ---------------------------------------------------------------- */

/* a op b, element by element. */
typedef struct term {
    const char *op, *a, *b;
} term;

static fl_status append_term(const fl_second *s, const term *t, const char *out)
{
    fl_op_builder b = { .type = t->op, .role = FL_OP_ROLE_BACKWARD };
    int axis = fl_op_find_attr(s->node->def, "axis");

    if (axis >= 0)
        fl_op_builder_attr(&b, "axis", &s->node->attrs[axis]);
    fl_op_builder_in_name(&b, "X", t->a);
    fl_op_builder_in_name(&b, "Y", t->b);
    fl_op_builder_out_name(&b, "Out", out);
    return fl_op_builder_put(&b, s->node->block, NULL, NULL);
}

static fl_status append_times(const fl_second *s, const char *x, double factor,
                              const char *out)
{
    fl_op_builder b = { .type = "scale", .role = FL_OP_ROLE_BACKWARD };

    fl_op_builder_in_name(&b, "X", x);
    fl_op_builder_float(&b, "scale", factor);
    fl_op_builder_out_name(&b, "Out", out);
    return fl_op_builder_put(&b, s->node->block, NULL, NULL);
}

static fl_status append_square(const fl_second *s)
{
    const fl_op_node *n = s->node;
    int dout = first_dout(n);
    const char *product = new_name(s);
    term t = { "elementwise_mul", n->in[dout].vars[0]->name,
               first_of(s->came, 0) };

    if (first_of(s->wanted, dout))
        FL_TRY(append_stepwise(s));
    if (!first_of(s->wanted, 0))
        return FL_OK;
    FL_TRY(append_term(s, &t, product));
    return append_times(s, product, 2, first_of(s->wanted, 0));
}

static fl_status append_root(const fl_second *s)
{
    const fl_op_node *n = s->node;
    int out = fl_op_n_in(n->def);
    const char *product = new_name(s), *ratio = new_name(s);
    term times = { "elementwise_mul", n->out[0].vars[0]->name,
                   first_of(s->came, 0) };
    term over = { "elementwise_div", product, NULL };

    if (first_of(s->wanted, first_dout(n)))
        FL_TRY(append_stepwise(s));
    if (!first_of(s->wanted, out))
        return FL_OK;
    over.b = n->in[out].vars[0]->name;
    FL_TRY(append_term(s, &times, product));
    FL_TRY(append_term(s, &over, ratio));
    return append_times(s, ratio, -1, first_of(s->wanted, out));
}

/* relu_grad gives Out@GRAD where X is above 0, which is what X@GRAD is there. */
static fl_status append_elu(const fl_second *s)
{
    const fl_op_node *n = s->node;
    int dout = first_dout(n);
    const char *above = new_name(s), *below = new_name(s);
    fl_op_builder b = { .type = "relu_grad", .role = FL_OP_ROLE_BACKWARD };

    if (first_of(s->wanted, dout))
        FL_TRY(append_stepwise(s));
    if (!first_of(s->wanted, 0))
        return FL_OK;
    fl_op_builder_in(&b, "X", n->in[0].vars[0]);
    fl_op_builder_in(&b, "Out", n->in[0].vars[0]);
    fl_op_builder_in(&b, "Out@GRAD", n->in[dout].vars[0]);
    fl_op_builder_out_name(&b, "X@GRAD", above);
    FL_TRY(fl_op_builder_put(&b, n->block, NULL, NULL));
    FL_TRY(append_term(
        s, &(term){ "elementwise_sub", n->out[0].vars[0]->name, above },
        below));
    return append_term(
        s, &(term){ "elementwise_mul", below, first_of(s->came, 0) },
        first_of(s->wanted, 0));
}

/* (ddX - Out ddY) / Y */
static fl_status append_ratio_dout(const fl_second *s, const char *out)
{
    const fl_op_node *n = s->node;
    const char *y = n->in[1].vars[0]->name;
    const char *value = n->in[fl_op_n_in(n->def)].vars[0]->name;
    const char *dd[] = { first_of(s->came, 0), first_of(s->came, 1) };
    const char *parts[] = { new_name(s), new_name(s) };
    const char *product = new_name(s), *ratio = new_name(s);

    if (dd[0])
        FL_TRY(append_term(s, &(term){ "elementwise_div", dd[0], y },
                           dd[1] ? parts[0] : out));
    if (!dd[1])
        return FL_OK;
    FL_TRY(append_term(s, &(term){ "elementwise_mul", value, dd[1] }, product));
    FL_TRY(append_term(s, &(term){ "elementwise_div", product, y }, ratio));
    FL_TRY(append_times(s, ratio, -1, dd[0] ? parts[1] : out));
    return dd[0] ? append_sum(s, parts, out) : FL_OK;
}

static fl_status append_ratio_y(const fl_second *s, const char *value,
                                const char *out)
{
    const fl_op_node *n = s->node;
    int dout = first_dout(n);
    fl_op_builder b;

    init_like(s, &b, fl_node_type(n));
    fl_op_builder_in(&b, "X", n->in[0].vars[0]);
    fl_op_builder_in(&b, "Y", n->in[1].vars[0]);
    fl_op_builder_in_name(&b, "Out", value);
    fl_op_builder_in(&b, "Out@GRAD", n->in[dout].vars[0]);
    fl_op_builder_out_name(&b, "Y@GRAD", out);
    return fl_op_builder_put(&b, n->block, NULL, NULL);
}

static fl_status append_ratio_out(const fl_second *s, const char *out)
{
    const fl_op_node *n = s->node;
    const char *ddy = first_of(s->came, 1);
    const char *product = new_name(s), *ratio = new_name(s);
    const char *dout = n->in[first_dout(n)].vars[0]->name;

    if (!ddy)
        return make_zeros(s, n->in[fl_op_n_in(n->def)].vars[0], out);
    FL_TRY(append_term(s, &(term){ "elementwise_mul", dout, ddy }, product));
    FL_TRY(append_term(
        s, &(term){ "elementwise_div", product, n->in[1].vars[0]->name },
        ratio));
    return append_times(s, ratio, -1, out);
}

static fl_status append_ratio(const fl_second *s)
{
    const fl_op_node *n = s->node;
    int out = fl_op_n_in(n->def), dout = first_dout(n);
    const char *t = first_of(s->wanted, dout);

    t = t ? t : new_name(s);
    FL_TRY(append_ratio_dout(s, t));
    if (first_of(s->wanted, 1))
        FL_TRY(append_ratio_y(s, t, first_of(s->wanted, 1)));
    if (first_of(s->wanted, out))
        FL_TRY(append_ratio_out(s, first_of(s->wanted, out)));
    return FL_OK;
}

fl_status fl_second_append(const fl_second *s)
{
    static fl_status (*const append[])(const fl_second *s) = {
        [LINEAR] = append_linear,     [BILINEAR] = append_bilinear,
        [STEPWISE] = append_stepwise, [SQUARE] = append_square,
        [ROOT] = append_root,         [ELU] = append_elu,
        [RATIO] = append_ratio,
    };

    return append[rule_of(s->node)](s);
}
