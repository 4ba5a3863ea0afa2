/* layers_metrics.c - metrics that are a sum over another, with their state. */
#include "api/layer.h"
#include "flotilla/layers.h"

/* What a metric looks at: scores, and in the slot `other` what they are
   compared with. */
typedef struct metric {
    const char *op, *other;
    fl_var *x, *y;
    int64_t rows; /* of its state */
} metric;

static bool begin(fl_layer *l, const metric *m)
{
    return m->y && fl_layer_begin(l, m->x, m->op, NULL);
}

static fl_var *emit(fl_layer *l, const metric *m, fl_var **stat)
{
    const fl_shape shape = { .rank = 2, .dim = { m->rows, 2 } };
    fl_var *sums = fl_layer_state(l->ctx, l->block,
                                  fl_program_name(l->block->program, m->op),
                                  FL_DTYPE_F64, &shape, 0);

    if (!sums) {
        fl_layer_drop(l);
        return NULL;
    }
    fl_layer_in(l, "X", m->x);
    fl_layer_in(l, m->other, m->y);
    fl_layer_in(l, "Stat", sums);
    fl_layer_out(l, "Out", fl_layer_tmp(l));
    fl_layer_out(l, "StatOut", sums->name);
    if (stat)
        *stat = sums;
    return fl_layer_emit(l, m->op, NULL);
}

static fl_var *among_best(fl_var *scores, fl_var *label, int k, bool by_row,
                          fl_var **stat)
{
    const metric m = { "recall_at_k", "Label", scores, label, 1 };
    fl_layer l;

    if (!begin(&l, &m))
        return NULL;
    fl_layer_int(&l, "k", k);
    fl_layer_bool(&l, "by_row", by_row);
    return emit(&l, &m, stat);
}

fl_var *fl_layers_recall(fl_var *scores, fl_var *label, int k, fl_var **stat)
{
    return among_best(scores, label, k, false, stat);
}

fl_var *fl_layers_hit_rate(fl_var *scores, fl_var *label, int k, fl_var **stat)
{
    return among_best(scores, label, k, true, stat);
}

static fl_var *compare(metric m, fl_var **stat)
{
    fl_layer l;

    return begin(&l, &m) ? emit(&l, &m, stat) : NULL;
}

fl_var *fl_layers_pair_accuracy(fl_var *right, fl_var *wrong, fl_var **stat)
{
    return compare((metric){ "pair_accuracy", "Y", right, wrong, 1 }, stat);
}

fl_var *fl_layers_mean_log_loss(fl_var *input, fl_var *label, fl_var **stat)
{
    return compare((metric){ "mean_log_loss", "Label", input, label, 1 }, stat);
}

fl_var *fl_layers_class_accuracy(fl_var *scores, fl_var *label, fl_var **stat)
{
    int64_t n =
        scores && scores->meta.shape.rank == 2 ? scores->meta.shape.dim[1] : 1;

    return compare((metric){ "class_accuracy", "Label", scores, label, n },
                   stat);
}
