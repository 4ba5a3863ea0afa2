/* data.h - ways for data to come in: feeder, reader, dataset.
 *
 *   feeder    the caller hands over samples or arrays for each step
 *   reader    generators run in threads or processes of their own and stay
 *             ahead of the training
 *   dataset   files of a format are read, parsed and cut into batches by
 *             threads that belong to no file and to no training thread
 *
 * All three give the same thing, an array of fl_feed that any run takes
 * (executor.h). What they feed is described by slots.
 */
#ifndef FLOTILLA_DATA_H
#define FLOTILLA_DATA_H

#include "flotilla/executor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- slots --------------------------------------------------------------- */

typedef enum fl_slot_kind { FL_SLOT_IDS, FL_SLOT_FLOATS } fl_slot_kind;

/* One column of the data; what else a column can be will be a kind, since
   slots come in arrays and do not grow. Ids are 64-bit and are fed as int64, bit by bit. */
typedef struct fl_slot {
    const char *name;
    fl_slot_kind kind;
    uint32_t width;  /* values that every record has; 0: any number (ragged) */
    uint64_t height; /* ids are below it; 0: any id */
} fl_slot;

/* --- feeder -------------------------------------------------------------- */

typedef struct fl_feeder fl_feeder;

/* For variables of a program made by fl_layers_data: int64 or float32, ragged
   with lod_level 1 or 2. Owner thread only. */
FL_API FL_MUST_CHECK
fl_status fl_feeder_new(fl_feeder **out, fl_program *p,
                        const char *const *names, size_t n_names);
FL_API void fl_feeder_free(fl_feeder *f);

/* Starts a batch; what the last one gave is no longer valid. */
FL_API void fl_feeder_begin(fl_feeder *f);

/* Sample by sample: each variable once, in any order, then the end. A dense
   variable takes exactly its number of values, a ragged one whole rows: [-1, 4]
   with lod_level 1 takes 4 values a row. */
FL_API FL_MUST_CHECK
fl_status fl_feeder_ids(fl_feeder *f, const char *name, const uint64_t *ids,
                        size_t n);
FL_API FL_MUST_CHECK
fl_status fl_feeder_floats(fl_feeder *f, const char *name, const float *x,
                           size_t n);

/* A sample of a variable with lod_level 2: n_lists lists behind one another,
   lens[i] rows in list i. */
FL_API FL_MUST_CHECK
fl_status fl_feeder_lists(fl_feeder *f, const char *name, fl_dtype dtype,
                          const void *data, const size_t *lens, size_t n_lists);
FL_API FL_MUST_CHECK
fl_status fl_feeder_end_sample(fl_feeder *f);

/* Or a whole column at a time. Any number type: it is converted when every
   value fits, and an error names the first that does not. Values of a dense
   array [rows, ...]; of a ragged one n_rows lists behind one another, lens[i]
   rows in list i. */
FL_API FL_MUST_CHECK
fl_status fl_feeder_dense(fl_feeder *f, const char *name, fl_dtype dtype,
                          const void *data, size_t n_rows);
FL_API FL_MUST_CHECK
fl_status fl_feeder_ragged(fl_feeder *f, const char *name, fl_dtype dtype,
                           const void *data, const size_t *lens, size_t n_rows);

/* A whole column as a tensor, with as many levels of offsets as the variable
   has. */
FL_API FL_MUST_CHECK
fl_status fl_feeder_tensor(fl_feeder *f, const char *name,
                           const fl_tensor *value);

/* The batch: one feed per name, in the order of the names, borrowed until the
   next begin. Fails when columns are missing or differ in their rows. */
FL_API FL_MUST_CHECK
fl_status fl_feeder_feeds(fl_feeder *f, const fl_feed **feeds, size_t *n_rows);

/* --- reader -------------------------------------------------------------- */

typedef struct fl_reader fl_reader;

/* Puts one sample (or, as a batch generator, one whole batch) into the feeder
   and returns FL_OK; sets *end when there is none. `worker` is the number of
   the thread or process that asks, from 0; each produces a share of its own. */
typedef fl_status (*fl_generator)(void *arg, int worker, fl_feeder *into,
                                  bool *end);

typedef enum fl_reader_workers {
    FL_READER_THREADS,
    FL_READER_PROCESSES /* forked at start; batches come by shared memory */
} fl_reader_workers;

typedef struct fl_reader_args {
    uint32_t size;
    size_t capacity;           /* batches that may wait; 0: 4 per worker */
    fl_reader_workers workers; /* default threads */
    int n_workers;             /* 0: 1 */
    bool ordered; /* batch i comes from worker i % n; else as they are done */
    size_t batch_bytes_max; /* of a process's batch; 0: 64 MB */
} fl_reader_args;

