/* word2vec.c - words as vectors: skip-gram with negative sampling.
 *
 * By default a record is a sentence, and the operator skip_gram makes its pairs
 * of a word and one near it, with words drawn at random beside them: for each
 * pair ("pair") or for all pairs of a word ("shared"). The loss "network" writes
 * the same down operator by operator, with a bias more; there a record is a
 * pair. The word's row of `emb` is to have a large product with the near word's
 * row of `emb_w`, and small ones with those of the others:
 *
 *     logit(word, other) = emb[word] . emb_w[other] + emb_b[other]
 *     loss = -log sigmoid(logit(near)) - sum log(1 - sigmoid(logit(drawn)))
 */
#include "models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEGATIVES = 5, WIDTH = 64 };

#define RATE "0.025"
#define PATH_LEN_MAX 4096

/* --- operator by operator ------------------------------------------------- */

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

static fl_status build_network(fl_ctx *c, const model_args *args,
                               model_net *net)
{
    int64_t width = args->width ? (int64_t)args->width : WIDTH;
    fl_var *input = model_ids(c, net, "input_word", 1);
    fl_var *near = model_ids(c, net, "true_label", 1);
    fl_var *drawn = model_ids(c, net, "neg_label", NEGATIVES), *word, *cost;
    char init[64];

    model_format(args, net, "word2vec:vocab=%s,negatives=%d", args->vocab,
                 NEGATIVES);
    snprintf(init, sizeof(init), "uniform(%.9g,%.9g)", -0.5 / (double)width,
             0.5 / (double)width);
    word = fl_layers_sparse_embedding(input, width, .param.name = "emb",
                                      .param.init = init);
    cost = fl_layers_binary(
        "elementwise_add", cost_of(near_logits(word, near, width), true),
        cost_of(drawn_logits(word, drawn, width), false), NULL);
    net->loss = fl_layers_mean(cost);
    net->objective = fl_layers_reduce_sum(cost);
    return model_made(net->objective);
}

/* --- by sentences --------------------------------------------------------- */

/* The file of words: given, or named in the format. */
static const char *find_vocab(const model_args *args,
                              char path[static PATH_LEN_MAX])
{
    const char *at = args->format ? strstr(args->format, "vocab=") : NULL;

    if (args->vocab)
        return args->vocab;
    snprintf(path, PATH_LEN_MAX, "%s", at ? at + strlen("vocab=") : "");
    path[strcspn(path, ",")] = '\0';
    return path;
}

static fl_status build_sentences(fl_ctx *c, const model_args *args,
                                 model_net *net)
{
    const char *rate = args->learning_rate ? args->learning_rate : RATE;
    int64_t width = args->width ? (int64_t)args->width : WIDTH, n_words;
    fl_var *words = model_id_list(c, net, "words");
    fl_var *noise = model_id_list(c, net, "noise");
    char path[PATH_LEN_MAX];
    fl_status st = model_count_lines(find_vocab(args, path), &n_words);

    if (st)
        return st;
    model_format(args, net, "word2vec:vocab=%s", args->vocab);
    net->objective = fl_layers_skip_gram(
        words, noise, n_words, width, .negatives = &(int){ NEGATIVES },
        .shared = args->loss && !strcmp(args->loss, "shared"),
        .step = strtod(rate, NULL), .mean = &net->loss, .param.name = "emb",
        .target_param.name = "emb_w");
    return model_made(net->objective);
}

static fl_status build(fl_ctx *c, const model_args *args, model_net *net)
{
    if (args->loss && !strcmp(args->loss, "network"))
        return build_network(c, args, net);
    return build_sentences(c, args, net);
}

const model model_word2vec = {
    .name = "word2vec",
    .doc = "word vectors from plain text: skip-gram, 5 negatives",
    .optimizer = "sgd",
    .learning_rate = RATE,
    .batch_size = 100,
    .uses = MODEL_VOCAB | MODEL_LOSS,
    .losses = "pair shared network",
    .build = build,
};
