/* opt_skip_gram.c - skip_gram and its gradient become one operator, with the
 * updates if they are plain steps.
 *
 *     skip_gram -> Loss        fill_constant 1 -> Loss@GRAD
 *     skip_gram_grad (Loss@GRAD) -> X@GRAD, Y@GRAD      ->  fused_skip_gram
 *
 * so that windows are drawn and rows are read once. Where the windows are walked
 * through in order (step > 0), the rows are parameters of this process, and
 *
 *     sgd (Param=x, Grad=X@GRAD, LearningRate=r)
 *     sgd (Param=y, Grad=Y@GRAD, LearningRate=r)
 *
 * is all that becomes of the gradients, these go as well: skip_gram_sgd walks
 * on x and y themselves, in steps of r. */
#include "ir/builder.h"
#include "pass/match.h"
#include "pass/pass.h"

typedef struct training {
    fl_op_node *grad, *seed;
    fl_op_node *loss; /* NULL: nobody wanted it, and it is gone */
    fl_var *dx, *dy;
    fl_op_node *x_update, *y_update; /* both or none */
} training;

/* The loss is what is minimised, and nothing else: its gradient is 1. */
static bool match_gradient(training *t)
{
    t->seed = fl_match_writer(fl_match_in(t->grad, "Loss@GRAD"));
    for (t->loss = t->grad->prev; t->loss; t->loss = t->loss->prev)
        if (fl_match_op(t->loss, "skip_gram") &&
            fl_match_grad(t->loss) == t->grad)
            break;
    t->dx = fl_match_out(t->grad, "X@GRAD");
    t->dy = fl_match_out(t->grad, "Y@GRAD");
    return t->dx && t->dy && !fl_match_in(t->grad, "Mean@GRAD") &&
           fl_match_op(t->seed, "fill_constant") &&
           fl_match_attr(t->seed, "value")->f == 1 &&
           !*fl_match_attr(t->seed, "str_value")->s;
}

static bool is_in_order(const training *t)
{
    return fl_match_attr(t->grad, "step")->f > 0;
}

static void collect(const training *t, fl_node_group *g)
{
    fl_node_group_add(g, t->loss);
    fl_node_group_add(g, t->grad);
    fl_node_group_add(g, t->x_update);
    fl_node_group_add(g, t->y_update);
}

static void match_updates(training *t)
{
    fl_op_node *x = fl_match_step(fl_match_in(t->grad, "X"), t->dx);
    fl_op_node *y = fl_match_step(fl_match_in(t->grad, "Y"), t->dy);
    fl_node_group g = { 0 };

    if (!x || !y || !is_in_order(t) ||
        fl_match_in(x, "LearningRate") != fl_match_in(y, "LearningRate"))
        return;
    t->x_update = x;
    t->y_update = y;
    collect(t, &g);
    if (!fl_node_group_owns(&g, t->dx) || !fl_node_group_owns(&g, t->dy))
        t->x_update = t->y_update = NULL;
    fl_vec_release(&g);
}

static void list_inputs(const training *t, fl_op_builder *b)
{
    static const char *const slots[] = { "X", "Y", "XIds", "YIds", "NoiseIds" };

    for (size_t i = 0; i < FL_LEN(slots); i++)
        fl_op_builder_in(b, slots[i], fl_match_in(t->grad, slots[i]));
    fl_op_builder_out(b, "Loss", fl_match_out(t->loss, "Loss"));
    fl_op_builder_out(b, "Mean", fl_match_out(t->loss, "Mean"));
}

static void list_attrs(const fl_op_node *n, const fl_op *to, fl_op_builder *b)
{
    for (int i = 0; i < fl_op_n_attrs(n->def); i++)
        if (fl_op_find_attr(to, n->def->attrs[i].name) >= 0)
            fl_op_builder_attr(b, n->def->attrs[i].name, &n->attrs[i]);
}

static void list_outputs(const training *t, fl_op_builder *b)
{
    if (t->x_update) {
        fl_op_builder_in(b, "LearningRate",
                         fl_match_in(t->x_update, "LearningRate"));
        fl_op_builder_out(b, "XOut", fl_match_in(t->grad, "X"));
        fl_op_builder_out(b, "YOut", fl_match_in(t->grad, "Y"));
    } else {
        fl_op_builder_out(b, "XGrad", t->dx);
        fl_op_builder_out(b, "YGrad", t->dy);
    }
}

static fl_status insert(const training *t, fl_op_node *place)
{
    const char *name = t->x_update ? "skip_gram_sgd" : "fused_skip_gram";
    fl_op_builder b = { .type = name };

    list_inputs(t, &b);
    list_attrs(t->grad, place->block->program->ops->find(name), &b);
    list_outputs(t, &b);
    return fl_op_builder_insert(&b, place, NULL);
}

static void remove_old(const training *t, fl_node_group *g)
{
    const fl_var *dloss = fl_match_out(t->seed, "Out");

    fl_node_group_remove(g);
    if (fl_match_wanted(dloss))
        return;
    g->len = 0;
    fl_node_group_add(g, t->seed);
    fl_node_group_remove(g);
}

static fl_status fuse(fl_op_node *n, bool *fused)
{
    training t = { .grad = n };
    fl_node_group g = { 0 };
    fl_op_node *place;
    fl_status st = FL_OK;

    if (!n->is_grad || strcmp(n->def->name, "skip_gram") || !match_gradient(&t))
        return FL_OK;
    match_updates(&t);
    collect(&t, &g);
    place = fl_node_group_end(&g);
    if (place)
        st = insert(&t, place);
    if (place && !st) {
        remove_old(&t, &g);
        *fused = true;
    }
    fl_vec_release(&g);
    return st;
}

static fl_status skip_gram_run(fl_program *p, bool *changed)
{
    return fl_match_sweep(p, fuse, changed);
}

const fl_pass fl_pass_opt_skip_gram = {
    .name = "opt_skip_gram",
    .doc = "join skip_gram, its gradient and plain steps",
    .run = skip_gram_run,
};
