/* io_job.c - calls of flotilla/io.h in a process of a job: all of the job is
 * saved and loaded, by its servers. */
#include "api/io.h"
#include "dist/job.h"

static fl_status check_whole(const char *what, bool is_whole)
{
    if (!is_whole)
        FL_FAIL(FL_ERR_UNSUPPORTED,
                "a job is %s whole, with all variables: leave the options out, "
                "or do it in one process",
                what);
    return FL_OK;
}

/* The scope of the job is what is meant without one. */
static bool is_other(const fl_job *j, const fl_scope *s)
{
    return s && s != j->scope;
}

fl_status fl_io_save_job(fl_job *j, const char *dir, fl_io_which which,
                         const fl_save_args *args)
{
    fl_job_save_args a = { .size = sizeof(a),
                           .keep = args->keep,
                           .delta = args->delta };

    FL_TRY(check_whole("saved", which == FL_IO_ALL && !args->n_names &&
                                    !is_other(j, args->scope)));
    return fl_job_save_with(j, dir, &a, NULL);
}

/* --- for prediction ------------------------------------------------------- */

/* The programs that stand for the one that the job was made of. */
static bool is_users(const fl_job *j, const fl_program *p)
{
    return !p || p == j->model->main || p == j->dist->main ||
           p == j->ctx->fleet_main;
}

static fl_status check_inference(const fl_job *j, const fl_inference_args *a)
{
    if (j->model && !is_users(j, a->program))
        FL_FAIL(FL_ERR_INVAL,
                "the program is not the one that this job was made of, and its "
                "servers have values for that alone; leave the program out");
    if (is_other(j, a->scope))
        FL_FAIL(FL_ERR_INVAL, "the values of a job are on its servers; leave "
                              "the scope out");
    return FL_OK;
}

fl_status fl_io_inference_job(fl_job *j, const char *dir,
                              fl_inference_args *args)
{
    fl_job_inference in = { .targets = args->targets,
                            .n_targets = args->n_targets,
                            .passes = fl_io_left_out(&j->ctx->conf),
                            .keep = args->keep,
                            .delta = args->delta,
                            .by_score = args->by_score };
    fl_program *whole, *pruned;
    fl_status st;

    FL_TRY(check_inference(j, args));
    FL_TRY(fl_job_user_program(j, &whole));
    st = fl_io_prune(&pruned, whole, args);
    fl_program_free(whole);
    FL_TRY(st);
    in.program = pruned;
    in.feeds = args->feeds;
    in.n_feeds = args->n_feeds;
    st = fl_job_save_inference(j, dir, &in);
    fl_program_free(pruned);
    return st;
}

/* --- loading -------------------------------------------------------------- */

static fl_load_wish wish_of(fl_io_which which, const fl_load_args *a)
{
    return (fl_load_wish){ .match = { .names = a->names,
                                      .n_names = a->n_names,
                                      .renames = a->renames,
                                      .n_renames = a->n_renames,
                                      .resizes = a->resizes,
                                      .n_resizes = a->n_resizes,
                                      .is_fresh_state = a->fresh_state },
                           .params_only = which == FL_IO_PARAMS };
}

/* A server begins with a model, whose rows it takes when it serves. */
fl_status fl_io_load_job(fl_job *j, const char *dir, fl_io_which which,
                         const fl_load_args *args)
{
    fl_load_wish wish = wish_of(which, args);

    if (is_other(j, args->scope) || args->delta)
        FL_FAIL(FL_ERR_UNSUPPORTED,
                "a job is loaded into its servers: leave the options scope and "
                "delta out, or load in one process");
    return j->role == FL_ROLE_SERVER ? fl_job_begin_with(j, dir, &wish)
                                     : fl_job_load_as(j, dir, &wish);
}
