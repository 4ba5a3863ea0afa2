/* floor_ctr.h - the click network in straight C: what these cores can do at
 * all, without a framework.
 *
 * It trains the network of ctr_data.h, with mean cross entropy and the same
 * update rules as the library: sgd, or adam with the lazy rule for rows. Rates
 * are measured against it. Threads share all weights and rows, without locks;
 * each has its own activations and gradients.
 */
#ifndef BENCH_FLOOR_CTR_H
#define BENCH_FLOOR_CTR_H

#include "ctr_data.h"

#define FLOOR_THREADS_MAX 2

typedef enum floor_rule { FLOOR_SGD, FLOOR_ADAM } floor_rule;

typedef struct floor_ctr floor_ctr;

/* A network with fresh weights; the data is borrowed. */
floor_ctr *floor_ctr_new(const ctr_data *d, floor_rule rule, double lr,
                         uint64_t seed);
void floor_ctr_free(floor_ctr *f);

/* Trains on the next n_batches, dealt to the threads one by one, and returns
   their mean loss. After the last batch of the data comes the first. */
double floor_ctr_train(floor_ctr *f, int n_threads, size_t n_batches);

#endif
