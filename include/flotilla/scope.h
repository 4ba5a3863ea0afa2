/* scope.h - where values live between runs: parameters, optimizer state,
 * metrics and the global step. A value is dense, ragged, rows or an array.
 *
 * A context has a scope of its own, and any number of others may be made: two
 * models in one process, or one program with two sets of parameters. A scope
 * may have a parent, whose variables it shows unless it has one of that name
 * itself. A run uses the current scope, or the one among its arguments.
 *
 * Looking up, making and dropping variables is for any thread; the values
 * themselves have no lock. Rows of tables do not live here (table.h).
 */
#ifndef FLOTILLA_SCOPE_H
#define FLOTILLA_SCOPE_H

#include "flotilla/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fl_scope fl_scope;

/* An empty scope. parent may be NULL; it outlives its children. */
FL_API FL_MUST_CHECK
fl_status fl_scope_new(fl_scope **out, fl_scope *parent);

/* Frees the values with it. Not for one that is current. */
FL_API void fl_scope_free(fl_scope *s);

/* A view of a variable's value, here or in a parent; it is valid until the
   variable is dropped or gets a value of another size. */
FL_API FL_MUST_CHECK
fl_status fl_scope_get(fl_scope *s, const char *name, fl_tensor *out);

/* The same; false instead of an error when there is none. */
FL_API bool fl_scope_find(fl_scope *s, const char *name, fl_tensor *out);

/* The scope that has the variable: this one or a parent; NULL: none has it. */
FL_API fl_scope *fl_scope_holder(fl_scope *s, const char *name);

/* Copies a value of any kind, with all that it points to, into this scope;
   makes the variable if it has none. */
FL_API FL_MUST_CHECK
fl_status fl_scope_set(fl_scope *s, const char *name, const fl_tensor *value);

/* False when this scope itself has no such variable. */
FL_API bool fl_scope_drop(fl_scope *s, const char *name);

/* The names of this scope's own variables, NULL after the last one; dropping
   one may change the order of the others. */
FL_API const char *fl_scope_name(fl_scope *s, size_t i);

/* The global step: how many training steps were made in this scope. */
FL_API uint64_t fl_scope_step(const fl_scope *s);
FL_API void fl_scope_set_step(fl_scope *s, uint64_t step);

/* --- the current scope --------------------------------------------------- */

/* What runs use that name no scope: the last one pushed, else the context's
   own. */
FL_API fl_scope *fl_current_scope(fl_ctx *c);

/* A guard: `s` is current until the pop that belongs to it. */
FL_API void fl_scope_push(fl_ctx *c, fl_scope *s);
FL_API void fl_scope_pop(fl_ctx *c);

#ifdef __cplusplus
}
#endif
#endif
