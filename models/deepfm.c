/* deepfm.c - a factorization machine and a network over the same rows.
 *
 *  label, index:value of each field (libsvm, libFM)
 *
 *  w[index] * value ---------------------------> sum ---------+
 *  v[index] * value --+-> ((sum v)^2 - sum v^2) / 2, summed --+-> sigmoid
 *                     +-> side by side -> 400 -> 400 -> 400 -> 1
 *
 * The first line is a linear model, the second says how well any two features
 * go together, the third what all of them mean.
 */
#include "models.h"

enum { FIELDS = 10, HIDDEN = 400, LAYERS = 3, WIDTH = 10 };

/* Rows of all features of a record, times their values: [n, fields, width]. */
static fl_var *rows_of(fl_var *ids, fl_var *values, int64_t fields,
                       int64_t width, fl_param_attr attr)
{
    fl_var *rows = fl_layers_sparse_embedding(ids, width, .param = attr);

    return fl_layers_binary(
        "elementwise_mul",
        fl_layers_reshape(rows, 3, (int64_t[]){ -1, fields, width }),
        fl_layers_reshape(values, 3, (int64_t[]){ -1, fields, 1 }), NULL);
}

/* Sum over the fields: [n, width]. */
static fl_var *sum_of(fl_var *rows)
{
    return fl_layers_unary("reduce_sum", rows, "{dim=[1]}");
}

/* [n, 1] */
static fl_var *second_order(fl_var *rows)
{
    fl_var *difference =
        fl_layers_binary("elementwise_sub", fl_layers_square(sum_of(rows)),
                         sum_of(fl_layers_square(rows)), NULL);

    return fl_layers_scale(
        fl_layers_unary("reduce_sum", difference, "{dim=[1], keep_dim=true}"),
        0.5, 0);
}

static fl_status build(fl_ctx *c, const model_args *args, model_net *net)
{
    int64_t width = args->width ? (int64_t)args->width : WIDTH;
    int64_t hidden = args->hidden ? (int64_t)args->hidden : HIDDEN;
    int64_t fields = args->fields ? (int64_t)args->fields : FIELDS;
    fl_var *label = model_ids(c, net, "label", 1);
    fl_var *ids = model_ids(c, net, "ids", fields);
    fl_var *values = model_floats(c, net, "values", fields);
    fl_var *rows, *parts[3];

    ids = fl_layers_reshape(ids, 2, (int64_t[]){ -1, 1 });
    parts[0] = sum_of(rows_of(ids, values, fields, 1,
                              (fl_param_attr){ .name = "first_order",
                                               .init = "constant(0)",
                                               .regularizer = "l1(0.0001)" }));
    rows = rows_of(ids, values, fields, width,
                   (fl_param_attr){ .name = "second_order",
                                    .init = "truncated_normal(0,0.03)" });
    parts[1] = second_order(rows);
    parts[2] = fl_layers_reshape(rows, 2, (int64_t[]){ -1, fields * width });
    for (int i = 0; i < LAYERS; i++)
        parts[2] = model_fc(parts[2], hidden, "relu");
    parts[2] = model_fc(parts[2], 1, NULL);
    model_format(args, net, "libsvm:label=ids");
    return model_judge_clicks(net, fl_layers_sum(parts, 3), label);
}

const model model_deepfm = {
    .name = "deepfm",
    .doc = "yes or no from features by field (libFM files)",
    .optimizer = "adam",
    .learning_rate = "0.001",
    .batch_size = 100,
    .uses = MODEL_HIDDEN | MODEL_FIELDS,
    .build = build,
};
