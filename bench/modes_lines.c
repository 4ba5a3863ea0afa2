/* modes_lines.c - the lines, the network and the passes over them.
 *
 *  C1 ... C26 -> first_order, a number each ----------> sum ------+
 *          +---> second_order, 8 each --+-> ((sum)^2 - sum of ^2) -+-> sigmoid
 *                                       +-> 64 -> 32 -> 1 --------+
 *  dense [n, 13] -----------------------+
 *
 * As built-in models are: rows of any id in hashed tables, AUC and log loss
 * counted along. Adagrad, which all modes take.
 */
#include "modes_lines.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness.h"
#include "models.h"

/* --- the lines ------------------------------------------------------------ */

/* The largest integers of columns I1 to I13 (docs/formats/criteo.md). */
static const double largest[CTR_DENSE] = { 20, 600, 100, 50, 64000, 500, 100,
                                           50, 500, 10,  10, 10,    50 };
#define EMPTY 0.1 /* share of integers that are not there */

/* Small integers are frequent. */
static void write_line(FILE *f, const ctr_data *d, size_t i)
{
    fprintf(f, "%d", (int)d->labels[i]);
    for (size_t k = 0; k < CTR_DENSE; k++) {
        double x = d->dense[i * CTR_DENSE + k];

        fputc('\t', f);
        if (x >= EMPTY)
            fprintf(f, "%.0f", floor(pow(largest[k], x)));
    }
    for (size_t k = 0; k < CTR_SLOTS; k++)
        fprintf(f, "\t%08x", (unsigned)d->ids[i * CTR_SLOTS + k]);
    fputc('\n', f);
}

static void write_file(const char *path, int fd, const ctr_data *d, size_t lo)
{
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

    for (size_t i = 0; f && i < (size_t)LINES_BATCHES * CTR_BATCH; i++)
        write_line(f, d, lo + i);
    if (f && !fclose(f))
        return;
    perror(path);
    exit(1);
}

void lines_task_init(lines_task *t, const ctr_data *d)
{
    const char *dir = getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp";

    for (size_t i = 0; i < LINES_FILES; i++) {
        char *path = t->paths[i];

        snprintf(path, sizeof t->paths[i], "%.40s/flotilla-bench-XXXXXX", dir);
        write_file(path, mkstemp(path), d, i * LINES_BATCHES * CTR_BATCH);
    }
}

void lines_task_release(lines_task *t)
{
    for (size_t i = 0; i < LINES_FILES; i++)
        unlink(t->paths[i]);
}

/* --- the network ---------------------------------------------------------- */

/* Rows of all slots side by side: [n, 26 * width]. */
static fl_var *rows_of(fl_var *const *ids, int64_t width, fl_param_attr attr)
{
    fl_var *rows[CTR_SLOTS];

    for (size_t s = 0; s < CTR_SLOTS; s++)
        rows[s] = fl_layers_sparse_embedding(ids[s], width, .param = attr);
    return fl_layers_concat(rows, CTR_SLOTS, 1);
}

static fl_var *sum_of(fl_var *rows)
{
    return fl_layers_unary("reduce_sum", rows, "{dim=[1]}");
}

/* How well any two go together: [n, 1]. */
static fl_var *pairs_of(fl_var *rows)
{
    fl_var *x;

    rows = fl_layers_reshape(rows, 3, (int64_t[]){ -1, CTR_SLOTS, CTR_DIM });
    x = fl_layers_binary("elementwise_sub", fl_layers_square(sum_of(rows)),
                         sum_of(fl_layers_square(rows)), NULL);
    x = fl_layers_unary("reduce_sum", x, "{dim=[1], keep_dim=true}");
    return fl_layers_scale(x, 0.5, 0);
}

