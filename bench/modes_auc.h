/* modes_auc.h - what the modes learn, not how fast. */
#ifndef BENCH_MODES_AUC_H
#define BENCH_MODES_AUC_H

#include "modes_job.h"

/* One epoch over the same samples in every mode, several seeds. */
void modes_measure_auc(const ctr_data *data, const ctr_data *test);

/* What geo learns in an epoch of small batches by how seldom it exchanges. */
void modes_measure_period(const ctr_data *data, const ctr_data *test);

/* Samples and seconds until an area under the curve is reached, with 1, 2 and
   4 trainers. */
void modes_measure_way(const ctr_data *data, const ctr_data *test);

#endif
