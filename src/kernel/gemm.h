/* gemm.h - C = alpha * op(A) op(B) + beta * C, row-major, one thread.
 *
 * f32 goes to oneDNN's sgemm (or, built with -Dgemm=plain, to our own loops);
 * products with a very thin side go through our own loops, where every library
 * is slow. f64 is for gradient checks and uses plain loops. The caller owns
 * the threads: each call computes on the calling thread alone.
 *
 * The right-hand side of a product with weights can be prepared once and used
 * many times; what stands behind it today is a view, later a packed or a
 * lower-precision copy, with no change for the caller.
 */
#ifndef FL_KERNEL_GEMM_H
#define FL_KERNEL_GEMM_H

#include <stddef.h>
#include <stdint.h>

typedef enum fl_trans { FL_NO_TRANS, FL_TRANS } fl_trans;

typedef struct fl_gemm_shape {
    fl_trans ta, tb;
    int64_t m, n, k; /* C is m x n, op(A) m x k, op(B) k x n */
    int64_t lda, ldb, ldc;
} fl_gemm_shape;

void fl_gemm_f32(const fl_gemm_shape *s, float alpha, const float *a,
                 const float *b, float beta, float *c);
void fl_gemm_f64(const fl_gemm_shape *s, double alpha, const double *a,
                 const double *b, double beta, double *c);

/* Rows of C that are computed together when a product is shared. */
#define FL_GEMM_BLOCK 128

/* Rows [lo, hi) of C alone, block after block; lo is a multiple of
   FL_GEMM_BLOCK. A library rounds differently when a product is cut elsewhere,
   so only this form gives the same bits for any number of callers that share
   the rows. It costs nothing: blocks of 128 rows ran as fast as 1000. */
void fl_gemm_rows_f32(const fl_gemm_shape *s, int64_t lo, int64_t hi,
                      const float *a, const float *b, float *c);
void fl_gemm_rows_f64(const fl_gemm_shape *s, int64_t lo, int64_t hi,
                      const double *a, const double *b, double *c);

/* Weights ready to stand on the right of a product. */
typedef struct fl_gemm_weights {
    const float *w;
    fl_trans trans;
    int64_t k, n, ld;
} fl_gemm_weights;

/* op(w) is k x n. The memory of w is borrowed and may change between calls:
   after a change the weights are prepared again. */
void fl_gemm_prepare(fl_gemm_weights *out, const float *w, fl_trans trans,
                     int64_t k, int64_t n, int64_t ld);

/* c = a * weights, a is m x k. */
void fl_gemm_prepared(int64_t m, const float *a, int64_t lda,
                      const fl_gemm_weights *w, float *c, int64_t ldc);

/* "oneDNN" or "plain", for `flotilla version`. */
const char *fl_gemm_backend(void);

#endif
