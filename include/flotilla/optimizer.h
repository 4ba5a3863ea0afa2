/* optimizer.h - backward, optimizers, clipping, decay and schedules.
 *
 *     fl_optimizer_new(&opt, ctx, "adam", "learning_rate=0.001");
 *     fl_minimize(opt, loss);
 *
 * Settings of an optimizer are words (flotilla/words.h): learning_rate, the rule's own (beta1, epsilon, mu, ...),
 * lazy_mode (sparse rows: update only those of the batch; true by default),
 * regularization=l2(0.1), grad_clip=value(-1,1) | norm(5) | global_norm(5),
 * accumulate=4 (update once in so many batches, with the mean of their
 * gradients: such a group of batches is one step). An
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

/* kind: sgd, momentum, adagrad, decayed_adagrad, rmsprop, adadelta, adam,
   adamax or ftrl; lars_momentum, lamb or dpsgd, which need all of a parameter
   and are not for tables (docs/optimizers.md). settings may be NULL. It belongs
   to the context. */
FL_API FL_MUST_CHECK
fl_status fl_optimizer_new(fl_optimizer **out, fl_ctx *c, const char *kind,
                           const char *settings);

/* The rate comes from a variable, usually a schedule's. */
FL_API void fl_optimizer_set_lr(fl_optimizer *o, fl_var *learning_rate);

/* --- gradients ----------------------------------------------------------- */

typedef struct fl_backward_args {
    uint32_t size;
    fl_var *const *parameters; /* NULL: all that are trainable */
    size_t n_parameters;
    fl_var *const *no_grad; /* no gradient flows through these */
    size_t n_no_grad;
    bool all_leaves; /* what operators make of nothing gets its gradient too,
                        and a loss that depends on nothing is no error */
} fl_backward_args;

/* Gradients of the loss, which is one number, for parameters; those that it
   does not depend on are left out. Without a list, floats that are fed and not
   marked stop_gradient get theirs as well, x@GRAD. args may be NULL. *out is
   freed with fl_param_grads_free. */
#define fl_append_backward(loss, out, n)                                       \
    fl_append_backward_with(loss, NULL, out, n)
FL_API FL_MUST_CHECK
fl_status fl_append_backward_with(fl_var *loss, const fl_backward_args *args,
                                  fl_param_grad **out, size_t *n);
FL_API void fl_param_grads_free(fl_param_grad *pg);

typedef struct fl_gradients_args {
    uint32_t size;
    fl_var *const *targets, *const *inputs; /* of one program */
    size_t n_targets, n_inputs;
    /* What comes from above each target; NULL, or an entry NULL: ones. */
    fl_var *const *target_gradients;
    fl_var *const *no_grad;
    size_t n_no_grad;
} fl_gradients_args;

/* Gradients of the sum of the targets for any float variables: out[i] is that
   of inputs[i], NULL when no target depends on it. */
#define fl_gradients(out, ...)                                                 \
    fl_gradients_with(out, FL_OPTIONS(fl_gradients_args, __VA_ARGS__))
FL_API FL_MUST_CHECK
fl_status fl_gradients_with(fl_var **out, const fl_gradients_args *args);

/* --- updates ------------------------------------------------------------- */

/* Clipping, decay and the update, in this order. What a parameter says of its
   own (regularizer, clip, learning_rate) comes before the optimizer's. */
FL_API FL_MUST_CHECK
fl_status fl_apply_gradients(fl_optimizer *o, const fl_param_grad *pg,
                             size_t n);

/* fl_append_backward and fl_apply_gradients. args may be NULL. */
#define fl_minimize(o, loss) fl_minimize_with(o, loss, NULL)
FL_API FL_MUST_CHECK
fl_status fl_minimize_with(fl_optimizer *o, fl_var *loss,
                           const fl_backward_args *args);

/* The states that the optimizer keeps for a parameter, "moment1", ...: the
   name of state i, NULL after the last. */
FL_API const char *fl_optimizer_state_name(const fl_optimizer *o, size_t i);

/* The variable with a state of a parameter; NULL when there is none, because
   it was not updated yet or is a table. */
FL_API fl_var *fl_optimizer_state(const fl_optimizer *o, const fl_var *param,
                                  const char *state);

/* --- what there is ------------------------------------------------------- */

