/* merge.h - gradients of several batches made into one.
 *
 * Pieces are added up in the order they are given, so that the result does not
 * depend on who came first. Memory is kept for the next merge. One thread at a
 * time.
 */
#ifndef FL_MODE_MERGE_H
#define FL_MODE_MERGE_H

#include "flotilla/table.h"
#include "kernel/unique.h"

/* Gradients of rows, times scale. */
typedef struct fl_piece {
    const uint64_t *keys; /* all different within a piece */
    const float *rows;
    const float *shows, *clicks; /* NULL: one and none each */
    const uint32_t *counts;      /* NULL: once each */
    size_t n;
    double scale;
} fl_piece;

typedef struct fl_merger_block {
    void *data;
    size_t bytes;
} fl_merger_block;

typedef struct fl_merger {
    fl_unique unique;
    fl_merger_block ids, numbers, rows;
} fl_merger;

void fl_merger_release(fl_merger *m);

/* The pieces as one push, with lr 0: keys in order of first appearance,
   gradients (scaled), shows, clicks and counts added up (the latter unscaled:
   they are counts). One piece with scale 1 is given as it is. *out is valid
   until the next merge, or as long as the piece. */
FL_MUST_CHECK
fl_status fl_merge_rows(fl_merger *m, const fl_piece *pieces, size_t n_pieces,
                        uint32_t dim, fl_table_push_args *out);

/* to = sum over i of scale[i] * from[i]; to may be from[0]. */
void fl_merge_dense(float *to, const float *const *from, const double *scale,
                    size_t n_from, size_t n);

#endif
