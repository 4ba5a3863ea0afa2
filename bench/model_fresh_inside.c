/* model_fresh_inside.c - how soon what a job has learnt is online: from a push to
 * the changed score of a predictor that watches the folder the job saves to.
 *
 * Two servers hold the table and save a delta every second; a trainer trains at
 * its own pace all the time. Now and then one of its batches has a row that no
 * other has: when the step is over the push is applied, and the clock of that row
 * begins. It ends when the predictor gives another score than before. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/thread.h"
#include "flotilla/dist.h"
#include "flotilla/flotilla.h"
#include "flotilla/predict.h"
#include "harness.h"
#include "model_parts.h"
#include "ps_process.h"

#define SERVERS 2
#define DIM 10
#define CHUNK 100000
#define BATCH 256
#define PROBES 400
#define PROBE_EVERY_NS UINT64_C(50000000)
#define LOOK_NS 1000000
#define WATCH_MS 20
#define DELTA_EVERY_MS "1000"
#define GIVES_UP_NS UINT64_C(120000000000)
#define PATH_BYTES 256

typedef struct server {
    const char *addresses, *dir;
    int rank;
    fl_thread *thread;
} server;

typedef struct fresh {
    char dir[PATH_BYTES], addresses[SERVERS * (ADDRESS_MAX + 1)];
    uint64_t n_rows;
    server servers[SERVERS];
    fl_ctx *ctx;
    fl_executor *exe;
    fl_transpiler *transpiler;
    fl_var *score;
    fl_thread *trainer;
    atomic_bool is_over;
    atomic_size_t n_pushed;
    uint64_t pushed_ns[PROBES]; /* those below n_pushed are known */
    fl_model *model;
    fl_predictor *predictor;
    float before[PROBES];
    double ms[PROBES];
} fresh;

/* --- servers -------------------------------------------------------------- */

static void serve(void *arg)
{
    const server *s = arg;
    fl_ctx *c;

    bench_check(fl_ctx_new(&c), "a context");
    bench_check(fl_ctx_set(c, "save_dir", s->dir), "save_dir");
    bench_check(fl_ctx_set(c, "save_delta_every_ms", DELTA_EVERY_MS), "deltas");
    bench_check(fl_job_serve(c, .servers = s->addresses, .rank = s->rank,
                             .n_trainers = 1),
                "serving");
    fl_ctx_free(c);
}

static void start_servers(fresh *f)
{
    size_t len = 0;

    for (int i = 0; i < SERVERS; i++) {
        char address[ADDRESS_MAX];

        process_free_address(address);
        len += (size_t)snprintf(f->addresses + len, sizeof f->addresses - len,
                                "%s%s", i ? "," : "", address);
    }
    for (int i = 0; i < SERVERS; i++) {
        f->servers[i] = (server){ f->addresses, f->dir, .rank = i };
        bench_check(fl_thread_start(&f->servers[i].thread, "server", serve,
                                    &f->servers[i]),
                    "a thread");
    }
}

/* --- the trainer ---------------------------------------------------------- */

static fl_var *build(fresh *f)
{
    const int64_t column[] = { -1, 1 }, rows[] = { 1 };
    fl_var *ids = fl_layers_data(f->ctx, "ids", FL_DTYPE_I64, 2, column, 0);
    fl_var *label = fl_layers_data(f->ctx, "label", FL_DTYPE_F32, 2, column, 0);

    /* Nothing dense: a score changes with its row alone. */
    f->score = fl_layers_reduce(
        "reduce_sum",
        fl_layers_sparse_embedding(ids, DIM, .param = { .name = "emb" }), rows,
        1, true);
    return fl_layers_mean(fl_layers_square_error_cost(f->score, label));
}

static void join(fresh *f)
{
    fl_optimizer *o = NULL;
    fl_var *loss;

    bench_check(fl_ctx_new(&f->ctx), "a context");
    bench_check(fl_executor_new(&f->exe, f->ctx), "an executor");
    loss = build(f);
    bench_check_new(loss, "the network");
    bench_check(fl_optimizer_new(&o, f->ctx, "adam", "learning_rate=0.01"),
                "an optimizer");
    bench_check(fl_minimize(o, loss), "minimize");
    bench_check(fl_transpile(&f->transpiler, f->ctx, .role = FL_ROLE_WORKER,
                             .pservers = f->addresses, .n_trainers = 1,
                             .mode = "sync"),
                "transpile");
    bench_check(
        fl_run(f->exe, fl_transpiler_trainer_startup(f->transpiler), NULL),
        "joining");
}

static void fill_rows(fresh *f)
{
    static uint64_t keys[CHUNK];
    static float grads[CHUNK * DIM];
    fl_rows rows = {
        .keys = keys, .values = grads, .dim = DIM, .lr = 0.01, .merged = true
    };

    for (size_t i = 0; i < CHUNK * DIM; i++)
        grads[i] = (float)(i % 7) - 3;
    for (uint64_t lo = 0; lo < f->n_rows; lo += rows.n) {
        rows.n = f->n_rows - lo < CHUNK ? (size_t)(f->n_rows - lo) : CHUNK;
        for (size_t i = 0; i < rows.n; i++)
            keys[i] = lo + i;
        bench_check(fl_job_push(fl_transpiler_job(f->transpiler), 0, &rows),
                    "filling the table");
    }
}

/* A step with the row of a probe, or without. Low ids are frequent, as in logs:
   every power of ten has the same share. */
