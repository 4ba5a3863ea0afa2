/* model.h - the parts of `flotilla model` and `flotilla export`.
 *
 *   model.c         options, the list of actions
 *   model_ls.c      what a model has
 *   model_cat.c     a variable, or rows of a table
 *   model_diff.c    two models: options and the sum of it
 *   model_compare.c   and their variables and rows
 *   model_merge.c   a chain of deltas as one version
 *   model_verify.c  every byte is what was saved
 *   model_import.c  models of others
 *   model_save.c    a job that is running saves itself
 *   model_text.c    shapes, numbers and times as text
 */
#ifndef FL_CMD_MODEL_H
#define FL_CMD_MODEL_H

#include "cmd.h"
#include "flotilla/saved.h"
#include "ps.h"

typedef struct model_args {
    const char *self;
    const char *const *words; /* what is no option */
    size_t n_words;
    uint64_t lines, key;
    bool has_lines, has_key;
    const char *params, *program, *names;
    const char *from; /* server 0 of a job */
    bool delta;       /* what changed since the version before */
    ps_sets sets;     /* of the context that asks it */
} model_args;

/* --- actions: return the exit code --------------------------------------- */

int model_ls(const model_args *a);
int model_cat(const model_args *a);
int model_diff(const model_args *a);
int model_verify(const model_args *a);
int model_merge(const model_args *a);
int model_import(const model_args *a);
int model_save(const model_args *a);

/* --- a model ------------------------------------------------------------- */

typedef struct model_file {
    fl_ctx *ctx;
    fl_saved *saved;
} model_file;

/* Says what is wrong; the model is the caller's, who gives it to model_close in
   any case. */
int model_open(const char *self, const char *path, model_file *out);
void model_close(model_file *m);

/* --- text ---------------------------------------------------------------- */

#define MODEL_TEXT_MAX 256

/* "f32[52,32]" */
const char *model_type_text(const fl_tensor *t, char buf[MODEL_TEXT_MAX]);
/* Element i, so that it reads back as the same number. */
const char *model_number_text(const fl_tensor *t, int64_t i,
                              char buf[MODEL_TEXT_MAX]);
/* "[3,1]": where element i is. */
const char *model_place_text(const fl_tensor *t, int64_t i,
                             char buf[MODEL_TEXT_MAX]);
/* "1.2 MB" */
const char *model_bytes_text(uint64_t bytes, char buf[MODEL_TEXT_MAX]);

/* --- comparing ----------------------------------------------------------- */

typedef struct model_diffs {
    uint64_t shown, max_shown;    /* lines */
    uint64_t n_variables, n_rows; /* that differ */
} model_diffs;

/* Both print the first differences; false after saying what failed. */
bool model_compare_tensors(const char *self, const fl_saved *a,
                           const fl_saved *b, model_diffs *d);
bool model_compare_tables(const char *self, const fl_saved *a,
                          const fl_saved *b, model_diffs *d);

#endif
