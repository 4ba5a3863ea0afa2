/* data_train.c - how much of its speed training keeps when its data comes in by
 * feeder, reader, worker process, text file or records in memory.
 *
 * One click network is trained by two hogwild threads on the same records, by
 * each way in turn; the yardstick are batches that lie ready in memory, so that
 * a step costs nothing but itself. The text is one file of about 1 GB. Readers
 * and feeders get their records one by one, value list by value list. A run
 * takes a few seconds: the start of a worker process, after which training
 * copies the pages that it writes to, is part of it, as of an epoch.
 */
#include "data_train.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctr_data.h"
#include "flotilla/flotilla.h"
#include "harness.h"

#define THREADS 2
#define DATA_BATCHES 300
#define RUN_BATCHES 240
#define WARM_BATCHES 8
#define ROUNDS 5
#define FILE_BYTES (1ull << 30)
#define N_FEEDS (CTR_SLOTS + 2)
enum { DENSE = CTR_SLOTS, LABEL };

static const char *const feed_names[N_FEEDS] = {
    "C1",  "C2",  "C3",  "C4",  "C5",  "C6",  "C7",    "C8",   "C9",  "C10",
    "C11", "C12", "C13", "C14", "C15", "C16", "C17",   "C18",  "C19", "C20",
    "C21", "C22", "C23", "C24", "C25", "C26", "dense", "label"
};

/* What all ways share. */
typedef struct shop {
    fl_ctx *ctx;
    fl_executor *exe;
    fl_program *program;
    ctr_data data;
    int64_t *columns; /* [batch][slot][row], the ids turned */
    int64_t offsets[CTR_BATCH + 1];
    fl_feeder *feeders[THREADS];
    fl_reader *reader, *processes;
    fl_dataset *queue, *memory;
    char path[64];
    atomic_size_t next; /* batch to deal */
    size_t end;
    size_t sample[2]; /* that a reader's generator is at */
} shop;

typedef struct way {
    const char *name;
    void (*begin)(shop *s); /* of a run; may be NULL */
    bool (*next)(void *shop, int thread, fl_feed *feeds);
    void (*end)(shop *s);
} way;

/* --- the network --------------------------------------------------------- */

static fl_var *slot_value(fl_ctx *c, int slot)
{
    fl_var *ids = fl_layers_data(c, feed_names[slot], FL_DTYPE_I64, 2,
                                 (int64_t[]){ -1, 1 }, 1);

    ids = fl_layers_embedding(
        ids, CTR_ROWS, CTR_DIM, .is_sparse = true,
        .param = { .name = "rows", .init = "uniform(-0.01,0.01)" });
    return fl_layers_sequence_pool(ids, "sum");
}

static void build(shop *s)
{
    fl_var *parts[CTR_SLOTS + 1], *label, *h, *loss;
    fl_optimizer *sgd;

    bench_check(fl_ctx_new(&s->ctx), "settings");
    for (int i = 0; i < CTR_SLOTS; i++)
        parts[i] = slot_value(s->ctx, i);
    parts[CTR_SLOTS] = fl_layers_data(s->ctx, "dense", FL_DTYPE_F32, 2,
                                      (int64_t[]){ -1, CTR_DENSE }, 0);
    label = fl_layers_data(s->ctx, "label", FL_DTYPE_I64, 2,
                           (int64_t[]){ -1, 1 }, 0);
    h = fl_layers_concat(parts, CTR_SLOTS + 1, 1);
    for (int l = 0; l < CTR_LAYERS; l++)
        h = fl_layers_fc(h, (int64_t[]){ CTR_WIDTHS }[l], .act = "relu");
    loss = fl_layers_mean(fl_layers_cross_entropy(
        fl_layers_fc(h, CTR_CLASSES, .act = "softmax"), label));
    bench_check_new(loss, "building the network");
    bench_check(fl_optimizer_new(&sgd, s->ctx, "sgd", "learning_rate=0.1"),
                "making the optimizer");
    bench_check(fl_minimize(sgd, loss), "minimize");
    bench_check(fl_executor_new(&s->exe, s->ctx), "an executor");
    s->program = fl_default_main_program(s->ctx);
    bench_check(fl_run(s->exe, fl_default_startup_program(s->ctx), NULL),
                "running the startup program");
}

/* --- from memory --------------------------------------------------------- */

