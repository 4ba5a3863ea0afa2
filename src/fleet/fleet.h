/* fleet.h - the inside of a fleet, for the files of api/ that it is made of:
 * fleet.c its life and programs, util.c and worker_metrics.c what workers
 * do together. Owner thread only. */
#ifndef FL_FLEET_FLEET_H
#define FL_FLEET_FLEET_H

#include "ctx/ctx.h"
#include "dist/transpile.h"
#include "fleet/role.h"
#include "fleet/strategy.h"
#include "flotilla/fleet.h"

struct fl_fleet {
    fl_ctx *ctx;
    fl_fleet_role role;
    fl_transpiler *transpiler; /* NULL in a single process, and before
                                  minimize */
    fl_executor *server_exe;   /* of a server, from init_server on */
    fl_optimizer *optimizer;   /* NULL before distributed_optimizer */
    fl_strategy *strategy;     /* of the optimizer */
    char *own_mode;            /* instead of the strategy's, or NULL */
    FL_VEC(fl_strategy *) strategies;
    bool is_minimized, has_served, is_stopped;
    uint64_t n_gathers; /* generation of the last one, of the job's workers */
};

/* As fl_fleet_init without a role, for an environment of the caller's. */
FL_MUST_CHECK
fl_status fl_fleet_init_from(fl_fleet **out, fl_ctx *c, fl_env_get get,
                             void *arg);

/* Fails unless this process is a worker whose programs are made and that has
   not left: `call` names what was called. In a job it connects. *alone tells
   whether there is nobody else to talk to. */
FL_MUST_CHECK
fl_status fl_fleet_join(fl_fleet *f, const char *call, bool *alone);

#endif
