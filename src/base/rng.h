/* rng.h - randomness by counter.
 *
 * A value depends on (seed, variable name, row, column) alone: no stream, no
 * state, no order. The same function serves the startup operators and rows
 * born in a table, hence one machine and any number of servers start from the
 * same numbers. Any thread.
 *
 *     stream = fl_rng_stream(seed, "fc_0.w_0")
 *     bits   = fl_rng_bits(stream, row, col)
 *
 * The kinds below are pinned: their values are part of models at rest.
 */
#ifndef FL_BASE_RNG_H
#define FL_BASE_RNG_H

#include <stdint.h>

#include "base/hash.h"

/* Odd, so that neither a row nor a column is ever lost. */
#define FL_RNG_ROW_STEP UINT64_C(0xd1342543de82ef95)
#define FL_RNG_COL_STEP UINT64_C(0x9e3779b97f4a7c15)

typedef enum fl_init_kind {
    FL_INIT_CONSTANT,  /* a = value */
    FL_INIT_UNIFORM,   /* in [a, b) */
    FL_INIT_GAUSSIAN,  /* mean a, deviation b */
    FL_INIT_TRUNCATED, /* the same, redrawn inside two deviations */
} fl_init_kind;

/* How a parameter or a table row gets its first values. */
typedef struct fl_init {
    fl_init_kind kind;
    double a, b;
    uint64_t stream;
} fl_init;

uint64_t fl_rng_stream(uint64_t seed, const char *name);
uint64_t fl_rng_bits(uint64_t stream, uint64_t row, uint64_t col);

/* The same in two steps, for who needs several columns of a row. */
static inline uint64_t fl_rng_row(uint64_t stream, uint64_t row)
{
    return fl_mix64(stream + fl_mix64(row * FL_RNG_ROW_STEP + 1));
}

static inline uint64_t fl_rng_row_bits(uint64_t key, uint64_t col)
{
    return fl_mix64(key + col * FL_RNG_COL_STEP);
}

static inline double fl_rng_row_unit(uint64_t key, uint64_t col)
{
    return (double)(fl_rng_row_bits(key, col) >> 11) * 0x1p-53;
}

/* In [0, 1) with 53 bits; in (0, 1) never 0 for fl_rng_open. */
double fl_rng_unit(uint64_t stream, uint64_t row, uint64_t col);
double fl_rng_open(uint64_t stream, uint64_t row, uint64_t col);

/* Standard normal, and the same cut at two deviations (by inversion). */
double fl_rng_normal(uint64_t stream, uint64_t row, uint64_t col);
double fl_rng_truncated(uint64_t stream, uint64_t row, uint64_t col);

/* One value of an initialiser. */
double fl_init_value(const fl_init *init, uint64_t row, uint64_t col);

/* The columns [0, n) of one row, as f32. */
void fl_init_row(const fl_init *init, uint64_t row, float *out, uint32_t n);

#endif
