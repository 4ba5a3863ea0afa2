/* dist.h - training on parameter servers: one program made into those of
 * trainers and servers.
 *
 * Every process builds the same network, transpiles it in the same way, and
 * says which role it has. Then
 *
 *     server    fl_run(exe, fl_transpiler_startup(t, endpoint), NULL);
 *               fl_run(exe, fl_transpiler_server(t, endpoint), NULL);
 *     trainer   fl_run(exe, fl_transpiler_trainer_startup(t), NULL);
 *               fl_run(exe, fl_transpiler_trainer(t), &args);
 *               ... batch after batch ...
 *               fl_job_stop(fl_transpiler_job(t));
 *
 * A server's second run ends when all trainers have left. A trainer connects at
 * its first run, and waits for the others there. Its programs run in every way
 * that the user's own would: alone, as replicas, as hogwild threads, from
 * datasets.
 *
 * With workers_serve nobody runs the programs of servers: trainer i listens at
 * address i from its first run on, and fl_job_stop returns when all trainers have
 * stopped, since they need its rows until then.
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

#include "flotilla/executor.h"
#include "flotilla/job.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fl_transpiler fl_transpiler;

typedef struct fl_transpile_args {
    uint32_t size;
    fl_role_kind role;    /* of this process; 0: FL_ROLE_WORKER */
    int trainer_id;       /* of this process, from 0; servers leave it 0 */
    const char *pservers; /* "host:port,host:port", the same for everyone */
    int n_trainers;       /* how many there will be; 0: 1 */
    const char *mode;     /* NULL: sync */
    fl_program *program, *startup_program; /* NULL: the default ones */
    /* There are no processes of servers: trainer i is server i of the list, too,
       in threads of its own. */
    bool workers_serve;
} fl_transpile_args;

/* The user's programs stay as they are. From now on tables and parameters of
   the context are those of the job. One job per context; one that has not begun
   makes room for the next. */
#define fl_transpile(out, ctx, ...)                                            \
    fl_transpile_with(out, ctx, FL_OPTIONS(fl_transpile_args, __VA_ARGS__))
FL_API FL_MUST_CHECK
fl_status fl_transpile_with(fl_transpiler **out, fl_ctx *c,
                            const fl_transpile_args *args);
/* Stops first; NULL is fine. The programs go with it, and the context must not
   train any more. */
FL_API void fl_transpiler_free(fl_transpiler *t);

/* The handle of this process in the job; it belongs to the transpiler. */
FL_API fl_job *fl_transpiler_job(fl_transpiler *t);

/* Programs belong to the transpiler. Any process may look at all of them, and
   runs those of its role. */
FL_API fl_program *fl_transpiler_trainer(fl_transpiler *t);
FL_API fl_program *fl_transpiler_trainer_startup(fl_transpiler *t);
/* What the server at that address runs, as it is at the time of the run: who
   changes a rate or an attribute changes the training. NULL, with the reason in
   fl_last_error, when it is no server's address. */
FL_API fl_program *fl_transpiler_server(fl_transpiler *t, const char *endpoint);
FL_API fl_program *fl_transpiler_startup(fl_transpiler *t,
                                         const char *endpoint);

#ifdef __cplusplus
}
#endif
#endif
