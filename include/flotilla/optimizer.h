/* optimizer.h - backward, optimizers, clipping, decay and schedules.
 *
 *     fl_optimizer_new(&opt, ctx, "adam", "learning_rate=0.001");
 *     fl_minimize(opt, loss);
 *
 * Settings of an optimizer are words (flotilla/words.h): learning_rate, the rule's own (beta1, epsilon, mu, ...),
 * lazy_mode (sparse rows: update only those of the batch; true by default),
 * regularization=l2(0.1), grad_clip=value(-1,1) | norm(5) | global_norm(5). An
 * unknown word is refused with the nearest right one, a number out of its range
 * with the range.
 */
#ifndef FLOTILLA_OPTIMIZER_H
#define FLOTILLA_OPTIMIZER_H

#include "flotilla/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fl_optimizer fl_optimizer;

/* A parameter and the variable that holds its gradient. */
typedef struct fl_param_grad {
    fl_var *param, *grad;
} fl_param_grad;

/* kind: sgd, momentum, adagrad, decayed_adagrad, rmsprop, adam, ftrl or
   lars_momentum (not for tables). settings may be NULL. It belongs to the
   context. */
FL_API FL_MUST_CHECK
fl_status fl_optimizer_new(fl_optimizer **out, fl_ctx *c, const char *kind,
                           const char *settings);

/* The rate comes from a variable, usually a schedule's. */
FL_API void fl_optimizer_set_lr(fl_optimizer *o, fl_var *learning_rate);

/* Gradients of the loss for all trainable parameters. *out is freed with
   fl_param_grads_free. */
FL_API FL_MUST_CHECK
fl_status fl_append_backward(fl_var *loss, fl_param_grad **out, size_t *n);
FL_API void fl_param_grads_free(fl_param_grad *pg);

/* Clipping, decay and the update, in this order. */
FL_API FL_MUST_CHECK
fl_status fl_apply_gradients(fl_optimizer *o, const fl_param_grad *pg,
                             size_t n);

/* Both of them. */
FL_API FL_MUST_CHECK
fl_status fl_minimize(fl_optimizer *o, fl_var *loss);

/* Schedules over the global step, which starts at 0. */
FL_API fl_var *fl_layers_exponential_decay(fl_ctx *c, double learning_rate,
                                           int64_t decay_steps,
                                           double decay_rate, bool staircase);
FL_API fl_var *fl_layers_piecewise_decay(fl_ctx *c, const int64_t *boundaries,
                                         const double *values,
                                         size_t n_boundaries);

/* From start to end over warmup_steps, then `inner`. */
FL_API fl_var *fl_layers_linear_lr_warmup(fl_var *inner, int64_t warmup_steps,
                                          double start_lr, double end_lr);

/* A rate that does not change, as a variable. */
FL_API fl_var *fl_layers_constant_lr(fl_ctx *c, double learning_rate);

#ifdef __cplusplus
}
#endif
#endif
