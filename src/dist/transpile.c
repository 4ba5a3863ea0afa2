/* transpile.c - one program made into those of trainers and servers. Which of
 * them this process runs is said by its role. */
#include "dist/transpile.h"
#include "base/args.h"
#include "dist/mode_own.h"

/* --- making --------------------------------------------------------------- */

static const fl_mode *find_own(const fl_ctx *c, const char *name)
{
    for (size_t i = 0; i < c->modes.len; i++)
        if (!strcmp(c->modes.data[i]->name, name))
            return c->modes.data[i];
    return NULL;
}

fl_status fl_ctx_add_mode(fl_ctx *c, const fl_mode_def *def)
{
    fl_mode_def own;

    FL_TRY(FL_ARGS_READ(fl_mode_def, &own, def));
    FL_TRY(fl_err_ctx(fl_check_name(own.name), "mode"));
    if (fl_mode_find(own.name) || find_own(c, own.name))
        FL_FAIL(FL_ERR_EXISTS, "there is a mode %s already", own.name);
    fl_vec_push(&c->modes, fl_mode_own_new(&own));
    return FL_OK;
}

static fl_status refuse_mode(const fl_ctx *c, const char *name)
{
    fl_str known = { 0 };
    fl_status st;

    for (size_t i = 0; i < c->modes.len; i++)
        fl_str_addf(&known, "%s, ", c->modes.data[i]->name);
    for (size_t i = 0; i < fl_mode_count(); i++)
        if (fl_mode_is_of_jobs(fl_mode_at(i)))
            fl_str_addf(&known, "%s, ", fl_mode_at(i)->name);
    st = fl_err_set(FL_ERR_NOTFOUND,
                    "no mode of jobs is called %s; there are %.*s", name,
                    (int)known.len - 2, fl_str_text(&known));
    fl_str_release(&known);
    return st;
}

static fl_status find_mode(const fl_ctx *c, const char *name,
                           const fl_mode **out)
{
    const fl_mode *m = name ? fl_mode_find(name) : &fl_mode_sync;

    if (!m)
        m = find_own(c, name);
    if (!m || !fl_mode_is_of_jobs(m))
        return refuse_mode(c, name);
    *out = m;
    return FL_OK;
}

static fl_status check_args(const fl_ctx *c, const fl_transpile_args *a)
{
    int n = a->n_trainers ? a->n_trainers : 1;

    if (n < 1 || a->trainer_id < 0 || a->trainer_id >= n)
        FL_FAIL(FL_ERR_INVAL,
                "trainer %d of %d: ranks go from 0 to the number of trainers "
                "less one",
                a->trainer_id, n);
    if (a->role && a->role != FL_ROLE_WORKER && a->role != FL_ROLE_SERVER)
        FL_FAIL(FL_ERR_INVAL,
                "there is no role %d; use FL_ROLE_WORKER or FL_ROLE_SERVER",
                (int)a->role);
    if (c->job && (!c->job->mode || atomic_load(&c->job->is_started)))
        FL_FAIL(FL_ERR_INVAL,
                "this context has a job that has begun; use another context, "
                "or free its transpiler first");
    return FL_OK;
}

/* What making the programs is about. */
typedef struct request {
    fl_ctx *ctx;
    const fl_transpile_args *args;
    const fl_mode *mode;
    fl_endpoints net;
} request;

static bool workers_serve(const request *r)
{
    return r->args->workers_serve || r->mode->workers_serve;
}

/* Where workers serve, the addresses are theirs. */
static fl_status check_serving(const request *r)
{
    const fl_transpile_args *a = r->args;
    int n = a->n_trainers ? a->n_trainers : 1;

    if (!workers_serve(r))
        return FL_OK;
    if (a->role == FL_ROLE_SERVER)
        FL_FAIL(FL_ERR_INVAL,
                "role FL_ROLE_SERVER: in a job whose workers serve every "
                "process is a worker");
    if (r->net.servers.len != (size_t)n)
        FL_FAIL(FL_ERR_INVAL,
                "%d workers serve, and there are %zu addresses: give one per "
                "worker, in the order of their ranks",
                n, r->net.servers.len);
    return FL_OK;
}

static uint64_t bytes_of_mb(double mb)
{
    return (uint64_t)(mb * (1 << 20));
}

static fl_dist_config config_of(const request *r)
{
    const fl_conf *conf = &r->ctx->conf;

    return (fl_dist_config){
        .mode = r->mode->name,
        .servers = (const char *const *)r->net.servers.data,
        .n_servers = (int)r->net.servers.len,
        .n_trainers = r->args->n_trainers ? r->args->n_trainers : 1,
        .rank = r->args->trainer_id,
        .min_block_size = (uint64_t)conf->min_block_size,
        .slice_var_up = conf->slice_var_up,
        .round_robin = !strcmp(conf->split_method, "round_robin"),
        .server_adds = r->mode->server_adds,
        .bucket_bytes = conf->fuse_all_reduce_ops
                            ? bytes_of_mb(conf->fuse_grad_size_in_MB)
                            : 0,
        .last_bucket_bytes = bytes_of_mb(conf->last_comm_group_size_MB),
        .merge_steps =
            conf->gradient_merge ? (uint64_t)conf->gradient_merge_k_steps : 0,
        .local_steps = conf->localsgd ? (uint64_t)conf->localsgd_k_steps : 0,
        .workers_serve = workers_serve(r),
        .wire_pull = conf->wire_pull,
        .wire_push = conf->wire_push,
        .updates_alike = r->mode->workers_serve && !conf->localsgd,
    };
}

