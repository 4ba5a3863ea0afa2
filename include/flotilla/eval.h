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

/* The same where predictions are no chances but numbers, ratings for example:
   any finite ones. Of the figures, those of classes are NaN then; actual_ctr
   and predicted_ctr are the means of both. */
FL_API FL_MUST_CHECK
fl_status fl_eval_new_of_numbers(fl_eval **out);
FL_API FL_MUST_CHECK
fl_status fl_eval_add_numbers(fl_eval *e, const float *scores,
                              const float *labels, const uint64_t *groups,
                              size_t n);

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

/* --- by name -------------------------------------------------------------- *
 *
 *     fl_judge_new(&j, "auc,logloss,precision@0.5,recall@20:user,gauc:user");
 *     fl_judge_add(j, scores, labels, keys, n);    batch after batch
 *     fl_judge_finish(j, NULL);
 *     fl_judge_value(j, 0);                        the AUC
 *
 * A key is what records belong together by, a slot of theirs. Measures of the K
 * best of a key count all orders of equal scores alike. Owner thread only.
 */
typedef struct fl_judge fl_judge;

/* A list of NAME, NAME@SCORE, NAME:KEY and NAME@K:KEY, apart by commas, which
   fl_judge_help explains. All workers ask for the same. */
FL_API FL_MUST_CHECK
fl_status fl_judge_new(fl_judge **out, const char *metrics);
FL_API void fl_judge_free(fl_judge *j);

/* The keys in the order in which fl_judge_add wants their values; NULL behind
   the last one. */
FL_API const char *fl_judge_key(const fl_judge *j, size_t i);

/* Takes in n samples, keys[i][s] being the value of key i in sample s; keys may
   be NULL when there are none. Scores are from 0 to 1 and labels 0 or 1, unless
   all measures are such that take any number. */
FL_API FL_MUST_CHECK
fl_status fl_judge_add(fl_judge *j, const float *scores, const float *labels,
                       const uint64_t *const *keys, size_t n);

/* Of all that was added by all workers of the fleet, each of which calls it;
   NULL: by this process. */
FL_API FL_MUST_CHECK
fl_status fl_judge_finish(fl_judge *j, fl_fleet *f);

/* The measures in the order of the list, by name as it was asked for; NaN where
   nothing counts, and before the end. */
FL_API size_t fl_judge_count(const fl_judge *j);
FL_API const char *fl_judge_name(const fl_judge *j, size_t i);
FL_API double fl_judge_value(const fl_judge *j, size_t i);

/* Is a larger value better (1), a smaller one (-1), or neither (0)? */
FL_API int fl_judge_better(const fl_judge *j, size_t i);

/* A line per measure: how it is written, a tab, what it is. Freed with
   fl_text_free. */
FL_API char *fl_judge_help(void);

#ifdef __cplusplus
}
#endif
#endif
