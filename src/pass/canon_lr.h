/* canon_lr.h - the counter and the formulas of schedules that are written out,
 * for the files that the pass canon_lr is made of. */
#ifndef FL_PASS_CANON_LR_H
#define FL_PASS_CANON_LR_H

#include "pass/canon.h"
#include "pass/dist_kit.h"

/* What counts steps, and the global step in its place. */
typedef struct fl_lr_counter {
    fl_var *var, *step;
    fl_op_node *increment;
    int64_t first; /* what it is in the first step */
} fl_lr_counter;

/* A rate: letters of operators, t for the counter; numbers in their order. */
typedef struct fl_lr_formula {
    char text[16];
    size_t len;
    double numbers[16];
    size_t n_numbers;
    fl_node_group nodes; /* the outermost first */
} fl_lr_formula;

/* Rates that conditional blocks choose (canon_lr_switch.c). */
FL_MUST_CHECK
fl_status fl_lr_take_switches(const fl_lr_counter *c);

/* Removes those of operators with an Out that nobody reads any more. */
void fl_lr_remove_unread(const fl_node_group *nodes);

#endif
