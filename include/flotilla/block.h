/* block.h - programs from inside: their blocks and variables.
 *
 * A program is a list of blocks; block 0 is what runs. A block has variables
 * and operators (operator.h) and sees the variables of its parents. All of
 * them belong to the program and live as long as it does, unless they are
 * removed. One thread builds.
 */
#ifndef FLOTILLA_BLOCK_H
#define FLOTILLA_BLOCK_H

#include "flotilla/abi.h"
#include "flotilla/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fl_block fl_block;

/* --- blocks -------------------------------------------------------------- */

FL_API size_t fl_program_n_blocks(const fl_program *p);

/* Block i; NULL when there are not so many. */
FL_API fl_block *fl_program_block(const fl_program *p, size_t i);

/* A new block below `parent`. */
FL_API FL_MUST_CHECK
fl_status fl_block_new(fl_block **out, fl_block *parent);

FL_API fl_program *fl_block_program(const fl_block *b);
FL_API size_t fl_block_index(const fl_block *b);

/* NULL for block 0. */
FL_API fl_block *fl_block_parent(const fl_block *b);

/* --- variables ----------------------------------------------------------- */

/* What a variable is. The texts are those of fl_param_attr (layers.h). */
typedef struct fl_var_def {
    uint32_t size;
    fl_dtype dtype;
    fl_kind kind; /* dense, or ragged with a lod_level, or rows + values */
    int lod_level;
    fl_shape shape;    /* -1: not known yet */
    bool is_data;      /* fed */
    bool is_parameter; /* learned, hence persistable */
    bool is_table;     /* a parameter whose rows are in a table, which operator
                          init_table of the startup program makes */
    bool persistable;  /* lives in the scope, from run to run */
    bool frozen;       /* a parameter that is not trained */
    bool stop_gradient;
    double learning_rate; /* of a parameter: multiplier; 0 stands for 1 */
    const char *init, *regularizer, *clip; /* of a parameter; or NULL */
    uint64_t tag; /* a number of the builder's, carried along by copies */
} fl_var_def;

/* A new variable of the block; name NULL: one that is made. A parameter with
   `init` gets its first value in the startup program, when the block is of the
   current main program.

       fl_create_var(&v, block, "w", .dtype = FL_DTYPE_F32, ...); */
#define fl_create_var(out, block, name, ...)                                   \
    fl_create_var_with(out, block, name, FL_OPTIONS(fl_var_def, __VA_ARGS__))
#define fl_create_parameter(out, block, name, ...)                             \
    fl_create_var(out, block, name, .is_parameter = true, __VA_ARGS__)
FL_API FL_MUST_CHECK
fl_status fl_create_var_with(fl_var **out, fl_block *b, const char *name,
                             const fl_var_def *def);

/* Fills *out, whose size the caller has set; the texts are the variable's. */
FL_API FL_MUST_CHECK
fl_status fl_var_look(const fl_var *v, fl_var_def *out);

/* Makes it what `def` says: look, change what should be different, and give it
   back. Operators are checked against it by the next run. */
FL_API FL_MUST_CHECK
fl_status fl_var_change(fl_var *v, const fl_var_def *def);

FL_API FL_MUST_CHECK
fl_status fl_var_rename(fl_var *v, const char *name);

/* Fails while an operator has it. */
FL_API FL_MUST_CHECK
fl_status fl_var_remove(fl_var *v);

FL_API fl_block *fl_var_block(const fl_var *v);

/* The variable that operators of the block mean by a name: of the block, or of
   the nearest parent. NULL when there is none. */
FL_API fl_var *fl_block_var(const fl_block *b, const char *name);

/* The block's own variables in the order in which they were made: the first
   after NULL, NULL after the last. */
FL_API fl_var *fl_block_next_var(const fl_block *b, const fl_var *after);

#ifdef __cplusplus
}
#endif
#endif
