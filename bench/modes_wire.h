/* modes_wire.h - jobs whose values travel as bf16, beside the same jobs with
 * f32. */
#ifndef BENCH_MODES_WIRE_H
#define BENCH_MODES_WIRE_H

#include "modes_job.h"

/* Rate, bytes and CPU time; through a slow link, with hosts of their own; and
   what they learn. */
void modes_measure_wire(const ctr_data *data);
void modes_measure_link(const ctr_data *data);
void modes_measure_wire_auc(const ctr_data *data, const ctr_data *test);

#endif
