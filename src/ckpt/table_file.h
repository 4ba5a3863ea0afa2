/* table_file.h - the rows of a table in the files of a version, written from a
 * cut, searched where they lie, loaded into a table (docs/formats/model.md).
 *
 *     tables/NAME/FFFF-LLLL.safetensors    virtual shards FFFF..LLLL
 *
 * The rows of a file are in the order of the hash, one column for their keys,
 * one for their epochs and one for each field.
 */
#ifndef FL_CKPT_TABLE_FILE_H
#define FL_CKPT_TABLE_FILE_H

#include "ckpt/pace.h"
#include "ckpt/version.h"
#include "table/cut.h"
#include "table/restore.h"

/* --- writing -------------------------------------------------------------- */

typedef struct fl_table_save_options {
    fl_table_cut *cut;
    uint32_t first, last; /* virtual shards */
    int n_threads;        /* a file each; 0: one */
    bool values_only;     /* no epochs, state, statistics and candidates: what a
                         prediction needs */
    fl_pace *pace;        /* NULL: as fast as it goes */
} fl_table_save_options;

/* Writes the files and notes them and the table in m. After an error none of
   the files is there. */
FL_MUST_CHECK
fl_status fl_table_file_write(const fl_model_version *v, fl_manifest *m,
                              const fl_table_save_options *save);

/* --- loading -------------------------------------------------------------- */

typedef struct fl_table_load_options {
    uint32_t first, last; /* virtual shards that are wanted */
    int n_threads;        /* 0: one */
    bool is_verified;     /* the sums of the version have been compared */
    bool other_dim; /* values and state of another width are cut, or begin anew
                       where they have nothing */
    bool other_state; /* state that the table or the file does not have begins
                         anew or is left out */
} fl_table_load_options;

/* Whether a table of the version fits a live one; the sentence says what does
   not, and what to ask for. Nothing changes. */
FL_MUST_CHECK
fl_status fl_table_file_check(const fl_table *t, const fl_model_version *v,
                              const char *name,
                              const fl_table_load_options *load);

/* Puts the rows and candidates of the wanted shards into t, and takes the keys
   out that a delta names, then sets epoch, days and scalars. Rows that are
   there and not in the file stay. */
FL_MUST_CHECK
fl_status fl_table_file_load(fl_table *t, const fl_model_version *v,
                             const char *name,
                             const fl_table_load_options *load);

#endif
