/* job_model.h - a job as the user's program sees it: which variables a model of it
 * has, whole, and where their values are. Any thread, once it is made.
 */
#ifndef FL_DIST_JOB_MODEL_H
#define FL_DIST_JOB_MODEL_H

#include "base/arena.h"
#include "ckpt/state_rows.h"
#include "exec/scope.h"
#include "pass/dist.h"
#include "rpc/wire/frame.h"

/* A persistent variable of the user's program that is dense in a job. */
typedef struct fl_job_var {
    const char *name;
    fl_tensor meta;
    bool is_served; /* servers have it, whole or as blocks; else trainers */
    bool is_alike;  /* all trainers have the same: the first one brings it */
} fl_job_var;

typedef struct fl_job_model {
    fl_arena arena;
    const char *mode;
    const fl_program *main;  /* the user's, to compare with; NULL: none */
    char *program, *startup; /* as text; NULL: there are none */
    uint64_t seed, main_version, startup_version;
    FL_VEC(fl_job_var) vars;
} fl_job_model;

/* All is borrowed for the call; main and startup are the user's, NULL for a job
   that was declared by hand. */
fl_job_model *fl_job_model_new(const fl_dist *d, const fl_program *main,
                               const fl_program *startup);
void fl_job_model_free(fl_job_model *m); /* NULL is fine */

/* What a trainer has of its own. */
typedef struct fl_job_own {
    fl_scope *scope;      /* values of variables that trainers have */
    const char *position; /* in its data */
    fl_state_rows rows;   /* of tables that it updates itself */
    uint64_t step;        /* of the job, as far as it knows */
} fl_job_own;

/* What a trainer brings to a cut (ps/trainer_part.h). */
FL_MUST_CHECK
fl_status fl_job_model_pack(const fl_job_model *m, const fl_dist *d,
                            const fl_job_own *own, fl_pack *out);

#endif
