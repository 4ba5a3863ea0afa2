/* mf.c - matrix factorisation: how well does this go with that?
 *
 *  who  -> row --+
 *                +-> dot product --+
 *  what -> row --+                 +-> sum: the rating
 *  who -> bias, what -> bias, bias +
 *
 * Tables are called like the two columns, so that rows of a saved model can be
 * asked for by what they are of.
 */
#include "columns.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH = 64, NAME_BYTES = 128 };

static fl_var *biases(const fl_feature_column *c)
{
    char name[NAME_BYTES];

    snprintf(name, sizeof(name), "%s.bias", c->name);
    return fl_layers_sparse_embedding(c->var, 1, .param.name = name,
                                      .param.init = "constant(0)",
                                      .param.regularizer = "l2(0.002)");
}

static fl_var *rows(const fl_feature_column *c, int64_t width)
{
    char name[NAME_BYTES];

    snprintf(name, sizeof(name), "%s.rows", c->name);
    return fl_layers_sparse_embedding(c->var, width, .param.name = name,
                                      .param.init = "normal(0,0.1)",
                                      .param.regularizer = "l2(0.01)");
}

static fl_status build(fl_ctx *c, const model_args *args, model_net *net)
{
    int64_t width = args->width ? (int64_t)args->width : WIDTH;
    fl_var *parts[3], *bias = NULL, *score;
    fl_block *b = fl_program_block(fl_default_main_program(c), 0);
    model_pair p;
    fl_status st;

    model_format(args, net, "csv");
    st = model_open_pair(c, args, net, &p);
    if (!st)
        st = fl_create_parameter(&bias, b, "bias", .dtype = FL_DTYPE_F32,
                                 .shape = { .rank = 1, .dim = { 1 } },
                                 .init = "constant(0)");
    if (st)
        return st;
    parts[0] =
        fl_layers_unary("reduce_sum",
                        fl_layers_binary("elementwise_mul", rows(&p.who, width),
                                         rows(&p.what, width), NULL),
                        "{dim=[1], keep_dim=true}");
    parts[1] = biases(&p.who);
    parts[2] = biases(&p.what);
    score = fl_layers_binary("elementwise_add", fl_layers_sum(parts, 3), bias,
                             NULL);
    if (args->loss && !strcmp(args->loss, "log"))
        return model_judge_clicks(net, score, p.label);
    return model_judge_numbers(net, score, p.label);
}

const model model_mf = {
    .name = "mf",
    .doc = "ratings from two categories, who and what (--format csv)",
    .optimizer = "adam",
    .learning_rate = "0.003",
    .batch_size = 100,
    .uses = MODEL_COLUMNS | MODEL_NEEDS_COLUMNS | MODEL_LOSS,
    .losses = "square log",
    .build = build,
};
