/* eval.h - how good scores are.
 *
 *     fl_eval_new(&e);
 *     fl_eval_add(e, scores, labels, NULL, n);     batch after batch
 *     fl_eval_finish(e, NULL, 0);
 *     fl_eval_total(e, &figures);
 *
 * All figures are made of the samples themselves, without histograms, and do not
 * depend on their order: any number of workers, each with a share of the samples,
 * gets the very numbers that one process gets. A sample takes 16 bytes until the
 * end. Owner thread only.
 */
#ifndef FLOTILLA_EVAL_H
#define FLOTILLA_EVAL_H

#include "flotilla/fleet.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fl_eval fl_eval;

FL_API FL_MUST_CHECK
fl_status fl_eval_new(fl_eval **out);
FL_API void fl_eval_free(fl_eval *e);

/* Takes in n samples: scores from 0 to 1, labels 0 or 1, and the group that each
   belongs to (a user, an advertiser), or NULL; groups are given with all samples
   or with none. Nothing is taken when one of them is refused. */
FL_API FL_MUST_CHECK
fl_status fl_eval_add(fl_eval *e, const float *scores, const int64_t *labels,
                      const uint64_t *groups, size_t n);

/* Makes the figures of all that was added, by all workers of the fleet, each of
   which calls it; NULL: by this process. The n_groups largest groups are told
   apart. Afterwards nothing can be added. */
FL_API FL_MUST_CHECK
fl_status fl_eval_finish(fl_eval *e, fl_fleet *f, size_t n_groups);

typedef struct fl_eval_figures {
    uint32_t size;
    uint64_t samples, positives;
    /* Share of the pairs of a positive and a negative in which the positive has
       the higher score; equal scores share. 0.5 when a class is empty. */
    double auc;
    /* The same within groups, their mean by samples, over groups that have both
       classes; NaN: there are none. */
    double group_auc;
    double log_loss;   /* of scores kept within 1e-7 of 0 and 1 */
    double mae, rmse;  /* of the score from the label */
    double accuracy;   /* of taking scores from 0.5 on for a positive */
    double actual_ctr; /* share of positives, and mean score */
    double predicted_ctr;
    double copc; /* the former by the latter; NaN when all scores are 0 */
    /* Mean relative error of the click rate over ranges of scores that have
       enough samples to tell; NaN: none has. */
    double bucket_error;
} fl_eval_figures;

FL_API FL_MUST_CHECK
fl_status fl_eval_total(const fl_eval *e, fl_eval_figures *out);

/* Groups that were asked for, the largest first; those of one size by number. */
FL_API size_t fl_eval_group_count(const fl_eval *e);
FL_API FL_MUST_CHECK
fl_status fl_eval_group(const fl_eval *e, size_t i, uint64_t *group,
                        fl_eval_figures *out);

#ifdef __cplusplus
}
#endif
#endif
