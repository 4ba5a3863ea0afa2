/* layers_norm.c - the layers that normalise. */
#include "api/layer.h"
#include "base/args.h"
#include "flotilla/layers.h"

/* A state that is counted while training, or the one of that name. */
static fl_var *state_of(fl_layer *l, const char *name, fl_dtype dtype,
                        const fl_shape *shape, double value)
{
    fl_program *p = l->block->program;
    fl_var *v = name ? fl_block_find_var(l->block, name) : NULL;

    if (v)
        return v;
    if (!name)
        name =
            fl_ctx_name(l->ctx, p, fl_arena_printf(&p->arena, "%s.w", l->name));
    return fl_layer_state(l->ctx, l->block, name, dtype, shape, value);
}

/* The state goes in, and out again under its name. */
static void change_state(fl_layer *l, const char *in, const char *out,
                         const fl_var *v)
{
    fl_layer_in(l, in, v);
    fl_layer_out(l, out, v ? v->name : "");
}

static double or_else(double v, double fallback)
{
    return v != 0 ? v : fallback;
}

static fl_status check_known(const fl_layer *l, const fl_var *x, int64_t width)
{
    char buf[FL_SHAPE_TEXT_MAX];

    if (width < 1)
        FL_FAIL(FL_ERR_INVAL,
                "%s: input %s of shape %s has no known width to normalise",
                l->name, x->name, fl_shape_text(&x->meta.shape, buf));
    return FL_OK;
}

/* --- batch_norm ----------------------------------------------------------- */

static int64_t channels_of(const fl_var *x, const fl_layers_batch_norm_args *a)
{
    const fl_shape *s = &x->meta.shape;
    bool last = a->data_layout && !strcmp(a->data_layout, "NHWC");

    return s->rank < 2 ? -1 : s->dim[last ? s->rank - 1 : 1];
}

static void batch_norm_attrs(fl_layer *l, const fl_layers_batch_norm_args *a)
{
    fl_layer_float(l, "momentum", or_else(a->momentum, 0.9));
    fl_layer_float(l, "epsilon", or_else(a->epsilon, 1e-5));
    fl_layer_str(l, "data_layout", a->data_layout ? a->data_layout : "NCHW");
    fl_layer_bool(l, "is_test", a->is_test);
    fl_layer_bool(l, "use_global_stats", a->use_global_stats);
}

static fl_var *batch_norm_op(fl_layer *l, const fl_var *x, int64_t channels,
                             const fl_layers_batch_norm_args *a)
{
    fl_shape shape = { .rank = 1, .dim = { channels } };
    fl_dtype dtype = x->meta.dtype;

    fl_layer_out(l, "Y", fl_layer_tmp(l));
    fl_layer_in(l, "X", x);
    fl_layer_in(
        l, "Scale",
        fl_layer_param(l, &a->param, "w", dtype, &shape, "constant(1)"));
    fl_layer_in(l, "Bias",
                fl_layer_param(l, &a->bias, "b", dtype, &shape, "constant(0)"));
    change_state(l, "Mean", "MeanOut",
                 state_of(l, a->moving_mean_name, dtype, &shape, 0));
    change_state(l, "Variance", "VarianceOut",
                 state_of(l, a->moving_variance_name, dtype, &shape, 1));
    fl_layer_out(l, "SavedMean", fl_layer_tmp(l));
    fl_layer_out(l, "SavedVariance", fl_layer_tmp(l));
    batch_norm_attrs(l, a);
    return fl_layer_emit(l, "batch_norm", NULL);
}

fl_var *fl_layers_batch_norm_with(fl_var *input,
                                  const fl_layers_batch_norm_args *given)
{
    fl_layers_batch_norm_args a;
    int64_t channels;
    fl_layer l;

    if (FL_ARGS_READ(fl_layers_batch_norm_args, &a, given) ||
        !fl_layer_begin(&l, input, "batch_norm", a.name))
        return NULL;
    channels = channels_of(input, &a);
    if (check_known(&l, input, channels))
        return NULL;
    return fl_layer_act(&l, batch_norm_op(&l, input, channels, &a), a.act);
}

/* --- layer_norm ----------------------------------------------------------- */

static fl_var *layer_norm_op(fl_layer *l, const fl_var *x, int axis,
                             const fl_layers_layer_norm_args *a)
{
    const fl_shape *s = &x->meta.shape;
    fl_shape shape = { .rank = 1, .dim = { fl_shape_count(s, axis, s->rank) } };

    fl_layer_in(l, "X", x);
    if (!a->no_scale)
        fl_layer_in(l, "Scale",
                    fl_layer_param(l, &a->param, "w", x->meta.dtype, &shape,
                                   "constant(1)"));
    if (!a->no_shift)
        fl_layer_in(l, "Bias",
                    fl_layer_param(l, &a->bias, "b", x->meta.dtype, &shape,
                                   "constant(0)"));
    fl_layer_out(l, "Y", fl_layer_tmp(l));
    fl_layer_out(l, "Mean", fl_layer_tmp(l));
    fl_layer_out(l, "Variance", fl_layer_tmp(l));
    fl_layer_int(l, "begin_norm_axis", axis);
    fl_layer_float(l, "epsilon", or_else(a->epsilon, 1e-5));
    return fl_layer_emit(l, "layer_norm", NULL);
}

