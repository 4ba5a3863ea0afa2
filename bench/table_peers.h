/* table_peers.h - ways to keep rows by key, all with one face, so that the
 * library takes turns with others under the same harness.
 *
 * A row is TABLE_DIM floats of value and, with adam, as many of each of its two
 * moments behind it. One thread.
 */
#ifndef BENCH_TABLE_PEERS_H
#define BENCH_TABLE_PEERS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TABLE_DIM 10
#define PLAIN_FLOATS TABLE_DIM
#define ADAM_FLOATS (3 * TABLE_DIM)

#define TABLE_LR 0.001f
#define ADAM_BETA1 0.9f
#define ADAM_BETA2 0.999f
#define ADAM_EPSILON 1e-8f

/* What one call works on. Rows are numbered in the order they were added. */
typedef struct table_batch {
    const uint64_t *keys; /* no key twice */
    const uint32_t *rows; /* the number of each key's row */
    const float *grads;   /* [n, TABLE_DIM] */
    float rate;           /* of this step: learning rate with bias correction */
    size_t n;
} table_batch;

/* How many rows there will be, and their size: in floats that count, and in
   bytes from one row of the library to the next. */
typedef struct table_shape {
    size_t n_rows, n_floats, row_bytes;
} table_shape;

/* One way to keep rows. Tables end the program when there is no memory. */
typedef struct table_kind {
    const char *name;
    void *(*open)(const table_shape *s);
    /* Rows for new keys with values [n, TABLE_DIM] and moments of 0; NULL for
       a kind that keeps no rows and only does what rows cost. */
    void (*add)(void *table, const uint64_t *keys, const float *values,
                size_t n);
    void (*pull)(void *table, const table_batch *b, float *out);
    void (*push)(void *table, const table_batch *b); /* adam */
    void (*close)(void *table);
} table_kind;

extern const table_kind table_unordered_map, table_khash, table_bound;

/* One step of adam on a row: value, then both moments. */
static inline void adam_row(float *__restrict row, const float *__restrict g,
                            float rate)
{
    float *__restrict m = row + TABLE_DIM, *__restrict v = m + TABLE_DIM;

    for (int i = 0; i < TABLE_DIM; i++) {
        m[i] = ADAM_BETA1 * m[i] + (1 - ADAM_BETA1) * g[i];
        v[i] = ADAM_BETA2 * v[i] + (1 - ADAM_BETA2) * g[i] * g[i];
        row[i] -= rate * m[i] / (sqrtf(v[i]) + ADAM_EPSILON);
    }
}

#ifdef __cplusplus
}
#endif
#endif
