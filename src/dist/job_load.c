/* job_load.c - a job that begins with a saved model: servers with rows and dense
 * blocks, trainers with what they keep for themselves. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ckpt/dense.h"
#include "ckpt/remote.h"
#include "dist/job.h"
#include "flotilla/experimental/mode.h"

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

/* --- a server ------------------------------------------------------------- */

/* What is wrong with the model is told now, what does not fit when it serves. */
fl_status fl_job_begin_with(fl_job *j, const char *path)
{
    fl_model_version *v;
    char *local;

    if (j->role != FL_ROLE_SERVER)
        FL_FAIL(FL_ERR_INVAL,
                "model %s: this process is a trainer of the job; servers begin "
                "with a model, trainers call fl_job_load",
                path);
    FL_TRY(fetch(j, path, &local, &v));
    fl_version_close(v);
    fl_free(j->model_path);
    j->model_path = local;
    return FL_OK;
}

/* --- a trainer ------------------------------------------------------------ */

/* Where a trainer's own variables are. */
typedef struct own_files {
    fl_model_version *version;
    fl_st_file *mine, *dense; /* mine may be NULL */
} own_files;

static fl_status open_own(own_files *f, const fl_job *j, const char *path)
{
    char name[64], *local;

    (void)snprintf(name, sizeof(name), "trainers/%d.safetensors",
                   fl_job_rank(j));
    FL_TRY(fetch(j, path, &local, &f->version));
    fl_free(local);
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

/* A variable that this process has not made yet is not missed. */
static bool fits(const own_files *f, const fl_job_var *v, const fl_tensor *to)
{
    const fl_st_file *in;
    const fl_st_tensor *t = find_own(f, v->name, &in);

    return t && t->type == fl_st_type_of(to->dtype) &&
           fl_shape_equal(&t->shape, &to->shape);
}

static fl_status check_own(const fl_job *j, const own_files *f)
{
    fl_str wrong = { 0 };
    fl_status st = FL_OK;
    fl_tensor to;

    for (size_t i = 0; i < j->model->vars.len; i++) {
        const fl_job_var *v = &j->model->vars.data[i];

        if (!v->is_served && fl_scope_find(&j->ctx->scope, v->name, &to) &&
            !fits(f, v, &to))
            fl_str_addf(&wrong, "%s%s", wrong.len ? ", " : "", v->name);
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
        const fl_job_var *v = &j->model->vars.data[i];
        const fl_st_tensor *from;
        const fl_st_file *in;
        fl_tensor to;

        if (v->is_served || !fl_scope_find(&j->ctx->scope, v->name, &to))
            continue;
        from = find_own(f, v->name, &in);
        FL_TRY(fl_dense_load(in, from, &to));
    }
    return FL_OK;
}

fl_status fl_job_load_own(fl_job *j, const char *path)
{
    own_files f = { 0 };
    fl_status st = open_own(&f, j, path);

    if (!st)
        st = check_own(j, &f);
    if (!st)
        st = copy_own(j, &f);
    close_own(&f);
    return st;
}

/* --- all of a job --------------------------------------------------------- */

static bool has_params(const fl_job *j)
{
    fl_tensor t;

    return j->dist->params.len &&
           fl_scope_find(&j->ctx->scope, j->dist->params.data[0].name, &t);
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

static fl_status load_servers(fl_job *j, const char *path)
{
    fl_status st;

    fl_job_open_request(j);
    st = fl_client_load(fl_cluster_client(j->cluster), path, FL_WAIT);
    fl_job_close_request(j);
    return st;
}

fl_status fl_job_load(fl_job *j, const char *dir)
{
    fl_status st;
    char *path;

    FL_TRY(check_load(j, dir));
    FL_TRY(fl_job_ready(j));
    FL_TRY(fl_job_full_path(dir, &path));
    st = load_servers(j, path);
    if (!st && has_params(j))
        st = fl_mode_recv_all(j);
    if (!st)
        st = fl_job_load_own(j, path);
    fl_free(path);
    return st;
}
