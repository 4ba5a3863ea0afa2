/* fleet.c - the life of a job: roles, programs, starting and leaving.
 *
 * Every call first checks whether it makes sense now, and says what should have
 * come before it. A single process goes through the same checks, so that a
 * wrong order shows where one process is easiest to look at.
 */
#include "fleet/fleet.h"
#include "ckpt/newest.h"
#include "base/args.h"

/* --- making --------------------------------------------------------------- */

static const char *get_variable(void *arg, const char *name)
{
    (void)arg;
    return getenv(name);
}

static fl_status check_context(const fl_ctx *c)
{
    if (c->fleet)
        FL_FAIL(FL_ERR_INVAL,
                "fl_fleet_init: this context has a fleet already; free it with "
                "fl_fleet_free first, or use another context");
    return FL_OK;
}

static fl_fleet *make(fl_ctx *c, const fl_fleet_role *role)
{
    fl_fleet *f = fl_alloc(sizeof(*f));

    f->ctx = c;
    f->role = *role;
    c->fleet = f;
    if (!role->is_single)
        fl_ctx_set_who(c, role->kind, role->index);
    return f;
}

fl_status fl_fleet_init_from(fl_fleet **out, fl_ctx *c, fl_env_get get,
                             void *arg)
{
    fl_fleet_role role;

    FL_TRY(check_context(c));
    FL_TRY(fl_fleet_role_of_env(&role, get, arg));
    *out = make(c, &role);
    return FL_OK;
}

fl_status fl_fleet_init(fl_fleet **out, fl_ctx *c, const fl_role_args *role)
{
    fl_role_args a;
    fl_fleet_role r;

    if (!role)
        return fl_fleet_init_from(out, c, get_variable, NULL);
    FL_TRY(FL_ARGS_READ(fl_role_args, &a, role));
    FL_TRY(check_context(c));
    if (fl_fleet_role_asks_env(&a))
        FL_TRY(fl_fleet_role_of_env_collective(&r, get_variable, NULL));
    else
        FL_TRY(fl_fleet_role_of_args(&r, &a));
    *out = make(c, &r);
    return FL_OK;
}

void fl_fleet_free(fl_fleet *f)
{
    if (!f)
        return;
    fl_transpiler_free(f->transpiler);
    f->ctx->fleet_main = f->ctx->fleet_startup = NULL;
    f->ctx->fleet = NULL;
    fl_executor_free(f->server_exe);
    for (size_t i = 0; i < f->strategies.len; i++)
        fl_strategy_free(f->strategies.data[i]);
    fl_vec_release(&f->strategies);
    fl_fleet_role_release(&f->role);
    fl_free(f->own_mode);
    fl_free(f);
}

/* --- roles ---------------------------------------------------------------- */

bool fl_fleet_is_worker(const fl_fleet *f)
{
    return f->role.kind == FL_ROLE_WORKER;
}

bool fl_fleet_is_server(const fl_fleet *f)
{
    return f->role.kind == FL_ROLE_SERVER;
}

bool fl_fleet_is_first_worker(const fl_fleet *f)
{
    return fl_fleet_is_worker(f) && f->role.index == 0;
}

int fl_fleet_worker_index(const fl_fleet *f)
{
    return fl_fleet_is_worker(f) ? f->role.index : -1;
}

int fl_fleet_worker_num(const fl_fleet *f)
{
    return f->role.n_workers;
}

int fl_fleet_server_index(const fl_fleet *f)
{
    return fl_fleet_is_server(f) ? f->role.index : -1;
}

int fl_fleet_server_num(const fl_fleet *f)
{
    return f->role.n_servers;
}

const char *fl_fleet_worker_endpoints(const fl_fleet *f)
{
    return f->role.worker_endpoints;
}

const char *fl_fleet_server_endpoints(const fl_fleet *f)
{
    return f->role.server_endpoints;
}

static const char *own_endpoint(const fl_fleet *f)
{
    return f->role.servers.data[f->role.index];
}

/* --- strategies and programs ---------------------------------------------- */

fl_status fl_strategy_new(fl_strategy **out, fl_fleet *f, const char *kind)
{
    if (!kind)
        kind = f->role.is_collective ? "collective" : "sync";
    FL_TRY(fl_strategy_make(out, &f->ctx->conf, kind));
    fl_vec_push(&f->strategies, *out);
    return FL_OK;
}

static bool has_strategy(const fl_fleet *f, const fl_strategy *s)
{
    for (size_t i = 0; i < f->strategies.len; i++)
        if (f->strategies.data[i] == s)
            return true;
    return false;
}

