/* predict.c - how fast a saved model scores, against the same network in straight
 * C (floor_predict.c).
 *
 * Both score the same batches in turn, and must agree on every score. A table of
 * ten million rows shows how soon a mapped model gives its first score.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data_text.h"
#include "flotilla/io.h"
#include "floor_parse.h"
#include "harness.h"
#include "predict_parts.h"

#define PAIRS 15
#define FILE_LINES 40000
#define FILE_BATCH 256
#define OPEN_ROWS ((size_t)10000000)
#define OPEN_DIM 10
#define CHUNK ((size_t)100000)

/* Where the model's rows are: copied into memory, where the floor has its own,
   or in the mapped files. */
typedef struct home {
    const char *prefix; /* of the names of its figures */
    bool in_memory;
} home;

static const home homes[] = { { "predict", true },
                              { "predict.mapped", false } };

/* --- figures -------------------------------------------------------------- */

static void put_ratio(const char *prefix, const bench_sample *ours,
                      const bench_sample *straight, size_t n)
{
    double *share = bench_alloc(n * sizeof *share);

    for (size_t i = 0; i < n; i++)
        share[i] = straight[i].cpu_seconds / ours[i].cpu_seconds;
    bench_figure(prefix, "of_straight", share, n, "");
    free(share);
}

