/* job_local.c - the jobs of this user on this machine. */
#include "dist/job_key.h"

#include "base/args.h"
#include "base/json.h"
#include "ctx/ctx.h"
#include "flotilla/job.h"
#include "ps/job_file.h"

fl_status fl_local_jobs_get(fl_local_jobs **out)
{
    *out = fl_job_files_read();
    return FL_OK;
}

void fl_local_jobs_free(fl_local_jobs *l)
{
    if (!l)
        return;
    fl_vec_release(&l->all);
    fl_arena_release(&l->arena);
    fl_free(l);
}

bool fl_local_jobs_at(const fl_local_jobs *l, size_t i, fl_local_job *out)
{
    return i < l->all.len &&
           !FL_ARGS_FILL(fl_local_job, out, &l->all.data[i].job);
}

static void add_job(fl_json *j, const fl_local_job *job)
{
    fl_json_object(j, NULL);
    fl_json_text(j, "name", job->name);
    fl_json_text(j, "address", job->address);
    fl_json_text(j, "by", job->by);
    fl_json_u64(j, "process", job->process);
    fl_json_u64(j, "began", job->began);
    fl_json_text(j, "program", job->program);
    fl_json_end(j);
}

char *fl_local_jobs_json(const fl_local_jobs *l)
{
    fl_json j = { 0 };

    fl_json_object(&j, NULL);
    fl_json_array(&j, "jobs");
    for (size_t i = 0; i < l->all.len; i++)
        add_job(&j, &l->all.data[i].job);
    fl_json_end(&j);
    fl_json_end(&j);
    return fl_json_take(&j);
}

fl_status fl_job_announce(fl_ctx *c, const fl_local_job *job, char **path)
{
    fl_local_job own;
    fl_job_key key;
    fl_status st;

    FL_TRY(FL_ARGS_READ(fl_local_job, &own, job));
    FL_TRY(fl_job_key_load(&c->conf));
    fl_job_key_choose(&key, &c->conf, own.address, FL_JOB_CHANGE);
    st = fl_job_file_write(&own, fl_str_text(&key.token), path);
    fl_job_key_release(&key);
    return st;
}
