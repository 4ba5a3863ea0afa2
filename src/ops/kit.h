/* kit.h - all that an operator file needs. See relu.c for the smallest
 * complete operator. */
#ifndef FL_OPS_KIT_H
#define FL_OPS_KIT_H

#include "ir/attr.h"
#include "ir/op.h"
#include "ir/program.h"
#include "tensor/floats.h"

/* --- values ------------------------------------------------------------- */

/* Tensors by slot. The _at forms index a list. NULL when left out. */
const fl_tensor *fl_in_t(const fl_op_ctx *c, int slot);
const fl_tensor *fl_in_at(const fl_op_ctx *c, int slot, int i);
fl_tensor *fl_out_t(const fl_op_ctx *c, int slot);
fl_tensor *fl_out_at(const fl_op_ctx *c, int slot, int i);
int fl_n_in(const fl_op_ctx *c, int slot);
int fl_n_out(const fl_op_ctx *c, int slot);

/* In back: saved outputs, gradients that came, gradients that are wanted.
   NULL when no gradient came or none is wanted. */
const fl_tensor *fl_saved_out_t(const fl_op_ctx *c, int slot);
const fl_tensor *fl_dout_t(const fl_op_ctx *c, int slot);
const fl_tensor *fl_dout_at(const fl_op_ctx *c, int slot, int i);
fl_tensor *fl_din_t(const fl_op_ctx *c, int slot);
fl_tensor *fl_din_at(const fl_op_ctx *c, int slot, int i);

/* The same, as bare data pointers. */
const void *fl_in(const fl_op_ctx *c, int slot);
void *fl_out(const fl_op_ctx *c, int slot);
const void *fl_saved_out(const fl_op_ctx *c, int slot);
const void *fl_dout(const fl_op_ctx *c, int slot);
void *fl_din(const fl_op_ctx *c, int slot);

/* The run found n rows, no more than infer made room for. Readers see n; an
   output that may end like this is built with a first dimension of -1. */
void fl_out_rows(const fl_op_ctx *c, int slot, size_t n);

/* --- work --------------------------------------------------------------- */

typedef struct fl_span {
    size_t lo, hi;
} fl_span;

/* This call's share of n items, cut at multiples of 16. */
fl_span fl_op_span(const fl_op_ctx *c, size_t n);

/* The same, cut at multiples of `block`. */
fl_span fl_op_blocks(const fl_op_ctx *c, size_t n, size_t block);

/* Memory until the operator returns; NULL becomes FL_ERR_NOMEM. */
void *fl_scratch(fl_op_ctx *c, size_t bytes);

/* This operator's own memory between steps, zeroed at first; `release` (may
   be NULL) runs before it is freed. */
void *fl_op_keep(fl_op_ctx *c, size_t bytes, void (*release)(void *));

/* What infer asked for with fl_infer_workspace; all shares see the same. */
void *fl_op_workspace(const fl_op_ctx *c);

/* Says that this share is through, once. True for the share that is through
   last: it sees what all others wrote. */
bool fl_op_is_last(const fl_op_ctx *c);

/* The state of the counter randomness for output 0 of this node; `moving`
   adds the global step and the replica, for operators that draw anew. */
typedef enum fl_stream_kind {
    FL_STREAM_FIXED,
    FL_STREAM_MOVING
} fl_stream_kind;
uint64_t fl_op_stream(const fl_op_ctx *c, int64_t seed, fl_stream_kind kind);
/* The same for entry i of output 0, where that is a list. */
uint64_t fl_op_stream_at(const fl_op_ctx *c, int i, int64_t seed,
                         fl_stream_kind kind);

/* The same for a name of the operator's choice, for draws that several nodes
   share. */
uint64_t fl_op_stream_of(const fl_op_ctx *c, const char *name, int64_t seed,
                         fl_stream_kind kind);

/* What an operator returns when fl_scratch gave nothing. */
#define FL_NOMEM(c)                                                            \
    ((void)fl_err_set(FL_ERR_NOMEM, "no memory for work space of %s",          \
                      (c)->node->def->name),                                   \
     FL_ERR_NOMEM)

/* --- both float types ----------------------------------------------------- */

/* 0 for f32, 1 for f64, for tables of functions; for others as FL_BY_DTYPE. */
int fl_float_index(fl_dtype dtype, const fl_op_node *n);

/* The same by the dtype of input slot `slot`, read from its shape entry, so
   it works in run and in back. */
#define FL_BY_FLOAT(c, slot, fn, ...)                                          \
    FL_BY_DTYPE(fl_in_t(c, slot)->dtype, fn, __VA_ARGS__)

/* --- infer ---------------------------------------------------------------- */

const fl_tensor *fl_infer_in(const fl_infer *c, int slot);
const fl_tensor *fl_infer_in_at(const fl_infer *c, int slot, int i);
int fl_infer_n_in(const fl_infer *c, int slot);
int fl_infer_n_out(const fl_infer *c, int slot);

/* NULL when the output was left out. */
fl_tensor *fl_infer_out(const fl_infer *c, int slot);
fl_tensor *fl_infer_out_at(const fl_infer *c, int slot, int i);

/* Out has the shape, type and offsets of X; X may be of any float type. */
fl_status fl_infer_same(fl_infer *c, int in, int out);

/* A dense output; left-out outputs are fine. */
void fl_infer_dense(const fl_infer *c, int slot, fl_dtype dtype, int rank,
                    const int64_t *dims);

/* Memory for the run, while running: once per infer, see fl_workspace. */
FL_MUST_CHECK
fl_status fl_infer_workspace(const fl_infer *c, size_t bytes, void **out);

/* Fails unless the slot holds f32 or f64. */
fl_status fl_infer_float(const fl_infer *c, int slot);

/* Fails unless the slot holds i64, u64 or i32. */
fl_status fl_infer_ids(const fl_infer *c, int slot);

/* Fails unless both slots have one dtype. */
fl_status fl_infer_same_dtype(const fl_infer *c, int a, int b);

/* In back_infer: fails unless the forward operator gave its output `slot`,
   which the gradient reads. */
fl_status fl_back_needs(const fl_infer *c, int slot);

/* "X (x: f32[-1,4])", for messages: slot, variable and shape. */
#define FL_SLOT_TEXT_MAX 320
const char *fl_infer_text(const fl_infer *c, int slot,
                          char buf[FL_SLOT_TEXT_MAX]);

/* --- attributes ---------------------------------------------------------- */

#define fl_bool(c, i) fl_attr_bool((c)->node, i)
#define fl_int(c, i) fl_attr_int((c)->node, i)
#define fl_float(c, i) fl_attr_float((c)->node, i)
#define fl_str_attr(c, i) fl_attr_str((c)->node, i)

/* --- common checks ------------------------------------------------------- */

/* Fails naming the slot, the place and the id when one is not in [0, limit).
   limit 0 means any. skip: an id that is let through (padding, ignore). */
fl_status fl_check_ids(const fl_tensor *ids, const char *slot, uint64_t limit,
                       int64_t skip);

#endif