/* NULL: that of the job's kind. */
static fl_status take_strategy(fl_fleet *f, fl_strategy *s, const char *call)
{
    if (s && !has_strategy(f, s))
        FL_FAIL(FL_ERR_INVAL,
                "%s: the strategy belongs to another fleet; make it with "
                "fl_strategy_new of this one",
                call);
    f->strategy = s;
    return s ? FL_OK : fl_strategy_new(&f->strategy, f, NULL);
}

fl_status fl_fleet_distributed_optimizer(fl_fleet *f, fl_optimizer *o,
                                         fl_strategy *s)
{
    if (f->is_minimized)
        FL_FAIL(FL_ERR_INVAL,
                "fl_fleet_distributed_optimizer: fl_fleet_minimize has made "
                "the programs of this fleet; give the optimizer before that");
    if (!o)
        FL_FAIL(FL_ERR_INVAL,
                "fl_fleet_distributed_optimizer: there is no optimizer%s%s; "
                "make one with fl_optimizer_new first",
                *fl_last_error() ? ", and the last error was: " : "",
                fl_last_error());
    FL_TRY(take_strategy(f, s, "fl_fleet_distributed_optimizer"));
    f->optimizer = o;
    return FL_OK;
}

static fl_status check_minimize(const fl_fleet *f, const fl_var *loss)
{
    if (f->is_minimized)
        FL_FAIL(FL_ERR_INVAL,
                "fl_fleet_minimize: the programs of this fleet are made "
                "already; a job has one loss");
    if (!f->optimizer)
        FL_FAIL(FL_ERR_INVAL,
                "fl_fleet_minimize: call fl_fleet_distributed_optimizer first");
    if (!loss)
        FL_FAIL(FL_ERR_INVAL,
                "fl_fleet_minimize: there is no loss; build the network first");
    if (fl_ctx_of(loss) != f->ctx)
        FL_FAIL(FL_ERR_INVAL,
                "fl_fleet_minimize: loss %s is in a program of another context "
                "than the fleet",
                fl_var_name(loss));
    return FL_OK;
}

/* The one that is named, or that the job goes on from (setting resume). */
static fl_status begin_with_model(fl_fleet *f, const char *model_dir)
{
    const char *resume = f->ctx->conf.resume;
    fl_model_version *v = NULL;
    fl_status st;

    if (model_dir)
        return fl_job_begin_with(fl_fleet_job(f), model_dir,
                                 &(fl_load_wish){ 0 });
    if (!*resume)
        return FL_OK;
    st = fl_version_fetch_newest(&v, &f->ctx->conf, resume);
    if (st == FL_ERR_NOTFOUND)
        return FL_OK;
    if (!st)
        st = fl_job_begin_with(fl_fleet_job(f), v->path, &(fl_load_wish){ 0 });
    fl_version_close(v);
    return fl_err_ctx(st, "resume=%s", resume);
}

static fl_status distribute(fl_fleet *f, fl_program *main, fl_program *startup)
{
    bool is_worker = fl_fleet_is_worker(f);

    return fl_transpile(
        &f->transpiler, f->ctx, .role = f->role.kind,
        .trainer_id = is_worker ? f->role.index : 0,
        .pservers = f->role.is_collective ? f->role.worker_endpoints
                                          : f->role.server_endpoints,
        .workers_serve = f->role.is_collective, .n_trainers = f->role.n_workers,
        .mode = f->own_mode ? f->own_mode : f->strategy->mode->name,
        .program = main, .startup_program = startup);
}

fl_status fl_fleet_use_mode(fl_fleet *f, const char *name)
{
    if (f->is_minimized)
        FL_FAIL(FL_ERR_INVAL,
                "fl_fleet_use_mode(%s): the programs are made; call it before "
                "fl_fleet_minimize",
                name);
    fl_free(f->own_mode);
    f->own_mode = fl_strdup(name);
    return FL_OK;
}

/* Modes with servers train in collective jobs, too, whose workers serve. */
static fl_status check_mode(const fl_fleet *f, const fl_mode *mode)
{
    if (mode && mode->workers_serve && f->role.n_servers)
        FL_FAIL(FL_ERR_INVAL,
                "strategy %s is for jobs of workers alone, "
                "and this one has %d server%s; start it without --server_num, "
                "or take another strategy",
                mode->name, f->role.n_servers,
                f->role.n_servers == 1 ? "" : "s");
    return FL_OK;
}

/* One process takes the keys of a collective job as one worker of it would: to
   average its own parameters changes nothing, and merging is accumulating. */
