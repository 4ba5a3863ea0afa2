/* model.c - a click model: numbers and categories of a table in text become the
 * chance of a click. Trained file by file, judged on what it has not seen, saved
 * for prediction.
 *
 *     ./@NAME@ TRAIN TEST MODEL
 *
 * Started by fleetrun it is a worker or a server of a job. */
#include <stdio.h>
#include <stdlib.h>

#include <flotilla/dist.h>
#include <flotilla/experimental/job_data.h>
#include <flotilla/fleet.h>
#include <flotilla/flotilla.h>

/* --- the data: columns of a line, in their order ------------------------------- */

/* FORMAT is the text of format.txt: the same names, and what stands in them. */
#define LABEL "click"
static const char *const numbers[] = { "I1",  "I2",  "I3", "I4", "I5",
                                       "I6",  "I7",  "I8", "I9", "I10",
                                       "I11", "I12", "I13" };
static const char *const categories[] = { "C1", "C2", "C3", "C4",
                                          "C5", "C6", "C7", "C8" };
enum {
    N_NUMBERS = sizeof(numbers) / sizeof(numbers[0]),
    N_CATEGORIES = sizeof(categories) / sizeof(categories[0]),
    N_COLUMNS = 1 + N_NUMBERS + N_CATEGORIES
};

/* --- the network --------------------------------------------------------------- */

enum { WIDTH = 8, HIDDEN = 64, LAYERS = 2, BATCH = 100, EPOCHS = 2 };

typedef struct net {
    const char *columns[N_COLUMNS];
    fl_var *chance, *loss, *auc;
} net;

static void check(bool is_good, const char *what)
{
    if (is_good)
        return;
    fprintf(stderr, "@NAME@: %s: %s\n", what, fl_last_error());
    exit(1);
}

/* log(1 + x) tames counts; what is below 0 counts as 0. */
static fl_var *number(fl_ctx *c, const char *name)
{
    const int64_t one[] = { -1, 1 };
    fl_var *x = fl_layers_data(c, name, FL_DTYPE_F32, 2, one, 0);

    return fl_layers_unary(
        "log", fl_layers_scale(fl_layers_unary("relu", x, NULL), 1, 1), NULL);
}

/* Rows of one table, which grows with the ids it sees. */
static fl_var *category(fl_ctx *c, const char *name)
{
    const int64_t one[] = { -1, 1 };

    return fl_layers_sparse_embedding(
        fl_layers_data(c, name, FL_DTYPE_I64, 2, one, 0), WIDTH,
        .param.name = "categories", .param.init = "uniform(-0.05,0.05)");
}

static net build(fl_ctx *c)
{
    const int64_t one[] = { -1, 1 };
    fl_var *parts[N_NUMBERS + N_CATEGORIES], *label, *h;
    net n = { .columns = { LABEL } };

    label = fl_layers_data(c, LABEL, FL_DTYPE_I64, 2, one, 0);
    for (int i = 0; i < N_NUMBERS; i++) {
        n.columns[1 + i] = numbers[i];
        parts[i] = number(c, numbers[i]);
    }
    for (int i = 0; i < N_CATEGORIES; i++) {
        n.columns[1 + N_NUMBERS + i] = categories[i];
        parts[N_NUMBERS + i] = category(c, categories[i]);
    }
    h = fl_layers_concat(parts, N_NUMBERS + N_CATEGORIES, 1);
    for (int i = 0; i < LAYERS; i++)
        h = fl_layers_fc(h, HIDDEN, .act = "relu");
    n.chance = fl_layers_fc(h, 2, .act = "softmax");
    n.loss = fl_layers_mean(fl_layers_cross_entropy(n.chance, label));
    n.auc = fl_layers_auc(n.chance, label, NULL);
    check(n.loss && n.auc, "building the network");
    return n;
}

/* --- a process of it: alone, or a worker or server of a job ---------------------- */

typedef struct run {
    fl_ctx *ctx;
    fl_fleet *fleet;
    fl_executor *exe;
    net net;
} run;

