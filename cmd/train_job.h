/* train_job.h - one process of `flotilla train`, as its files share it. */
#ifndef FL_CMD_TRAIN_JOB_H
#define FL_CMD_TRAIN_JOB_H

#include <stdio.h>

#include "train.h"

/* --- numbers of a pass ------------------------------------------------------ */

/* One number that says how good a model is. */
#define TRAIN_NAME_BYTES 128
typedef struct train_figure {
    char name[TRAIN_NAME_BYTES];
    double value; /* NaN: not known */
    bool less_is_better;
    /* Of its classes the least and the most; NaN: it has none. */
    double least, most;
} train_figure;

#define TRAIN_JUDGED_MAX 16 /* that --metrics may name */
#define TRAIN_FIGURES_MAX (MODEL_METRICS_MAX + 2 + TRAIN_JUDGED_MAX)

/* Of all workers. */
typedef struct train_total {
    double samples, seconds;
    bool was_made_before; /* by the run that this one goes on from */
    bool is_counted;      /* by this run, in all workers */
    train_figure figures[TRAIN_FIGURES_MAX]; /* the first is the loss */
    size_t n;
    size_t decides; /* the figure that epochs are compared by */
} train_total;

/* An epoch: training, and what was held out behind it. */
typedef struct train_epoch {
    train_total trained;
    train_total held_out; /* without samples: nothing was */
} train_epoch;

struct train_result {
    train_total held_out;
    size_t epoch;
};

typedef struct train_history {
    train_epoch *epochs;
    size_t n, best; /* best: the index, 0 without an epoch */
} train_history;

typedef struct train_judge train_judge;

typedef struct train_job {
    const char *self;
    const train_args *args;
    fl_ctx *ctx;
    fl_fleet *fleet;
    fl_executor *exe;
    fl_dataset *test; /* NULL: none */
    fl_scope *counts; /* where the metrics count */
    model_net net;
    train_judge *judge; /* NULL: --metrics names none */
    train_history history;
} train_job;

/* Says what could not be done and why; returns CMD_FAILED. */
int train_fail(const train_job *j, const char *what);

/* Is this one process of several? */
bool train_is_job(const train_job *j);

/* --- program texts (train_text.c, train_dump.c) ------------------------------ */

/* Reads the text into the default programs and finds the net in it. CMD_OK, or
   CMD_FAILED after saying why. */
int train_text_build(train_job *j, bool *is_minimized);

/* Writes the program that was built, for others to edit. */
int train_dump(const train_job *j);

/* --- over all workers (train_count.c) --------------------------------------- */

/* One without classes, of which more is better. */
train_figure train_figure_of(const char *name, double value);

/* Metrics are counted from zero in every pass. */
FL_MUST_CHECK
fl_status train_clear_metrics(const train_job *j);

/* All workers call it, each with the numbers of its own pass. */
FL_MUST_CHECK
fl_status train_add_up(train_job *j, const fl_dataset_report *r,
                       train_total *out);

/* --- the record of the run (train_record.c) --------------------------------- */

/* The run is told of where it was asked for, once its role is known. */
FL_MUST_CHECK
fl_status train_begin_record(const train_job *j);

/* Adds what all workers together have of what the option names. */
FL_MUST_CHECK
fl_status train_record_total(const train_job *j, const char *option,
                             const train_total *t);

/* --- epochs side by side (train_best.c) ------------------------------------- */

/* Is a better than b? Where the figure that decides is not known of both, the
   loss decides. */
bool train_is_better(const train_total *a, const train_total *b);

/* Adds an epoch; false: no memory. Is the last one the best so far? */
FL_MUST_CHECK
bool train_history_add(train_history *h, const train_epoch *e);
bool train_history_is_best(const train_history *h);

/* --- what is printed, by one worker (train_tell.c) -------------------------- */

void train_say(const train_job *j, const char *line);
/* "WHAT: 800 samples, 9000 samples/s, loss 0.5, AUC 0.7". */
void train_tell(const train_job *j, const char *what, const train_total *t);
/* The same of an epoch, with what was held out behind it. */
void train_tell_epoch(const train_job *j, const train_epoch *e);
/* All epochs as a table, and the best one. */
void train_tell_history(const train_job *j);
/* Columns of a table: the names of figures, and their values. */
void train_print_names(FILE *to, const train_total *t);
void train_print_values(FILE *to, const train_total *t);
/* What is trained, and how. */
void train_tell_start(const train_job *j);

/* --- passes over the data (train_epochs.c) ---------------------------------- */

/* Trains, examines behind each epoch and saves the best one, or the last when
   nothing is examined. CMD_OK, or CMD_FAILED after saying why. */
int train_epochs(train_job *j, fl_dataset *d);

#endif
