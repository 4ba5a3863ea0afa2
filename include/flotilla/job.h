/* job.h - parameter servers, used directly: without programs and executors.
 *
 * A job is S servers and T trainers under one name. Servers hold tables of rows
 * (table.h) and dense blocks; trainers declare them, pull values and push
 * gradients. A key belongs to one of 1024 virtual shards by its hash, a shard
 * to one server, so any number of servers holds the same rows.
 *
 *     server   fl_job_serve(...)                    until the job is over
 *     trainer  fl_job_connect, fl_job_declare_table ..., fl_job_start
 *              fl_job_pull, fl_job_push, fl_job_barrier ...
 *              fl_job_close
 *
 * A push is applied exactly once, whatever happens to the connection. Every
 * wait has an end: a peer that is dead or silent is named on standard error
 * within seconds, and a call fails when the peer does not come back in time.
 * Any thread may call; calls of different threads run at once.
 */
#ifndef FLOTILLA_JOB_H
#define FLOTILLA_JOB_H

#include "flotilla/table.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- who takes part ------------------------------------------------------ */

/* Times and secrets come from the settings of the context: job, join_token,
   tls_ca, tls_cert, tls_key, local_transport, connect_timeout_ms,
   restart_timeout_ms (docs/settings.md). */
typedef struct fl_job_args {
    uint32_t size;
    const char *servers; /* "host:port,host:port", the same for everyone */
    int n_trainers;      /* how many there will be; 0: 1 */
    int rank;            /* of this server or trainer, from 0 */
    const char *listen;  /* a server's own address; NULL: servers[rank] */
} fl_job_args;

/* --- a server ------------------------------------------------------------ */

/* Serves until every trainer has left, or until a tool asks it to end. An
   error when the address is taken, when members are missing for longer than
   connect_timeout_ms, or when a trainer is lost and does not come back. */
#define fl_job_serve(ctx, ...)                                                 \
    fl_job_serve_with(ctx, FL_OPTIONS(fl_job_args, __VA_ARGS__))
FL_API FL_MUST_CHECK
fl_status fl_job_serve_with(fl_ctx *c, const fl_job_args *args);

/* --- a trainer ----------------------------------------------------------- */

typedef struct fl_job fl_job;

/* Connects to all servers; waits for them up to connect_timeout_ms. */
#define fl_job_connect(out, ctx, ...)                                          \
    fl_job_connect_with(out, ctx, FL_OPTIONS(fl_job_args, __VA_ARGS__))
FL_API FL_MUST_CHECK
fl_status fl_job_connect_with(fl_job **out, fl_ctx *c, const fl_job_args *args);

/* Leaves the job, and frees. What was pushed has been applied. */
FL_API FL_MUST_CHECK
fl_status fl_job_close(fl_job *p);

/* Tables with the settings of fl_table_new, before the start. Every
   trainer declares the same, in the same order; the number counts from 0. */
FL_API FL_MUST_CHECK
fl_status fl_job_declare_table(fl_job *p, const char *name,
                               const char *settings, int *table);

/* A dense block of n floats with an optimizer ("adam", "learning_rate=0.01"
   as fl_optimizer_new takes them). */
FL_API FL_MUST_CHECK
fl_status fl_job_declare_dense(fl_job *p, const char *name, size_t n,
                               const char *optimizer, const char *settings,
                               int *block);

/* Sends what was declared and waits until all members are there. Two trainers
   that disagree are told the first line that differs. */
FL_API FL_MUST_CHECK
fl_status fl_job_start(fl_job *p);

/* --- rows ---------------------------------------------------------------- */

/* Values of n keys into out [n, dim]; keys may repeat. */
FL_API FL_MUST_CHECK
fl_status fl_job_pull(fl_job *p, int table, const uint64_t *keys, size_t n,
                      fl_pull_kind kind, float *out);

/* As fl_table_push; returns when all servers have applied it. */
FL_API FL_MUST_CHECK
fl_status fl_job_push(fl_job *p, int table, const fl_rows *rows);

