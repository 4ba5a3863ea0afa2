/* ctr_single.h - the click network, trained by one thread, batch after batch. */
#ifndef BENCH_CTR_SINGLE_H
#define BENCH_CTR_SINGLE_H

#include "ctr_net.h"

typedef struct ctr_single_spec {
    const char *optimizer, *settings;
    const char *precision; /* the setting */
    unsigned seed;
} ctr_single_spec;

typedef struct ctr_single {
    fl_ctx *ctx;
    fl_executor *exe;
    const char *loss;
    ctr_batch *batch;
} ctr_single;

void ctr_single_open(ctr_single *s, const ctr_single_spec *spec);
void ctr_single_close(ctr_single *s);

/* Trains on batches [first, first + n) of the data. */
void ctr_single_train(ctr_single *s, const ctr_data *d, size_t first, size_t n);

/* Area under the curve on data it has not seen; judged in f32. */
double ctr_single_auc(const ctr_single *s, const ctr_data *d);

#endif
