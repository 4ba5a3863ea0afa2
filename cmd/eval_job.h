/* eval_job.h - processes that evaluate together, under fleetrun. */
#ifndef FL_CMD_EVAL_JOB_H
#define FL_CMD_EVAL_JOB_H

#include "flotilla/fleet.h"

typedef struct eval_job {
    fl_fleet *fleet;  /* NULL: this process is alone */
    fl_executor *exe; /* of a worker */
    size_t mine, n;   /* the share of this worker */
    bool has_served;  /* it was a server, and the job is over */
} eval_job;

/* Joins the job that this process was started for, if any; a server serves
   until it is over. */
fl_status eval_job_join(eval_job *j, fl_ctx *c);

/* After good work all of it is over; releases everything in any case. */
fl_status eval_job_leave(eval_job *j, fl_status so_far);

#endif
