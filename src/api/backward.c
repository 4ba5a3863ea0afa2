/* backward.c - gradients of the public API: who asks for which, and the ones
 * that they start from. */
#include "flotilla/optimizer.h"

#include "api/layer.h"
#include "base/args.h"
#include "pass/grad.h"

/* A variable of ones like the target: as large as its batch, where the number
   of rows is not known yet. */
static fl_status seed(const fl_var *target, const char *name)
{
    const fl_shape *shape = &target->meta.shape;
    bool by_batch = shape->rank && shape->dim[0] < 0;
    fl_layer l;

    if (fl_shape_count(shape, by_batch, shape->rank) < 0)
        FL_FAIL(FL_ERR_INVAL,
                "target %s has a shape that is not known beyond its batch; "
                "give its gradient (target_gradients)",
                target->name);
    fl_layer_begin_in(&l, fl_ctx_of(target), target->block, NULL, target->name);
    l.role = FL_OP_ROLE_BACKWARD;
    if (by_batch)
        fl_layer_in(&l, "Input", target);
    fl_layer_out(&l, "Out", name);
    fl_layer_shape(&l, "shape", shape);
    fl_layer_str(&l, "dtype", fl_dtype_text(target->meta.dtype));
    fl_layer_float(&l, "value", 1);
    return fl_layer_emit(
               &l, by_batch ? "fill_constant_batch_size_like" : "fill_constant",
               NULL)
               ? FL_OK
               : FL_ERR_INVAL;
}

/* They are there, floats, and of the target's block. */
static fl_status check_vars(const fl_block *b, const char *what,
                            fl_var *const *vars, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!vars[i])
            FL_FAIL(FL_ERR_INVAL,
                    "%s %zu is missing: the layer that should "
                    "have made it has failed",
                    what, i);
        if (vars[i]->block->program != b->program)
            FL_FAIL(FL_ERR_INVAL, "%s %s is in another program", what,
                    vars[i]->name);
        if (!fl_dtype_is_float(vars[i]->meta.dtype))
            FL_FAIL(FL_ERR_TYPE, "%s %s is of type %s, and has no gradient",
                    what, vars[i]->name, fl_dtype_text(vars[i]->meta.dtype));
    }
    return FL_OK;
}

static fl_status check_loss(const fl_var *loss)
{
    char buf[FL_SHAPE_TEXT_MAX];

    if (fl_shape_numel(&loss->meta.shape) != 1)
        FL_FAIL(FL_ERR_INVAL,
                "loss %s has shape %s; a loss is one number: take its mean",
                loss->name, fl_shape_text(&loss->meta.shape, buf));
    return FL_OK;
}

/* The pairs that have a gradient. */
static void keep_pairs(const fl_grad_pairs *pairs, fl_param_grad **out,
                       size_t *n)
{
    *n = 0;
    *out = fl_alloc(sizeof(**out) * (pairs->len + 1));
    for (size_t i = 0; i < pairs->len; i++)
        if (pairs->data[i].grad)
            (*out)[(*n)++] =
                (fl_param_grad){ pairs->data[i].param, pairs->data[i].grad };
}

fl_status fl_append_backward_with(fl_var *loss, const fl_backward_args *args,
                                  fl_param_grad **out, size_t *n)
{
    fl_grad_pairs pairs = { 0 };
    fl_backward_args a;
    fl_grad_spec spec;
    fl_status st;

    if (!loss)
        return FL_ERR_INVAL;
    FL_TRY(FL_ARGS_READ(fl_backward_args, &a, args));
    FL_TRY(check_loss(loss));
    FL_TRY(check_vars(loss->block, "parameter", a.parameters, a.n_parameters));
    spec = (fl_grad_spec){ .targets = &loss,
                           .n_targets = 1,
                           .all_leaves = a.all_leaves,
                           .wanted = a.parameters,
                           .n_wanted = a.n_parameters,
                           .no_grad = a.no_grad,
                           .n_no_grad = a.n_no_grad,
                           .sum_op = "sum",
                           .copy_op = "assign",
                           .zeros_op = "fill_zeros_like",
                           .seed = seed };
    st = fl_grad_append(loss->block, &spec, &pairs);
    if (!st)
        keep_pairs(&pairs, out, n);
    fl_vec_release(&pairs);
    return st;
}

void fl_param_grads_free(fl_param_grad *pg)
{
    fl_free(pg);
}

static fl_status check_gradients(const fl_gradients_args *a)
{
    const fl_block *b;

    if (!a->n_targets || !a->n_inputs)
        FL_FAIL(FL_ERR_INVAL, "gradients need targets and inputs");
    if (!a->targets[0])
        return FL_ERR_INVAL;
    b = a->targets[0]->block;
    FL_TRY(check_vars(b, "target", a->targets, a->n_targets));
    return check_vars(b, "input", a->inputs, a->n_inputs);
}

fl_status fl_gradients_with(fl_var **out, const fl_gradients_args *args)
{
    fl_grad_pairs pairs = { 0 };
    fl_gradients_args a;
    fl_grad_spec spec;
    fl_status st;

    FL_TRY(FL_ARGS_READ(fl_gradients_args, &a, args));
    FL_TRY(check_gradients(&a));
    spec = (fl_grad_spec){ .targets = a.targets,
                           .n_targets = a.n_targets,
                           .target_grads = a.target_gradients,
                           .wanted = a.inputs,
                           .n_wanted = a.n_inputs,
                           .no_grad = a.no_grad,
                           .n_no_grad = a.n_no_grad,
                           .sum_op = "sum",
                           .copy_op = "assign",
                           .zeros_op = "fill_zeros_like",
                           .seed = seed };
    st = fl_grad_append(a.targets[0]->block, &spec, &pairs);
    for (size_t i = 0; i < pairs.len && !st; i++)
        out[i] = pairs.data[i].grad;
    fl_vec_release(&pairs);
    return st;
}