/* A folder, a file or a pattern. In a job each file goes to one worker. */
static fl_dataset *open_data(const run *r, const char *path, const char *pass)
{
    fl_transpiler *job = fl_fleet_transpiler(r->fleet);
    fl_dataset *d;

    check(!fl_dataset_new(&d, r->ctx, "QueueDataset") &&
              !fl_dataset_set_format(d, FORMAT) &&
              !fl_dataset_set_use_var(d, fl_default_main_program(r->ctx),
                                      r->net.columns, N_COLUMNS) &&
              !fl_dataset_set_filelist(d, &path, 1) &&
              (!job || !fl_job_dispatch_files(fl_transpiler_job(job), d, pass)),
          path);
    fl_dataset_set_batch_size(d, BATCH);
    return d;
}

/* What is printed is of this worker's share. */
static void tell(const run *r, const char *what, const fl_dataset_report *n)
{
    printf("%s: worker %d, %.0f samples, loss %.4f, AUC %.4f\n", what,
           fl_fleet_worker_index(r->fleet), (double)n->samples, n->loss,
           n->auc);
    fflush(stdout);
}

static void train(const run *r, fl_dataset *data, fl_dataset *test)
{
    fl_program *p = fl_fleet_main_program(r->fleet);
    fl_dataset_report n = FL_INIT(fl_dataset_report);
    fl_dataset_run_args args =
        FL_INIT(fl_dataset_run_args, .loss = fl_var_name(r->net.loss),
                .auc = fl_var_name(r->net.auc));

    for (int i = 1; i <= EPOCHS; i++) {
        check(!fl_train_from_dataset_with(r->exe, p, data, &n, &args),
              "training");
        tell(r, "trained", &n);
        check(!fl_infer_from_dataset_with(r->exe, p, test, &n, &args),
              "judging");
        tell(r, "held out", &n);
    }
}

static void work(const run *r, char **argv)
{
    const char *chance = fl_var_name(r->net.chance);
    fl_dataset *data = open_data(r, argv[1], "train");
    fl_dataset *test = open_data(r, argv[2], "test");

    check(!fl_fleet_init_worker(r->fleet), "joining the job");
    check(!fl_run(r->exe, fl_fleet_startup_program(r->fleet), NULL),
          "starting");
    train(r, data, test);
    check(!fl_fleet_util_barrier(r->fleet), "waiting for the other workers");
    if (fl_fleet_is_first_worker(r->fleet))
        check(!fl_save_inference_model(r->exe, argv[3], .targets = &chance,
                                       .n_targets = 1),
              "saving");
    check(!fl_fleet_stop_worker(r->fleet), "leaving the job");
    fl_dataset_free(test);
    fl_dataset_free(data);
}

static void serve(const run *r)
{
    check(!fl_fleet_init_server(r->fleet, NULL) &&
              !fl_fleet_run_server(r->fleet),
          "serving");
}

int main(int argc, char **argv)
{
    fl_optimizer *o = NULL;
    fl_strategy *s = NULL;
    run r = { 0 };

    if (argc != 4) {
        fprintf(stderr, "usage: @NAME@ TRAIN TEST MODEL\n");
        return 2;
    }
    check(!fl_ctx_new(&r.ctx) && !fl_executor_new(&r.exe, r.ctx) &&
              !fl_fleet_init(&r.fleet, r.ctx, NULL) &&
              !fl_strategy_new(&s, r.fleet, "async"),
          "beginning");
    r.net = build(r.ctx);
    check(!fl_optimizer_new(&o, r.ctx, "adam", "learning_rate=0.001") &&
              !fl_fleet_distributed_optimizer(r.fleet, o, s) &&
              !fl_fleet_minimize(r.fleet, r.net.loss),
          "making the optimizer");
    if (fl_fleet_is_server(r.fleet))
        serve(&r);
    else
        work(&r, argv);
    fl_executor_free(r.exe);
    fl_fleet_free(r.fleet);
    fl_ctx_free(r.ctx);
    return 0;
}