static void train_step(fresh *f, uint64_t step, int64_t probe)
{
    static int64_t ids[BATCH];
    static float labels[BATCH];
    const int64_t column[] = { BATCH, 1 };
    const fl_feed feeds[] = {
        { "ids", fl_tensor_of(FL_DTYPE_I64, ids, 2, column) },
        { "label", fl_tensor_of(FL_DTYPE_F32, labels, 2, column) },
    };

    for (size_t i = 0; i < BATCH; i++) {
        uint64_t dice = fl_mix64(step * BATCH + i);
        double unit = (double)(dice >> 11) * 0x1p-53;

        ids[i] = PROBES - 1 + (int64_t)pow((double)(f->n_rows - PROBES), unit);
        labels[i] = (float)(dice & 1);
    }
    if (probe >= 0)
        ids[0] = probe;
    bench_check(fl_run(f->exe, fl_transpiler_trainer(f->transpiler),
                       FL_OPTIONS(fl_run_args, .feeds = feeds, .n_feeds = 2)),
                "a step");
}

static void train(void *arg)
{
    fresh *f = arg;
    uint64_t due_ns = fl_now_ns();

    for (uint64_t step = 0; !atomic_load(&f->is_over); step++) {
        size_t n = atomic_load(&f->n_pushed);
        bool has_probe = n < PROBES && fl_now_ns() >= due_ns;

        train_step(f, step, has_probe ? (int64_t)n : -1);
        if (!has_probe)
            continue;
        due_ns += PROBE_EVERY_NS;
        f->pushed_ns[n] = fl_now_ns();
        atomic_store(&f->n_pushed, n + 1);
    }
}

/* --- the predictor -------------------------------------------------------- */

static void open_model(fresh *f)
{
    const char *target = fl_var_name(f->score);

    bench_check(fl_model_open(&f->model, f->dir, .targets = &target,
                              .n_targets = 1, .watch_ms = WATCH_MS),
                "opening the model");
    bench_check(fl_predictor_new(&f->predictor, f->model), "a predictor");
}

static void score(const fresh *f, float out[PROBES])
{
    static int64_t ids[PROBES];
    const int64_t column[] = { PROBES, 1 };
    fl_feed feed = { "ids", fl_tensor_of(FL_DTYPE_I64, ids, 2, column) };
    fl_tensor scores;

    for (int64_t i = 0; i < PROBES; i++)
        ids[i] = i;
    bench_check(fl_predictor_run(f->predictor, &feed, 1, &scores, 1),
                "scoring");
    memcpy(out, scores.data, PROBES * sizeof(*out));
}

/* Rows whose score has changed: their clocks end. */
static size_t note_changed(fresh *f, bool has_changed[PROBES])
{
    size_t n = atomic_load(&f->n_pushed), n_new = 0;
    static float now[PROBES];
    uint64_t now_ns;

    score(f, now);
    now_ns = fl_now_ns();
    for (size_t i = 0; i < n; i++) {
        if (has_changed[i] || now[i] == f->before[i])
            continue;
        has_changed[i] = true;
        f->ms[i] = 1e-6 * (double)(now_ns - f->pushed_ns[i]);
        n_new++;
    }
    return n_new;
}

static void look(fresh *f)
{
    const struct timespec pause = { .tv_nsec = LOOK_NS };
    uint64_t began_ns = fl_now_ns();
    bool has_changed[PROBES] = { 0 };
    size_t n_seen = 0;

    while (n_seen < PROBES) {
        if (fl_now_ns() - began_ns > GIVES_UP_NS)
            bench_check_new(NULL, "a push that becomes visible");
        nanosleep(&pause, NULL);
        n_seen += note_changed(f, has_changed);
    }
}

/* --- all of it ------------------------------------------------------------ */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The figure is the 99th percentile. */
static void report(fresh *f)
{
    bench_spread s;

    qsort(f->ms, PROBES, sizeof(*f->ms), by_size);
    s = (bench_spread){ .median = f->ms[PROBES * 99 / 100],
                        .low = f->ms[0],
                        .high = f->ms[PROBES - 1],
                        .q1 = f->ms[PROBES / 4],
                        .q3 = f->ms[PROBES * 3 / 4] };
    bench_row("model.fresh_ms", &s, "ms");
}

static void end(fresh *f)
{
    char command[PATH_BYTES + 16];

    atomic_store(&f->is_over, true);
    fl_thread_join(f->trainer);
    fl_predictor_free(f->predictor);
    fl_model_close(f->model);
    bench_check(fl_job_stop(fl_transpiler_job(f->transpiler)), "leaving");
    for (int i = 0; i < SERVERS; i++)
        fl_thread_join(f->servers[i].thread);
    fl_transpiler_free(f->transpiler);
    fl_executor_free(f->exe);
    fl_ctx_free(f->ctx);
    snprintf(command, sizeof command, "rm -rf %s", f->dir);
    if (system(command))
        perror(f->dir);
}

void bench_model_fresh(void)
{
    fresh *f = bench_alloc(sizeof *f);

    fl_log_set_level(FL_LOG_ERROR);
    f->n_rows = bench_model_rows();
    snprintf(f->dir, sizeof f->dir, "/dev/shm/fl_bench_fresh_%d",
             (int)getpid());
    start_servers(f);
    join(f);
    fill_rows(f);
    bench_check(fl_job_save(fl_transpiler_job(f->transpiler), f->dir),
                "saving");
    open_model(f);
    score(f, f->before);
    bench_check(fl_thread_start(&f->trainer, "trainer", train, f), "a thread");
    look(f);
    report(f);
    end(f);
    free(f);
}
