/* job_programs.h - what a job declares, as the programs that its servers run.
 * Owner thread only. */
#ifndef FL_DIST_JOB_PROGRAMS_H
#define FL_DIST_JOB_PROGRAMS_H

#include "ctx/ctx.h"

typedef struct fl_job_programs fl_job_programs;

/* Settings of the context are borrowed for its life. */
fl_job_programs *fl_job_programs_new(const fl_ctx *c, size_t n_servers);
void fl_job_programs_free(fl_job_programs *p); /* NULL is fine */

/* A table, on all servers. */
FL_MUST_CHECK
fl_status fl_job_programs_add_table(fl_job_programs *p, const char *name,
                                    const char *settings);

/* A dense block of n floats that starts as zeros, on one server: first values
   and an update as the optimizer makes them. */
typedef struct fl_job_block {
    const char *name;
    size_t n;
    const char *optimizer, *settings;
} fl_job_block;

/* *number is the block's among those of the server. */
FL_MUST_CHECK
fl_status fl_job_programs_add_block(fl_job_programs *p, int server,
                                    const fl_job_block *block,
                                    uint32_t *number);

/* They serve now: the declaration of every server, in their order. Nothing is
   added afterwards. The texts are the programs' own. */
FL_MUST_CHECK
fl_status fl_job_programs_print(fl_job_programs *p, const char *const **texts);

#endif
