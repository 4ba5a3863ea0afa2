/* train_run.c - one process of `flotilla train`.
 *
 * What is printed counts all workers: samples, losses and the sums behind the
 * model's metrics are added up, the time is that of the slowest, and the AUC
 * comes from the histograms of all.
 */
#include "train.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct job {
    const char *self;
    const train_args *args;
    fl_ctx *ctx;
    fl_fleet *fleet;
    fl_executor *exe;
    fl_dataset *test; /* NULL: none */
    fl_scope *counts; /* where the metrics count */
    model_net net;
} job;

/* Of all workers. */
typedef struct total {
    double samples, loss, seconds;
    double auc; /* NaN: the model has none */
    /* Of each metric the value, and of its classes the least and the most. */
    double value[MODEL_METRICS_MAX];
    double least[MODEL_METRICS_MAX], most[MODEL_METRICS_MAX];
} total;

/* --- the parts of a job --------------------------------------------------- */

static fl_status build(job *j)
{
    const train_args *a = j->args;
    fl_optimizer *o;
    fl_strategy *s;
    fl_status st;

    fl_program_set_seed(fl_default_startup_program(j->ctx), a->seed);
    st = a->model->build(j->ctx, &a->net, &j->net);
    if (st)
        return st;
    st = model_optimizer(&o, j->ctx, a->model, &a->net);
    if (!st)
        st = fl_strategy_new(&s, j->fleet, a->mode);
    if (!st && a->strategy)
        st = fl_strategy_set(s, a->strategy);
    if (!st)
        st = fl_fleet_distributed_optimizer(j->fleet, o, s);
    return st ? st
              : fl_fleet_minimize(j->fleet, j->net.objective ? j->net.objective
                                                             : j->net.loss);
}

/* A server begins with the model, unless the job goes on from a later one. */
static fl_status serve(job *j)
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

static fl_status open_data(job *j, const char *path, const char *pass,
                           fl_dataset **out)
{
    fl_status st = model_dataset(out, j->ctx, j->fleet, &j->net, path, pass);

    if (st)
        return st;
    fl_dataset_set_batch_size(*out, j->args->batch);
    fl_dataset_set_thread(*out, (int)j->args->threads);
    fl_dataset_set_seed(*out, j->args->seed);
    return FL_OK;
}

/* --- counting over all workers -------------------------------------------- */

/* Nothing was counted when this worker had no data. */
static void copy_counts(const fl_tensor *t, bool is_counted, double *out)
{
    const int64_t *counts = t->data;

    for (int64_t i = 0; is_counted && i < fl_tensor_numel(t); i++)
        out[i] = (double)counts[i];
}

static fl_status add_up_auc(job *j, bool is_counted, double *out)
{
    fl_tensor pos, neg;
    double *counts;
    fl_status st;
    size_t n;

    if (!j->net.auc)
        return FL_OK;
    st = fl_scope_get(j->counts, fl_var_name(j->net.stat_pos), &pos);
    if (!st)
        st = fl_scope_get(j->counts, fl_var_name(j->net.stat_neg), &neg);
    if (st)
        return st;
    n = (size_t)fl_tensor_numel(&pos);
    counts = calloc(2 * n, sizeof(*counts));
    if (!counts)
        return FL_ERR_NOMEM;
    copy_counts(&pos, is_counted, counts);
    copy_counts(&neg, is_counted, counts + n);
    st = fl_fleet_metrics_auc(j->fleet, counts, counts + n, n, out);
    free(counts);
    return st;
}

static fl_status find_stat(const job *j, size_t i, fl_tensor *out)
{
    return fl_scope_get(j->counts, fl_var_name(j->net.metrics[i].stat), out);
}

/* Metrics are counted from zero in every pass. */
static fl_status clear_metrics(const job *j)
{
    fl_tensor t;

    for (size_t i = 0; i < j->net.n_metrics; i++) {
        fl_status st = find_stat(j, i, &t);

        if (st)
            return st;
        memset(t.data, 0, (size_t)fl_tensor_numel(&t) * sizeof(double));
    }
    return FL_OK;
}

/* From the sums of n classes. */
static void judge(const double *sums, int64_t n, size_t metric, total *out)
{
    double all[2] = { 0 };

    out->least[metric] = out->most[metric] = NAN;
    for (int64_t i = 0; i < n; i++) {
        double share = sums[2 * i] / sums[2 * i + 1];

        all[0] += sums[2 * i];
        all[1] += sums[2 * i + 1];
        out->least[metric] = fmin(out->least[metric], share);
        out->most[metric] = fmax(out->most[metric], share);
    }
    out->value[metric] = all[0] / all[1];
}

