/* ssr.c - does an item go with a session? Both become vectors, and the item
 * that came next is to be nearer to the session than one that is drawn.
 *
 *  items -> rows -> fc -> GRU -> the most of each -> fc --+
 *                                                         +-> cosine
 *  the last of `next`, or of `drawn` -> row --------> fc --+
 *
 *     loss = max(0, margin - cosine(next) + cosine(drawn))
 *
 * Sessions are cut at a click that is drawn anew in every pass: items that never
 * were the last of a session would not be learnt otherwise.
 */
#include "models.h"

enum { ITEMS = 43098, WIDTH = 128, HIDDEN = 128 };
#define MARGIN 0.8

static fl_var *rows_of(fl_var *ids, int64_t items, int64_t width)
{
    return fl_layers_embedding(
        ids, items, width, .is_sparse = true,
        .param = { .name = "item_rows", .init = "uniform(-0.01,0.01)" });
}

static fl_var *session_of(fl_var *rows, int64_t hidden)
{
    fl_var *states =
        fl_layers_dynamic_gru(fl_layers_fc(rows, 3 * hidden, ), hidden);

    return fl_layers_fc(fl_layers_sequence_pool(states, "max"), hidden, );
}

/* The session ends before the last of what follows its items. */
static fl_var *item_of(fl_var *rows, int64_t hidden)
{
    return fl_layers_fc(fl_layers_sequence_pool(rows, "last"), hidden,
                        .param.name = "item_w", .bias.name = "item_b");
}

static fl_status build(fl_ctx *c, const model_args *args, model_net *net)
{
    int64_t width = args->width ? (int64_t)args->width : WIDTH;
    int64_t hidden = args->hidden ? (int64_t)args->hidden : HIDDEN;
    int64_t items = args->items ? (int64_t)args->items : ITEMS;
    fl_var *session, *right, *wrong;

    session = session_of(rows_of(model_id_list(c, net, "items"), items, width),
                         hidden);
    right =
        item_of(rows_of(model_id_list(c, net, "next"), items, width), hidden);
    wrong =
        item_of(rows_of(model_id_list(c, net, "drawn"), items, width), hidden);
    right = fl_layers_cos_sim(session, right);
    wrong = fl_layers_cos_sim(session, wrong);
    net->loss = model_hinge(right, wrong, MARGIN);
    model_format(args, net, "sessions:items=%lld,negatives=1,cut=yes",
                 (long long)items);
    if (!net->loss)
        return fl_last_status();
    return model_made(fl_layers_pair_accuracy(
        right, wrong, model_report(net, "pair accuracy")));
}

const model model_ssr = {
    .name = "ssr",
    .doc = "which item goes with a session (sessions)",
    .optimizer = "adagrad",
    .learning_rate = "0.01",
    .batch_size = 50,
    .uses = MODEL_HIDDEN | MODEL_ITEMS,
    .build = build,
};
