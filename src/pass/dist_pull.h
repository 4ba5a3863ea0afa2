/* dist_pull.h - what the program does with one parameter that is a table: found
 * by dist_pull_read.c, and changed by dist_pull.c. Owner thread only.
 */
#ifndef FL_PASS_DIST_PULL_H
#define FL_PASS_DIST_PULL_H

#include "pass/dist.h"
#include "pass/match.h"
#include "pass/reader.h"

typedef struct fl_pull_use {
    const fl_row_reader *how;
    fl_op_node *lookup, *grad; /* grad: NULL without a gradient */
    fl_var *old_grad;          /* what it gave before */
    size_t pull;
} fl_pull_use;

typedef struct fl_pull {
    fl_op_node *place; /* the first of its lookups, before which it goes */
    fl_op_node *node;
    fl_var *grad; /* of the rows, on its way to the push; NULL without */
    bool trains;
} fl_pull;

/* One of the operators that clip the gradient, and which of its inputs is. */
typedef struct fl_pull_clip {
    fl_op_node *node;
    int at;
} fl_pull_clip;

/* What the program does with one parameter. */
typedef struct fl_pull_table {
    fl_block *block;
    fl_var *w;
    fl_arena tmp;
    FL_VEC(fl_pull_use) uses;
    FL_VEC(fl_pull) pulls;
    FL_VEC(fl_pull_clip) clips;
    fl_op_node *sum;    /* of the gradients, when there are several */
    fl_op_node *update; /* NULL without */
    fl_var *show, *click;
    size_t n_grads;         /* uses with a gradient */
    const fl_op_node *seen; /* the last that was found to use it */
} fl_pull_table;

/* What nce reads of tables is looked up instead: dist_nce.c. */
FL_MUST_CHECK
fl_status fl_pull_look_up_noise(const fl_program *p, bool *changed);

/* Who uses the tables, which are by the names of their parameters: one walk for
   all of them. */
FL_MUST_CHECK
fl_status fl_pull_find_users(const fl_program *p, const fl_map *tables);

/* The rest of what is to be known before anything is changed; an error when it
   cannot be translated. */
FL_MUST_CHECK
fl_status fl_pull_read(fl_pull_table *t);

#endif
