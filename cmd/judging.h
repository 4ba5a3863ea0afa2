/* judging.h - scores, labels and keys out of batches, and measures by name of
 * them: what `flotilla eval` and `flotilla train` have in common.
 *
 * A `fault` is why a batch cannot be judged, or NULL. Owner thread only, or
 * under a lock of the owner.
 */
#ifndef FL_CMD_JUDGING_H
#define FL_CMD_JUDGING_H

#include "cmd.h"
#include "flotilla/data.h"
#include "flotilla/eval.h"

#define JUDGING_ROWS 4096 /* samples that are handed over at once */

/* Rows [lo, lo + n) of n_rows, n at most JUDGING_ROWS. */
typedef struct judging_rows {
    size_t lo, n, n_rows;
} judging_rows;

/* The last number of each record: of two classes the second. */
const char *judging_scores(const fl_tensor *t, judging_rows r, float *out);
/* The one number of each record. */
const char *judging_numbers(const fl_tensor *t, judging_rows r, float *out);
/* The one id of each record. */
const char *judging_ids(const fl_tensor *t, judging_rows r, uint64_t *out);

/* --- measures by name ------------------------------------------------------ */

typedef struct judging judging;

/* What a list of measures asks for; NULL after saying what is wrong with it. */
judging *judging_open(const char *self, const char *metrics);
void judging_close(judging *j); /* NULL is fine */

/* The keys that it needs, as fl_judge_key has them. */
const char *judging_key(const judging *j, size_t i);

/* Finds label and keys among the slots; CMD_OK, or CMD_FAILED after saying which
   is not there. */
int judging_find(judging *j, const char *self, const char *label,
                 const fl_slot *slots, size_t n_slots);

/* Takes in a batch; `feeds` are in the order of the slots. */
const char *judging_add(judging *j, const fl_feed *feeds, size_t n_rows,
                        const fl_tensor *scores);

/* Makes the measures of all workers, each of which calls it; what was added is
   forgotten with the next add. */
fl_status judging_finish(judging *j, fl_fleet *f);

/* Names live as long as `j`; values are those of the last finish. */
size_t judging_count(const judging *j);
const char *judging_name(const judging *j, size_t i);
double judging_value(const judging *j, size_t i);
/* As fl_judge_better. */
int judging_better(const judging *j, size_t i);

#endif
