/* predict.h - scores from a saved model, without what trains it.
 *
 *     fl_model *m;
 *     fl_predictor *p;                        one per thread
 *     fl_tensor score;
 *
 *     fl_model_open(&m, "models/ctr");
 *     fl_predictor_new(&p, m);
 *     fl_predictor_run(p, feeds, n_feeds, &score, 1);
 *
 * A model is a directory that fl_save_inference_model has written (io.h), or one
 * of its versions. Its files are mapped: rows of tables are read where they lie,
 * by all threads and processes alike, and dense parameters are held once.
 *
 * A model may be watched (watch_ms): newer versions and deltas in its directory
 * are taken as they appear. A run uses one version from its beginning to its end,
 * and never waits for the next one. A version that does not verify, or has other
 * inputs or outputs, is told in the log, counted, and left alone.
 *
 * All records of a dataset (data.h) are scored in one call, by many threads:
 *
 *     fl_predict_dataset(m, dataset, .scores = &scores, .n_scores = &n);
 *
 * A model is for all threads, a predictor for one at a time. Link with
 * libflotilla, or with libflotilla-predict.a, which has all but the call for
 * datasets.
 */
#ifndef FLOTILLA_PREDICT_H
#define FLOTILLA_PREDICT_H

#include "flotilla/executor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fl_model fl_model;
typedef struct fl_predictor fl_predictor;

/* Where rows come from instead of the files; made by a library that has a
   network (serving.h). */
typedef struct fl_row_source fl_row_source;

typedef struct fl_model_options {
    uint32_t size;
    /* Of a model that was saved to train on: what to compute. One that was
       saved for prediction has targets of its own, and takes none. */
    const char *const *targets;
    size_t n_targets;
    uint64_t watch_ms; /* between two looks at the directory; 0: never */
    bool verify; /* compare all of it with its checksums; without, tables are
                    taken by their headers and sizes. Versions that are taken
                    later are always verified */
    bool no_optimize;    /* operators as they were saved, none fused */
    bool in_memory;      /* rows of tables are copied into memory: found sooner,
                            at the price of their size and the time to copy */
    fl_row_source *rows; /* NULL: the files'; else freed with the model */
    const char *precision; /* of products: "f32" (NULL), "bf16" or "auto", as in
                              docs/precision.md */
} fl_model_options;

#define fl_model_open(out, path, ...)                                          \
    fl_model_open_with(out, path, FL_OPTIONS(fl_model_options, __VA_ARGS__))
/* On failure rows are freed as well. */
FL_API FL_MUST_CHECK
fl_status fl_model_open_with(fl_model **out, const char *path,
                             const fl_model_options *options);

/* After the last of its predictors; NULL is fine. */
FL_API void fl_model_close(fl_model *m);

/* An input or an output: the same for as long as the model is open. Dimensions
   that a batch decides are -1. */
typedef struct fl_model_var {
    const char *name; /* borrowed from the model */
    fl_dtype dtype;
    int n_lod; /* levels of offsets; 0: dense */
    fl_shape shape;
    void *reserved[2];
} fl_model_var;
FL_API const fl_model_var *fl_model_inputs(const fl_model *m, size_t *n);
FL_API const fl_model_var *fl_model_outputs(const fl_model *m, size_t *n);

typedef struct fl_model_stats {
    uint32_t size;
    uint64_t runs, records;      /* of all predictors */
    uint64_t rows, missing_rows; /* asked for; those that had only a first
                                    value */
    uint64_t versions; /* taken since the model was opened, deltas included */
    uint64_t refused;  /* that did not verify or did not fit */
    char version[64];  /* in use, its folder's name */
} fl_model_stats;
FL_API FL_MUST_CHECK
fl_status fl_model_stats_get(fl_model *m, fl_model_stats *out);

/* Looks at the directory now, whatever watch_ms. FL_OK when there is nothing
   new; else what became of it. */
FL_API FL_MUST_CHECK
fl_status fl_model_refresh(fl_model *m);

/* --- scoring ------------------------------------------------------------- */

FL_API FL_MUST_CHECK
fl_status fl_predictor_new(fl_predictor **out, fl_model *m);
FL_API void fl_predictor_free(fl_predictor *p);

/* Scores a batch. feeds has every input once, in any order (that of
   fl_model_inputs is the fastest); out gets the outputs, as views that are valid
   until the next run. Asks the system for no memory once a batch of that size
   was seen. */
FL_API FL_MUST_CHECK
fl_status fl_predictor_run(fl_predictor *p, const fl_feed *feeds,
                           size_t n_feeds, fl_tensor *out, size_t n_out);

/* Where requests come one at a time, to look at all feeds again takes a good part
   of a run. Those that are bound are looked at once, and hold for every
   fl_predictor_run_bound: numbers and offsets are read where they lie, and the
   caller writes those of the next batch there. Their memory has to stay until
   others are bound, or the predictor is freed. Number and shape of the feeds are
   those that were bound; offsets may be others, and are checked in every run. A
   batch of another size is bound anew, which costs as much as to feed it. Runs
   with feeds of their own may come between, and so may newer versions of a model
   that is watched. When feeds do not fit, what was bound before stays. */
FL_API FL_MUST_CHECK
fl_status fl_predictor_bind(fl_predictor *p, const fl_feed *feeds,
                            size_t n_feeds);
FL_API FL_MUST_CHECK
fl_status fl_predictor_run_bound(fl_predictor *p, fl_tensor *out, size_t n_out);

/* --- a dataset -------------------------------------------------------------- */

typedef struct fl_dataset fl_dataset; /* data.h */

/* A batch that was scored; all of it is borrowed for the call. */
typedef struct fl_scored {
    uint32_t size;
    uint64_t number;      /* of the batch, from 0 */
    const fl_feed *slots; /* of the dataset, the label too, in their order */
    size_t n_slots, n_rows;
    const fl_tensor *outputs; /* of the model, in their order */
    size_t n_outputs;
    /* The caller's, of the thread that scored: NULL at first, and kept from batch
       to batch. */
    void **room;
} fl_scored;

/* What is not FL_OK ends the pass. */
typedef fl_status (*fl_scored_fn)(void *arg, const fl_scored *batch);

typedef struct fl_predict_args {
    uint32_t size;
    int n_threads; /* that score; 0: one per core */
    /* One batch at a time, in the order in which the dataset gives them: that
       of the records, where one thread reads. NULL: nobody is told. */
    fl_scored_fn take;
    /* Before that, by the thread that scored, any number at once. */
    fl_scored_fn make;
    void *arg;                   /* for both */
    void (*release)(void *room); /* at the end, of each room that is not NULL */
    /* Where it is wanted: the last number of each record in the first output, in
       the same order, freed with fl_scores_free. */
    float **scores;
    size_t *n_scores;
    /* Of n_shares processes this one scores every n_shares-th batch from `share`
       on; 0: all. */
    size_t share, n_shares;
} fl_predict_args;

/* Scores one pass over a dataset, whose slots are inputs of the model by their
   names; others are left out, and one that is missing is an error. */
#define fl_predict_dataset(m, dataset, ...)                                    \
    fl_predict_dataset_with(m, dataset,                                        \
                            FL_OPTIONS(fl_predict_args, __VA_ARGS__))
FL_API FL_MUST_CHECK
fl_status fl_predict_dataset_with(fl_model *m, fl_dataset *d,
                                  const fl_predict_args *args);
FL_API void fl_scores_free(float *scores); /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
