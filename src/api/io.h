/* io.h - what saving and loading share: who asks, and for which variables. */
#ifndef FL_API_IO_H
#define FL_API_IO_H

#include "ckpt/match.h"
#include "ckpt/version.h"
#include "ctx/ctx.h"
#include "flotilla/io.h"

/* A call of flotilla/io.h that makes sense. */
typedef struct fl_io_call {
    const char *what; /* "save", "load" */
    fl_ctx *ctx;
    fl_program *program; /* the user's own */
    fl_scope *scope;
} fl_io_call;

/* Finds the program and the scope; fails where the call makes no sense, and
   says what to call instead. */
FL_MUST_CHECK
fl_status fl_io_begin(fl_io_call *out, const char *what, fl_executor *e,
                      fl_program *p, fl_scope *scope);

/* Which persistent variables are asked for. */
typedef enum fl_io_which { FL_IO_ALL, FL_IO_PARAMS } fl_io_which;

/* The persistent variables of the program, dense ones and tables; those that
   are not asked for are marked. Items are in the arena. */
fl_match_set fl_io_variables(const fl_io_call *call, fl_io_which which,
                             fl_arena *arena);

/* --- for prediction ------------------------------------------------------- */

/* The program for test, pruned to the targets; the caller's. Its feeds are those
   that were given; when none were, they are given by this, as long as the program
   lives. */
FL_MUST_CHECK
fl_status fl_io_prune(fl_program **out, const fl_program *p,
                      fl_inference_args *a);

/* What a predictor is to leave out of the passes: what this context leaves
   out. */
const char *fl_io_left_out(const fl_conf *conf);

/* --- a job ---------------------------------------------------------------- */

/* The same calls in a process of a job. */
FL_MUST_CHECK
fl_status fl_io_save_job(fl_job *j, const char *dir, fl_io_which which,
                         const fl_save_args *args);
FL_MUST_CHECK
fl_status fl_io_inference_job(fl_job *j, const char *dir,
                              fl_inference_args *args);
FL_MUST_CHECK
fl_status fl_io_load_job(fl_job *j, const char *dir, fl_io_which which,
                         const fl_load_args *args);

/* --- tables of this process ----------------------------------------------- */

/* The epoch of a table in a version: changes from there on are behind it. */
uint32_t fl_io_epoch(const fl_model_version *v, const char *table);

/* What of a table goes into a version. */
typedef struct fl_io_cut {
    const char *name;
    const fl_model_version *base; /* what changed since then; NULL: all */
    bool watch;                   /* the next one may be a delta */
} fl_io_cut;

/* Writes a table into a version. */
FL_MUST_CHECK
fl_status fl_io_save_table(const fl_io_call *call, const fl_model_version *v,
                           fl_manifest *m, const fl_io_cut *cut);

/* Whether what changed in a table since that version is known. */
bool fl_io_knows_since(const fl_io_call *call, const char *table,
                       const fl_model_version *base);

/* The values of the context are those of that version from now on; "": of
   none. */
void fl_io_note_saved(const fl_io_call *call, const char *id);

/* A save for prediction: the program is the pruned one. */
typedef struct fl_io_online {
    const fl_inference_args *args;
    const fl_program *program;
} fl_io_online;

/* The version that it is a delta of, the caller's; NULL: it is a whole one, and
   the log says why. Whether the log of changes reaches back to it is in
   *is_known. */
fl_model_version *fl_io_online_base(const fl_io_call *call, const char *dir,
                                    const fl_io_online *o, bool *is_known);

/* A table that is to be loaded. */
typedef struct fl_io_table {
    const char *name, *saved;       /* here, and in the model */
    fl_model_version *const *chain; /* the newest first, behind it its bases */
    size_t n_chain;
    bool is_resized, is_fresh_state, watch;
} fl_io_table;

/* Whether it can be: the table is there, fits, and its files have their
   sums. */
FL_MUST_CHECK
fl_status fl_io_check_table(const fl_io_call *call, const fl_io_table *t);

/* Replaces its rows; with `watch` changes are logged from now on. */
FL_MUST_CHECK
fl_status fl_io_load_table(const fl_io_call *call, const fl_io_table *t);

#endif
