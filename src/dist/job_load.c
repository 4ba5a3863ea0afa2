/* job_load.c - a job that begins with a saved model: servers with rows and dense
 * blocks, trainers with what they keep for themselves. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ckpt/dense.h"
#include "ckpt/load_plan.h"
#include "ckpt/remote.h"
#include "ckpt/state_rows.h"
#include "dist/job.h"
#include "flotilla/experimental/mode.h"
#include "ops/ops.h"
#include "ps/store/store_model.h"

/* What only a command reaches is brought here. */
static fl_status fetch(const fl_job *j, const char *path, char **local,
                       fl_model_version **v)
{
    fl_status st;

    FL_TRY(fl_remote_fetch(&j->ctx->conf, path, local));
    st = fl_version_open(v, *local);
    if (st)
        fl_free(*local);
    return st;
}

/* --- what goes where ------------------------------------------------------ */

/* What the program calls a variable of the model. */
static const char *name_here(const fl_match_options *o, const char *saved)
{
    size_t n = strlen(saved);

    for (size_t i = 0; i < o->n_renames; i++)
        if (!strncmp(o->renames[i], saved, n) && o->renames[i][n] == '=')
            return o->renames[i] + n + 1;
    return saved;
}

/* Has the model a table where the program has an array? */
static bool has_tables_for_arrays(const fl_manifest *m, const fl_program *p,
                                  const fl_match_options *o)
{
    for (size_t i = 0; i < m->tables.len; i++) {
        const fl_var *v = fl_block_find_var(
            fl_program_main(p), name_here(o, m->tables.data[i].name));

        if (v && !(v->flags & FL_VAR_TABLE))
            return true;
    }
    return false;
}

/* The user's program, with tables for arrays if the model has them so. */
static fl_status program_for(const fl_job *j, const fl_model_version *v,
                             const fl_match_options *o, fl_program **out)
{
    fl_program *p;

    FL_TRY(fl_program_parse(j->model->program, &fl_ops, &p));
    if (!has_tables_for_arrays(&v->manifest, p, o)) {
        *out = p;
        return FL_OK;
    }
    fl_program_free(p);
    return fl_job_user_program(j, out);
}

static bool is_strict(const fl_load_wish *w)
{
    return !w->match.n_names && !w->match.n_renames && !w->match.n_resizes &&
           !w->match.is_fresh_state && !w->params_only;
}

/* *text stays NULL in a job without a program: all that servers have is loaded. */
static fl_status make_plan(const fl_job *j, const fl_model_version *v,
                           const fl_load_wish *wish, char **text)
{
    fl_load_plan plan;
    fl_program *p;
    fl_status st;

    if (!j->model || !j->model->program) {
        if (is_strict(wish))
            return FL_OK;
        FL_FAIL(FL_ERR_UNSUPPORTED,
                "a job that was connected by hand has no program whose "
                "variables could be chosen; leave the options out");
    }
    FL_TRY(program_for(j, v, &wish->match, &p));
    st = fl_load_plan_make(&plan, p, v, wish);
    fl_program_free(p);
    FL_TRY(st);
    *text = fl_load_plan_print(&plan);
    fl_load_plan_release(&plan);
    return FL_OK;
}

/* --- a server ------------------------------------------------------------- */

/* What is wrong with the model, and what does not fit, is told now. */
fl_status fl_job_begin_with(fl_job *j, const char *path,
                            const fl_load_wish *wish)
{
    char *local, *plan = NULL;
    fl_model_version *v;
    fl_status st;

    if (j->role != FL_ROLE_SERVER && !j->dist->config.workers_serve)
        FL_FAIL(FL_ERR_INVAL,
                "model %s: this process is a trainer of the job; servers begin "
                "with a model, trainers call fl_job_load",
                path);
    FL_TRY(fetch(j, path, &local, &v));
    st = make_plan(j, v, wish, &plan);
    fl_version_close(v);
    if (st) {
        fl_free(local);
        return st;
    }
    fl_free(j->begin.path);
    fl_free(j->begin.plan);
    j->begin = (fl_job_begin){ local, plan };
    if (j->role == FL_ROLE_WORKER)
        fl_cluster_set_model(j->cluster, local, plan);
    return FL_OK;
}

/* --- a trainer ------------------------------------------------------------ */

