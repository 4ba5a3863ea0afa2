/* dataset_inside.h - what the files of the dataset share.
 *
 *   dataset.c          setting it up, the parser, passes
 *   dataset_reading.c  a pump and the wait for its end
 *   dataset_queue.c    a pass of a QueueDataset
 *   dataset_memory.c   loading, shuffling and a pass of an InMemoryDataset
 *   dataset_position.c how far a pass is, and beginning behind that
 */
#ifndef FL_DATA_DATASET_DATASET_INSIDE_H
#define FL_DATA_DATASET_DATASET_INSIDE_H

#include <stdatomic.h>

#include "base/thread.h"
#include "data/columns.h"
#include "data/dataset/dataset.h"
#include "data/dataset/memory.h"
#include "data/dataset/pump.h"
#include "data/dataset/trained.h"

#define FL_CONSUMERS_MAX 1024

typedef struct fl_reading fl_reading;
typedef struct fl_queue_pass fl_queue_pass;
typedef struct fl_memory_pass fl_memory_pass;
typedef struct fl_preload fl_preload;

/* What files are read with. */
typedef struct fl_input {
    fl_paths paths;
    bool is_listed;   /* somebody said which files there are, if only none */
    fl_schema wanted; /* n_slots 0: whatever the format has */
    fl_shape *shapes; /* of the feeds of the wanted slots, or NULL */
    char *format;
    char *options, *pipe_command, *cache; /* each may be NULL */
    uint64_t seed;
    fl_parser *parser; /* NULL: not made yet */
    bool is_stale;     /* the parser was made with other settings */
} fl_input;

/* Records in memory, with slots of their own: the files may change. */
typedef struct fl_loaded {
    fl_schema schema;
    fl_memory *memory;
} fl_loaded;

struct fl_dataset {
    bool in_memory;
    const fl_conf *conf;
    fl_input *input;
    size_t batch_size;
    int n_threads;
    uint64_t epoch;           /* passes over the files so far */
    fl_dispatcher dispatcher; /* all zeros: none */
    uint64_t dispatched_from; /* the epoch when it came */
    fl_pump_stats stats;      /* of the last one */
    atomic_uint_fast64_t waited_ns;
    uint64_t n_records; /* of a whole pass over these files; 0: not known */

    fl_loaded *loaded;   /* NULL: nothing is */
    fl_preload *preload; /* NULL: none is under way */
    bool is_canonical;   /* the order is the same for any reading threads */
    uint64_t n_shuffles, n_shuffled;

    fl_mutex mu;     /* guards the two counts */
    fl_cond left;    /* n_inside became 0 */
    int n_inside;    /* consumers that are asking */
    int n_consumers; /* 0: no pass is under way */
    /* One of the two while a pass is under way; stays while somebody is
       inside. */
    fl_queue_pass *queue;
    fl_memory_pass *walk;
    fl_trained *trained; /* of that pass */
};

/* Nothing may change under a pass or a preload; `what` was asked for. */
FL_MUST_CHECK
fl_status fl_dataset_check_idle(const fl_dataset *d, const char *what);

/* Files, threads and slots are there, and the parser is made if it is not or is
   stale. Nothing may be under way. */
FL_MUST_CHECK
fl_status fl_dataset_open_input(fl_dataset *d, const char *what, int n_threads);

/* Records are there, and nothing is under way. */
FL_MUST_CHECK
fl_status fl_dataset_check_loaded(const fl_dataset *d, const char *what);
/* Sorts them, unless their order is known by the calls so far. */
FL_MUST_CHECK
fl_status fl_dataset_make_canonical(fl_dataset *d);
void fl_dataset_shuffle_loaded(fl_dataset *d, uint64_t seed);

/* Gives the feeds of a batch the shapes of their variables. */
void fl_input_shape_feeds(const fl_input *in, fl_columns *c);

/* --- reading: one pass over the files ------------------------------------ */

typedef struct fl_reading_args {
    int n_threads;
    fl_take_rows take;
    void *arg;
    const fl_file_position *const *before; /* see fl_pump_args */
    fl_trained *trained;
} fl_reading_args;

/* Starts it with the dataset's settings as they are now. */
FL_MUST_CHECK
fl_status fl_reading_start(fl_reading **out, fl_dataset *d,
                           const fl_reading_args *a);
void fl_reading_free(fl_reading *r); /* after the wait */

/* Until all rows were taken. For one thread, once. */
FL_MUST_CHECK
fl_status fl_reading_wait(fl_reading *r);

/* Ends it soon. Any thread, also after its end. */
void fl_reading_stop(fl_reading *r);
fl_pump_stats fl_reading_stats(fl_reading *r);

/* --- passes -------------------------------------------------------------- */

/* What was trained before, by the files of the list; freed with fl_free. NULL
   when `from` is. Fails when that is of another pass, or of other files. */
FL_MUST_CHECK
fl_status fl_position_files(const fl_dataset *d, const fl_position *from,
                            const fl_file_position ***out);
/* Fails when it is of another pass over the memory, or of other records. */
FL_MUST_CHECK
fl_status fl_position_check_memory(const fl_dataset *d,
                                   const fl_position *from);

FL_MUST_CHECK
fl_status fl_queue_pass_begin(fl_dataset *d, int n_consumers,
                              const fl_position *from);
FL_MUST_CHECK
fl_status fl_queue_pass_next(fl_queue_pass *q, int consumer, fl_columns **out,
                             uint64_t *waited_ns);
/* What the consumer has; NULL: nothing. */
const fl_columns *fl_queue_pass_held(const fl_queue_pass *q, int consumer);
fl_pump_stats fl_queue_pass_stats(fl_queue_pass *q);
/* No consumer waits any longer; end then frees it and gives what it saw. */
void fl_queue_pass_close(fl_queue_pass *q);
fl_pump_stats fl_queue_pass_end(fl_queue_pass *q);

FL_MUST_CHECK
fl_status fl_memory_pass_begin(fl_dataset *d, int n_consumers,
                               const fl_position *from);
const fl_columns *fl_memory_pass_held(const fl_memory_pass *w, int consumer);
FL_MUST_CHECK
fl_status fl_memory_pass_next(fl_memory_pass *w, int consumer, fl_columns **out,
                              uint64_t *waited_ns);
void fl_memory_pass_end(fl_memory_pass *w);

/* Stops a preload and forgets what it loaded; NULL is fine. */
void fl_preload_cancel(fl_preload *p);
void fl_loaded_free(fl_loaded *l);

#endif
