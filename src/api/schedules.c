/* schedules.c - learning rates of the public API: variables that operators of
 * the main program compute from the global step. */
#include "flotilla/optimizer.h"

#include "api/layer.h"

#define STEP_VAR "@LR_DECAY_COUNTER@"

/* One counter serves all schedules of a program. */
static void begin_schedule(fl_layer *l, fl_ctx *c, const char *kind)
{
    fl_block *b = fl_program_main(fl_ctx_pair(c).main);
    fl_var *step = fl_block_find_var(b, STEP_VAR);

    if (!step) {
        fl_layer_begin_in(l, c, b, "global_step", NULL);
        l->role = FL_OP_ROLE_LR;
        fl_layer_out(l, "Out", STEP_VAR);
        step = fl_layer_emit(l, "global_step", NULL);
    }
    fl_layer_begin_in(l, c, b, kind, NULL);
    l->role = FL_OP_ROLE_LR;
    fl_layer_in(l, "Step", step);
}

/* --- decay by periods ----------------------------------------------------- */

#define PERIODS(NAME)                                                          \
    fl_var *fl_layers_##NAME(fl_ctx *c, double rate, int64_t decay_steps,      \
                             double decay_rate, bool staircase)                \
    {                                                                          \
        fl_layer l;                                                            \
                                                                               \
        begin_schedule(&l, c, "lr_" #NAME);                                    \
        fl_layer_float(&l, "learning_rate", rate);                             \
        fl_layer_int(&l, "decay_steps", decay_steps);                          \
        fl_layer_float(&l, "decay_rate", decay_rate);                          \
        fl_layer_bool(&l, "staircase", staircase);                             \
        return fl_layer_emit(&l, "lr_" #NAME, "Out");                          \
    }
PERIODS(exponential_decay)
PERIODS(natural_exp_decay)
PERIODS(inverse_time_decay)

/* --- others ---------------------------------------------------------------- */

fl_var *fl_layers_noam_decay(fl_ctx *c, double d_model, double warmup_steps,
                             double rate)
{
    fl_layer l;

    begin_schedule(&l, c, "lr_noam_decay");
    fl_layer_float(&l, "learning_rate", rate);
    fl_layer_float(&l, "d_model", d_model);
    fl_layer_float(&l, "warmup_steps", warmup_steps);
    return fl_layer_emit(&l, "lr_noam_decay", "Out");
}

fl_var *fl_layers_polynomial_decay(fl_ctx *c, double rate, int64_t decay_steps,
                                   double end_rate, double power, bool cycle)
{
    fl_layer l;

    begin_schedule(&l, c, "lr_polynomial_decay");
    fl_layer_float(&l, "learning_rate", rate);
    fl_layer_int(&l, "decay_steps", decay_steps);
    fl_layer_float(&l, "end_learning_rate", end_rate);
    fl_layer_float(&l, "power", power);
    fl_layer_bool(&l, "cycle", cycle);
    return fl_layer_emit(&l, "lr_polynomial_decay", "Out");
}

fl_var *fl_layers_cosine_decay(fl_ctx *c, double rate, int64_t step_each_epoch,
                               int64_t epochs)
{
    fl_layer l;

    begin_schedule(&l, c, "lr_cosine_decay");
    fl_layer_float(&l, "learning_rate", rate);
    fl_layer_int(&l, "step_each_epoch", step_each_epoch);
    fl_layer_int(&l, "epochs", epochs);
    return fl_layer_emit(&l, "lr_cosine_decay", "Out");
}

fl_var *fl_layers_piecewise_decay(fl_ctx *c, const int64_t *boundaries,
                                  const double *values, size_t n_boundaries)
{
    fl_layer l;

    begin_schedule(&l, c, "lr_piecewise_decay");
    fl_layer_ints(&l, "boundaries", boundaries, n_boundaries);
    fl_layer_floats(&l, "values", values, n_boundaries + 1);
    return fl_layer_emit(&l, "lr_piecewise_decay", "Out");
}

fl_var *fl_layers_linear_lr_warmup(fl_var *inner, int64_t warmup_steps,
                                   double start_lr, double end_lr)
{
    fl_layer l;

    if (!inner)
        return NULL;
    begin_schedule(&l, fl_ctx_of(inner), "lr_linear_warmup");
    fl_layer_in(&l, "X", inner);
    fl_layer_int(&l, "warmup_steps", warmup_steps);
    fl_layer_float(&l, "start_lr", start_lr);
    fl_layer_float(&l, "end_lr", end_lr);
    return fl_layer_emit(&l, "lr_linear_warmup", "Out");
}

/* --- a rate that stays ---------------------------------------------------- */

fl_var *fl_layer_rate(fl_ctx *c, fl_block *b, double rate)
{
    static const fl_shape one = { .rank = 1, .dim = { 1 } };

    return fl_layer_state(c, b, fl_ctx_name(c, b->program, "learning_rate"),
                          FL_DTYPE_F32, &one, rate);
}

fl_var *fl_layers_constant_lr(fl_ctx *c, double rate)
{
    return fl_layer_rate(c, fl_program_main(fl_ctx_pair(c).main), rate);
}
