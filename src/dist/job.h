/* job.h - what the files of a job share. Owner thread only. */
#ifndef FL_DIST_JOB_H
#define FL_DIST_JOB_H

#include "ctx/ctx.h"
#include "dist/endpoints.h"
#include "flotilla/job.h"

/* The text that declares a dense block with an optimizer: a program that the
   servers run for every gradient (ps/declare.h). Added to *out. */
FL_MUST_CHECK
fl_status fl_job_block_text(const fl_ctx *c, const char *name, size_t n,
                            const char *optimizer, const char *settings,
                            fl_str *out);

#endif
