/* time_steps.h - what recurrent operators over ragged rows share.
 *
 * Nothing is padded. Sequences are sorted by length, the longest first, so
 * those that have a row at time t are the first of them. In outputs in batch
 * order the rows of one time lie side by side, in the order of the sequences:
 *
 *     lengths 1 3 2, sorted 1 2 0    rows: t=0: 1 2 0   t=1: 1 2   t=2: 1
 *
 * which makes each time step a few products over the sequences still alive, and
 * the rows before theirs the first rows of the step before.
 *
 * Sequences know nothing of each other: shares take blocks of sorted sequences
 * through all times. The blocks are the same for any number of shares
 * (kernel/gemm.h says why); a share takes every nth: the first are longer.
 */
#ifndef FL_OPS_TIME_STEPS_H
#define FL_OPS_TIME_STEPS_H

#include "kernel/vec.h"
#include "ops/kit.h"

/* Sequences of one block. */
#define FL_STEPS_BLOCK 64

typedef struct fl_steps {
    bool reverse; /* from the last row to the first */
    size_t n_seq;
    const int64_t *off; /* NULL: every sequence has one row */
    int64_t *seq;       /* the sorted sequences */
    int64_t *start;     /* the batch row where a time begins: n_times + 1 */
    size_t n_times;
} fl_steps;

/* Sorts; reverse, n_seq and off are set. Memory is the operator's scratch. */
FL_MUST_CHECK
fl_status fl_steps_sort(fl_op_ctx *c, fl_steps *s);

/* The row of the input that sorted sequence k has at time t. */
size_t fl_steps_row(const fl_steps *s, size_t k, size_t t);

/* Sequences that have a row at time t. */
size_t fl_steps_alive(const fl_steps *s, size_t t);

/* Rows of block b at time t, and the first of them in batch order. */
size_t fl_steps_rows_at(const fl_steps *s, size_t b, size_t t);
size_t fl_steps_batch_row(const fl_steps *s, size_t b, size_t t);

static inline size_t fl_steps_blocks(size_t n_seq)
{
    return (n_seq + FL_STEPS_BLOCK - 1) / FL_STEPS_BLOCK;
}

/* An activation that an attribute gives by name, or by number where it is an
   integer: 0 identity, 1 sigmoid, 2 tanh, 3 relu. */
FL_MUST_CHECK
fl_status fl_infer_act(const fl_infer *c, int attr);
fl_act fl_act_of(const fl_op_node *n, int attr);

/* y = act(y + bias) for rows of cols numbers, ld apart; bias may be NULL. As
   in PaddlePaddle a sigmoid takes what is beyond [-40, 13] for its end: a gate
   never opens all the way. */
void fl_gate_act_f32(float *y, const float *bias, size_t rows, size_t cols,
                     size_t ld, fl_act act);
void fl_gate_act_f64(double *y, const double *bias, size_t rows, size_t cols,
                     size_t ld, fl_act act);

/* Fails unless the slot, when given, is [rows, cols] and has the type of slot
   `like`; -1 fits anything. */
FL_MUST_CHECK
fl_status fl_infer_matrix(const fl_infer *c, int slot, int like, int64_t rows,
                          int64_t cols);

#endif
