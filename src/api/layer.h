/* layer.h - appending operators the way layers do: names that users know,
 * parameters with their startup operators.
 *
 *     fl_layer l;
 *     if (!fl_layer_begin(&l, x, "scale", NULL)) return NULL;
 *     fl_layer_in(&l, "X", x);
 *     fl_layer_float(&l, "scale", 2);
 *     return fl_layer_emit(&l, "scale", "Out");
 *
 * fl_layer_emit releases what was collected; begin, emit, emit, ... is fine.
 */
#ifndef FL_API_LAYER_H
#define FL_API_LAYER_H

#include "ctx/ctx.h"
#include "ir/attr.h"
#include "ir/builder.h"

typedef struct fl_layer {
    fl_ctx *ctx;
    fl_block *block;
    const char *name; /* "fc_0" */
    fl_op_role role;
    fl_op_builder op;
    bool lacks_input; /* a layer above failed, and its reason stands */
    int n_tmp;
} fl_layer;

/* False when x is NULL: a layer above failed. name may be NULL. */
bool fl_layer_begin(fl_layer *l, const fl_var *x, const char *kind,
                    const char *name);
void fl_layer_begin_in(fl_layer *l, fl_ctx *c, fl_block *b, const char *kind,
                       const char *name);

/* With NULL the operator is not emitted. */
void fl_layer_in(fl_layer *l, const char *slot, const fl_var *v);

/* What a builder collects anyway, for (slot, name) and (name, value). */
#define fl_layer_out(l, ...) fl_op_builder_out_name(&(l)->op, __VA_ARGS__)
#define fl_layer_int(l, ...) fl_op_builder_int(&(l)->op, __VA_ARGS__)
#define fl_layer_float(l, ...) fl_op_builder_float(&(l)->op, __VA_ARGS__)
#define fl_layer_bool(l, ...) fl_op_builder_bool(&(l)->op, __VA_ARGS__)
#define fl_layer_str(l, ...) fl_op_builder_str(&(l)->op, __VA_ARGS__)
#define fl_layer_ints(l, ...) fl_op_builder_ints(&(l)->op, __VA_ARGS__)
#define fl_layer_floats(l, ...) fl_op_builder_floats(&(l)->op, __VA_ARGS__)
void fl_layer_shape(fl_layer *l, const char *name, const fl_shape *s);

/* "fc_0.tmp_0", "fc_0.tmp_1", ... */
const char *fl_layer_tmp(fl_layer *l);

/* Appends the operator with what was collected, plus a new temporary in
   out_slot (NULL: no further output). Returns that variable, or the first
   output; NULL on failure. */
fl_var *fl_layer_emit(fl_layer *l, const char *type, const char *out_slot);

/* Releases what was collected, for an operator that is not to be. */
void fl_layer_drop(fl_layer *l);

/* A persistent variable with a constant first value, in both programs. */
fl_var *fl_layer_state(fl_ctx *c, fl_block *b, const char *name, fl_dtype dtype,
                       const fl_shape *shape, double value);

/* A learning rate that does not change (schedules.c). */
fl_var *fl_layer_rate(fl_ctx *c, fl_block *b, double rate);

/* Gives a variable with `init` its first value in the startup program, unless
   it has one there. */
FL_MUST_CHECK
fl_status fl_layer_first_value(fl_ctx *c, const fl_var *v);

/* A parameter, or the one of that name if it exists with the same shape. */
fl_var *fl_layer_param(fl_layer *l, const fl_param_attr *attr,
                       const char *suffix, fl_dtype dtype,
                       const fl_shape *shape, const char *default_init);

/* x plus a bias of `size` numbers along dimension `axis`; NULL gives NULL. */
fl_var *fl_layer_bias(fl_layer *l, fl_var *x, int64_t size, int axis,
                      const fl_param_attr *attr);

/* The operator `act` (NULL: none) over x; NULL gives NULL. */
fl_var *fl_layer_act(fl_layer *l, fl_var *x, const char *act);

/* --- parameters that are tables (table_param.c) ------------------------- */

#define FL_TABLE_WORDS_MAX 8

/* What a layer says of its table: "height=100", "entry=...", as
   fl_table_new takes them. */
typedef struct fl_table_words {
    const char *word[FL_TABLE_WORDS_MAX];
    size_t n;
} fl_table_words;

/* A parameter f32[height or -1, width] whose rows are in a table that the
   startup program makes, or the one of that name if it has the same width and
   was made with these words. */
fl_var *fl_layer_table(fl_layer *l, const fl_param_attr *attr,
                       const char *suffix, const fl_shape *shape,
                       const fl_table_words *words);

/* Makes the table of a parameter with `init` in the startup program, unless that
   makes one. */
FL_MUST_CHECK
fl_status fl_layer_first_table(fl_ctx *c, const fl_var *v);

/* Gives the table of a parameter its update rule, in words; it must have none
   yet. */
FL_MUST_CHECK
fl_status fl_layer_table_rule(fl_ctx *c, const fl_var *param,
                              const char *words);

/* --- shared by the two kinds of parameters ------------------------------ */

/* The parameter's name, given or made. */
const char *fl_layer_param_name(fl_layer *l, const fl_param_attr *attr,
                                const char *suffix);

/* Checks the words of `attr` and adds the parameter to the layer's program, with
   these flags besides those that attr asks for. */
FL_MUST_CHECK
fl_status fl_layer_add_param(fl_layer *l, const fl_param_attr *attr,
                             const char *name, const fl_tensor *meta,
                             unsigned flags, fl_var **out);

#endif
