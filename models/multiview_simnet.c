/* multiview_simnet.c - do two texts belong together? Each is seen in two ways,
 * as words and as letter trigrams, and becomes a vector.
 *
 *  words ----> rows -> encoder --+
 *                                +-> concat -> softsign -> fc -> cosine of both
 *  trigrams -> rows -> encoder --+
 *
 * Encoders, one for all views: bow adds the rows up, cnn has filters over three
 * rows and takes the most of each, gru the most of each state.
 *
 * A title is to be nearer to its own description than to another one of its
 * batch: the descriptions are shuffled.
 *
 *     loss = max(0, margin - cosine(own) + cosine(other))
 */
#include "models.h"

#include <string.h>

enum { WIDTH = 128, HIDDEN = 128, WINDOW = 3, N_VIEWS = 2 };
#define MARGIN 0.1

static fl_var *bow(fl_var *rows, int64_t size)
{
    (void)size;
    return fl_layers_sequence_pool(rows, "sum");
}

static fl_var *cnn(fl_var *rows, int64_t size)
{
    return fl_layers_sequence_conv_pool(rows, size, WINDOW, .act = "tanh",
                                        .param.name = "cnn_w",
                                        .bias.name = "cnn_b");
}

static fl_var *gru(fl_var *rows, int64_t size)
{
    fl_var *gates =
        fl_layers_fc(rows, 3 * size, .param.name = "gates_w", .no_bias = true);
    fl_var *states = fl_layers_dynamic_gru(gates, size, .param.name = "gru_w",
                                           .bias.name = "gru_b");

    return fl_layers_sequence_pool(states, "max");
}

/* Rows of a text to one; the first is taken unless another is asked for. */
typedef struct encoder {
    const char *name;
    fl_var *(*of)(fl_var *rows, int64_t size);
} encoder;

static const encoder encoders[] = { { "bow", bow },
                                    { "cnn", cnn },
                                    { "gru", gru } };

typedef struct sizes {
    int64_t width, hidden;
    const encoder *encoder;
} sizes;

static sizes sizes_of(const model_args *args)
{
    sizes s = { WIDTH, HIDDEN, encoders };

    s.width = args->width ? (int64_t)args->width : s.width;
    s.hidden = args->hidden ? (int64_t)args->hidden : s.hidden;
    while (args->encoder && strcmp(s.encoder->name, args->encoder) != 0)
        s.encoder++;
    return s;
}

static fl_var *view_of(fl_var *ids, const sizes *s)
{
    fl_var *rows =
        fl_layers_sparse_embedding(ids, s->width, .param.name = "texts",
                                   .param.init = "uniform(-0.1,0.1)");

    return s->encoder->of(rows, s->hidden);
}

static fl_var *text_of(fl_ctx *c, model_net *net, const char *const *names,
                       const sizes *s)
{
    fl_var *views[N_VIEWS];

    for (int i = 0; i < N_VIEWS; i++)
        views[i] = view_of(model_id_list(c, net, names[i]), s);
    return model_fc(fl_layers_softsign(fl_layers_concat(views, N_VIEWS, 1)),
                    s->hidden, NULL);
}

static fl_status build(fl_ctx *c, const model_args *args, model_net *net)
{
    static const char *const of_title[] = { "title", "title.trigrams" };
    static const char *const of_description[] = { "description",
                                                  "description.trigrams" };
    const sizes s = sizes_of(args);
    fl_var *title = text_of(c, net, of_title, &s);
    fl_var *own = text_of(c, net, of_description, &s);
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
    .uses = MODEL_HIDDEN | MODEL_ENCODER,
    .encoders = "bow cnn gru",
    .build = build,
};
