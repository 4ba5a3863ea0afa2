/* ops_straight.h - operators as straight loops, or as oneDNN has them: what
 * ours are measured against. One thread. */
#ifndef BENCH_OPS_STRAIGHT_H
#define BENCH_OPS_STRAIGHT_H

#include <stddef.h>
#include <stdint.h>

/* Inputs that the operators share; `rows` of them are in n_seq sequences. */
typedef struct ops_data {
    size_t rows, width, units, n_seq;
    float *x, *y;     /* [rows, width], numbers in (-1, 1) */
    float *p;         /* [rows, width], rows are probabilities */
    float *b;         /* [width] */
    float *w;         /* [width, units] */
    float *bias;      /* [units] */
    float *table;     /* [units, width] */
    float *filter;    /* [3 width, units] */
    float *gates;     /* [rows, 3 width] */
    float *recurrent; /* [width, 3 width] in the two blocks of gru */
    int64_t *ids;     /* [rows], below units */
    int64_t *labels;  /* [rows], below width */
    float *targets;   /* [rows, width], 0 or 1 */
    int64_t *offsets; /* [n_seq + 1] */
    void *room;       /* work space of the straight forms */
} ops_data;

#define OPS_CONTEXT 3 /* rows of sequence_conv's window, one before */

/* Bytes of `room` that these sizes need, and what ops_sequence.c needs of it. */
size_t ops_room_bytes(const ops_data *d);
size_t ops_sequence_bytes(const ops_data *d);

/* The windows of sequence_conv of all rows of x, side by side. */
void ops_fill_windows(const ops_data *d, float *windows);

/* The sequences that have rows, the longest first; the order among equals is
   that of the batch. Returns how many there are. */
size_t ops_sort_sequences(const ops_data *d, int64_t *order);

typedef void (*ops_straight)(const ops_data *d, float *out);

#define OPS_STRAIGHT(S)                                                        \
    S(mul)                                                                     \
    S(fc)                                                                      \
    S(matmul)                                                                  \
    S(add)                                                                     \
    S(sub)                                                                     \
    S(times)                                                                   \
    S(relu)                                                                    \
    S(relu_grad)                                                               \
    S(tanh)                                                                    \
    S(sigmoid)                                                                 \
    S(square)                                                                  \
    S(softmax)                                                                 \
    S(softmax_loss)                                                            \
    S(cross_entropy)                                                           \
    S(sigmoid_loss)                                                            \
    S(reduce_sum)                                                              \
    S(mean)                                                                    \
    S(sum)                                                                     \
    S(concat)                                                                  \
    S(lookup)                                                                  \
    S(pool_sum)                                                                \
    S(pool_max)                                                                \
    S(cos_sim)                                                                 \
    S(sequence_conv)                                                           \
    S(gru)                                                                     \
    S(sequence_conv_grad)                                                      \
    S(gru_grad)

#define OPS_DECLARE(name) void straight_##name(const ops_data *d, float *out);
OPS_STRAIGHT(OPS_DECLARE)
#undef OPS_DECLARE

#endif
