/* goes_on.c DATA END EPOCHS - a job in mode sync over files of each worker's
 * own. It is not written to go on from anywhere; the settings see to that. With
 * GOES_ON_PASSES=FILE it makes no more passes than the number in that file. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "flotilla/flotilla.h"

static const char *const names[] = { "a", "b", "label" };

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, fl_last_error());
    return 1;
}

static fl_var *ids(fl_ctx *c, const char *name)
{
    return fl_layers_data(c, name, FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
}

static fl_status build(fl_ctx *c, fl_fleet *f)
{
    fl_var *parts[2], *h, *out, *loss;
    fl_optimizer *o = NULL;
    fl_strategy *s = NULL;
    fl_status st;

    fl_program_set_seed(fl_default_startup_program(c), 3);
    parts[0] = fl_layers_sparse_embedding(ids(c, "a"), 4, .param.name = "rows");
    parts[1] =
        fl_layers_sparse_embedding(ids(c, "b"), 4, .param.name = "others");
    h = fl_layers_fc(fl_layers_concat(parts, 2, 1), 8, .act = "relu");
    out = fl_layers_fc(fl_layers_dropout(h, 0.3), 2, .act = "softmax");
    loss = fl_layers_mean(fl_layers_cross_entropy(out, ids(c, "label")));
    if (!loss)
        return fl_last_status();
    st = fl_optimizer_new(&o, c, "adam", "learning_rate=0.01");
    if (!st)
        st = fl_strategy_new(&s, f, "sync");
    if (!st)
        st = fl_fleet_distributed_optimizer(f, o, s);
    return st ? st : fl_fleet_minimize(f, loss);
}

static fl_status open_data(fl_dataset **out, fl_ctx *c, const char *data,
                           int rank)
{
    char pattern[4096];
    const char *path = pattern;
    fl_status st = fl_dataset_new(out, c, "InMemoryDataset");

    (void)snprintf(pattern, sizeof(pattern), "%s/part-%d-*", data, rank);
    if (!st)
        st = fl_dataset_set_use_var(*out, fl_default_main_program(c), names, 3);
    if (!st)
        st = fl_dataset_set_filelist(*out, &path, 1);
    fl_dataset_set_batch_size(*out, 10);
    return st ? st : fl_dataset_load_into_memory(*out);
}

static int allowed_passes(const char *path)
{
    char number[16] = "";
    FILE *f = fopen(path, "r");

    if (f) {
        if (!fgets(number, sizeof(number), f))
            number[0] = 0;
        (void)fclose(f);
    }
    return atoi(number);
}

static int may_begin(int pass)
{
    const char *path = getenv("GOES_ON_PASSES");

    for (int ms = 0; path && allowed_passes(path) <= pass; ms += 10) {
        if (ms > 120000)
            return 0;
        (void)usleep(10000);
    }
    return 1;
}

static int train(fl_ctx *c, fl_fleet *f, char **argv)
{
    fl_executor *e = NULL;
    fl_dataset *d = NULL;

    if (fl_executor_new(&e, c) ||
        open_data(&d, c, argv[1], fl_fleet_worker_index(f)) ||
        fl_fleet_init_worker(f) || fl_run(e, fl_fleet_startup_program(f), NULL))
        return fail("beginning");
    for (int i = 0; i < atoi(argv[3]); i++) {
        fl_dataset_report r = FL_INIT(fl_dataset_report);

        if (!may_begin(i))
            return fail("a pass was never allowed");
        if (fl_dataset_local_shuffle(d) ||
            fl_train_from_dataset(e, fl_fleet_main_program(f), d, &r))
            return fail("training");
        printf("pass %d: %llu records%s\n", i, (unsigned long long)r.samples,
               r.was_made_before ? " before" : "");
        fflush(stdout);
    }
    if (fl_fleet_barrier_worker(f) || fl_fleet_save_persistables(f, argv[2]) ||
        fl_fleet_stop_worker(f))
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

    if (argc != 4 || fl_ctx_new(&c) || fl_fleet_init(&f, c, NULL) ||
        build(c, f))
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
