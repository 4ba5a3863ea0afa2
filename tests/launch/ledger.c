/* ledger.c DATA END EPOCHS MODE - a job whose model is a ledger: every record has a
 * row of its own, and each time it is trained the row goes down by the same number.
 * What trainers keep for themselves, a histogram, counts records as well. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flotilla/flotilla.h"

static const char *const names[] = { "id", "label" };

static fl_var *histograms[2]; /* of positive and negative labels */

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, fl_last_error());
    return 1;
}

static fl_var *number(fl_ctx *c, const char *name)
{
    return fl_layers_data(c, name, FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
}

/* The sum of the rows is the loss, so that each has the gradient 1. */
static fl_status build(fl_ctx *c, fl_fleet *f, const char *mode)
{
    fl_var *row, *chance, *loss;
    fl_optimizer *o = NULL;
    fl_strategy *s = NULL;
    fl_status st;

    row = fl_layers_sparse_embedding(number(c, "id"), 1, .param.name = "rows",
                                     .param.init = "constant(0)");
    chance = fl_layers_sigmoid(row);
    loss = fl_layers_reduce_sum(row);
    if (!loss ||
        !fl_layers_auc(chance, number(c, "label"), NULL, .num_thresholds = 1,
                       .stat_pos = &histograms[0], .stat_neg = &histograms[1]))
        return fl_last_status();
    st = fl_optimizer_new(&o, c, "sgd", "learning_rate=1");
    if (!st)
        st = fl_strategy_new(&s, f, mode);
    if (!st)
        st = fl_fleet_distributed_optimizer(f, o, s);
    return st ? st : fl_fleet_minimize(f, loss);
}

/* Of gradients that are averaged over threads, the last batches would have others
   than the rest. */
static int threads_of(const char *mode)
{
    return strcmp(mode, "async") == 0 ? 2 : 1;
}

static fl_status open_data(fl_dataset **out, fl_ctx *c, char **argv, int rank)
{
    char pattern[4096];
    const char *path = pattern;
    fl_status st = fl_dataset_new(out, c, "QueueDataset");

    (void)snprintf(pattern, sizeof(pattern), "%s/part-%d-*", argv[1], rank);
    if (!st)
        st = fl_dataset_set_use_var(*out, fl_default_main_program(c), names, 2);
    if (!st)
        st = fl_dataset_set_filelist(*out, &path, 1);
    fl_dataset_set_batch_size(*out, 2);
    fl_dataset_set_thread(*out, threads_of(argv[4]));
    return st;
}

static fl_status tell_counts(fl_ctx *c)
{
    long long n = 0;

    for (int i = 0; i < 2; i++) {
        fl_tensor t;
        fl_status st =
            fl_scope_get(fl_current_scope(c), fl_var_name(histograms[i]), &t);

        if (st)
            return st;
        for (int64_t k = 0; k < fl_tensor_numel(&t); k++)
            n += ((const int64_t *)t.data)[k];
    }
    printf("counted %lld records\n", n);
    fflush(stdout);
    return FL_OK;
}

static int train(fl_ctx *c, fl_fleet *f, char **argv)
{
    fl_executor *e = NULL;
    fl_dataset *d = NULL;

    if (fl_executor_new(&e, c) ||
        open_data(&d, c, argv, fl_fleet_worker_index(f)) ||
        fl_fleet_init_worker(f) || fl_run(e, fl_fleet_startup_program(f), NULL))
        return fail("beginning");
    for (int i = 0; i < atoi(argv[3]); i++)
        if (fl_train_from_dataset(e, fl_fleet_main_program(f), d, NULL))
            return fail("training");
    if (tell_counts(c) || fl_fleet_barrier_worker(f) ||
        fl_fleet_save_persistables(f, argv[2]) || fl_fleet_stop_worker(f))
        return fail("ending");
    fl_dataset_free(d);
    fl_executor_free(e);
    return 0;
}

int main(int argc, char **argv)
{
    fl_fleet *f = NULL;
    fl_ctx *c = NULL;
    int code;

    if (argc != 5 || fl_ctx_new(&c) || fl_fleet_init(&f, c, NULL) ||
        build(c, f, argv[4]))
        return fail("building");
    if (fl_fleet_is_server(f))
        code = fl_fleet_init_server(f, NULL) || fl_fleet_run_server(f)
                   ? fail("serving")
                   : 0;
    else
        code = train(c, f, argv);
    fl_fleet_free(f);
    fl_ctx_free(c);
    return code;
}
