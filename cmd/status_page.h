/* status_page.h - the status of a job for people. */
#ifndef FL_CMD_STATUS_PAGE_H
#define FL_CMD_STATUS_PAGE_H

#include <stdio.h>

#include "flotilla/job.h"

/* A table of members, open barriers, and where the job is:
 *
 *     member     address        process  phase  state  incarnation  step ...
 *     trainer 0  10.0.0.7:4321       77  train  up               1   120 ...
 *
 *     barrier "epoch": open for 4.2 s, waits for trainer 1 (last seen at ...
 *
 *     the job began 3 min 5 s ago and is at step 120
 *     all trainers together: 7680 samples, 41 samples/s, this pass takes 2 min more
 */
void status_page(FILE *out, const fl_job_status *s);

/* "the job waits for ..." or "the job is over: ..."; 0 bytes when neither. */
int status_of_job(const fl_job_status *s, char *out, size_t cap);

/* "2.1 s", "3 min 5 s". */
const char *status_time(double seconds, char out[32]);

#endif
