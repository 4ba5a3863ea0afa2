/* train_count.c - the numbers of a pass, over all workers.
 *
 * Samples, losses and the sums behind the model's metrics are added up, the time
 * is that of the slowest, and the AUC comes from the histograms of all.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train_job.h"

/* Nothing was counted when this worker had no data. */
static void copy_counts(const fl_tensor *t, bool is_counted, double *out)
{
    const int64_t *counts = t->data;

    for (int64_t i = 0; is_counted && i < fl_tensor_numel(t); i++)
        out[i] = (double)counts[i];
}

static fl_status add_up_auc(train_job *j, bool is_counted, double *out)
{
    fl_tensor pos, neg;
    double *counts;
    fl_status st;
    size_t n;

    if (!j->net.auc)
        return FL_OK;
    st = fl_scope_get(j->counts, fl_var_name(j->net.stat_pos), &pos);
    if (!st)
        st = fl_scope_get(j->counts, fl_var_name(j->net.stat_neg), &neg);
    if (st)
        return st;
    n = (size_t)fl_tensor_numel(&pos);
    counts = calloc(2 * n, sizeof(*counts));
    if (!counts)
        return FL_ERR_NOMEM;
    copy_counts(&pos, is_counted, counts);
    copy_counts(&neg, is_counted, counts + n);
    st = fl_fleet_metrics_auc(j->fleet, counts, counts + n, n, out);
    free(counts);
    return st;
}

static fl_status find_stat(const train_job *j, size_t i, fl_tensor *out)
{
    return fl_scope_get(j->counts, fl_var_name(j->net.metrics[i].stat), out);
}

fl_status train_clear_metrics(const train_job *j)
{
    fl_tensor t;

    for (size_t i = 0; i < j->net.n_metrics; i++) {
        fl_status st = find_stat(j, i, &t);

        if (st)
            return st;
        memset(t.data, 0, (size_t)fl_tensor_numel(&t) * sizeof(double));
    }
    return FL_OK;
}

train_figure train_figure_of(const char *name, double value)
{
    train_figure f = { .value = value, .least = NAN, .most = NAN };

    snprintf(f.name, sizeof(f.name), "%s", name);
    return f;
}

/* A figure of the pass; what is not known of it is NaN. */
static train_figure *add_figure(train_total *t, const char *name)
{
    train_figure *f = &t->figures[t->n++];

    *f = train_figure_of(name, NAN);
    return f;
}

/* From the sums of n classes. */
static void judge(const double *sums, size_t n, train_figure *out)
{
    double all[2] = { 0 };

    for (size_t i = 0; i < n; i++) {
        double share = sums[2 * i] / sums[2 * i + 1];

        all[0] += sums[2 * i];
        all[1] += sums[2 * i + 1];
        out->least = fmin(out->least, share);
        out->most = fmax(out->most, share);
    }
    out->value = all[0] / all[1];
}

static fl_status add_up_metric(train_job *j, size_t i, train_figure *out)
{
    fl_tensor t;
    fl_status st = find_stat(j, i, &t);
    double *sums;
    size_t n;

    if (st)
        return st;
    n = (size_t)fl_tensor_numel(&t);
    sums = malloc(n * sizeof(*sums));
    if (!sums)
        return FL_ERR_NOMEM;
    memcpy(sums, t.data, n * sizeof(*sums));
    st = fl_fleet_util_all_reduce(j->fleet, FL_REDUCE_SUM, sums, n);
    if (!st)
        judge(sums, n / 2, out);
    free(sums);
    return st;
}

static fl_status add_up_metrics(train_job *j, train_total *out)
{
    fl_status st = FL_OK;

    for (size_t i = 0; !st && i < j->net.n_metrics; i++) {
        train_figure *f = add_figure(out, j->net.metrics[i].name);

        f->less_is_better = j->net.metrics[i].is_error;
        st = add_up_metric(j, i, f);
    }
    return st;
}

/* The AUC decides which epoch is the best, else the first metric of the model,
   else the loss. */
static fl_status add_up_counts(train_job *j, bool is_counted, train_total *out)
{
    fl_status st = add_up_metrics(j, out);

    out->decides = out->n > 1;
    if (st || !j->net.auc)
        return st;
    out->decides = out->n;
    return add_up_auc(j, is_counted, &add_figure(out, "AUC")->value);
}

/* What the metrics have counted is not that of a pass which was made before: of
   that the loss is known, and in one process the AUC. */
static void forget_counts(train_total *t, const fl_dataset_report *r,
                          int n_workers)
{
    for (size_t i = 1; i < t->n; i++)
        t->figures[i].value = t->figures[i].least = t->figures[i].most = NAN;
    if (t->decides && n_workers == 1)
        t->figures[t->decides].value = r->auc;
}

enum { SAMPLES, LOSS, MADE_BEFORE, N_SUMS };

/* Samples, loss, and how many workers have made the pass before. */
static fl_status add_up_report(train_job *j, const fl_dataset_report *r,
                               train_total *out, double *n_before)
{
    double n = (double)r->samples;
    double sums[N_SUMS] = { n, n > 0 ? n * r->loss : 0, r->was_made_before };
    fl_status st =
        fl_fleet_util_all_reduce(j->fleet, FL_REDUCE_SUM, sums, N_SUMS);
    train_figure *loss;

    *out = (train_total){ .samples = sums[SAMPLES], .seconds = r->seconds };
    *n_before = sums[MADE_BEFORE];
    loss = add_figure(out, "loss");
    loss->less_is_better = true;
    if (out->samples > 0)
        loss->value = sums[LOSS] / out->samples;
    return st ? st
              : fl_fleet_util_all_reduce(j->fleet, FL_REDUCE_MAX, &out->seconds,
                                         1);
}

fl_status train_add_up(train_job *j, const fl_dataset_report *r,
                       train_total *out)
{
    int n_workers = fl_fleet_worker_num(j->fleet);
    double n_before;
    fl_status st = add_up_report(j, r, out, &n_before);

    if (!st)
        st = add_up_counts(j, r->samples > 0, out);
    out->was_made_before = n_before >= n_workers;
    out->is_counted = !(n_before > 0);
    if (n_before > 0)
        forget_counts(out, r, n_workers);
    return st;
}
