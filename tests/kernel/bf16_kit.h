/* bf16_kit.h - what a product of bf16 should be, by whatever way.
 *
 * Operands lie in rows that are longer than they are, with NaN between: who
 * takes one of those finds it in a sum. All that a product may write to is NaN
 * before, and what is beside it is looked at afterwards. Where an operand or a
 * result ends, a step further ends the test.
 *
 * A difference fails the test. Any thread.
 */
#ifndef FL_TESTS_KERNEL_BF16_KIT_H
#define FL_TESTS_KERNEL_BF16_KIT_H

#include "kernel/gemm_bf16.h"

/* turned: 1 for A, 2 for B; pad: numbers between rows. */
fl_gemm_shape bf16_shape(int64_t m, int64_t n, int64_t k, int turned,
                         int64_t pad);

/* Into c, which has no other numbers than those of the product. */
void bf16_multiply(const fl_bf16_way *way, const fl_gemm_shape *s,
                   const uint16_t *a, const uint16_t *b, float *c);

/* Against a sum in double of the rounded numbers and of the numbers as they
   were, with B packed from f32; from bf16, where B is not transposed, it comes
   out bit by bit alike. */
void bf16_check_product(const fl_bf16_way *way, const fl_gemm_shape *s);

/* A block of rows at a time, bit by bit. */
void bf16_check_shares(const fl_bf16_way *way, const fl_gemm_shape *s);

/* Products by several threads at once. */
void bf16_check_threads(const fl_bf16_way *way);

#endif
