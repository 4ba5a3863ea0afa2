/* model_parts.h - the parts of the bench of models. Each measures and reports
 * for itself. */
#ifndef BENCH_MODEL_PARTS_H
#define BENCH_MODEL_PARTS_H

/* Saving and loading a large table, and a delta of it. */
void bench_model_table(void);

#endif