/* Where a trainer's own variables are. */
typedef struct own_files {
    fl_model_version *version;
    fl_st_file *mine, *dense; /* mine may be NULL */
    fl_load_plan plan;
} own_files;

static fl_status open_own(own_files *f, const fl_job *j)
{
    char name[64];

    (void)snprintf(name, sizeof(name), "trainers/%d.safetensors",
                   fl_job_rank(j));
    FL_TRY(fl_version_map(f->version, FL_DENSE_FILE, &f->dense));
    if (!fl_manifest_find_file(&f->version->manifest, name))
        return FL_OK;
    return fl_version_map(f->version, name, &f->mine);
}

static void close_own(own_files *f)
{
    fl_st_close(f->mine);
    fl_st_close(f->dense);
    fl_version_close(f->version);
}

static const fl_st_tensor *find_own(const own_files *f, const char *name,
                                    const fl_st_file **in)
{
    const fl_st_tensor *t = f->mine ? fl_st_find(f->mine, name) : NULL;

    *in = t ? f->mine : f->dense;
    return t ? t : fl_st_find(f->dense, name);
}

static bool fits(const own_files *f, const fl_load_item *item,
                 const fl_tensor *to)
{
    const fl_st_file *in;
    const fl_st_tensor *t = find_own(f, item->saved, &in);

    return t && t->type == fl_st_type_of(to->dtype) &&
           (fl_shape_equal(&t->shape, &to->shape) ||
            (item->is_resized && t->shape.rank == to->shape.rank));
}

/* What this trainer is to load of its own; NULL: the variable is the servers', is
   not asked for, or was not made yet, which is not missed. */
static const fl_load_item *wanted(const fl_job *j, const own_files *f, size_t i,
                                  fl_tensor *to)
{
    const fl_job_var *v = &j->model->vars.data[i];

    if (v->is_served || !fl_scope_find(j->scope, v->name, to))
        return NULL;
    return fl_load_plan_find(&f->plan, v->name);
}

static fl_status check_own(const fl_job *j, const own_files *f)
{
    fl_str wrong = { 0 };
    fl_status st = FL_OK;
    fl_tensor to;

    for (size_t i = 0; i < j->model->vars.len; i++) {
        const fl_load_item *item = wanted(j, f, i, &to);

        if (item && !fits(f, item, &to))
            fl_str_addf(&wrong, "%s%s", wrong.len ? ", " : "", item->name);
    }
    if (wrong.len)
        st = fl_err_set(FL_ERR_INVAL,
                        "model %s lacks variables of trainers, or has them in "
                        "another type or shape: %s",
                        f->version->path, fl_str_text(&wrong));
    fl_str_release(&wrong);
    return st;
}

static fl_status copy_own(const fl_job *j, const own_files *f)
{
    for (size_t i = 0; i < j->model->vars.len; i++) {
        const fl_load_item *item;
        const fl_st_tensor *from;
        const fl_st_file *in;
        fl_tensor to;

        item = wanted(j, f, i, &to);
        if (!item)
            continue;
        from = find_own(f, item->saved, &in);
        FL_TRY(fl_dense_load(in, from, &to));
    }
    return FL_OK;
}

/* What this trainer had; one that was not there begins with what all had. */
static fl_status load_rows(const fl_job *j, const own_files *f, fl_table *t,
                           const fl_store_model *model)
{
    const char *name = fl_table_name(t);
    const fl_load_item *item = fl_load_plan_find(&f->plan, name);
    fl_state_from from = { .version = f->version,
                           .trainer = fl_job_rank(j),
                           .last = FL_SHARDS - 1 };

    if (!item || f->plan.is_fresh_state)
        return FL_OK;
    from.table = item->saved;
    if (fl_state_rows_has(&f->version->manifest, from.table, from.trainer))
        return fl_state_rows_load(t, &from);
    FL_TRY(fl_store_model_check(model, t, name, false));
    return fl_store_model_load(model, t, name, false);
}

/* Tables that this trainer updates itself: their values are the servers', which
   have loaded them. */
