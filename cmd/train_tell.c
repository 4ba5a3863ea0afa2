/* train_tell.c - what `flotilla train` prints. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train_job.h"

void train_say(const train_job *j, const char *line)
{
    fl_fleet_util_print_on_rank(j->fleet, 0, line);
    fflush(stdout);
}

/* ", log loss 0.4512", ", accuracy 0.6512 (by class 0.4000 to 0.8100)". */
static void print_metric(const train_job *j, size_t i, const train_total *t,
                         char *out, size_t cap)
{
    int n =
        snprintf(out, cap, ", %s %.4f", j->net.metrics[i].name, t->value[i]);

    if (n > 0 && (size_t)n < cap && t->least[i] < t->most[i])
        snprintf(out + n, cap - (size_t)n, " (by class %.4f to %.4f)",
                 t->least[i], t->most[i]);
}

void train_tell(const train_job *j, const char *what, const train_total *t)
{
    char line[512], auc[32] = "";
    size_t len;

    if (!isnan(t->auc))
        snprintf(auc, sizeof(auc), ", AUC %.4f", t->auc);
    snprintf(line, sizeof(line), "%s: %.0f samples, %.0f samples/s, loss %.4f",
             what, t->samples,
             t->samples / (t->seconds > 1e-9 ? t->seconds : 1e-9), t->loss);
    for (size_t i = 0; i < j->net.n_metrics; i++) {
        len = strlen(line);
        print_metric(j, i, t, line + len, sizeof(line) - len);
    }
    len = strlen(line);
    snprintf(line + len, sizeof(line) - len, "%s", auc);
    train_say(j, line);
}

void train_tell_start(const train_job *j)
{
    const train_args *a = j->args;
    char line[256], job_text[96] = "in one process";

    if (fl_fleet_server_num(j->fleet))
        snprintf(job_text, sizeof(job_text),
                 "in mode %s, servers %d, workers %d", a->mode,
                 fl_fleet_server_num(j->fleet), fl_fleet_worker_num(j->fleet));
    snprintf(line, sizeof(line),
             "training %s %s: batch %" PRIu64 ", threads %" PRIu64,
             a->model->name, job_text, a->batch, a->threads);
    train_say(j, line);
}
