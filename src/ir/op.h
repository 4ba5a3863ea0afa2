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
#include "flotilla/operator.h"
#include "tensor/tensor.h"

#define FL_OP_SLOTS_MAX 16
#define FL_ATTRS_MAX 24

typedef struct fl_op fl_op;
typedef struct fl_comm fl_comm;
typedef struct fl_waker fl_waker;
typedef struct fl_args fl_args;
typedef struct fl_block_port fl_block_port;

enum fl_slot_flag {
    FL_OP_SLOT_LIST = 1,       /* takes any number of variables */
    FL_OP_SLOT_OPTIONAL = 2,   /* may be left out */
    FL_OP_SLOT_STATE = 4,      /* an input that the operator changes in place,
                                  an output that may keep what it holds */
    FL_OP_SLOT_ROWS = 8,       /* may carry rows + values */
    FL_SLOT_NO_GRAD = 16,      /* labels, ids, state: no gradient flows back */
    FL_OP_SLOT_BYPRODUCT = 32, /* an output that may be left out */
    FL_OP_SLOT_KEPT =
        64, /* an input that is not read, but must live until then */
    FL_OP_SLOT_VALUE = 128,  /* infer reads its few numbers before a run */
    FL_OP_SLOT_COUNT = 256,  /* state that sums up what was seen of some data:
                               other data is counted from zero */
    FL_OP_SLOT_ARRAY = 512,  /* may carry an array of tensors */
    FL_OP_SLOT_UNSET = 1024, /* may name what nobody has written before */
};

typedef struct fl_op_slot {
    const char *name;
    unsigned flags;
} fl_op_slot;

/* Name, type and default in text form: "true", "-1", "0.5", "SUM", "[1,2]". */
typedef struct fl_attr_def {
    const char *name;
    fl_attr_type type;
    const char *value;
} fl_attr_def;

enum fl_op_flag {
    FL_OP_INPLACE = 1,    /* output 0 may lie where input 0 lies */
    FL_OP_SLICED = 2,     /* run and back may be split by fl_op_span */
    FL_OP_EFFECT = 4,     /* does something besides its outputs */
    FL_OP_TRAIN_ONLY = 8, /* left out of a clone for test */
    FL_OP_WAITS = 16,     /* may return FL_PENDING */
    FL_OP_EACH = 32,      /* an update that each replica makes for its part */
    FL_OP_WHOLE = 64,     /* an update that needs all of a parameter (a norm) */
    FL_OP_SERVER =
        128, /* its effect is on what a server holds: a peer may ask */
    FL_OP_MAKES = 256,    /* its first attribute names what it makes */
    FL_OP_OVER_OUT = 512, /* back: input 0's gradient may lie where output 0
                             lies */
    FL_OP_ORDERED = 1024, /* made by all workers: those of a program begin in
                             its order, and need not wait for one another */
    FL_OP_FED = 2048,     /* never runs: what it gives is fed, see ops/read.c */
    FL_OP_BY_FORM = 4096, /* infer needs types, shapes and numbers of offsets
                             alone, and leaves nothing in the workspace */
    FL_OP_REMEMBERS =
        8192, /* back needs nothing of the inputs that the operator
                               overwrote but what it kept of them */
};

/* What back reads: bit i for input i, bit 16 + i for output i. */
#define FL_USES_IN(i) (1u << (i))
#define FL_USES_OUT(i) (1u << (16 + (i)))

#define FL_CASE_ARGS_MAX 16

/* One row of the sweep test: inputs by slot in text form ("f32[3,4]",
   "i64[7,1] lod=[0,2,7] below=10", "f32[9,4] rows height=9"), separated by
   ';' where a slot takes a list, and attributes ("{axis=1}"). Cases written in
   f32 are run in f64 too; "f32[3] below=1" draws numbers in (0, 1), and
   "i32[2] is=[3,4]" holds just these whole numbers. Texts
   behind those of the inputs declare outputs, for an operator that takes their
   shapes from the declaration. */
typedef struct fl_op_case {
    const char *in[FL_CASE_ARGS_MAX];
    const char *attrs;
    unsigned flags; /* enum fl_case_flag */
} fl_op_case;

enum fl_case_flag {
    FL_CASE_POSITIVE = 1, /* draw inputs in [0.5, 2) */
    FL_CASE_PROB = 2,     /* rows of input 0 are probabilities */
    FL_CASE_BINARY = 4,   /* float inputs after the first are 0 or 1 */
    FL_CASE_UNIT = 8,     /* draw inputs in (0, 1) */
};

typedef struct fl_infer fl_infer;
typedef struct fl_op_ctx fl_op_ctx;

struct fl_op {
    const char *name, *doc;
    fl_op_slot in[FL_OP_SLOTS_MAX], out[FL_OP_SLOTS_MAX];
    fl_attr_def attrs[FL_ATTRS_MAX];
    unsigned flags, back_uses;
    /* Shapes and types of the outputs from those of the inputs; used while
       building, with -1 for what is not known, and again before each run, when
       the numbers in slots with FL_OP_SLOT_VALUE may be read. */
    fl_status (*infer)(fl_infer *c);
    fl_status (*run)(fl_op_ctx *c);
    fl_status (*back)(fl_op_ctx *c);
    /* Gradients are like their variables unless this says otherwise. */
    fl_status (*back_infer)(fl_infer *c);
    /* What of back_uses the gradient of this node reads, where its attributes
       leave something out; NULL: all of it. */
    unsigned (*back_reads)(const fl_op_node *n);
    const fl_op_case *cases;
    size_t n_cases;
};

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
    void **keep;      /* this operator's own state between steps */
    void (**keep_free)(void *keep);
    fl_comm *comm;         /* the port to the tables; NULL without tables */
    fl_waker *waker;       /* call fl_wake after returning FL_PENDING */
    bool resumed;          /* this call follows a wake-up */
    fl_block_port *blocks; /* NULL: no block can run here */
};

/* A block of the program that an operator runs inside its step, once or
   several times. */
typedef struct fl_block_call {
    int block;
    uint64_t lap;            /* of several runs, which one this is */
    const fl_args *in_vars;  /* what the block is given, as it knows them, */
    const fl_targs *in;      /* and their values */
    const fl_args *out_vars; /* what it writes for others */
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
