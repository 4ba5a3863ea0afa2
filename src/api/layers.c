/* layers.c - the layers of the public API. */
#include "flotilla/layers.h"

#include "api/layer.h"
#include "base/args.h"

/* --- input --------------------------------------------------------------- */

fl_var *fl_layers_data(fl_ctx *c, const char *name, fl_dtype dtype, int rank,
                       const int64_t *dims, int lod_level)
{
    fl_tensor meta = { .dtype = dtype, .n_lod = lod_level };
    fl_var *v = NULL;

    if (rank < 1 || rank > FL_RANK_MAX || lod_level < 0 ||
        lod_level > FL_LOD_MAX) {
        (void)fl_err_set(FL_ERR_INVAL,
                         "data %s: rank %d is not in 1..%d, or lod_level %d "
                         "not in 0..%d",
                         name, rank, FL_RANK_MAX, lod_level, FL_LOD_MAX);
        return NULL;
    }
    meta.kind = lod_level ? FL_KIND_RAGGED : FL_KIND_DENSE;
    meta.shape = fl_shape_of(rank, dims);
    if (fl_block_add_var(fl_program_main(fl_ctx_pair(c).main), name, &meta,
                         FL_VAR_DATA | FL_VAR_STOP_GRAD, &v))
        return NULL;
    return v;
}

/* --- layers with parameters ---------------------------------------------- */

static fl_status check_shape(const fl_shape *s)
{
    if (s->rank < 1 || s->rank > FL_RANK_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "create_parameter: rank %d of shape is not in 1..%d", s->rank,
                FL_RANK_MAX);
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] < 1)
            FL_FAIL(FL_ERR_INVAL,
                    "create_parameter: dimension %d is %lld; all of a "
                    "parameter's are 1 or more",
                    i, (long long)s->dim[i]);
    return FL_OK;
}

fl_var *
fl_layers_create_parameter_with(fl_ctx *c,
                                const fl_layers_create_parameter_args *given)
{
    fl_layers_create_parameter_args a;
    fl_layer l;

    if (FL_ARGS_READ(fl_layers_create_parameter_args, &a, given) ||
        check_shape(&a.shape))
        return NULL;
    if (!a.param.name)
        a.param.name = a.name;
    fl_layer_begin_in(&l, c, fl_program_main(fl_ctx_pair(c).main),
                      "create_parameter", a.name);
    return fl_layer_param(&l, &a.param, a.is_bias ? "b" : "w", a.dtype,
                          &a.shape, a.is_bias ? "constant(0)" : "xavier");
}

static fl_var *fc_product(fl_layer *l, const fl_var *x, int64_t size, int cols,
                          const fl_param_attr *attr)
{
    fl_shape shape = { .rank = 2, .dim = { 0, size } };
    fl_var *w;

    if (!x)
        return NULL;
    shape.dim[0] = fl_shape_count(&x->meta.shape, cols, x->meta.shape.rank);
    if (cols >= x->meta.shape.rank || shape.dim[0] < 1) {
        char buf[FL_SHAPE_TEXT_MAX];

        (void)fl_err_set(FL_ERR_INVAL,
                         "fc %s: input %s of shape %s has no known width "
                         "after %d dimensions",
                         l->name, x->name, fl_shape_text(&x->meta.shape, buf),
                         cols);
        return NULL;
    }
    w = fl_layer_param(l, attr, "w", x->meta.dtype, &shape, "xavier");
    if (!w)
        return NULL;
    fl_layer_in(l, "X", x);
    fl_layer_in(l, "Y", w);
    fl_layer_int(l, "x_num_col_dims", cols);
    fl_layer_int(l, "y_num_col_dims", 1);
    return fl_layer_emit(l, "mul", "Out");
}

