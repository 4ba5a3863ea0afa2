/* opt_lookup_dot.c - the product of two looked-up rows becomes one operator, and
 * so does training with it.
 *
 *     lookup_table -> a -+
 *                        +-> elementwise_mul -> reduce_sum (dim 1)
 *     lookup_table -> b -+
 *
 * becomes lookup_dot, and the gradients of all four its gradient: what users
 * write for pairs of words, or of a user and an item. The rows themselves, their
 * products and three arrays of gradients of that size are not made.
 *
 *     lookup_dot -> z -> sigmoid_cross_entropy_with_logits
 *
 * and the gradients of both become lookup_dot_loss and its gradient. Where the
 * gradients of the rows are sparse and go nowhere but into
 *
 *     sgd (Param=x, Grad=X@GRAD, LearningRate=r)
 *     sgd (Param=y, Grad=Y@GRAD, LearningRate=r)
 *
 * they are not made either: lookup_dot_sgd steps on x and y. This needs all
 * that an update is made of at once, which replicas and batches that are
 * accumulated have not. */
#include "ir/builder.h"
#include "pass/match.h"
#include "pass/pass.h"

typedef struct dot {
    fl_op_node *x, *y, *mul, *sum; /* lookups, their product, its sum */
    fl_op_node *x_grad, *y_grad, *mul_grad, *sum_grad; /* all or none */
} dot;

/* One id per row, and none that reads as zeros. */
static bool is_lookup(const fl_op_node *n)
{
    return fl_match_op(n, "lookup_table") &&
           !fl_match_attr(n, "is_distributed")->b &&
           fl_match_attr(n, "padding_idx")->i == -1 &&
           fl_match_in(n, "Ids")->meta.shape.rank == 2 &&
           fl_match_out(n, "Out")->meta.shape.rank == 2 &&
           !fl_match_in(n, "Ids")->meta.n_lod;
}

/* Over the second of two dimensions, which stays as 1. */
static bool is_row_sum(const fl_op_node *n)
{
    const fl_attr *dim;

    if (!fl_match_op(n, "reduce_sum") || !fl_match_attr(n, "keep_dim")->b ||
        fl_match_attr(n, "reduce_all")->b)
        return false;
    dim = fl_match_attr(n, "dim");
    return dim->n == 1 && (dim->ints[0] == 1 || dim->ints[0] == -1);
}

static bool match_forward(dot *d)
{
    if (!is_row_sum(d->sum))
        return false;
    d->mul = fl_match_writer(fl_match_in(d->sum, "X"));
    if (!fl_match_op(d->mul, "elementwise_mul"))
        return false;
    d->x = fl_match_writer(fl_match_in(d->mul, "X"));
    d->y = fl_match_writer(fl_match_in(d->mul, "Y"));
    return d->x != d->y && d->x && d->y && is_lookup(d->x) && is_lookup(d->y) &&
           fl_match_in(d->x, "W") != fl_match_in(d->y, "W");
}

static bool match_backward(dot *d)
{
    d->sum_grad = fl_match_grad(d->sum);
    d->mul_grad = fl_match_grad(d->mul);
    d->x_grad = fl_match_grad(d->x);
    d->y_grad = fl_match_grad(d->y);
    if (!d->sum_grad)
        return !d->mul_grad && !d->x_grad && !d->y_grad;
    return d->mul_grad && d->x_grad && d->y_grad &&
           fl_match_out(d->sum_grad, "X@GRAD") ==
               fl_match_in(d->mul_grad, "Out@GRAD") &&
           fl_match_out(d->mul_grad, "X@GRAD") ==
               fl_match_in(d->x_grad, "Out@GRAD") &&
           fl_match_out(d->mul_grad, "Y@GRAD") ==
               fl_match_in(d->y_grad, "Out@GRAD");
}

static bool owns_inner(const void *what, const fl_node_group *all)
{
    const dot *d = what;

    return fl_node_group_owns(all, fl_match_out(d->x, "Out")) &&
           fl_node_group_owns(all, fl_match_out(d->y, "Out")) &&
           fl_node_group_owns(all, fl_match_out(d->mul, "Out")) &&
           fl_node_group_owns(all, fl_match_out(d->sum_grad, "X@GRAD")) &&
           fl_node_group_owns(all, fl_match_out(d->mul_grad, "X@GRAD")) &&
           fl_node_group_owns(all, fl_match_out(d->mul_grad, "Y@GRAD"));
}

