/* word2vec.c - words as vectors: skip-gram with negative sampling.
 *
 * A record is a word, a word near it and some words drawn at random. The word's
 * row of `emb` is to have a large product with the near word's row of `emb_w`,
 * and small ones with those of the others:
 *
 *     logit(word, other) = emb[word] . emb_w[other] + emb_b[other]
 *     loss = -log sigmoid(logit(near)) - sum log(1 - sigmoid(logit(drawn)))
 */
#include "models.h"

#include <stdio.h>

enum { NEGATIVES = 5, WIDTH = 64 };

/* Rows of the other words [n, width] and their bias [n, 1]. */
static fl_var *weights_of(fl_var *ids, int64_t width, fl_var **bias)
{
    *bias = fl_layers_sparse_embedding(ids, 1, .param.name = "emb_b",
                                       .param.init = "constant(0)");
    return fl_layers_sparse_embedding(ids, width, .param.name = "emb_w",
                                      .param.init = "constant(0)");
}

static fl_var *near_logits(fl_var *word, fl_var *near, int64_t width)
{
    fl_var *bias, *w = weights_of(near, width, &bias);
    fl_var *products = fl_layers_binary("elementwise_mul", word, w, NULL);

    return fl_layers_binary(
        "elementwise_add",
        fl_layers_unary("reduce_sum", products, "{dim=[1], keep_dim=true}"),
        bias, NULL);
}

static fl_var *drawn_logits(fl_var *word, fl_var *drawn, int64_t width)
{
    fl_var *ids = fl_layers_reshape(drawn, 2, (int64_t[]){ -1, 1 });
    fl_var *bias, *w = weights_of(ids, width, &bias), *products;

    w = fl_layers_reshape(w, 3, (int64_t[]){ -1, NEGATIVES, width });
    word = fl_layers_reshape(word, 3, (int64_t[]){ -1, 1, width });
    products = fl_layers_binary("matmul", word, w, "{transpose_Y=true}");
    return fl_layers_binary(
        "elementwise_add",
        fl_layers_reshape(products, 2, (int64_t[]){ -1, NEGATIVES }),
        fl_layers_reshape(bias, 2, (int64_t[]){ -1, NEGATIVES }), NULL);
}

/* Sum over the logits of a record, which are all to be of class `is_near`. */
static fl_var *cost_of(fl_var *logits, bool is_near)
{
    fl_var *label = fl_layers_scale(logits, 0, is_near), *cost;

    if (!label)
        return NULL;
    fl_var_stop_gradient(label);
    cost = fl_layers_sigmoid_cross_entropy_with_logits(logits, label);
    return fl_layers_unary("reduce_sum", cost, "{dim=[1], keep_dim=true}");
}

static void choose_format(const model_args *args, model_net *net)
{
    if (args->format)
        snprintf(net->format, sizeof(net->format), "%s", args->format);
    else
        snprintf(net->format, sizeof(net->format),
                 "word2vec:vocab=%s,negatives=%d",
                 args->vocab ? args->vocab : "", NEGATIVES);
}

static fl_status build(fl_ctx *c, const model_args *args, model_net *net)
{
    static const char *const names[] = { "input_word", "true_label",
                                         "neg_label" };
    int64_t width = args->width ? (int64_t)args->width : WIDTH;
    fl_var *ids[3], *word;
    char init[64];

    for (int i = 0; i < 3; i++) {
        net->feeds[i] = names[i];
        ids[i] = fl_layers_data(c, names[i], FL_DTYPE_I64, 2,
                                (int64_t[]){ -1, i < 2 ? 1 : NEGATIVES }, 0);
    }
    net->n_feeds = 3;
    choose_format(args, net);
    snprintf(init, sizeof(init), "uniform(%.9g,%.9g)", -0.5 / (double)width,
             0.5 / (double)width);
    word = fl_layers_sparse_embedding(ids[0], width, .param.name = "emb",
                                      .param.init = init);
    net->loss = fl_layers_mean(fl_layers_binary(
        "elementwise_add", cost_of(near_logits(word, ids[1], width), true),
        cost_of(drawn_logits(word, ids[2], width), false), NULL));
    return net->loss ? FL_OK : FL_ERR_INVAL;
}

const model model_word2vec = {
    .name = "word2vec",
    .doc = "word vectors from plain text: skip-gram, 5 negatives",
    .optimizer = "sgd",
    .learning_rate = "1.0",
    .decay = 0.999,
    .decay_steps = 100000,
    .batch_size = 100,
    .uses = MODEL_VOCAB,
    .build = build,
};