fl_var *fl_layers_fc_with(fl_var *const *inputs, size_t n_inputs, int64_t size,
                          const fl_layers_fc_args *args)
{
    FL_VEC(fl_var *) parts = { 0 };
    fl_layers_fc_args a;
    fl_layer l;
    fl_var *y;
    int cols;

    if (FL_ARGS_READ(fl_layers_fc_args, &a, args) || !n_inputs ||
        !fl_layer_begin(&l, inputs[0], "fc", a.name))
        return NULL;
    if (size < 1) {
        (void)fl_err_set(FL_ERR_INVAL, "fc %s: size %lld is not at least 1",
                         l.name, (long long)size);
        return NULL;
    }
    cols = a.num_flatten_dims ? a.num_flatten_dims : 1;
    for (size_t i = 0; i < n_inputs; i++) {
        fl_var *part = fc_product(&l, inputs[i], size, cols, &a.param);

        fl_vec_push(&parts, part);
    }
    y = parts.data[0];
    if (n_inputs > 1) {
        for (size_t i = 0; i < n_inputs; i++)
            fl_layer_in(&l, "X", parts.data[i]);
        y = fl_layer_emit(&l, "sum", "Out");
    }
    fl_vec_release(&parts);
    if (!a.no_bias)
        y = fl_layer_bias(&l, y, size, cols, &a.bias);
    return fl_layer_act(&l, y, a.act);
}

static bool has_table_words(const fl_layers_embedding_args *a)
{
    return a->entry || a->accessor || a->table || a->show || a->click;
}

static fl_status check_embedding(const char *name, int64_t height,
                                 int64_t width,
                                 const fl_layers_embedding_args *a)
{
    int64_t least = a->is_distributed ? 0 : 1;

    if (height < least || width < 1)
        FL_FAIL(FL_ERR_INVAL,
                "embedding %s: %lld rows of %lld values is no table", name,
                (long long)height, (long long)width);
    if (!a->is_distributed && has_table_words(a))
        FL_FAIL(FL_ERR_INVAL,
                "embedding %s: entry, accessor, table, show and click are for "
                "is_distributed alone",
                name);
    if (a->is_distributed && a->dtype != FL_DTYPE_F32)
        FL_FAIL(FL_ERR_INVAL,
                "embedding %s: the rows of a table are f32, not "
                "%s",
                name, fl_dtype_text(a->dtype));
    return FL_OK;
}

static void add_word(fl_layer *l, fl_table_words *to, const char *name,
                     const char *value)
{
    if (value)
        to->word[to->n++] =
            fl_arena_printf(&l->block->program->arena, "%s%s", name, value);
}

static fl_var *table_of(fl_layer *l, int64_t height, int64_t width,
                        const fl_layers_embedding_args *a)
{
    fl_shape shape = { .rank = 2, .dim = { height ? height : -1, width } };
    fl_table_words words = { 0 };
    char rows[24];

    snprintf(rows, sizeof(rows), "%lld", (long long)height);
    add_word(l, &words, "height=", height ? rows : NULL);
    add_word(l, &words, "init=", a->param.init);
    add_word(l, &words, "entry=", a->entry);
    add_word(l, &words, "accessor=", a->accessor);
    add_word(l, &words, "", a->table);
    return fl_layer_table(l, &a->param, "w", &shape, &words);
}

static fl_var *array_of(fl_layer *l, int64_t height, int64_t width,
                        const fl_layers_embedding_args *a)
{
    fl_shape shape = { .rank = 2, .dim = { height, width } };

    return fl_layer_param(l, &a->param, "w", a->dtype, &shape, "xavier");
}

fl_var *fl_layers_embedding_with(fl_var *ids, int64_t height, int64_t width,
                                 const fl_layers_embedding_args *given)
{
    fl_layers_embedding_args a;
    const fl_layers_embedding_args *args = &a;
    fl_layer l;
    fl_var *w;

    if (FL_ARGS_READ(fl_layers_embedding_args, &a, given) ||
        !fl_layer_begin(&l, ids, "embedding", args->name) ||
        check_embedding(l.name, height, width, args))
        return NULL;
    w = args->is_distributed ? table_of(&l, height, width, args)
                             : array_of(&l, height, width, args);
    if (!w)
        return NULL;
    fl_layer_in(&l, "W", w);
    fl_layer_in(&l, "Ids", ids);
    fl_layer_bool(&l, "is_sparse", args->is_sparse || args->is_distributed);
    fl_layer_bool(&l, "is_distributed", args->is_distributed);
    fl_layer_int(&l, "padding_idx",
                 args->padding_idx ? *args->padding_idx : -1);
    if (args->show)
        fl_layer_str(&l, "show", args->show->name);
    if (args->click)
        fl_layer_str(&l, "click", args->click->name);
    return fl_layer_emit(&l, "lookup_table", "Out");
}

