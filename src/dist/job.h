/* job.h - the inside of a job, for the files of dist/ that it is made of:
 *
 *     job.c           connecting, declaring, starting and leaving
 *     job_rows.c      rows and dense parameters on the servers
 *     job_ask.c       what all servers, or server 0, are asked
 *     job_tool.c      serving, and looking at a job from outside
 *     job_view.c      what its servers hold, for a tool
 *     job_save.c      saving all of it
 *     job_inference.c saving what predictions need
 *     job_load.c      beginning with what was saved
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
#include "ckpt/load_plan.h"
#include "ctx/ctx.h"
#include "dist/endpoints.h"
#include "dist/job_model.h"
#include "dist/job_programs.h"
#include "flotilla/job.h"
#include "mode/mode.h"
#include "rpc/metrics/exporter.h"

/* A name that files are dispatched by, and how many passes it had here. */
typedef struct fl_dispatch_name fl_dispatch_name;
struct fl_dispatch_name {
    fl_dispatch_name *next;
    char *name;
    _Atomic uint64_t n_passes;
};
void fl_dispatch_names_free(fl_dispatch_name *first); /* dispatch.c */

/* The model that a server begins with; NULL: none, and all of it. */
typedef struct fl_job_begin {
    char *path, *plan; /* ckpt/load_plan.h, as text */
} fl_job_begin;

/* What a trainer tells server 0 without waiting: one at a time, and the newest of
   those that came meanwhile. */
typedef struct fl_job_reports {
    fl_mutex mu;
    bool is_under_way, has_next, is_over; /* guarded by mu */
    bool has_any;                         /* guarded by mu */
    fl_report_request next;               /* the newest; guarded by mu */
    fl_report_reply reply;                /* of the one under way */
    _Atomic double rate;                  /* of the job, as told last */
} fl_job_reports;

struct fl_job {
    fl_comm serving;      /* the port of a server's context; the first member */
    fl_contents contents; /* of a server: what its programs have said so far */
    fl_ctx *ctx;
    fl_scope *scope; /* current when it was made, which outlives it */
    fl_role_kind role;
    const fl_mode *mode; /* NULL: connected by hand */
    fl_endpoints net;
    fl_dist *dist;             /* what the servers hold */
    fl_job_programs *programs; /* of a job by hand, else dist has them */
    fl_job_model *model;       /* as the user's program sees it */
    fl_job_begin begin;        /* of a server */
    fl_cluster *cluster;       /* the backend's, where there is one */
    fl_comm *backend;          /* what a trainer's programs talk to, or NULL */
    fl_comm *before;           /* what the context had before */
    atomic_bool is_started;
    _Atomic uint64_t n_barriers;
    uint64_t n_shuffles; /* global ones so far */
    fl_dispatch_name *dispatches;
    uint64_t n_samples; /* of passes over data that are over */
    double loss, auc;   /* at the end of the last of them */
    uint64_t n_tests;   /* examinations in the midst of training */
    atomic_bool meets;  /* a pass trains that they are made in */
    fl_job_reports reports;
    fl_exporter *exporter; /* NULL: none */

    fl_mutex mu; /* also held while declaring */
    fl_cond idle;
    size_t n_open; /* requests under way; guarded by mu */
};

/* Takes the endpoints, which were opened, and what the programs were made into,
   and from:
   from now on tables and parameters of the context are those of the job. */
fl_job *fl_job_new(fl_ctx *c, const fl_mode *mode, fl_role_kind role,
                   fl_endpoints *net, fl_dist *dist, fl_job_model *model);

/* The context is as it was before the job, and may have another one. */
void fl_job_step_aside(fl_job *j);

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

/* A table that this trainer updates itself; NULL: servers do, or it is not made
   yet. */
fl_table *fl_job_own_table(const fl_job *j, const char *name);

/* For fl_cluster_set_bring; the argument is the job. */
fl_status fl_job_bring(void *job, fl_pack *out);
/* What a job is asked to save. */
typedef struct fl_job_saving {
    uint32_t keep; /* 0: as the setting says */
    fl_save_kind kind;
    fl_msg_bytes recipe; /* empty: all that the job has (ps/recipe.h) */
} fl_job_saving;
/* Saves the job and waits until the version counts. */
FL_MUST_CHECK
fl_status fl_job_save_what(fl_job *j, const char *dir,
                           const fl_job_saving *what, fl_save_reply *saved);

/* What options ask for, and what became of it; NULL: nobody wants to know. */
FL_MUST_CHECK
fl_status fl_job_saving_of(const fl_job_save_args *args, fl_job_saving *out);
FL_MUST_CHECK
fl_status fl_job_tell_saved(const fl_save_reply *r, fl_job_saved *out);

/* The program that the job was made of, with tables for arrays that are tables on
   its servers; the caller's. */
FL_MUST_CHECK
fl_status fl_job_user_program(const fl_job *j, fl_program **out);

/* What a model for prediction is made of; feeds and targets fit the program. */
typedef struct fl_job_inference {
    const fl_program *program; /* of fl_job_user_program, for test and pruned */
    const char *const *feeds, *const *targets;
    size_t n_feeds, n_targets;
    const char *passes; /* that predictors leave out */
    uint32_t keep;
    bool delta, by_score; /* as of fl_inference_args */
} fl_job_inference;

/* Saves the variables that the program names, without state. */
FL_MUST_CHECK
fl_status fl_job_save_inference(fl_job *j, const char *dir,
                                const fl_job_inference *in);

/* The path of a directory from the root, as servers have working directories of
   their own; freed with fl_free. */
FL_MUST_CHECK
fl_status fl_job_full_path(const char *dir, char **out);

/* A server begins with a saved model, when it serves. */
FL_MUST_CHECK
fl_status fl_job_begin_with(fl_job *j, const char *path,
                            const fl_load_wish *wish);
/* fl_job_load of what is asked for. */
FL_MUST_CHECK
fl_status fl_job_load_as(fl_job *j, const char *dir, const fl_load_wish *wish);
/* A trainer takes what trainers keep for themselves out of a saved model: what the
   one of its rank had, where it is known, else what the first one had. */
FL_MUST_CHECK
fl_status fl_job_load_own(fl_job *j, const char *path);

/* As fl_job_report, without waiting; nothing is sent before the job has begun.
   Any thread. */
void fl_job_report_later(fl_job *j, const char *phase,
                         const fl_report_request *r);
/* A worker answers GET /metrics, if the settings say so; that it cannot is only
   told. */
void fl_job_open_metrics(fl_job *j);
/* None begins any more: the connection is closed next. */
void fl_job_end_reports(fl_job *j);
/* Samples per second of all trainers, as told last; NaN: not known. */
double fl_job_rate(const fl_job *j);

#endif
