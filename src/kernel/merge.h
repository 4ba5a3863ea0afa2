/* merge.h - several batches of rows made into one: keys are united, what belongs
 * to equal keys is added up.
 *
 * Batches are added in the order they are given, so that the result does not
 * depend on who came first. Memory is kept for the next merge. One thread at a
 * time.
 */
#ifndef FL_KERNEL_MERGE_H
#define FL_KERNEL_MERGE_H

#include "base/buf.h"
#include "kernel/unique.h"
#include "tensor/rows.h"

typedef struct fl_merger {
    fl_unique unique;
    fl_buf runs, keys, values;
    bool values_only; /* nobody asks for shows, clicks and counts */
} fl_merger;

void fl_merger_release(fl_merger *m);

/* The batches as one: keys in the order of their hashes if those of each batch
   come so, else of first appearance; values times the scale of their batch, shows,
   clicks and counts as they are (they say what happened, whatever it counts for).
   All are as wide as the first, whose rate is the result's; there is one at least.
   The memory is the merger's, or, of a single merged batch with scale 1, its
   own. */
FL_MUST_CHECK
fl_status fl_merge_rows(fl_merger *m, const fl_rows *batches, size_t n_batches,
                        fl_rows *out);

/* to[i] = the sum of scale[k] * from[k][i]; to may be from[0]. */
void fl_merge_dense(float *to, const float *const *from, const double *scale,
                    size_t n_from, size_t n);

#endif
