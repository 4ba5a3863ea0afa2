/* models_straight.h - built-in models as straight C, with their samples read
 * from a file of lines: what ours are measured against. One thread. */
#ifndef BENCH_MODELS_STRAIGHT_H
#define BENCH_MODELS_STRAIGHT_H

#include <stddef.h>

typedef struct models_straight {
    const char *model;
    /* Reads up to n lines, which are a multiple of the batch. */
    void *(*open)(const char *path, size_t n);
    double (*train)(void *made); /* one pass; the mean loss */
    void (*close)(void *made);
} models_straight;

/* NULL when that model has no such form. */
const models_straight *models_straight_find(const char *model);

#endif
