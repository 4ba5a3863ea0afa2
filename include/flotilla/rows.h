/* rows.h - a batch of rows of one table, and the numbers of a dense parameter,
 * on their way between a program and who keeps them. They own nothing.
 */
#ifndef FLOTILLA_ROWS_H
#define FLOTILLA_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Gradients by key and, where the table counts, how often each key was seen and
   its shows and clicks. It comes in arrays, so it cannot grow: reserved fields
   must be zero. */
typedef struct fl_rows {
    const uint64_t *keys;
    const float *values;         /* [n, dim] */
    const float *shows, *clicks; /* by key; NULL: one and none each */
    const uint32_t *counts;      /* by key; NULL: once each */
    size_t n;
    double lr;    /* the rate of this step */
    bool merged;  /* no key occurs twice; else equal keys are added up */
    uint32_t dim; /* 0: as wide as the table's */
    /* What the values count in those of their step, which may have several
       parts (replicas). Tables and jobs take values as they are. */
    double scale;
    const void *reserved[2];
} fl_rows;

/* A dense parameter by name, and its value or gradient here. */
typedef struct fl_param_values {
    const char *param;
    float *data;
    size_t n;
} fl_param_values;

#ifdef __cplusplus
}
#endif
#endif