fl_var *fl_layers_layer_norm_with(fl_var *input,
                                  const fl_layers_layer_norm_args *given)
{
    fl_layers_layer_norm_args a;
    const fl_shape *s;
    fl_layer l;
    int axis;

    if (FL_ARGS_READ(fl_layers_layer_norm_args, &a, given) ||
        !fl_layer_begin(&l, input, "layer_norm", a.name))
        return NULL;
    s = &input->meta.shape;
    axis = a.begin_norm_axis ? a.begin_norm_axis : 1;
    if (axis < 1 || axis >= s->rank) {
        (void)fl_err_set(FL_ERR_INVAL,
                         "%s: begin_norm_axis %d is not a dimension of input "
                         "%s behind the first",
                         l.name, axis, input->name);
        return NULL;
    }
    if (check_known(&l, input, fl_shape_count(s, axis, s->rank)))
        return NULL;
    return fl_layer_act(&l, layer_norm_op(&l, input, axis, &a), a.act);
}

/* --- data_norm ------------------------------------------------------------ */

/* The three summaries, with what they begin with. */
enum { N_SUMMARIES = 3 };
static const struct {
    const char *in, *out, *batch, *suffix;
    double first;
} summaries[N_SUMMARIES] = {
    { "BatchSize", "BatchSizeOut", "Size", "batch_size", 1e4 },
    { "BatchSum", "BatchSumOut", "Sum", "batch_sum", 0 },
    { "BatchSquareSum", "BatchSquareSumOut", "SquareSum", "batch_square_sum",
      1e4 },
};

static fl_var *summary_of(fl_layer *l, int i, const fl_var *x)
{
    fl_shape shape = { .rank = 1, .dim = { x->meta.shape.dim[1] } };
    const char *name = fl_arena_printf(&l->block->program->arena, "%s.%s",
                                       l->name, summaries[i].suffix);

    return state_of(l, name, x->meta.dtype, &shape, summaries[i].first);
}

static void data_norm_attrs(fl_layer *l, const fl_layers_data_norm_args *a)
{
    fl_layer_float(l, "epsilon", or_else(a->epsilon, 1e-4));
    fl_layer_int(l, "slot_dim", a->slot_dim ? a->slot_dim : -1);
}

static fl_var *data_norm_op(fl_layer *l, const fl_var *x,
                            fl_var *const sums[N_SUMMARIES], const char *means,
                            const fl_layers_data_norm_args *a)
{
    fl_shape shape = { .rank = 1, .dim = { x->meta.shape.dim[1] } };

    fl_layer_in(l, "X", x);
    for (int i = 0; i < N_SUMMARIES; i++)
        fl_layer_in(l, summaries[i].in, sums[i]);
    if (a->enable_scale_and_shift) {
        fl_layer_in(l, "scale_w",
                    fl_layer_param(l, &a->param, "scale_w", x->meta.dtype,
                                   &shape, "constant(1)"));
        fl_layer_in(l, "bias",
                    fl_layer_param(l, &a->bias, "bias", x->meta.dtype, &shape,
                                   "constant(0)"));
    }
    fl_layer_out(l, "Y", fl_layer_tmp(l));
    fl_layer_out(l, "Means", means);
    fl_layer_out(l, "Scales", fl_layer_tmp(l));
    fl_layer_bool(l, "enable_scale_and_shift", a->enable_scale_and_shift);
    data_norm_attrs(l, a);
    return fl_layer_emit(l, "data_norm", NULL);
}

/* What a batch adds to the summaries; the adding is an update, so that it runs
   once when replicas have counted. */
static fl_var *count_op(fl_layer *l, const fl_var *x,
                        fl_var *const sums[N_SUMMARIES], const char *means,
                        const fl_layers_data_norm_args *a)
{
    const char *batch[N_SUMMARIES];

    fl_layer_in(l, "X", x);
    fl_layer_in(l, "Means", fl_block_find_var(l->block, means));
    for (int i = 0; i < N_SUMMARIES; i++) {
        batch[i] = fl_layer_tmp(l);
        fl_layer_out(l, summaries[i].batch, batch[i]);
    }
    data_norm_attrs(l, a);
    if (!fl_layer_emit(l, "data_norm_count", NULL))
        return NULL;
    for (int i = 0; i < N_SUMMARIES; i++) {
        change_state(l, summaries[i].in, summaries[i].out, sums[i]);
        fl_layer_in(l, summaries[i].batch,
                    fl_block_find_var(l->block, batch[i]));
    }
    fl_layer_float(l, "summary_decay_rate",
                   or_else(a->summary_decay_rate, 0.9999999));
    l->role = FL_OP_ROLE_OPTIMIZE;
    return fl_layer_emit(l, "data_norm_add", NULL);
}

fl_var *fl_layers_data_norm_with(fl_var *input,
                                 const fl_layers_data_norm_args *given)
{
    fl_layers_data_norm_args a;
    fl_var *sums[N_SUMMARIES], *y;
    const char *means;
    fl_layer l;

    if (FL_ARGS_READ(fl_layers_data_norm_args, &a, given) ||
        !fl_layer_begin(&l, input, "data_norm", a.name) ||
        check_known(&l, input,
                    input->meta.shape.rank == 2 ? input->meta.shape.dim[1]
                                                : -1))
        return NULL;
    for (int i = 0; i < N_SUMMARIES; i++)
        sums[i] = summary_of(&l, i, input);
    means = fl_layer_tmp(&l);
    y = data_norm_op(&l, input, sums, means, &a);
    if (!y || !count_op(&l, input, sums, means, &a))
        return NULL;
    l.role = FL_OP_ROLE_FORWARD;
    return fl_layer_act(&l, y, a.act);
}
