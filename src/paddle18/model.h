/* model.h - a directory that PaddlePaddle 1.8 saved: a program, if it has one,
 * and variables.
 *
 *     __model__             the program (save_inference_model)
 *     NAME                  a file per variable, or
 *     __params__            all of them in one, in the order of their names
 *
 * Values are not read but mapped: they belong to the model and lie at any
 * address. Owner thread only.
 */
#ifndef FL_PADDLE18_MODEL_H
#define FL_PADDLE18_MODEL_H

#include "paddle18/program.h"
#include "paddle18/values.h"

/* NULL: nothing was said. */
typedef struct fl_p18_args {
    const char *program; /* file of the program; NULL: __model__, if there */
    const char *params;  /* the one file; NULL: __params__, if there */
    /* Variables, in the order of the one file; for a directory that has no
       program to say it. */
    const char *const *names;
    size_t n_names;
} fl_p18_args;

typedef struct fl_p18_var {
    const char *name;
    fl_p18_value value;
} fl_p18_var;

typedef struct fl_p18_model fl_p18_model;

/* Everything is checked: variables that lack a file or do not fit the program
   are all named, and one file must end with its last variable. */
FL_MUST_CHECK
fl_status fl_p18_open(fl_p18_model **out, const char *dir,
                      const fl_p18_args *args, const fl_op_set *ops);
void fl_p18_close(fl_p18_model *m); /* NULL is fine */

/* program is NULL when the directory has none. */
const fl_p18_program *fl_p18_program_of(const fl_p18_model *m);

/* Variable i, in the order of the names; NULL when there are not so many. */
const fl_p18_var *fl_p18_var_at(const fl_p18_model *m, size_t i);

#endif
