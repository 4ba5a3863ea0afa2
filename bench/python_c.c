/* python_c.c - the C side of bench python: the same networks, data and orders
 * as python_net.py, which bench/python.py compares it with.
 *
 *     bench_python_c DATA        takes orders on its input, answers each with
 *                                seconds by the clock, and of CPU time
 *     bench_python_c DATA MODE   is a process of a job
 *
 * DATA is a folder: `lines` of format multislot, and `ids`, `dense`, `labels`,
 * the same numbers as arrays. Who finds none makes it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "ctr_net.h"
#include "harness.h"

#define DATA_BATCHES 100
#define TOY_STEPS 2000
#define TOY_BATCH 8
#define FEED_STEPS 20
#define THREADS 2
#define RATE "learning_rate=0.1"

enum { DENSE = CTR_SLOTS, LABEL };

static double now(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- data ----------------------------------------------------------------- */

static FILE *open_part(const char *folder, const char *name, const char *how)
{
    char path[512];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, how);
    if (!f) {
        perror(path);
        exit(1);
    }
    return f;
}

static void write_line(FILE *f, const ctr_data *d, size_t i)
{
    for (size_t k = 0; k < CTR_SLOTS; k++)
        fprintf(f, "1 %llu ", (unsigned long long)d->ids[i * CTR_SLOTS + k]);
    fprintf(f, "%d", CTR_DENSE);
    for (size_t k = 0; k < CTR_DENSE; k++)
        fprintf(f, " %.6f", (double)d->dense[i * CTR_DENSE + k]);
    fprintf(f, " 1 %lld\n", (long long)d->labels[i]);
}

static void write_array(const char *folder, const char *name, const void *from,
                        size_t bytes)
{
    FILE *f = open_part(folder, name, "wb");

    if (fwrite(from, 1, bytes, f) != bytes || fclose(f)) {
        perror(name);
        exit(1);
    }
}

static void write_data(const char *folder, const ctr_data *d)
{
    FILE *f = open_part(folder, "lines", "w");

    for (size_t i = 0; i < d->n; i++)
        write_line(f, d, i);
    if (fclose(f)) {
        perror("lines");
        exit(1);
    }
    write_array(folder, "ids", d->ids, d->n * CTR_SLOTS * sizeof *d->ids);
    write_array(folder, "dense", d->dense, d->n * CTR_DENSE * sizeof *d->dense);
    write_array(folder, "labels", d->labels, d->n * sizeof *d->labels);
}

/* --- the networks --------------------------------------------------------- */

typedef struct side {
    fl_ctx *ctx;
    fl_executor *exe;
    ctr_data data;
    const char *loss;
    int64_t *columns; /* [batch][slot][row], the ids turned */
    fl_dataset *set;
    char lines[512];
} side;

static fl_var *slot_value(fl_ctx *c, int slot)
{
    fl_var *ids = fl_layers_data(c, ctr_feed_names[slot], FL_DTYPE_I64, 2,
                                 (int64_t[]){ -1, 1 }, 0);

    return fl_layers_embedding(
        ids, CTR_ROWS, CTR_DIM, .is_sparse = true,
        .param = { .name = "rows", .init = "uniform(-0.01,0.01)" });
}

/* One id per slot and sample, so that plain arrays can be fed. */
static fl_var *build_ctr(fl_ctx *c)
{
    static const int64_t widths[] = { CTR_WIDTHS };
    fl_var *parts[CTR_SLOTS + 1], *h, *label;

    for (int i = 0; i < CTR_SLOTS; i++)
        parts[i] = slot_value(c, i);
    parts[CTR_SLOTS] = fl_layers_data(c, ctr_feed_names[DENSE], FL_DTYPE_F32, 2,
                                      (int64_t[]){ -1, CTR_DENSE }, 0);
    label = fl_layers_data(c, ctr_feed_names[LABEL], FL_DTYPE_I64, 2,
                           (int64_t[]){ -1, 1 }, 0);
    h = fl_layers_concat(parts, CTR_SLOTS + 1, 1);
    for (int l = 0; l < CTR_LAYERS; l++)
        h = fl_layers_fc(h, widths[l], .act = "relu");
    h = fl_layers_fc(h, CTR_CLASSES, .act = "softmax");
    return fl_layers_mean(fl_layers_cross_entropy(h, label));
}

