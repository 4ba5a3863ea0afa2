/* deepfm.c - a factorization machine and a network over the same rows.
 *
 *  label, index:value of each field (libsvm, libFM)
 *
 *  w[index] * value ---------------------------> sum ---------+
 *  v[index] * value --+-> ((sum v)^2 - sum v^2) / 2, summed --+-> sigmoid
 *                     +-> side by side -> 400 -> 400 -> 400 -> 1
 *
 * The first line is a linear model, the second says how well any two features
 * go together, the third what all of them mean. Where the data is described, any
 * columns are its features: a category is one of value 1, a number one of its own
 * value.
 */
#include "columns.h"

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

static fl_var *layers(const model_args *args, fl_var *x)
{
    int64_t hidden = args->hidden ? (int64_t)args->hidden : HIDDEN;

    for (int i = 0; i < LAYERS; i++)
        x = model_fc(x, hidden, "relu");
    return model_fc(x, 1, NULL);
}

/* A row for each number, times the number: [n, numbers, width]. */
static fl_var *rows_of_numbers(fl_ctx *c, const model_columns *columns,
                               int64_t width)
{
    int64_t n = columns->n_numbers;
    fl_var *v = fl_layers_create_parameter(
        c, .shape = { 3, { 1, n, width } }, .name = "numbers",
        .param.init = "truncated_normal(0,0.03)");

    return fl_layers_binary(
        "elementwise_mul",
        fl_layers_reshape(columns->numbers, 3, (int64_t[]){ -1, n, 1 }), v,
        NULL);
}

/* All rows of a record: [n, rows, width]. */
static fl_var *all_rows(fl_ctx *c, const model_columns *columns, int64_t width)
{
    fl_var *parts[2];
    size_t n = 0;

    if (model_n_rows(columns))
        parts[n++] = model_rows(
            columns, width,
            FL_OPTIONS(fl_layers_embedding_args, .is_distributed = true,
                       .param.name = "second_order",
                       .param.init = "truncated_normal(0,0.03)"));
    if (columns->numbers)
        parts[n++] = rows_of_numbers(c, columns, width);
    return n == 1 ? parts[0] : fl_layers_concat(parts, n, 1);
}

static fl_status build_any(fl_ctx *c, const model_args *args, model_net *net)
{
    int64_t width = args->width ? (int64_t)args->width : WIDTH;
    model_columns columns;
    fl_status st = model_open_columns(c, args, net, &columns);
    fl_var *rows, *parts[3];
    int64_t n;

    if (st)
        return st;
    n = (model_n_rows(&columns) + columns.n_numbers) * width;
    rows = all_rows(c, &columns, width);
    parts[0] = model_line(&columns);
    parts[1] = second_order(rows);
    parts[2] = layers(args, fl_layers_reshape(rows, 2, (int64_t[]){ -1, n }));
    return model_judge(args, net, fl_layers_sum(parts, 3), columns.label);
}

static fl_status build(fl_ctx *c, const model_args *args, model_net *net)
{
    int64_t width = args->width ? (int64_t)args->width : WIDTH;
    int64_t fields = args->fields ? (int64_t)args->fields : FIELDS;
    fl_var *label, *ids, *values, *rows, *parts[3];

    model_format(args, net, "libsvm:label=ids");
    if (model_has_columns(args))
        return build_any(c, args, net);
    label = model_ids(c, net, "label", 1);
    ids = model_ids(c, net, "ids", fields);
    values = model_floats(c, net, "values", fields);
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
    parts[2] = layers(args, parts[2]);
    return model_judge(args, net, fl_layers_sum(parts, 3), label);
}

const model model_deepfm = {
    .name = "deepfm",
    .doc = "yes or no from features by field (libFM files), or any columns",
    .optimizer = "adam",
    .learning_rate = "0.001",
    .batch_size = 100,
    .uses = MODEL_HIDDEN | MODEL_FIELDS | MODEL_COLUMNS | MODEL_LOSS,
    .losses = MODEL_LOSSES,
    .build = build,
};
