/* ctx.h - what one model in one process owns. Owner thread only. */
#ifndef FL_CTX_CTX_H
#define FL_CTX_CTX_H

#include "conf/conf.h"
#include "exec/executor.h"
#include "flotilla/fleet.h"
#include "flotilla/flotilla.h"
#include "ir/comm.h"

struct fl_ctx {
    fl_conf conf;
    fl_program *main, *startup; /* what layers are added to */
    /* What a worker of a fleet trains instead; NULL before that. They are the
       default programs then, and the fleet's. */
    fl_program *fleet_main, *fleet_startup;
    fl_fleet *fleet; /* at most one at a time, not owned */
    fl_scope scope;
    fl_transpiler *transpiler; /* of the job, not owned; NULL: there is none */
    fl_comm *comm;   /* the tables of this process, see mode/mode_local.h */
    bool run_failed; /* the last run */
    FL_VEC(fl_optimizer *) optimizers;
    FL_VEC(struct fl_mode *) modes; /* the user's own, see mode/mode_own.h */
};

/* The context a variable's program belongs to. */
fl_ctx *fl_ctx_of(const fl_var *v);

/* The settings as a run wants them. */
void fl_ctx_exec_options(fl_ctx *c, fl_trace *trace, fl_exec_options *out);
fl_pass_options fl_ctx_pass_options(const fl_ctx *c);

/* Notes the result of a run, and gives it back. */
fl_status fl_ctx_ran(fl_ctx *c, fl_status st);

void fl_optimizer_free(fl_optimizer *o);

#endif