static fl_var *build_toy(fl_ctx *c)
{
    fl_var *x =
        fl_layers_data(c, "x", FL_DTYPE_F32, 2, (int64_t[]){ -1, 2 }, 0);
    fl_var *y =
        fl_layers_data(c, "y", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *h =
        fl_layers_fc(fl_layers_fc(x, 16, .act = "tanh"), 2, .act = "softmax");

    return fl_layers_mean(fl_layers_cross_entropy(h, y));
}

static void begin(side *s, fl_var *(*build)(fl_ctx *))
{
    fl_optimizer *sgd;
    fl_var *loss;

    bench_check(fl_ctx_new(&s->ctx), "settings");
    bench_check(fl_executor_new(&s->exe, s->ctx), "an executor");
    loss = build(s->ctx);
    bench_check_new(loss, "building the network");
    bench_check(fl_optimizer_new(&sgd, s->ctx, "sgd", RATE),
                "making the optimizer");
    bench_check(fl_minimize(sgd, loss), "minimize");
    s->loss = fl_var_name(loss);
    bench_check(fl_run(s->exe, fl_default_startup_program(s->ctx), NULL),
                "running the startup program");
}

static void end(side *s)
{
    fl_dataset_free(s->set);
    fl_executor_free(s->exe);
    fl_ctx_free(s->ctx);
    free(s->columns);
}

/* --- orders --------------------------------------------------------------- */

static void run_fed(side *s, const fl_feed *feeds, size_t n)
{
    fl_tensor out;
    fl_run_args args = FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = n,
                               .fetches = (const char *const *)&s->loss,
                               .n_fetches = 1, .out = &out);

    bench_check(fl_run(s->exe, fl_default_main_program(s->ctx), &args),
                "a step");
}

static void do_toy(side *s)
{
    static const float x[TOY_BATCH][2] = { { 0.1f, 0.7f } };
    static const int64_t y[TOY_BATCH] = { 0, 1, 0, 1, 1, 0, 1, 0 };
    const fl_feed feeds[] = {
        { "x", fl_tensor_of(FL_DTYPE_F32, x, 2, (int64_t[]){ TOY_BATCH, 2 }) },
        { "y", fl_tensor_of(FL_DTYPE_I64, y, 2, (int64_t[]){ TOY_BATCH, 1 }) },
    };

    for (int i = 0; i < TOY_STEPS; i++)
        run_fed(s, feeds, 2);
}

static void turn_ids(side *s)
{
    s->columns = bench_alloc(s->data.n * CTR_SLOTS * sizeof *s->columns);
    for (size_t i = 0; i < s->data.n; i++)
        for (size_t k = 0; k < CTR_SLOTS; k++)
            s->columns[(i / CTR_BATCH * CTR_SLOTS + k) * CTR_BATCH +
                       i % CTR_BATCH] = (int64_t)s->data.ids[i * CTR_SLOTS + k];
}

static void fill(const side *s, size_t b, fl_feed *feeds)
{
    const int64_t column[2] = { CTR_BATCH, 1 };

    for (size_t k = 0; k < CTR_SLOTS; k++)
        feeds[k].value = fl_tensor_of(
            FL_DTYPE_I64, s->columns + (b * CTR_SLOTS + k) * CTR_BATCH, 2,
            column);
    feeds[DENSE].value =
        fl_tensor_of(FL_DTYPE_F32, s->data.dense + b * CTR_BATCH * CTR_DENSE, 2,
                     (int64_t[]){ CTR_BATCH, CTR_DENSE });
    feeds[LABEL].value =
        fl_tensor_of(FL_DTYPE_I64, s->data.labels + b * CTR_BATCH, 2, column);
}

static void do_feed(side *s)
{
    fl_feed feeds[CTR_FEEDS];

    for (int i = 0; i < CTR_FEEDS; i++)
        feeds[i].name = ctr_feed_names[i];
    for (size_t b = 0; b < FEED_STEPS; b++) {
        fill(s, b % DATA_BATCHES, feeds);
        run_fed(s, feeds, CTR_FEEDS);
    }
}

static void open_set(side *s, fl_program *p)
{
    const char *const path = s->lines;

    bench_check(fl_dataset_new(&s->set, s->ctx, "InMemoryDataset"),
                "a dataset");
    bench_check(fl_dataset_set_use_var(s->set, p, ctr_feed_names, CTR_FEEDS),
                "its variables");
    fl_dataset_set_batch_size(s->set, CTR_BATCH);
    fl_dataset_set_thread(s->set, 1);
    bench_check(fl_dataset_set_filelist(s->set, &path, 1), "its files");
    bench_check(fl_dataset_load_into_memory(s->set), "reading");
}

