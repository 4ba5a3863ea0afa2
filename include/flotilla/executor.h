/* executor.h - running programs: alone, as replicas, as hogwild threads.
 *
 * An executor keeps compiled plans and memory between runs; a run with the
 * same program, feeds and fetches asks the system for no memory. It is used by
 * one thread at a time. Fetched tensors are views, valid until the next run of
 * the same executor.
 */
#ifndef FLOTILLA_EXECUTOR_H
#define FLOTILLA_EXECUTOR_H

#include "flotilla/scope.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fl_executor fl_executor;
typedef struct fl_compiled_program fl_compiled_program;
typedef struct fl_parallel_executor fl_parallel_executor;

typedef struct fl_feed {
    const char *name;
    fl_tensor value; /* borrowed for the run */
} fl_feed;

/* Memory of a fetched value that is the caller's own now; any thread. */
typedef struct fl_mem fl_mem;
FL_API void fl_mem_release(fl_mem *m); /* NULL is fine */

/* What a run takes and gives. */
typedef struct fl_run_args {
    uint32_t size;
    const fl_feed *feeds;
    size_t n_feeds;
    const char *const *fetches;
    size_t n_fetches;
    fl_tensor *out;  /* n_fetches; replicas: n_fetches per replica, in turn */
    fl_scope *scope; /* NULL: the current one */
    /* As many as `out` has; NULL: all are views. A large value that the run made
       is handed over instead of being looked at: its entry is to be released
       then. Of other values it is NULL. */
    fl_mem **keep;
} fl_run_args;

FL_API FL_MUST_CHECK
fl_status fl_executor_new(fl_executor **out, fl_ctx *c);
FL_API void fl_executor_free(fl_executor *e);

/* Gives back what is kept for the program of that number (fl_program_id), which
   may be gone: it will not be run again. */
FL_API void fl_executor_forget(fl_executor *e, uint64_t program_id);

/* Runs a program once with num_threads of the settings. args may be NULL. */
FL_API FL_MUST_CHECK
fl_status fl_run(fl_executor *e, fl_program *p, const fl_run_args *args);

/* --- replicas ------------------------------------------------------------ */

typedef enum fl_reduce_strategy {
    FL_REPLICA_ALL_REDUCE, /* every replica gets every summed gradient */
    FL_REPLICA_REDUCE      /* each gradient is summed by its owner replica */
} fl_reduce_strategy;

typedef enum fl_gradient_scale {
    FL_SCALE_COEFF_NUM_DEVICE, /* the mean over replicas */
    FL_SCALE_ONE,              /* the sum */
    FL_SCALE_CUSTOMIZED        /* the caller feeds <loss>@GRAD */
} fl_gradient_scale;

typedef struct fl_build_strategy {
    uint32_t size;
    fl_reduce_strategy reduce_strategy;
    fl_gradient_scale gradient_scale_strategy;
} fl_build_strategy;

typedef struct fl_exec_strategy {
    uint32_t size;
    int n_threads;  /* 0: one per replica */
    int n_replicas; /* 0: the setting cpu_num (CPU_NUM) */
} fl_exec_strategy;

/* The program for data-parallel runs; fed batches are split over the replicas
   along their rows. NULL strategies mean all defaults. loss_name may be NULL
   for a program without training. */
FL_API FL_MUST_CHECK
fl_status fl_compiled_program_new(fl_compiled_program **out, fl_program *p);
FL_API FL_MUST_CHECK
fl_status fl_compiled_program_with_data_parallel(fl_compiled_program *cp,
                                                 const char *loss_name,
                                                 const fl_build_strategy *build,
                                                 const fl_exec_strategy *exec);
FL_API void fl_compiled_program_free(fl_compiled_program *cp);
FL_API int fl_compiled_program_replicas(const fl_compiled_program *cp);

/* args->out gets one value per replica for each fetch: out[r * n_fetches +
   i]. */
FL_API FL_MUST_CHECK
fl_status fl_run_compiled(fl_executor *e, fl_compiled_program *cp,
                          const fl_run_args *args);