/* Several tables in one request per server. */
typedef struct fl_job_pull_item {
    int table;
    const uint64_t *keys;
    size_t n;
    fl_pull_kind kind;
    float *out;
} fl_job_pull_item;
typedef struct fl_job_push_item {
    int table;
    fl_rows rows;
} fl_job_push_item;
FL_API FL_MUST_CHECK
fl_status fl_job_pull_many(fl_job *p, const fl_job_pull_item *items, size_t n);
FL_API FL_MUST_CHECK
fl_status fl_job_push_many(fl_job *p, const fl_job_push_item *items, size_t n);

/* The same without waiting: memory is borrowed until the wait, which gives the
   result and ends the request. Every request is to be waited for, if need be
   after fl_job_close. */
typedef struct fl_job_request fl_job_request;
FL_API FL_MUST_CHECK
fl_status fl_job_pull_begin(fl_job *p, const fl_job_pull_item *items, size_t n,
                            fl_job_request **out);
FL_API FL_MUST_CHECK
fl_status fl_job_push_begin(fl_job *p, const fl_job_push_item *items, size_t n,
                            fl_job_request **out);
FL_API FL_MUST_CHECK
fl_status fl_job_wait(fl_job_request *r);

/* Overwrites values, as fl_table_assign. */
FL_API FL_MUST_CHECK
fl_status fl_job_assign(fl_job *p, int table, const uint64_t *keys, size_t n,
                        const float *values);
FL_API FL_MUST_CHECK
fl_status fl_job_clear(fl_job *p, int table);
FL_API FL_MUST_CHECK
fl_status fl_job_shrink(fl_job *p, int table, int unseen_days,
                        uint64_t *n_removed);

/* --- dense blocks -------------------------------------------------------- */

FL_API FL_MUST_CHECK
fl_status fl_job_pull_dense(fl_job *p, int block, float *out);
FL_API FL_MUST_CHECK
fl_status fl_job_push_dense(fl_job *p, int block, const float *grad);
FL_API FL_MUST_CHECK
fl_status fl_job_assign_dense(fl_job *p, int block, const float *values);

/* --- together ------------------------------------------------------------ */

/* Waits for all live trainers. Names who is missing while it waits. */
FL_API FL_MUST_CHECK
fl_status fl_job_barrier(fl_job *p);

/* Adds to the job's step and gives it. */
FL_API FL_MUST_CHECK
fl_status fl_job_step(fl_job *p, uint64_t add, uint64_t *step);

/* What this trainer is doing, for `flotilla status`; NaN: not known. */
FL_API FL_MUST_CHECK
fl_status fl_job_report(fl_job *p, const char *phase, uint64_t samples,
                        double loss, double auc);

/* Rows, memory and counters of all servers, as text. Free with fl_text_free. */
FL_API FL_MUST_CHECK
fl_status fl_job_stats(fl_job *p, char **text);

/* A hash of every row and block: equal for equal contents, whatever the number
   of servers and the order in which rows came to be. */
FL_API FL_MUST_CHECK
fl_status fl_job_hash(fl_job *p, uint64_t *hash);

/* --- looking from outside ------------------------------------------------ */

/* Members, phases and who waits for whom, as server 0 at `address` sees it. */
FL_API FL_MUST_CHECK
fl_status fl_job_status(fl_ctx *c, const char *address, char **text);
/* Asks server 0 at `address` to end the job: all servers end. */
FL_API FL_MUST_CHECK
fl_status fl_job_shutdown(fl_ctx *c, const char *address);

/* --- secrets ------------------------------------------------------------- */

/* What is needed to look at the job (the setting look_token), but neither to
   join nor to change or end it. The functions above and this one take the
   join_token from the settings, or else from the key that fleetrun keeps for
   the same user. Free with fl_text_free. */
FL_API FL_MUST_CHECK
fl_status fl_job_look_token(fl_ctx *c, const char *address, char **text);

/* Makes a random token for a job of this machine whose server 0 will be at
   `address`, and a file that only this user can read: its path is for the
   setting join_token_file, and tools of the same user find it by the address.
   Remove it when the job is over. Free the path with fl_text_free. */
FL_API FL_MUST_CHECK
fl_status fl_job_key_make(const char *address, const char *job, char **path);

#ifdef __cplusplus
}
#endif
#endif
