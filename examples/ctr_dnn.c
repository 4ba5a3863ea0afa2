/* ctr_dnn.c - clicks from Criteo logs: fleetrun ... ctr_dnn TRAIN TEST EPOCHS
 * [MODE], TRAIN and TEST being directories of logs (`flotilla datagen` makes
 * some). Alone it is one process. The network is in models/ctr_dnn.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models.h"

enum { BATCH = 500, BUCKETS = 4096 /* of the operator auc */ };

static fl_ctx *ctx;
static fl_fleet *fleet;
static model_net net;

static void check(bool is_good)
{
    if (!is_good)
        fprintf(stderr, "ctr_dnn: %s\n", fl_last_error()), exit(1);
}

/* Over what all workers have scored in their last pass. */
static double global_auc(void)
{
    static double counts[2][BUCKETS];
    fl_tensor t[2];
    double auc;

    check(
        !fl_scope_get(fl_current_scope(ctx), fl_var_name(net.stat_pos),
                      &t[0]) &&
        !fl_scope_get(fl_current_scope(ctx), fl_var_name(net.stat_neg), &t[1]));
    for (int i = 0; i < BUCKETS; i++) {
        counts[0][i] = (double)((int64_t *)t[0].data)[i];
        counts[1][i] = (double)((int64_t *)t[1].data)[i];
    }
    check(!fl_fleet_metrics_auc(fleet, counts[0], counts[1], BUCKETS, &auc));
    return auc;
}

static void work(fl_executor *exe, char **args)
{
    fl_program *p = fl_fleet_main_program(fleet);
    fl_dataset *train, *test;
    double n = 0, seconds = 0;
    fl_dataset_report r = FL_INIT(fl_dataset_report);
    char line[128];

    check(!model_dataset(&train, ctx, fleet, &net, args[1], "train"));
    check(!model_dataset(&test, ctx, fleet, &net, args[2], "test"));
    fl_dataset_set_batch_size(train, BATCH);
    fl_dataset_set_batch_size(test, BATCH);
    check(!fl_fleet_init_worker(fleet));
    check(!fl_run(exe, fl_fleet_startup_program(fleet), NULL));
    for (long left = strtol(args[3], NULL, 10); left > 0; left--) {
        check(!fl_train_from_dataset(
            exe, p, train, &r, .on_progress = fl_progress_to_file,
            .progress_arg = stdout, .loss = fl_var_name(net.loss)));
        n += (double)r.samples, seconds += r.seconds;
    }
    check(!fl_fleet_metrics_sum(fleet, n, &n));
    check(!fl_fleet_metrics_max(fleet, seconds, &seconds));
    check(
        !fl_infer_from_dataset(exe, p, test, &r, .auc = fl_var_name(net.auc)));
    snprintf(line, sizeof(line), "%.0f samples/s, AUC on held-out clicks %.4f",
             n / seconds, global_auc());
    fl_fleet_util_print_on_rank(fleet, 0, line);
    check(!fl_fleet_stop_worker(fleet));
    fl_dataset_free(test), fl_dataset_free(train);
}

int main(int argc, char **argv)
{
    const char *mode = argc == 5 ? argv[4] : "async";
    const model *m = model_find("ctr_dnn");
    /* Mode geo exchanges values, which Adam's state would not fit. */
    model_args a = { .optimizer = strcmp(mode, "geo") ? NULL : "adagrad" };
    fl_optimizer *o = NULL;
    fl_executor *exe = NULL;
    fl_strategy *s = NULL;

    if (argc != 4 && argc != 5)
        return fputs("give TRAIN TEST EPOCHS [MODE]\n", stderr), 2;
    check(!fl_ctx_new(&ctx) && !fl_executor_new(&exe, ctx) &&
          !fl_fleet_init(&fleet, ctx, NULL) &&
          !fl_strategy_new(&s, fleet, mode));
    check(!m->build(ctx, &a, &net) && !model_optimizer(&o, ctx, m, &a) &&
          !fl_fleet_distributed_optimizer(fleet, o, s) &&
          !fl_fleet_minimize(fleet, net.loss));
    if (fl_fleet_is_worker(fleet))
        work(exe, argv);
    else
        check(!fl_fleet_init_server(fleet, NULL) &&
              !fl_fleet_run_server(fleet));
    fl_executor_free(exe), fl_fleet_free(fleet), fl_ctx_free(ctx);
}
