/* model_parts.h - the parts of the bench of models. Each measures and reports
 * for itself. */
#ifndef BENCH_MODEL_PARTS_H
#define BENCH_MODEL_PARTS_H

#include <stdbool.h>
#include <stdint.h>

/* Rows of the table. There are two shapes: with the small one, what does not
   depend on their number counts more. BENCH_MODEL_ROWS is any other number. */
#ifdef MODEL_SMALL
#define MODEL_ROWS 1000000
#else
#define MODEL_ROWS 10000000
#endif
uint64_t bench_model_rows(void);

/* BENCH_MODEL names one part; all without it. */
bool bench_model_wants(const char *part);

/* Saving and loading a large table, and a delta of it. */
void bench_model_table(void);

/* How soon a push to a job is online. */
void bench_model_fresh(void);

/* A job that trains while it is saved; the program has no threads yet. */
void bench_model_job(void);

#endif