static fl_status add_up_metric(job *j, size_t i, total *out)
{
    fl_tensor t;
    fl_status st = find_stat(j, i, &t);
    double *sums;
    size_t n;

    if (st)
        return st;
    n = (size_t)fl_tensor_numel(&t);
    sums = malloc(n * sizeof(*sums));
    if (!sums)
        return FL_ERR_NOMEM;
    memcpy(sums, t.data, n * sizeof(*sums));
    st = fl_fleet_util_all_reduce(j->fleet, FL_REDUCE_SUM, sums, n);
    if (!st)
        judge(sums, (int64_t)n / 2, i, out);
    free(sums);
    return st;
}

static fl_status add_up_metrics(job *j, total *out)
{
    fl_status st = FL_OK;

    for (size_t i = 0; !st && i < j->net.n_metrics; i++)
        st = add_up_metric(j, i, out);
    return st;
}

static fl_status add_up(job *j, const fl_dataset_report *r, total *out)
{
    double n = (double)r->samples, sums[] = { n, n > 0 ? n * r->loss : 0 };
    fl_status st = fl_fleet_util_all_reduce(j->fleet, FL_REDUCE_SUM, sums, 2);

    *out = (total){ .samples = sums[0], .seconds = r->seconds, .auc = NAN };
    out->loss = sums[0] > 0 ? sums[1] / sums[0] : NAN;
    if (!st)
        st =
            fl_fleet_util_all_reduce(j->fleet, FL_REDUCE_MAX, &out->seconds, 1);
    if (!st)
        st = add_up_auc(j, n > 0, &out->auc);
    return st ? st : add_up_metrics(j, out);
}

/* ", log loss 0.4512", ", accuracy 0.6512 (by class 0.4000 to 0.8100)". */
static void print_metric(const job *j, size_t i, const total *t, char *out,
                         size_t cap)
{
    int n =
        snprintf(out, cap, ", %s %.4f", j->net.metrics[i].name, t->value[i]);

    if (n > 0 && (size_t)n < cap && t->least[i] < t->most[i])
        snprintf(out + n, cap - (size_t)n, " (by class %.4f to %.4f)",
                 t->least[i], t->most[i]);
}

static void print(job *j, const char *what, const total *t)
{
    char line[512], auc[32] = "";
    size_t len;

    if (!isnan(t->auc))
        snprintf(auc, sizeof(auc), ", AUC %.4f", t->auc);
    snprintf(line, sizeof(line), "%s: %.0f samples, %.0f samples/s, loss %.4f",
             what, t->samples,
             t->samples / (t->seconds > 1e-9 ? t->seconds : 1e-9), t->loss);
    for (size_t i = 0; i < j->net.n_metrics; i++) {
        len = strlen(line);
        print_metric(j, i, t, line + len, sizeof(line) - len);
    }
    len = strlen(line);
    snprintf(line + len, sizeof(line) - len, "%s", auc);
    fl_fleet_util_print_on_rank(j->fleet, 0, line);
    fflush(stdout);
}

/* --- training ------------------------------------------------------------- */

static int fail(const job *j, const char *what)
{
    const char *why = fl_last_error();

    /* A model that finds the fault itself has said it. */
    return cmd_failed(j->self, "%s: %s", what, *why ? why : "see above");
}

/* Prints the numbers of a pass over what the option names; without a record of
   any worker there are none. */
static int tell_pass(job *j, const char *what, const fl_dataset_report *r,
                     const char *option)
{
    total t;

    if (add_up(j, r, &t))
        return fail(j, "adding up over all workers");
    if (t.samples <= 0)
        return cmd_failed(j->self,
                          "%s has no record that could be read; `flotilla data "
                          "check` shows its lines and what is wrong with them",
                          option);
    print(j, what, &t);
    return CMD_OK;
}

/* The run of one pass over this worker's data. */
static fl_dataset_run_args run_args(const job *j)
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
    job *j = arg;
    fl_scope *training = j->counts;
    char what[64];
    fl_status st;
    total t;

    j->counts = counts;
    st = add_up(j, r, &t);
    j->counts = training;
    if (st)
        return st;
    snprintf(what, sizeof(what), "held out at step %" PRIu64,
             fl_scope_step(training));
    print(j, what, &t);
    return FL_OK;
}

/* Its numbers over all workers were printed then. */
static void say_made_before(job *j, const char *what)
{
    char line[128];

    snprintf(line, sizeof(line), "%s: trained before the model was saved",
             what);
    fl_fleet_util_print_on_rank(j->fleet, 0, line);
    fflush(stdout);
}

static int train_epochs(job *j, fl_dataset *d)
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
        if (clear_metrics(j))
            return fail(j, "counting anew");
        if (fl_train_from_dataset_with(j->exe, fl_fleet_main_program(j->fleet),
                                       d, &r, &args))
            return fail(j, "training");
        snprintf(what, sizeof(what), "epoch %" PRIu64 " of %" PRIu64, e,
                 j->args->epochs);
        if (r.was_made_before)
            say_made_before(j, what);
        else
            code = tell_pass(j, what, &r, "--data");
    }
    return code;
}

