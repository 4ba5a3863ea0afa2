/* rows.h - gather and scatter of embedding rows, chosen by CPU.
 *
 * Works on (row buffer, index): the buffer may be a parameter array, rows
 * pulled from a hashed table or rows that came over a wire. Rows ahead are
 * prefetched. Indices were checked by the caller.
 */
#ifndef FL_KERNEL_ROWS_H
#define FL_KERNEL_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "kernel/isa.h"

/* The formatter takes T * for a product. */
/* clang-format off */
#define FL_ROWS_FUNCTIONS(T, F)                                                \
    /* out[i*ld ..] = rows[index[i]*dim ..], i in [0, n) */                    \
    F(void, gather,                                                            \
      (T *out, size_t ld, const T *rows, const uint64_t *index, size_t n,      \
       size_t dim))                                                            \
    /* rows[index[i]*dim ..] += a * x[i*ld ..], in ascending i */              \
    F(void, scatter_axpy,                                                      \
      (T *rows, const uint64_t *index, size_t n, size_t dim, T a, const T *x,  \
       size_t ld))                                                             \
    /* sum[index[i]*dim ..] += a * x[i*dim ..], ascending i; 32-bit indices */ \
    F(void, merge,                                                             \
      (T *sum, const uint32_t *index, size_t n, size_t dim, T a, const T *x))
/* clang-format on */

#define FL_ROWS_FIELD(ret, name, params) ret(*name) params;
typedef struct fl_rows_f32_table {
    FL_ROWS_FUNCTIONS(float, FL_ROWS_FIELD)
} fl_rows_f32_table;
typedef struct fl_rows_f64_table {
    FL_ROWS_FUNCTIONS(double, FL_ROWS_FIELD)
} fl_rows_f64_table;
#undef FL_ROWS_FIELD

const fl_rows_f32_table *fl_rows_f32(void);
const fl_rows_f64_table *fl_rows_f64(void);

#endif