#define fl_reader_new(out, program, names, n_names, ...)                       \
    fl_reader_new_with(out, program, names, n_names,                           \
                       FL_OPTIONS(fl_reader_args, __VA_ARGS__))
FL_API FL_MUST_CHECK
fl_status fl_reader_new_with(fl_reader **out, fl_program *p,
                             const char *const *names, size_t n_names,
                             const fl_reader_args *args);

/* Stops the workers if they run. */
FL_API void fl_reader_free(fl_reader *r);

/* Where samples come from: one at a time, cut into batches of batch_size
   (drop_last leaves out a last short one), or batch by batch. */
FL_API void fl_reader_decorate_sample_generator(fl_reader *r, fl_generator fn,
                                                void *arg, size_t batch_size,
                                                bool drop_last);
FL_API void fl_reader_decorate_batch_generator(fl_reader *r, fl_generator fn,
                                               void *arg);

/* Begins an epoch; reset ends it early or after its end, so that it can be
   started again. It takes all batches back: other consumers may wait in
   fl_reader_next then (and are told), but not look into a batch. */
FL_API FL_MUST_CHECK
fl_status fl_reader_start(fl_reader *r);
FL_API void fl_reader_reset(fl_reader *r);

/* The next batch, or *feeds NULL at the end of the data. Several threads may
   ask, each with a consumer number of its own below 1024; a batch is borrowed
   until that consumer asks again. A failed generator or a dead process is an
   error that names the worker. */
FL_API FL_MUST_CHECK
fl_status fl_reader_next(fl_reader *r, int consumer, const fl_feed **feeds,
                         size_t *n_rows);

/* --- dataset ------------------------------------------------------------- */

typedef struct fl_dataset fl_dataset;

/* kind: "QueueDataset" (files stream through) or "InMemoryDataset". Belongs to
   the caller; freed before its context. One thread sets it up. */
FL_API FL_MUST_CHECK
fl_status fl_dataset_new(fl_dataset **out, fl_ctx *c, const char *kind);
FL_API void fl_dataset_free(fl_dataset *d);

/* Files, directories (all files in them, by name) and globs; none at all make a
   dataset without records, which is what a worker without files has. */
FL_API FL_MUST_CHECK
fl_status fl_dataset_set_filelist(fl_dataset *d, const char *const *paths,
                                  size_t n_paths);
FL_API void fl_dataset_set_batch_size(fl_dataset *d, size_t n); /* 32 */
FL_API void fl_dataset_set_thread(fl_dataset *d, int n);        /* reading, 1 */

/* Variables of the program in the order of the slots of a line; without names
   all that fl_layers_data has made, in their order. Ids are checked against the
   height of the tables that look them up. */
FL_API FL_MUST_CHECK
fl_status fl_dataset_set_use_var(fl_dataset *d, fl_program *p,
                                 const char *const *names, size_t n_names);

/* The same without a program. */
FL_API FL_MUST_CHECK
fl_status fl_dataset_set_slots(fl_dataset *d, const fl_slot *slots,
                               size_t n_slots);

/* NAME or NAME:key=value,key=value; fl_format_help lists them. The default is
   "multislot". A format that describes itself (a header, a column description)
   needs no slots: those of a header are there once files are set. */
FL_API FL_MUST_CHECK
fl_status fl_dataset_set_format(fl_dataset *d, const char *spec);

/* More options of the format, key=value,key=value, beside those of its text:
   split=0-80 for a share of the records, for example (docs/formats/parts.md).
   NULL: none. */
FL_API FL_MUST_CHECK
fl_status fl_dataset_set_options(fl_dataset *d, const char *options);

/* A shell command that gets the bytes of each file on its standard input and
   gives the text on its output; "cat", "" and NULL mean none. */
FL_API void fl_dataset_set_pipe_command(fl_dataset *d, const char *command);

/* A directory for binary columns: written on the first pass over a file, read
   instead of it afterwards as long as file and settings are the same. NULL:
   none. */
FL_API void fl_dataset_set_cache(fl_dataset *d, const char *directory);
FL_API void fl_dataset_set_seed(fl_dataset *d, uint64_t seed);

/* InMemoryDataset. preload starts to load and returns; wait_preload_done
   ends it and gives its error. */
