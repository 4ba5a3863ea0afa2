/* io_job.c - calls of flotilla/io.h in a process of a job: all of the job is
 * saved and loaded, by its servers. */
#include "api/io.h"
#include "dist/job.h"

/* A job has no scope of its caller's, and is saved and loaded whole. */
static fl_status check_whole(const char *what, bool is_whole)
{
    if (!is_whole)
        FL_FAIL(FL_ERR_UNSUPPORTED,
                "a job is %s whole, with all variables: leave the options out, "
                "or do it in one process",
                what);
    return FL_OK;
}

fl_status fl_io_save_job(fl_job *j, const char *dir, fl_io_which which,
                         const fl_save_args *args)
{
    FL_TRY(check_whole("saved", which == FL_IO_ALL && !args->n_names &&
                                    !args->keep && !args->scope &&
                                    !args->delta));
    return fl_job_save(j, dir);
}

/* A server begins with a model, whose rows it takes when it serves. */
fl_status fl_io_load_job(fl_job *j, const char *dir, fl_io_which which,
                         const fl_load_args *args)
{
    FL_TRY(check_whole("loaded", which == FL_IO_ALL && !args->n_names &&
                                     !args->n_renames && !args->n_resizes &&
                                     !args->fresh_state && !args->scope &&
                                     !args->delta));
    return j->role == FL_ROLE_SERVER ? fl_job_begin_with(j, dir)
                                     : fl_job_load(j, dir);
}
