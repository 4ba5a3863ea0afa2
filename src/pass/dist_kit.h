/* dist_kit.h - what the distribution passes share: the update of a parameter
 * and everything that goes to a server with it.
 *
 *     w@GRAD -> [clipping] -> grad | weight_decay -> update (Param=w)
 *                                  |                   ^ state, rate
 *
 * What stands to the right of the bar is the chain of w: a server runs it for
 * every gradient. Clipping acts on a trainer's own gradient and stays. Owner
 * thread only.
 */
#ifndef FL_PASS_DIST_KIT_H
#define FL_PASS_DIST_KIT_H

#include "pass/dist.h"
#include "pass/match.h"

/* The operator that updates v; NULL when v is not trained. Two of them, or one
   that updates several parameters at once, are an error. */
FL_MUST_CHECK
fl_status fl_dist_find_update(const fl_dist *d, const fl_var *v,
                              fl_op_node **out);

/* nce with is_sparse takes rows that lookups with is_sparse give it
   (dist_nce.c). */
FL_MUST_CHECK
fl_status fl_dist_look_up_noise(fl_dist *d, bool *changed);

/* The operators that add the decay of w to its gradient before the update, and
   that gradient without them. */
FL_MUST_CHECK
fl_status fl_dist_find_decays(const fl_var *w, const fl_op_node *update,
                              fl_node_group *decays, fl_var **grad);

/* The operator of the startup program that gives a variable its first value;
   NULL when there is none, or several. */
fl_op_node *fl_dist_find_maker(const fl_dist *d, const char *name);

/* Can the maker give some of the rows alone? */
bool fl_dist_can_cut(const fl_op_node *maker);

/* A persistent variable that nothing in the main program touches any more
   leaves both programs, with its first value. */
void fl_dist_forget(fl_dist *d, fl_var *v);

typedef FL_VEC(fl_var *) fl_var_list;

void fl_var_list_add(fl_var_list *l, fl_var *v); /* once */

typedef struct fl_dist_chain {
    fl_var *param;
    fl_var *grad; /* what comes from the trainers */
    fl_op_node *update;
    fl_node_group nodes; /* in the order of the program */
    fl_var_list kept; /* persistent variables of theirs; the parameter first */
} fl_dist_chain;

/* The chain of a parameter that is trained. Where servers only add up (the
   update stays with the trainers) it has no operators and the parameter
   alone. */
FL_MUST_CHECK
fl_status fl_dist_chain_find(fl_dist_chain *out, const fl_dist *d, fl_var *w,
                             fl_op_node *update);
void fl_dist_chain_release(fl_dist_chain *c);

/* Has v as many numbers as the parameter, in the same shape? */
bool fl_dist_chain_is_like(const fl_dist_chain *c, const fl_var *v);

/* Does an operator of the chain write v? */
bool fl_dist_chain_writes(const fl_dist_chain *c, const fl_var *v);

/* send (Param=w, X=x), as an rpc operator. */
FL_MUST_CHECK
fl_status fl_dist_insert_send(fl_dist *d, const fl_var *w, const fl_var *x,
                              fl_op_node *before);

/* The variables that push_sparse operators hand over. */
void fl_dist_pushed(const fl_dist *d, fl_var_list *out);

/* recv () -> (Out=[all dense parameters]), before an operator of the program
   or at its end (NULL). */
FL_MUST_CHECK
fl_status fl_dist_insert_recv(const fl_dist *d, fl_program *p,
                              fl_op_node *before);

/* send_barrier (X=[...]) at the end of the main program. */
FL_MUST_CHECK
fl_status fl_dist_append_barrier(fl_dist *d, const fl_var_list *x);

/* Does block 0 have an operator of that name? */
bool fl_dist_has_op(const fl_program *p, const char *name);

#endif