static fl_var *layers_of(fl_var *rows, fl_var *dense)
{
    static const int64_t widths[] = { CTR_WIDTHS };
    fl_var *x = fl_layers_concat((fl_var *[]){ rows, dense }, 2, 1);

    for (int i = 0; i < CTR_LAYERS; i++)
        x = model_fc(x, widths[i], "relu");
    return model_fc(x, 1, NULL);
}

static void build_net(fl_ctx *c, model_net *net)
{
    fl_var *ids[CTR_SLOTS], *label, *dense, *rows, *parts[3];
    fl_optimizer *o;

    label = model_ids(c, net, "label", 1);
    dense = model_floats(c, net, ctr_feed_names[CTR_SLOTS], CTR_DENSE);
    for (size_t s = 0; s < CTR_SLOTS; s++)
        ids[s] = model_ids(c, net, ctr_feed_names[s], 1);
    rows = rows_of(
        ids, 1,
        (fl_param_attr){ .name = "first_order", .init = "constant(0)" });
    parts[0] = fl_layers_unary("reduce_sum", rows, "{dim=[1], keep_dim=true}");
    rows = rows_of(ids, CTR_DIM,
                   (fl_param_attr){ .name = "second_order",
                                    .init = "truncated_normal(0,0.03)" });
    parts[1] = pairs_of(rows);
    parts[2] = layers_of(rows, dense);
    bench_check(model_judge_clicks(net, fl_layers_sum(parts, 3), label),
                "building the network");
    bench_check(fl_optimizer_new(&o, c, "adagrad", "learning_rate=0.01"),
                "making the optimizer");
    bench_check(fl_minimize(o, net->loss), "minimize");
}

/* --- passes --------------------------------------------------------------- */

typedef struct reader {
    model_net net;
    fl_dataset *data;
    int n_threads;
} reader;

static void build_lines(fl_ctx *c, const job_spec *s)
{
    model_net *net = bench_alloc(sizeof *net);

    (void)s;
    build_net(c, net);
    free(net);
}

static fl_dataset *open_lines(fl_ctx *c, const model_net *net,
                              const char *const *paths, int n)
{
    fl_dataset *d;

    bench_check(fl_dataset_new(&d, c, "QueueDataset"), "making a dataset");
    bench_check(fl_dataset_set_format(d, "criteo"), "naming the format");
    bench_check(fl_dataset_set_use_var(d, fl_default_main_program(c),
                                       net->feeds, net->n_feeds),
                "naming the slots");
    bench_check(fl_dataset_set_filelist(d, paths, (size_t)n),
                "naming the files");
    fl_dataset_set_batch_size(d, CTR_BATCH);
    fl_dataset_set_thread(d, n);
    return d;
}

static void *begin_lines(fl_ctx *c, const job_spec *s, int rank)
{
    const lines_task *task = s->task;
    reader *r = bench_alloc(sizeof *r);
    const char *paths[LINES_FILES];

    for (int i = 0; i < LINES_FILES; i++)
        paths[i] = task->paths[i];
    r->n_threads = s->n_trainers ? 1 : LINES_FILES;
    build_net(c, &r->net);
    r->data = open_lines(c, &r->net, paths + rank, r->n_threads);
    return r;
}

static double train_lines(void *state, fl_executor *e, fl_program *p,
                          const member_order *o)
{
    reader *r = state;
    fl_dataset_report report = FL_INIT(fl_dataset_report);

    bench_check(fl_train_from_dataset(
                    e, p, r->data, &report, .n_threads = r->n_threads,
                    .print_period = -1, .loss = fl_var_name(r->net.loss)),
                "training from lines");
    if (report.batches != (uint64_t)r->n_threads * LINES_BATCHES ||
        o->n % LINES_BATCHES)
        bench_check(FL_ERR_INVAL, "a turn that is not one pass");
    return report.loss;
}

static void end_lines(void *state)
{
    reader *r = state;

    fl_dataset_free(r->data);
    free(r);
}

const job_work lines_work = { .build = build_lines,
                              .begin = begin_lines,
                              .train = train_lines,
                              .end = end_lines };
