/* wide_deep.c - a line through the numbers beside a network over all: what is
 * simple is learnt by the one, what comes together by the other.
 *
 *  6 numbers ------------+------------------------------> 1 --+
 *                        |                                    +-> sigmoid
 *  8 categories -> rows -+-> concat -> 400 -> 400 -> 400 -> 1 +
 *
 * Columns are those of the census data called Adult: who earns more than 50,000
 * dollars a year? Numbers are to lie near 0...1. Where the data is described, it
 * takes any columns, and the line goes through the categories as well.
 */
#include "columns.h"

enum { N_NUMBERS = 6, N_CATEGORIES = 8, HIDDEN = 400, LAYERS = 3, WIDTH = 8 };

static const char *const numbers[N_NUMBERS] = { "age",           "fnlwgt",
                                                "education_num", "capital_gain",
                                                "capital_loss",  "hours" };
static const char *const categories[N_CATEGORIES] = {
    "workclass", "education", "marital_status", "occupation", "relationship",
    "race",      "sex",       "country"
};

static fl_var *layers(const model_args *args, fl_var *x)
{
    int64_t hidden = args->hidden ? (int64_t)args->hidden : HIDDEN;

    for (int i = 0; i < LAYERS; i++)
        x = model_fc(x, hidden, "relu");
    return model_fc(x, 1, NULL);
}

static fl_status build_any(fl_ctx *c, const model_args *args, model_net *net)
{
    int64_t width = args->width ? (int64_t)args->width : WIDTH;
    model_columns columns;
    fl_status st = model_open_columns(c, args, net, &columns);
    fl_var *parts[2], *rows;

    if (st)
        return st;
    rows =
        model_rows(&columns, width,
                   FL_OPTIONS(fl_layers_embedding_args, .is_distributed = true,
                              .param.name = "categories",
                              .param.init = "uniform(-0.05,0.05)"));
    parts[0] = model_line(&columns);
    parts[1] = layers(args, model_beside(&columns, rows, width));
    return model_judge(args, net, fl_layers_sum(parts, 2), columns.label);
}

static fl_status build(fl_ctx *c, const model_args *args, model_net *net)
{
    int64_t width = args->width ? (int64_t)args->width : WIDTH;
    fl_var *parts[N_CATEGORIES + 1], *label, *wide, *deep, *dense;
    fl_var *x[N_NUMBERS];

    model_format(args, net,
                 "csv:columns=age:float workclass:hash fnlwgt:float "
                 "education:hash education_num:float marital_status:hash "
                 "occupation:hash relationship:hash race:hash sex:hash "
                 "capital_gain:float capital_loss:float hours:float "
                 "country:hash label:id");
    if (model_has_columns(args))
        return build_any(c, args, net);
    label = model_ids(c, net, "label", 1);
    for (int i = 0; i < N_NUMBERS; i++)
        x[i] = model_floats(c, net, numbers[i], 1);
    dense = fl_layers_concat(x, N_NUMBERS, 1);
    parts[N_CATEGORIES] = dense;
    for (int i = 0; i < N_CATEGORIES; i++)
        parts[i] = fl_layers_sparse_embedding(
            model_ids(c, net, categories[i], 1), width,
            .param.name = "categories", .param.init = "uniform(-0.05,0.05)");
    wide = model_fc(dense, 1, NULL);
    deep = layers(args, fl_layers_concat(parts, N_CATEGORIES + 1, 1));
    return model_judge(args, net,
                       fl_layers_binary("elementwise_add", wide, deep, NULL),
                       label);
}

const model model_wide_deep = {
    .name = "wide_deep",
    .doc = "yes or no from 6 numbers and 8 categories (Adult), or any columns",
    .optimizer = "adam",
    .learning_rate = "0.001",
    .batch_size = 100,
    .uses = MODEL_HIDDEN | MODEL_COLUMNS | MODEL_LOSS,
    .losses = MODEL_LOSSES,
    .build = build,
};