FL_API FL_MUST_CHECK
fl_status fl_dataset_load_into_memory(fl_dataset *d);
FL_API FL_MUST_CHECK
fl_status fl_dataset_preload_into_memory(fl_dataset *d, int n_threads);
FL_API FL_MUST_CHECK
fl_status fl_dataset_wait_preload_done(fl_dataset *d);
FL_API FL_MUST_CHECK
fl_status fl_dataset_local_shuffle(fl_dataset *d);
/* In one process this is the local shuffle. */
FL_API FL_MUST_CHECK
fl_status fl_dataset_global_shuffle(fl_dataset *d, int n_threads);
/* Deals the values of these slots anew among the records, each slot apart. */
FL_API FL_MUST_CHECK
fl_status fl_dataset_slots_shuffle(fl_dataset *d, const char *const *slots,
                                   size_t n_slots);
FL_API void fl_dataset_release_memory(fl_dataset *d);
FL_API uint64_t fl_dataset_get_memory_data_size(const fl_dataset *d);
FL_API uint64_t fl_dataset_get_shuffle_data_size(const fl_dataset *d);
/* Bytes that the loaded records take, all told. */
FL_API uint64_t fl_dataset_memory_bytes(const fl_dataset *d);

/* What the last pass saw. */
typedef struct fl_dataset_stats {
    uint32_t size;
    uint64_t files, empty_files, lines, records, bad_lines;
    uint64_t bytes;         /* of text after decompression, or of the cache */
    uint64_t cached_files;  /* read from the cache */
    double wait_seconds;    /* all consumers together, for input */
    uint64_t skipped_lines; /* good, but without a record; not of a cache */
} fl_dataset_stats;
FL_API FL_MUST_CHECK
fl_status fl_dataset_stats_get(const fl_dataset *d, fl_dataset_stats *out);

/* Batches by hand: begin a pass, ask until *feeds is NULL, end it. Several
   threads may ask, each with its own consumer number below n_consumers; a batch
   is borrowed until that consumer asks again. */
FL_API FL_MUST_CHECK
fl_status fl_dataset_begin(fl_dataset *d, int n_consumers);
FL_API FL_MUST_CHECK
fl_status fl_dataset_next(fl_dataset *d, int consumer, const fl_feed **feeds,
                          size_t *n_rows);
FL_API void fl_dataset_end(fl_dataset *d);

/* The slots in their order, borrowed. */
FL_API const fl_slot *fl_dataset_slots(const fl_dataset *d, size_t *n_slots);

/* The formats with their options, or one of them; NULL when there is no such
   one. Free with fl_text_free. */
FL_API char *fl_format_help(const char *name);

/* --- vocabulary ---------------------------------------------------------- */

/* Counts the words of text files and writes those seen more than min_count
   times, most frequent first, as lines "word count": what the format word2vec
   numbers words by. */
typedef struct fl_vocabulary_args {
    uint32_t size;
    uint64_t min_count;
    bool keep_case; /* else A-Z become a-z, and only those are kept */
    bool unknown;   /* rare words count as <UNK>, else they are dropped */
    const char *pipe_command; /* as fl_dataset_set_pipe_command */
} fl_vocabulary_args;
#define fl_vocabulary_build(paths, n_paths, out_path, n_words, ...)            \
    fl_vocabulary_build_with(paths, n_paths, out_path, n_words,                \
                             FL_OPTIONS(fl_vocabulary_args, __VA_ARGS__))
FL_API FL_MUST_CHECK
fl_status fl_vocabulary_build_with(const char *const *paths, size_t n_paths,
                                   const char *out_path, uint64_t *n_words,
                                   const fl_vocabulary_args *args);

/* --- training ------------------------------------------------------------ */

/* Called every period_secs by a thread of its own with the fetched values of
   the newest batch; views, valid for the call. */
typedef void (*fl_fetch_handler)(void *arg, const fl_tensor *fetched,
                                 size_t n_fetches);

/* How far a pass over the data is. A line of text comes alone, the numbers of
   then with it. */
typedef struct fl_progress {
    uint32_t size;
    bool is_last;                 /* the pass is over */
    uint64_t samples, total;      /* total 0: not known */
    double seconds, last_seconds; /* now, and when the numbers came last */
    double wait_share;            /* of the training threads' time, for input */
    double loss, auc; /* of the newest batch, at the end of all; NaN: none */
    const char *text; /* fetched values, the profile; NULL: numbers alone */
    bool has_loss;    /* a loss that is NaN is the loss */
    /* In a job the numbers above are this worker's. */
    int worker, n_workers;         /* n_workers 0: it is in no job */
    double job_samples_per_second; /* of all workers; NaN: not known yet */
} fl_progress;

