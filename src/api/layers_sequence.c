/* layers_sequence.c - the layers over ragged rows. */
#include "flotilla/layers.h"

#include "api/layer.h"
#include "base/args.h"

fl_var *fl_layers_sequence_pool(fl_var *x, const char *pool_type)
{
    char upper[16] = "";
    fl_layer l;

    if (!fl_layer_begin(&l, x, "sequence_pool", NULL))
        return NULL;
    for (size_t i = 0; pool_type[i] && i + 1 < sizeof(upper); i++)
        upper[i] = (char)(pool_type[i] & ~0x20); /* letters to upper case */
    fl_layer_in(&l, "X", x);
    fl_layer_out(&l, "Out", fl_layer_tmp(&l));
    fl_layer_out(&l, "MaxIndex", fl_layer_tmp(&l));
    fl_layer_str(&l, "pooltype", upper);
    return fl_layer_emit(&l, "sequence_pool", NULL);
}

fl_var *fl_layers_sequence_first_step(fl_var *x)
{
    return fl_layers_sequence_pool(x, "first");
}

fl_var *fl_layers_sequence_last_step(fl_var *x)
{
    return fl_layers_sequence_pool(x, "last");
}

fl_var *fl_layers_sequence_softmax(fl_var *x)
{
    return fl_layers_unary("sequence_softmax", x, NULL);
}