static fl_status load_tables(const fl_job *j, const own_files *f,
                             const char *plan)
{
    fl_store_model *model;
    fl_status st = FL_OK;

    if (!j->mode->find_table)
        return FL_OK;
    FL_TRY(fl_store_model_open(
        &model, &(fl_model_share){
                    .path = f->version->path, .plan = plan, .n_servers = 1 }));
    for (size_t i = 0; i < j->dist->tables.len && !st; i++) {
        fl_table *t = fl_job_own_table(j, j->dist->tables.data[i].name);

        if (t)
            st = load_rows(j, f, t, model);
    }
    fl_store_model_close(model);
    return st;
}

static fl_status load_own(fl_job *j, own_files *f, const char *plan)
{
    fl_status st;

    if (!plan)
        return FL_OK;
    FL_TRY(open_own(f, j));
    FL_TRY(fl_load_plan_parse(&f->plan, plan, strlen(plan)));
    st = check_own(j, f);
    if (!st)
        st = copy_own(j, f);
    if (!st)
        st = load_tables(j, f, plan);
    fl_load_plan_release(&f->plan);
    return st;
}

fl_status fl_job_load_own(fl_job *j, const char *path)
{
    own_files f = { 0 };
    char *local = NULL, *plan = NULL;
    fl_status st;

    FL_TRY(fetch(j, path, &local, &f.version));
    st = make_plan(j, f.version, &(fl_load_wish){ 0 }, &plan);
    if (!st)
        st = load_own(j, &f, plan);
    close_own(&f);
    fl_free(local);
    fl_free(plan);
    return st;
}

/* --- all of a job --------------------------------------------------------- */

static bool has_params(const fl_job *j)
{
    fl_tensor t;

    return j->dist->params.len &&
           fl_scope_find(j->scope, j->dist->params.data[0].name, &t);
}

static fl_status check_load(const fl_job *j, const char *dir)
{
    if (!dir || !*dir)
        FL_FAIL(FL_ERR_INVAL, "a model is loaded from a directory, and none "
                              "was given");
    if (j->role == FL_ROLE_SERVER)
        FL_FAIL(FL_ERR_INVAL,
                "model %s: this process is a server of the job, which begins "
                "with a model: give it to fl_fleet_init_server, or to "
                "fl_load_persistables with the server's program",
                dir);
    if (j->dist->config.server_adds && has_params(j))
        FL_FAIL(FL_ERR_INVAL,
                "model %s: in mode %s every trainer has copies of what servers "
                "hold; load before the startup programs of the trainers run",
                dir, j->mode->name);
    return FL_OK;
}

static fl_status load_servers(fl_job *j, const char *path, const char *plan)
{
    fl_pack what = { 0 };
    fl_status st;

    fl_save_join(&what, path, (fl_msg_bytes){ plan, plan ? strlen(plan) : 0 });
    fl_job_open_request(j);
    st = fl_client_load(fl_cluster_client(j->cluster),
                        (fl_msg_bytes){ what.data, what.len }, FL_WAIT);
    fl_job_close_request(j);
    fl_pack_release(&what);
    return st;
}

/* Workers that have parameters of their own load together: one of them tells the
   servers, and nobody trains before that. */
static bool load_together(const fl_job *j)
{
    return j->mode && j->mode->workers_serve;
}

static fl_status load_all(fl_job *j, own_files *f, const char *path,
                          const fl_load_wish *wish)
{
    char *plan = NULL;
    fl_status st = FL_OK;

    FL_TRY(make_plan(j, f->version, wish, &plan));
    if (!load_together(j) || !fl_job_rank(j))
        st = load_servers(j, path, plan);
    if (!st && has_params(j))
        st = fl_mode_recv_all(j);
    if (!st)
        st = load_own(j, f, plan);
    fl_free(plan);
    return !st && load_together(j) ? fl_job_barrier(j) : st;
}

fl_status fl_job_load_as(fl_job *j, const char *dir, const fl_load_wish *wish)
{
    own_files f = { 0 };
    char *path, *local = NULL;
    fl_status st;

    FL_TRY(check_load(j, dir));
    FL_TRY(fl_job_ready(j));
    FL_TRY(fl_job_full_path(dir, &path));
    st = fetch(j, path, &local, &f.version);
    if (!st) {
        st = load_all(j, &f, path, wish);
        fl_free(local);
    }
    close_own(&f);
    fl_free(path);
    return st;
}

fl_status fl_job_load(fl_job *j, const char *dir)
{
    return fl_job_load_as(j, dir, &(fl_load_wish){ 0 });
}
