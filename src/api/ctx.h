/* ctx.h - what one model in one process owns. Owner thread only. */
#ifndef FL_API_CTX_H
#define FL_API_CTX_H

#include "conf/conf.h"
#include "exec/executor.h"
#include "flotilla/flotilla.h"
#include "ir/comm.h"

struct fl_ctx {
    fl_conf conf;
    fl_program *main, *startup;
    fl_scope scope;
    fl_comm *comm; /* the tables of this process, see mode/mode_local.h */
    FL_VEC(fl_optimizer *) optimizers;
};

/* The context a variable's program belongs to. */
fl_ctx *fl_ctx_of(const fl_var *v);

/* The settings as a run wants them. */
void fl_ctx_exec_options(fl_ctx *c, fl_trace *trace, fl_exec_options *out);
fl_pass_options fl_ctx_pass_options(const fl_ctx *c);

void fl_optimizer_free(fl_optimizer *o);

#endif
