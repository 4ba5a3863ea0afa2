/* products.h - the gradients of a product of two matrices, shared by the
 * operators that have one. */
#ifndef FL_OPS_PRODUCTS_H
#define FL_OPS_PRODUCTS_H

#include "ops/kit.h"

/* out [m,n] = x [m,k] w [k,n] */
typedef struct fl_product {
    int64_t m, n, k;
} fl_product;

/* This share's rows of dx = dout w' and of dw = x' dout; each may be NULL. */
void fl_product_back_f32(const fl_op_ctx *c, const fl_product *z,
                         const float *x, const float *w, const float *dout,
                         float *dx, float *dw);
void fl_product_back_f64(const fl_op_ctx *c, const fl_product *z,
                         const double *x, const double *w, const double *dout,
                         double *dx, double *dw);

#endif