static void turn_ids(shop *s)
{
    size_t n = s->data.n;

    s->columns = bench_alloc(n * CTR_SLOTS * sizeof *s->columns);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < CTR_SLOTS; k++)
            s->columns[(i / CTR_BATCH * CTR_SLOTS + k) * CTR_BATCH +
                       i % CTR_BATCH] = (int64_t)s->data.ids[i * CTR_SLOTS + k];
    for (int i = 0; i <= CTR_BATCH; i++)
        s->offsets[i] = i;
}

/* The number of the next batch; false when the run is over. */
static bool deal(shop *s, size_t *at)
{
    *at = atomic_fetch_add(&s->next, 1);
    return *at < s->end;
}

static bool next_of_memory(void *arg, int thread, fl_feed *feeds)
{
    shop *s = arg;
    const int64_t column[2] = { CTR_BATCH, 1 };
    size_t at, b;

    (void)thread;
    if (!deal(s, &at))
        return false;
    b = at % DATA_BATCHES;
    for (size_t k = 0; k < CTR_SLOTS; k++)
        feeds[k].value = fl_tensor_ragged(
            FL_DTYPE_I64, s->columns + (b * CTR_SLOTS + k) * CTR_BATCH, 2,
            column, s->offsets, CTR_BATCH);
    feeds[DENSE].value =
        fl_tensor_of(FL_DTYPE_F32, s->data.dense + b * CTR_BATCH * CTR_DENSE, 2,
                     (int64_t[]){ CTR_BATCH, CTR_DENSE });
    feeds[LABEL].value =
        fl_tensor_of(FL_DTYPE_I64, s->data.labels + b * CTR_BATCH, 2, column);
    return true;
}

/* --- by feeder and readers ----------------------------------------------- */

static fl_status put_sample(const shop *s, fl_feeder *f, size_t i)
{
    uint64_t label = (uint64_t)s->data.labels[i];
    fl_status st = FL_OK;

    for (size_t k = 0; k < CTR_SLOTS && !st; k++)
        st =
            fl_feeder_ids(f, feed_names[k], &s->data.ids[i * CTR_SLOTS + k], 1);
    if (!st)
        st = fl_feeder_floats(f, "dense", s->data.dense + i * CTR_DENSE,
                              CTR_DENSE);
    if (!st)
        st = fl_feeder_ids(f, "label", &label, 1);
    return st ? st : fl_feeder_end_sample(f);
}

static void hand_over(const fl_feed *from, fl_feed *to)
{
    memcpy(to, from, N_FEEDS * sizeof *to);
}

static bool next_of_feeder(void *arg, int thread, fl_feed *feeds)
{
    shop *s = arg;
    fl_feeder *f = s->feeders[thread];
    const fl_feed *got;
    size_t at, n_rows;

    if (!deal(s, &at))
        return false;
    fl_feeder_begin(f);
    for (size_t i = 0; i < CTR_BATCH; i++)
        bench_check(put_sample(s, f, at % DATA_BATCHES * CTR_BATCH + i),
                    "feeding");
    bench_check(fl_feeder_feeds(f, &got, &n_rows), "feeding");
    hand_over(got, feeds);
    return true;
}

/* A reader's counter: a process counts in its own copy. */
typedef struct generator {
    shop *shop;
    int which;
} generator;

static fl_status generate(void *arg, int worker, fl_feeder *into, bool *end)
{
    generator *g = arg;
    size_t i = g->shop->sample[g->which]++;

    (void)worker;
    *end = i >= g->shop->end * CTR_BATCH;
    return *end ? FL_OK : put_sample(g->shop, into, i % g->shop->data.n);
}

static void start_reader(shop *s, fl_reader *r, int which)
{
    s->sample[which] = 0;
    bench_check(fl_reader_start(r), "starting the reader");
}

static void begin_reader(shop *s)
{
    start_reader(s, s->reader, 0);
}

static void begin_processes(shop *s)
{
    start_reader(s, s->processes, 1);
}

static bool read_next(fl_reader *r, int thread, fl_feed *feeds)
{
    const fl_feed *got;
    size_t n_rows;

    bench_check(fl_reader_next(r, thread, &got, &n_rows), "reading");
    if (got)
        hand_over(got, feeds);
    return got != NULL;
}

static bool next_of_reader(void *arg, int thread, fl_feed *feeds)
{
    return read_next(((shop *)arg)->reader, thread, feeds);
}

