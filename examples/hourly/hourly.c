/* hourly.c - a click model that learns as the hours come in: README.md.
 *
 *     hourly DATA MODEL HOURS
 *     fleetrun --server_num=2 --worker_num=2 hourly DATA MODEL HOURS
 *
 * DATA/00, DATA/01, ... have the logs of an hour each, in files part-*, and a file
 * `done` when they are complete. Each hour is trained when it is; then MODEL gets
 * a version with what changed. A line of a log is a record: how many items the
 * user has seen, their ids; 1 and the item that is shown; 1 and whether it was
 * clicked.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <flotilla/dist.h>
#include <flotilla/experimental/job_data.h>
#include <flotilla/fleet.h>
#include <flotilla/flotilla.h>

enum { BATCH = 64, WIDTH = 8, HIDDEN = 16, ITEMS = 1 << 20, PATH = 4096 };

static fl_ctx *ctx;
static fl_fleet *fleet;
static fl_executor *exe;
static fl_var *score, *loss;

static void check(bool is_good)
{
    if (!is_good)
        fprintf(stderr, "hourly: %s\n", fl_last_error()), exit(1);
}

/* --- the network ---------------------------------------------------------- */

static fl_var *rows(fl_var *ids)
{
    return fl_layers_embedding(ids, ITEMS, WIDTH, .is_sparse = true,
                               .is_distributed = true,
                               .param = { .name = "items" });
}

static void build(void)
{
    const int64_t column[] = { -1, 1 };
    fl_var *in[2];

    in[0] = fl_layers_sequence_pool(
        rows(fl_layers_data(ctx, "seen", FL_DTYPE_I64, 2, column, 1)), "sum");
    in[1] = rows(fl_layers_data(ctx, "shown", FL_DTYPE_I64, 2, column, 0));
    score = fl_layers_fc(
        fl_layers_fc(fl_layers_concat(in, 2, 1), HIDDEN, .act = "relu"), 1,
        .act = "sigmoid", .name = "score");
    loss = fl_layers_mean(fl_layers_log_loss(
        score, fl_layers_data(ctx, "label", FL_DTYPE_F32, 2, column, 0), 1e-4));
    check(score && loss);
}

/* --- an hour -------------------------------------------------------------- */

/* Whoever writes the logs puts `done` beside them, last. */
static void wait_for(const char *data, int hour)
{
    const struct timespec moment = { .tv_nsec = 100000000 };
    char done[PATH];

    snprintf(done, sizeof(done), "%s/%02d/done", data, hour);
    while (access(done, F_OK) != 0)
        nanosleep(&moment, NULL);
}

/* The files of an hour; workers of a job share them. */
static fl_dataset *open_hour(const char *data, int hour)
{
    static const char *const feeds[] = { "seen", "shown", "label" };
    fl_transpiler *job = fl_fleet_transpiler(fleet);
    char files[PATH], pass[32];
    const char *list[] = { files };
    fl_dataset *d;

    snprintf(files, sizeof(files), "%s/%02d/part-*", data, hour);
    snprintf(pass, sizeof(pass), "hour %02d", hour);
    check(!fl_dataset_new(&d, ctx, "QueueDataset"));
    check(!fl_dataset_set_use_var(d, fl_default_main_program(ctx), feeds, 3));
    check(!fl_dataset_set_filelist(d, list, 1));
    check(!job || !fl_job_dispatch_files(fl_transpiler_job(job), d, pass));
    fl_dataset_set_batch_size(d, BATCH);
    return d;
}

static void train(const char *data, int hour)
{
    fl_dataset_report r = FL_INIT(fl_dataset_report);
    fl_dataset *d = open_hour(data, hour);
    double n, sum;
    char line[128];

    check(!fl_train_from_dataset(exe, fl_fleet_main_program(fleet), d, &r,
                                 .loss = fl_var_name(loss)));
    fl_dataset_free(d);
    check(!fl_fleet_metrics_sum(fleet, (double)r.samples, &n));
    check(!fl_fleet_metrics_sum(
        fleet, r.samples ? r.loss * (double)r.samples : 0, &sum));
    snprintf(line, sizeof(line), "hour %02d: %.0f records, loss %.4f", hour, n,
             n > 0 ? sum / n : 0);
    fl_fleet_util_print_on_rank(fleet, 0, line);
}

/* All have trained their share; the first worker asks for all of them. */
static void save(const char *model)
{
    check(!fl_fleet_util_barrier(fleet));
    if (fl_fleet_is_first_worker(fleet))
        check(!fl_fleet_save_delta(fleet, model));
}

static void work(char **args)
{
    check(!fl_fleet_init_worker(fleet));
    check(!fl_run(exe, fl_fleet_startup_program(fleet), NULL));
    for (int hour = 0; hour < (int)strtol(args[3], NULL, 10); hour++) {
        wait_for(args[1], hour);
        train(args[1], hour);
        save(args[2]);
    }
    check(!fl_fleet_stop_worker(fleet));
}

/* A job that was ended goes on with the model that there is. */
static void serve(const char *model)
{
    char current[PATH];

    snprintf(current, sizeof(current), "%s/CURRENT", model);
    check(!fl_fleet_init_server(fleet, access(current, F_OK) ? NULL : model));
    check(!fl_fleet_run_server(fleet));
}

int main(int argc, char **argv)
{
    fl_optimizer *o = NULL;
    fl_strategy *s = NULL;

    if (argc != 4)
        return fputs("give DATA MODEL HOURS\n", stderr), 2;
    check(!fl_ctx_new(&ctx) && !fl_executor_new(&exe, ctx) &&
          !fl_fleet_init(&fleet, ctx, NULL) &&
          !fl_strategy_new(&s, fleet, "async"));
    build();
    check(!fl_optimizer_new(&o, ctx, "adam", "learning_rate=0.01") &&
          !fl_fleet_distributed_optimizer(fleet, o, s) &&
          !fl_fleet_minimize(fleet, loss));
    if (fl_fleet_is_worker(fleet))
        work(argv);
    else
        serve(argv[2]);
    fl_executor_free(exe), fl_fleet_free(fleet), fl_ctx_free(ctx);
}
