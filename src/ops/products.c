/* products.c - the gradients of a product of two matrices. Shares take blocks
 * of rows; kernel/gemm.h says why blocks. */
#include "ops/products.h"

#include "kernel/gemm.h"

#define BACK(T, t)                                                             \
    void fl_product_back_##t(const fl_op_ctx *c, const fl_product *z,          \
                             const T *x, const T *w, const T *dout, T *dx,     \
                             T *dw)                                            \
    {                                                                          \
        fl_span rx = fl_op_blocks(c, (size_t)z->m, FL_GEMM_BLOCK);             \
        fl_span rw = fl_op_blocks(c, (size_t)z->k, FL_GEMM_BLOCK);             \
        fl_gemm_shape for_x = { .ta = FL_NO_TRANS,                             \
                                .tb = FL_TRANS,                                \
                                .m = z->m,                                     \
                                .n = z->k,                                     \
                                .k = z->n,                                     \
                                .lda = z->n,                                   \
                                .ldb = z->n,                                   \
                                .ldc = z->k };                                 \
        fl_gemm_shape for_w = { .ta = FL_TRANS,                                \
                                .tb = FL_NO_TRANS,                             \
                                .m = z->k,                                     \
                                .n = z->n,                                     \
                                .k = z->m,                                     \
                                .lda = z->k,                                   \
                                .ldb = z->n,                                   \
                                .ldc = z->n };                                 \
                                                                               \
        if (dw)                                                                \
            fl_gemm_rows_##t(&for_w, (int64_t)rw.lo, (int64_t)rw.hi, x, dout,  \
                             dw);                                              \
        if (dx)                                                                \
            fl_gemm_rows_##t(&for_x, (int64_t)rx.lo, (int64_t)rx.hi, dout, w,  \
                             dx);                                              \
    }
FL_FLOATS(BACK)
