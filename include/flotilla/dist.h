/* dist.h - training on parameter servers: one program made into those of
 * trainers and servers.
 *
 * Every process builds the same network and transpiles it in the same way. Then
 *
 *     server    fl_run(exe, fl_transpiler_startup(t, endpoint), NULL);
 *               fl_run(exe, fl_transpiler_server(t, endpoint), NULL);
 *     trainer   fl_run(exe, fl_transpiler_trainer_startup(t), NULL);
 *               fl_run(exe, fl_transpiler_trainer(t), &args);  batch after
 * batch fl_transpiler_stop(t);
 *
 * A server's second run ends when all trainers have left. A trainer connects at
 * its first run, and waits for the others there. Its programs run in every way
 * that the user's own would: alone, as replicas, as hogwild threads, from
 * datasets.
 *
 * Modes (docs/modes.md):
 *     sync         equal to one process on the joined batches
 *     half_async   threads of a trainer meet, trainers do not
 *     async        gradients go through queues, nobody waits
 *     geo          trainers update their own copies and exchange differences
 * Their settings are among those of the context (docs/settings.md).
 */
#ifndef FLOTILLA_DIST_H
#define FLOTILLA_DIST_H

#include "flotilla/data.h"
#include "flotilla/executor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fl_transpiler fl_transpiler;

typedef struct fl_transpile_args {
    uint32_t size;
    int trainer_id;       /* of this process, from 0; servers leave it 0 */
    const char *pservers; /* "host:port,host:port", the same for everyone */
    int n_trainers;       /* how many there will be; 0: 1 */
    const char *mode;     /* NULL: sync */
    fl_program *program, *startup_program; /* NULL: the default ones */
} fl_transpile_args;

/* The user's programs stay as they are. From now on tables and parameters of
   the context are those of the job. One job per context. */
#define fl_transpile(out, ctx, ...)                                            \
    fl_transpile_with(out, ctx, FL_OPTIONS(fl_transpile_args, __VA_ARGS__))
FL_API FL_MUST_CHECK
fl_status fl_transpile_with(fl_transpiler **out, fl_ctx *c,
                            const fl_transpile_args *args);
/* Stops first; NULL is fine. The programs go with it, and the context must not
   train any more. */
FL_API void fl_transpiler_free(fl_transpiler *t);

/* They belong to the transpiler. */
FL_API fl_program *fl_transpiler_trainer(fl_transpiler *t);
FL_API fl_program *fl_transpiler_trainer_startup(fl_transpiler *t);
/* What the server at that address runs, as it is at the time of the run: who
   changes a rate or an attribute changes the training. NULL, with the reason in
   fl_last_error, when it is no server's address. */
FL_API fl_program *fl_transpiler_server(fl_transpiler *t, const char *endpoint);
FL_API fl_program *fl_transpiler_startup(fl_transpiler *t,
                                         const char *endpoint);

/* --- a trainer ------------------------------------------------------------ */

/* Connects and waits for all members, if the first run has not done it. */
FL_API FL_MUST_CHECK
fl_status fl_transpiler_start(fl_transpiler *t);

/* Everything that was computed is applied, and this trainer leaves the job. */
FL_API FL_MUST_CHECK
fl_status fl_transpiler_stop(fl_transpiler *t);

/* Waits for all live trainers. */
FL_API FL_MUST_CHECK
fl_status fl_transpiler_barrier(fl_transpiler *t);

/* Values of a table or of a dense parameter as the servers have them: rows of
   n keys into out [n, dim]; keys NULL: a dense parameter of n numbers. */
FL_API FL_MUST_CHECK
fl_status fl_transpiler_fetch(fl_transpiler *t, const char *name,
                              const uint64_t *keys, size_t n, float *out);

/* Overwrites them, by one trainer, before training: the first run of the
   trainers' startup programs takes over what is there. */
FL_API FL_MUST_CHECK
fl_status fl_transpiler_assign(fl_transpiler *t, const char *name,
                               const uint64_t *keys, size_t n,
                               const float *values);

/* A hash of everything that the servers hold, whatever their number. */
FL_API FL_MUST_CHECK
fl_status fl_transpiler_hash(fl_transpiler *t, uint64_t *hash);

/* What this trainer and the servers did so far. */
typedef struct fl_dist_stats {
    uint32_t size;
    uint64_t sent_bytes, received_bytes; /* payloads of requests and replies */
    uint64_t pulls, pushes;              /* requests for rows, over servers */
    uint64_t dense_requests;             /* requests for dense blocks */
    uint64_t gradients_made, gradients_applied; /* over variables */
    double wait_seconds; /* of training threads, for the mode */
} fl_dist_stats;
FL_API FL_MUST_CHECK
fl_status fl_transpiler_stats(fl_transpiler *t, fl_dist_stats *out);

/* What the servers say about themselves, as text. Free with fl_text_free. */
FL_API FL_MUST_CHECK
fl_status fl_transpiler_server_stats(fl_transpiler *t, char **text);

/* --- data over trainers --------------------------------------------------- */

/* Makes records of all trainers change places: afterwards every record is in
   exactly one of them, chosen at random by the seed. All trainers call it. */
FL_API FL_MUST_CHECK
fl_status fl_transpiler_global_shuffle(fl_transpiler *t, fl_dataset *d,
                                       uint64_t seed);

/* The files of the dataset are dealt by server 0 as trainers ask for more, so
   that a slow one gets less; every file once per pass over the data, by that
   name. Files of a trainer that is lost are dealt again. */
FL_API FL_MUST_CHECK
fl_status fl_transpiler_deal_files(fl_transpiler *t, fl_dataset *d,
                                   const char *pass_name);

#ifdef __cplusplus
}
#endif
#endif
