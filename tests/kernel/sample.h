/* sample.h - made-up numbers for the kernel tests: the same in every run. */
#ifndef FL_TESTS_KERNEL_SAMPLE_H
#define FL_TESTS_KERNEL_SAMPLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/hash.h"

/* In [-1, 1), by seed and position. */
static inline double sample(uint64_t seed, size_t i)
{
    uint64_t bits = fl_mix64(seed * 0x9e3779b97f4a7c15u + i + 1);

    return (double)(int64_t)bits / 9223372036854775808.0;
}

/* Exactly n numbers on the heap, so that a sanitizer sees a step outside;
   never NULL. The caller frees. */
#define SAMPLES(T, name)                                                       \
    static inline T *name(uint64_t seed, size_t n)                             \
    {                                                                          \
        T *x = malloc(n ? n * sizeof(T) : 1);                                  \
                                                                               \
        if (!x)                                                                \
            abort();                                                           \
        for (size_t i = 0; i < n; i++)                                         \
            x[i] = (T)sample(seed, i);                                         \
        return x;                                                              \
    }
SAMPLES(float, samples_f32)
SAMPLES(double, samples_f64)
#undef SAMPLES

#endif
