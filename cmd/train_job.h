/* train_job.h - one process of `flotilla train`, as its files share it. */
#ifndef FL_CMD_TRAIN_JOB_H
#define FL_CMD_TRAIN_JOB_H

#include "train.h"

typedef struct train_job {
    const char *self;
    const train_args *args;
    fl_ctx *ctx;
    fl_fleet *fleet;
    fl_executor *exe;
    fl_dataset *test; /* NULL: none */
    fl_scope *counts; /* where the metrics count */
    model_net net;
} train_job;

/* Says what could not be done and why; returns CMD_FAILED. */
int train_fail(const train_job *j, const char *what);

/* --- numbers of a pass (train_count.c) -------------------------------------- */

/* Of all workers. */
typedef struct train_total {
    double samples, loss, seconds;
    double auc; /* NaN: the model has none */
    /* Of each metric the value, and of its classes the least and the most. */
    double value[MODEL_METRICS_MAX];
    double least[MODEL_METRICS_MAX], most[MODEL_METRICS_MAX];
} train_total;

/* Metrics are counted from zero in every pass. */
FL_MUST_CHECK
fl_status train_clear_metrics(const train_job *j);

/* All workers call it, each with the numbers of its own pass. */
FL_MUST_CHECK
fl_status train_add_up(train_job *j, const fl_dataset_report *r,
                       train_total *out);

/* --- what is printed, by one worker (train_tell.c) -------------------------- */

void train_say(const train_job *j, const char *line);
void train_tell(const train_job *j, const char *what, const train_total *t);
/* What is trained, and how. */
void train_tell_start(const train_job *j);

/* --- passes over the data (train_epochs.c) ---------------------------------- */

/* Each is CMD_OK, or CMD_FAILED after saying why. */
int train_epochs(train_job *j, fl_dataset *d);
int train_examine(train_job *j);

#endif
