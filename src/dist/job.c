/* job.c - a job: connecting, declaring, starting and leaving. */
#include "dist/job.h"

#include <math.h>
#include <inttypes.h>

#include "base/args.h"
#include "base/log.h"
#include "dist/mode_own.h"
#include "ps/declare.h"
#include "table/table.h"

/* --- the port of a server's context --------------------------------------- */

static fl_status refuse_table(const char *table)
{
    FL_FAIL(FL_ERR_INVAL,
            "table %s: this process is a server of the job and runs the "
            "programs of a trainer; a trainer transpiles with "
            ".role = FL_ROLE_WORKER",
            table);
}

static fl_status serving_declare(fl_comm *c, const char *table,
                                 const char *settings, uint64_t seed)
{
    fl_job *j = (fl_job *)c;

    return fl_contents_add_table(&j->contents, table, settings, seed);
}

static fl_status serving_rows(fl_comm *c, fl_comm_request *r)
{
    (void)c;
    return refuse_table(r->table);
}

static fl_status serving_serve(fl_comm *c, const fl_comm_service *s)
{
    fl_job *j = (fl_job *)c;

    j->contents.service = s;
    j->contents.scope = j->scope;
    j->contents.model = j->begin.path;
    j->contents.plan = j->begin.plan;
    return fl_cluster_serve(j->cluster, &j->contents);
}

/* It is a part of the job, which goes before the context does. */
static void serving_free(fl_comm *c)
{
    (void)c;
}

static const fl_comm_data serving_data = { .pull = serving_rows,
                                           .push = serving_rows };
static const fl_comm_life serving_life = { .declare = serving_declare,
                                           .serve = serving_serve,
                                           .free = serving_free };

static fl_comm make_serving(void)
{
    return (fl_comm){ .name = "servers",
                      .data = &serving_data,
                      .life = &serving_life,
                      .has_own_deadline = true };
}

/* --- making --------------------------------------------------------------- */

static fl_job *make(fl_ctx *c, fl_role_kind role, fl_endpoints *net,
                    fl_dist *dist)
{
    fl_job *j = fl_alloc(sizeof(*j));

    j->ctx = c;
    j->scope = fl_current_scope(c);
    j->role = role;
    j->net = *net;
    j->dist = dist;
    fl_mutex_init(&j->mu);
    fl_cond_init(&j->idle);
    fl_mutex_init(&j->reports.mu);
    j->reports.rate = j->loss = j->auc = NAN;
    *net = (fl_endpoints){ 0 };
    return j;
}

static fl_cluster *make_cluster(fl_job *j, bool may_coalesce)
{
    fl_cluster *c =
        fl_cluster_new(&(fl_cluster_args){ .conf = &j->ctx->conf,
                                           .scope = j->scope,
                                           .dist = j->dist,
                                           .net = j->net.net,
                                           .may_coalesce = may_coalesce });

    fl_cluster_set_bring(c, fl_job_bring, j);
    return c;
}

fl_table *fl_job_own_table(const fl_job *j, const char *name)
{
    return j->backend && j->mode && j->mode->find_table
               ? j->mode->find_table(j->backend, name)
               : NULL;
}

static fl_comm *open_backend(fl_job *j)
{
    return j->mode->own ? fl_mode_own_open(j) : j->mode->open(j->cluster);
}

fl_job *fl_job_new(fl_ctx *c, const fl_mode *mode, fl_role_kind role,
                   fl_endpoints *net, fl_dist *dist, fl_job_model *model)
{
    fl_job *j = make(c, role, net, dist);

    j->model = model;
    j->mode = mode;
    j->serving = make_serving();
    j->cluster = make_cluster(j, true);
    if (role == FL_ROLE_WORKER) {
        j->backend = open_backend(j);
        fl_job_open_metrics(j);
    }
    j->before = c->comm;
    c->mode = mode;
    c->comm = j->backend ? j->backend : &j->serving;
    c->job = j;
    c->job_scope = j->scope;
    return j;
}

/* One that goes after a failed run has not done its work, and the others hear
   of its loss instead of taking it for done. */
static void leave(fl_job *j)
{
    if (!j->cluster || j->ctx->run_failed)
        return;
    if (fl_job_stop(j))
        FL_WARN("job", "trainer %d did not leave the job in order: %s",
                fl_job_rank(j), fl_last_error());
}

void fl_job_step_aside(fl_job *j)
{
    if (j->ctx->job != j)
        return;
    j->ctx->comm = j->before;
    j->ctx->mode = &fl_mode_local;
    j->ctx->job = NULL;
    j->ctx->job_scope = NULL;
}

void fl_job_free(fl_job *j)
{
    if (!j)
        return;
    leave(j);
    fl_job_end_reports(j);
    fl_exporter_close(j->exporter);
    fl_job_step_aside(j);
    if (j->backend)
        fl_comm_free(j->backend);
    else
        fl_cluster_free(j->cluster);
    fl_dispatch_names_free(j->dispatches);
    fl_contents_release(&j->contents);
    fl_job_programs_free(j->programs);
    fl_job_model_free(j->model);
    fl_free(j->begin.path);
    fl_free(j->begin.plan);
    fl_dist_free(j->dist);
    fl_endpoints_close(&j->net);
    fl_cond_release(&j->idle);
    fl_mutex_release(&j->mu);
    fl_mutex_release(&j->reports.mu);
    fl_free(j);
}