static fl_status train_alone(const fl_fleet *f, fl_program *main,
                             const fl_program *startup)
{
    const fl_conf *conf = &f->ctx->conf;
    const fl_mode *mode = f->strategy->mode;

    if (!mode->workers_serve)
        return FL_OK;
    FL_TRY(fl_err_ctx(mode->check(conf, main, startup), "mode %s", mode->name));
    if (conf->gradient_merge && !conf->gradient_merge_avg)
        FL_FAIL(FL_ERR_UNSUPPORTED,
                "gradient_merge_configs.avg=false: a single process takes the "
                "mean of its batches; start it as a job of one worker, with "
                "fleetrun --worker_num=1, or leave it true");
    if (conf->gradient_merge)
        main->accumulate = (uint64_t)conf->gradient_merge_k_steps;
    return FL_OK;
}

/* What this process runs, out of a pair that trains. */
static fl_status make_programs(fl_fleet *f, fl_program *main,
                               fl_program *startup)
{
    FL_TRY(fl_strategy_decide(f->strategy, main, startup));
    FL_TRY(fl_strategy_apply(f->strategy));
    if (f->role.is_single)
        return train_alone(f, main, startup);
    FL_TRY(distribute(f, main, startup));
    if (fl_fleet_is_worker(f)) {
        f->ctx->fleet_main = fl_transpiler_trainer(f->transpiler);
        f->ctx->fleet_startup = fl_transpiler_trainer_startup(f->transpiler);
    }
    return f->role.is_collective ? begin_with_model(f, NULL) : FL_OK;
}

/* The operators that are appended stay when a later step fails: then there is
   no second try, and the message is that of the first. */
fl_status fl_fleet_minimize_with(fl_fleet *f, fl_var *loss,
                                 const fl_backward_args *args)
{
    const fl_mode *mode;

    FL_TRY(check_minimize(f, loss));
    FL_TRY(fl_strategy_mode_of(f->strategy, &mode));
    FL_TRY(check_mode(f, mode));
    f->is_minimized = true;
    FL_TRY(fl_minimize_with(f->optimizer, loss, args));
    return make_programs(f, loss->block->program, fl_ctx_pair(f->ctx).startup);
}

fl_status fl_fleet_distribute(fl_fleet *f, fl_strategy *s, fl_program *main,
                              fl_program *startup)
{
    const fl_mode *mode;

    if (f->is_minimized)
        FL_FAIL(FL_ERR_INVAL,
                "fl_fleet_distribute: the programs of this fleet are made "
                "already; a job has one loss");
    if (main->ctx != f->ctx || startup->ctx != f->ctx)
        FL_FAIL(FL_ERR_INVAL,
                "fl_fleet_distribute: the programs are of another context than "
                "the fleet");
    FL_TRY(take_strategy(f, s, "fl_fleet_distribute"));
    FL_TRY(fl_strategy_mode_of(f->strategy, &mode));
    FL_TRY(check_mode(f, mode));
    f->is_minimized = true;
    return make_programs(f, main, startup);
}

static bool has_programs(const fl_fleet *f)
{
    return f->is_minimized && (f->role.is_single || f->transpiler);
}

static fl_status need_programs(const fl_fleet *f, const char *call)
{
    if (!has_programs(f))
        FL_FAIL(FL_ERR_INVAL, "%s: the programs of this process are not made%s",
                call,
                f->is_minimized ? ", fl_fleet_minimize has failed"
                                : "; call fl_fleet_distributed_optimizer and "
                                  "fl_fleet_minimize first");
    return FL_OK;
}

fl_program *fl_fleet_main_program(fl_fleet *f)
{
    if (f->role.is_single)
        return fl_default_main_program(f->ctx);
    if (need_programs(f, "fl_fleet_main_program"))
        return NULL;
    return fl_fleet_is_worker(f)
               ? f->ctx->fleet_main
               : fl_transpiler_server(f->transpiler, own_endpoint(f));
}

fl_program *fl_fleet_startup_program(fl_fleet *f)
{
    if (f->role.is_single)
        return fl_default_startup_program(f->ctx);
    if (need_programs(f, "fl_fleet_startup_program"))
        return NULL;
    return fl_fleet_is_worker(f)
               ? f->ctx->fleet_startup
               : fl_transpiler_startup(f->transpiler, own_endpoint(f));
}

fl_job *fl_fleet_job(fl_fleet *f)
{
    return f->transpiler ? fl_transpiler_job(f->transpiler) : NULL;
}

