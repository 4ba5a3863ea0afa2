/* opt_fc.c - product, bias and activation become one operator.
 *
 *     mul(X, W) + elementwise_add(Bias) [+ relu | sigmoid | tanh]  ->  fc
 *     their gradients                                              ->  fc_grad
 *
 * W and Bias are parameters. Without an activation that can be taken in, fc
 * ends with the sum. A product without a bias, and several products added up,
 * stay as they are. */
#include "pass/match.h"
#include "pass/pass.h"

typedef struct layer {
    fl_op_node *mul, *add, *act; /* act: NULL without activation */
    fl_op_node *mul_grad, *add_grad, *act_grad; /* NULL without gradient */
    int64_t cols;                               /* in_num_col_dims */
} layer;

static bool is_param(const fl_var *v, int rank)
{
    return v && (v->flags & FL_VAR_PARAM) && v->meta.shape.rank == rank;
}

static bool is_int(const fl_op_node *n, const char *attr, int64_t want)
{
    return fl_match_attr(n, attr)->i == want;
}

static bool match_product(layer *l)
{
    const fl_var *w = fl_match_in(l->mul, "Y");

    if (!fl_match_op(l->mul, "mul") || !is_param(w, 2) ||
        !is_int(l->mul, "y_num_col_dims", 1))
        return false;
    l->cols = fl_match_attr(l->mul, "x_num_col_dims")->i;
    return true;
}

/* One number per column of W; the product has cols + 1 dimensions. */
static bool match_bias(const layer *l)
{
    const fl_var *w = fl_match_in(l->mul, "Y");
    const fl_var *bias = fl_match_in(l->add, "Y");

    return is_param(bias, 1) && bias->meta.shape.dim[0] > 0 &&
           bias->meta.shape.dim[0] == w->meta.shape.dim[1] &&
           (is_int(l->add, "axis", -1) || is_int(l->add, "axis", l->cols));
}

static bool is_activation(const fl_op_node *n)
{
    return fl_match_op(n, "relu") || fl_match_op(n, "sigmoid") ||
           fl_match_op(n, "tanh");
}

static fl_op_node *find_activation(const fl_op_node *add)
{
    const fl_var *sum = fl_match_out(add, "Out");

    for (const fl_use *u = sum->first_use; u; u = u->next)
        if (is_activation(u->node) && fl_match_in(u->node, "X") == sum)
            return u->node;
    return NULL;
}

static const fl_op_node *top_grad(const layer *l)
{
    return l->act ? l->act_grad : l->add_grad;
}

static const fl_var *output(const layer *l)
{
    return fl_match_out(l->act ? l->act : l->add, "Out");
}

/* Does what `upper` gives for its X reach `lower`, and nobody when there is no
   lower one? */
static bool is_linked(const fl_op_node *upper, const fl_op_node *lower)
{
    const fl_var *v = fl_match_out(upper, "X@GRAD");

    return lower ? v && v == fl_match_in(lower, "Out@GRAD") : !v;
}

/* All gradients or none. A product whose inputs want no gradient has none. */
static bool match_grads(layer *l)
{
    l->mul_grad = fl_match_grad(l->mul);
    l->add_grad = fl_match_grad(l->add);
    l->act_grad = fl_match_grad(l->act);
    if (!l->mul_grad && !l->add_grad && !l->act_grad)
        return true;
    return l->add_grad && is_linked(l->add_grad, l->mul_grad) &&
           (!l->act || (l->act_grad && is_linked(l->act_grad, l->add_grad)));
}

static bool owns_inner(const void *what, const fl_node_group *all)
{
    const layer *l = what;

    return fl_node_group_owns(all, fl_match_out(l->mul, "Out")) &&
           fl_node_group_owns(all, fl_match_out(l->add_grad, "X@GRAD")) &&
           (!l->act ||
            (fl_node_group_owns(all, fl_match_out(l->add, "Out")) &&
             fl_node_group_owns(all, fl_match_out(l->act_grad, "X@GRAD"))));
}

static bool overwrites_input(const layer *l)
{
    const fl_var *out = output(l);

    return out == fl_match_in(l->mul, "X") || out == fl_match_in(l->mul, "Y") ||
           out == fl_match_in(l->add, "Y");
}

static fl_status insert_fc(const void *what, fl_op_node *place,
                           fl_op_node **out)
{
    const layer *l = what;
    fl_op_builder b = { .type = "fc" };

    fl_op_builder_in(&b, "Input", fl_match_in(l->mul, "X"));
    fl_op_builder_in(&b, "W", fl_match_in(l->mul, "Y"));
    fl_op_builder_in(&b, "Bias", fl_match_in(l->add, "Y"));
    fl_op_builder_out(&b, "Out", output(l));
    fl_op_builder_int(&b, "in_num_col_dims", l->cols);
    fl_op_builder_str(&b, "activation_type", l->act ? l->act->def->name : "");
    return fl_op_builder_insert(&b, place, out);
}

static fl_status insert_fc_grad(const void *what, const fl_op_node *fc,
                                fl_op_node *place)
{
    const layer *l = what;
    fl_op_builder b;

    fl_op_builder_init_grad(&b, fc);
    fl_op_builder_in(&b, "Out@GRAD", fl_match_in(top_grad(l), "Out@GRAD"));
    fl_op_builder_out(&b, "Input@GRAD", fl_match_out(l->mul_grad, "X@GRAD"));
    fl_op_builder_out(&b, "W@GRAD", fl_match_out(l->mul_grad, "Y@GRAD"));
    fl_op_builder_out(&b, "Bias@GRAD", fl_match_out(l->add_grad, "Y@GRAD"));
    return fl_op_builder_insert(&b, place, NULL);
}

static fl_status replace(const layer *l, bool *fused)
{
    fl_op_node *const forward[] = { l->mul, l->add, l->act };
    fl_op_node *const backward[] = { l->act_grad, l->add_grad, l->mul_grad };
    fl_fusion f = { forward, backward,   FL_LEN(forward), FL_LEN(backward),
                    l,       owns_inner, insert_fc,       insert_fc_grad };

    return fl_fuse(&f, fused);
}

/* With the activation if it can be, else without. */
static fl_status fuse(fl_op_node *n, bool *fused)
{
    layer l = { .add = n };

    if (!fl_match_op(n, "elementwise_add"))
        return FL_OK;
    l.mul = fl_match_writer(fl_match_in(n, "X"));
    if (!match_product(&l) || !match_bias(&l))
        return FL_OK;
    l.act = find_activation(n);
    if (l.act && match_grads(&l) && !overwrites_input(&l))
        FL_TRY(replace(&l, fused));
    l.act = NULL;
    if (!*fused && match_grads(&l) && !overwrites_input(&l))
        FL_TRY(replace(&l, fused));
    return FL_OK;
}

static fl_status fc_run(fl_program *p, bool *changed)
{
    return fl_match_sweep(p, fuse, changed);
}

const fl_pass fl_pass_opt_fc = {
    .name = "opt_fc",
    .doc = "join product, bias and activation to fc",
    .run = fc_run,
};
