/* job.h - a job: servers and trainers under one name, and the handle by which
 * a trainer takes part.
 *
 * Servers hold tables of rows (table.h) and dense parameters; trainers pull
 * values and push gradients. A key belongs to one of 1024 virtual shards by its
 * hash, a shard to one server, so any number of servers holds the same rows.
 *
 * The handle comes from what made the programs of the job, with everything
 * declared (fl_transpiler_job, fl_fleet_job), or is connected by hand:
 *
 *     server   fl_job_serve(...)                    until the job is over
 *     trainer  fl_job_connect, fl_job_declare_table ..., fl_job_start
 *              fl_job_pull, fl_job_push, fl_job_barrier ...
 *              fl_job_stop, fl_job_free
 *
 * A push is applied exactly once, whatever happens to the connection. Every
 * wait has an end: a peer that is dead or silent is named in the log within
 * seconds, and a call fails when the peer does not come back in time. Any
 * thread may call; calls of different threads run at once.
 */
#ifndef FLOTILLA_JOB_H
#define FLOTILLA_JOB_H

#include "flotilla/data.h"
#include "flotilla/table.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a process of a job is. 0 stands for a worker, which trains. */
typedef enum fl_role_kind {
    FL_ROLE_WORKER = 1,
    FL_ROLE_SERVER = 2
} fl_role_kind;

/* --- who takes part ------------------------------------------------------ */

/* Times and secrets come from the settings of the context: job, join_token,
   tls_ca, tls_cert, tls_key, local_transport, connect_timeout_ms,
   restart_timeout_ms (docs/settings.md). */