static bool next_of_processes(void *arg, int thread, fl_feed *feeds)
{
    return read_next(((shop *)arg)->processes, thread, feeds);
}

static void end_reader(shop *s)
{
    fl_reader_reset(s->reader);
}

static void end_processes(shop *s)
{
    fl_reader_reset(s->processes);
}

static void make_readers(shop *s)
{
    static generator threads, processes;

    threads = (generator){ s, 0 };
    processes = (generator){ s, 1 };
    bench_check(fl_reader_new(&s->reader, s->program, feed_names, N_FEEDS),
                "making a reader");
    bench_check(fl_reader_new(&s->processes, s->program, feed_names, N_FEEDS,
                              .workers = FL_READER_PROCESSES),
                "making a reader with processes");
    fl_reader_decorate_sample_generator(s->reader, generate, &threads,
                                        CTR_BATCH, false);
    fl_reader_decorate_sample_generator(s->processes, generate, &processes,
                                        CTR_BATCH, false);
    for (int t = 0; t < THREADS; t++)
        bench_check(
            fl_feeder_new(&s->feeders[t], s->program, feed_names, N_FEEDS),
            "making a feeder");
}

/* --- from a file --------------------------------------------------------- */

static void write_sample(const shop *s, FILE *f, size_t i)
{
    for (size_t k = 0; k < CTR_SLOTS; k++)
        fprintf(f, "1 %llu ",
                (unsigned long long)s->data.ids[i * CTR_SLOTS + k]);
    fprintf(f, "%d", CTR_DENSE);
    for (size_t k = 0; k < CTR_DENSE; k++)
        fprintf(f, " %.6f", (double)s->data.dense[i * CTR_DENSE + k]);
    fprintf(f, " 1 %lld\n", (long long)s->data.labels[i]);
}

/* One pass over the data in memory, then copies of it until it is 1 GB. */
static void write_file(shop *s)
{
    const char *dir = getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp";
    char *text = NULL;
    size_t len = 0;
    unsigned long long done = 0;
    FILE *f = open_memstream(&text, &len);
    int fd;

    for (size_t i = 0; i < s->data.n; i++)
        write_sample(s, f, i);
    fclose(f);
    snprintf(s->path, sizeof s->path, "%.40s/flotilla-bench-XXXXXX", dir);
    fd = mkstemp(s->path);
    for (; done < FILE_BYTES; done += len)
        if (fd < 0 || write(fd, text, len) != (ssize_t)len) {
            perror("bench: writing the text file");
            exit(1);
        }
    close(fd);
    free(text);
    fprintf(stderr, "bench: data: a text file of %.2f GB\n",
            1e-9 * (double)done);
}

static fl_dataset *open_file(shop *s, const char *kind)
{
    const char *path = s->path;
    fl_dataset *d;

    bench_check(fl_dataset_new(&d, s->ctx, kind), "making a dataset");
    bench_check(fl_dataset_set_use_var(d, s->program, feed_names, N_FEEDS),
                "naming the slots");
    bench_check(fl_dataset_set_filelist(d, &path, 1), "naming the file");
    fl_dataset_set_batch_size(d, CTR_BATCH);
    fl_dataset_set_thread(d, THREADS);
    return d;
}

/* Records in memory are those of the arrays: the file is cut after them. */
static void load_memory(shop *s)
{
    char head[64];

    s->memory = open_file(s, "InMemoryDataset");
    snprintf(head, sizeof head, "head -n %zu", s->data.n);
    fl_dataset_set_pipe_command(s->memory, head);
    bench_check(fl_dataset_load_into_memory(s->memory), "loading");
    bench_check(fl_dataset_local_shuffle(s->memory), "shuffling");
}

static bool dataset_next(shop *s, fl_dataset *d, int thread, fl_feed *feeds)
{
    const fl_feed *got;
    size_t at, n_rows;

    if (!deal(s, &at))
        return false;
    bench_check(fl_dataset_next(d, thread, &got, &n_rows), "reading");
    if (got)
        hand_over(got, feeds);
    return got != NULL;
}

static bool next_of_queue(void *arg, int thread, fl_feed *feeds)
{
    shop *s = arg;

    return dataset_next(s, s->queue, thread, feeds);
}

static bool next_of_records(void *arg, int thread, fl_feed *feeds)
{
    shop *s = arg;

    return dataset_next(s, s->memory, thread, feeds);
}