static fl_status insert_fused(const void *what, fl_op_node *place,
                              fl_op_node **out)
{
    const dot *d = what;
    fl_op_builder b = { .type = "lookup_dot" };

    fl_op_builder_in(&b, "X", fl_match_in(d->x, "W"));
    fl_op_builder_in(&b, "Y", fl_match_in(d->y, "W"));
    fl_op_builder_in(&b, "XIds", fl_match_in(d->x, "Ids"));
    fl_op_builder_in(&b, "YIds", fl_match_in(d->y, "Ids"));
    fl_op_builder_out(&b, "Out", fl_match_out(d->sum, "Out"));
    fl_op_builder_attr(&b, "x_is_sparse", fl_match_attr(d->x, "is_sparse"));
    fl_op_builder_attr(&b, "y_is_sparse", fl_match_attr(d->y, "is_sparse"));
    return fl_op_builder_insert(&b, place, out);
}

static fl_status insert_grad(const void *what, const fl_op_node *fused,
                             fl_op_node *place)
{
    const dot *d = what;
    fl_op_builder b;

    fl_op_builder_init_grad(&b, fused);
    fl_op_builder_in(&b, "Out@GRAD", fl_match_in(d->sum_grad, "Out@GRAD"));
    fl_op_builder_out(&b, "X@GRAD", fl_match_out(d->x_grad, "W@GRAD"));
    fl_op_builder_out(&b, "Y@GRAD", fl_match_out(d->y_grad, "W@GRAD"));
    return fl_op_builder_insert(&b, place, NULL);
}

static fl_status fuse(fl_op_node *n, bool *fused)
{
    dot d = { .sum = n };

    if (!match_forward(&d) || !match_backward(&d))
        return FL_OK;
    fl_op_node *const forward[] = { d.x, d.y, d.mul, d.sum };
    fl_op_node *const backward[] = { d.sum_grad, d.mul_grad, d.x_grad,
                                     d.y_grad };

    return fl_fuse(&(fl_fusion){ forward, backward, FL_LEN(forward),
                                 FL_LEN(backward), &d, owns_inner, insert_fused,
                                 insert_grad },
                   fused);
}

/* --- with a loss ---------------------------------------------------------- */

typedef struct paired {
    fl_op_node *dot, *loss, *dot_grad, *loss_grad;
} paired;

/* The loss of z; NULL when there is none, or several. */
static fl_op_node *find_loss(const fl_var *z)
{
    fl_op_node *found = NULL;

    for (const fl_use *u = z->first_use; u; u = u->next) {
        if (!fl_match_op(u->node, "sigmoid_cross_entropy_with_logits") ||
            fl_match_in(u->node, "X") != z)
            continue;
        if (found)
            return NULL;
        found = u->node;
    }
    return found;
}

static bool match_loss(paired *p)
{
    const fl_var *z = fl_match_out(p->dot, "Out");

    p->loss = find_loss(z);
    p->dot_grad = fl_match_grad(p->dot);
    p->loss_grad = fl_match_grad(p->loss);
    return p->dot_grad && p->loss_grad && fl_match_in(p->loss, "Label") != z &&
           fl_match_out(p->loss, "Out") != z &&
           !fl_match_attr(p->loss, "normalize")->b &&
           fl_match_out(p->loss_grad, "X@GRAD") ==
               fl_match_in(p->dot_grad, "Out@GRAD");
}

static bool owns_slope(const void *what, const fl_node_group *all)
{
    const paired *p = what;

    return fl_node_group_owns(all, fl_match_out(p->loss_grad, "X@GRAD"));
}

static fl_status insert_loss(const void *what, fl_op_node *place,
                             fl_op_node **out)
{
    static const char *const slots[] = { "X", "Y", "XIds", "YIds" };
    static const char *const attrs[] = { "x_is_sparse", "y_is_sparse" };
    const paired *p = what;
    fl_op_builder b = { .type = "lookup_dot_loss" };

    for (size_t i = 0; i < FL_LEN(slots); i++)
        fl_op_builder_in(&b, slots[i], fl_match_in(p->dot, slots[i]));
    fl_op_builder_in(&b, "Label", fl_match_in(p->loss, "Label"));
    fl_op_builder_out(&b, "Loss", fl_match_out(p->loss, "Out"));
    fl_op_builder_out(&b, "Logit", fl_match_out(p->dot, "Out"));
    for (size_t i = 0; i < FL_LEN(attrs); i++)
        fl_op_builder_attr(&b, attrs[i], fl_match_attr(p->dot, attrs[i]));
    fl_op_builder_attr(&b, "ignore_index",
                       fl_match_attr(p->loss, "ignore_index"));
    return fl_op_builder_insert(&b, place, out);
}

