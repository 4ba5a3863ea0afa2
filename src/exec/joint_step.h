/* joint_step.h - hogwild threads that meet after what they compute: their gradients
 * become one, and the update is made once.
 *
 * Where the backend says so (fl_comm.threads_meet), threads of one run share
 * more than weights: each computes on its own batch, then gives its part of the
 * gradients of tables, and when all have done so one of them merges the other
 * gradients in the order of threads and runs the update, in the frame of the
 * first. A thread that has no more data leaves, and the others go on. The first
 * error is everybody's.
 */
#ifndef FL_EXEC_JOINT_STEP_H
#define FL_EXEC_JOINT_STEP_H

#include "exec/runner.h"

typedef struct fl_joint_step fl_joint_step;

/* For that many threads whose runners are of this plan. Fails when a step of
   the plan cannot be shared so. */
FL_MUST_CHECK
fl_status fl_joint_step_new(fl_joint_step **out, const fl_plan *p,
                            int n_threads);
void fl_joint_step_free(fl_joint_step *m); /* NULL is fine */

/* The run of a thread's batch, in the frame that it used; it has begun. */
FL_MUST_CHECK
fl_status fl_joint_step_run(fl_joint_step *m, int thread, fl_runner *r);

/* It comes no more; st other than FL_OK ends the run of all. */
void fl_joint_step_leave(fl_joint_step *m, int thread, fl_status st);

#endif
