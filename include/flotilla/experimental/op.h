/* op.h - an operator of your own. Experimental: it may change with any version.
 *
 * An operator is a const descriptor: names, slots, attributes, and the functions
 * that infer shapes, compute, and compute the gradient. Flotilla's own are made
 * of the same; examples/own_op has one to copy. Added once, it can be appended,
 * differentiated, saved and loaded like any other:
 *
 *     fl_op_add(&square_op);
 *     fl_append_op(NULL, block, "square_relu", ...);
 *
 * An operator's back function needs no descriptor of its own: `relu` with a
 * back function gives `relu_grad`, whose slots follow from relu's:
 *
 *     relu       (X) -> (Out)
 *     relu_grad  (X, Out, Out@GRAD) -> (X@GRAD)
 *
 * A gradient operator always lists the forward inputs, for their shapes; only
 * those named in back_uses are read, and kept alive for it.
 *
 * Functions run in threads of the executor, several at a time.
 */
#ifndef FLOTILLA_EXPERIMENTAL_OP_H
#define FLOTILLA_EXPERIMENTAL_OP_H

#include "flotilla/operator.h"
#include "flotilla/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define FL_OP_SLOTS_MAX 16
#define FL_ATTRS_MAX 24

typedef struct fl_op fl_op;
typedef struct fl_infer fl_infer;
typedef struct fl_op_ctx fl_op_ctx;

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
                             alone, also for what it leaves in the workspace */
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
    FL_CASE_POSITIVE = 1,  /* draw inputs in [0.5, 2) */
    FL_CASE_PROB = 2,      /* rows of input 0 are probabilities */
    FL_CASE_BINARY = 4,    /* float inputs after the first are 0 or 1 */
    FL_CASE_UNIT = 8,      /* draw inputs in (0, 1) */
    FL_CASE_NO_SLOPE = 16, /* what back gives is no slope, by intention */
    FL_CASE_ROUNDED = 32,  /* f32 is rounded to bf16 on its way: it agrees with
                              f64 to a tenth */
};

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
    /* Of an operator that waits: the part of run that asks nobody, made ahead of
       it while the thread waits for something else. The inputs are there, and
       run is told that it has been made. NULL: there is none. */
    fl_status (*early)(fl_op_ctx *c);
};

/* --- values ------------------------------------------------------------- */

/* Tensors by slot. The _at forms index a list. NULL when left out. */
FL_API const fl_tensor *fl_in_t(const fl_op_ctx *c, int slot);
FL_API const fl_tensor *fl_in_at(const fl_op_ctx *c, int slot, int i);
FL_API fl_tensor *fl_out_t(const fl_op_ctx *c, int slot);
FL_API fl_tensor *fl_out_at(const fl_op_ctx *c, int slot, int i);
FL_API int fl_n_in(const fl_op_ctx *c, int slot);
FL_API int fl_n_out(const fl_op_ctx *c, int slot);

/* In back: saved outputs, gradients that came, gradients that are wanted.
   NULL when no gradient came or none is wanted. */
FL_API const fl_tensor *fl_saved_out_t(const fl_op_ctx *c, int slot);
FL_API const fl_tensor *fl_dout_t(const fl_op_ctx *c, int slot);
FL_API const fl_tensor *fl_dout_at(const fl_op_ctx *c, int slot, int i);
FL_API fl_tensor *fl_din_t(const fl_op_ctx *c, int slot);
FL_API fl_tensor *fl_din_at(const fl_op_ctx *c, int slot, int i);

/* The same, as bare data pointers. */
FL_API const void *fl_in(const fl_op_ctx *c, int slot);
FL_API void *fl_out(const fl_op_ctx *c, int slot);
FL_API const void *fl_saved_out(const fl_op_ctx *c, int slot);
FL_API const void *fl_dout(const fl_op_ctx *c, int slot);
FL_API void *fl_din(const fl_op_ctx *c, int slot);

/* The run found n rows, no more than infer made room for. Readers see n; an
   output that may end like this is built with a first dimension of -1. */
FL_API void fl_out_rows(const fl_op_ctx *c, int slot, size_t n);

/* An output of fl_infer_declared becomes a copy of a value of any kind; its
   type and shape too. */
FL_API FL_MUST_CHECK
fl_status fl_out_become(fl_op_ctx *c, fl_tensor *out, const fl_tensor *value);

/* --- work --------------------------------------------------------------- */

typedef struct fl_span {
    size_t lo, hi;
} fl_span;

/* This call's share of n items, cut at multiples of 16. */
FL_API fl_span fl_op_span(const fl_op_ctx *c, size_t n);

/* The same, cut at multiples of `block`. */
FL_API fl_span fl_op_blocks(const fl_op_ctx *c, size_t n, size_t block);

/* Memory until the operator returns; NULL becomes FL_ERR_NOMEM. */
FL_API void *fl_scratch(fl_op_ctx *c, size_t bytes);

/* This operator's own memory between steps, zeroed at first; `release` (may
   be NULL) runs before it is freed. */
FL_API void *fl_op_keep(fl_op_ctx *c, size_t bytes, void (*release)(void *));

/* What infer asked for with fl_infer_workspace; all shares see the same. */
FL_API void *fl_op_workspace(const fl_op_ctx *c);

