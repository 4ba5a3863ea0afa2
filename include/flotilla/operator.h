/* operator.h - operators: in the blocks of a program, and what there is.
 *
 *     fl_append_op(NULL, block, "scale",
 *                  .inputs = FL_ARGS({ "X", "x" }),
 *                  .outputs = FL_ARGS({ "Out", "y" }),
 *                  .attrs = FL_ATTRS(fl_float_attr("scale", 2)));
 *
 * Every operator of the list can be appended by the names of its slots and
 * attributes (fl_operator_help, or fl_operator_look as data). It is checked,
 * and shapes are inferred, as if a layer had made it.
 */
#ifndef FLOTILLA_OPERATOR_H
#define FLOTILLA_OPERATOR_H

#include "flotilla/block.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fl_op_node fl_op_node;

/* --- attributes ---------------------------------------------------------- */

typedef enum fl_attr_type {
    FL_ATTR_BOOL,
    FL_ATTR_INT,
    FL_ATTR_FLOAT,
    FL_ATTR_STRING,
    FL_ATTR_INTS,
    FL_ATTR_FLOATS,
    FL_ATTR_STRINGS,
    FL_ATTR_BLOCK /* the index of a block; -1: none */
} fl_attr_type;

typedef struct fl_attr {
    fl_attr_type type;
    size_t n; /* lists: number of entries */
    union {
        bool b;
        int64_t i; /* FL_ATTR_INT, FL_ATTR_BLOCK */
        double f;
        const char *s;
        const int64_t *ints;
        const double *floats;
        const char *const *strings;
        const void *items; /* of any list */
    };
} fl_attr;

typedef struct fl_named_attr {
    const char *name;
    fl_attr value;
} fl_named_attr;

static inline fl_named_attr fl_bool_attr(const char *name, bool v)
{
    fl_named_attr a = { name, { FL_ATTR_BOOL, 0, { 0 } } };

    a.value.b = v;
    return a;
}

static inline fl_named_attr fl_int_attr(const char *name, int64_t v)
{
    fl_named_attr a = { name, { FL_ATTR_INT, 0, { 0 } } };

    a.value.i = v;
    return a;
}

static inline fl_named_attr fl_float_attr(const char *name, double v)
{
    fl_named_attr a = { name, { FL_ATTR_FLOAT, 0, { 0 } } };

    a.value.f = v;
    return a;
}

static inline fl_named_attr fl_string_attr(const char *name, const char *v)
{
    fl_named_attr a = { name, { FL_ATTR_STRING, 0, { 0 } } };

    a.value.s = v;
    return a;
}

/* A list of n entries: int64_t, double or const char * by its type. */
static inline fl_named_attr fl_list_attr(const char *name, fl_attr_type type,
                                         const void *items, size_t n)
{
    fl_named_attr a = { name, { type, n, { 0 } } };

    a.value.items = items;
    return a;
}

/* --- appending ----------------------------------------------------------- */

/* A variable, by name, in a slot; a repeated slot makes a list. */
typedef struct fl_arg {
    const char *slot, *var;
} fl_arg;

typedef enum fl_op_role {
    FL_OP_ROLE_FORWARD,
    FL_OP_ROLE_BACKWARD,
    FL_OP_ROLE_OPTIMIZE,
    FL_OP_ROLE_LR,
    FL_OP_ROLE_RPC
} fl_op_role;

/* Lists end with an entry whose first field is NULL; NULL: nothing. */
typedef struct fl_op_args {
    uint32_t size;
    fl_op_role role;
    const fl_arg *inputs, *outputs; /* outputs need not exist yet */
    const fl_named_attr *attrs;
    fl_op_node *before; /* an operator of the block; NULL: at its end */
    uint64_t tag;       /* a number of the builder's, carried along by copies */
    /* An output that is neither data nor a parameter takes the type and shape
       that the operator gives it; without, another declaration is an error. */
    bool redeclares;
} fl_op_args;

#define FL_ARGS(...) FL_ARRAY(fl_arg, __VA_ARGS__, { 0 })
#define FL_ATTRS(...) FL_ARRAY(fl_named_attr, __VA_ARGS__, { 0 })

/* type is "relu" or, for its gradient, "relu_grad". out may be NULL. */
#define fl_append_op(out, block, type, ...)                                    \
    fl_append_op_with(out, block, type, FL_OPTIONS(fl_op_args, __VA_ARGS__))
