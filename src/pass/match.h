/* match.h - what the passes share: reading operators by the names of their
 * slots, following variables, asking who else touches them, and putting one
 * operator in the place of a group.
 *
 * Nothing here fails on a shape of program it does not expect: it answers NULL
 * or false, and the pass leaves the program alone. Owner thread only.
 */
#ifndef FL_PASS_MATCH_H
#define FL_PASS_MATCH_H

#include "ir/builder.h"

/* --- one operator --------------------------------------------------------- */

/* Is it the forward operator of that name? */
bool fl_match_op(const fl_op_node *n, const char *name);

/* The variables of a slot, empty when there is no such slot. Gradient slots
   have names such as "X@GRAD". */
fl_args fl_match_ins(const fl_op_node *n, const char *slot);
fl_args fl_match_outs(const fl_op_node *n, const char *slot);

/* The only variable of a slot; NULL when it is left out, or one of several, or
   when n is NULL. */
fl_var *fl_match_in(const fl_op_node *n, const char *slot);
fl_var *fl_match_out(const fl_op_node *n, const char *slot);

/* An attribute by name; NULL when the operator has none of that name. */
const fl_attr *fl_match_attr(const fl_op_node *n, const char *name);
bool fl_match_same_attrs(const fl_op_node *a, const fl_op_node *b);

/* --- variables ------------------------------------------------------------ */

/* How often v stands in the list. */
int fl_args_count(fl_args a, const fl_var *v);

/* Does the node give v a new value, as an output or as state? */
bool fl_match_writes(const fl_op_node *n, const fl_var *v);

/* Does any operator of the program read or write v? */
bool fl_match_touched(const fl_var *v);

/* Does any operator read v, or is it fetched? */
bool fl_match_wanted(const fl_var *v);

/* Removes v if it is a temporary that nobody touches any more. NULL and what
   is gone already are left alone. */
void fl_match_drop(fl_block *b, fl_var *v);

/* The only operator of block 0 that writes v; NULL when there are several or
   none, or when v is NULL. */
fl_op_node *fl_match_writer(const fl_var *v);

/* The gradient operator of a forward one: same descriptor, attributes and
   variables, and the gradients of its outputs come in. NULL when there is
   none, or when n is NULL. */
fl_op_node *fl_match_grad(const fl_op_node *n);

/* The plain step of w (sgd) that its gradient is for; NULL when there is none,
   or no gradient. */
fl_op_node *fl_match_step(const fl_var *w, const fl_var *grad);

/* --- traffic -------------------------------------------------------------- */

/* What operators that a walk has met read and write, by name. */
typedef struct fl_traffic {
    fl_map read, written;
} fl_traffic;

void fl_traffic_note(fl_traffic *t, const fl_op_node *n);

/* Would n notice if it changed sides with all of them? */
bool fl_traffic_meets(const fl_traffic *t, const fl_op_node *n);
void fl_traffic_release(fl_traffic *t);

/* --- groups --------------------------------------------------------------- */

typedef FL_VEC(fl_op_node *) fl_node_group;

/* NULL is left out. */
void fl_node_group_add(fl_node_group *g, fl_op_node *n);
bool fl_node_group_has(const fl_node_group *g, const fl_op_node *n);

/* Is v a temporary of the group: one member writes it, nobody else touches it,
   not even for its shape, and it is neither fetched nor declared? A variable
   left out (NULL) is no obstacle. */
bool fl_node_group_owns(const fl_node_group *g, const fl_var *v);

/* The member before which one operator can stand for all of them, without
   any operator in between noticing; NULL when there is none. */
fl_op_node *fl_node_group_place(const fl_node_group *g);

/* The last member, whatever the roles are, when one operator there can stand
   for all of them; else NULL. */
fl_op_node *fl_node_group_end(const fl_node_group *g);

/* Removes the members, and the temporaries of theirs that nobody touches any
   more. */
void fl_node_group_remove(const fl_node_group *g);

/* --- fusions -------------------------------------------------------------- */

/* A forward group that one operator replaces, and the group of its gradients,
   which may be empty; a NULL member is left out. `what` is the pass's own. */
typedef struct fl_fusion {
    fl_op_node *const *forward, *const *backward;
    size_t n_forward, n_backward;
    const void *what;
    /* Are all variables that would go the group's own? */
    bool (*owns)(const void *what, const fl_node_group *all);
    fl_status (*insert)(const void *what, fl_op_node *place, fl_op_node **out);
    fl_status (*insert_grad)(const void *what, const fl_op_node *fused,
                             fl_op_node *place);
} fl_fusion;

/* Replaces both groups, or leaves everything as it is when no place fits. */
FL_MUST_CHECK
fl_status fl_fuse(const fl_fusion *f, bool *fused);

/* --- sweeps --------------------------------------------------------------- */

/* Tries to replace the group that n belongs to, and says whether it did. */
typedef fl_status (*fl_fuse_fn)(fl_op_node *n, bool *fused);

/* Calls `fuse` on every operator of block 0 until it finds nothing more. */
FL_MUST_CHECK
fl_status fl_match_sweep(fl_program *p, fl_fuse_fn fuse, bool *changed);

#endif
