/* ctr_net.c - the click network, its batches, its worth. */
#include "ctr_net.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"

#define JOINED (CTR_SLOTS * CTR_DIM + CTR_DENSE)

enum { DENSE = CTR_SLOTS, LABEL };

const char *const ctr_feed_names[CTR_FEEDS] = {
    "C1",  "C2",  "C3",  "C4",  "C5",  "C6",  "C7",    "C8",   "C9",  "C10",
    "C11", "C12", "C13", "C14", "C15", "C16", "C17",   "C18",  "C19", "C20",
    "C21", "C22", "C23", "C24", "C25", "C26", "dense", "label"
};

static const int64_t widths[] = { JOINED, CTR_WIDTHS, CTR_CLASSES };

#define LAYER(n, in, out)                                                      \
    { "fc" #n "_w", in, out },                                                 \
    {                                                                          \
        "fc" #n "_b", out, 0                                                   \
    }
const ctr_part ctr_parts[CTR_PARTS] = {
    { "rows", CTR_ROWS, CTR_DIM },
#ifdef CTR_SMALL
    LAYER(1, JOINED, 64),
    LAYER(2, 64, 32),
    LAYER(3, 32, CTR_CLASSES),
#else
    LAYER(1, JOINED, 400),         LAYER(2, 400, 400), LAYER(3, 400, 400),
    LAYER(4, 400, CTR_CLASSES),
#endif
};

size_t ctr_part_size(const ctr_part *p)
{
    return (size_t)(p->rows * (p->width ? p->width : 1));
}

/* --- the network ---------------------------------------------------------- */

static fl_var *ids_of_slot(fl_ctx *c, const ctr_net_spec *spec, int slot)
{
    char init[64];
    fl_var *ids;

    snprintf(init, sizeof init, "uniform(%g,%g)", -CTR_ROW_RANGE,
             CTR_ROW_RANGE);
    ids = fl_layers_data(c, ctr_feed_names[slot], FL_DTYPE_I64, 2,
                         (int64_t[]){ -1, 1 }, 1);
    ids = fl_layers_embedding(ids, spec->rows ? spec->rows : CTR_ROWS, CTR_DIM,
                              .is_sparse = !spec->is_dense,
                              .is_distributed = spec->is_distributed,
                              .param = { .name = ctr_parts[0].name,
                                         .init = init,
                                         .frozen = spec->is_frozen });
    return fl_layers_sequence_pool(ids, "sum");
}

static fl_var *predictions(fl_ctx *c, const ctr_net_spec *spec)
{
    fl_var *parts[CTR_SLOTS + 1], *h;

    for (int s = 0; s < CTR_SLOTS; s++)
        parts[s] = ids_of_slot(c, spec, s);
    parts[CTR_SLOTS] = fl_layers_data(c, ctr_feed_names[DENSE], FL_DTYPE_F32, 2,
                                      (int64_t[]){ -1, CTR_DENSE }, 0);
    h = fl_layers_concat(parts, CTR_SLOTS + 1, 1);
    for (int l = 0; l <= CTR_LAYERS; l++)
        h = fl_layers_fc(h, widths[l + 1],
                         .act = l < CTR_LAYERS ? "relu" : "softmax",
                         .param = { .name = ctr_parts[2 * l + 1].name },
                         .bias = { .name = ctr_parts[2 * l + 2].name });
    return h;
}

ctr_net_names ctr_net_build(fl_ctx *c, const ctr_net_spec *spec)
{
    fl_var *predicted = predictions(c, spec), *loss;
    fl_optimizer *opt;

    loss = fl_layers_mean(fl_layers_cross_entropy(
        predicted, fl_layers_data(c, ctr_feed_names[LABEL], FL_DTYPE_I64, 2,
                                  (int64_t[]){ -1, 1 }, 0)));
    bench_check_new(loss, "building the network");
    if (spec->optimizer) {
        bench_check(fl_optimizer_new(&opt, c, spec->optimizer, spec->settings),
                    "making the optimizer");
        bench_check(fl_minimize(opt, loss), "minimize");
    }
    return (ctr_net_names){ fl_var_name(loss), fl_var_name(predicted) };
}

/* --- batches -------------------------------------------------------------- */

ctr_batch *ctr_batch_new(void)
{
    ctr_batch *l = bench_alloc(sizeof *l);

    for (int i = 0; i <= CTR_JOIN_MAX * CTR_BATCH; i++)
        l->offsets[i] = i;
    return l;
}

/* The ids of samples [lo, lo + n), turned so that each slot is one list. */
static void turn_ids(ctr_batch *to, const ctr_data *d, size_t lo, size_t n)
{
    const uint64_t *ids = d->ids + lo * CTR_SLOTS;

    for (size_t i = 0; i < n; i++, ids += CTR_SLOTS)
        for (int s = 0; s < CTR_SLOTS; s++)
            to->ids[s][i] = (int64_t)ids[s];
}

void ctr_batch_fill(ctr_batch *to, const ctr_data *d, size_t at, int n_joined,
                    fl_feed *feeds)
{
    size_t lo = at % (d->n / CTR_BATCH) * CTR_BATCH;
    size_t n = (size_t)n_joined * CTR_BATCH;
    const int64_t column[2] = { (int64_t)n, 1 };

    if (lo + n > d->n)
        lo = 0;
    turn_ids(to, d, lo, n);
    for (int s = 0; s < CTR_SLOTS; s++)
        feeds[s].value = fl_tensor_ragged(FL_DTYPE_I64, to->ids[s], 2, column,
                                          to->offsets, (int64_t)n);
    feeds[DENSE].value = fl_tensor_of(FL_DTYPE_F32, d->dense + lo * CTR_DENSE,
                                      2, (int64_t[]){ (int64_t)n, CTR_DENSE });
    feeds[LABEL].value = fl_tensor_of(FL_DTYPE_I64, d->labels + lo, 2, column);
    for (int i = 0; i < CTR_FEEDS; i++)
        feeds[i].name = ctr_feed_names[i];
}

/* --- judging -------------------------------------------------------------- */

struct ctr_judge {
    fl_ctx *ctx;
    fl_executor *exe;
    ctr_net_names names;
    ctr_batch *batch;
};

ctr_judge *ctr_judge_new(void)
{
    ctr_judge *j = bench_alloc(sizeof *j);

    bench_check(fl_ctx_new(&j->ctx), "settings");
    j->names = ctr_net_build(j->ctx, &(ctr_net_spec){ 0 });
    bench_check(fl_executor_new(&j->exe, j->ctx), "an executor");
    j->batch = ctr_batch_new();
    bench_check(fl_run(j->exe, fl_default_startup_program(j->ctx), NULL),
                "running the judge's startup program");
    return j;
}

void ctr_judge_free(ctr_judge *j)
{
    if (!j)
        return;
    fl_executor_free(j->exe);
    fl_ctx_free(j->ctx);
    free(j->batch);
    free(j);
}

void ctr_judge_set(ctr_judge *j, const ctr_part *p, const float *values)
{
    const int64_t dims[2] = { p->rows, p->width };
    fl_tensor t = fl_tensor_of(FL_DTYPE_F32, values, p->width ? 2 : 1, dims);

    bench_check(fl_scope_set(fl_current_scope(j->ctx), p->name, &t),
                "handing over a parameter");
}

typedef struct scored {
    float score;
    int label;
} scored;

static int by_score(const void *a, const void *b)
{
    float x = ((const scored *)a)->score, y = ((const scored *)b)->score;

    return (x > y) - (x < y);
}

/* The share of pairs of a click and none that are in order; equal scores
   count half. */
static double area(scored *x, size_t n)
{
    double clicks = 0, others = 0, in_order = 0;

    qsort(x, n, sizeof *x, by_score);
    for (size_t i = 0, end; i < n; i = end) {
        double here = 0;

        for (end = i; end < n && x[end].score == x[i].score; end++)
            here += x[end].label;
        in_order += here * (others + 0.5 * ((double)(end - i) - here));
        clicks += here;
        others += (double)(end - i) - here;
    }
    return in_order / (clicks * others);
}

static void score_batch(ctr_judge *j, const ctr_data *d, size_t at, scored *to)
{
    fl_feed feeds[CTR_FEEDS];
    fl_tensor out;
    fl_run_args args =
        FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = CTR_FEEDS,
                .fetches = &j->names.predicted, .n_fetches = 1, .out = &out);

    ctr_batch_fill(j->batch, d, at, 1, feeds);
    bench_check(fl_run(j->exe, fl_default_main_program(j->ctx), &args),
                "judging");
    for (size_t i = 0; i < CTR_BATCH; i++) {
        float score = ((const float *)out.data)[i * CTR_CLASSES + 1];

        if (!isfinite(score))
            bench_check(FL_ERR_INVAL, "a prediction that is no number");
        to[i] = (scored){ score, (int)d->labels[at * CTR_BATCH + i] };
    }
}

double ctr_judge_auc(ctr_judge *j, const ctr_data *d)
{
    scored *all = bench_alloc(d->n * sizeof *all);
    double auc;

    for (size_t at = 0; at < d->n / CTR_BATCH; at++)
        score_batch(j, d, at, all + at * CTR_BATCH);
    auc = area(all, d->n);
    free(all);
    return auc;
}

double ctr_best_auc(const ctr_data *d)
{
    scored *all = bench_alloc(d->n * sizeof *all);
    double auc;

    for (size_t i = 0; i < d->n; i++)
        all[i] = (scored){ d->odds[i], (int)d->labels[i] };
    auc = area(all, d->n);
    free(all);
    return auc;
}