/* Says that this share is through, once. True for the share that is through
   last: it sees what all others wrote. */
FL_API bool fl_op_is_last(const fl_op_ctx *c);

/* The state of the counter randomness for output 0 of this node; `moving`
   adds the global step and the replica, for operators that draw anew. */
typedef enum fl_stream_kind {
    FL_STREAM_FIXED,
    FL_STREAM_MOVING
} fl_stream_kind;
FL_API uint64_t fl_op_stream(const fl_op_ctx *c, int64_t seed,
                             fl_stream_kind kind);
/* The same for entry i of output 0, where that is a list. */
FL_API uint64_t fl_op_stream_at(const fl_op_ctx *c, int i, int64_t seed,
                                fl_stream_kind kind);

/* The same for a name of the operator's choice, for draws that several nodes
   share. */
FL_API uint64_t fl_op_stream_of(const fl_op_ctx *c, const char *name,
                                int64_t seed, fl_stream_kind kind);

/* --- infer ---------------------------------------------------------------- */

FL_API const fl_tensor *fl_infer_in(const fl_infer *c, int slot);
FL_API const fl_tensor *fl_infer_in_at(const fl_infer *c, int slot, int i);
FL_API int fl_infer_n_in(const fl_infer *c, int slot);
FL_API int fl_infer_n_out(const fl_infer *c, int slot);

/* NULL when the output was left out. */
FL_API fl_tensor *fl_infer_out(const fl_infer *c, int slot);
FL_API fl_tensor *fl_infer_out_at(const fl_infer *c, int slot, int i);

/* Out has the shape, type and offsets of X; X may be of any float type. */
FL_API fl_status fl_infer_same(fl_infer *c, int in, int out);

/* A dense output; left-out outputs are fine. */
FL_API void fl_infer_dense(const fl_infer *c, int slot, fl_dtype dtype,
                           int rank, const int64_t *dims);

/* Outputs of a slot as they are declared, for an operator that knows their
   shapes when it has run: fl_out_become gives them then. */
FL_API FL_MUST_CHECK
fl_status fl_infer_declared(const fl_infer *c, int slot);

/* Memory for the run, while running: once per infer, see fl_workspace. */
FL_API FL_MUST_CHECK
fl_status fl_infer_workspace(const fl_infer *c, size_t bytes, void **out);

/* Fails unless the slot holds f32 or f64. */
FL_API fl_status fl_infer_float(const fl_infer *c, int slot);

/* Fails unless the slot holds i64, u64 or i32. */
FL_API fl_status fl_infer_ids(const fl_infer *c, int slot);

/* Fails unless both slots have one dtype. */
FL_API fl_status fl_infer_same_dtype(const fl_infer *c, int a, int b);

/* In back_infer: fails unless the forward operator gave its output `slot`,
   which the gradient reads. */
FL_API fl_status fl_back_needs(const fl_infer *c, int slot);

/* "X (x: f32[-1,4])", for messages: slot, variable and shape. */
#define FL_SLOT_TEXT_MAX 320
FL_API const char *fl_infer_text(const fl_infer *c, int slot,
                                 char buf[FL_SLOT_TEXT_MAX]);

/* --- attributes ---------------------------------------------------------- */

/* The operator in its program, for its attributes. */
FL_API const fl_op_node *fl_op_ctx_node(const fl_op_ctx *c);
FL_API const fl_op_node *fl_infer_node(const fl_infer *c);

/* Attribute i of a node, by its index in the descriptor. */
FL_API bool fl_attr_bool(const fl_op_node *n, int i);
FL_API int64_t fl_attr_int(const fl_op_node *n, int i);
FL_API int64_t fl_attr_block(const fl_op_node *n, int i); /* -1: none */
FL_API double fl_attr_float(const fl_op_node *n, int i);
FL_API const char *fl_attr_str(const fl_op_node *n, int i);
FL_API const int64_t *fl_attr_ints(const fl_op_node *n, int i, size_t *len);
FL_API const double *fl_attr_floats(const fl_op_node *n, int i, size_t *len);
FL_API const char *const *fl_attr_strings(const fl_op_node *n, int i,
                                          size_t *len);

/* Fails naming the slot, the place and the id when one is not in [0, limit).
   limit 0 means any. skip: an id that is let through (padding, ignore). */
FL_API fl_status fl_check_ids(const fl_tensor *ids, const char *slot,
                              uint64_t limit, int64_t skip);

/* --- adding it ------------------------------------------------------------- */

/* For all programs of this process, before the first that has it. The descriptor
   and all it points to must stay. A name that another operator has is refused;
   the same descriptor may be added again. Any thread. */
#define fl_op_add(op) fl_op_add_sized(op, sizeof(fl_op))
FL_API FL_MUST_CHECK
fl_status fl_op_add_sized(const fl_op *op, size_t size);

/* Asks of the operator what is asked of Flotilla's own, over all of its cases:
   a run gives the shapes that were promised, gradients equal differences, f32
   and f64 agree, any number of threads gives the same bits, in place or not, and
   no memory is an error and nothing else. The error names check and case. */
FL_API FL_MUST_CHECK
fl_status fl_op_sweep(const char *name);

#ifdef __cplusplus
}
#endif
#endif
