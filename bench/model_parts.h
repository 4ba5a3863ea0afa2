/* model_parts.h - the parts of the bench of models. Each measures and reports
 * for itself. */
#ifndef BENCH_MODEL_PARTS_H
#define BENCH_MODEL_PARTS_H

#include <stdbool.h>

/* BENCH_MODEL names one part; all without it. */
bool bench_model_wants(const char *part);

/* Saving and loading a large table, and a delta of it. */
void bench_model_table(void);

/* How soon a push to a job is online. */
void bench_model_fresh(void);

/* A job that trains while it is saved; the program has no threads yet. */
void bench_model_job(void);

#endif