/* Runs the sides in turn and writes the ratio of their times. */
static void compare(const char *prefix, bench_side ours, bench_side straight)
{
    size_t n = bench_repeats(PAIRS);
    bench_sample *a = bench_alloc(n * sizeof *a);
    bench_sample *b = bench_alloc(n * sizeof *b);

    ours.run(ours.arg);
    straight.run(straight.arg);
    bench_pairs(&ours, &straight, n, a, b);
    put_ratio(prefix, a, b, n);
    free(a);
    free(b);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void put_latency(const char *prefix, batches *b)
{
    double p50, p99;

    batches_time(b);
    qsort(b->micros, b->n, sizeof *b->micros, by_value);
    p50 = b->micros[b->n / 2];
    p99 = b->micros[b->n * 99 / 100];
    bench_figure(prefix, "p50_us", &p50, 1, "us");
    bench_figure(prefix, "p99_us", &p99, 1, "us");
}

/* What is measured: one record at a time, with feeds that are bound and with
   feeds that are given, and many. */
typedef struct serving {
    const char *name;
    size_t size;
    bool is_bound;
} serving;

static const serving servings[] = { { "b1", 1, true },
                                    { "b1.given", 1, false },
                                    { "b100", 100, false } };

static void measure_batches(models *m, const home *h, const serving *s)
{
    char prefix[64];
    size_t size = s->size;
    batches b;

    snprintf(prefix, sizeof prefix, "%s.%s", h->prefix, s->name);
    batches_init(&b, m, size);
    if (s->is_bound)
        batches_bind(&b);
    compare(prefix, (bench_side){ batches_ours, &b },
            (bench_side){ batches_straight, &b });
    check_scores(b.ours, b.straight, b.n * size);
    put_latency(prefix, &b);
    batches_release(&b);
}

/* --- a file --------------------------------------------------------------- */

typedef struct lines {
    models *m;
    char *text;
    size_t len;
    char path[96];
    fl_ctx *ctx;
    fl_dataset *set;
    floor_record *records;
    uint64_t *ids;
    float *dense, *ours, *straight;
    size_t n_ours, n_straight;
} lines;

/* What the lines have: the floats, the ids and the label. */
static void set_slots(lines *l)
{
    fl_slot slots[CTR_FEEDS] = { { .name = ctr_feed_names[CTR_SLOTS],
                                   .kind = FL_SLOT_FLOATS,
                                   .width = CTR_DENSE } };

    for (int s = 0; s < CTR_SLOTS; s++)
        slots[s + 1] =
            (fl_slot){ .name = ctr_feed_names[s], .kind = FL_SLOT_IDS };
    slots[CTR_FEEDS - 1] = (fl_slot){ .name = ctr_feed_names[CTR_FEEDS - 1],
                                      .kind = FL_SLOT_IDS,
                                      .width = 1 };
    bench_check(fl_dataset_set_slots(l->set, slots, CTR_FEEDS), "slots");
}

static void lines_init(lines *l, models *m)
{
    const char *paths[1];
    FILE *f;

    *l = (lines){ .m = m };
    l->text = bench_text(TEXT_MULTISLOT, FILE_LINES, &l->len);
    snprintf(l->path, sizeof l->path, "%s/lines.txt", m->dir);
    f = fopen(l->path, "w");
    if (!f || fwrite(l->text, 1, l->len, f) != l->len || fclose(f))
        bench_check(FL_ERR_IO, "writing the lines");
    l->records = bench_alloc(FILE_LINES * sizeof *l->records);
    l->ids = bench_alloc(PREDICT_MOST_BATCH * CTR_SLOTS * sizeof *l->ids);
    l->dense = bench_alloc(PREDICT_MOST_BATCH * CTR_DENSE * sizeof *l->dense);
    l->ours = bench_alloc(FILE_LINES * sizeof *l->ours);
    l->straight = bench_alloc(FILE_LINES * sizeof *l->straight);
    bench_check(fl_ctx_new(&l->ctx), "settings");
    bench_check(fl_dataset_new(&l->set, l->ctx, "QueueDataset"), "a dataset");
    set_slots(l);
    paths[0] = l->path;
    bench_check(fl_dataset_set_filelist(l->set, paths, 1), "the file");
    fl_dataset_set_batch_size(l->set, FILE_BATCH);
}

static void lines_release(lines *l)
{
    fl_dataset_free(l->set);
    fl_ctx_free(l->ctx);
    free(l->text);
    free(l->records);
    free(l->ids);
    free(l->dense);
    free(l->ours);
    free(l->straight);
}

static double file_ours(void *arg)
{
    lines *l = arg;
    const fl_feed *feeds;
    fl_feed inputs[PREDICT_INPUTS];
    size_t n;
    fl_tensor t;

    l->n_ours = 0;
    bench_check(fl_dataset_begin(l->set, 1), "reading");
    for (;;) {
        bench_check(fl_dataset_next(l->set, 0, &feeds, &n), "reading");
        if (!feeds)
            break;
        for (int s = 0; s < CTR_SLOTS; s++)
            inputs[s] = feeds[s + 1];
        inputs[CTR_SLOTS] = feeds[0];
        bench_check(
            fl_predictor_run(l->m->predictor, inputs, PREDICT_INPUTS, &t, 1),
            "scoring");
        take_scores(&t, n, l->ours + l->n_ours);
        l->n_ours += n;
    }
    fl_dataset_end(l->set);
    return 0;
}

static void turn_records(lines *l, const floor_record *r, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        memcpy(l->ids + i * CTR_SLOTS, r[i].ids, sizeof r[i].ids);
        memcpy(l->dense + i * CTR_DENSE, r[i].floats, sizeof r[i].floats);
    }
}

/* Reads the file as well. */
static double file_straight(void *arg)
{
    lines *l = arg;
    FILE *f = fopen(l->path, "r");

    if (!f || fread(l->text, 1, l->len, f) != l->len || fclose(f))
        bench_check(FL_ERR_IO, "reading the lines");
    l->n_straight = floor_multislot(l->text, l->len, l->records);
    for (size_t lo = 0; lo < l->n_straight; lo += FILE_BATCH) {
        size_t n = l->n_straight - lo;

        n = n < FILE_BATCH ? n : FILE_BATCH;
        turn_records(l, l->records + lo, n);
        floor_predict_run(l->m->floor, l->ids, l->dense, n, l->straight + lo);
    }
    return 0;
}

