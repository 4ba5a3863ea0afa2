/* second.h - gradients of gradient operators, by a few rules; second.def says
 * which operators follow which.
 *
 * A gradient operator f_grad is linear in the gradients that come to it, so that
 * its own gradients are made of f and f_grad once more, and gradients of any
 * order come out of these rules:
 *
 *     linear     Out = f(X)      the gradient of Out@GRAD is f(dd)
 *     bilinear   Out = f(X, Y)   of Out@GRAD: f(ddX, Y) + f(X, ddY)
 *                                of X: f_grad(X, ddY, Out@GRAD), and so for Y
 *     stepwise   Out = f(X)      of Out@GRAD: f_grad with dd in its place
 *     square     the same, and   of X: 2 Out@GRAD dd
 *     root       the same, and   of Out: - X@GRAD dd / Out
 *     elu        the same, and   of X: X@GRAD dd where X is below 0
 *     ratio      Out = X / Y     of Out@GRAD: T = (ddX - Out ddY) / Y
 *                                of Y: f_grad with T in the place of Out
 *                                of Out: - Out@GRAD ddY / Y
 *
 * dd is what came for X@GRAD.
 */
#ifndef FL_PASS_SECOND_H
#define FL_PASS_SECOND_H

#include "ir/program.h"

/* Whether a gradient operator has gradients of its own, and for which of its
   input slots. */
bool fl_second_is_known(const fl_op_node *n);
bool fl_second_is_wanted(const fl_op_node *n, int slot);

/* One gradient operator: names by output or input slot, then entry; NULL where
   nothing came, or nothing is wanted. */
typedef struct fl_second {
    const fl_op_node *node;
    const char *const *const *came;
    const char *const *const *wanted;
    const char *sum_op, *zeros_op;
} fl_second;

/* Appends what makes the wanted gradients. */
FL_MUST_CHECK
fl_status fl_second_append(const fl_second *s);

#endif