/* A kind of optimizer; the texts are the library's. */
typedef struct fl_optimizer_view {
    uint32_t size;
    const char *name, *doc;
    size_t n_settings, n_states;
} fl_optimizer_view;

/* A setting of its rule; every optimizer has learning_rate and the others of
   the head of this file besides. */
typedef struct fl_optimizer_setting {
    uint32_t size;
    bool is_flag; /* true or false: 1 or 0 */
    const char *name;
    double value, lo, hi; /* the default and the range */
} fl_optimizer_setting;

/* A state per parameter: its name, the slots of the update operator, and its
   first value, a number or that of the setting first_from. */
typedef struct fl_optimizer_state_view {
    uint32_t size;
    bool is_scalar; /* one number, else as large as the parameter */
    const char *name, *slot, *out_slot, *first_from;
    double first;
} fl_optimizer_state_view;

/* Kind i in the order of the list, and setting or state i of a kind; each
   fills *out, whose size the caller has set, or gives FL_ERR_NOTFOUND. */
FL_API FL_MUST_CHECK
fl_status fl_optimizer_at(size_t i, fl_optimizer_view *out);
FL_API FL_MUST_CHECK
fl_status fl_optimizer_setting_at(const char *kind, size_t i,
                                  fl_optimizer_setting *out);
FL_API FL_MUST_CHECK
fl_status fl_optimizer_state_at(const char *kind, size_t i,
                                fl_optimizer_state_view *out);

/* --- averages of parameters ---------------------------------------------- */

/* Averages of the parameters over the updates, for evaluation. kind:
     exponential   decay=0.999 of the average stays in each update; its start
                   at zero is corrected. thres_steps=true: in step n at most
                   (1 + n) / (10 + n) stays
     window        the mean over the last updates: average_window_rate=0.15 of
                   them, but from min_average_window=10000 to
                   max_average_window=10000
   Make it after the loss is minimized: it stands behind the updates. Rows of
   tables have no average. Owner thread only; it ends before its context. */
typedef struct fl_average fl_average;

typedef struct fl_average_args {
    uint32_t size;
    const char *settings;      /* in words; NULL: the defaults */
    fl_var *const *parameters; /* NULL: all that have dense gradients */
    size_t n_parameters;
} fl_average_args;

#define fl_average_new(out, ctx, kind, ...)                                    \
    fl_average_new_with(out, ctx, kind,                                        \
                        FL_OPTIONS(fl_average_args, __VA_ARGS__))
FL_API FL_MUST_CHECK
fl_status fl_average_new_with(fl_average **out, fl_ctx *c, const char *kind,
                              const fl_average_args *args);
FL_API void fl_average_free(fl_average *a);

/* Between two runs: the parameters of the current scope become their averages,
   and later again what they were. With a job in mode async or geo, whose
   parameters change beside the runs, only when it has been stopped. */
FL_API FL_MUST_CHECK
fl_status fl_average_apply(fl_average *a);
FL_API FL_MUST_CHECK
fl_status fl_average_restore(fl_average *a);

/* --- schedules ----------------------------------------------------------- */

/* Schedules over the global step, which starts at 0. */
FL_API fl_var *fl_layers_exponential_decay(fl_ctx *c, double learning_rate,
                                           int64_t decay_steps,
                                           double decay_rate, bool staircase);
FL_API fl_var *fl_layers_natural_exp_decay(fl_ctx *c, double learning_rate,
                                           int64_t decay_steps,
                                           double decay_rate, bool staircase);
FL_API fl_var *fl_layers_inverse_time_decay(fl_ctx *c, double learning_rate,
                                            int64_t decay_steps,
                                            double decay_rate, bool staircase);
/* In its formula the first step has the number 1. */
FL_API fl_var *fl_layers_noam_decay(fl_ctx *c, double d_model,
                                    double warmup_steps, double learning_rate);
FL_API fl_var *fl_layers_polynomial_decay(fl_ctx *c, double learning_rate,
                                          int64_t decay_steps,
                                          double end_learning_rate,
                                          double power, bool cycle);
/* It moves once per epoch, which is so many steps. */
FL_API fl_var *fl_layers_cosine_decay(fl_ctx *c, double learning_rate,
                                      int64_t step_each_epoch, int64_t epochs);
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
