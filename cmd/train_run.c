/* train_run.c - one process of `flotilla train`: its role in the job, and what
 * is made, loaded and saved in it. */
#include <stdlib.h>

#include "train_judge.h"

int train_fail(const train_job *j, const char *what)
{
    const char *why = fl_last_error();

    /* A model that finds the fault itself has said it. */
    return cmd_failed(j->self, "%s: %s", what, *why ? why : "see above");
}

/* --- the parts of a job --------------------------------------------------- */

static fl_status distribute(train_job *j, bool is_minimized)
{
    const train_args *a = j->args;
    fl_var *loss = j->net.objective ? j->net.objective : j->net.loss;
    fl_optimizer *o;
    fl_strategy *s;
    fl_status st = fl_strategy_new(&s, j->fleet, a->mode);

    if (!st && a->strategy)
        st = fl_strategy_set(s, a->strategy);
    if (!st && is_minimized)
        return fl_fleet_distribute(j->fleet, s, fl_default_main_program(j->ctx),
                                   fl_default_startup_program(j->ctx));
    if (!st)
        st = model_optimizer(&o, j->ctx, a->model, &a->net);
    if (!st)
        st = fl_fleet_distributed_optimizer(j->fleet, o, s);
    return st ? st : fl_fleet_minimize(j->fleet, loss);
}

/* The network, without what trains it unless a text has that, too. */
static int build_net(train_job *j, bool *is_minimized)
{
    const train_args *a = j->args;

    *is_minimized = false;
    fl_program_set_seed(fl_default_startup_program(j->ctx), a->seed);
    if (a->text)
        return train_text_build(j, is_minimized);
    j->net.keep_negatives = a->keep_negatives;
    return a->model->build(j->ctx, &a->net, &j->net)
               ? train_fail(j, "building the model")
               : CMD_OK;
}

static int build(train_job *j)
{
    bool is_minimized;

    if (build_net(j, &is_minimized))
        return CMD_FAILED;
    if (train_judge_add_keys(j))
        return train_fail(j, "--metrics");
    return distribute(j, is_minimized) ? train_fail(j, "building the model")
                                       : CMD_OK;
}

/* A server begins with the model, unless the job goes on from a later one. */
static fl_status serve(train_job *j)
{
    fl_status st = fl_executor_new(&j->exe, j->ctx);

    if (!st)
        st = train_load(j->exe, j->args);
    if (!st)
        st = fl_fleet_init_server(j->fleet, NULL);
    if (!st)
        st = fl_fleet_run_server(j->fleet);
    fl_executor_free(j->exe);
    return st;
}

static fl_status open_data(train_job *j, const char *path, train_part part,
                           fl_dataset **out)
{
    const char *pass = part == TRAIN_ON ? "train" : "test";
    fl_status st = model_dataset(out, j->ctx, j->fleet, &j->net, path, pass);

    if (!st)
        st = train_set_part(j, part, *out);
    if (st)
        return st;
    fl_dataset_set_batch_size(*out, j->args->batch);
    fl_dataset_set_thread(*out, (int)j->args->threads);
    fl_dataset_set_seed(*out, j->args->seed);
    return FL_OK;
}

/* Data is looked at before the job is joined: a wrong path is told at once. */
static int join_and_train(train_job *j, fl_dataset **data)
{
    int code;

    if (open_data(j, j->args->data, TRAIN_ON, data))
        return train_fail(j, "--data");
    if (j->args->test && open_data(j, j->args->test, TRAIN_HELD_OUT, &j->test))
        return train_fail(j, "--test");
    code = train_judge_find(j);
    if (code)
        return code;
    if (fl_fleet_init_worker(j->fleet))
        return train_fail(j, "joining the job");
    if (fl_run(j->exe, fl_fleet_startup_program(j->fleet), NULL))
        return train_fail(j, "giving the parameters their first values");
    /* The servers of a job have loaded it before they served. */
    if (!fl_fleet_server_num(j->fleet) && train_load(j->exe, j->args))
        return train_fail(j, "--load");
    train_tell_start(j);
    code = train_epochs(j, *data);
    if (!code && fl_fleet_stop_worker(j->fleet))
        code = train_fail(j, "leaving the job");
    return code;
}