/* One batch per replica instead of one to split: feeds[r * n_feeds + i]. */
FL_API FL_MUST_CHECK
fl_status fl_run_compiled_each(fl_executor *e, fl_compiled_program *cp,
                               const fl_run_args *args);

/* The same in one object, as ParallelExecutor users know it. main_program
   NULL means the default one. */
FL_API FL_MUST_CHECK
fl_status fl_parallel_executor_new(fl_parallel_executor **out, fl_ctx *c,
                                   const char *loss_name,
                                   fl_program *main_program,
                                   const fl_build_strategy *build,
                                   const fl_exec_strategy *exec);
FL_API FL_MUST_CHECK
fl_status fl_parallel_executor_run(fl_parallel_executor *pe,
                                   const fl_run_args *args);
FL_API int fl_parallel_executor_replicas(const fl_parallel_executor *pe);
FL_API void fl_parallel_executor_free(fl_parallel_executor *pe);

/* --- hogwild ------------------------------------------------------------- */

/* Called by training thread `thread` for its next batch: fills feeds[0,
   n_feeds) and returns true, or returns false at the end of data. The memory
   is borrowed until the thread's next call, or longer: see holds_batches. */
typedef bool (*fl_next_batch)(void *arg, int thread, fl_feed *feeds);

/* Called after each batch of a thread with what was fetched. */
typedef void (*fl_on_batch)(void *arg, int thread, const fl_tensor *fetched);

/* Called when a thread has made its last batch, or has failed. */
typedef void (*fl_on_thread_end)(void *arg, int thread, fl_status st);

typedef struct fl_hogwild_args {
    uint32_t size;
    int n_threads;
    const char *const *feed_names;
    size_t n_feeds;
    fl_next_batch next;
    const char *const *fetches;
    size_t n_fetches;
    fl_on_batch on_batch; /* may be NULL */
    void *arg;
    bool holds_two_batches;  /* the same as holds_batches = 2 */
    fl_scope *scope;         /* NULL: the current one */
    fl_on_thread_end on_end; /* may be NULL */
    /* A batch stays valid until so many further calls of its thread; 0: 1.
       With 2 the next batch may be asked for before one is trained, where rows
       of tables come from servers, and they are on their way while the one is
       computed; with 3 the one behind it is taken, and made ready to be asked
       for, while the thread waits; with more, several small ones go together
       (mode async). */
    int holds_batches;
} fl_hogwild_args;

/* Threads train on batches of their own with shared parameters, without
   locks, until their data ends. */
FL_API FL_MUST_CHECK
fl_status fl_run_hogwild(fl_executor *e, fl_program *p,
                         const fl_hogwild_args *args);

/* --- looking inside ------------------------------------------------------ */

/* Per operator: time, calls, share, for all runs made while the setting
   "profile" was on. Text is freed with fl_text_free. */
FL_API char *fl_executor_profile(const fl_executor *e);
/* For programs (docs/formats/status.md). */
FL_API char *fl_executor_profile_json(const fl_executor *e);

/* Forgets those runs. */
FL_API void fl_executor_reset_profile(fl_executor *e);

/* The same as a Chrome trace (chrome://tracing, Perfetto). */
FL_API FL_MUST_CHECK
fl_status fl_executor_write_trace(const fl_executor *e, const char *path);

/* Puts the timelines that processes of a job have left in a folder (setting
   trace) into one file, on the clock of server 0 (docs/formats/trace.md);
   *n_processes may be NULL. */
FL_API FL_MUST_CHECK
fl_status fl_trace_merge(const char *folder, const char *path,
                         size_t *n_processes);

/* Bytes that the executor's plans keep for temporaries, and the largest sum
   of temporaries alive at one moment in the last run of the last plan. */
typedef struct fl_memory_use {
    uint32_t size;
    size_t kept_bytes, live_bytes;
} fl_memory_use;
FL_API FL_MUST_CHECK
fl_status fl_executor_memory(const fl_executor *e, fl_memory_use *out);

/* The program text after the optimise passes, for the given fetches. */
FL_API FL_MUST_CHECK
fl_status fl_executor_explain(fl_executor *e, fl_program *p,
                              const fl_run_args *args, char **text);

#ifdef __cplusplus
}
#endif
#endif
