/* layers_numbers.c - layers of one- and two-number functions, comparisons,
 * logic and reductions. */
#include "api/layer.h"
#include "flotilla/layers.h"

/* --- functions of one number ---------------------------------------------- */

typedef struct setting {
    const char *name;
    double value;
} setting;

static fl_var *with_settings(const char *op, fl_var *x, const setting *s,
                             size_t n)
{
    fl_layer l;

    if (!fl_layer_begin(&l, x, op, NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    for (size_t i = 0; i < n; i++)
        fl_layer_float(&l, s[i].name, s[i].value);
    return fl_layer_emit(&l, op, "Out");
}

#define PLAIN(name)                                                            \
    fl_var *fl_layers_##name(fl_var *x)                                        \
    {                                                                          \
        return with_settings(#name, x, NULL, 0);                               \
    }
#define WITH(name, attr)                                                       \
    fl_var *fl_layers_##name(fl_var *x, double attr)                           \
    {                                                                          \
        return with_settings(#name, x, (setting[]){ { #attr, attr } }, 1);     \
    }
FL_LAYERS_OF_X(PLAIN, WITH)

fl_var *fl_layers_brelu(fl_var *x, double t_min, double t_max)
{
    return with_settings(
        "brelu", x, (setting[]){ { "t_min", t_min }, { "t_max", t_max } }, 2);
}

fl_var *fl_layers_stanh(fl_var *x, double scale_a, double scale_b)
{
    return with_settings(
        "stanh", x,
        (setting[]){ { "scale_a", scale_a }, { "scale_b", scale_b } }, 2);
}

fl_var *fl_layers_hard_sigmoid(fl_var *x, double slope, double offset)
{
    return with_settings(
        "hard_sigmoid", x,
        (setting[]){ { "slope", slope }, { "offset", offset } }, 2);
}

fl_var *fl_layers_hard_swish(fl_var *x, double threshold, double scale,
                             double offset)
{
    return with_settings("hard_swish", x,
                         (setting[]){ { "threshold", threshold },
                                      { "scale", scale },
                                      { "offset", offset } },
                         3);
}

fl_var *fl_layers_gelu(fl_var *x, bool approximate)
{
    return fl_layers_unary("gelu", x,
                           approximate ? "{approximate=true}" : NULL);
}

fl_var *fl_layers_logical_not(fl_var *x)
{
    return fl_layers_unary("logical_not", x, NULL);
}

/* --- functions of two numbers --------------------------------------------- */

static fl_var *at_axis(const char *op, fl_var *x, fl_var *y, int axis)
{
    fl_layer l;

    if (!y || !fl_layer_begin(&l, x, op, NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_in(&l, "Y", y);
    fl_layer_int(&l, "axis", axis);
    return fl_layer_emit(&l, op, "Out");
}

#define AT_AXIS(name)                                                          \
    fl_var *fl_layers_##name(fl_var *x, fl_var *y, int axis)                   \
    {                                                                          \
        return at_axis(#name, x, y, axis);                                     \
    }
#define OF_TWO(name)                                                           \
    fl_var *fl_layers_##name(fl_var *x, fl_var *y)                             \
    {                                                                          \
        return fl_layers_binary(#name, x, y, NULL);                            \
    }
FL_LAYERS_ELEMENTWISE(AT_AXIS)
FL_LAYERS_COMPARING(OF_TWO)
FL_LAYERS_LOGICAL(OF_TWO)

/* --- reductions ----------------------------------------------------------- */

fl_var *fl_layers_reduce(const char *op, fl_var *x, const int64_t *dims,
                         size_t n_dims, bool keep_dim)
{
    fl_layer l;

    if (!fl_layer_begin(&l, x, op, NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_ints(&l, "dim", dims, n_dims);
    fl_layer_bool(&l, "keep_dim", keep_dim);
    fl_layer_bool(&l, "reduce_all", n_dims == 0);
    return fl_layer_emit(&l, op, "Out");
}

#define OVER_ALL(name)                                                         \
    fl_var *fl_layers_##name(fl_var *x)                                        \
    {                                                                          \
        return fl_layers_unary(#name, x, "{reduce_all=true}");                 \
    }
FL_LAYERS_REDUCE(OVER_ALL)

/* Small enough to leave directions alone, large enough for a vector of
   zeros. */
#define L2_EPSILON 1e-12

fl_var *fl_layers_l2_normalize(fl_var *x, int axis)
{
    fl_layer l;

    if (!fl_layer_begin(&l, x, "l2_normalize", NULL))
        return NULL;
    fl_layer_in(&l, "X", x);
    fl_layer_int(&l, "axis", axis);
    fl_layer_float(&l, "epsilon", L2_EPSILON);
    return fl_layer_emit(&l, "norm", "Out");
}
