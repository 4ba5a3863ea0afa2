/* replicas.h - data-parallel runs: every replica computes on its own batch,
 * gradients are merged, parameters are updated once. Gradients of tables are
 * not merged here, since each batch numbers the rows in its own way: every
 * replica gives its own to the backend, as one part of the step.
 *
 * Parameters exist once and are shared, so "broadcast" costs nothing. Sums run
 * over the replicas in ascending order, so the result does not depend on
 * timing. Reduce: each gradient is summed by its owner replica. AllReduce:
 * each replica sums a slice of every gradient, and all replicas see the sums.
 */
#ifndef FL_EXEC_REPLICAS_H
#define FL_EXEC_REPLICAS_H

#include "exec/runner.h"

typedef enum fl_merge_kind {
    FL_MERGE_ALL_REDUCE,
    FL_MERGE_REDUCE
} fl_merge_kind;

typedef struct fl_replicas fl_replicas;

/* The runners are borrowed; one per replica, all of one plan. `coeff` scales
   the sums. `team` has at most one member per replica. Fails when a step of the
   plan works on gradients of tables and of parameters at once. */
FL_MUST_CHECK
fl_status fl_replicas_new(fl_replicas **out, fl_runner *const *runners, int n,
                          fl_team *team, fl_merge_kind kind, double coeff);
void fl_replicas_free(fl_replicas *r);

/* One training step: feeds are set and every runner has begun. */
FL_MUST_CHECK
fl_status fl_replicas_run(fl_replicas *r);

#endif
