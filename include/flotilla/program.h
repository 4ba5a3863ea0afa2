/* program.h - contexts and programs.
 *
 * A context holds what its models have in common in one process: the settings,
 * a pair of default programs, a scope with values (scope.h) and the tables.
 * There is nothing global: two contexts know nothing of each other. One thread
 * builds; see executor.h for who may run.
 *
 * Layers write to the current pair of programs: the main one gets operators
 * and variables, the startup one the first values of parameters. That is the
 * context's default pair, or the one of a guard:
 *
 *     fl_program_push(ctx, main, startup);
 *     ... layers, optimizers ...
 *     fl_program_pop(ctx);
 */
#ifndef FLOTILLA_PROGRAM_H
#define FLOTILLA_PROGRAM_H

#include "flotilla/status.h"
#include "flotilla/tensor.h"
#include "flotilla/version.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fl_ctx fl_ctx;
typedef struct fl_program fl_program;
typedef struct fl_var fl_var;

/* --- context ------------------------------------------------------------- */

/* Fails when a variable of the environment has a value that is out of range. */
FL_API FL_MUST_CHECK
fl_status fl_ctx_new(fl_ctx **out);
FL_API void fl_ctx_free(fl_ctx *c);

/* Settings: names, ranges and meaning in docs/settings.md. Values start from
   the environment (FLOTILLA_<NAME>, and CPU_NUM), else from the default. */
FL_API FL_MUST_CHECK
fl_status fl_ctx_set(fl_ctx *c, const char *name, const char *value);

/* The value as text, NULL for an unknown name; valid until the next set. */
FL_API const char *fl_ctx_get(fl_ctx *c, const char *name);

/* The table of settings as Markdown or as plain help; free with
   fl_text_free. */
typedef enum fl_help_form { FL_HELP_PLAIN, FL_HELP_MARKDOWN } fl_help_form;
FL_API char *fl_settings_help(fl_help_form form);

/* --- programs ------------------------------------------------------------ */

/* An empty program; the caller frees it before its context. */
FL_API FL_MUST_CHECK
fl_status fl_program_new(fl_program **out, fl_ctx *c);

/* Does nothing to a default program, which goes with its context. Not for those
   that a fleet or a transpiler hands out. NULL is fine. */
FL_API void fl_program_free(fl_program *p);

/* The current pair: that of the innermost guard, else the fleet's that a
   worker trains, else the context's own. */
FL_API fl_program *fl_default_main_program(fl_ctx *c);
FL_API fl_program *fl_default_startup_program(fl_ctx *c);

/* A guard: the pair is current until the pop that belongs to it. Without a
   startup program the current one stays. A pop too many does nothing. */
FL_API FL_MUST_CHECK
fl_status fl_program_push(fl_ctx *c, fl_program *main, fl_program *startup);
FL_API void fl_program_pop(fl_ctx *c);

/* --- names --------------------------------------------------------------- */

/* "fc" gives "fc_0", "fc_1", ...; layers name what they make like this. Every
   program counts for itself, unless a guard does. The name lives as long as
   the current main program. */
FL_API const char *fl_unique_name(fl_ctx *c, const char *key);

/* A guard: names are counted from 0, whatever the program, until the pop that
   belongs to it. They begin with the prefix, which may be NULL. */
FL_API void fl_names_push(fl_ctx *c, const char *prefix);
FL_API void fl_names_pop(fl_ctx *c);

/* --- texts, copies, variables -------------------------------------------- */

/* The seed that random operators use when they have none of their own. */
FL_API void fl_program_set_seed(fl_program *p, uint64_t seed);
FL_API uint64_t fl_program_seed(const fl_program *p);

/* Infers every operator anew, in order: what it gives follows from what its
   inputs are now, for example after fl_var_change of one that is fed. */
FL_API FL_MUST_CHECK
fl_status fl_program_infer(fl_program *p);

/* A number that no other program of this process has. */
FL_API uint64_t fl_program_id(const fl_program *p);

/* A number that grows with every change of the program. */
FL_API uint64_t fl_program_version(const fl_program *p);

/* The text form is described in docs/formats/ir.md. The new program is the
   caller's, freed with fl_program_free before its context. */
FL_API FL_MUST_CHECK
fl_status fl_program_from_text(fl_program **out, fl_ctx *c, const char *text);
FL_API char *fl_program_to_text(const fl_program *p);

/* A drawing: operators as boxes, equal ones folded into one with a count; what is
   fed, what lives, what is fetched; forward, backward, update and communication
   apart. Graphviz (the program dot) lays it out; NULL when it is not there, and
   fl_last_error says so. Free with fl_text_free. */
FL_API char *fl_program_to_svg(const fl_program *p);

/* Programs side by side. What the first one does not have stands out in the
   others. FL_DRAWING_DOT is the text for dot, and needs no Graphviz. */
typedef enum fl_drawing_form { FL_DRAWING_SVG, FL_DRAWING_DOT } fl_drawing_form;
typedef struct fl_drawn {
    const fl_program *program;
    const char *title; /* NULL: none */
    void *reserved[2];
} fl_drawn;
FL_API FL_MUST_CHECK
fl_status fl_programs_draw(char **out, fl_drawing_form form,
                           const fl_drawn *programs, size_t n_programs);

/* The program as an executor would run it for its own fetches: a new one, after
   the optimise passes. */
FL_API FL_MUST_CHECK
fl_status fl_program_after_passes(fl_program **out, fl_ctx *c,
                                  const fl_program *p);

FL_API FL_MUST_CHECK
fl_status fl_program_copy(fl_program **out, const fl_program *p);

/* A copy without backward, optimizer and schedule operators, with is_test
   set where an operator knows it. */
FL_API FL_MUST_CHECK
fl_status fl_program_for_test(fl_program **out, const fl_program *p);

/* A copy that keeps only what the targets need. */
FL_API FL_MUST_CHECK
fl_status fl_program_pruned(fl_program **out, const fl_program *p,
                            const char *const *targets, size_t n_targets);

/* Adds one or more lines of the text form to the main block, for example
   "op relu (X=x) -> (Out=y)". A parameter with a word for its first value
   ("init=xavier") gets it, or a table that makes rows with it, in the startup
   program, when p is the current main one and that does not give it yet. */
FL_API FL_MUST_CHECK
fl_status fl_program_add(fl_program *p, const char *lines);

/* NULL when there is no such variable. */
FL_API fl_var *fl_program_var(fl_program *p, const char *name);

FL_API const char *fl_var_name(const fl_var *v);
FL_API fl_dtype fl_var_dtype(const fl_var *v);
FL_API fl_shape fl_var_shape(const fl_var *v);

/* No gradient flows through it. */
FL_API void fl_var_stop_gradient(fl_var *v);

#ifdef __cplusplus
}
#endif
#endif