/* --- layers without ------------------------------------------------------ */

/* Appends the operator with attributes in text form. */
static fl_var *emit_text(fl_layer *l, const char *op, const char *attrs)
{
    fl_program *p = l->block->program;

    if (attrs && fl_attrs_parse(p, op, attrs, &p->arena, &l->op.attrs)) {
        fl_layer_drop(l);
        return NULL;
    }
    return fl_layer_emit(l, op, "Out");
}

fl_var *fl_layers_unary(const char *op, fl_var *x, const char *attrs)
{
    fl_layer l;

    if (!fl_layer_begin(&l, x, op, NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    return emit_text(&l, op, attrs);
}

fl_var *fl_layers_binary(const char *op, fl_var *x, fl_var *y,
                         const char *attrs)
{
    fl_layer l;

    if (!y || !fl_layer_begin(&l, x, op, NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_in(&l, "Y", y);
    return emit_text(&l, op, attrs);
}

fl_var *fl_layers_scale(fl_var *x, double scale, double bias)
{
    fl_layer l;

    if (!fl_layer_begin(&l, x, "scale", NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_float(&l, "scale", scale);
    fl_layer_float(&l, "bias", bias);
    return fl_layer_emit(&l, "scale", "Out");
}

fl_var *fl_layers_square_error_cost(fl_var *input, fl_var *label)
{
    fl_layer l;
    fl_var *minus;

    if (!label || !fl_layer_begin(&l, input, "square_error_cost", NULL))
        return NULL;
    fl_layer_in(&l, "X", input);
    fl_layer_in(&l, "Y", label);
    minus = fl_layer_emit(&l, "elementwise_sub", "Out");
    fl_layer_in(&l, "X", minus);
    return fl_layer_emit(&l, "square", "Out");
}

static fl_var *join(const char *op, fl_var *const *inputs, size_t n,
                    const int64_t *axis)
{
    fl_layer l;

    if (!n || !fl_layer_begin(&l, inputs[0], op, NULL))
        return NULL;
    for (size_t i = 0; i < n; i++)
        fl_layer_in(&l, "X", inputs[i]);
    if (axis)
        fl_layer_int(&l, "axis", *axis);
    return fl_layer_emit(&l, op, "Out");
}

fl_var *fl_layers_concat(fl_var *const *inputs, size_t n, int axis)
{
    int64_t a = axis;

    return join("concat", inputs, n, &a);
}

fl_var *fl_layers_sum(fl_var *const *inputs, size_t n)
{
    return join("sum", inputs, n, NULL);
}

fl_status fl_layers_split(fl_var *x, int n, int axis, fl_var **out)
{
    fl_layer l;
    const char **names;

    if (n < 1)
        FL_FAIL(FL_ERR_INVAL, "split into %d parts", n);
    if (!fl_layer_begin(&l, x, "split", NULL))
        return FL_ERR_INVAL;
    names =
        fl_arena_alloc(&l.block->program->arena, sizeof(char *) * (size_t)n);
    fl_layer_in(&l, "X", x);
    for (int i = 0; i < n; i++) {
        names[i] = fl_layer_tmp(&l);
        fl_layer_out(&l, "Out", names[i]);
    }
    fl_layer_int(&l, "axis", axis);
    fl_layer_int(&l, "num", n);
    if (!fl_layer_emit(&l, "split", NULL))
        return FL_ERR_INVAL;
    for (int i = 0; i < n; i++)
        out[i] = fl_block_find_var(l.block, names[i]);
    return FL_OK;
}

fl_var *fl_layers_reshape(fl_var *x, int rank, const int64_t *dims)
{
    fl_layer l;

    if (!fl_layer_begin(&l, x, "reshape2", NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_ints(&l, "shape", dims, (size_t)rank);
    return fl_layer_emit(&l, "reshape2", "Out");
}

fl_var *fl_layers_cast(fl_var *x, fl_dtype dtype)
{
    fl_layer l;

    if (!fl_layer_begin(&l, x, "cast", NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_str(&l, "in_dtype", fl_dtype_text(x->meta.dtype));
    fl_layer_str(&l, "out_dtype", fl_dtype_text(dtype));
    return fl_layer_emit(&l, "cast", "Out");
}

fl_var *fl_layers_dropout(fl_var *x, double dropout_prob)
{
    fl_layer l;
    const char *out;

    if (!fl_layer_begin(&l, x, "dropout", NULL))
        return NULL;
    out = fl_layer_tmp(&l);
    fl_layer_in(&l, "X", x);
    fl_layer_out(&l, "Out", out);
    fl_layer_out(&l, "Mask", fl_layer_tmp(&l));
    fl_layer_float(&l, "dropout_prob", dropout_prob);
    return fl_layer_emit(&l, "dropout", NULL);
}

fl_var *fl_layers_clip(fl_var *x, double min, double max)
{
    fl_layer l;

    if (!fl_layer_begin(&l, x, "clip", NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_float(&l, "min", min);
    fl_layer_float(&l, "max", max);
    return fl_layer_emit(&l, "clip", "Out");
}

fl_var *fl_layers_clip_by_norm(fl_var *x, double max_norm)
{
    fl_layer l;

    if (!fl_layer_begin(&l, x, "clip_by_norm", NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_float(&l, "max_norm", max_norm);
    return fl_layer_emit(&l, "clip_by_norm", "Out");
}

fl_var *fl_layers_fill_constant(fl_ctx *c, fl_dtype dtype, int rank,
                                const int64_t *dims, double value)
{
    fl_layer l;

    fl_layer_begin_in(&l, c, fl_program_main(fl_ctx_pair(c).main),
                      "fill_constant", NULL);
    fl_layer_ints(&l, "shape", dims, (size_t)rank);
    fl_layer_str(&l, "dtype", fl_dtype_text(dtype));
    fl_layer_float(&l, "value", value);
    return fl_layer_emit(&l, "fill_constant", "Out");
}

/* --- losses and metrics -------------------------------------------------- */

fl_var *fl_layers_cross_entropy(fl_var *input, fl_var *label)
{
    fl_layer l;

    if (!label || !fl_layer_begin(&l, input, "cross_entropy2", NULL))
        return NULL;
    fl_layer_in(&l, "X", input);
    fl_layer_in(&l, "Label", label);
    fl_layer_out(&l, "Y", fl_layer_tmp(&l));
    fl_layer_out(&l, "XShape", fl_layer_tmp(&l));
    fl_layer_out(&l, "MatchX", fl_layer_tmp(&l));
    return fl_layer_emit(&l, "cross_entropy2", NULL);
}

fl_var *fl_layers_softmax_with_cross_entropy(fl_var *logits, fl_var *label,
                                             fl_var **softmax)
{
    const char *prob;
    fl_layer l;
    fl_var *loss;

    if (!label ||
        !fl_layer_begin(&l, logits, "softmax_with_cross_entropy", NULL))
        return NULL;
    fl_layer_in(&l, "Logits", logits);
    fl_layer_in(&l, "Label", label);
    prob = fl_layer_tmp(&l);
    fl_layer_out(&l, "Softmax", prob);
    loss = fl_layer_emit(&l, "softmax_with_cross_entropy", "Loss");
    if (softmax)
        *softmax = loss ? fl_block_find_var(l.block, prob) : NULL;
    return loss;
}

fl_var *fl_layers_sigmoid_cross_entropy_with_logits(fl_var *x, fl_var *label)
{
    fl_layer l;

    if (!label ||
        !fl_layer_begin(&l, x, "sigmoid_cross_entropy_with_logits", NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_in(&l, "Label", label);
    return fl_layer_emit(&l, "sigmoid_cross_entropy_with_logits", "Out");
}

fl_var *fl_layers_accuracy(fl_var *input, fl_var *label)
{
    fl_var *indices;
    const char *top;
    fl_layer l;

    if (!label || !fl_layer_begin(&l, input, "accuracy", NULL))
        return NULL;
    top = fl_layer_tmp(&l);
    fl_layer_in(&l, "X", input);
    fl_layer_out(&l, "Out", top);
    fl_layer_int(&l, "k", 1);
    indices = fl_layer_emit(&l, "top_k", "Indices");
    if (!indices)
        return NULL;
    fl_layer_in(&l, "Out", fl_block_find_var(l.block, top));
    fl_layer_in(&l, "Indices", indices);
    fl_layer_in(&l, "Label", label);
    fl_layer_out(&l, "Accuracy", fl_layer_tmp(&l));
    fl_layer_out(&l, "Correct", fl_layer_tmp(&l));
    fl_layer_out(&l, "Total", fl_layer_tmp(&l));
    return fl_layer_emit(&l, "accuracy", NULL);
}

/* What both auc operators are about. */
typedef struct auc_of {
    const fl_var *input, *label;
    const fl_layers_auc_args *args;
} auc_of;

/* An auc operator with its two histograms, which are given out. */
static fl_var *auc_op(fl_layer *l, const auc_of *of, int slide, const char *out,
                      fl_var *stat[2])
{
    const fl_layers_auc_args *args = of->args;
    int64_t n = args->num_thresholds ? args->num_thresholds : 4095;
    fl_shape ring = { .rank = 1, .dim = { (slide + 1) * (n + 1) + 1 } };
    fl_shape flat = { .rank = 2, .dim = { 1, n + 1 } };
    const fl_shape *shape = slide ? &ring : &flat;

    for (int i = 0; i < 2; i++)
        stat[i] =
            fl_layer_state(l->ctx, l->block,
                           fl_program_name(l->block->program, "_generated_var"),
                           FL_DTYPE_I64, shape, 0);
    fl_layer_in(l, "Predict", of->input);
    fl_layer_in(l, "Label", of->label);
    fl_layer_in(l, "StatPos", stat[0]);
    fl_layer_in(l, "StatNeg", stat[1]);
    fl_layer_out(l, "AUC", out);
    if (stat[0] && stat[1]) {
        fl_layer_out(l, "StatPosOut", stat[0]->name);
        fl_layer_out(l, "StatNegOut", stat[1]->name);
    }
    fl_layer_str(l, "curve", args->curve ? args->curve : "ROC");
    fl_layer_int(l, "num_thresholds", n);
    fl_layer_int(l, "slide_steps", slide);
    return fl_layer_emit(l, "auc", NULL);
}

/* To who wants it. */
static void give(fl_var **to, fl_var *v)
{
    if (to)
        *to = v;
}

fl_var *fl_layers_auc_with(fl_var *input, fl_var *label, fl_var **batch_auc,
                           const fl_layers_auc_args *given)
{
    fl_layers_auc_args o;
    const fl_layers_auc_args *args = &o;
    const char *all, *batch;
    fl_var *b, *a, *stats[4];
    auc_of of = { input, label, &o };
    fl_layer l;
    int slide;

    if (FL_ARGS_READ(fl_layers_auc_args, &o, given) || !label ||
        !fl_layer_begin(&l, input, "auc", NULL))
        return NULL;
    slide = args->slide_steps ? args->slide_steps : 1;
    all = fl_layer_tmp(&l);
    batch = fl_layer_tmp(&l);
    b = auc_op(&l, &of, slide < 0 ? 0 : slide, batch, stats);
    give(batch_auc, b);
    if (!b)
        return NULL;
    a = auc_op(&l, &of, 0, all, stats + 2);
    give(args->batch_stat_pos, stats[0]);
    give(args->batch_stat_neg, stats[1]);
    give(args->stat_pos, stats[2]);
    give(args->stat_neg, stats[3]);
    return a;
}

fl_var *fl_layers_print(fl_var *x, const char *message)
{
    fl_layer l;

    if (!fl_layer_begin(&l, x, "print", NULL))
        return NULL;
    fl_layer_in(&l, "In", x);
    fl_layer_str(&l, "message", message ? message : "");
    return fl_layer_emit(&l, "print", "Out");
}
