/* fleetx_app.c - an application of a built-in model, as users of fleetx know
 * it: configs, model, loader, optimizer, fit.
 *
 *     fleetrun --server_num=1 --worker_num=2 fleetx_app [--NAME=VALUE]...
 *
 * main has the names; --data is a directory of files part-N. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models.h"

static fl_ctx *ctx;
static fl_fleet *fleet;
static model_net net;

static void check(bool is_good)
{
    if (!is_good)
        fprintf(stderr, "fleetx_app: %s\n", fl_last_error()), exit(1);
}

/* Takes --name=value out of the arguments. */
static char *take(char **args, const char *name, char *otherwise)
{
    size_t n = strlen(name);

    for (; *args; args++)
        if (!strncmp(*args, "--", 2) && !strncmp(*args + 2, name, n) &&
            (*args)[n + 2] == '=') {
            otherwise = *args + n + 3;
            **args = '\0';
        }
    return otherwise;
}

static void fit(fl_executor *exe, const char *dir, size_t batch, long epochs)
{
    const char *loss = fl_var_name(net.loss);
    fl_tensor out;
    fl_run_args args =
        FL_INIT(fl_run_args, .feeds = NULL, .n_feeds = net.n_feeds,
                .fetches = &loss, .n_fetches = 1, .out = &out);
    size_t rows, step = 0;
    char path[4096];
    fl_dataset *d;

    snprintf(path, sizeof(path), "%s/part-*", dir);
    check(!model_dataset(&d, ctx, fleet, &net, path, "train"));
    fl_dataset_set_batch_size(d, batch);
    check(!fl_fleet_init_worker(fleet));
    check(!fl_run(exe, fl_fleet_startup_program(fleet), NULL));
    for (long e = 1; e <= epochs; e++, fl_dataset_end(d)) {
        check(!fl_dataset_begin(d, 1));
        while (check(!fl_dataset_next(d, 0, &args.feeds, &rows)), args.feeds) {
            check(!fl_run(exe, fl_fleet_main_program(fleet), &args));
            printf("epoch %ld step %zu loss %f\n", e, ++step,
                   *(float *)out.data);
        }
    }
    check(!fl_fleet_stop_worker(fleet));
    fl_dataset_free(d);
}

int main(int argc, char **argv)
{
    char *data = take(argv, "data", "train_data"), words[64];
    const model *m = model_find(take(argv, "model", "ctr_dnn"));
    long batch = strtol(take(argv, "batch_size", "500"), NULL, 10);
    long epochs = strtol(take(argv, "epochs", "1"), NULL, 10);
    model_args args = { .learning_rate = take(argv, "lr", "0.001"),
                        .decay = strtod(take(argv, "decay", "0.9"), NULL),
                        .decay_steps = 1000,
                        .vocab = take(argv, "vocab", NULL) };
    fl_optimizer *o = NULL;
    fl_strategy *s = NULL;
    fl_executor *exe = NULL;

    snprintf(words, sizeof(words), "a_sync=%s", take(argv, "a_sync", "false"));
    for (int i = 1; i < argc || !m; i++)
        if (!m || *argv[i])
            return fputs("fleetx_app: no such flag or model\n", stderr), 2;
    check(!fl_ctx_new(&ctx) && !fl_executor_new(&exe, ctx) &&
          !fl_fleet_init(&fleet, ctx, NULL));
    check(!m->build(ctx, &args, &net));
    check(!fl_strategy_new(&s, fleet, "a_sync") && !fl_strategy_set(s, words));
    check(!model_optimizer(&o, ctx, m, &args) &&
          !fl_fleet_distributed_optimizer(fleet, o, s));
    check(!fl_fleet_minimize(fleet, net.loss));
    if (fl_fleet_is_worker(fleet))
        fit(exe, data, (size_t)batch, epochs);
    else
        check(!fl_fleet_init_server(fleet, NULL) &&
              !fl_fleet_run_server(fleet));
    fl_executor_free(exe), fl_fleet_free(fleet), fl_ctx_free(ctx);
}
