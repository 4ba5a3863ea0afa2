/* metrics.h - the parts of a model's measures that need no job.
 *
 * The exact area under the curve counts pairs: of a positive and a negative the
 * one with the higher score wins, and equal scores share. Over all pairs, with
 * P positives and N negatives,
 *
 *     AUC = (pairs that the positive wins + half of the equal ones) / (P N)
 *
 * and such a count may be made in parts: those of some scores of one class
 * against some of the other, whoever has them. All counts are of halves, so
 * that they are whole numbers. No state; any thread.
 */
#ifndef FL_FLEET_METRICS_H
#define FL_FLEET_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Of two histograms, by trapezoids from the top bucket down; 0.5 when a class
   is empty. */
double fl_metrics_area(const double *pos, const double *neg, size_t n);

/* --- exact AUC ------------------------------------------------------------ */

/* Why a sample cannot be counted. */
typedef enum fl_scores_fault {
    FL_SCORES_GOOD,
    FL_SCORES_NAN,   /* the score */
    FL_SCORES_LABEL, /* neither 0 nor 1 */
    FL_SCORES_MEMORY /* there is none, for all of them */
} fl_scores_fault;

/* Scores as keys: numbers that are ordered as the scores are. */
typedef struct fl_scores {
    uint32_t *keys[2]; /* by label, ascending */
    size_t n[2];
    uint32_t *memory; /* of both */
} fl_scores;

/* Sorts them; *at is the first sample with a fault. Released in any case. */
fl_scores_fault fl_scores_make(fl_scores *out, const float *scores,
                               const int64_t *labels, size_t n, size_t *at);
void fl_scores_release(fl_scores *s);

/* Scores that are equal. */
typedef struct fl_score_run {
    uint32_t key, n;
} fl_score_run;

/* The next runs of sorted keys from *at on, which is moved; at most cap. */
size_t fl_scores_runs(const uint32_t *keys, size_t n, size_t *at,
                      fl_score_run *out, size_t cap);

/* How many halves the runs win against sorted keys; runs are sorted, too. */
uint64_t fl_scores_halves(const fl_score_run *runs, size_t n_runs,
                          const uint32_t *keys, size_t n);

/* From all halves that one class (0 or 1) has won; FL_ERR_INVAL when there are
   too many pairs to count. 0.5 when a class is empty. */
FL_MUST_CHECK
fl_status fl_scores_auc(const uint64_t n[2], int label, uint64_t halves,
                        double *out);

#endif
