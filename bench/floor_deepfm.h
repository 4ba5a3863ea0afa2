/* floor_deepfm.h - DeepFM in straight C: the same network, sizes and rule as
 * models/deepfm.c, hand-written loops and the same matrix library, one thread.
 */
#ifndef BENCH_FLOOR_DEEPFM_H
#define BENCH_FLOOR_DEEPFM_H

#include <stddef.h>

enum { DEEPFM_FIELDS = 10, DEEPFM_ROWS = 5000, DEEPFM_BATCH = 100 };

typedef struct floor_deepfm floor_deepfm;

/* Trains on n samples, a multiple of the batch, of ids [n][DEEPFM_FIELDS] below
   DEEPFM_ROWS and labels of 0 and 1; both are the caller's. */
floor_deepfm *floor_deepfm_new(const int *ids, const int *labels, size_t n);
void floor_deepfm_free(floor_deepfm *f);

/* One pass; returns the mean loss. */
double floor_deepfm_train(floor_deepfm *f);

#endif
