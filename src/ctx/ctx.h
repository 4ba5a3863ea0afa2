/* ctx.h - what one model in one process owns. Owner thread only. */
#ifndef FL_CTX_CTX_H
#define FL_CTX_CTX_H

#include "conf/conf.h"
#include "exec/executor.h"
#include "flotilla/fleet.h"
#include "flotilla/flotilla.h"
#include "ir/comm.h"

#define FL_WHO_MAX 32

/* What layers write to: see the public program.h. */
typedef struct fl_program_pair {
    fl_program *main, *startup;
} fl_program_pair;

struct fl_ctx {
    fl_conf conf;
    fl_program *main, *startup;          /* the context's own pair */
    FL_VEC(fl_program_pair) pairs;       /* of guards, the innermost last */
    FL_VEC(fl_program_pair) known_pairs; /* of all guards so far */
    FL_VEC(fl_names) names;              /* of guards */
    /* What a worker of a fleet trains instead; NULL before that. They are the
       default programs then, and the fleet's. */
    fl_program *fleet_main, *fleet_startup;
    fl_fleet *fleet;            /* at most one at a time, not owned */
    fl_scope scope;             /* the context's own */
    FL_VEC(fl_scope *) scopes;  /* of guards, not owned */
    fl_job *job;                /* not owned; NULL: there is none */
    fl_scope *job_scope;        /* where it keeps its values, not owned */
    const struct fl_mode *mode; /* `local`, or that of the job */
    fl_comm *comm;              /* of the mode */
    bool run_failed;            /* the last run */
    /* Versions that tables log changes since, or NULL: the last one to train on,
       and the last one for prediction. */
    char *saved_as, *served_as;
    FL_VEC(fl_optimizer *) optimizers;
    FL_VEC(struct fl_mode *) modes; /* the user's own, see dist/mode_own.h */
    struct fl_passes *passes;       /* over data, see passes.h */
    uint64_t saved_step, saved_ns;  /* of the last automatic save */
    uint64_t delta_ns;              /* of that, or of a delta behind it */
    bool is_resumed;                /* the setting resume was followed */
    char who[FL_WHO_MAX];           /* "worker-0" of a job; "": there is none */
    int n_dumps;                    /* folders that the setting dump_ir got */
    struct fl_record *record;       /* of this process; NULL: none so far */
    uint64_t scaled; /* the program whose columns were looked at last */
};

/* The context a variable's program belongs to. */
fl_ctx *fl_ctx_of(const fl_var *v);

/* What layers write to; a fleet's programs are only run. */
fl_program_pair fl_ctx_pair(const fl_ctx *c);

/* The block for the first values of what is in `main`. Fails unless that is of
   the current main program. */
FL_MUST_CHECK
fl_status fl_ctx_startup(const fl_ctx *c, const fl_block *main, fl_block **out);

/* A new name for something of the program. */
const char *fl_ctx_name(fl_ctx *c, fl_program *p, const char *key);

/* The settings as a run wants them; scope NULL: the current one. Fails when
   the scope is not the one that a job with servers keeps up to date. */
FL_MUST_CHECK
fl_status fl_ctx_exec_options(fl_ctx *c, fl_scope *scope, fl_trace *trace,
                              fl_exec_options *out);
/* And as the passes over a program want them. */
fl_pass_options fl_ctx_pass_options(fl_ctx *c, const fl_program *p);

/* Where texts of programs go, as the setting dump_ir says. */
fl_dump_place fl_ctx_dump_place(fl_ctx *c, const char *name);

/* Which process of a job this is. */
void fl_ctx_set_who(fl_ctx *c, fl_role_kind role, int rank);

/* The record of the process, opened when it is first asked for; *out is NULL
   when the settings want none. */
FL_MUST_CHECK
fl_status fl_ctx_record(fl_ctx *c, struct fl_record **out);

/* Notes the result of a run, and gives it back. */
fl_status fl_ctx_ran(fl_ctx *c, fl_status st);

void fl_optimizer_free(fl_optimizer *o);

#endif
