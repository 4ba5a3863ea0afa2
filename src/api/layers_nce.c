/* layers_nce.c - noise-contrastive estimation.
 *
 * With arrays behind the weights the layer is one operator, nce. With rows
 *
 *     nce_sample (Label=label) -> (Out=samples)
 *     lookup_table_v2 (W=weight, Ids=samples) -> (Out=rows)
 *     lookup_table_v2 (W=bias, Ids=samples) -> (Out=numbers)
 *     nce (Input, Label, Weight=rows, Bias=numbers, Samples=samples)
 *
 * so that whatever is done with lookups is done with these: the passes that
 * spread rows over servers know nothing of noise.
 */
#include "api/layer.h"
#include "base/args.h"
#include "flotilla/layers.h"

enum { N_DIST = 3 };

/* What the operators of one layer have in common. */
typedef struct nce {
    fl_layer *l;
    const fl_layers_nce_args *args;
    fl_var *input, *label;
    int64_t n_classes, n_neg;
    int sampler;
    fl_var *dist[N_DIST]; /* probabilities, alias, its probabilities */
} nce;

static const char *const samplers[] = { "uniform", "log_uniform",
                                        "custom_dist" };
enum { CUSTOM = 2 };

static fl_status find_sampler(nce *n)
{
    const char *name = n->args->sampler ? n->args->sampler : samplers[0];

    for (int i = 0; i < (int)FL_LEN(samplers); i++)
        if (!strcmp(samplers[i], name)) {
            n->sampler = i;
            return FL_OK;
        }
    FL_FAIL(FL_ERR_INVAL,
            "%s: sampler '%s' is not uniform, log_uniform or custom_dist",
            n->l->name, name);
}

static fl_status check_dist(const nce *n)
{
    const double *p = n->args->custom_dist;
    double sum = 0;

    if ((n->sampler == CUSTOM) != (p != NULL))
        FL_FAIL(FL_ERR_INVAL,
                "%s: custom_dist goes with sampler custom_dist, and only with "
                "it",
                n->l->name);
    for (int64_t i = 0; p && i < n->n_classes; i++) {
        if (!(p[i] >= 0 && p[i] <= 1))
            FL_FAIL(FL_ERR_INVAL,
                    "%s: custom_dist has %g for class %lld, which is no "
                    "probability",
                    n->l->name, p[i], (long long)i);
        sum += p[i];
    }
    if (p && !(sum > 1 - 1e-3 && sum < 1 + 1e-3))
        FL_FAIL(FL_ERR_INVAL, "%s: custom_dist adds up to %g, not to 1",
                n->l->name, sum);
    return FL_OK;
}

/* --- a distribution of the caller's --------------------------------------- */

/* The table of aliases: every place stands for its own class with probability
   own, else for one that has too much. */
static void build_alias(const double *probs, int64_t n, int64_t *alias,
                        double *own)
{
    int64_t *todo = fl_alloc(sizeof(*todo) * (size_t)n);
    int64_t small = 0, large = n;

    for (int64_t i = 0; i < n; i++) {
        own[i] = probs[i] * (double)n;
        alias[i] = i;
        todo[own[i] < 1 ? small++ : --large] = i;
    }
    while (small > 0 && large < n) {
        int64_t low = todo[--small], high = todo[large];

        alias[low] = high;
        own[high] -= 1 - own[low];
        if (own[high] < 1) {
            todo[small++] = high;
            large++;
        }
    }
    while (large < n)
        own[todo[large++]] = 1;
    while (small > 0)
        own[todo[--small]] = 1;
    fl_free(todo);
}

/* A persistent variable that the startup program fills with numbers, of type
   i64 or, with `floats`, f32. */
static fl_var *constants(const nce *n, const int64_t *ints,
                         const double *floats)
{
    fl_tensor meta = { .dtype = floats ? FL_DTYPE_F32 : FL_DTYPE_I64,
                       .shape = { .rank = 1, .dim = { n->n_classes } } };
    const unsigned flags = FL_VAR_PERSIST | FL_VAR_STOP_GRAD;
    fl_program *p = n->l->block->program;
    const char *name = fl_ctx_name(
        n->l->ctx, p, fl_arena_printf(&p->arena, "%s.dist", n->l->name));
    fl_var *v, *first;
    fl_block *startup;
    fl_layer l;

    if (fl_ctx_startup(n->l->ctx, n->l->block, &startup) ||
        fl_block_add_var(n->l->block, name, &meta, flags, &v) ||
        fl_block_add_var(startup, name, &meta, FL_VAR_PERSIST, &first))
        return NULL;
    fl_layer_begin_in(&l, n->l->ctx, startup, NULL, name);
    fl_layer_out(&l, "Out", name);
    fl_layer_shape(&l, "shape", &meta.shape);
    fl_layer_str(&l, "dtype", fl_dtype_text(meta.dtype));
    if (floats)
        fl_layer_floats(&l, "fp32_values", floats, (size_t)n->n_classes);
    else
        fl_layer_ints(&l, "int64_values", ints, (size_t)n->n_classes);
    return fl_layer_emit(&l, "assign_value", NULL) ? v : NULL;
}

