/* tagspace.c - tags of short texts: texts and tags become points of one space,
 * where a text is to be nearer to its tag than to any other.
 *
 *  words -> rows -> 1000 filters over 5 words -> the most of each, tanh -> fc
 *
 *     loss = max(0, margin - cosine(tag) + the largest cosine of some others)
 */
#include "models.h"

#include <stdlib.h>

enum { TAGS = 20, WIDTH = 10, FILTERS = 1000, WINDOW = 5, NEGATIVES = 5 };
#define MARGIN 0.1
#define FAR 4 /* more than two cosines can differ by */

/* x [n, filters] and one number for each filter. */
static fl_var *biased(fl_ctx *c, fl_var *x, int64_t filters)
{
    fl_var *bias = fl_layers_create_parameter(
        c, .shape = { 1, { filters } }, .is_bias = true, .name = "filters_b");

    return fl_layers_binary("elementwise_add", x, bias, NULL);
}

static fl_var *text_of(fl_ctx *c, fl_var *words, int64_t width, int64_t filters)
{
    fl_var *rows = fl_layers_sparse_embedding(
        words, width, .param.name = "words", .param.init = "uniform(-0.1,0.1)");

    rows = fl_layers_sequence_pool(
        fl_layers_sequence_conv(rows, filters, .filter_size = WINDOW,
                                .no_bias = true),
        "max");
    /* The largest of some tanh is the tanh of the largest, and so it is with
       what is added to all of them. */
    return fl_layers_fc(fl_layers_tanh(biased(c, rows, filters)), width, );
}

/* The rows of all tags: [tags, width]. */
static fl_var *rows_of_tags(fl_ctx *c, int64_t tags, int64_t width)
{
    double *numbers = calloc((size_t)tags, sizeof(*numbers));
    fl_var *ids = NULL;

    for (int64_t i = 0; numbers && i < tags; i++)
        numbers[i] = (double)i;
    if (numbers)
        ids = fl_layers_assign_value(c, FL_DTYPE_I64, 2, (int64_t[]){ tags, 1 },
                                     numbers);
    free(numbers);
    return fl_layers_embedding(ids, tags, width, .param.name = "tag_rows",
                               .param.init = "uniform(-0.1,0.1)");
}

/* Cosines of every text with every tag: [n, tags]. */
static fl_var *cosines_of(fl_var *text, fl_var *tags)
{
    return fl_layers_binary("matmul", fl_layers_l2_normalize(text, 1),
                            fl_layers_l2_normalize(tags, 1),
                            "{transpose_Y=true}");
}

/* The largest cosine of a drawn share of the tags that are not the text's. */
static fl_var *hardest(fl_var *scores, fl_var *hot, double share)
{
    fl_var *ones = fl_layers_scale(hot, 0, 1), *drawn = ones;

    /* Examined are all of them: there dropout gives the share. */
    if (share < 1)
        drawn = fl_layers_clip(
            fl_layers_scale(fl_layers_dropout(ones, 1 - share), 1 / share, 0),
            0, 1);
    drawn = fl_layers_scale(
        fl_layers_binary("elementwise_sub", drawn, hot, NULL), FAR, -FAR);
    return fl_layers_unary(
        "reduce_max", fl_layers_binary("elementwise_add", scores, drawn, NULL),
        "{dim=[1], keep_dim=true}");
}

static fl_status build(fl_ctx *c, const model_args *args, model_net *net)
{
    int64_t width = args->width ? (int64_t)args->width : WIDTH;
    int64_t filters = args->hidden ? (int64_t)args->hidden : FILTERS;
    int64_t tags = args->items ? (int64_t)args->items : TAGS;
    double negatives = args->negatives ? (double)args->negatives : NEGATIVES;
    fl_var *label = model_ids(c, net, "tag", 1);
    fl_var *text = text_of(c, model_id_list(c, net, "text"), width, filters);
    fl_var *scores = cosines_of(text, rows_of_tags(c, tags, width)), *hot,
           *right, *wrong;

    hot = fl_layers_one_hot(label, tags);
    right = fl_layers_unary(
        "reduce_sum", fl_layers_binary("elementwise_mul", scores, hot, NULL),
        "{dim=[1], keep_dim=true}");
    wrong = hardest(scores, hot, negatives / (double)(tags - 1));
    net->loss = model_hinge(right, wrong, MARGIN);
    model_format(args, net, "csv:sep=tab,quote=no,columns=tag:id text:words");
    if (!net->loss)
        return fl_last_status();
    return model_made(
        fl_layers_class_accuracy(scores, label, model_report(net, "accuracy")));
}

const model model_tagspace = {
    .name = "tagspace",
    .doc = "the tag of a short text (tag, tab, text)",
    .optimizer = "adagrad",
    .learning_rate = "0.01",
    .batch_size = 5,
    .uses = MODEL_HIDDEN | MODEL_ITEMS | MODEL_NEGATIVES,
    .build = build,
};
