/* job.h - what members of a job and tools have in common: the list of
 * servers and the net, from the settings of a context. Owner thread only. */
#ifndef FL_DIST_JOB_H
#define FL_DIST_JOB_H

#include "ctx/ctx.h"
#include "flotilla/ps.h"
#include "rpc/stream/socket.h"
#include "rpc/stream/tls.h"

typedef struct fl_job {
    FL_VEC(char *) servers;
    fl_tls *tls;
    fl_net *net;
} fl_job;

/* Reads "host:port,host:port" and the settings. */
FL_MUST_CHECK
fl_status fl_job_open(fl_job *out, const fl_ctx *c, const char *servers);
void fl_job_close(fl_job *j);

/* The text that declares a dense block with an optimizer: a program that the
   servers run for every gradient (ps/declare.h). Added to *out. */
FL_MUST_CHECK
fl_status fl_job_block_text(const fl_ctx *c, const char *name, size_t n,
                            const char *optimizer, const char *settings,
                            fl_str *out);

#endif
