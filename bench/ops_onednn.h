/* ops_onednn.h - oneDNN's primitives for the operators that it has. A primitive
 * is made at the first call with its sizes and kept. One thread. */
#ifndef BENCH_OPS_ONEDNN_H
#define BENCH_OPS_ONEDNN_H

#include <dnnl.h>
#include <stddef.h>

/* Before anything else, products included. */
void onednn_start(void);

void onednn_eltwise(dnnl_alg_kind_t kind, const float *x, float *out, size_t n);

/* Along the last dimension of [rows, width]. */
void onednn_softmax(const float *x, float *out, size_t rows, size_t width);

#endif
