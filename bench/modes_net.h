/* modes_net.h - training threads on the click network, inside a process of the
 * bench `modes`.
 */
#ifndef BENCH_MODES_NET_H
#define BENCH_MODES_NET_H

#include <stdatomic.h>

#include "ctr_net.h"

#define MODES_THREADS_MAX 2

/* The network that all are compared with: rows in an array, sgd. */
extern const ctr_net_spec modes_net;

/* The given one, or modes_net. */
const ctr_net_spec *modes_net_of(const ctr_net_spec *given);

#define MODES_HELD 16 /* batches that a trainer may look at at once */

/* Hogwild threads that take the batches first, first + stride, ... */
typedef struct modes_threads {
    const char *loss;
    const ctr_data *data;
    int n_threads, n_joined; /* batches that are fed as one */
    size_t first, stride, n;
    atomic_size_t n_dealt;
    /* The last ones of each thread, in turn. */
    ctr_batch *batches[MODES_THREADS_MAX][MODES_HELD];
    unsigned turn[MODES_THREADS_MAX];
    double sum[MODES_THREADS_MAX]; /* of the losses of this run */
    double last;                   /* when a batch was asked for */
    double longest; /* seconds between two of them, with one thread */
} modes_threads;

/* Builds the network into the default programs of the context. */
void modes_threads_init(modes_threads *t, fl_ctx *c, const ctr_net_spec *net,
                        const ctr_data *d, int n_threads);
void modes_threads_release(modes_threads *t);

/* Trains on n batches and returns their mean loss. */
double modes_threads_train(modes_threads *t, fl_executor *e, fl_program *p,
                           size_t first, size_t n);

#endif
