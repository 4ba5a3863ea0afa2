/* opt_lookup_dot.c - the product of two looked-up rows becomes one operator.
 *
 *     lookup_table -> a -+
 *                        +-> elementwise_mul -> reduce_sum (dim 1)
 *     lookup_table -> b -+
 *
 * becomes lookup_dot, and the gradients of all four its gradient: what users
 * write for pairs of words, or of a user and an item. The rows themselves, their
 * products and three arrays of gradients of that size are not made. */
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

static fl_status lookup_dot_run(fl_program *p, bool *changed)
{
    return fl_match_sweep(p, fuse, changed);
}

const fl_pass fl_pass_opt_lookup_dot = {
    .name = "opt_lookup_dot",
    .doc = "join two lookups and the product of their rows",
    .run = lookup_dot_run,
};
