/* ctr_dnn.c - clicks from 26 categories and 13 numbers of a line.
 *
 *  C1 ... C26 -> one table, a row each --+
 *                                        +-> concat -> 400 -> 400 -> 400 -> 2
 *  dense [n, 13] ------------------------+             relu         softmax
 *
 * The table has no height: any 64-bit id is one, and a row is made when its id
 * is first seen. Weights begin with a spread of 1 / sqrt(inputs). Where the data
 * is described, any columns take the place of these.
 */
#include "columns.h"

enum { N_SLOTS = 26, N_DENSE = 13, HIDDEN = 400, LAYERS = 3, WIDTH = 10 };

static const char *const slots[N_SLOTS] = {
    "C1",  "C2",  "C3",  "C4",  "C5",  "C6",  "C7",  "C8",  "C9",
    "C10", "C11", "C12", "C13", "C14", "C15", "C16", "C17", "C18",
    "C19", "C20", "C21", "C22", "C23", "C24", "C25", "C26"
};

static fl_var *embed(fl_ctx *c, const model_args *args, model_net *net,
                     int64_t width)
{
    fl_var *parts[N_SLOTS + 1];

    parts[N_SLOTS] = model_floats(c, net, "dense", N_DENSE);
    for (int s = 0; s < N_SLOTS; s++)
        parts[s] = fl_layers_sparse_embedding(
            model_ids(c, net, slots[s], 1), width,
            .accessor = args->ctr ? "ctr" : NULL, .table = args->ctr,
            .param.name = "SparseFeatFactors",
            .param.init = "uniform(-0.01,0.01)");
    return fl_layers_concat(parts, N_SLOTS + 1, 1);
}

static fl_var *embed_any(const model_args *args, const model_columns *columns,
                         int64_t width)
{
    fl_var *rows = model_rows(
        columns, width,
        FL_OPTIONS(fl_layers_embedding_args, .is_distributed = true,
                   .accessor = args->ctr ? "ctr" : NULL, .table = args->ctr,
                   .param.name = "SparseFeatFactors",
                   .param.init = "uniform(-0.01,0.01)"));

    return model_beside(columns, rows, width);
}

static fl_status judge(const model_args *args, model_net *net, fl_var *h,
                       fl_var *label)
{
    int64_t hidden = args->hidden ? (int64_t)args->hidden : HIDDEN;

    for (int i = 0; i < LAYERS; i++)
        h = model_fc(h, hidden, "relu");
    if (net->keep_negatives > 0)
        return model_judge_clicks(net, model_fc(h, 1, NULL), label);
    if (label)
        net->label = fl_var_name(label);
    label = fl_layers_cast(label, FL_DTYPE_I64);
    net->prediction = model_fc(h, 2, "softmax");
    net->loss = fl_layers_mean(fl_layers_cross_entropy(net->prediction, label));
    net->auc =
        fl_layers_auc(net->prediction, label, NULL, .stat_pos = &net->stat_pos,
                      .stat_neg = &net->stat_neg);
    if (!net->auc)
        return fl_last_status();
    return model_made(fl_layers_mean_log_loss(
        net->prediction, label, model_report_error(net, "log loss")));
}

static fl_status build_any(fl_ctx *c, const model_args *args, model_net *net,
                           int64_t width)
{
    model_columns columns;
    fl_status st = model_open_columns(c, args, net, &columns);

    if (st)
        return st;
    return judge(args, net, embed_any(args, &columns, width), columns.label);
}

static fl_status build(fl_ctx *c, const model_args *args, model_net *net)
{
    int64_t width = args->width ? (int64_t)args->width : WIDTH;
    fl_var *h;

    model_format(args, net, "criteo");
    if (model_has_columns(args))
        return build_any(c, args, net, width);
    h = embed(c, args, net, width);
    return judge(args, net, h, model_ids(c, net, "label", 1));
}

const model model_ctr_dnn = {
    .name = "ctr_dnn",
    .doc = "clicks from 26 categories and 13 numbers (Criteo), or any columns",
    .optimizer = "adam",
    .learning_rate = "0.001",
    .batch_size = 500,
    .uses = MODEL_HIDDEN | MODEL_CTR | MODEL_COLUMNS,
    .build = build,
};
