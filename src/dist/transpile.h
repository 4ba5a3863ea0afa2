/* transpile.h - the inside of a transpiler, for the files of api/ that it is
 * made of: transpile.c its programs, exchange.c and dispatch.c data over
 * trainers. Owner thread only. */
#ifndef FL_DIST_TRANSPILE_H
#define FL_DIST_TRANSPILE_H

#include <stdatomic.h>

#include "dist/job.h"
#include "flotilla/dist.h"
#include "mode/mode.h"

/* A name that files are dealt by, and how many passes it had here. */
typedef struct fl_deal_name fl_deal_name;
struct fl_deal_name {
    fl_deal_name *next;
    char *name;
    _Atomic uint64_t n_passes;
};
void fl_deal_names_free(fl_deal_name *first); /* dispatch.c */

struct fl_transpiler {
    fl_comm serving; /* the port of a process that has not said what it is */
    fl_contents contents; /* of a server: what its programs have said so far */
    fl_ctx *ctx;
    fl_comm *own; /* what the context had before */
    const fl_mode *mode;
    fl_endpoints net;
    fl_dist *dist;
    fl_cluster *cluster; /* the backend's, once there is one */
    fl_comm *backend;    /* of a trainer; NULL until it is one */
    uint64_t barrier;    /* generation of the next one */
    uint64_t n_shuffles; /* global ones so far */
    fl_deal_name *deals;
    uint64_t n_samples;       /* of passes over data that are over */
    atomic_bool is_reporting; /* a report is under way */
};

/* Tells server 0 what this trainer does, as fl_job_report, without waiting;
   nothing is sent while the one before is under way, or before the job has
   begun. Any thread. */
void fl_transpiler_report(fl_transpiler *t, const char *phase, uint64_t samples,
                          double loss, double auc);

#endif
