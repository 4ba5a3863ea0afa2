/* meeting.h - hogwild threads that meet after what they compute: their gradients
 * become one, and the update is made once.
 *
 * Where the backend says so (fl_comm.threads_meet), threads of one run share
 * more than weights: each computes on its own batch, then gives its part of the
 * gradients of tables, and when all have done so one of them merges the other
 * gradients in the order of threads and runs the update, in the frame of the
 * first. A thread that has no more data leaves, and the others go on. The first
 * error is everybody's.
 */
#ifndef FL_EXEC_MEETING_H
#define FL_EXEC_MEETING_H

#include "exec/runner.h"

typedef struct fl_meeting fl_meeting;

/* For that many threads whose runners are of this plan. Fails when a step of
   the plan cannot be shared so. */
FL_MUST_CHECK
fl_status fl_meeting_new(fl_meeting **out, const fl_plan *p, int n_threads);
void fl_meeting_free(fl_meeting *m); /* NULL is fine */

/* The run of a thread's batch, in the frame that it used; it has begun. */
FL_MUST_CHECK
fl_status fl_meeting_run(fl_meeting *m, int thread, fl_runner *r);

/* It comes no more; st other than FL_OK ends the run of all. */
void fl_meeting_leave(fl_meeting *m, int thread, fl_status st);

#endif
