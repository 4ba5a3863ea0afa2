/* collect.h - what the operators share that all workers run together: their
 * attributes, types, and the call, which is kept with the operator until its
 * answer. */
#ifndef FL_OPS_COLLECT_H
#define FL_OPS_COLLECT_H

#include "base/buf.h"
#include "ir/comm.h"
#include "ops/helpers.h"

/* The first two attributes of all of them. Streams are of other devices: what
   is computed here is there when an operator that reads it runs. */
enum { FL_COLLECT_RING_ID, FL_COLLECT_USE_CALC_STREAM };
#define FL_COLLECT_ATTRS                                                       \
    { "ring_id", FL_ATTR_INT, "0" },                                           \
    {                                                                          \
        "use_calc_stream", FL_ATTR_BOOL, "false"                               \
    }

/* It is not left out because nobody reads its result: the others wait. */
#define FL_COLLECT_FLAGS (FL_OP_EFFECT | FL_OP_WAITS | FL_OP_ORDERED)

typedef struct fl_collect_state {
    fl_comm_collect call; /* the first member */
    fl_buf buf;           /* what several tensors travel in */
    fl_buf all;           /* rows: what came from all workers, */
    uint64_t *counts;     /* and how many bytes from each */
    int n_workers;
} fl_collect_state;

/* The state that is kept with the operator. */
fl_collect_state *fl_collect_keep(fl_op_ctx *c);

/* Whether there is nobody to make it with; refuses it among trainers that have
   servers instead of one another. */
FL_MUST_CHECK
fl_status fl_collect_is_alone(const fl_op_ctx *c, bool *is_alone);

/* Begins a call: the state's, whose kind, numbers and memory are given. */
FL_MUST_CHECK
fl_status fl_collect_begin(const fl_op_ctx *c, fl_collect_state *s,
                           const fl_comm_collect *what);

/* Fails unless the ring has a number and X is a dense tensor that workers can
   work on together. */
FL_MUST_CHECK
fl_status fl_collect_check(const fl_infer *c, int slot, int i);

/* Fails unless the attribute is a rank of this job. */
FL_MUST_CHECK
fl_status fl_collect_check_root(const fl_op_ctx *c, int attr, int *root);

/* Fails unless the attribute is the number of workers. */
FL_MUST_CHECK
fl_status fl_collect_check_nranks(const fl_op_ctx *c, int attr);

/* Rows + values of all workers, in the order of ranks (collect_rows.c). */
FL_MUST_CHECK
fl_status fl_collect_rows(fl_op_ctx *c, const fl_tensor *x, fl_tensor *out,
                          double share);

#endif
