/* job.h - the inside of a job, for the files of dist/ that it is made of:
 *
 *     job.c           connecting, declaring, starting and leaving
 *     job_rows.c      rows and dense parameters on the servers
 *     job_ask.c       what all servers, or server 0, are asked
 *     job_tool.c      serving, and looking at a job from outside
 *     shuffle.c, dispatch.c   data over trainers
 *
 * A job that was connected by hand declares its tables and parameters and is
 * then started; one with programs (transpile.c) has them from the passes, and
 * starts when it is first needed. Both end in an fl_dist and an fl_cluster.
 */
#ifndef FL_DIST_JOB_H
#define FL_DIST_JOB_H

#include <stdatomic.h>

#include "base/thread.h"
#include "ctx/ctx.h"
#include "dist/endpoints.h"
#include "dist/job_programs.h"
#include "flotilla/job.h"
#include "mode/mode.h"

/* A name that files are dispatched by, and how many passes it had here. */
typedef struct fl_dispatch_name fl_dispatch_name;
struct fl_dispatch_name {
    fl_dispatch_name *next;
    char *name;
    _Atomic uint64_t n_passes;
};
void fl_dispatch_names_free(fl_dispatch_name *first); /* dispatch.c */

struct fl_job {
    fl_comm serving;      /* the port of a server's context; the first member */
    fl_contents contents; /* of a server: what its programs have said so far */
    fl_ctx *ctx;
    fl_role_kind role;
    const fl_mode *mode; /* NULL: connected by hand */
    fl_endpoints net;
    fl_dist *dist;             /* what the servers hold */
    fl_job_programs *programs; /* of a job by hand, else dist has them */
    fl_cluster *cluster;       /* the backend's, where there is one */
    fl_comm *backend;          /* what a trainer's programs talk to, or NULL */
    fl_comm *before;           /* what the context had before */
    atomic_bool is_started;
    _Atomic uint64_t n_barriers;
    uint64_t n_shuffles; /* global ones so far */
    fl_dispatch_name *dispatches;
    uint64_t n_samples;       /* of passes over data that are over */
    atomic_bool is_reporting; /* a report is under way */

    fl_mutex mu; /* also held while declaring */
    fl_cond idle;
    size_t n_open; /* requests under way; guarded by mu */
};

/* Takes the endpoints, which were opened, and what the programs were made into:
   from now on tables and parameters of the context are those of the job. */
fl_job *fl_job_new(fl_ctx *c, const fl_mode *mode, fl_role_kind role,
                   fl_endpoints *net, fl_dist *dist);

/* Fails unless this is a trainer that is connected to all servers; a job with
   programs connects first. */
FL_MUST_CHECK
fl_status fl_job_ready(fl_job *j);

/* The width of a table's rows; fails when there is no such table. */
FL_MUST_CHECK
fl_status fl_job_dim_of(const fl_job *j, int table, uint32_t *dim);

/* Requests under way, which fl_job_stop waits for. */
void fl_job_open_request(fl_job *j);
void fl_job_close_request(fl_job *j);

/* As fl_job_report, without waiting; nothing is sent while the one before is
   under way, or before the job has begun. Any thread. */
void fl_job_report_later(fl_job *j, const char *phase, uint64_t samples,
                         double loss, double auc);

#endif