static bool make_dist(nce *n)
{
    size_t len = (size_t)n->n_classes;
    int64_t *alias;
    double *own;

    if (n->sampler != CUSTOM)
        return true;
    alias = fl_alloc(sizeof(*alias) * len);
    own = fl_alloc(sizeof(*own) * len);
    build_alias(n->args->custom_dist, n->n_classes, alias, own);
    n->dist[0] = constants(n, NULL, n->args->custom_dist);
    n->dist[1] = constants(n, alias, NULL);
    n->dist[2] = constants(n, NULL, own);
    fl_free(alias);
    fl_free(own);
    return n->dist[0] && n->dist[1] && n->dist[2];
}

/* --- the operators -------------------------------------------------------- */

/* What nce_sample and nce both take. */
static void take_label(const nce *n)
{
    static const char *const slots[N_DIST] = { "CustomDistProbs",
                                               "CustomDistAlias",
                                               "CustomDistAliasProbs" };

    fl_layer_in(n->l, "Label", n->label);
    for (int i = 0; n->sampler == CUSTOM && i < N_DIST; i++)
        fl_layer_in(n->l, slots[i], n->dist[i]);
    fl_layer_int(n->l, "num_total_classes", n->n_classes);
    fl_layer_int(n->l, "num_neg_samples", n->n_neg);
    fl_layer_int(n->l, "sampler", n->sampler);
    fl_layer_int(n->l, "seed", n->args->seed);
}

static fl_var *weights_of(const nce *n, const fl_param_attr *attr,
                          const char *suffix, int64_t width)
{
    fl_shape shape = { .rank = 2, .dim = { n->n_classes, width } };
    fl_arena *a = &n->l->block->program->arena;
    fl_table_words words = { .n = 1 };

    if (!n->args->is_distributed)
        return fl_layer_param(n->l, attr, suffix, n->input->meta.dtype, &shape,
                              width == 1 ? "constant(0)" : "xavier");
    words.word[0] = fl_arena_printf(a, "height=%lld", (long long)n->n_classes);
    if (attr->init || width == 1)
        words.word[words.n++] = fl_arena_printf(
            a, "init=%s", attr->init ? attr->init : "constant(0)");
    return fl_layer_table(n->l, attr, suffix, &shape, &words);
}

static fl_var *look_up(const nce *n, const fl_var *w, const fl_var *samples)
{
    fl_layer_in(n->l, "W", w);
    fl_layer_in(n->l, "Ids", samples);
    fl_layer_bool(n->l, "is_sparse", true);
    fl_layer_bool(n->l, "is_distributed", n->args->is_distributed);
    return fl_layer_emit(n->l, "lookup_table_v2", "Out");
}

static fl_var *nce_op(const nce *n, const fl_var *w, const fl_var *b,
                      const fl_var *samples)
{
    fl_layer_in(n->l, "Input", n->input);
    take_label(n);
    fl_layer_in(n->l, "Weight", w);
    if (!n->args->no_bias)
        fl_layer_in(n->l, "Bias", b);
    if (n->args->sample_weight)
        fl_layer_in(n->l, "SampleWeight", n->args->sample_weight);
    if (samples)
        fl_layer_in(n->l, "Samples", samples);
    fl_layer_out(n->l, "Cost", fl_layer_tmp(n->l));
    fl_layer_out(n->l, "SampleLogits", fl_layer_tmp(n->l));
    fl_layer_out(n->l, "SampleLabels", fl_layer_tmp(n->l));
    return fl_layer_emit(n->l, "nce", NULL);
}

static fl_var *build(const nce *n)
{
    int64_t width = n->input->meta.shape.dim[1];
    fl_var *w = weights_of(n, &n->args->param, "w", width), *b = NULL;
    fl_var *samples;

    if (!n->args->no_bias)
        b = weights_of(n, &n->args->bias, "b", 1);
    if (!w || (!b && !n->args->no_bias))
        return NULL;
    if (!n->args->is_sparse && !n->args->is_distributed)
        return nce_op(n, w, b, NULL);
    take_label(n);
    samples = fl_layer_emit(n->l, "nce_sample", "Out");
    w = look_up(n, w, samples);
    if (b)
        b = look_up(n, b, samples);
    return nce_op(n, w, b, samples);
}

static fl_status check_input(const nce *n)
{
    const fl_shape *s = &n->input->meta.shape;
    char buf[FL_SHAPE_TEXT_MAX];

    if (s->rank != 2 || s->dim[1] < 1 || n->n_classes < 2)
        FL_FAIL(FL_ERR_INVAL,
                "%s: input %s of shape %s and %lld classes; it wants rows of a "
                "known width and two classes or more",
                n->l->name, n->input->name, fl_shape_text(s, buf),
                (long long)n->n_classes);
    return FL_OK;
}

fl_var *fl_layers_nce_with(fl_var *input, fl_var *label,
                           int64_t num_total_classes,
                           const fl_layers_nce_args *given)
{
    fl_layers_nce_args a;
    fl_layer l;
    nce n = { .l = &l,
              .args = &a,
              .input = input,
              .label = label,
              .n_classes = num_total_classes };
    fl_var *cost;

    if (FL_ARGS_READ(fl_layers_nce_args, &a, given) || !label ||
        !fl_layer_begin(&l, input, "nce", a.name))
        return NULL;
    n.n_neg = a.num_neg_samples ? a.num_neg_samples : 10;
    if (check_input(&n) || find_sampler(&n) || check_dist(&n) || !make_dist(&n))
        return NULL;
    cost = build(&n);
    if (!cost)
        return NULL;
    fl_layer_in(&l, "X", cost);
    fl_layer_float(&l, "scale", 1 / (double)(n.n_neg + 1));
    return fl_layer_emit(&l, "scale", "Out");
}