static int examine(job *j)
{
    fl_dataset_run_args args = run_args(j);
    fl_dataset_report r = FL_INIT(fl_dataset_report);

    args.on_progress = NULL;
    /* What the others have learnt is to be there. */
    if (fl_fleet_util_barrier(j->fleet))
        return fail(j, "waiting for the other workers");
    if (clear_metrics(j))
        return fail(j, "counting anew");
    if (fl_infer_from_dataset_with(j->exe, fl_fleet_main_program(j->fleet),
                                   j->test, &r, &args))
        return fail(j, "examining");
    return tell_pass(j, "held out", &r, "--test");
}

static void say_what(job *j)
{
    const train_args *a = j->args;
    char line[256], job_text[96] = "in one process";

    if (fl_fleet_server_num(j->fleet))
        snprintf(job_text, sizeof(job_text),
                 "in mode %s, servers %d, workers %d", a->mode,
                 fl_fleet_server_num(j->fleet), fl_fleet_worker_num(j->fleet));
    snprintf(line, sizeof(line),
             "training %s %s: batch %" PRIu64 ", threads %" PRIu64,
             a->model->name, job_text, a->batch, a->threads);
    fl_fleet_util_print_on_rank(j->fleet, 0, line);
    fflush(stdout);
}

/* What predictions need comes first: it spends scores of rows. One worker asks
   for all of them. */
static int save_infer(job *j)
{
    if (!j->args->infer || !fl_fleet_is_first_worker(j->fleet))
        return CMD_OK;
    return train_save_infer(j->exe, j->args, &j->net) ? fail(j, "--infer")
                                                      : CMD_OK;
}

/* What the others have learnt is to be in it. */
static int save(job *j)
{
    const train_args *a = j->args;

    if ((a->save || a->infer) && fl_fleet_util_barrier(j->fleet))
        return fail(j, "waiting for the other workers");
    if (save_infer(j))
        return CMD_FAILED;
    if (a->save && a->infer && fl_fleet_util_barrier(j->fleet))
        return fail(j, "waiting for the other workers");
    return train_save(j->exe, a) ? fail(j, "--save") : CMD_OK;
}

/* Data is looked at before the job is joined: a wrong path is told at once. */
static int train_and_examine(job *j, fl_dataset **data)
{
    int code;

    if (open_data(j, j->args->data, "train", data))
        return fail(j, "--data");
    if (j->args->test && open_data(j, j->args->test, "test", &j->test))
        return fail(j, "--test");
    if (fl_fleet_init_worker(j->fleet))
        return fail(j, "joining the job");
    if (fl_run(j->exe, fl_fleet_startup_program(j->fleet), NULL))
        return fail(j, "giving the parameters their first values");
    /* The servers of a job have loaded it before they served. */
    if (!fl_fleet_server_num(j->fleet) && train_load(j->exe, j->args))
        return fail(j, "--load");
    say_what(j);
    code = train_epochs(j, *data);
    if (!code)
        code = save(j);
    if (!code && j->test)
        code = examine(j);
    if (!code && fl_fleet_stop_worker(j->fleet))
        code = fail(j, "leaving the job");
    return code;
}

static int work(job *j)
{
    fl_dataset *data = NULL;
    int code;

    if (fl_executor_new(&j->exe, j->ctx))
        return fail(j, "making an executor");
    code = train_and_examine(j, &data);
    fl_dataset_free(j->test);
    fl_dataset_free(data);
    fl_executor_free(j->exe);
    return code;
}

static int play_role(job *j)
{
    if (fl_fleet_server_num(j->fleet) && train_wants_delta(j->args))
        return cmd_failed(j->self, "a job is saved whole at its end; leave "
                                   "--save-kind out (setting "
                                   "save_delta_every_ms makes deltas), or "
                                   "train in one process");
    if (build(j))
        return fail(j, "building the model");
    if (j->args->infer && !j->net.prediction)
        return cmd_failed(j->self,
                          "%s has no prediction that --infer could "
                          "save",
                          j->args->model->name);
    if (!fl_fleet_is_server(j->fleet))
        return work(j);
    return serve(j) ? fail(j, "serving") : CMD_OK;
}

int train_run(const char *self, fl_ctx *c, const train_args *a)
{
    job j = {
        .self = self, .args = a, .ctx = c, .counts = fl_current_scope(c)
    };
    int code;

    if (fl_fleet_init(&j.fleet, c, NULL))
        return fail(&j, "finding this process's role");
    code = play_role(&j);
    fl_fleet_free(j.fleet);
    return code;
}