static void measure_file(models *m, const home *h)
{
    char prefix[64];
    lines l;

    snprintf(prefix, sizeof prefix, "%s.file", h->prefix);
    lines_init(&l, m);
    compare(prefix, (bench_side){ file_ours, &l },
            (bench_side){ file_straight, &l });
    if (l.n_ours != l.n_straight)
        bench_check(FL_ERR_INVAL, "lines were lost");
    check_scores(l.ours, l.straight, l.n_ours);
    lines_release(&l);
}

/* --- opening -------------------------------------------------------------- */

#ifndef CTR_SMALL
static void save_large(const char *dir)
{
    const char *feed = "ids", *target;
    fl_ctx *c;
    fl_executor *e;
    fl_optimizer *o;
    fl_table *t;
    fl_var *sum;
    uint64_t *keys = bench_alloc(CHUNK * sizeof *keys);
    float *values = bench_alloc(CHUNK * OPEN_DIM * sizeof *values);

    bench_check(fl_ctx_new(&c), "settings");
    bench_check(fl_executor_new(&e, c), "an executor");
    sum = fl_layers_sequence_pool(
        fl_layers_embedding(
            fl_layers_data(c, feed, FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 1),
            (int64_t)OPEN_ROWS, OPEN_DIM, .is_sparse = true,
            .is_distributed = true, .param = { .name = "emb" }),
        "sum");
    bench_check(fl_optimizer_new(&o, c, "adam", ""), "an optimizer");
    bench_check(fl_minimize(o, fl_layers_mean(sum)), "minimize");
    bench_check(fl_run(e, fl_default_startup_program(c), NULL), "starting");
    bench_check(fl_ctx_table(c, "emb", &t), "the table");
    for (size_t lo = 0; lo < OPEN_ROWS; lo += CHUNK) {
        for (size_t i = 0; i < CHUNK; i++)
            keys[i] = lo + i;
        bench_check(fl_table_pull(t, keys, CHUNK, FL_PULL_CREATE, values),
                    "making rows");
    }
    target = fl_var_name(sum);
    bench_check(fl_save_inference_model(e, dir, .feeds = &feed, .n_feeds = 1,
                                        .targets = &target, .n_targets = 1),
                "saving the model");
    fl_executor_free(e);
    fl_ctx_free(c);
    free(keys);
    free(values);
}

/* From the directory to the first score. */
static double open_once(const char *dir)
{
    static const int64_t ids[] = { 5, 6, 9999999 }, offsets[] = { 0, 3 };
    fl_feed feed = { "ids", fl_tensor_ragged(FL_DTYPE_I64, ids, 2,
                                             (int64_t[]){ 3, 1 }, offsets, 1) };
    double start = predict_now_us();
    fl_predictor *p;
    fl_model *m;
    fl_tensor t;

    bench_check(fl_model_open(&m, dir), "opening the model");
    bench_check(fl_predictor_new(&p, m), "a predictor");
    bench_check(fl_predictor_run(p, &feed, 1, &t, 1), "scoring");
    start = predict_now_us() - start;
    fl_predictor_free(p);
    fl_model_close(m);
    return start / 1000;
}

static void measure_open(void)
{
    size_t n = bench_repeats(PAIRS);
    double *ms = bench_alloc(n * sizeof *ms);
    char dir[] = "/tmp/bench_open_XXXXXX";

    bench_check_new(mkdtemp(dir), "a folder");
    save_large(dir);
    for (size_t i = 0; i < n; i++)
        ms[i] = open_once(dir);
    bench_figure("model", "open_ms", ms, n, "ms");
    remove_folder(dir);
    free(ms);
}
#endif

int main(void)
{
    models m;

    models_new(&m);
    for (size_t i = 0; i < sizeof homes / sizeof homes[0]; i++) {
        models_open(&m, homes[i].in_memory, NULL);
        for (size_t k = 0; k < sizeof servings / sizeof servings[0]; k++)
            measure_batches(&m, &homes[i], &servings[k]);
        measure_file(&m, &homes[i]);
        models_close(&m);
    }
    bench_predict_redis(&m);
    models_free(&m);
#ifndef CTR_SMALL
    measure_open();
#endif
    return 0;
}
