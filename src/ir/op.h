/* op.h - what an operator is: a const descriptor, and the two contexts its
 * functions get.
 *
 * ir, pass and exec know operators through this descriptor only and name none.
 * An operator's back function needs no descriptor of its own: `relu` with a
 * back function gives `relu_grad`, whose slots follow from relu's:
 *
 *     relu       (X) -> (Out)
 *     relu_grad  (X, Out, Out@GRAD) -> (X@GRAD)
 *
 * A gradient operator always lists the forward inputs, for their shapes; only
 * those named in back_uses are read, and kept alive for it.
 */
#ifndef FL_IR_OP_H
#define FL_IR_OP_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/status.h"
#include "flotilla/experimental/op.h"
#include "tensor/tensor.h"

typedef struct fl_comm fl_comm;
typedef struct fl_waker fl_waker;
typedef struct fl_args fl_args;
typedef struct fl_block_port fl_block_port;

/* Tensors of one slot. A NULL entry stands for a variable left out. */
typedef struct fl_targs {
    fl_tensor **t;
    int n;
} fl_targs;

/* Memory of one step: its infer asks for it, all shares of its run see it, and
   it stays until the step is inferred anew. Offsets that an operator makes and
   sums that shares leave for each other lie here. */
typedef struct fl_workspace {
    fl_buf buf;
    atomic_int n_done; /* shares that have done their part */
} fl_workspace;

/* Slots of the arrays below, for an operator with I inputs and O outputs:
   forward: in [0, I), out [0, O);
   gradient: in [0, I) inputs, [I, I+O) outputs, [I+O, I+2O) their gradients;
             out [0, I) gradients of the inputs. */
struct fl_infer {
    const fl_op_node *node;
    const fl_targs *in;
    fl_targs *out;
    bool running;            /* dims and offsets are real ones */
    fl_workspace *workspace; /* NULL while building */
};

/* Who runs: which hogwild thread, and of replicas which part of one step. */
typedef struct fl_worker_id {
    int thread;
    int part, n_parts;
    double scale; /* of this part's gradients in the step's */
} fl_worker_id;

struct fl_op_ctx {
    const fl_op_node *node;
    const fl_targs *in;
    fl_targs *out;
    int ith, nth;            /* this call's share of the work */
    fl_arena *scratch;       /* emptied after the operator */
    fl_arena *step;          /* emptied after the step */
    fl_workspace *workspace; /* what infer asked for */
    uint64_t step_no;        /* the global step, from 0 */
    uint64_t seed;           /* of the program */
    int replica;             /* index of the replica or hogwild thread */
    fl_worker_id worker;
    /* Of the batches that make one step, the number of this one. Before the
       last, only operators with FL_OP_EACH see the gradients. */
    int turn, n_turns;
    uint64_t samples; /* of this step's batch, over all parts and turns */
    uint64_t lap;     /* which run of its block in the step this is, from 0 */
    uint64_t values;  /* of a frozen scope: the same number, the same values; 0:
                         they may change from run to run */
    void **keep;      /* this operator's own state between steps */
    void (**keep_free)(void *keep);
    fl_comm *comm;         /* the port to the tables; NULL without tables */
    fl_waker *waker;       /* call fl_wake after returning FL_PENDING */
    bool resumed;          /* this call follows a wake-up */
    bool is_behind;        /* it began ahead, before a run that comes first */
    bool did_early;        /* run: its early part has been made */
    fl_block_port *blocks; /* NULL: no block can run here */
};

/* A block of the program that an operator runs inside its step, once or
   several times. */
typedef struct fl_block_call {
    int block;
    uint64_t lap;            /* of several runs, which one this is */
    const fl_args *in_vars;  /* what the block is given, as it knows them, */
    const fl_targs *in;      /* and their values */
    const fl_args *out_vars; /* what it writes for others, */
    const fl_targs *kept;    /* and their values before; NULL: none */
    /* Back: gradients that came for out_vars, and those that are wanted of
       in_vars. NULL: forward. */
    const fl_targs *dout, *din;
    const char *copy_op, *sum_op; /* operators that copy, and add up several */
    /* Room for the values of out_vars, or for the gradients of in_vars; NULL
       for what there is none of, or what lives in the scope. Borrowed until the
       next call of the operator. */
    const fl_tensor **results;
} fl_block_call;

struct fl_block_port {
    fl_status (*run)(fl_block_port *p, const fl_block_call *call);
    /* Gives an output of the operator memory for the shape it has now. */
    fl_status (*place)(fl_block_port *p, fl_tensor *out);
};

/* Makes an operator that returned FL_PENDING runnable again. Any thread. */
struct fl_waker {
    void (*wake)(fl_waker *w);
};

static inline void fl_wake(fl_waker *w)
{
    w->wake(w);
}

int fl_op_n_in(const fl_op *op);
int fl_op_n_out(const fl_op *op);
int fl_op_n_attrs(const fl_op *op);

/* Index of a slot or attribute by name; -1 when there is none. */
int fl_op_find_in(const fl_op *op, const char *name);
int fl_op_find_out(const fl_op *op, const char *name);
int fl_op_find_attr(const fl_op *op, const char *name);

#endif