static fl_status insert_loss_grad(const void *what, const fl_op_node *fused,
                                  fl_op_node *place)
{
    const paired *p = what;
    fl_op_builder b;

    fl_op_builder_init_grad(&b, fused);
    fl_op_builder_in(&b, "Loss@GRAD", fl_match_in(p->loss_grad, "Out@GRAD"));
    fl_op_builder_out(&b, "X@GRAD", fl_match_out(p->dot_grad, "X@GRAD"));
    fl_op_builder_out(&b, "Y@GRAD", fl_match_out(p->dot_grad, "Y@GRAD"));
    return fl_op_builder_insert(&b, place, NULL);
}

static fl_status fuse_loss(fl_op_node *n, bool *fused)
{
    paired p = { .dot = n };

    if (!fl_match_op(n, "lookup_dot") || !match_loss(&p))
        return FL_OK;
    fl_op_node *const forward[] = { p.dot, p.loss };
    fl_op_node *const backward[] = { p.loss_grad, p.dot_grad };

    return fl_fuse(&(fl_fusion){ forward, backward, FL_LEN(forward),
                                 FL_LEN(backward), &p, owns_slope, insert_loss,
                                 insert_loss_grad },
                   fused);
}

/* --- with plain steps ----------------------------------------------------- */

typedef struct step {
    fl_op_node *grad, *x, *y; /* the gradient, and who takes it */
} step;

static bool match_step(step *s)
{
    const fl_program *p = s->grad->block->program;

    if (p->joins_parts || p->accumulate > 1 ||
        !fl_match_attr(s->grad, "x_is_sparse")->b ||
        !fl_match_attr(s->grad, "y_is_sparse")->b)
        return false;
    s->x = fl_match_step(fl_match_in(s->grad, "X"),
                         fl_match_out(s->grad, "X@GRAD"));
    s->y = fl_match_step(fl_match_in(s->grad, "Y"),
                         fl_match_out(s->grad, "Y@GRAD"));
    return s->x && s->y && fl_match_in(s->grad, "Loss@GRAD") &&
           !fl_match_in(s->grad, "Logit@GRAD") &&
           fl_match_in(s->x, "LearningRate") ==
               fl_match_in(s->y, "LearningRate");
}

static fl_status insert_step(const step *s, fl_op_node *place)
{
    static const char *const slots[] = { "X",    "Y",     "XIds",
                                         "YIds", "Label", "Logit" };
    fl_op_builder b = { .type = "lookup_dot_sgd" };

    for (size_t i = 0; i < FL_LEN(slots); i++)
        fl_op_builder_in(&b, slots[i], fl_match_in(s->grad, slots[i]));
    fl_op_builder_in(&b, "LossGrad", fl_match_in(s->grad, "Loss@GRAD"));
    fl_op_builder_in(&b, "LearningRate", fl_match_in(s->x, "LearningRate"));
    fl_op_builder_attr(&b, "ignore_index",
                       fl_match_attr(s->grad, "ignore_index"));
    fl_op_builder_out(&b, "XOut", fl_match_in(s->grad, "X"));
    fl_op_builder_out(&b, "YOut", fl_match_in(s->grad, "Y"));
    return fl_op_builder_insert(&b, place, NULL);
}

static fl_status put_step(const step *s, const fl_node_group *g, bool *fused)
{
    fl_op_node *place = fl_node_group_end(g);

    if (!place || !fl_node_group_owns(g, fl_match_out(s->grad, "X@GRAD")) ||
        !fl_node_group_owns(g, fl_match_out(s->grad, "Y@GRAD")))
        return FL_OK;
    FL_TRY(insert_step(s, place));
    fl_node_group_remove(g);
    *fused = true;
    return FL_OK;
}

static fl_status fuse_step(fl_op_node *n, bool *fused)
{
    step s = { .grad = n };
    fl_node_group g = { 0 };
    fl_status st;

    if (!n->is_grad || strcmp(n->def->name, "lookup_dot_loss") ||
        !match_step(&s))
        return FL_OK;
    fl_node_group_add(&g, s.grad);
    fl_node_group_add(&g, s.x);
    fl_node_group_add(&g, s.y);
    st = put_step(&s, &g, fused);
    fl_vec_release(&g);
    return st;
}

static fl_status lookup_dot_run(fl_program *p, bool *changed)
{
    FL_TRY(fl_match_sweep(p, fuse, changed));
    FL_TRY(fl_match_sweep(p, fuse_loss, changed));
    return fl_match_sweep(p, fuse_step, changed);
}

const fl_pass fl_pass_opt_lookup_dot = {
    .name = "opt_lookup_dot",
    .doc = "join two lookups, the product of their rows, its loss and step",
    .run = lookup_dot_run,
};
