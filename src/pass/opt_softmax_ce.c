/* opt_softmax_ce.c - softmax and the loss of its output become one operator.
 *
 *     softmax + cross_entropy | cross_entropy2  ->  softmax_with_cross_entropy
 *
 * and their gradients its gradient. The probabilities keep their name: others
 * may read them, a metric or the user, but their gradient may come from the
 * loss alone. */
#include "pass/match.h"
#include "pass/pass.h"

typedef struct pair {
    fl_op_node *softmax, *loss;
    fl_op_node *softmax_grad, *loss_grad; /* both or none */
} pair;

static bool is_loss(const fl_op_node *n)
{
    return fl_match_op(n, "cross_entropy") || fl_match_op(n, "cross_entropy2");
}

/* The losses look along the last axis. */
static bool is_over_last_axis(const fl_op_node *softmax)
{
    const fl_shape *s = &fl_match_in(softmax, "X")->meta.shape;

    return fl_shape_axis(s, fl_match_attr(softmax, "axis")->i) == s->rank - 1;
}

static bool match_grads(pair *m)
{
    const fl_var *dp;

    m->loss_grad = fl_match_grad(m->loss);
    m->softmax_grad = fl_match_grad(m->softmax);
    if (!m->loss_grad && !m->softmax_grad)
        return true;
    dp = fl_match_out(m->loss_grad, "X@GRAD");
    return dp && dp == fl_match_in(m->softmax_grad, "Out@GRAD") &&
           !fl_match_out(m->loss_grad, "Label@GRAD") &&
           !fl_match_in(m->loss_grad, "MatchX@GRAD");
}

static bool owns_inner(const void *what, const fl_node_group *all)
{
    const pair *m = what;

    return fl_node_group_owns(all, fl_match_out(m->loss, "MatchX")) &&
           fl_node_group_owns(all, fl_match_out(m->loss, "XShape")) &&
           fl_node_group_owns(all, fl_match_out(m->loss_grad, "X@GRAD"));
}

static fl_status insert_fused(const void *what, fl_op_node *place,
                              fl_op_node **out)
{
    const pair *m = what;
    fl_op_builder b = { .type = "softmax_with_cross_entropy" };

    fl_op_builder_in(&b, "Logits", fl_match_in(m->softmax, "X"));
    fl_op_builder_in(&b, "Label", fl_match_in(m->loss, "Label"));
    fl_op_builder_out(&b, "Softmax", fl_match_out(m->softmax, "Out"));
    fl_op_builder_out(&b, "Loss", fl_match_out(m->loss, "Y"));
    fl_op_builder_attr(&b, "soft_label", fl_match_attr(m->loss, "soft_label"));
    fl_op_builder_attr(&b, "ignore_index",
                       fl_match_attr(m->loss, "ignore_index"));
    return fl_op_builder_insert(&b, place, out);
}

static fl_status insert_grad(const void *what, const fl_op_node *fused,
                             fl_op_node *place)
{
    const pair *m = what;
    fl_op_builder b;

    fl_op_builder_init_grad(&b, fused);
    fl_op_builder_in(&b, "Loss@GRAD", fl_match_in(m->loss_grad, "Y@GRAD"));
    fl_op_builder_out(&b, "Logits@GRAD",
                      fl_match_out(m->softmax_grad, "X@GRAD"));
    return fl_op_builder_insert(&b, place, NULL);
}

static fl_status replace(const pair *m, bool *fused)
{
    fl_op_node *const forward[] = { m->softmax, m->loss };
    fl_op_node *const backward[] = { m->loss_grad, m->softmax_grad };
    fl_fusion f = { forward, backward,   FL_LEN(forward), FL_LEN(backward),
                    m,       owns_inner, insert_fused,    insert_grad };

    return fl_fuse(&f, fused);
}

static fl_status fuse(fl_op_node *n, bool *fused)
{
    pair m = { .loss = n };

    if (!is_loss(n))
        return FL_OK;
    m.softmax = fl_match_writer(fl_match_in(n, "X"));
    if (!fl_match_op(m.softmax, "softmax") || !is_over_last_axis(m.softmax) ||
        fl_match_out(m.softmax, "Out") == fl_match_in(m.softmax, "X") ||
        !match_grads(&m))
        return FL_OK;
    return replace(&m, fused);
}

static fl_status softmax_ce_run(fl_program *p, bool *changed)
{
    return fl_match_sweep(p, fuse, changed);
}

const fl_pass fl_pass_opt_softmax_ce = {
    .name = "opt_softmax_ce",
    .doc = "join softmax and cross entropy",
    .run = softmax_ce_run,
};
