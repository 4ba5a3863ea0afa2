/* job.h - what the files of a job share. Owner thread only. */
#ifndef FL_DIST_JOB_H
#define FL_DIST_JOB_H

#include "ctx/ctx.h"
#include "dist/endpoints.h"
#include "flotilla/job.h"

#endif
