/* train_epochs.c - passes that train, and those that examine. */
#include <inttypes.h>
#include <stdio.h>

#include "train_job.h"

/* Prints the numbers of a pass over what the option names; without a record of
   any worker there are none. */
static int tell_pass(train_job *j, const char *what, const fl_dataset_report *r,
                     const char *option)
{
    train_total t;

    if (train_add_up(j, r, &t))
        return train_fail(j, "adding up over all workers");
    if (t.samples <= 0)
        return cmd_failed(j->self,
                          "%s has no record that could be read; `flotilla data "
                          "check` shows its lines and what is wrong with them",
                          option);
    train_tell(j, what, &t);
    return CMD_OK;
}

/* The run of one pass over this worker's data. */
static fl_dataset_run_args run_args(const train_job *j)
{
    return FL_INIT(fl_dataset_run_args, .n_threads = (int)j->args->threads,
                   .loss = fl_var_name(j->net.loss),
                   .auc = j->net.auc ? fl_var_name(j->net.auc) : NULL,
                   .on_progress = fl_progress_to_file, .progress_arg = stdout);
}

/* While training rests: all workers have examined their shares. */
static fl_status tell_test(void *arg, const fl_dataset_report *r,
                           fl_scope *counts)
{
    train_job *j = arg;
    fl_scope *training = j->counts;
    char what[64];
    fl_status st;
    train_total t;

    j->counts = counts;
    st = train_add_up(j, r, &t);
    j->counts = training;
    if (st)
        return st;
    snprintf(what, sizeof(what), "held out at step %" PRIu64,
             fl_scope_step(training));
    train_tell(j, what, &t);
    return FL_OK;
}

/* Its numbers over all workers were printed then. */
static void say_made_before(train_job *j, const char *what)
{
    char line[128];

    snprintf(line, sizeof(line), "%s: trained before the model was saved",
             what);
    train_say(j, line);
}

int train_epochs(train_job *j, fl_dataset *d)
{
    fl_dataset_run_args args = run_args(j);
    fl_dataset_report r = FL_INIT(fl_dataset_report);
    char what[64];
    int code = CMD_OK;

    if (j->args->test_every) {
        args.test = j->test;
        args.test_every = j->args->test_every;
        args.on_test = tell_test;
        args.test_arg = j;
    }
    for (uint64_t e = 1; !code && e <= j->args->epochs; e++) {
        if (train_clear_metrics(j))
            return train_fail(j, "counting anew");
        if (fl_train_from_dataset_with(j->exe, fl_fleet_main_program(j->fleet),
                                       d, &r, &args))
            return train_fail(j, "training");
        snprintf(what, sizeof(what), "epoch %" PRIu64 " of %" PRIu64, e,
                 j->args->epochs);
        if (r.was_made_before)
            say_made_before(j, what);
        else
            code = tell_pass(j, what, &r, "--data");
    }
    return code;
}

int train_examine(train_job *j)
{
    fl_dataset_run_args args = run_args(j);
    fl_dataset_report r = FL_INIT(fl_dataset_report);

    args.on_progress = NULL;
    /* What the others have learnt is to be there. */
    if (fl_fleet_util_barrier(j->fleet))
        return train_fail(j, "waiting for the other workers");
    if (train_clear_metrics(j))
        return train_fail(j, "counting anew");
    if (fl_infer_from_dataset_with(j->exe, fl_fleet_main_program(j->fleet),
                                   j->test, &r, &args))
        return train_fail(j, "examining");
    return tell_pass(j, "held out", &r, "--test");
}
