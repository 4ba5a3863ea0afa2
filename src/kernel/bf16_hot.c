/* bf16_hot.c - f32 to bf16 and back, compiled per instruction set. */
#include "kernel/bf16.h"

#include <string.h>

#include "base/thread.h"
#include "kernel/hot.h"

#define INFINITE UINT32_C(0x7f800000) /* a NaN is above it, without its sign */
#define WITHOUT_SIGN UINT32_C(0x7fffffff)
#define QUIET UINT32_C(0x40) /* of a bf16 that is a NaN */

static inline uint32_t bits_of(float x)
{
    uint32_t u;

    memcpy(&u, &x, sizeof(u));
    return u;
}

/* Half of the last bit that stays is added; where that makes the half even, a
   little less. */
static inline uint16_t narrow_one(float x)
{
    uint32_t u = bits_of(x);
    uint32_t rounded = (u + UINT32_C(0x7fff) + (u >> 16 & 1)) >> 16;
    uint32_t nan = u >> 16 | QUIET;

    return (uint16_t)((u & WITHOUT_SIGN) > INFINITE ? nan : rounded);
}

static inline float widen_one(uint16_t x)
{
    uint32_t u = (uint32_t)x << 16;
    float f;

    memcpy(&f, &u, sizeof(f));
    return f;
}

/* Weights are rounded while another thread updates them. */
FL_RACY
static void narrow(uint16_t *out, const float *x, size_t n)
{
    FL_FOR_EACH(i, n, out[i] = narrow_one(x[i]);)
}

static void widen(float *out, const uint16_t *x, size_t n)
{
    FL_FOR_EACH(i, n, out[i] = widen_one(x[i]);)
}

static void widen_rows(float *out, const uint32_t *places, const uint16_t *x,
                       size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i++) {
        float *to = out + (size_t)places[i] * dim;

        FL_FOR_EACH(j, dim, to[j] = widen_one(x[j]);)
        x += dim;
    }
}

#define ENTRY(ret, name, params) .name = name,

const fl_bf16_table
    FL_ISA_NAME(fl_bf16_table_of) = { FL_BF16_FUNCTIONS(ENTRY) };