fl_var *fl_layers_sequence_reverse(fl_var *x)
{
    fl_layer l;

    if (!fl_layer_begin(&l, x, "sequence_reverse", NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    return fl_layer_emit(&l, "sequence_reverse", "Y");
}

fl_var *fl_layers_sequence_expand(fl_var *x, fl_var *y, int ref_level)
{
    fl_layer l;

    if (!y || !fl_layer_begin(&l, x, "sequence_expand", NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_in(&l, "Y", y);
    fl_layer_int(&l, "ref_level", ref_level);
    return fl_layer_emit(&l, "sequence_expand", "Out");
}

fl_var *fl_layers_sequence_expand_as(fl_var *x, fl_var *y)
{
    return fl_layers_binary("sequence_expand_as", x, y, NULL);
}

fl_var *fl_layers_sequence_concat(fl_var *const *inputs, size_t n)
{
    fl_layer l;

    if (!n || !fl_layer_begin(&l, inputs[0], "sequence_concat", NULL))
        return NULL;
    for (size_t i = 0; i < n; i++)
        fl_layer_in(&l, "X", inputs[i]);
    return fl_layer_emit(&l, "sequence_concat", "Out");
}

fl_var *fl_layers_sequence_pad(fl_var *x, fl_var *pad_value, int64_t maxlen,
                               fl_var **length)
{
    const char *lengths;
    fl_var *out;
    fl_layer l;

    if (!pad_value || !fl_layer_begin(&l, x, "sequence_pad", NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_in(&l, "PadValue", pad_value);
    fl_layer_out(&l, "Out", fl_layer_tmp(&l));
    lengths = fl_layer_tmp(&l);
    fl_layer_out(&l, "Length", lengths);
    fl_layer_int(&l, "padded_length", maxlen);
    out = fl_layer_emit(&l, "sequence_pad", NULL);
    if (length)
        *length = out ? fl_block_find_var(l.block, lengths) : NULL;
    return out;
}

fl_var *fl_layers_sequence_unpad(fl_var *x, fl_var *length)
{
    fl_layer l;

    if (!length || !fl_layer_begin(&l, x, "sequence_unpad", NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_in(&l, "Length", length);
    return fl_layer_emit(&l, "sequence_unpad", "Out");
}

fl_var *fl_layers_sequence_reshape(fl_var *x, int64_t new_dim)
{
    fl_layer l;

    if (!fl_layer_begin(&l, x, "sequence_reshape", NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_int(&l, "new_dim", new_dim);
    return fl_layer_emit(&l, "sequence_reshape", "Out");
}

fl_var *fl_layers_sequence_slice(fl_var *x, fl_var *offset, fl_var *length)
{
    fl_layer l;

    if (!offset || !length || !fl_layer_begin(&l, x, "sequence_slice", NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_in(&l, "Offset", offset);
    fl_layer_in(&l, "Length", length);
    return fl_layer_emit(&l, "sequence_slice", "Out");
}

fl_var *fl_layers_sequence_enumerate(fl_var *x, int64_t win_size,
                                     int64_t pad_value)
{
    fl_layer l;

    if (!fl_layer_begin(&l, x, "sequence_enumerate", NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_int(&l, "win_size", win_size);
    fl_layer_int(&l, "pad_value", pad_value);
    return fl_layer_emit(&l, "sequence_enumerate", "Out");
}

fl_var *fl_layers_sequence_mask(fl_var *x, int64_t maxlen, fl_dtype dtype)
{
    fl_layer l;

    if (!fl_layer_begin(&l, x, "sequence_mask", NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_int(&l, "maxlen", maxlen);
    fl_layer_str(&l, "out_dtype", fl_dtype_text(dtype));
    return fl_layer_emit(&l, "sequence_mask", "Y");
}

/* --- with parameters ----------------------------------------------------- */

fl_var *fl_layers_sequence_conv_with(fl_var *x, int64_t num_filters,
                                     const fl_layers_sequence_conv_args *given)
{
    fl_layers_sequence_conv_args a;
    fl_shape shape = { .rank = 2 };
    fl_layer l;
    fl_var *w, *y;

    if (FL_ARGS_READ(fl_layers_sequence_conv_args, &a, given) ||
        !fl_layer_begin(&l, x, "sequence_conv", a.name))
        return NULL;
    a.filter_size = a.filter_size ? a.filter_size : 3;
    shape.dim[0] = a.filter_size * x->meta.shape.dim[1];
    shape.dim[1] = num_filters;
    if (x->meta.shape.rank != 2 || shape.dim[0] < 1 || num_filters < 1) {
        (void)fl_err_set(FL_ERR_INVAL,
                         "sequence_conv %s: %lld filters over %lld rows of %s "
                         "make no product",
                         l.name, (long long)num_filters,
                         (long long)a.filter_size, x->name);
        return NULL;
    }
    w = fl_layer_param(&l, &a.param, "w", x->meta.dtype, &shape, "xavier");
    if (!w)
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_in(&l, "Filter", w);
    fl_layer_int(&l, "contextLength", a.filter_size);
    fl_layer_int(&l, "contextStart",
                 a.padding_start ? *a.padding_start : -(a.filter_size / 2));
    y = fl_layer_emit(&l, "sequence_conv", "Out");
    if (!a.no_bias)
        y = fl_layer_bias(&l, y, num_filters, 1, &a.bias);
    return fl_layer_act(&l, y, a.act);
}

fl_var *fl_layers_sequence_conv_pool_with(
    fl_var *x, int64_t num_filters, int64_t filter_size,
    const fl_layers_sequence_conv_pool_args *given)
{
    fl_layers_sequence_conv_pool_args a;
    fl_var *y;

    if (FL_ARGS_READ(fl_layers_sequence_conv_pool_args, &a, given))
        return NULL;
    y = fl_layers_sequence_conv(x, num_filters, .filter_size = filter_size,
                                .act = a.act ? a.act : "sigmoid",
                                .param = a.param, .bias = a.bias,
                                .no_bias = a.no_bias);
    return fl_layers_sequence_pool(y, a.pool_type ? a.pool_type : "max");
}

static fl_status check_gru(const fl_layer *l, const fl_var *x, int64_t width)
{
    char buf[FL_SHAPE_TEXT_MAX];

    if (width >= 1 && x->meta.shape.rank == 2 &&
        x->meta.shape.dim[1] == 3 * width)
        return FL_OK;
    FL_FAIL(FL_ERR_INVAL,
            "gru %s of width %lld: input %s of shape %s must have three times "
            "as many columns",
            l->name, (long long)width, x->name,
            fl_shape_text(&x->meta.shape, buf));
}

/* What gru and gru_unit have in common: Input, Weight, Bias, origin_mode. */
static bool begin_gru(fl_layer *l, const fl_var *x, int64_t width,
                      const fl_layers_gru_args *a)
{
    fl_shape shape = { .rank = 2, .dim = { width, 3 * width } };
    fl_shape row = { .rank = 2, .dim = { 1, 3 * width } };
    fl_var *w, *b = NULL;

    if (check_gru(l, x, width))
        return false;
    w = fl_layer_param(l, &a->param, "w", x->meta.dtype, &shape, "xavier");
    if (w && !a->no_bias)
        b = fl_layer_param(l, &a->bias, "b", x->meta.dtype, &row,
                           "constant(0)");
    if (!w || (!b && !a->no_bias))
        return false;
    fl_layer_in(l, "Input", x);
    fl_layer_in(l, "Weight", w);
    if (b)
        fl_layer_in(l, "Bias", b);
    fl_layer_bool(l, "origin_mode", a->origin_mode);
    return true;
}

fl_var *fl_layers_dynamic_gru_with(fl_var *x, int64_t width,
                                   const fl_layers_gru_args *given)
{
    static const char *const outs[] = { "Hidden", "BatchGate",
                                        "BatchResetHiddenPrev", "BatchHidden" };
    fl_layers_gru_args a;
    fl_layer l;

    if (FL_ARGS_READ(fl_layers_gru_args, &a, given) ||
        !fl_layer_begin(&l, x, "gru", a.name) || !begin_gru(&l, x, width, &a))
        return NULL;
    if (a.h_0)
        fl_layer_in(&l, "H0", a.h_0);
    for (size_t i = 0; i < FL_LEN(outs); i++)
        fl_layer_out(&l, outs[i], fl_layer_tmp(&l));
    fl_layer_bool(&l, "is_reverse", a.is_reverse);
    fl_layer_str(&l, "activation",
                 a.candidate_activation ? a.candidate_activation : "tanh");
    fl_layer_str(&l, "gate_activation",
                 a.gate_activation ? a.gate_activation : "sigmoid");
    return fl_layer_emit(&l, "gru", NULL);
}

/* gru_unit takes activations by number; an unknown one is refused there. */
static int64_t act_number(const char *name, const char *otherwise)
{
    static const char *const names[] = { "identity", "sigmoid", "tanh",
                                         "relu" };

    for (size_t i = 0; i < FL_LEN(names); i++)
        if (!strcmp(names[i], name ? name : otherwise))
            return (int64_t)i;
    return -1;
}

fl_var *fl_layers_gru_unit_with(fl_var *x, fl_var *hidden, int64_t width,
                                const fl_layers_gru_args *given)
{
    const char *gate, *reset;
    fl_layers_gru_args a;
    fl_var *out;
    fl_layer l;

    if (FL_ARGS_READ(fl_layers_gru_args, &a, given) || !hidden ||
        !fl_layer_begin(&l, x, "gru_unit", a.name) ||
        !begin_gru(&l, x, width, &a))
        return NULL;
    gate = fl_layer_tmp(&l);
    reset = fl_layer_tmp(&l);
    fl_layer_in(&l, "HiddenPrev", hidden);
    fl_layer_out(&l, "Hidden", fl_layer_tmp(&l));
    fl_layer_out(&l, "Gate", gate);
    fl_layer_out(&l, "ResetHiddenPrev", reset);
    fl_layer_int(&l, "activation", act_number(a.candidate_activation, "tanh"));
    fl_layer_int(&l, "gate_activation",
                 act_number(a.gate_activation, "sigmoid"));
    out = fl_layer_emit(&l, "gru_unit", NULL);
    if (a.gate)
        *a.gate = out ? fl_block_find_var(l.block, gate) : NULL;
    if (a.reset_hidden)
        *a.reset_hidden = out ? fl_block_find_var(l.block, reset) : NULL;
    return out;
}
