/* fleet_io.c - models of a fleet: one process saves and loads itself, a job
 * does so on its servers. */
#include "base/alloc.h"
#include "dist/job.h"
#include "fleet/fleet.h"
#include "flotilla/io.h"

/* Before minimize there is nothing to save and nothing to load into. */
static fl_status begin(fl_fleet *f, const char *call, bool *alone)
{
    FL_TRY(fl_fleet_join(f, call, alone));
    if (!f->is_minimized)
        FL_FAIL(FL_ERR_INVAL, "%s: call fl_fleet_minimize first", call);
    return FL_OK;
}

/* An executor of a job's context saves all of the job. */
static fl_status save(fl_fleet *f, const char *dir, const fl_save_args *args)
{
    fl_executor *e;
    fl_status st;

    FL_TRY(fl_executor_new(&e, f->ctx));
    st = fl_save_vars(e, dir, NULL, args);
    fl_executor_free(e);
    return st;
}

fl_status fl_fleet_save_persistables(fl_fleet *f, const char *dir)
{
    bool alone;

    FL_TRY(begin(f, "fl_fleet_save_persistables", &alone));
    return save(f, dir, NULL);
}

fl_status fl_fleet_save_delta(fl_fleet *f, const char *dir)
{
    bool alone;

    FL_TRY(begin(f, "fl_fleet_save_delta", &alone));
    return save(f, dir, FL_OPTIONS(fl_save_args, .delta = true));
}

fl_status fl_fleet_load_model(fl_fleet *f, const char *dir)
{
    fl_executor *e;
    fl_status st;
    bool alone;

    FL_TRY(begin(f, "fl_fleet_load_model", &alone));
    if (!alone)
        return fl_job_load(fl_fleet_job(f), dir);
    FL_TRY(fl_executor_new(&e, f->ctx));
    st = fl_load_persistables(e, dir, NULL);
    fl_executor_free(e);
    return st;
}

fl_status fl_fleet_save_inference_model(fl_fleet *f, const char *dir,
                                        const char *const *feeds,
                                        size_t n_feeds, fl_var *const *targets,
                                        size_t n_targets)
{
    const char **names;
    fl_executor *e;
    fl_status st;
    bool alone;

    FL_TRY(begin(f, "fl_fleet_save_inference_model", &alone));
    FL_TRY(fl_executor_new(&e, f->ctx));
    names = fl_alloc(n_targets * sizeof(*names) + 1);
    for (size_t i = 0; i < n_targets; i++)
        names[i] = fl_var_name(targets[i]);
    st = fl_save_inference_model(e, dir, .feeds = feeds, .n_feeds = n_feeds,
                                 .targets = names, .n_targets = n_targets);
    fl_free(names);
    fl_executor_free(e);
    return st;
}