/* Called with the numbers about once a second and at the end, and with each
   text; by several threads, one at a time. Borrowed for the call. */
typedef void (*fl_progress_fn)(void *arg, const fl_progress *p);

/* One that writes to the FILE that its argument is: on a terminal one line that
   is written over, in a file a line every ten seconds. */
FL_API void fl_progress_to_file(void *file, const fl_progress *p);

typedef struct fl_dataset_report {
    uint32_t size;
    uint64_t samples, batches;
    double seconds;
    double wait_seconds; /* waiting for input, per thread on average */
    double loss;         /* mean over the samples; NaN without a loss */
    double auc;          /* the last value; NaN without one */
    /* A run that goes on from a saved one (setting resume) did not make this
       pass again: the numbers are those of then. */
    bool was_made_before;
} fl_dataset_report;

/* Called by the thread that trains a pass, while nothing is trained, with the
   numbers of an examination. `counts` is a scope over that of the training: its
   own variables are what the metrics have counted, from zero, the AUC's
   histograms for example. An error ends the pass. */
typedef fl_status (*fl_test_handler)(void *arg, const fl_dataset_report *r,
                                     fl_scope *counts);

/* Called by each thread behind each of its batches, with what was fed, in the
   order of the slots, and the values of `fetches`; views, valid for the call.
   False ends the pass with FL_ERR_CLOSED. */
typedef bool (*fl_batch_handler)(void *arg, int thread, const fl_feed *feeds,
                                 size_t n_rows, const fl_tensor *fetched);

typedef struct fl_dataset_run_args {
    uint32_t size;
    int n_threads; /* that train; 0: as many as the dataset reads with */
    const char *const *fetches;
    const char *const *fetch_info; /* what they are called; NULL: their names */
    size_t n_fetches;
    int print_period; /* batches of thread 0 between lines; 0: 100, -1: never */
    fl_fetch_handler fetch_handler;
    void *fetch_arg;
    double period_secs; /* 0: 60 */
    /* Shown in the progress when given: a loss and an AUC among the program's
       variables (the AUC is counted anew, from the pass's first batch), and how
       many records there are (0: not known, no time left is shown). */
    const char *loss, *auc;
    uint64_t total_records;
    fl_progress_fn on_progress; /* NULL: nobody is told, texts are logged */
    void *progress_arg;
    bool debug;      /* time per operator, as a text at the end */
    fl_scope *scope; /* NULL: the current one */
    /* Every test_every batches of this process `test` is examined with the
       program for test (fl_program_for_test), as it is then; what training
       counts stays as it is. In a job all workers examine at the same time,
       each its share: one whose data has ended waits for the others and
       examines with them. NULL and 0: never. */
    fl_dataset *test;
    uint64_t test_every;
    fl_test_handler on_test;
    void *test_arg;
    fl_batch_handler on_batch; /* NULL: nobody looks at batches */
    void *batch_arg;
    /* Slots that the program does not feed, the label of one that was pruned to
       its prediction for example, are read and left out; else they are an
       error. */
    bool skip_unused;
} fl_dataset_run_args;

/* One pass over the data with hogwild threads. infer runs the program without
   updating anything. report may be NULL. With the setting resume, passes that
   were over when the model was saved return at once, and the next one goes on
   behind the last record that was trained. A loss that is NaN or infinite ends the
   pass with FL_ERR_NUMERIC, unless the setting finite_loss is false; without
   `loss` the single numbers of fetch_list are watched, and without that what
   the program minimizes. In a job with servers a pass that trains is over when
   they have all that it learnt, and one that infers begins with the dense
   parameters that they hold then. */
#define fl_train_from_dataset(e, program, dataset, report, ...)                \
    fl_train_from_dataset_with(e, program, dataset, report,                    \
                               FL_OPTIONS(fl_dataset_run_args, __VA_ARGS__))
FL_API FL_MUST_CHECK
fl_status fl_train_from_dataset_with(fl_executor *e, fl_program *p,
                                     fl_dataset *d, fl_dataset_report *report,
                                     const fl_dataset_run_args *args);
#define fl_infer_from_dataset(e, program, dataset, report, ...)                \
    fl_infer_from_dataset_with(e, program, dataset, report,                    \
                               FL_OPTIONS(fl_dataset_run_args, __VA_ARGS__))
FL_API FL_MUST_CHECK
fl_status fl_infer_from_dataset_with(fl_executor *e, fl_program *p,
                                     fl_dataset *d, fl_dataset_report *report,
                                     const fl_dataset_run_args *args);

#ifdef __cplusplus
}
#endif
#endif
