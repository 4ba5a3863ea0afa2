/* vec.h - element-wise and column loops over f32 and f64, chosen by CPU.
 *
 * fl_vec_f32() and fl_vec_f64() give the table of functions for this machine.
 * All of them accept n = 0. No function allocates, blocks or fails.
 */
#ifndef FL_KERNEL_VEC_H
#define FL_KERNEL_VEC_H

#include <stddef.h>
#include <stdint.h>

#include "kernel/isa.h"

/* What follows a matrix product, applied in the same pass over the output. */
typedef enum fl_act {
    FL_ACT_NONE,
    FL_ACT_RELU,
    FL_ACT_SIGMOID,
    FL_ACT_TANH
} fl_act;

/* No probability is less than exp of it, so its logarithm stays finite. */
#define FL_SOFTMAX_LEAST (-64)

/* What a row of scores has come to: its largest, and the sum of exp(x - max). */
typedef struct fl_softmax_of {
    double max, sum;
} fl_softmax_of;

/* The formatter takes T * for a product. */
/* clang-format off */
#define FL_VEC_FUNCTIONS(T, F)                                                 \
    /* y += a x */                                                             \
    F(void, axpy, (T *y, T a, const T *x, size_t n))                           \
    /* y = a x + b (a x rounded before b is added) */                          \
    F(void, scale, (T *y, T a, const T *x, T b, size_t n))                     \
    F(void, add, (T *z, const T *x, const T *y, size_t n))                     \
    F(void, sub, (T *z, const T *x, const T *y, size_t n))                     \
    F(void, mul, (T *z, const T *x, const T *y, size_t n))                     \
    F(void, div, (T *z, const T *x, const T *y, size_t n))                     \
    /* sums in a fixed order that does not depend on the vector width */       \
    F(double, sum, (const T *x, size_t n))                                     \
    F(double, dot, (const T *x, const T *y, size_t n))                         \
    /* x . x, y . y and x . y as dot gives them, in one pass */                \
    F(void, dots, (double out[3], const T *x, const T *y, size_t n))           \
    /* out[i] = sum of x[i*n ..] as sum gives it, i in [0, rows) */            \
    F(void, row_sums, (T *out, const T *x, size_t rows, size_t n))             \
    /* y = exp(x - max) / sum of these for n > 0 numbers, x - max counting */  \
    /* as FL_SOFTMAX_LEAST below it; y may be NULL */                          \
    F(fl_softmax_of, softmax, (T *y, const T *x, size_t n))                    \
    /* how many of x are not below v, and not at most v: NaN always is */      \
    F(size_t, count_from, (const T *x, T v, size_t n))                         \
    F(size_t, count_above, (const T *x, T v, size_t n))                        \
    /* log(1 + exp(x)) - x label without overflow, 0 where label is ignore; */ \
    /* and its gradient times g */                                             \
    F(void, logistic_loss,                                                     \
      (T *loss, const T *x, const T *label, T ignore, size_t n))               \
    F(void, logistic_grad,                                                     \
      (T *dx, const T *x, const T *label, const T *g, T ignore, size_t n))     \
    /* the largest of n > 0 numbers */                                         \
    F(T, max, (const T *x, size_t n))                                          \
    /* best[j] = the largest of x[i*n + j] over rows > 0, at[j] = first + i */ \
    /* of the first such i */                                                  \
    F(void, max_rows,                                                          \
      (T *best, int32_t *at, const T *x, size_t rows, size_t n,                \
       int32_t first))                                                         \
    /* out[j] = sum over rows of x[i*ld + j], rows in ascending order */       \
    F(void, col_sum,                                                           \
      (T *out, const T *x, size_t rows, size_t cols, size_t ld))               \
    /* y[i,j] = act(y[i,j] + bias[j]) in place; bias may be NULL */            \
    F(void, bias_act,                                                          \
      (T *y, const T *bias, size_t rows, size_t cols, size_t ld, fl_act act))  \
    /* dz = dy * act'(.), written in terms of the output y */                  \
    F(void, act_grad, (T *dz, const T *dy, const T *y, size_t n, fl_act act))  \
    F(void, relu, (T *y, const T *x, size_t n))                                \
    F(void, relu_grad, (T *dx, const T *y, const T *dy, size_t n))             \
    /* is[i] = y[i] > 0; and dx as relu_grad has it, from that */              \
    F(void, positive, (uint8_t *is, const T *y, size_t n))                     \
    F(void, keep_where, (T *dx, const uint8_t *is, const T *dy, size_t n))     \
    /* index of the first NaN or infinity, n when there is none */             \
    F(size_t, find_not_finite, (const T *x, size_t n))
/* clang-format on */

#define FL_VEC_FIELD(ret, name, params) ret(*name) params;
typedef struct fl_vec_f32_table {
    FL_VEC_FUNCTIONS(float, FL_VEC_FIELD)
} fl_vec_f32_table;
typedef struct fl_vec_f64_table {
    FL_VEC_FUNCTIONS(double, FL_VEC_FIELD)
} fl_vec_f64_table;
#undef FL_VEC_FIELD

const fl_vec_f32_table *fl_vec_f32(void);
const fl_vec_f64_table *fl_vec_f64(void);

#endif
