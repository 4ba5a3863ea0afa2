/* bf16.h - numbers of 16 bits that have the exponent of an f32, chosen by CPU.
 *
 * A bf16 is the upper half of an f32. Narrowing rounds to the nearest, of two
 * that are equally near to the even one, as all other rounding does: what is too
 * large becomes infinite, what is tiny stays as it is. A NaN stays one, and is
 * quiet. Widening is exact. Integer operations alone, so that all instruction
 * sets give the same bits.
 */
#ifndef FL_KERNEL_BF16_H
#define FL_KERNEL_BF16_H

#include <stddef.h>
#include <stdint.h>

#include "kernel/isa.h"

/* clang-format off */
#define FL_BF16_FUNCTIONS(F)                                                   \
    F(void, narrow, (uint16_t *out, const float *x, size_t n))                 \
    F(void, widen, (float *out, const uint16_t *x, size_t n))                  \
    /* out[places[i]*dim ..] = x[i*dim ..], i in [0, n) */                     \
    F(void, widen_rows,                                                        \
      (float *out, const uint32_t *places, const uint16_t *x, size_t n,        \
       size_t dim))
/* clang-format on */

#define FL_BF16_FIELD(ret, name, params) ret(*name) params;
typedef struct fl_bf16_table {
    FL_BF16_FUNCTIONS(FL_BF16_FIELD)
} fl_bf16_table;
#undef FL_BF16_FIELD

const fl_bf16_table *fl_bf16(void);

/* fl_bf16()->narrow, where a function is wanted. */
void fl_bf16_narrow(uint16_t *out, const float *x, size_t n);

#endif
