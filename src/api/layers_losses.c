/* layers_losses.c - the losses of the public API beyond the cross entropies. */
#include "api/layer.h"
#include "base/args.h"
#include "flotilla/layers.h"

/* Appends the operator with its result first and by-products behind it. */
static fl_var *emit_loss(fl_layer *l, const char *op, const char *out,
                         const char *by_product)
{
    fl_layer_out(l, out, fl_layer_tmp(l));
    if (by_product)
        fl_layer_out(l, by_product, fl_layer_tmp(l));
    return fl_layer_emit(l, op, NULL);
}

/* --- of a prediction and its label ---------------------------------------- */

fl_var *fl_layers_log_loss(fl_var *input, fl_var *label, double epsilon)
{
    fl_layer l;

    if (!fl_layer_begin(&l, input, "log_loss", NULL))
        return NULL;
    fl_layer_in(&l, "Predicted", input);
    fl_layer_in(&l, "Labels", label);
    fl_layer_float(&l, "epsilon", epsilon);
    return emit_loss(&l, "log_loss", "Loss", NULL);
}

fl_var *fl_layers_hinge_loss(fl_var *logits, fl_var *label)
{
    fl_layer l;

    if (!fl_layer_begin(&l, logits, "hinge_loss", NULL))
        return NULL;
    fl_layer_in(&l, "Logits", logits);
    fl_layer_in(&l, "Labels", label);
    return emit_loss(&l, "hinge_loss", "Loss", NULL);
}

fl_var *fl_layers_huber_loss(fl_var *input, fl_var *label, double delta)
{
    fl_layer l;

    if (!fl_layer_begin(&l, input, "huber_loss", NULL))
        return NULL;
    fl_layer_in(&l, "X", input);
    fl_layer_in(&l, "Y", label);
    fl_layer_float(&l, "delta", delta);
    return emit_loss(&l, "huber_loss", "Out", "Residual");
}

fl_var *fl_layers_smooth_l1(fl_var *x, fl_var *y, fl_var *inside_weight,
                            fl_var *outside_weight, double sigma)
{
    fl_layer l;

    if (!fl_layer_begin(&l, x, "smooth_l1", NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_in(&l, "Y", y);
    if (inside_weight)
        fl_layer_in(&l, "InsideWeight", inside_weight);
    if (outside_weight)
        fl_layer_in(&l, "OutsideWeight", outside_weight);
    fl_layer_float(&l, "sigma", sigma);
    return emit_loss(&l, "smooth_l1_loss", "Out", "Diff");
}

fl_var *fl_layers_kldiv_loss(fl_var *x, fl_var *target, const char *reduction)
{
    fl_layer l;

    if (!fl_layer_begin(&l, x, "kldiv_loss", NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_in(&l, "Target", target);
    fl_layer_str(&l, "reduction", reduction ? reduction : "mean");
    return emit_loss(&l, "kldiv_loss", "Loss", NULL);
}

/* --- of scores ------------------------------------------------------------ */

fl_var *fl_layers_margin_rank_loss(fl_var *label, fl_var *left, fl_var *right,
                                   double margin)
{
    fl_layer l;

    if (!fl_layer_begin(&l, label, "margin_rank_loss", NULL))
        return NULL;
    fl_layer_in(&l, "X1", left);
    fl_layer_in(&l, "X2", right);
    fl_layer_in(&l, "Label", label);
    fl_layer_float(&l, "margin", margin);
    return emit_loss(&l, "margin_rank_loss", "Out", "Activated");
}

fl_var *fl_layers_rank_loss(fl_var *label, fl_var *left, fl_var *right)
{
    fl_layer l;

    if (!fl_layer_begin(&l, label, "rank_loss", NULL))
        return NULL;
    fl_layer_in(&l, "Label", label);
    fl_layer_in(&l, "Left", left);
    fl_layer_in(&l, "Right", right);
    return emit_loss(&l, "rank_loss", "Out", NULL);
}

fl_var *fl_layers_bpr_loss(fl_var *input, fl_var *label)
{
    fl_layer l;

    if (!fl_layer_begin(&l, input, "bpr_loss", NULL))
        return NULL;
    fl_layer_in(&l, "X", input);
    fl_layer_in(&l, "Label", label);
    return emit_loss(&l, "bpr_loss", "Y", NULL);
}

fl_var *fl_layers_cos_sim(fl_var *x, fl_var *y)
{
    fl_layer l;

    if (!fl_layer_begin(&l, x, "cos_sim", NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_in(&l, "Y", y);
    fl_layer_out(&l, "Out", fl_layer_tmp(&l));
    fl_layer_out(&l, "XNorm", fl_layer_tmp(&l));
    fl_layer_out(&l, "YNorm", fl_layer_tmp(&l));
    return fl_layer_emit(&l, "cos_sim", NULL);
}

/* --- of classes ----------------------------------------------------------- */

fl_var *fl_layers_cross_entropy_with(fl_var *input, fl_var *label,
                                     const fl_layers_cross_entropy_args *given)
{
    fl_layers_cross_entropy_args a;
    fl_layer l;

    if (FL_ARGS_READ(fl_layers_cross_entropy_args, &a, given) ||
        !fl_layer_begin(&l, input, "cross_entropy", NULL))
        return NULL;
    fl_layer_in(&l, "X", input);
    fl_layer_in(&l, "Label", label);
    fl_layer_bool(&l, "soft_label", a.soft_label);
    if (a.ignore_index)
        fl_layer_int(&l, "ignore_index", *a.ignore_index);
    return emit_loss(&l, "cross_entropy", "Y", NULL);
}
