/* ctr_inside.h - what is measured of the click network beside its speed. */
#ifndef BENCH_CTR_INSIDE_H
#define BENCH_CTR_INSIDE_H

#include "ctr_data.h"

typedef struct ctr_rule {
    const char *name, *settings;
} ctr_rule;

/* Area under the curve of products in bf16 less that of f32, seed by seed. */
void ctr_measure_bf16_auc(const ctr_data *d, const ctr_rule *rule);

/* Shares of the operators in the time of one thread. */
void ctr_measure_shares(const ctr_data *d, const ctr_rule *rule);

#endif