FL_API FL_MUST_CHECK
fl_status fl_append_op_with(fl_op_node **out, fl_block *b, const char *type,
                            const fl_op_args *args);

/* Its outputs stay. */
FL_API void fl_op_remove(fl_op_node *n);

/* Puts it before another operator of its block, or at the end (NULL). */
FL_API FL_MUST_CHECK
fl_status fl_op_move(fl_op_node *n, fl_op_node *before);

/* --- looking and changing ------------------------------------------------ */

/* The operators of a block in their order: the first after NULL, NULL after
   the last. */
FL_API fl_op_node *fl_block_next_op(const fl_block *b, const fl_op_node *after);
FL_API size_t fl_block_n_ops(const fl_block *b);

FL_API const char *fl_op_type(const fl_op_node *n);
FL_API fl_block *fl_op_block(const fl_op_node *n);
FL_API uint64_t fl_op_tag(const fl_op_node *n);
FL_API fl_op_role fl_op_role_of(const fl_op_node *n);
FL_API void fl_op_set_role(fl_op_node *n, fl_op_role role);

typedef enum fl_op_side { FL_OP_INPUTS, FL_OP_OUTPUTS } fl_op_side;

/* The name of slot i and how many variables it has; NULL when there are not
   so many slots. */
FL_API const char *fl_op_slot_name(const fl_op_node *n, fl_op_side side,
                                   size_t i, size_t *n_vars);

/* Variable k of slot i; NULL when there is none, or for a gradient that
   nobody wants. */
FL_API fl_var *fl_op_var(const fl_op_node *n, fl_op_side side, size_t i,
                         size_t k);

/* Puts another variable in its place; fails, and changes nothing, when the
   operator cannot take it. */
FL_API FL_MUST_CHECK
fl_status fl_op_set_var(fl_op_node *n, fl_op_side side, size_t i, size_t k,
                        fl_var *v);

/* The name of attribute i; NULL when there are not so many. */
FL_API const char *fl_op_attr_name(const fl_op_node *n, size_t i);

/* The value belongs to the operator. */
FL_API FL_MUST_CHECK
fl_status fl_op_attr(const fl_op_node *n, const char *name, fl_attr *out);

/* As fl_op_set_var. */
FL_API FL_MUST_CHECK
fl_status fl_op_set_attr(fl_op_node *n, const char *name, const fl_attr *value);

/* --- what there is ------------------------------------------------------- */

/* Filled, like the two below; the caller has set the size. */
typedef struct fl_operator_slot {
    uint32_t size;
    const char *name;
    bool is_list;     /* takes any number of variables */
    bool is_optional; /* may be left out */
    bool is_state;    /* an input that the operator changes in place */
    bool takes_rows;  /* may carry rows + values */
    bool has_gradient;
} fl_operator_slot;

typedef struct fl_operator_attr {
    uint32_t size;
    const char *name;
    fl_attr_type type;
    const char *value; /* the default, in text form */
} fl_operator_attr;

/* An operator as its descriptor has it; the texts are the library's. */
typedef struct fl_operator_view {
    uint32_t size;
    const char *name, *doc;
    size_t n_inputs, n_outputs, n_attrs;
    bool has_gradient;
    bool has_effect; /* does something besides its outputs */
} fl_operator_view;

/* Operator i in the order of the list; FL_ERR_NOTFOUND when there are not so
   many. */
FL_API FL_MUST_CHECK
fl_status fl_operator_at(size_t i, fl_operator_view *out);

/* The same by name; the error has the nearest one. */
FL_API FL_MUST_CHECK
fl_status fl_operator_look(const char *name, fl_operator_view *out);

/* Slot or attribute i of the operator `name`. */
FL_API FL_MUST_CHECK
fl_status fl_operator_slot_at(const char *name, fl_op_side side, size_t i,
                              fl_operator_slot *out);
FL_API FL_MUST_CHECK
fl_status fl_operator_attr_at(const char *name, size_t i,
                              fl_operator_attr *out);

/* The operators with slots, attributes and formula, one block of lines each;
   name NULL means all of them. NULL when there is no such operator. */
FL_API char *fl_operator_help(const char *name);

#ifdef __cplusplus
}
#endif
#endif
