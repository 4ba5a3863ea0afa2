/* gemm_hot.h - between gemm.c, which cuts a product into pieces, and
 * gemm_hot.c, which computes them. Nobody else includes it.
 *
 * A job names its operands by strides, so a transposed operand is the same
 * memory with its strides exchanged.
 */
#ifndef FL_KERNEL_GEMM_HOT_H
#define FL_KERNEL_GEMM_HOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/isa.h"

/* The thin side of a product that the loops here take. */
#define FL_GEMM_THIN 8

/* Columns that few rows must have at least. */
#define FL_GEMM_WIDE 16

/* c[i*ldc + j] (+)= alpha * sum over p of
   a[i*a_row + p*a_col] * b[p*b_row + j*b_col], all sizes above 0. */
#define FL_GEMM_JOB(T, t)                                                      \
    typedef struct fl_gemm_job_##t {                                           \
        int64_t m, n, k;                                                       \
        const T *a, *b;                                                        \
        T *c;                                                                  \
        int64_t a_row, a_col, b_row, b_col, ldc;                               \
        T alpha;                                                               \
        bool add; /* onto c; else c is written and never read */               \
    } fl_gemm_job_##t;
FL_GEMM_JOB(float, f32)
FL_GEMM_JOB(double, f64)
#undef FL_GEMM_JOB

typedef struct fl_gemm_hot_table {
    /* n <= FL_GEMM_THIN and a_col == 1: rows of A times few columns. */
    void (*dots_f32)(const fl_gemm_job_f32 *job);
    /* n <= FL_GEMM_THIN and a_row == 1: a sum of multiples of A's columns. */
    void (*sums_f32)(const fl_gemm_job_f32 *job);
    /* b_col == 1, n >= FL_GEMM_WIDE and few rows of A: B is read where it
       lies. */
    void (*few_f32)(const fl_gemm_job_f32 *job);
    /* k <= FL_GEMM_THIN: few terms for many numbers. */
    void (*terms_f32)(const fl_gemm_job_f32 *job);
    void (*terms_f64)(const fl_gemm_job_f64 *job);
} fl_gemm_hot_table;

#endif