static fl_status own_programs(const request *r, fl_dist *d)
{
    if (!d->servers.len)
        FL_FAIL(FL_ERR_INVAL,
                "its passes (%s) make no programs of servers; dist_server must "
                "be among them",
                r->mode->passes);
    d->main->ctx = d->startup->ctx = r->ctx;
    for (size_t i = 0; i < d->servers.len; i++)
        d->servers.data[i].main->ctx = d->servers.data[i].startup->ctx = r->ctx;
    return FL_OK;
}

/* A difference that is added up, or a sum of all, cannot be rounded on its way
   without being lost in part. */
static fl_status check_wire(const request *r, const char *setting,
                            const char *value)
{
    if (strcmp(value, "f32") && !fl_mode_reads(r->mode, setting))
        FL_FAIL(FL_ERR_INVAL,
                "%s=%s: in this mode numbers travel as f32; set %s=f32, or "
                "train in mode sync, half_async or async",
                setting, value, setting);
    return FL_OK;
}

static fl_status distribute(const request *r, fl_dist **out,
                            fl_job_model **model)
{
    fl_ctx *c = r->ctx;
    const fl_program *main =
        r->args->program ? r->args->program : fl_ctx_pair(c).main;
    const fl_program *startup = r->args->startup_program
                                    ? r->args->startup_program
                                    : fl_ctx_pair(c).startup;
    fl_dist_config config = config_of(r);
    fl_dump_place dump;

    FL_TRY(check_wire(r, "wire_pull", c->conf.wire_pull));
    FL_TRY(check_wire(r, "wire_push", c->conf.wire_push));
    if (r->mode->check)
        FL_TRY(r->mode->check(&c->conf, main, startup));
    if (!*c->who)
        fl_ctx_set_who(c, r->args->role, r->args->trainer_id);
    dump = fl_ctx_dump_place(c, "distribute");
    FL_TRY(fl_dist_new(out, &config, main, startup, r->mode->passes, &dump));
    FL_TRY(own_programs(r, *out));
    *model = fl_job_model_new(*out, main, startup);
    return FL_OK;
}

fl_status fl_transpile_with(fl_transpiler **out, fl_ctx *c,
                            const fl_transpile_args *args)
{
    fl_transpile_args a;
    request r = { .ctx = c, .args = &a };
    fl_transpiler *t;
    fl_dist *dist = NULL;
    fl_job_model *model = NULL;
    fl_status st;

    FL_TRY(FL_ARGS_READ(fl_transpile_args, &a, args));
    FL_TRY(check_args(c, &a));
    FL_TRY(find_mode(c, a.mode, &r.mode));
    FL_TRY(fl_endpoints_open(&r.net, &c->conf, a.pservers));
    st = check_serving(&r);
    if (!st)
        st = fl_err_ctx(distribute(&r, &dist, &model), "mode %s", r.mode->name);
    if (st) {
        fl_dist_free(dist);
        fl_endpoints_close(&r.net);
        return st;
    }
    if (c->job)
        fl_job_step_aside(c->job);
    t = fl_alloc(sizeof(*t));
    t->job = fl_job_new(c, r.mode, a.role ? a.role : FL_ROLE_WORKER, &r.net,
                        dist, model);
    *out = t;
    return FL_OK;
}

void fl_transpiler_free(fl_transpiler *t)
{
    if (!t)
        return;
    fl_job_free(t->job);
    fl_free(t);
}

/* --- what it made --------------------------------------------------------- */

fl_job *fl_transpiler_job(fl_transpiler *t)
{
    return t->job;
}

fl_program *fl_transpiler_trainer(fl_transpiler *t)
{
    return t->job->dist->main;
}

fl_program *fl_transpiler_trainer_startup(fl_transpiler *t)
{
    return t->job->dist->startup;
}

static const fl_dist_server *find_server(fl_transpiler *t, const char *endpoint)
{
    int i;

    if (fl_dist_find_server(t->job->dist, endpoint, &i))
        return NULL;
    return &t->job->dist->servers.data[i];
}

fl_program *fl_transpiler_server(fl_transpiler *t, const char *endpoint)
{
    const fl_dist_server *s = find_server(t, endpoint);

    return s ? s->main : NULL;
}

fl_program *fl_transpiler_startup(fl_transpiler *t, const char *endpoint)
{
    const fl_dist_server *s = find_server(t, endpoint);

    return s ? s->startup : NULL;
}
