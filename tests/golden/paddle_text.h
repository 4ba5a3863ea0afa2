/* paddle_text.h - reads a program as PaddlePaddle 1.8.5 prints it.
 *
 *     persist trainable parameter w : fluid.VarType.LOD_TENSOR
 *         .shape(52, 32).astype(VarType.FP32)
 *     {Out=['y']} = mul(inputs={X=['x'], Y=['w']}, x_num_col_dims = 1, ...)
 *
 * each on one line. Everything lives in the pool it was read into.
 */
#ifndef GOLDEN_PADDLE_TEXT_H
#define GOLDEN_PADDLE_TEXT_H

#include "describe.h"

typedef struct pt_var {
    const char *name;
    bool is_persist, is_param;
    fl_dtype dtype;
    int rank;
    int64_t dims[FL_RANK_MAX];
} pt_var;

typedef struct pt_arg {
    const char *slot;
    const char **vars;
    size_t n_vars;
} pt_arg;

typedef struct pt_op {
    const char *type;
    pt_arg *in, *out;
    size_t n_in, n_out;
    op_attr *attrs; /* values in our text form */
    size_t n_attrs;
} pt_op;

typedef struct pt_program {
    pt_var *vars;
    size_t n_vars;
    pt_op *ops;
    size_t n_ops;
} pt_program;

/* NULL when all is well, else a sentence that says what is wrong. */
const char *pt_read(pt_program *out, const char *source, pool *p);

/* NULL when there is none. */
pt_var *pt_find_var(const pt_program *prog, const char *name);

/* The first variable of an output slot, or NULL. */
const char *pt_output(const pt_op *op, const char *slot);

/* Changes an attribute that the operator has. */
void pt_set_attr(pt_op *op, const char *name, const char *value);

/* Is the variable an input of any operator? */
bool pt_is_read(const pt_program *prog, const char *name);

#endif