typedef struct fl_job_args {
    uint32_t size;
    int n_trainers;      /* how many there will be; 0: 1 */
    int rank;            /* of this server or trainer, from 0 */
    const char *servers; /* "host:port,host:port", the same for everyone */
    const char *listen;  /* a server's own address; NULL: servers[rank] */
    const char *model; /* a server's: a saved model that it begins with, of any
                            number of servers; NULL: none */
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

/* Stops first. For a job that was connected by hand: a transpiler and a fleet
   free their own. NULL is fine. */
FL_API void fl_job_free(fl_job *j);

FL_API int fl_job_rank(const fl_job *j);
FL_API int fl_job_n_trainers(const fl_job *j);

/* Tables with the settings of fl_table_new, before the start. Every
   trainer declares the same, in the same order; the number counts from 0. */
FL_API FL_MUST_CHECK
fl_status fl_job_declare_table(fl_job *j, const char *name,
                               const char *settings, int *table);

/* A dense parameter of n floats with an optimizer ("adam",
   "learning_rate=0.01" as fl_optimizer_new takes them). */
FL_API FL_MUST_CHECK
fl_status fl_job_declare_dense(fl_job *j, const char *name, size_t n,
                               const char *optimizer, const char *settings,
                               int *dense);

/* The numbers of what was declared, here or by the programs. */
FL_API FL_MUST_CHECK
fl_status fl_job_find_table(const fl_job *j, const char *name, int *table);
FL_API FL_MUST_CHECK
fl_status fl_job_find_dense(const fl_job *j, const char *name, int *dense);

/* Floats of a row, and of a whole parameter, by number; 0 when there is none. */
FL_API uint32_t fl_job_table_dim(const fl_job *j, int table);
FL_API size_t fl_job_dense_size(const fl_job *j, int dense);

/* Sends what was declared and waits until all members are there; whatever needs
   the servers does so itself, if it comes first. Two trainers that disagree are
   told the first line that differs. Done twice is fine. */
FL_API FL_MUST_CHECK
fl_status fl_job_start(fl_job *j);

/* Everything that was computed and pushed is applied, and this trainer leaves
   the job. Waits for requests of other threads. Done twice is fine. */
FL_API FL_MUST_CHECK
fl_status fl_job_stop(fl_job *j);

/* --- rows ---------------------------------------------------------------- */

/* Values of n keys into out [n, dim]; keys may repeat. */
FL_API FL_MUST_CHECK
fl_status fl_job_pull(fl_job *j, int table, const uint64_t *keys, size_t n,
                      fl_pull_kind kind, float *out);

/* As fl_table_push; returns when all servers have applied it. */
FL_API FL_MUST_CHECK
fl_status fl_job_push(fl_job *j, int table, const fl_rows *rows);

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
fl_status fl_job_pull_many(fl_job *j, const fl_job_pull_item *items, size_t n);
FL_API FL_MUST_CHECK
fl_status fl_job_push_many(fl_job *j, const fl_job_push_item *items, size_t n);

/* The same without waiting: memory is borrowed until the wait, which gives the
   result and ends the request. Every request is to be waited for, if need be
   after fl_job_stop. */
typedef struct fl_job_request fl_job_request;
FL_API FL_MUST_CHECK
fl_status fl_job_pull_begin(fl_job_request **out, fl_job *j,
                            const fl_job_pull_item *items, size_t n);
FL_API FL_MUST_CHECK
fl_status fl_job_push_begin(fl_job_request **out, fl_job *j,
                            const fl_job_push_item *items, size_t n);
FL_API FL_MUST_CHECK
fl_status fl_job_wait(fl_job_request *r);

/* Overwrites values, as fl_table_assign. In a job with programs: by one
   trainer, before training, since the first run of the trainers' startup
   programs takes over what is there. */
FL_API FL_MUST_CHECK
fl_status fl_job_assign(fl_job *j, int table, const uint64_t *keys, size_t n,
                        const float *values);
FL_API FL_MUST_CHECK
fl_status fl_job_clear(fl_job *j, int table);
/* Refused in modes whose trainers have copies of the rows. */
FL_API FL_MUST_CHECK
fl_status fl_job_shrink(fl_job *j, int table, int unseen_days,
                        uint64_t *n_removed);

/* --- dense parameters ----------------------------------------------------- */

FL_API FL_MUST_CHECK
fl_status fl_job_pull_dense(fl_job *j, int dense, float *out);
FL_API FL_MUST_CHECK
fl_status fl_job_push_dense(fl_job *j, int dense, const float *grad);
FL_API FL_MUST_CHECK
fl_status fl_job_assign_dense(fl_job *j, int dense, const float *values);

/* --- together ------------------------------------------------------------ */

/* Waits for all live trainers. Names who is missing while it waits. */
FL_API FL_MUST_CHECK
fl_status fl_job_barrier(fl_job *j);

/* Adds to the job's step and gives it. */
FL_API FL_MUST_CHECK
fl_status fl_job_step(fl_job *j, uint64_t add, uint64_t *step);

/* --- models --------------------------------------------------------------- */

/* Saves all that the job has, of all servers and of one moment, as a version of
   the model in `dir` (docs/formats/model.md), and waits until it counts. Every
   live trainer comes to that moment behind its batch, and goes on at once; rows
   are written behind it. Called by any trainer, or by all of them: it is one
   save. After an error the model that was there stays as it was. */
FL_API FL_MUST_CHECK
fl_status fl_job_save(fl_job *j, const char *dir);

typedef struct fl_job_save_args {
    uint32_t size;
    uint32_t keep; /* versions that stay; 0: setting save_keep of server 0 */
    /* The rows that changed since the version that counts, if that is what the
       job saved last with `delta` (or to save_dir, where deltas are made); else
       all of them. Dense variables are whole. */
    bool delta;
} fl_job_save_args;

/* What became of it. */
typedef struct fl_job_saved {
    uint32_t size;
    uint64_t step; /* of the moment */
    char version[32];
    char base[32];   /* of a delta: the version that it changes; "": it is a
                        whole one */
    char whole[256]; /* why, when a delta was asked for */
} fl_job_saved;

/* The same; NULL: nobody wants to know. */
FL_API FL_MUST_CHECK
fl_status fl_job_save_with(fl_job *j, const char *dir,
                           const fl_job_save_args *args, fl_job_saved *saved);

/* Servers replace what they hold by a saved model, each by the rows of its own
   shards; it may have been saved by any number of servers, in any mode, or by
   one process. By one trainer, before the others train (a barrier tells them), in
   mode collective by all, as each has dense parameters of its own;
   the startup programs of trainers take over what is there. What does not fit
   is all named, and nothing changes. The step of the job stays: servers that
   begin with a model (fl_fleet_init_server, fl_job_args.model) go on from its
   step. */
FL_API FL_MUST_CHECK
fl_status fl_job_load(fl_job *j, const char *dir);

/* --- telling --------------------------------------------------------------- */

/* What this trainer is doing, for `flotilla status`; NaN: not known. Training
   from a dataset reports by itself. */
FL_API FL_MUST_CHECK
fl_status fl_job_report(fl_job *j, const char *phase, uint64_t samples,
                        double loss, double auc);

/* A hash of every row and parameter: equal for equal contents, whatever the
   number of servers and the order in which rows came to be. */
FL_API FL_MUST_CHECK
fl_status fl_job_hash(fl_job *j, uint64_t *hash);

/* What this trainer did so far. */
typedef struct fl_job_stats {
    uint32_t size;
    uint64_t sent_bytes, received_bytes; /* payloads of requests and replies */
    uint64_t pulls, pushes;              /* requests for rows, over servers */
    uint64_t dense_requests;             /* requests for dense parameters */
    uint64_t gradients_made, gradients_applied; /* over variables */
    double wait_seconds; /* of training threads, for the mode */
} fl_job_stats;
FL_API FL_MUST_CHECK
fl_status fl_job_get_stats(fl_job *j, fl_job_stats *out);

/* The same with rows, memory and counters of all servers, as JSON
   (docs/formats/status.md). Free with fl_text_free. */
FL_API FL_MUST_CHECK
fl_status fl_job_stats_json(fl_job *j, char **json);

/* --- looking from outside ------------------------------------------------ */

/* Members, phases and who waits for whom, as server 0 at `address` sees it:
   a picture of one moment. Where nobody listens that is said at once, with
   FL_ERR_CLOSED. Texts live as long as the picture; a number that is
   not known is NaN, or 0 where it counts. Every struct is filled up to the size
   that it begins with. */
typedef struct fl_job_status fl_job_status;
FL_API FL_MUST_CHECK
fl_status fl_job_status_get(fl_job_status **out, fl_ctx *c,
                            const char *address);
FL_API void fl_job_status_free(fl_job_status *s);

typedef struct fl_job_summary {
    uint32_t size;
    bool is_complete;          /* all members have come */
    bool is_over;              /* servers end */
    int n_members, n_here;     /* trainers and servers; that have come */
    uint64_t step;             /* of the job */
    double running_seconds;    /* since server 0 began */
    const char *waits_for;     /* "trainer 1 and server 2", who has not come */
    const char *why_over;      /* "": its trainers are done */
    uint64_t samples;          /* of all trainers */
    double samples_per_second; /* of those that are here */
    double left_seconds;       /* of this pass, for the slowest of them */
} fl_job_summary;
FL_API FL_MUST_CHECK
fl_status fl_job_status_summary(const fl_job_status *s, fl_job_summary *out);

typedef struct fl_member_status {
    uint32_t size;
    fl_role_kind role;
    int rank;
    /* "absent", "up", "down", "silent", "left" or "lost". */
    const char *state;
    double away_seconds;         /* that it is down or silent */
    const char *address, *phase; /* "": not known */
    uint32_t process, incarnation;
    uint64_t step, samples;
    double samples_per_second, loss, auc;
    double reported_seconds_ago;
    const char *waits_for;     /* "trainer 1 and trainer 4", at a barrier */
    uint64_t samples_expected; /* at the end of this pass; 0: not known */
    double left_seconds;       /* until then */
} fl_member_status;
/* Trainers by rank, then servers; false past the last one, and for a struct
   without a size. */
FL_API bool fl_job_status_member(const fl_job_status *s, size_t i,
                                 fl_member_status *out);

/* A barrier, or a gather, at which somebody waits. */
typedef struct fl_barrier_status {
    uint32_t size;
    bool is_gather;
    const char *name;
    uint64_t generation;
    double open_seconds;
    int n_came, n_expected; /* trainers */
    const char *waits_for;  /* with what is known of each who is missing */
} fl_barrier_status;
FL_API bool fl_job_status_barrier(const fl_job_status *s, size_t i,
                                  fl_barrier_status *out);

/* All of it as JSON (docs/formats/status.md). Free with fl_text_free. */
FL_API char *fl_job_status_json(const fl_job_status *s);

/* Asks server 0 at `address` to end the job: all servers end. */
FL_API FL_MUST_CHECK
fl_status fl_job_shutdown(fl_ctx *c, const char *address);

/* Asks the job whose server 0 is at `address` to save itself, as fl_job_save does,
   to a path from the root that its servers see. *version is its name in that
   directory; free it with fl_text_free. */
FL_API FL_MUST_CHECK
fl_status fl_job_save_at(fl_ctx *c, const char *address, const char *dir,
                         char **version);

/* The same as fl_job_save_with does. */
FL_API FL_MUST_CHECK
fl_status fl_job_save_at_with(fl_ctx *c, const char *address, const char *dir,
                              const fl_job_save_args *args,
                              fl_job_saved *saved);

/* --- jobs of this machine ------------------------------------------------ */

/* A job that runs here, by the note that its launcher or its server 0 keeps in
   the user's folder (docs/formats/job.md). Texts live as long as the list. */
typedef struct fl_local_job {
    uint32_t size;
    uint32_t process; /* of `by` */
    uint64_t began;   /* seconds since 1970 */
    const char *name, *address, *program;
    const char *by; /* "fleetrun", "server 0" or "worker 0" */
} fl_local_job;

/* The jobs of this user on this machine, the oldest first; notes of those that
   are no more are removed. */
typedef struct fl_local_jobs fl_local_jobs;
FL_API FL_MUST_CHECK
fl_status fl_local_jobs_get(fl_local_jobs **out);
/* False past the last one, and for a struct without a size. */
FL_API bool fl_local_jobs_at(const fl_local_jobs *l, size_t i,
                             fl_local_job *out);
/* All of it as JSON (docs/formats/job.md). Free with fl_text_free. */
FL_API char *fl_local_jobs_json(const fl_local_jobs *l);
FL_API void fl_local_jobs_free(fl_local_jobs *l); /* NULL is fine */

/* Writes a note of a job that this process starts; process and began are filled
   in. Others of the same user can look at the job by it. Remove the file *path
   when the job is over, and free the text with fl_text_free. */
FL_API FL_MUST_CHECK
fl_status fl_job_announce(fl_ctx *c, const fl_local_job *job, char **path);

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
