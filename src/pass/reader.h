/* reader.h - operators that take rows of a parameter by ids: what a table can
 * stand behind. A new one is a row of the list in reader.c. */
#ifndef FL_PASS_READER_H
#define FL_PASS_READER_H

#include "ir/program.h"

#define FL_READER_IDS_MAX 2

/* The slot of the parameter, of its gradient, and of the ids; and the attribute
   that makes the gradient rows + values. */
typedef struct fl_row_reader {
    const char *op, *w, *grad, *sparse;
    const char *ids[FL_READER_IDS_MAX]; /* the last may be NULL */
} fl_row_reader;

/* How n, or the gradient of n, reads rows of w; NULL when it does not. */
const fl_row_reader *fl_row_reader_of(const fl_op_node *n, const fl_var *w);

/* The ids of list i; NULL when there are not so many. */
fl_var *fl_row_reader_ids(const fl_row_reader *r, const fl_op_node *n, int i);

#endif
