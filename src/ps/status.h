/* status.h - what server 0 knows of a job at one moment: made by the
 * coordinator, sent as the reply to STATUS, read by tools. flotilla/job.h has
 * the fields. Owner thread only. */
#ifndef FL_PS_STATUS_H
#define FL_PS_STATUS_H

#include "base/arena.h"
#include "base/vec.h"
#include "flotilla/job.h"
#include "ps/msg/message.h"

struct fl_job_status {
    fl_arena arena; /* texts */
    fl_job_summary summary;
    FL_VEC(fl_member_status) members;
    FL_VEC(fl_barrier_status) barriers;
};

fl_job_status *fl_job_status_new(void);

/* The reply to STATUS (msg/status.c). */
void fl_job_status_pack(const fl_job_status *s, fl_pack *out);
FL_MUST_CHECK
fl_status fl_job_status_unpack(fl_job_status **out, fl_msg_bytes payload);

#endif