static int work(train_job *j)
{
    fl_dataset *data = NULL;
    int code;

    if (fl_executor_new(&j->exe, j->ctx))
        return train_fail(j, "making an executor");
    code = join_and_train(j, &data);
    fl_dataset_free(j->test);
    fl_dataset_free(data);
    fl_executor_free(j->exe);
    return code;
}

bool train_is_job(const train_job *j)
{
    return fl_fleet_server_num(j->fleet) ||
           *fl_fleet_worker_endpoints(j->fleet);
}

/* What only a job has a use for. */
static int check_alone(const train_job *j)
{
    const train_args *a = j->args;

    if (train_is_job(j) || (!a->mode && !a->strategy))
        return CMD_OK;
    return cmd_failed(j->self,
                      "%s %s is of a job, and this is one process: start it "
                      "with `fleetrun --server_num=1 --worker_num=2 flotilla "
                      "train ...`, or leave it out",
                      a->mode ? "--mode" : "--strategy",
                      a->mode ? a->mode : a->strategy);
}

static int play_role(train_job *j)
{
    if (check_alone(j))
        return CMD_FAILED;
    if (train_begin_record(j))
        return train_fail(j, "--record");
    if (fl_fleet_server_num(j->fleet) && train_wants_delta(j->args))
        return cmd_failed(j->self, "a job is saved whole at its end; leave "
                                   "--save-kind out (setting "
                                   "save_delta_every_ms makes deltas), or "
                                   "train in one process");
    if (build(j))
        return CMD_FAILED;
    if (train_judge_check_model(j))
        return CMD_FAILED;
    if (j->args->infer && !j->net.prediction)
        return cmd_failed(j->self,
                          "%s has no prediction that --infer could save%s",
                          train_name(j->args),
                          j->args->text ? "; --prediction NAME names one" : "");
    if (!fl_fleet_is_server(j->fleet))
        return work(j);
    return serve(j) ? train_fail(j, "serving") : CMD_OK;
}

static void give_result(const train_job *j, train_result *out)
{
    const train_history *h = &j->history;

    if (out && h->n)
        *out = (train_result){ .held_out = h->epochs[h->best].held_out,
                               .epoch = h->best + 1 };
}

/* Finds this process's role and does something with it. */
static int with_fleet(train_job *j, int (*act)(train_job *j))
{
    int code;

    j->counts = fl_current_scope(j->ctx);
    if (fl_fleet_init(&j->fleet, j->ctx, NULL))
        return train_fail(j, "finding this process's role");
    code = train_judge_open(j);
    if (!code)
        code = act(j);
    train_judge_close(j);
    fl_fleet_free(j->fleet);
    return code;
}

int train_run(const char *self, fl_ctx *c, const train_args *a,
              train_result *out)
{
    train_job j = { .self = self, .args = a, .ctx = c };
    int code = with_fleet(&j, play_role);

    give_result(&j, out);
    free(j.history.epochs);
    return code;
}

static int build_trial(train_job *j)
{
    if (train_is_job(j))
        return cmd_failed(j->self,
                          "--try trains in one process, one trial after the "
                          "other, and this is a job; find the best line first, "
                          "then start the job with it");
    if (check_alone(j))
        return CMD_FAILED;
    return build(j);
}

static int dump(train_job *j)
{
    bool is_minimized;

    return build_net(j, &is_minimized) ? CMD_FAILED : train_dump(j);
}

int train_dump_only(const char *self, fl_ctx *c, const train_args *a)
{
    train_job j = { .self = self, .args = a, .ctx = c };

    return dump(&j);
}

int train_try_build(const char *self, fl_ctx *c, const train_args *a)
{
    train_job j = { .self = self, .args = a, .ctx = c };

    return with_fleet(&j, build_trial);
}