static void begin_queue(shop *s)
{
    bench_check(fl_dataset_begin(s->queue, THREADS), "beginning a pass");
}

static void end_queue(shop *s)
{
    fl_dataset_end(s->queue);
}

static void begin_records(shop *s)
{
    bench_check(fl_dataset_begin(s->memory, THREADS), "beginning a pass");
}

static void end_records(shop *s)
{
    fl_dataset_end(s->memory);
}

/* --- measuring ----------------------------------------------------------- */

static const way ways[] = {
    { "memory", NULL, next_of_memory, NULL },
    { "feeder", NULL, next_of_feeder, NULL },
    { "reader", begin_reader, next_of_reader, end_reader },
    { "multiprocess", begin_processes, next_of_processes, end_processes },
    { "queue", begin_queue, next_of_queue, end_queue },
    { "inmemory", begin_records, next_of_records, end_records },
};
enum { N_WAYS = sizeof ways / sizeof ways[0] };

typedef struct run_of {
    shop *shop;
    const way *way;
} run_of;

static double train(void *arg)
{
    run_of *r = arg;
    shop *s = r->shop;
    fl_hogwild_args h =
        FL_INIT(fl_hogwild_args, .n_threads = THREADS, .feed_names = feed_names,
                .n_feeds = N_FEEDS, .next = r->way->next, .arg = s);

    atomic_store(&s->next, 0);
    if (r->way->begin)
        r->way->begin(s);
    bench_check(fl_run_hogwild(s->exe, s->program, &h), "training");
    if (r->way->end)
        r->way->end(s);
    return 0;
}

static void report(const double *seconds, size_t n)
{
    double *rate = bench_alloc(n * sizeof *rate);
    double *ratio = bench_alloc(n * sizeof *ratio);
    char name[64];

    for (size_t w = 0; w < N_WAYS; w++) {
        for (size_t i = 0; i < n; i++) {
            rate[i] = 1e-3 * RUN_BATCHES * CTR_BATCH / seconds[i * N_WAYS + w];
            ratio[i] = seconds[i * N_WAYS] / seconds[i * N_WAYS + w];
        }
        snprintf(name, sizeof name, "data.%s", ways[w].name);
        bench_figure(name, "train_rate", rate, n, "k samples/s");
        if (w)
            bench_figure(name, "of_memory", ratio, n, "ratio");
    }
    free(rate);
    free(ratio);
}

static void measure(shop *s)
{
    size_t n = bench_repeats(ROUNDS);
    double *seconds = bench_alloc(n * N_WAYS * sizeof *seconds);

    s->end = WARM_BATCHES;
    for (size_t w = 0; w < N_WAYS; w++)
        (void)train(&(run_of){ s, &ways[w] });
    s->end = RUN_BATCHES;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < N_WAYS; k++) {
            size_t w = (i + k) % N_WAYS;
            run_of r = { s, &ways[w] };

            seconds[i * N_WAYS + w] =
                bench_run(&(bench_side){ train, &r }).seconds;
        }
    report(seconds, n);
    free(seconds);
}

/* How much of their time two threads wait for the file, over a whole pass. */
static void report_waiting(shop *s)
{
    fl_dataset_report r = FL_INIT(fl_dataset_report);
    double share;

    bench_check(fl_train_from_dataset(s->exe, s->program, s->queue, &r,
                                      .n_threads = THREADS),
                "training on the whole file");
    share = r.wait_seconds / r.seconds;
    bench_figure("data.file", "wait_share", &share, 1, "ratio");
    share = 1e-3 * (double)r.samples / r.seconds;
    bench_figure("data.file", "train_rate", &share, 1, "k samples/s");
}

void bench_data_train(void)
{
    static shop s;

    ctr_data_init(&s.data, DATA_BATCHES, 3);
    build(&s);
    turn_ids(&s);
    make_readers(&s);
    write_file(&s);
    s.queue = open_file(&s, "QueueDataset");
    load_memory(&s);
    measure(&s);
    report_waiting(&s);
    fl_dataset_free(s.queue);
    fl_dataset_free(s.memory);
    fl_reader_free(s.reader);
    fl_reader_free(s.processes);
    for (int t = 0; t < THREADS; t++)
        fl_feeder_free(s.feeders[t]);
    fl_executor_free(s.exe);
    fl_ctx_free(s.ctx);
    ctr_data_release(&s.data);
    free(s.columns);
    unlink(s.path);
}
