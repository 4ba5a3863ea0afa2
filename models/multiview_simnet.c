/* multiview_simnet.c - do two texts belong together? Each is seen in two ways,
 * as words and as letter trigrams, and becomes a vector.
 *
 *  words ----> rows -> sum --+
 *                            +-> concat -> softsign -> fc -> cosine of both
 *  trigrams -> rows -> sum --+
 *
 * A title is to be nearer to its own description than to another one of its
 * batch: the descriptions are shuffled.
 *
 *     loss = max(0, margin - cosine(own) + cosine(other))
 */
#include "models.h"

enum { WIDTH = 128, HIDDEN = 128, N_VIEWS = 2 };
#define MARGIN 0.1

static fl_var *view_of(fl_var *ids, int64_t width)
{
    fl_var *rows = fl_layers_sparse_embedding(
        ids, width, .param.name = "texts", .param.init = "uniform(-0.1,0.1)");

    return fl_layers_sequence_pool(rows, "sum");
}

static fl_var *text_of(fl_ctx *c, model_net *net, const char *const *names,
                       int64_t width, int64_t hidden)
{
    fl_var *views[N_VIEWS];

    for (int i = 0; i < N_VIEWS; i++)
        views[i] = view_of(model_id_list(c, net, names[i]), width);
    return model_fc(fl_layers_softsign(fl_layers_concat(views, N_VIEWS, 1)),
                    hidden, NULL);
}

static fl_status build(fl_ctx *c, const model_args *args, model_net *net)
{
    static const char *const of_title[] = { "title", "title.trigrams" };
    static const char *const of_description[] = { "description",
                                                  "description.trigrams" };
    int64_t width = args->width ? (int64_t)args->width : WIDTH;
    int64_t hidden = args->hidden ? (int64_t)args->hidden : HIDDEN;
    fl_var *title = text_of(c, net, of_title, width, hidden);
    fl_var *own = text_of(c, net, of_description, width, hidden);
    fl_var *right = fl_layers_cos_sim(title, own), *wrong;

    wrong = fl_layers_cos_sim(title, fl_layers_shuffle_batch(own, 0, NULL));
    net->loss = model_hinge(right, wrong, MARGIN);
    model_format(args, net,
                 "csv:columns=:skip title:words+trigrams "
                 "description:words+trigrams,shared=yes");
    if (!net->loss)
        return fl_last_status();
    return model_made(fl_layers_pair_accuracy(
        right, wrong, model_report(net, "pair accuracy")));
}

const model model_multiview_simnet = {
    .name = "multiview_simnet",
    .doc = "which texts belong together (class, title, description)",
    .optimizer = "adam",
    .learning_rate = "0.001",
    .batch_size = 128,
    .uses = MODEL_HIDDEN,
    .build = build,
};
