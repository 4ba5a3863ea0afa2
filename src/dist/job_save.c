/* job_save.c - saving a job, from one of its trainers. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/args.h"
#include "ctx/passes.h"
#include "ckpt/remote.h"
#include "dist/job.h"

/* State of rows that this trainer updates itself. */
static fl_status take_rows(const fl_job *j, fl_state_rows *out)
{
    for (size_t i = 0; i < j->dist->tables.len; i++) {
        fl_table *t = fl_job_own_table(j, j->dist->tables.data[i].name);

        if (t)
            FL_TRY(fl_state_rows_take(out, t));
    }
    return FL_OK;
}

/* What this trainer brings to a cut, whoever asked for it. */
fl_status fl_job_bring(void *arg, fl_pack *out)
{
    fl_job *j = arg;
    fl_job_own own = { .scope = j->scope, .step = fl_cluster_step(j->cluster) };
    char *position;
    fl_status st;

    FL_TRY(fl_passes_print(j->ctx->passes, &position));
    own.position = position;
    st = take_rows(j, &own.rows);
    if (!st)
        st = fl_job_model_pack(j->model, j->dist, &own, out);
    fl_state_rows_release(&own.rows);
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

fl_status fl_job_saving_of(const fl_job_save_args *args, fl_job_saving *out)
{
    fl_job_save_args a;

    FL_TRY(FL_ARGS_READ(fl_job_save_args, &a, args));
    *out = (fl_job_saving){ .keep = a.keep,
                            .kind = a.delta ? FL_SAVE_KIND_DELTA
                                            : FL_SAVE_KIND_FULL };
    return FL_OK;
}

fl_status fl_job_tell_saved(const fl_save_reply *r, fl_job_saved *out)
{
    fl_job_saved all = { .step = r->step };

    fl_msg_text(all.version, r->version);
    fl_msg_text(all.base, r->base);
    fl_msg_text(all.whole, r->whole);
    return out ? FL_ARGS_FILL(fl_job_saved, out, &all) : FL_OK;
}

static fl_status ask(fl_job *j, const char *path, const fl_job_saving *what,
                     fl_save_reply *saved)
{
    fl_save_request r = { .keep = what->keep, .kind = (uint32_t)what->kind };
    fl_pack place = { 0 };
    fl_status st;

    fl_save_join(&place, path, what->recipe);
    r.dir = (fl_msg_bytes){ place.data, place.len };
    fl_job_open_request(j);
    st = fl_cluster_save(j->cluster, &r, saved);
    fl_job_close_request(j);
    fl_pack_release(&place);
    return st;
}

fl_status fl_job_save_what(fl_job *j, const char *dir,
                           const fl_job_saving *what, fl_save_reply *saved)
{
    fl_status st;
    char *path;

    if (!dir || !*dir)
        FL_FAIL(FL_ERR_INVAL, "a job is saved to a directory, and none was "
                              "given");
    FL_TRY(fl_job_ready(j));
    FL_TRY(fl_job_full_path(dir, &path));
    st = ask(j, path, what, saved);
    fl_free(path);
    return st;
}

fl_status fl_job_save_with(fl_job *j, const char *dir,
                           const fl_job_save_args *args, fl_job_saved *saved)
{
    fl_job_saving what;
    fl_save_reply reply;

    FL_TRY(fl_job_saving_of(args, &what));
    FL_TRY(fl_job_save_what(j, dir, &what, &reply));
    return fl_job_tell_saved(&reply, saved);
}

fl_status fl_job_save(fl_job *j, const char *dir)
{
    return fl_job_save_with(j, dir, NULL, NULL);
}
