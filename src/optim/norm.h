/* norm.h - the length of a whole parameter or gradient, for rules that need it.
 *
 * Eight sums side by side: one alone would wait for each addition, and their
 * number is part of the result, which is the same on every instruction set.
 */
#ifndef FL_OPTIM_NORM_H
#define FL_OPTIM_NORM_H

#include <math.h>
#include <stddef.h>

#include "base/thread.h"

#define FL_NORM_LANES 8

/* square_sum_f32 and square_sum_f64 for the file that expands it; norm_... is
   the root. Hogwild threads may write what is read. */
#define FL_NORM(T, t)                                                          \
    FL_RACY                                                                    \
    static double square_sum_##t(const T *x, size_t n)                         \
    {                                                                          \
        double lane[FL_NORM_LANES] = { 0 }, sum = 0;                           \
        size_t whole = n - n % FL_NORM_LANES;                                  \
                                                                               \
        for (size_t i = 0; i < whole; i += FL_NORM_LANES)                      \
            for (size_t k = 0; k < FL_NORM_LANES; k++)                         \
                lane[k] += (double)x[i + k] * (double)x[i + k];                \
        for (size_t i = whole; i < n; i++)                                     \
            lane[i - whole] += (double)x[i] * (double)x[i];                    \
        for (size_t k = 0; k < FL_NORM_LANES; k++)                             \
            sum += lane[k];                                                    \
        return sum;                                                            \
    }                                                                          \
    static inline double norm_##t(const T *x, size_t n)                        \
    {                                                                          \
        return sqrt(square_sum_##t(x, n));                                     \
    }

#endif
