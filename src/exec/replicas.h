/* replicas.h - data-parallel runs: every replica computes on its own batch,
 * gradients are merged, parameters are updated once.
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
   the sums. `team` has at most one member per replica. */
fl_replicas *fl_replicas_new(fl_runner *const *runners, int n, fl_team *team,
                             fl_merge_kind kind, double coeff);
void fl_replicas_free(fl_replicas *r);

/* One training step: feeds are set and every runner has begun. */
FL_MUST_CHECK
fl_status fl_replicas_run(fl_replicas *r);

#endif
