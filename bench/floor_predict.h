/* floor_predict.h - the click network forward in straight C: what these cores can
 * do at all, without a framework.
 *
 * Rows are found by id in a hash, as in the saved model, where any number is an
 * id. One thread.
 */
#ifndef BENCH_FLOOR_PREDICT_H
#define BENCH_FLOOR_PREDICT_H

#include "ctr_data.h"

typedef struct floor_predict floor_predict;

/* Weights and biases of the layers in turn, [in][out] and [out]; rows [n_rows]
   [CTR_DIM] of the ids 0..n_rows - 1. All are copied. */
floor_predict *floor_predict_new(const float *const *dense, const float *rows,
                                 size_t n_rows, size_t max_batch);
void floor_predict_free(floor_predict *f);

/* The probability of a click for each of n samples. */
void floor_predict_run(floor_predict *f, const uint64_t *ids,
                       const float *dense, size_t n, float *scores);

#endif
