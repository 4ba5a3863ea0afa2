/* io.h - models at rest: saved into a folder, loaded from it.
 *
 *     fl_save_persistables(exe, "model", NULL);
 *     ...
 *     fl_run(exe, fl_default_startup_program(ctx), NULL);
 *     fl_load_persistables(exe, "model", NULL);
 *
 * Saving again into the same folder adds a version; the old one counts until
 * the new one is whole, and goes then (docs/formats/model.md). A model has the
 * values of dense variables with the state of their optimizer, the rows of
 * tables with theirs, the two programs as text, and the global step.
 *
 * Loading is strict: variables that the model lacks, that the program does not
 * have, and that differ in type or shape are all listed, and nothing changes.
 *
 * A folder may be a path with a scheme, hdfs:// for example, which the commands
 * of the settings fs_put and fs_get reach (docs/howto/models.md).
 *
 * In a process of a job, a trainer's call saves all of the job as of one moment
 * (fl_job_save) or loads a model into its servers (fl_job_load), and a server's
 * says what it begins with, before it serves. Any number of servers loads what
 * any number, or one process, has saved.
 *
 * A program is one of the executor's context; NULL: the default one. Values are
 * those of the current scope unless another is named. Owner thread of the
 * executor, between runs.
 */
#ifndef FLOTILLA_IO_H
#define FLOTILLA_IO_H

#include "flotilla/executor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- saving --------------------------------------------------------------- */

/* Every persistent variable: parameters, state of optimizers, counters. */
FL_API FL_MUST_CHECK
fl_status fl_save_persistables(fl_executor *e, const char *dir, fl_program *p);

/* Parameters alone. Rows of tables are whole. */
FL_API FL_MUST_CHECK
fl_status fl_save_params(fl_executor *e, const char *dir, fl_program *p);

typedef struct fl_save_args {
    uint32_t size;
    uint32_t keep;            /* versions that stay; 0: setting save_keep */
    const char *const *names; /* these alone; NULL: every persistent one */
    size_t n_names;
    fl_scope *scope; /* NULL: the current one */
    /* The rows that changed since the version that counts, if that has what
       this context saved or loaded last, also with `delta`; else all of them.
       Dense variables are whole. */
    bool delta;
} fl_save_args;

FL_API FL_MUST_CHECK
fl_status fl_save_vars(fl_executor *e, const char *dir, fl_program *p,
                       const fl_save_args *args);

/* --- for prediction ------------------------------------------------------- */

/* What predict.h opens: the program for test, pruned to the targets, with the
   variables that it names and no state. A job saves what its servers hold: every
   one of them writes its own rows, as of one moment. */
typedef struct fl_inference_args {
    uint32_t size;
    uint32_t keep;            /* versions that stay; 0: setting save_keep */
    const char *const *feeds; /* all that the targets need, and no others;
                                 NULL: these, in the order of the program */
    size_t n_feeds;
    const char *const *targets; /* what is computed */
    size_t n_targets;
    fl_program *program; /* NULL: the default one */
    fl_scope *scope;     /* NULL: the current one */
    /* Of tables with accessor ctr only the rows that are worth a place online:
       with a score of base_threshold or more and at most delta_keep_days unseen
       days. What brought them there is taken off their delta_score when the
       save stands. */
    bool by_score;
    /* What changed since the version that counts, if that was saved by this
       context with `delta`; with by_score, whoever saved it, the rows that are
       worth a place and have gained a delta_score of delta_threshold or more
       since. Else a whole one, and the log says why. Dense variables are
       whole. */
    bool delta;
} fl_inference_args;

#define fl_save_inference_model(e, dir, ...)                                   \
    fl_save_inference_model_with(e, dir,                                       \
                                 FL_OPTIONS(fl_inference_args, __VA_ARGS__))
FL_API FL_MUST_CHECK
fl_status fl_save_inference_model_with(fl_executor *e, const char *dir,
                                       const fl_inference_args *args);

/* --- loading -------------------------------------------------------------- */

/* `dir` is a folder that was saved into, or that of a version in it. Tables
   must have been made: run the startup program first. The global step is that
   of the save. */
FL_API FL_MUST_CHECK
fl_status fl_load_persistables(fl_executor *e, const char *dir, fl_program *p);

/* Parameters alone; the global step stays. */
FL_API FL_MUST_CHECK
fl_status fl_load_params(fl_executor *e, const char *dir, fl_program *p);

/* What is to be forgiven. It is told in the log before anything changes. */
typedef struct fl_load_args {
    uint32_t size;
    bool fresh_state; /* the optimizer is another one: its state stays as the
                         startup program made it */
    const char *const *names; /* these variables alone; the global step stays */
    size_t n_names;
    const char *const *renames; /* "old=new": saved as old, with its state */
    size_t n_renames;
    const char *const *resizes; /* of these, with their state, another shape is
                                   cut, or leaves the rest as it is */
    size_t n_resizes;
    fl_scope *scope; /* NULL: the current one */
    bool delta;      /* the next save may be a delta: changes are logged */
} fl_load_args;

FL_API FL_MUST_CHECK
fl_status fl_load_vars(fl_executor *e, const char *dir, fl_program *p,
                       const fl_load_args *args);

/* --- going on -------------------------------------------------------------- */

/* The folder of the newest version in `dir` that is whole: every byte is what was
   saved. Damaged ones are named in the log. FL_ERR_NOTFOUND: there is no version,
   or no such folder. Free it with fl_text_free. */
FL_API FL_MUST_CHECK
fl_status fl_model_newest(const char *dir, char **path);

#ifdef __cplusplus
}
#endif
#endif
