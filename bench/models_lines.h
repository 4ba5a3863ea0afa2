/* models_lines.h - lines for each built-in model, of the sizes that public data
 * sets have. */
#ifndef BENCH_MODELS_LINES_H
#define BENCH_MODELS_LINES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct models_lines {
    const char *model;
    const char *format; /* NULL: the model's */
    size_t n, batch;    /* lines; batch 0: the model's */
    void (*line)(FILE *f, uint64_t *state);
} models_lines;

extern const models_lines models_lines_all[];
extern const size_t models_lines_count;

/* Writes them to a file, the same ones every time; ends the program when that
   fails. */
void models_lines_write(const models_lines *of, const char *path);

#endif
