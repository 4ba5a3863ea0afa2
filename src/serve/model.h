/* model.h - the inside of a model, for the files of this folder.
 *
 *     model.c      opening, what counts, statistics
 *     watch.c      looking for newer versions
 *     predictor.c  runs
 *
 * An edition is put in the place of another under mu; who uses one holds a
 * reference, so the old one goes with its last run. A predictor sees by the
 * generation, without a lock, that there is another.
 */
#ifndef FL_SERVE_MODEL_H
#define FL_SERVE_MODEL_H

#include "base/thread.h"
#include "exec/runner.h"
#include "serve/binding.h"
#include "serve/edition.h"
#include "serve/frozen.h"

typedef struct fl_model_counts {
    uint64_t runs, records, rows, missing_rows;
} fl_model_counts;

struct fl_model {
    fl_edition_options options;
    fl_row_source *rows; /* handed in; NULL: the editions' own */
    fl_recipe *first;    /* inputs and outputs, for ever */
    uint64_t watch_ms;
    fl_thread *watcher;
    fl_mutex refreshing;          /* one look at a time; before mu */
    char seen[FL_EDITION_ID_MAX]; /* taken or refused; guarded by refreshing */
    bool is_blind; /* the directory cannot be read; guarded by refreshing */
    _Atomic uint64_t generation;

    fl_mutex mu;
    fl_cond changed;                /* is_closing */
    fl_edition *edition;            /* in use; guarded by mu */
    uint64_t n_versions, n_refused; /* guarded by mu */
    bool is_closing;                /* guarded by mu */
    fl_predictor *first_predictor;  /* guarded by mu */
    fl_model_counts gone;           /* of freed ones; guarded by mu */
};

struct fl_predictor {
    fl_model *model;
    fl_predictor *prev, *next; /* guarded by the model's mu */
    fl_edition *edition;       /* a reference */
    fl_recipe *recipe;         /* of the runner, a reference */
    uint64_t generation;
    fl_frozen rows;
    fl_exec_options options;
    fl_runner *runner;
    fl_binding bound;
    bool has_bound; /* the runner has what is bound */
    /* Written by the predictor's thread alone. */
    _Atomic uint64_t runs, records;
};

/* A reference to the edition in use, and its generation. */
fl_edition *fl_model_edition(fl_model *m, uint64_t *generation);

void fl_predictor_counts(const fl_predictor *p, fl_model_counts *sum);

/* The thread that looks, and its end. */
FL_MUST_CHECK
fl_status fl_model_start_watcher(fl_model *m);
void fl_model_stop_watcher(fl_model *m);

#endif
