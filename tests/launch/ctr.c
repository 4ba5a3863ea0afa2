/* ctr.c - CTR-DNN on files of each worker's own, and models compared.
 *
 *     ctr train DATA MODE OPTIMIZER RATE OUT [FROM]
 *                                               a worker reads DATA/part-RANK;
 *                                               FROM is a model to go on from
 *     ctr compare MODEL MODEL LIMIT             |a - b| / max(1, |a|) of every
 *                                               number
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flotilla/fleet.h"
#include "flotilla/flotilla.h"
#include "flotilla/saved.h"
#include "models.h"
#include "../make.h"

enum { BATCH = 50, HIDDEN = 32 };

static void check(fl_status st, const char *what)
{
    if (!st)
        return;
    fprintf(stderr, "%s: %s\n", what, fl_last_error());
    exit(1);
}

/* --- training ------------------------------------------------------------- */

static void build(fl_ctx *c, fl_fleet *f, char **argv, model_net *net)
{
    model_args args = { .hidden = HIDDEN,
                        .optimizer = argv[4],
                        .learning_rate = argv[5] };
    const model *m = model_find("ctr_dnn");
    fl_optimizer *o = NULL;

    fl_program_set_seed(fl_default_startup_program(c), 5);
    check(m->build(c, &args, net), "network");
    check(model_optimizer(&o, c, m, &args), "optimizer");
    check(fl_fleet_distributed_optimizer(f, o, make_strategy(f, argv[3])),
          "strategy");
    check(fl_fleet_minimize(f, net->loss), "programs");
}

static fl_dataset *open_data(fl_ctx *c, const model_net *net, const char *dir,
                             int rank)
{
    fl_dataset *d = NULL;
    char text[4096];
    const char *path = text;

    (void)snprintf(text, sizeof(text), "%s/part-%d", dir, rank);
    check(fl_dataset_new(&d, c, "QueueDataset"), "data");
    check(fl_dataset_set_format(d, net->format), "format");
    check(fl_dataset_set_use_var(d, fl_default_main_program(c), net->feeds,
                                 net->n_feeds),
          "slots");
    check(fl_dataset_set_filelist(d, &path, 1), "files");
    fl_dataset_set_batch_size(d, BATCH);
    return d;
}

static void work(fl_ctx *c, fl_fleet *f, const model_net *net, char **argv)
{
    fl_executor *e = make_executor(c);
    fl_dataset *d = open_data(c, net, argv[2], fl_fleet_worker_index(f));
    fl_dataset_report r = FL_INIT(fl_dataset_report);

    check(fl_run(e, fl_fleet_startup_program(f), NULL), "startup");
    if (argv[7] && !fl_fleet_server_num(f))
        check(fl_fleet_load_model(f, argv[7]), "load");
    check(fl_train_from_dataset(e, fl_fleet_main_program(f), d, &r), "pass");
    check(fl_fleet_barrier_worker(f), "barrier");
    check(fl_fleet_save_persistables(f, argv[6]), "save");
    check(fl_fleet_stop_worker(f), "end");
    fl_dataset_free(d);
    fl_executor_free(e);
}

static int train(char **argv)
{
    fl_ctx *c = make_ctx();
    fl_fleet *f = NULL;
    model_net net = { 0 };

    check(fl_fleet_init(&f, c, NULL), "role");
    build(c, f, argv, &net);
    if (fl_fleet_is_worker(f)) {
        work(c, f, &net, argv);
    } else {
        check(fl_fleet_init_server(f, argv[7]), "server");
        check(fl_fleet_run_server(f), "server");
    }
    fl_fleet_free(f);
    fl_ctx_free(c);
    return 0;
}

/* --- comparing ------------------------------------------------------------ */

typedef struct worst {
    double error;
    char where[128];
    size_t n;
} worst;

static void look(worst *w, const char *name, const float *a, const float *b,
                 size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double x = (double)a[i], y = (double)b[i];
        double error = fabs(x - y) / fmax(1, fabs(x));

        w->n++;
        if (error <= w->error)
            continue;
        w->error = error;
        (void)snprintf(w->where, sizeof(w->where), "%s[%zu]: %.9g and %.9g",
                       name, i, x, y);
    }
}

static size_t count(const fl_tensor *t)
{
    size_t n = 1;

    for (int i = 0; i < t->shape.rank; i++)
        n *= (size_t)t->shape.dim[i];
    return n;
}

static void compare_dense(const fl_saved *a, const fl_saved *b, worst *w)
{
    fl_tensor x, y;
    const char *name;

    for (size_t i = 0; !fl_saved_tensor(a, i, &name, &x); i++) {
        if (x.dtype != FL_DTYPE_F32)
            continue;
        check(fl_saved_find(b, name, &y), "variable");
        look(w, name, x.data, y.data, count(&x));
    }
}

static void compare_rows(const fl_saved *a, const fl_saved *b,
                         const char *table, worst *w)
{
    fl_saved_row x = FL_INIT(fl_saved_row), y = FL_INIT(fl_saved_row);
    fl_saved_rows *of_a = NULL, *of_b = NULL;

    check(fl_saved_rows_open(&of_a, a, table), "table");
    check(fl_saved_rows_open(&of_b, b, table), "table");
    while (fl_saved_rows_next(of_a, &x)) {
        if (!fl_saved_rows_find(of_b, x.key, &y) || x.n_fields != y.n_fields) {
            fprintf(stderr, "a row of %s is missing\n", table);
            exit(1);
        }
        for (uint32_t f = 0; f < x.n_fields; f++)
            look(w, x.fields[f].name, x.fields[f].values, y.fields[f].values,
                 x.fields[f].len);
    }
    fl_saved_rows_close(of_a);
    fl_saved_rows_close(of_b);
}

static int compare(char **argv)
{
    double limit = strtod(argv[4], NULL);
    fl_saved_table t = FL_INIT(fl_saved_table), u = FL_INIT(fl_saved_table);
    fl_saved *a = NULL, *b = NULL;
    fl_ctx *c = make_ctx();
    worst w = { 0 };

    check(fl_saved_open(&a, c, argv[2]), "model");
    check(fl_saved_open(&b, c, argv[3]), "model");
    compare_dense(a, b, &w);
    for (size_t i = 0; !fl_saved_table_at(a, i, &t); i++) {
        check(fl_saved_table_at(b, i, &u), "table");
        if (t.rows != u.rows)
            return fprintf(stderr, "%s has other rows\n", t.name), 1;
        compare_rows(a, b, t.name, &w);
    }
    printf("%zu numbers, worst %g: %s\n", w.n, w.error, w.where);
    fl_saved_close(a);
    fl_saved_close(b);
    fl_ctx_free(c);
    return w.error > limit || !w.n;
}

int main(int argc, char **argv)
{
    if ((argc == 7 || argc == 8) && !strcmp(argv[1], "train"))
        return train(argv);
    if (argc == 5 && !strcmp(argv[1], "compare"))
        return compare(argv);
    return fputs("usage: see the head of ctr.c\n", stderr), 2;
}
