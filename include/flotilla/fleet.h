/* fleet.h - a program for one machine becomes a job of many processes.
 *
 *     fl_fleet *fleet;
 *     fl_fleet_init(&fleet, ctx, NULL);              roles from the environment
 *     ... build the network ...
 *     fl_strategy_new(&s, fleet, "async");
 *     fl_fleet_distributed_optimizer(fleet, optimizer, s);
 *     fl_fleet_minimize(fleet, loss);
 *
 *     if (fl_fleet_is_server(fleet)) {
 *         fl_fleet_init_server(fleet, NULL);
 *         fl_fleet_run_server(fleet);                until the workers are done
 *     } else {
 *         fl_fleet_init_worker(fleet);
 *         fl_run(exe, fl_fleet_startup_program(fleet), NULL);
 *         ... fl_run(exe, fl_fleet_main_program(fleet), &args) ...
 *         fl_fleet_stop_worker(fleet);
 *     }
 *
 * Started by fleetrun (or with the variables below set by hand) this is a job;
 * started alone, without servers in the environment, it is a single process and
 * every call still works. After fl_fleet_minimize the default programs of the
 * context are the fleet's. init_worker may come before or after the startup
 * program, or be left out: the first run does it; stop_worker left out happens
 * when the fleet is freed, with everything applied.
 *
 * One thread, the context's.
 */
#ifndef FLOTILLA_FLEET_H
#define FLOTILLA_FLEET_H

#include "flotilla/dist.h"
#include "flotilla/optimizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fl_fleet fl_fleet;
typedef struct fl_strategy fl_strategy;

/* --- roles ---------------------------------------------------------------- */

/* A role that the user defines. Everybody in a job gives the same endpoints. */
typedef struct fl_role_args {
    uint32_t size;
    fl_role_kind role;            /* 0: a worker */
    int current_id;               /* among workers, or among servers */
    int worker_num;               /* or worker_endpoints */
    const char *worker_endpoints; /* "host:port,..."; with servers, ports may be
                                     anything */
    const char *server_endpoints; /* "host:port,..."; empty: one process */
    /* A job without servers, whose workers listen at worker_endpoints. Alone,
       with nothing else given: the environment says who this is. */
    bool is_collective;
} fl_role_args;

/* role NULL: from the environment (docs/fleet.md lists the variables):
   TRAINING_ROLE, PADDLE_PSERVERS_IP_PORT_LIST, PADDLE_TRAINERS_NUM,
   PADDLE_TRAINER_ID, POD_IP, PADDLE_PORT, PADDLE_TRAINER_ENDPOINTS, ... With
   the latter, or PADDLE_CURRENT_ENDPOINT, and without servers it is a collective
   job. A variable that is missing or contradicts another is named, with an
   example. */
FL_API FL_MUST_CHECK
fl_status fl_fleet_init(fl_fleet **out, fl_ctx *c, const fl_role_args *role);
/* Stops first. Before the context goes. NULL is fine. */
FL_API void fl_fleet_free(fl_fleet *f);

FL_API bool fl_fleet_is_worker(const fl_fleet *f);
FL_API bool fl_fleet_is_server(const fl_fleet *f);
FL_API bool fl_fleet_is_first_worker(const fl_fleet *f);
FL_API int fl_fleet_worker_index(const fl_fleet *f);
FL_API int fl_fleet_worker_num(const fl_fleet *f);
FL_API int fl_fleet_server_index(const fl_fleet *f);
FL_API int fl_fleet_server_num(const fl_fleet *f);
/* Apart by commas; "" when there are none. They live as long as the fleet. */
FL_API const char *fl_fleet_worker_endpoints(const fl_fleet *f);
FL_API const char *fl_fleet_server_endpoints(const fl_fleet *f);

/* --- strategies ----------------------------------------------------------- */

/* kind: "sync", "half_async", "async" or "geo" (the four factories, with their
   defaults), "collective" (of workers alone), or "a_sync" (DistributedStrategy:
   set a_sync and k_steps, or auto). NULL: "collective" in a job of workers
   alone, else "sync". It belongs to the fleet. */
FL_API FL_MUST_CHECK
fl_status fl_strategy_new(fl_strategy **out, fl_fleet *f, const char *kind);

/* One setting of any group, or several apart by spaces or commas:
   "min_block_size=81920". An unknown one is refused with the nearest right
   name; so is one that this kind does not use. Groups may be named:
   "program_config.min_block_size". */
FL_API FL_MUST_CHECK
fl_status fl_strategy_set(fl_strategy *s, const char *words);
/* The effective value as text; NULL for an unknown name. Lives until the next
   call. */
FL_API const char *fl_strategy_get(fl_strategy *s, const char *name);

/* By struct, as the groups are known; get fills all fields with effective
   values, set takes them all. */
