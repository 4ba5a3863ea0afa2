/* ctr_dnn.c - clicks from 26 categories and 13 numbers of a line.
 *
 *  C1 ... C26 -> one table, a row each --+
 *                                        +-> concat -> 400 -> 400 -> 400 -> 2
 *  dense [n, 13] ------------------------+             relu         softmax
 *
 * The table has no height: any 64-bit id is one, and a row is made when its id
 * is first seen. Weights begin with a spread of 1 / sqrt(inputs).
 */
#include "models.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N_SLOTS = 26, N_DENSE = 13, HIDDEN = 400, LAYERS = 3, WIDTH = 10 };

static const char *const names[N_SLOTS + 2] = {
    "dense", "C1",  "C2",  "C3",  "C4",  "C5",  "C6",  "C7",   "C8",  "C9",
    "C10",   "C11", "C12", "C13", "C14", "C15", "C16", "C17",  "C18", "C19",
    "C20",   "C21", "C22", "C23", "C24", "C25", "C26", "label"
};

static fl_var *layer(fl_var *x, int64_t n_in, int64_t n_out, const char *act)
{
    char init[64];

    snprintf(init, sizeof(init), "normal(0,%.9g)", 1 / sqrt((double)n_in));
    return fl_layers_fc(x, n_out, .act = act, .param.init = init);
}

static fl_var *embed(fl_ctx *c, fl_var **parts, int64_t width)
{
    const int64_t one[] = { -1, 1 }, dense[] = { -1, N_DENSE };

    for (int s = 0; s < N_SLOTS; s++)
        parts[s] = fl_layers_sparse_embedding(
            fl_layers_data(c, names[s + 1], FL_DTYPE_I64, 2, one, 0), width,
            .param.name = "SparseFeatFactors",
            .param.init = "uniform(-0.01,0.01)");
    parts[N_SLOTS] = fl_layers_data(c, names[0], FL_DTYPE_F32, 2, dense, 0);
    return fl_layers_concat(parts, N_SLOTS + 1, 1);
}

static fl_status build(fl_ctx *c, const model_args *args, model_net *net)
{
    int64_t width = args->width ? (int64_t)args->width : WIDTH;
    int64_t n_in = N_SLOTS * width + N_DENSE;
    fl_var *parts[N_SLOTS + 1], *label, *h = embed(c, parts, width);

    label =
        fl_layers_data(c, "label", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    for (int i = 0; i < LAYERS; i++, n_in = HIDDEN)
        h = layer(h, n_in, HIDDEN, "relu");
    net->prediction = layer(h, n_in, 2, "softmax");
    net->loss = fl_layers_mean(fl_layers_cross_entropy(net->prediction, label));
    net->auc =
        fl_layers_auc(net->prediction, label, NULL, .stat_pos = &net->stat_pos,
                      .stat_neg = &net->stat_neg);
    memcpy(net->feeds, names, sizeof(names));
    net->n_feeds = N_SLOTS + 2;
    snprintf(net->format, sizeof(net->format), "%s",
             args->format ? args->format : "criteo");
    return net->auc ? FL_OK : FL_ERR_INVAL;
}

const model model_ctr_dnn = {
    .name = "ctr_dnn",
    .doc = "clicks from 26 categories and 13 numbers (Criteo logs)",
    .optimizer = "adam",
    .learning_rate = "0.001",
    .batch_size = 500,
    .build = build,
};