int fl_job_rank(const fl_job *j)
{
    return j->dist->config.rank;
}

int fl_job_n_trainers(const fl_job *j)
{
    return j->dist->config.n_trainers;
}

/* --- connecting by hand --------------------------------------------------- */

static fl_status check_args(const fl_job_args *a)
{
    int n = a->n_trainers ? a->n_trainers : 1;

    if (a->listen)
        FL_FAIL(FL_ERR_INVAL,
                "trainer %d: listen=%s is for servers, a trainer does not "
                "listen",
                a->rank, a->listen);
    if (a->model)
        FL_FAIL(FL_ERR_INVAL,
                "trainer %d: model=%s is for servers; a trainer calls "
                "fl_job_load",
                a->rank, a->model);
    if (a->rank < 0 || a->rank >= n)
        FL_FAIL(FL_ERR_INVAL,
                "trainer %d: the job has %d trainers, with ranks from 0 to %d",
                a->rank, n, n - 1);
    return FL_OK;
}

/* Without a mode nothing is pulled or pushed but by name. */
static fl_status check_wire(const char *setting, const char *value)
{
    if (strcmp(value, "f32"))
        FL_FAIL(
            FL_ERR_INVAL,
            "%s=%s: a job without a mode pulls and pushes by name, and that "
            "travels as f32; set %s=f32, or train in mode sync, half_async "
            "or async",
            setting, value, setting);
    return FL_OK;
}

fl_status fl_job_connect_with(fl_job **out, fl_ctx *c, const fl_job_args *args)
{
    fl_job_args a;
    fl_endpoints net;
    fl_status st;
    fl_err why;
    fl_job *j;

    FL_TRY(FL_ARGS_READ(fl_job_args, &a, args));
    FL_TRY(check_args(&a));
    FL_TRY(check_wire("wire_pull", c->conf.wire_pull));
    FL_TRY(check_wire("wire_push", c->conf.wire_push));
    FL_TRY(fl_endpoints_open(&net, &c->conf, a.servers));
    j = make(c, FL_ROLE_WORKER, &net,
             fl_dist_new_empty(&(fl_dist_config){
                 .servers = (const char *const *)net.servers.data,
                 .n_servers = (int)net.servers.len,
                 .n_trainers = a.n_trainers ? a.n_trainers : 1,
                 .rank = a.rank }));
    j->programs = fl_job_programs_new(c, j->net.servers.len);
    j->model = fl_job_model_new(j->dist, NULL, NULL);
    j->cluster = make_cluster(j, false);
    st = fl_cluster_connect(j->cluster);
    if (st) {
        fl_err_save(&why, st);
        fl_job_free(j);
        return fl_err_restore(&why);
    }
    fl_job_open_metrics(j);
    *out = j;
    return FL_OK;
}

/* --- declaring ------------------------------------------------------------ */

static fl_status check_declare(const fl_job *j, const char *what,
                               const char *name, size_t n_declared)
{
    if (j->mode)
        FL_FAIL(FL_ERR_INVAL,
                "%s %s: what this job has was declared by its programs", what,
                name);
    if (atomic_load(&j->is_started))
        FL_FAIL(FL_ERR_INVAL, "%s %s: it is declared after fl_job_start", what,
                name);
    if (n_declared >= FL_DECLARED_MAX)
        FL_FAIL(FL_ERR_INVAL, "%s %s is one too many: %d can be declared", what,
                name, FL_DECLARED_MAX);
    return fl_err_ctx(fl_check_name(name), "%s", what);
}

static fl_status add_table(fl_job *j, const char *name, const char *settings,
                           int *table)
{
    fl_dist *d = j->dist;
    fl_dist_table t = { 0 };
    fl_table_config config;

    FL_TRY(check_declare(j, "table", name, d->tables.len));
    if (fl_dist_find_table(d, name) >= 0)
        FL_FAIL(FL_ERR_EXISTS, "table %s is declared twice", name);
    FL_TRY(
        fl_table_config_parse(&config, name, settings, j->ctx->startup->seed));
    t.dim = config.dim;
    FL_TRY(fl_job_programs_add_table(j->programs, name, settings));
    t.name = fl_arena_strdup(&d->arena, name);
    t.settings = fl_arena_strdup(&d->arena, settings);
    fl_vec_push(&d->tables, t);
    *table = (int)d->tables.len - 1;
    return FL_OK;
}

fl_status fl_job_declare_table(fl_job *j, const char *name,
                               const char *settings, int *table)
{
    fl_status st;

    fl_lock(&j->mu);
    st = add_table(j, name, settings, table);
    fl_unlock(&j->mu);
    return st;
}