typedef struct fl_program_config {
    uint32_t size;
    int64_t min_block_size;
    bool slice_var_up;
    const char *split_method; /* "hash" or "round_robin" */
    int64_t geo_sgd_need_push_nums;
    const char *gradient_weight; /* "mean", "samples" or "sum" */
} fl_program_config;

typedef struct fl_trainer_runtime_config {
    uint32_t size;
    int communicator_max_merge_var_num;
    int communicator_send_queue_size;
    bool communicator_independent_recv_thread;
    int communicator_min_send_grad_num_before_recv;
    int communicator_thread_pool_size;
    int communicator_send_wait_times;
    bool communicator_is_sgd_optimizer;
    bool prefetch;
    const char *wire_pull; /* "f32" or "bf16"; NULL: as it is */
    const char *wire_push; /* the same */
} fl_trainer_runtime_config;

typedef struct fl_server_runtime_config {
    uint32_t size;
    int server_threads; /* 0: one per core */
} fl_server_runtime_config;

FL_API FL_MUST_CHECK
fl_status fl_strategy_get_program_config(fl_strategy *s,
                                         fl_program_config *out);
FL_API FL_MUST_CHECK
fl_status fl_strategy_set_program_config(fl_strategy *s,
                                         const fl_program_config *c);
FL_API FL_MUST_CHECK
fl_status
fl_strategy_get_trainer_runtime_config(fl_strategy *s,
                                       fl_trainer_runtime_config *out);
FL_API FL_MUST_CHECK
fl_status
fl_strategy_set_trainer_runtime_config(fl_strategy *s,
                                       const fl_trainer_runtime_config *c);
FL_API FL_MUST_CHECK
fl_status fl_strategy_get_server_runtime_config(fl_strategy *s,
                                                fl_server_runtime_config *out);
FL_API FL_MUST_CHECK
fl_status
fl_strategy_set_server_runtime_config(fl_strategy *s,
                                      const fl_server_runtime_config *c);
/* For fl_compiled_program_with_data_parallel. */
FL_API FL_MUST_CHECK
fl_status fl_strategy_get_build_strategy(fl_strategy *s,
                                         fl_build_strategy *out);
FL_API FL_MUST_CHECK
fl_status fl_strategy_set_build_strategy(fl_strategy *s,
                                         const fl_build_strategy *b);
FL_API FL_MUST_CHECK
fl_status fl_strategy_get_execute_strategy(fl_strategy *s,
                                           fl_exec_strategy *out);
FL_API FL_MUST_CHECK
fl_status fl_strategy_set_execute_strategy(fl_strategy *s,
                                           const fl_exec_strategy *e);

/* Every effective value, and whether it is a default, from the environment or
   from a call. Free with fl_text_free. */
FL_API char *fl_strategy_text(fl_strategy *s);
/* The same for programs (docs/formats/status.md). */
FL_API char *fl_strategy_json(const fl_strategy *s);

/* --- the programs --------------------------------------------------------- */

/* strategy NULL: one of kind NULL. */
FL_API FL_MUST_CHECK
fl_status fl_fleet_distributed_optimizer(fl_fleet *f, fl_optimizer *o,
                                         fl_strategy *s);
/* Trains in a mode of the user's own (experimental/mode.h) instead of the strategy's, whose
   settings stay. Before minimize. */
FL_API FL_MUST_CHECK
fl_status fl_fleet_use_mode(fl_fleet *f, const char *name);
/* Backward, update, and the programs of this process; args as in
   fl_minimize_with. */
#define fl_fleet_minimize(f, loss) fl_fleet_minimize_with(f, loss, NULL)
FL_API FL_MUST_CHECK
fl_status fl_fleet_minimize_with(fl_fleet *f, fl_var *loss,
                                 const fl_backward_args *args);

/* The programs of this process, out of a pair that somebody else has minimized:
   a front end in another language. strategy NULL: one of kind NULL. */
FL_API FL_MUST_CHECK
fl_status fl_fleet_distribute(fl_fleet *f, fl_strategy *s, fl_program *main,
                              fl_program *startup);

FL_API fl_program *fl_fleet_main_program(fl_fleet *f);
FL_API fl_program *fl_fleet_startup_program(fl_fleet *f);
/* The handle of this process in the job: barriers, statistics, values on the
   servers. NULL in a single process. */
FL_API fl_job *fl_fleet_job(fl_fleet *f);
/* The transpiler behind it; NULL in a single process. */
FL_API fl_transpiler *fl_fleet_transpiler(fl_fleet *f);

/* --- the life of a job ---------------------------------------------------- */

/* model_dir NULL: first values; else a saved model, of any number of servers or of
   one process: each server takes its own rows of it, and the job goes on from
   its step. */