static void pass(side *s, fl_program *p, int n_threads)
{
    bench_check(fl_train_from_dataset(s->exe, p, s->set, NULL,
                                      .n_threads = n_threads,
                                      .print_period = -1),
                "training");
}

static void do_dataset(side *s)
{
    pass(s, fl_default_main_program(s->ctx), THREADS);
}

static void answer(void (*work)(side *), side *s)
{
    double clock = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);

    work(s);
    printf("%.6f %.6f\n", now(CLOCK_MONOTONIC) - clock,
           now(CLOCK_PROCESS_CPUTIME_ID) - cpu);
    fflush(stdout);
}

static void begin_ctr(side *s, const char *folder)
{
    begin(s, build_ctr);
    snprintf(s->lines, sizeof s->lines, "%s/lines", folder);
    turn_ids(s);
    open_set(s, fl_default_main_program(s->ctx));
}

static void take_orders(const char *folder, const ctr_data *data)
{
    static const struct {
        const char *name;
        void (*work)(side *);
        bool is_toy;
    } orders[] = { { "toy", do_toy, true },
                   { "feed", do_feed, false },
                   { "loader", do_feed, false },
                   { "dataset", do_dataset, false } };
    side toy = { 0 }, ctr = { .data = *data };
    char line[32];

    begin(&toy, build_toy);
    begin_ctr(&ctr, folder);
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
            if (!strcmp(orders[i].name, line))
                answer(orders[i].work, orders[i].is_toy ? &toy : &ctr);
        }
    }
    end(&toy);
    end(&ctr);
}

/* --- a job ---------------------------------------------------------------- */

static void work(side *s, fl_fleet *f)
{
    fl_program *p = fl_fleet_main_program(f);
    double clock;

    open_set(s, p);
    bench_check(fl_fleet_init_worker(f), "joining");
    bench_check(fl_run(s->exe, fl_fleet_startup_program(f), NULL), "startup");
    pass(s, p, 1);
    bench_check(fl_fleet_barrier_worker(f), "a barrier");
    clock = now(CLOCK_MONOTONIC);
    pass(s, p, 1);
    bench_check(fl_fleet_barrier_worker(f), "a barrier");
    if (fl_fleet_is_first_worker(f))
        printf("seconds %.6f\n", now(CLOCK_MONOTONIC) - clock);
    fflush(stdout);
    bench_check(fl_fleet_stop_worker(f), "leaving");
}

static void join_job(const char *folder, const char *mode)
{
    side s = { 0 };
    fl_strategy *how;
    fl_optimizer *sgd;
    fl_fleet *f;
    fl_var *loss;

    snprintf(s.lines, sizeof s.lines, "%s/lines", folder);
    bench_check(fl_ctx_new(&s.ctx), "settings");
    bench_check(fl_executor_new(&s.exe, s.ctx), "an executor");
    bench_check(fl_fleet_init(&f, s.ctx, NULL), "the job");
    bench_check(fl_strategy_new(&how, f, mode), "the mode");
    loss = build_ctr(s.ctx);
    bench_check_new(loss, "building the network");
    bench_check(fl_optimizer_new(&sgd, s.ctx, "sgd", RATE), "the optimizer");
    bench_check(fl_fleet_distributed_optimizer(f, sgd, how), "the strategy");
    bench_check(fl_fleet_minimize(f, loss), "minimize");
    if (fl_fleet_is_worker(f)) {
        work(&s, f);
    } else {
        bench_check(fl_fleet_init_server(f, NULL), "a server");
        bench_check(fl_fleet_run_server(f), "serving");
    }
    fl_dataset_free(s.set);
    fl_executor_free(s.exe);
    fl_fleet_free(f);
    fl_ctx_free(s.ctx);
}

int main(int argc, char **argv)
{
    ctr_data data;

    if (argc == 3) {
        join_job(argv[1], argv[2]);
        return 0;
    }
    if (argc != 2) {
        fprintf(stderr, "give DATA [MODE]\n");
        return 2;
    }
    ctr_data_init(&data, DATA_BATCHES, 1);
    if (mkdir(argv[1], 0700) == 0)
        write_data(argv[1], &data);
    take_orders(argv[1], &data);
    ctr_data_release(&data);
    return 0;
}
