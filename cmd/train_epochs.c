/* train_epochs.c - passes that train, and those that examine.
 *
 * What is held out is examined behind each epoch, and an epoch that is the best
 * so far is saved at once: so what is on disk at the end is the best one, in a
 * job as in one process, and nothing of it has to be kept elsewhere.
 */
#include <inttypes.h>
#include <stdio.h>

#include "train_judge.h"

/* --- passes ----------------------------------------------------------------- */

/* Adds up a pass over what the option names; it needs a record of one worker. */
static int count_pass(train_job *j, const fl_dataset_report *r,
                      const char *option, train_total *out)
{
    if (train_add_up(j, r, out))
        return train_fail(j, "adding up over all workers");
    if (out->samples <= 0)
        return cmd_failed(j->self,
                          "%s has no record that could be read; `flotilla data "
                          "check` shows its lines and what is wrong with them",
                          option);
    return CMD_OK;
}

static int record(const train_job *j, const char *option, const train_total *t)
{
    return train_record_total(j, option, t)
               ? train_fail(j, "adding to the record")
               : CMD_OK;
}

/* The run of one pass over this worker's data. */
static fl_dataset_run_args run_args(const train_job *j)
{
    return FL_INIT(fl_dataset_run_args, .n_threads = (int)j->args->threads,
                   .loss = fl_var_name(j->net.loss),
                   .auc = j->net.auc ? fl_var_name(j->net.auc) : NULL);
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
    return train_record_total(j, "--test", &t);
}

static int train_pass(train_job *j, fl_dataset *d, train_total *out)
{
    fl_dataset_run_args args = run_args(j);
    fl_dataset_report r = FL_INIT(fl_dataset_report);

    args.on_progress = fl_progress_to_file;
    args.progress_arg = stdout;
    if (j->args->test_every) {
        args.test = j->test;
        args.test_every = j->args->test_every;
        args.on_test = tell_test;
        args.test_arg = j;
    }
    if (train_clear_metrics(j))
        return train_fail(j, "counting anew");
    if (fl_train_from_dataset_with(j->exe, fl_fleet_main_program(j->fleet), d,
                                   &r, &args))
        return train_fail(j, "training");
    if (count_pass(j, &r, "--data", out))
        return CMD_FAILED;
    return record(j, "--data", out);
}

static int examine(train_job *j, train_total *out)
{
    fl_dataset_run_args args = run_args(j);
    fl_dataset_report r = FL_INIT(fl_dataset_report);

    *out = (train_total){ 0 };
    if (!j->test)
        return CMD_OK;
    /* What the others have learnt is to be there. */
    if (fl_fleet_util_barrier(j->fleet))
        return train_fail(j, "waiting for the other workers");
    if (train_clear_metrics(j))
        return train_fail(j, "counting anew");
    train_judge_watch(j, &args);
    if (fl_infer_from_dataset_with(j->exe, fl_fleet_main_program(j->fleet),
                                   j->test, &r, &args))
        return train_judge_fault(j) ? CMD_FAILED : train_fail(j, "examining");
    if (count_pass(j, &r, j->args->split_share ? "--split" : "--test", out))
        return CMD_FAILED;
    if (train_judge_finish(j, out))
        return train_fail(j, "--metrics");
    return record(j, "--test", out);
}

/* --- saving ----------------------------------------------------------------- */

/* What predictions need comes first: it spends scores of rows. One worker asks
   for all of them. */
static int save_infer(train_job *j)
{
    if (!j->args->infer || !fl_fleet_is_first_worker(j->fleet))
        return CMD_OK;
    return train_save_infer(j->exe, j->args, &j->net) ? train_fail(j, "--infer")
                                                      : CMD_OK;
}

/* What the others have learnt is to be in it, and nothing that they learn
   behind this epoch. */
static int save(train_job *j)
{
    const train_args *a = j->args;

    if (!a->save && !a->infer)
        return CMD_OK;
    if (fl_fleet_util_barrier(j->fleet))
        return train_fail(j, "waiting for the other workers");
    if (save_infer(j))
        return CMD_FAILED;
    if (a->infer && fl_fleet_util_barrier(j->fleet))
        return train_fail(j, "waiting for the other workers");
    if (train_save(j->exe, a))
        return train_fail(j, "--save");
    return fl_fleet_util_barrier(j->fleet)
               ? train_fail(j, "waiting for the other workers")
               : CMD_OK;
}

/* The best epoch that was examined, else the last one. One that a run before
   has examined was saved by that. */
static bool is_to_be_saved(const train_job *j, const train_epoch *e)
{
    if (!j->test)
        return j->history.n == j->args->epochs;
    return train_history_is_best(&j->history) && !e->held_out.was_made_before;
}

/* --- epochs ----------------------------------------------------------------- */

static int one_epoch(train_job *j, fl_dataset *d)
{
    train_epoch e;
    int code = train_pass(j, d, &e.trained);

    if (!code)
        code = examine(j, &e.held_out);
    if (code)
        return code;
    if (!train_history_add(&j->history, &e))
        return cmd_failed(j->self, "no memory for the numbers of an epoch");
    train_tell_epoch(j, &e);
    return is_to_be_saved(j, &e) ? save(j) : CMD_OK;
}

/* Was nothing better for as long as one is patient? */
static bool is_enough(const train_job *j)
{
    const train_history *h = &j->history;

    return j->args->patience && h->n && h->n - 1 - h->best >= j->args->patience;
}

static void tell_stop(const train_job *j)
{
    char line[128];

    snprintf(line, sizeof(line),
             "stopped: %" PRIu64 " epochs brought nothing better than epoch "
             "%zu",
             j->args->patience, j->history.best + 1);
    train_say(j, line);
}

int train_epochs(train_job *j, fl_dataset *d)
{
    int code = CMD_OK;

    while (!code && j->history.n < j->args->epochs && !is_enough(j))
        code = one_epoch(j, d);
    if (code)
        return code;
    if (j->history.n < j->args->epochs)
        tell_stop(j);
    train_tell_history(j);
    return CMD_OK;
}