fl_transpiler *fl_fleet_transpiler(fl_fleet *f)
{
    return f->transpiler;
}

/* --- a server ------------------------------------------------------------- */

static fl_status need_server(const fl_fleet *f, const char *call)
{
    if (f->role.is_single)
        FL_FAIL(FL_ERR_INVAL,
                "%s: this is a single process, without servers; start it with "
                "fleetrun --server_num=1 --worker_num=2, or set "
                "PADDLE_PSERVERS_IP_PORT_LIST, and call it where "
                "fl_fleet_is_server is true",
                call);
    if (f->role.is_collective)
        FL_FAIL(FL_ERR_INVAL,
                "%s: this is worker %d of a collective job, which has no "
                "servers: workers serve each other by themselves; leave it out",
                call, f->role.index);
    if (!fl_fleet_is_server(f))
        FL_FAIL(FL_ERR_INVAL,
                "%s: this process is worker %d; servers call it, where "
                "fl_fleet_is_server is true",
                call, f->role.index);
    return need_programs(f, call);
}

static fl_status run_in_job(fl_fleet *f, fl_program *p)
{
    return fl_run(f->server_exe, p,
                  FL_OPTIONS(fl_run_args, .scope = f->ctx->job_scope));
}

fl_status fl_fleet_init_server(fl_fleet *f, const char *model_dir)
{
    FL_TRY(need_server(f, "fl_fleet_init_server"));
    if (f->server_exe)
        FL_FAIL(FL_ERR_INVAL,
                "fl_fleet_init_server: server %d has its first values already; "
                "call fl_fleet_run_server now",
                f->role.index);
    FL_TRY(begin_with_model(f, model_dir));
    FL_TRY(fl_executor_new(&f->server_exe, f->ctx));
    return run_in_job(f, fl_fleet_startup_program(f));
}

fl_status fl_fleet_run_server(fl_fleet *f)
{
    FL_TRY(need_server(f, "fl_fleet_run_server"));
    if (!f->server_exe)
        FL_FAIL(FL_ERR_INVAL,
                "fl_fleet_run_server: server %d has no values yet; call "
                "fl_fleet_init_server first",
                f->role.index);
    if (f->has_served)
        FL_FAIL(FL_ERR_INVAL,
                "fl_fleet_run_server: server %d has served already, and its "
                "job is over; start another process for another job",
                f->role.index);
    f->has_served = true;
    return run_in_job(f, fl_fleet_main_program(f));
}

/* --- a worker ------------------------------------------------------------- */

static fl_status need_worker(const fl_fleet *f, const char *call)
{
    if (!fl_fleet_is_worker(f))
        FL_FAIL(FL_ERR_INVAL,
                "%s: this process is server %d; workers call it, where "
                "fl_fleet_is_worker is true",
                call, f->role.index);
    if (f->is_stopped)
        FL_FAIL(FL_ERR_CLOSED,
                "%s: worker %d has left the job with fl_fleet_stop_worker; "
                "call it before that",
                call, f->role.index);
    return FL_OK;
}

fl_status fl_fleet_join(fl_fleet *f, const char *call, bool *alone)
{
    *alone = f->role.is_single;
    FL_TRY(need_worker(f, call));
    if (f->role.is_single)
        return FL_OK;
    FL_TRY(need_programs(f, call));
    return fl_job_start(fl_fleet_job(f));
}

fl_status fl_fleet_init_worker(fl_fleet *f)
{
    bool alone;

    FL_TRY(need_worker(f, "fl_fleet_init_worker"));
    FL_TRY(need_programs(f, "fl_fleet_init_worker"));
    return fl_fleet_join(f, "fl_fleet_init_worker", &alone);
}

/* One that never ran anything comes to the job first: the others wait for it
   there, and it is to leave them, not to be missing. */
fl_status fl_fleet_stop_worker(fl_fleet *f)
{
    bool alone;

    if (f->is_stopped)
        return FL_OK;
    FL_TRY(need_worker(f, "fl_fleet_stop_worker"));
    FL_TRY(need_programs(f, "fl_fleet_stop_worker"));
    FL_TRY(fl_fleet_join(f, "fl_fleet_stop_worker", &alone));
    f->is_stopped = true;
    return alone ? FL_OK : fl_job_stop(fl_fleet_job(f));
}

fl_status fl_fleet_barrier_worker(fl_fleet *f)
{
    bool alone;

    FL_TRY(fl_fleet_join(f, "fl_fleet_barrier_worker", &alone));
    return alone ? FL_OK : fl_job_barrier(fl_fleet_job(f));
}
