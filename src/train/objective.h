/* objective.h - what a program is after, found in its operators: the loss that
 * it minimizes, and counts that a pass begins with. No state.
 */
#ifndef FL_TRAIN_OBJECTIVE_H
#define FL_TRAIN_OBJECTIVE_H

#include "exec/scope.h"
#include "ir/program.h"

/* What the program minimizes, by its name; NULL: it trains nothing, or there is
   no program. */
const char *fl_objective_of(fl_program *program);

/* The AUC of a pass is counted from zero: what its operator has counted is
   cleared. auc NULL: nothing is. */
FL_MUST_CHECK
fl_status fl_objective_clear_counts(fl_scope *scope, fl_program *program,
                                    const char *auc);

#endif
