/* eval_asked.h - measures that an evaluation makes besides its figures, when
 * they are asked for: means over samples, or over groups. No state.
 *
 * Where scores are equal, their order is not known. Measures of the first k of
 * a group are then the mean over all orders, so that neither the order of the
 * data nor the number of workers changes them.
 */
#ifndef FL_FLEET_EVAL_ASKED_H
#define FL_FLEET_EVAL_ASKED_H

#include "fleet/eval_sums.h"

/* A measure is sum by weight. */
typedef struct fl_asked_sums {
    double sum, weight;
} fl_asked_sums;

/* Adds the samples of one group, which are sorted by score. */
typedef void (*fl_asked_add)(const fl_sample *samples, size_t n, double number,
                             fl_asked_sums *to);

typedef struct fl_eval_asked {
    fl_asked_add add;
    double number; /* a score, or how many */
} fl_eval_asked;

/* Of scores from `number` on: the share that is positive, and the share of all
   positives. */
void fl_asked_precision(const fl_sample *samples, size_t n, double number,
                        fl_asked_sums *to);
void fl_asked_recall(const fl_sample *samples, size_t n, double number,
                     fl_asked_sums *to);

/* Of the `number` highest scores of a group. Without a positive a group does not
   count in the latter two. */
void fl_asked_precision_top(const fl_sample *samples, size_t n, double number,
                            fl_asked_sums *to);
void fl_asked_recall_top(const fl_sample *samples, size_t n, double number,
                         fl_asked_sums *to);
/* Gains are the labels, at rank r by log2(r + 1). */
void fl_asked_ndcg_top(const fl_sample *samples, size_t n, double number,
                       fl_asked_sums *to);

/* --- of an evaluation (eval.c) --------------------------------------------- */

/* Before anything is added, and the same in all workers. */
void fl_eval_ask(fl_eval *e, fl_eval_asked asked);

/* After the end: measure i, in the order of asking; NaN when nothing counts. */
double fl_eval_measure(const fl_eval *e, size_t i);

#endif
