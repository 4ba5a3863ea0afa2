/* graph.h - a program as people look at it: boxes, and lines between them.
 *
 * A box is an operator, something that is fed, something that lives from run to
 * run, or a target. Operators that do the same to things of the same kind are
 * one box: 26 lookups in one table, their gradients, the updates of all
 * parameters. What a box stands for is in its lists. Owner thread only; the
 * graph points into the program.
 */
#ifndef FL_IR_GRAPH_H
#define FL_IR_GRAPH_H

#include "ir/program.h"

typedef enum fl_box_kind {
    FL_BOX_OP,
    FL_BOX_INPUT, /* fed, or given by the block around it */
    FL_BOX_STATE, /* parameters, and what else lives in the scope */
    FL_BOX_FETCH
} fl_box_kind;

typedef struct fl_box {
    fl_box_kind kind;
    fl_op_role role; /* of an operator, else of those that it is drawn with */
    int block;
    FL_VEC(const fl_op_node *) nodes; /* of operators, in program order */
    FL_VEC(const fl_var *) vars;      /* of all others */
} fl_box;

/* What one box gives another. */
typedef struct fl_graph_line {
    size_t from, to;   /* boxes */
    size_t n;          /* variables, counted as often as they are used */
    const fl_var *var; /* the first */
    bool is_alike;     /* all have the first one's type and shape */
} fl_graph_line;

typedef struct fl_graph {
    FL_VEC(fl_box) boxes;
    FL_VEC(fl_graph_line) lines; /* by `to`, then by `from` */
} fl_graph;

void fl_graph_init(fl_graph *g, const fl_program *p);
void fl_graph_release(fl_graph *g);

/* The box's members, of either list. */
size_t fl_box_count(const fl_box *b);

#endif
