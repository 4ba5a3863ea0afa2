/* gru4rec.c - what will somebody click on next? A recurrent network over the
 * items of a session.
 *
 *  items -> rows -> fc -> GRU -> one state per click
 *
 * Loss full: a layer over all items above the state, softmax, cross entropy.
 * Losses bpr and sampled choose among the next item and some that are drawn:
 * the score of an item is the product of its row with the state, so the table
 * is all that has to know the items, and only rows of a batch are touched.
 */
#include "models.h"

#include <string.h>

enum { ITEMS = 43098, WIDTH = 100, HIDDEN = 100, NEGATIVES = 100, BEST = 20 };
#define INIT "uniform(-0.04,0.04)"
#define DROPOUT 0.2

typedef struct sizes {
    int64_t items, width, hidden, negatives;
} sizes;

static sizes sizes_of(const model_args *args)
{
    sizes s = { ITEMS, WIDTH, HIDDEN, NEGATIVES };

    s.items = args->items ? (int64_t)args->items : s.items;
    s.width = args->width ? (int64_t)args->width : s.width;
    s.hidden = args->hidden ? (int64_t)args->hidden : s.hidden;
    s.negatives = args->negatives ? (int64_t)args->negatives : s.negatives;
    return s;
}

static fl_var *rows_of(fl_var *ids, const sizes *s)
{
    return fl_layers_embedding(
        ids, s->items, s->width, .is_sparse = true,
        .param = { .name = "item_rows", .init = INIT, .learning_rate = 10 });
}

static fl_var *states_of(fl_var *rows, int64_t width)
{
    return fl_layers_dynamic_gru(
        fl_layers_fc(rows, 3 * width, .param.init = INIT), width,
        .param.init = INIT);
}

/* [n, 1 + negatives]: the next item is the first. */
static fl_var *scores_of(fl_var *states, fl_var *next, fl_var *drawn,
                         const sizes *s)
{
    fl_var *near =
        fl_layers_binary("elementwise_mul", states, rows_of(next, s), NULL);
    fl_var *others = fl_layers_reshape(
        rows_of(drawn, s), 3, (int64_t[]){ -1, s->negatives, s->width });
    fl_var *state =
        fl_layers_reshape(states, 3, (int64_t[]){ -1, 1, s->width });
    fl_var *parts[2];

    parts[0] = fl_layers_unary("reduce_sum", near, "{dim=[1], keep_dim=true}");
    parts[1] = fl_layers_reshape(
        fl_layers_binary("matmul", state, others, "{transpose_Y=true}"), 2,
        (int64_t[]){ -1, s->negatives });
    return fl_layers_concat(parts, 2, 1);
}

static fl_status among_drawn(fl_ctx *c, const model_args *args, model_net *net,
                             const sizes *s)
{
    fl_var *rows = rows_of(model_id_list(c, net, "items"), s);
    fl_var *states = states_of(fl_layers_dropout(rows, DROPOUT), s->width);
    fl_var *next = model_id_list(c, net, "next");
    fl_var *scores = scores_of(states, next, model_id_list(c, net, "drawn"), s);
    fl_var *first = fl_layers_scale(next, 0, 0);

    net->loss = fl_layers_mean(
        strcmp(args->loss, "bpr")
            ? fl_layers_softmax_with_cross_entropy(scores, first, NULL)
            : fl_layers_bpr_loss(scores, first));
    model_format(args, net, "sessions:items=%lld,negatives=%lld",
                 (long long)s->items, (long long)s->negatives);
    if (!net->loss)
        return fl_last_status();
    return model_made(fl_layers_recall(
        scores, first, BEST, model_report(net, "recall@20 among drawn ones")));
}

static fl_status among_all(fl_ctx *c, const model_args *args, model_net *net,
                           const sizes *s)
{
    fl_var *rows = rows_of(model_id_list(c, net, "items"), s);
    fl_var *next = model_id_list(c, net, "next");
    fl_var *scores =
        fl_layers_fc(states_of(rows, s->hidden), s->items, .param.init = INIT);

    /* Read before the loss, so that what follows may take their place. */
    if (!fl_layers_recall(scores, next, BEST, model_report(net, "recall@20")))
        return fl_last_status();
    net->loss = fl_layers_mean(
        fl_layers_softmax_with_cross_entropy(scores, next, NULL));
    model_format(args, net, "sessions:items=%lld", (long long)s->items);
    return model_made(net->loss);
}

static fl_status build(fl_ctx *c, const model_args *args, model_net *net)
{
    sizes s = sizes_of(args);

    if (!args->loss || !strcmp(args->loss, "full"))
        return among_all(c, args, net, &s);
    return among_drawn(c, args, net, &s);
}

const model model_gru4rec = {
    .name = "gru4rec",
    .doc = "the next item of a session (sessions)",
    .optimizer = "adagrad",
    .learning_rate = "0.01",
    .batch_size = 50,
    .uses = MODEL_LOSS | MODEL_HIDDEN | MODEL_ITEMS | MODEL_NEGATIVES,
    .losses = "full bpr sampled",
    .build = build,
};
