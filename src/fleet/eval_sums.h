/* eval_sums.h - figures of samples that are sorted; no job, no state. */
#ifndef FL_FLEET_EVAL_SUMS_H
#define FL_FLEET_EVAL_SUMS_H

#include "flotilla/eval.h"

/* As it goes from worker to worker. */
typedef struct fl_sample {
    uint64_t group;
    float score;
    float label; /* 0 or 1, unless predictions are of numbers */
} fl_sample;

/* What adds up. Counts are whole numbers. */
#define FL_EVAL_SUMS(X)                                                        \
    X(samples)                                                                 \
    X(positives)                                                               \
    X(correct)                                                                 \
    X(score)                                                                   \
    X(label)                                                                   \
    X(abs_error)                                                               \
    X(square_error)                                                            \
    X(log_loss)                                                                \
    X(group_area)    /* of groups with both classes, times their samples */    \
    X(group_samples) /* of these */

typedef struct fl_eval_sums {
#define FL_EVAL_SUM(name) double name;
    FL_EVAL_SUMS(FL_EVAL_SUM)
#undef FL_EVAL_SUM
} fl_eval_sums;

/* Orders samples by group, score and label. */
void fl_samples_sort(fl_sample *samples, size_t n);

/* Of one group, whose samples are sorted by score. */
void fl_samples_add_up(const fl_sample *samples, size_t n, fl_eval_sums *out);
void fl_eval_sums_add(fl_eval_sums *to, const fl_eval_sums *from);

/* Area under the curve of samples that are sorted by score. */
double fl_samples_auc(const fl_sample *samples, size_t n);

/* Everything but auc and bucket_error. */
void fl_eval_figures_of(const fl_eval_sums *sums, fl_eval_figures *out);

/* Scores in steps of one in so many. */
#define FL_EVAL_STEPS 100000
size_t fl_eval_step_of(float score);

/* From how many samples and how many positives are at each step. */
double fl_eval_bucket_error(const double *samples, const double *positives);

#endif
