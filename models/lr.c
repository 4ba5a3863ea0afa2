/* lr.c - logistic regression: a weight for each number and each category, added
 * up. The first model to try, and what any other has to beat.
 */
#include "columns.h"

static fl_status build(fl_ctx *c, const model_args *args, model_net *net)
{
    model_columns columns;
    fl_status st;

    model_format(args, net, "csv");
    st = model_open_columns(c, args, net, &columns);
    return st ? st
              : model_judge(args, net, model_line(&columns), columns.label);
}

const model model_lr = {
    .name = "lr",
    .doc = "yes or no from any columns, by a weight for each (--format csv)",
    .optimizer = "adam",
    .learning_rate = "0.001",
    .batch_size = 100,
    .uses = MODEL_COLUMNS | MODEL_NEEDS_COLUMNS | MODEL_LOSS,
    .losses = MODEL_LOSSES,
    .build = build,
};
