/* train_judge.h - which records `flotilla train` trains on and which it holds
 * out, and the measures that --metrics names of the latter. */
#ifndef FL_CMD_TRAIN_JUDGE_H
#define FL_CMD_TRAIN_JUDGE_H

#include "train_job.h"

/* Do --split, --key, --sample-negatives and --metrics make sense? With --split
   what is held out is of the data. CMD_OK, or CMD_USAGE after saying why not. */
int train_check_judge(const char *self, train_args *a);

/* Takes of the data what is trained on, or what is held out. */
typedef enum train_part { TRAIN_ON, TRAIN_HELD_OUT } train_part;
FL_MUST_CHECK
fl_status train_set_part(const train_job *j, train_part part, fl_dataset *d);

/* --- what --metrics names ---------------------------------------------------- */

/* Before the model is built; j->judge stays NULL when none is named. CMD_OK, or
   an exit code after saying what is wrong. */
int train_judge_open(train_job *j);
void train_judge_close(train_job *j);

/* The keys become feeds, where the model does not have them; and once it is
   built: can it do what was asked for? */
FL_MUST_CHECK
fl_status train_judge_add_keys(train_job *j);
int train_judge_check_model(const train_job *j);

/* Finds label and keys in what is held out. */
int train_judge_find(train_job *j);

/* An examination that hands its batches over. */
void train_judge_watch(train_job *j, fl_dataset_run_args *args);
/* Says why it was ended, if it was by a batch that cannot be judged; else
   CMD_OK. */
int train_judge_fault(const train_job *j);

/* Makes the measures of all workers the figures of an examination. */
FL_MUST_CHECK
fl_status train_judge_finish(train_job *j, train_total *out);

#endif
