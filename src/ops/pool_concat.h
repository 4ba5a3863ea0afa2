/* pool_concat.h - what the operators share that put pooled rows of many slots,
 * and dense features, beside each other:
 *
 *     Out[i] = pool(rows of Ids[a] in sample i) ... | X[b][i] ... , as `order`
 *                                                                   says
 *
 * They differ in where rows come from. A slot with exactly one id in every
 * sample, the usual case, has no offsets and no sums.
 */
#ifndef FL_OPS_POOL_CONCAT_H
#define FL_OPS_POOL_CONCAT_H

#include <math.h>

#include "ops/kit.h"

typedef enum fl_pool_type {
    FL_POOL_SUM,
    FL_POOL_AVERAGE,
    FL_POOL_SQRT
} fl_pool_type;

/* Where an operator has the slots and attributes that all of them have. */
typedef struct fl_pool_form {
    int ids, x;
    int order, pooltype, padding_idx, v2;
} fl_pool_form;

/* A column range of Out that is pooled from rows. */
typedef struct fl_pool_lookup {
    const uint64_t *ids;
    const int64_t *off; /* NULL: one id per sample */
    size_t col;
} fl_pool_lookup;

/* A column range of Out that is X[from]. */
typedef struct fl_pool_copy {
    int from;
    size_t col, width;
} fl_pool_copy;

typedef struct fl_pool_job {
    fl_pool_lookup *lookups;
    fl_pool_copy *copies;
    size_t n_lookups, n_copies;
    size_t n_ragged;       /* lookups with offsets */
    size_t batch, dim, ld; /* dim: of a row; ld: columns of Out */
    fl_pool_type type;
    bool padded; /* rows of the id `padding` count as zeros */
    uint64_t padding;
} fl_pool_job;

/* Checks what the form names, and makes output 0 of that type with rows of
   `dim` numbers (-1: not known yet) for each of Ids. */
FL_MUST_CHECK
fl_status fl_pool_infer(fl_infer *c, const fl_pool_form *f, fl_dtype dtype,
                        int64_t dim);

/* Lays the inputs out along the columns; what it points to is scratch. */
FL_MUST_CHECK
fl_status fl_pool_job_init(fl_pool_job *j, fl_op_ctx *c, const fl_pool_form *f,
                           size_t dim);

/* The dense features of sample i into its row of Out. */
void fl_pool_copy_dense(const fl_pool_job *j, const fl_targs *x, size_t i,
                        void *out);

static inline size_t fl_pool_lo(const fl_pool_lookup *l, size_t i)
{
    return l->off ? (size_t)l->off[i] : i;
}

static inline size_t fl_pool_hi(const fl_pool_lookup *l, size_t i)
{
    return l->off ? (size_t)l->off[i + 1] : i + 1;
}

static inline bool fl_pool_is_padding(const fl_pool_job *j, uint64_t id)
{
    return j->padded && id == j->padding;
}

/* What the sum of n rows is multiplied with. */
static inline double fl_pool_factor(fl_pool_type type, size_t n)
{
    if (n <= 1 || type == FL_POOL_SUM)
        return 1;
    return type == FL_POOL_AVERAGE ? 1 / (double)n : 1 / sqrt((double)n);
}

/* Four numbers at a time; written out so that no compiler makes a call of
   memcpy from it, which costs more than a short row. */
typedef float fl_quad_f32
    __attribute__((vector_size(16), aligned(4), may_alias));
typedef double fl_quad_f64
    __attribute__((vector_size(32), aligned(8), may_alias));

#define FL_POOL_ROWS(T, t)                                                     \
    static inline __attribute__((always_inline)) void fl_row_copy_##t(         \
        T *out, const T *row, size_t dim)                                      \
    {                                                                          \
        size_t d = 0;                                                          \
                                                                               \
        for (; d + 4 <= dim; d += 4)                                           \
            *(fl_quad_##t *)(out + d) = *(const fl_quad_##t *)(row + d);       \
        if (d < dim && dim > 4) { /* the last four, some of them again */      \
            d = dim - 4;                                                       \
            *(fl_quad_##t *)(out + d) = *(const fl_quad_##t *)(row + d);       \
            return;                                                            \
        }                                                                      \
        for (; d < dim; d++)                                                   \
            out[d] = row[d];                                                   \
    }                                                                          \
    /* out += a * row */                                                       \
    static inline __attribute__((always_inline)) void fl_row_add_##t(          \
        T *out, T a, const T *row, size_t dim)                                 \
    {                                                                          \
        size_t d = 0;                                                          \
                                                                               \
        for (; d + 4 <= dim; d += 4)                                           \
            *(fl_quad_##t *)(out + d) += a * *(const fl_quad_##t *)(row + d);  \
        for (; d < dim; d++)                                                   \
            out[d] += a * row[d];                                              \
    }                                                                          \
    static inline void fl_row_scale_##t(T *out, T a, const T *row, size_t dim) \
    {                                                                          \
        size_t d = 0;                                                          \
                                                                               \
        for (; d + 4 <= dim; d += 4)                                           \
            *(fl_quad_##t *)(out + d) = a * *(const fl_quad_##t *)(row + d);   \
        for (; d < dim; d++)                                                   \
            out[d] = a * row[d];                                               \
    }
FL_FLOATS(FL_POOL_ROWS)
#undef FL_POOL_ROWS

#endif