FL_API FL_MUST_CHECK
fl_status fl_fleet_init_server(fl_fleet *f, const char *model_dir);
FL_API FL_MUST_CHECK
fl_status fl_fleet_run_server(fl_fleet *f);
FL_API FL_MUST_CHECK
fl_status fl_fleet_init_worker(fl_fleet *f);
FL_API FL_MUST_CHECK
fl_status fl_fleet_stop_worker(fl_fleet *f);
FL_API FL_MUST_CHECK
fl_status fl_fleet_barrier_worker(fl_fleet *f);

/* Saves all of the job, as of one moment, by any worker or by all of them: see
   fl_job_save. One process saves itself. */
FL_API FL_MUST_CHECK
fl_status fl_fleet_save_persistables(fl_fleet *f, const char *dir);
/* The same of the rows that changed since the last call, on top of what that
   saved; the first one saves everything, and the log says so. See fl_save_args
   and fl_job_save_args. */
FL_API FL_MUST_CHECK
fl_status fl_fleet_save_delta(fl_fleet *f, const char *dir);
/* What predictions need, without state: fl_save_inference_model of io.h, in one
   process and in a job alike. Loads without servers. */
FL_API FL_MUST_CHECK
fl_status fl_fleet_save_inference_model(fl_fleet *f, const char *dir,
                                        const char *const *feeds,
                                        size_t n_feeds, fl_var *const *targets,
                                        size_t n_targets);
/* By one worker, before training: see fl_job_load. In a collective job by all of
   them, and it returns when all have: each has dense parameters of its own. */
FL_API FL_MUST_CHECK
fl_status fl_fleet_load_model(fl_fleet *f, const char *dir);
/* Drops rows of all tables that were not seen for so many days. */
FL_API FL_MUST_CHECK
fl_status fl_fleet_shrink(fl_fleet *f, int unseen_days, uint64_t *n_removed);

/* --- util ----------------------------------------------------------------- */

/* All workers call these with the same number of values; results are the same
   bits on all of them: folded in the order of ranks. */
typedef enum fl_reduce_kind {
    FL_REDUCE_SUM,
    FL_REDUCE_MIN,
    FL_REDUCE_MAX
} fl_reduce_kind;
FL_API FL_MUST_CHECK
fl_status fl_fleet_util_barrier(fl_fleet *f);
FL_API FL_MUST_CHECK
fl_status fl_fleet_util_all_reduce(fl_fleet *f, fl_reduce_kind kind,
                                   double *values, size_t n);
/* out has room for n values of every worker, in the order of ranks; those of a
   worker that has left are NaN. */
FL_API FL_MUST_CHECK
fl_status fl_fleet_util_all_gather(fl_fleet *f, const double *values, size_t n,
                                   double *out);
/* This worker's part of a list of files: contiguous, sizes differ by at most
   one. *out points into `files`. */
FL_API FL_MUST_CHECK
fl_status fl_fleet_util_get_file_shard(const fl_fleet *f,
                                       const char *const *files, size_t n,
                                       const char *const **out, size_t *n_out);
/* One line on standard output, by that worker alone. */
FL_API void fl_fleet_util_print_on_rank(const fl_fleet *f, int rank,
                                        const char *line);

/* --- metrics -------------------------------------------------------------- */

/* Over all workers; the inputs are what this one has. */
FL_API FL_MUST_CHECK
fl_status fl_fleet_metrics_sum(fl_fleet *f, double x, double *out);
FL_API FL_MUST_CHECK
fl_status fl_fleet_metrics_max(fl_fleet *f, double x, double *out);
FL_API FL_MUST_CHECK
fl_status fl_fleet_metrics_min(fl_fleet *f, double x, double *out);
FL_API FL_MUST_CHECK
fl_status fl_fleet_metrics_acc(fl_fleet *f, double correct, double total,
                               double *out);
FL_API FL_MUST_CHECK
fl_status fl_fleet_metrics_mae(fl_fleet *f, double abs_error, double total,
                               double *out);
FL_API FL_MUST_CHECK
fl_status fl_fleet_metrics_mse(fl_fleet *f, double square_error, double total,
                               double *out);
FL_API FL_MUST_CHECK
fl_status fl_fleet_metrics_rmse(fl_fleet *f, double square_error, double total,
                                double *out);
/* From the histograms that the operator auc keeps: 0.5 when a class is
   empty. */
FL_API FL_MUST_CHECK
fl_status fl_fleet_metrics_auc(fl_fleet *f, const double *stat_pos,
                               const double *stat_neg, size_t n, double *out);
/* Exactly, from the scores themselves: equal scores count half. */
FL_API FL_MUST_CHECK
fl_status fl_fleet_metrics_exact_auc(fl_fleet *f, const float *scores,
                                     const int64_t *labels, size_t n,
                                     double *out);

#ifdef __cplusplus
}
#endif
#endif
