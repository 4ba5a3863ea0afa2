/* train_count.c - the numbers of a pass, over all workers.
 *
 * Samples, losses and the sums behind the model's metrics are added up, the time
 * is that of the slowest, and the AUC comes from the histograms of all.
 */
#include <math.h>
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

/* From the sums of n classes. */
static void judge(const double *sums, int64_t n, size_t metric,
                  train_total *out)
{
    double all[2] = { 0 };

    out->least[metric] = out->most[metric] = NAN;
    for (int64_t i = 0; i < n; i++) {
        double share = sums[2 * i] / sums[2 * i + 1];

        all[0] += sums[2 * i];
        all[1] += sums[2 * i + 1];
        out->least[metric] = fmin(out->least[metric], share);
        out->most[metric] = fmax(out->most[metric], share);
    }
    out->value[metric] = all[0] / all[1];
}

static fl_status add_up_metric(train_job *j, size_t i, train_total *out)
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
        judge(sums, (int64_t)n / 2, i, out);
    free(sums);
    return st;
}

static fl_status add_up_metrics(train_job *j, train_total *out)
{
    fl_status st = FL_OK;

    for (size_t i = 0; !st && i < j->net.n_metrics; i++)
        st = add_up_metric(j, i, out);
    return st;
}

fl_status train_add_up(train_job *j, const fl_dataset_report *r,
                       train_total *out)
{
    double n = (double)r->samples, sums[] = { n, n > 0 ? n * r->loss : 0 };
    fl_status st = fl_fleet_util_all_reduce(j->fleet, FL_REDUCE_SUM, sums, 2);

    *out =
        (train_total){ .samples = sums[0], .seconds = r->seconds, .auc = NAN };
    out->loss = sums[0] > 0 ? sums[1] / sums[0] : NAN;
    if (!st)
        st =
            fl_fleet_util_all_reduce(j->fleet, FL_REDUCE_MAX, &out->seconds, 1);
    if (!st)
        st = add_up_auc(j, n > 0, &out->auc);
    return st ? st : add_up_metrics(j, out);
}