static fl_status check_dense(const fl_job *j, const char *name, size_t n)
{
    uint64_t most = (uint64_t)j->ctx->conf.max_message_bytes / sizeof(float);

    FL_TRY(check_declare(j, "parameter", name, j->dist->params.len));
    if (fl_dist_find_param(j->dist, name))
        FL_FAIL(FL_ERR_EXISTS, "parameter %s is declared twice", name);
    /* A message has a head as well. */
    if (n < 1 || n > most - 16)
        FL_FAIL(FL_ERR_INVAL,
                "parameter %s of %zu floats: it has at least one, and fits "
                "into a message (max_message_bytes is %" PRId64 ")",
                name, n, j->ctx->conf.max_message_bytes);
    return FL_OK;
}

/* A parameter that is declared by hand is one block. */
static fl_status add_dense(fl_job *j, const fl_job_block *block, int *dense)
{
    fl_dist *d = j->dist;
    fl_dist_param p = { .shape = { .rank = 1, .dim = { (int64_t)block->n } },
                        .n = block->n,
                        .first_block = d->blocks.len,
                        .n_blocks = 1 };
    fl_dist_block b = { .n_rows = block->n,
                        .n = block->n,
                        .server = fl_client_server_of_block(d->config.n_servers,
                                                            block->name) };

    FL_TRY(check_dense(j, block->name, block->n));
    FL_TRY(fl_err_ctx(
        fl_job_programs_add_block(j->programs, b.server, block, &b.number),
        "parameter %s", block->name));
    p.name = b.name = fl_arena_strdup(&d->arena, block->name);
    fl_vec_push(&d->blocks, b);
    fl_vec_push(&d->params, p);
    *dense = (int)d->params.len - 1;
    return FL_OK;
}

fl_status fl_job_declare_dense(fl_job *j, const char *name, size_t n,
                               const char *optimizer, const char *settings,
                               int *dense)
{
    fl_status st;

    fl_lock(&j->mu);
    st = add_dense(j, &(fl_job_block){ name, n, optimizer, settings }, dense);
    fl_unlock(&j->mu);
    return st;
}

fl_status fl_job_find_table(const fl_job *j, const char *name, int *table)
{
    int i = fl_dist_find_table(j->dist, name);

    if (i < 0)
        FL_FAIL(FL_ERR_NOTFOUND, "the job has no table %s", name);
    *table = i;
    return FL_OK;
}

fl_status fl_job_find_dense(const fl_job *j, const char *name, int *dense)
{
    const fl_dist_param *p = fl_dist_find_param(j->dist, name);

    if (!p)
        FL_FAIL(FL_ERR_NOTFOUND, "the job has no dense parameter %s", name);
    *dense = (int)(p - j->dist->params.data);
    return FL_OK;
}

uint32_t fl_job_table_dim(const fl_job *j, int table)
{
    bool is_there = table >= 0 && (size_t)table < j->dist->tables.len;

    return is_there ? j->dist->tables.data[table].dim : 0;
}

size_t fl_job_dense_size(const fl_job *j, int dense)
{
    bool is_there = dense >= 0 && (size_t)dense < j->dist->params.len;

    return is_there ? j->dist->params.data[dense].n : 0;
}

/* --- starting and leaving ------------------------------------------------- */

/* What was declared by hand becomes the programs of the servers, once. */
static fl_status declare(fl_job *j)
{
    const char *const *texts;

    if (atomic_load(&j->is_started))
        return FL_OK;
    if (j->programs) {
        FL_TRY(fl_job_programs_print(j->programs, &texts));
        fl_cluster_set_declarations(j->cluster, texts);
    }
    atomic_store(&j->is_started, true);
    return FL_OK;
}

fl_status fl_job_start(fl_job *j)
{
    fl_status st;

    if (j->role == FL_ROLE_SERVER)
        FL_FAIL(FL_ERR_INVAL,
                "this process is a server of the job; trainers, whose role is "
                "FL_ROLE_WORKER, start it and ask it");
    fl_lock(&j->mu);
    st = declare(j);
    fl_unlock(&j->mu);
    FL_TRY(st);
    return fl_cluster_ready(j->cluster);
}

fl_status fl_job_ready(fl_job *j)
{
    if (j->mode && !atomic_load(&j->is_started))
        return fl_job_start(j);
    if (!atomic_load(&j->is_started))
        FL_FAIL(FL_ERR_INVAL, "call fl_job_start first");
    return fl_cluster_ready(j->cluster);
}

void fl_job_open_request(fl_job *j)
{
    fl_lock(&j->mu);
    j->n_open++;
    fl_unlock(&j->mu);
}

void fl_job_close_request(fl_job *j)
{
    fl_lock(&j->mu);
    if (--j->n_open == 0)
        fl_cond_wake_all(&j->idle);
    fl_unlock(&j->mu);
}

fl_status fl_job_stop(fl_job *j)
{
    if (j->role == FL_ROLE_SERVER)
        return FL_OK;
    fl_lock(&j->mu);
    while (j->n_open)
        fl_cond_wait(&j->idle, &j->mu);
    fl_unlock(&j->mu);
    return j->backend ? j->backend->life->stop(j->backend)
                      : fl_cluster_leave(j->cluster);
}
