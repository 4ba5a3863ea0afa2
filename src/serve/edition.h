/* edition.h - one version of a model as it is served: what is computed, the dense
 * values, and where rows come from.
 *
 * Read-only once it is open; references are counted, any thread. An edition that
 * follows another shares with it what has not changed: the recipe, and under a
 * delta the mapped files.
 */
#ifndef FL_SERVE_EDITION_H
#define FL_SERVE_EDITION_H

#include "ckpt/version.h"
#include "exec/scope.h"
#include "serve/recipe.h"
#include "serve/rules.h"
#include "serve/source.h"

#define FL_EDITION_ID_MAX 64

typedef struct fl_edition {
    atomic_int refs;
    char id[FL_EDITION_ID_MAX]; /* name of the version's folder */
    fl_recipe *recipe;
    fl_scope values; /* of dense parameters */
    fl_rules rules;
    fl_row_source *files; /* its own; NULL: rows are handed in */
} fl_edition;

/* What the model was opened with; texts are the model's. */
typedef struct fl_edition_options {
    const char *path; /* a model's directory, or the folder of a version */
    fl_names_list targets;
    bool verify, no_optimize, in_memory;
    bool has_rows; /* they are handed in: no files are opened for them */
    fl_precision precision;
} fl_edition_options;

/* Opens the version that counts now. One that follows another (`before` is not
   NULL) is verified in full. */
FL_MUST_CHECK
fl_status fl_edition_open(fl_edition **out, const fl_edition_options *o,
                          fl_edition *before);

/* Takes what a plan reads of dense variables out of a version. */
FL_MUST_CHECK
fl_status fl_edition_load_values(fl_scope *to, const fl_model_version *v,
                                 const fl_plan *plan);

/* The id of the version that counts now, without opening it. */
FL_MUST_CHECK
fl_status fl_edition_newest(const char *path, char id[FL_EDITION_ID_MAX]);

fl_edition *fl_edition_ref(fl_edition *e);
void fl_edition_unref(fl_edition *e); /* NULL is fine */

#endif
