/* builder.h - one operator, collected part by part and put into a block.
 *
 *     fl_op_builder b = { .type = "scale" };
 *
 *     fl_op_builder_in(&b, "X", x);
 *     fl_op_builder_float(&b, "scale", 2);
 *     fl_op_builder_out_name(&b, "Out", "y");
 *     return fl_op_builder_put(&b, block, NULL, &node);
 *
 * Names, texts and lists are borrowed until it is put, which releases what was
 * collected, whether it succeeds or not; what has no other home can lie in
 * `tmp`. Owner thread only.
 */
#ifndef FL_IR_BUILDER_H
#define FL_IR_BUILDER_H

#include "ir/program.h"
#include "optim/rule.h"

typedef FL_VEC(fl_arg) fl_arg_list;

typedef struct fl_op_builder {
    const char *type; /* "relu" or "relu_grad" */
    fl_op_role role;
    uint64_t tag;
    fl_arg_list in, out;
    fl_named_attrs attrs;
    fl_arena tmp;
    bool redeclares; /* as in fl_op_spec */
} fl_op_builder;

/* Begins an operator of the type of n, with its role, tag and attributes. */
void fl_op_builder_init_like(fl_op_builder *b, const fl_op_node *n);

/* Begins the gradient operator of n: its type, attributes and forward
   variables. */
void fl_op_builder_init_grad(fl_op_builder *b, const fl_op_node *n);

/* For an operator that is not to be. */
void fl_op_builder_release(fl_op_builder *b);

/* NULL leaves the slot out. */
void fl_op_builder_in(fl_op_builder *b, const char *slot, const fl_var *v);
void fl_op_builder_out(fl_op_builder *b, const char *slot, const fl_var *v);

/* By name, which an output need not have yet. */
void fl_op_builder_in_name(fl_op_builder *b, const char *slot,
                           const char *name);
void fl_op_builder_out_name(fl_op_builder *b, const char *slot,
                            const char *name);

/* A list of variables, in which NULL keeps its place. */
void fl_op_builder_ins(fl_op_builder *b, const char *slot, fl_args vars);
void fl_op_builder_outs(fl_op_builder *b, const char *slot, fl_args vars);

/* NULL leaves the attribute at its default. */
void fl_op_builder_attr(fl_op_builder *b, const char *name,
                        const fl_attr *value);
void fl_op_builder_bool(fl_op_builder *b, const char *name, bool v);
void fl_op_builder_int(fl_op_builder *b, const char *name, int64_t v);
void fl_op_builder_float(fl_op_builder *b, const char *name, double v);
void fl_op_builder_str(fl_op_builder *b, const char *name, const char *v);
void fl_op_builder_ints(fl_op_builder *b, const char *name, const int64_t *v,
                        size_t n);
void fl_op_builder_floats(fl_op_builder *b, const char *name, const double *v,
                          size_t n);
void fl_op_builder_strings(fl_op_builder *b, const char *name,
                           const char *const *v, size_t n);

/* The settings of a rule, as attributes of its operator. */
void fl_op_builder_update(fl_op_builder *b, const fl_update *u);

/* An attribute that was given; NULL when it was not. */
fl_attr *fl_op_builder_find_attr(fl_op_builder *b, const char *name);

/* Puts it before an operator of the block, or at its end (NULL). */
FL_MUST_CHECK
fl_status fl_op_builder_put(fl_op_builder *b, fl_block *block,
                            fl_op_node *before, fl_op_node **out);

/* Puts it before `place`, with the role and tag of that one. */
FL_MUST_CHECK
fl_status fl_op_builder_insert(fl_op_builder *b, fl_op_node *place,
                               fl_op_node **out);

#endif
