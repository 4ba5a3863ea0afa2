/* mapped.h - rows of a model from its mapped files, and over them what deltas
 * have changed since.
 *
 * A source of its own for each version (source.h); those of a version and of the
 * deltas on top of it share the mapped files. Any thread.
 */
#ifndef FL_SERVE_MAPPED_H
#define FL_SERVE_MAPPED_H

#include "ckpt/version.h"
#include "serve/source.h"

/* The versions of a chain, the newest first. */
typedef struct fl_chain {
    fl_model_version **versions;
    size_t n;
} fl_chain;

/* Where rows of whole versions are read. */
typedef enum fl_rows_home { FL_ROWS_MAPPED, FL_ROWS_COPIED } fl_rows_home;

/* Opens the tables of a chain. Its oldest version is a whole one, or, where
   `before` is not NULL, a delta to the version that `before` was made of. */
FL_MUST_CHECK
fl_status fl_mapped_open(fl_row_source **out, fl_chain chain, fl_rows_home home,
                         const fl_row_source *before);

#endif
