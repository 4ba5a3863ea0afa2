/* safetensors.h - reads the files the cases are kept in: a length, a JSON
 * header, raw data. Everything lives in the pool it was read into. */
#ifndef GOLDEN_SAFETENSORS_H
#define GOLDEN_SAFETENSORS_H

#include <stdint.h>

#include <cjson/cJSON.h>

#include "flotilla/tensor.h"
#include "pool.h"

typedef struct st_tensor {
    const char *name;
    fl_dtype dtype;
    int rank;
    int64_t dims[FL_RANK_MAX];
    int64_t numel;
    void *data;
} st_tensor;

typedef struct st_meta {
    const char *key, *value;
} st_meta;

typedef struct st_file {
    st_tensor *tensors; /* in the order of the header */
    size_t n_tensors;
    st_meta *metas;
    size_t n_metas;
} st_file;

/* NULL when all is well, else a sentence that says what is wrong. */
const char *st_read(st_file *f, const char *path, pool *p);

/* NULL when there is none. */
const st_tensor *st_find(const st_file *f, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
const char *st_meta_find(const st_file *f, const char *key);

/* The same file with its f32 numbers as f64. */
st_file st_widened(const st_file *f, pool *p);

/* A view as the public headers want it. */
fl_tensor st_view(const st_tensor *t);

/* Element i as a double; integers up to 2^53 are exact. */
double st_at(const st_tensor *t, int64_t i);

/* Are these offsets of sequences of `rows` rows: from 0, never falling? */
bool st_is_offsets(const st_tensor *t, int64_t rows);

/* The whole file as text, NULL when it cannot be read. */
char *read_text(const char *path, pool *p, size_t *len);

#endif
