/* predict_batches.c - the model that is scored, and its batches. */
#include "predict_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "flotilla/io.h"
#include "harness.h"

#define CHUNK ((size_t)100000)
#define TOLERANCE 1e-4

static double now_us(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

double predict_now_us(void)
{
    return now_us(CLOCK_MONOTONIC);
}

/* --- the models ----------------------------------------------------------- */

/* Rows for every id that may come, with their first values. */
static float *make_rows(fl_ctx *c)
{
    float *rows = bench_alloc((size_t)CTR_ROWS * CTR_DIM * sizeof *rows);
    uint64_t *keys = bench_alloc(CHUNK * sizeof *keys);
    fl_table *t;

    bench_check(fl_ctx_table(c, ctr_parts[0].name, &t), "the table");
    for (size_t lo = 0; lo < CTR_ROWS; lo += CHUNK) {
        size_t n = CTR_ROWS - lo < CHUNK ? CTR_ROWS - lo : CHUNK;

        for (size_t i = 0; i < n; i++)
            keys[i] = lo + i;
        bench_check(
            fl_table_pull(t, keys, n, FL_PULL_CREATE, rows + lo * CTR_DIM),
            "making rows");
    }
    free(keys);
    return rows;
}

static floor_predict *make_floor(fl_ctx *c, const float *rows)
{
    const float *dense[CTR_PARTS - 1];

    for (int i = 1; i < CTR_PARTS; i++) {
        fl_tensor t;

        bench_check(fl_scope_get(fl_current_scope(c), ctr_parts[i].name, &t),
                    "a parameter");
        dense[i - 1] = t.data;
    }
    return floor_predict_new(dense, rows, CTR_ROWS, PREDICT_MOST_BATCH);
}

static void save(fl_executor *e, const char *dir, const char *target)
{
    bench_check(fl_save_inference_model(e, dir, .feeds = ctr_feed_names,
                                        .n_feeds = PREDICT_INPUTS,
                                        .targets = &target, .n_targets = 1),
                "saving the model");
}

void models_new(models *m)
{
    ctr_net_names names;
    fl_executor *e;
    fl_ctx *c;
    float *rows;

    snprintf(m->dir, sizeof m->dir, "/tmp/bench_predict_XXXXXX");
    bench_check_new(mkdtemp(m->dir), "a folder");
    ctr_data_init(&m->data, PREDICT_SAMPLES / CTR_BATCH + 1, 3);
    bench_check(fl_ctx_new(&c), "settings");
    names = ctr_net_build(c, &(ctr_net_spec){ .is_distributed = true,
                                              .optimizer = "adam",
                                              .settings = "" });
    bench_check(fl_executor_new(&e, c), "an executor");
    bench_check(fl_run(e, fl_default_startup_program(c), NULL), "starting");
    rows = make_rows(c);
    m->floor = make_floor(c, rows);
    free(rows);
    save(e, m->dir, names.predicted);
    fl_executor_free(e);
    fl_ctx_free(c);
}

void models_open(models *m, bool in_memory, fl_row_source *rows)
{
    bench_check(
        fl_model_open(&m->model, m->dir, .in_memory = in_memory, .rows = rows),
        "opening the model");
    bench_check(fl_predictor_new(&m->predictor, m->model), "a predictor");
}

void models_close(models *m)
{
    fl_predictor_free(m->predictor);
    fl_model_close(m->model);
}

void remove_folder(const char *dir)
{
    char line[128];

    snprintf(line, sizeof line, "rm -rf %s", dir);
    if (system(line))
        fprintf(stderr, "bench: %s stays\n", dir);
}

void models_free(models *m)
{
    floor_predict_free(m->floor);
    ctr_data_release(&m->data);
    remove_folder(m->dir);
}

/* --- batches -------------------------------------------------------------- */

/* The ids of batch k, turned so that each slot is one list. */
static void turn_ids(batches *b, size_t k)
{
    const uint64_t *from = b->m->data.ids + k * b->size * CTR_SLOTS;
    int64_t *ids = b->ids + k * CTR_SLOTS * b->size;

    for (size_t i = 0; i < b->size; i++)
        for (size_t s = 0; s < CTR_SLOTS; s++)
            ids[s * b->size + i] = (int64_t)from[i * CTR_SLOTS + s];
}

static void make_feeds(batches *b)
{
    const int64_t n = (int64_t)b->size;

    for (size_t s = 0; s < CTR_SLOTS; s++)
        b->feeds[s] =
            (fl_feed){ ctr_feed_names[s],
                       fl_tensor_ragged(FL_DTYPE_I64, b->ids, 2,
                                        (int64_t[]){ n, 1 }, b->offsets, n) };
    b->feeds[CTR_SLOTS] =
        (fl_feed){ ctr_feed_names[CTR_SLOTS],
                   fl_tensor_of(FL_DTYPE_F32, b->m->data.dense, 2,
                                (int64_t[]){ n, CTR_DENSE }) };
}

static void point_at(batches *b, int64_t *ids, float *dense)
{
    for (size_t s = 0; s < CTR_SLOTS; s++)
        b->feeds[s].value.data = ids + s * b->size;
    b->feeds[CTR_SLOTS].value.data = dense;
}

void batches_init(batches *b, models *m, size_t size)
{
    size_t n = PREDICT_SAMPLES / size;

    *b = (batches){ .m = m, .size = size, .n = n };
    b->ids = bench_alloc(n * CTR_SLOTS * size * sizeof *b->ids);
    b->offsets = bench_alloc((size + 1) * sizeof *b->offsets);
    b->bound_ids = bench_alloc(CTR_SLOTS * size * sizeof *b->bound_ids);
    b->bound_dense = bench_alloc(size * CTR_DENSE * sizeof *b->bound_dense);
    b->micros = bench_alloc(n * sizeof *b->micros);
    b->ours = bench_alloc(n * size * sizeof *b->ours);
    b->straight = bench_alloc(n * size * sizeof *b->straight);
    for (size_t i = 0; i <= size; i++)
        b->offsets[i] = (int64_t)i;
    for (size_t k = 0; k < n; k++)
        turn_ids(b, k);
    make_feeds(b);
}

void batches_bind(batches *b)
{
    b->is_bound = true;
    point_at(b, b->bound_ids, b->bound_dense);
    bench_check(fl_predictor_bind(b->m->predictor, b->feeds, PREDICT_INPUTS),
                "binding");
}

void batches_release(batches *b)
{
    free(b->ids);
    free(b->offsets);
    free(b->bound_ids);
    free(b->bound_dense);
    free(b->micros);
    free(b->ours);
    free(b->straight);
}

void take_scores(const fl_tensor *t, size_t n, float *to)
{
    for (size_t i = 0; i < n; i++)
        to[i] = ((const float *)t->data)[i * CTR_CLASSES + 1];
}

static void run_bound(batches *b, const int64_t *ids, const float *dense,
                      fl_tensor *out)
{
    memcpy(b->bound_ids, ids, CTR_SLOTS * b->size * sizeof *ids);
    memcpy(b->bound_dense, dense, b->size * CTR_DENSE * sizeof *dense);
    bench_check(fl_predictor_run_bound(b->m->predictor, out, 1), "scoring");
}

static void score(batches *b, size_t k)
{
    int64_t *ids = b->ids + k * CTR_SLOTS * b->size;
    float *dense = b->m->data.dense + k * b->size * CTR_DENSE;
    fl_tensor t;

    if (b->is_bound) {
        run_bound(b, ids, dense, &t);
    } else {
        point_at(b, ids, dense);
        bench_check(
            fl_predictor_run(b->m->predictor, b->feeds, PREDICT_INPUTS, &t, 1),
            "scoring");
    }
    take_scores(&t, b->size, b->ours + k * b->size);
}

double batches_ours(void *arg)
{
    batches *b = arg;

    for (size_t k = 0; k < b->n; k++)
        score(b, k);
    return 0;
}

void batches_time(batches *b)
{
    double last = now_us(CLOCK_THREAD_CPUTIME_ID);

    for (size_t k = 0; k < b->n; k++) {
        double now;

        score(b, k);
        now = now_us(CLOCK_THREAD_CPUTIME_ID);
        b->micros[k] = now - last;
        last = now;
    }
}

double batches_straight(void *arg)
{
    batches *b = arg;
    const ctr_data *d = &b->m->data;

    for (size_t k = 0; k < b->n; k++)
        floor_predict_run(b->m->floor, d->ids + k * b->size * CTR_SLOTS,
                          d->dense + k * b->size * CTR_DENSE, b->size,
                          b->straight + k * b->size);
    return 0;
}

void check_scores(const float *ours, const float *straight, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)(ours[i] - straight[i])) < TOLERANCE)) {
            fprintf(stderr, "bench: score %zu is %g, straight %g\n", i,
                    (double)ours[i], (double)straight[i]);
            exit(1);
        }
}
