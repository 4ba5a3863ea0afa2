/* job_save.c - saving a job, from one of its trainers. */
#include <stdlib.h>
#include <unistd.h>

#include "ctx/passes.h"
#include "ckpt/remote.h"
#include "dist/job.h"

/* What this trainer brings to a cut, whoever asked for it. */
fl_status fl_job_bring(void *arg, fl_pack *out)
{
    fl_job *j = arg;
    char *position;
    fl_status st;

    FL_TRY(fl_passes_print(j->ctx->passes, &position));
    st = fl_job_model_pack(j->model, j->dist, &j->ctx->scope, position, out);
    fl_free(position);
    return st;
}

fl_status fl_job_full_path(const char *dir, char **out)
{
    fl_str s = { 0 };
    char *cwd;

    if (*dir != '/' && !fl_remote_has_scheme(dir)) {
        cwd = getcwd(NULL, 0);
        if (!cwd)
            FL_FAIL(FL_ERR_IO,
                    "the working directory, which %s is relative to, cannot be "
                    "read; give a path from the root",
                    dir);
        fl_str_addf(&s, "%s/", cwd);
        free(cwd);
    }
    fl_str_add(&s, dir);
    *out = fl_str_take(&s);
    return FL_OK;
}

static fl_status ask(fl_job *j, const char *path, uint32_t keep,
                     fl_msg_bytes recipe)
{
    fl_save_request r = { .keep = keep };
    fl_pack what = { 0 };
    fl_save_reply saved;
    fl_status st;

    fl_save_join(&what, path, recipe);
    r.dir = (fl_msg_bytes){ what.data, what.len };
    fl_job_open_request(j);
    st = fl_cluster_save(j->cluster, &r, &saved);
    fl_job_close_request(j);
    fl_pack_release(&what);
    return st;
}

fl_status fl_job_save_what(fl_job *j, const char *dir, uint32_t keep,
                           fl_msg_bytes recipe)
{
    fl_status st;
    char *path;

    if (!dir || !*dir)
        FL_FAIL(FL_ERR_INVAL, "a job is saved to a directory, and none was "
                              "given");
    FL_TRY(fl_job_ready(j));
    FL_TRY(fl_job_full_path(dir, &path));
    st = ask(j, path, keep, recipe);
    fl_free(path);
    return st;
}

fl_status fl_job_save(fl_job *j, const char *dir)
{
    return fl_job_save_what(j, dir, 0, (fl_msg_bytes){ 0 });
}
