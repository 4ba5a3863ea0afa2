/* model_job.c - a job that trains while it is saved: what is left of its speed,
 * and how long a training thread waits for the cut.
 *
 * Two trainers and two servers with many rows share the cores of this machine.
 * While a save runs they train turn after turn, for WINDOW_S at the most: a save
 * that makes room for training takes long, and ends soon when nobody trains any
 * more. Then as many turns without one. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "model_parts.h"
#include "modes_job.h"
#include "modes_net.h"

#define CHUNK ((size_t)100000)
#define PAIRS 9
#define SERVERS 2
#define TRAINERS 2
#define TURN 4 /* batches of each trainer */
#define WINDOW_S 4.0
#define DATA_BATCHES 64
#define SEED 11

static const ctr_net_spec net = { .is_distributed = true,
                                  .rows = MODEL_ROWS,
                                  .optimizer = "adam",
                                  .settings = "learning_rate=0.001" };

/* --- in a trainer --------------------------------------------------------- */

typedef struct trainer {
    modes_threads threads;
    int rank;
} trainer;

static void build(fl_ctx *c, const job_spec *s)
{
    (void)s;
    (void)ctr_net_build(c, &net);
}

static void *begin(fl_ctx *c, const job_spec *s, int rank)
{
    trainer *t = bench_alloc(sizeof *t);

    t->rank = rank;
    modes_threads_init(&t->threads, c, &net, s->task, 1);
    t->threads.stride = TRAINERS;
    return t;
}

/* Answers with the longest time between two batches. */
static double train(void *state, fl_executor *e, fl_program *p,
                    const member_order *o)
{
    trainer *t = state;

    (void)modes_threads_train(&t->threads, e, p, o->first + (size_t)t->rank,
                              o->n);
    return t->threads.longest;
}

/* Servers get rows 0 to o->n. */
static double make_rows(void *state, fl_transpiler *from, const member_order *o)
{
    uint64_t *keys = bench_alloc(CHUNK * sizeof *keys);
    float *values = bench_alloc(CHUNK * CTR_DIM * sizeof *values);
    fl_job *j = fl_transpiler_job(from);
    int table;

    (void)state;
    bench_check(fl_job_find_table(j, ctr_parts[0].name, &table), "the table");
    for (size_t lo = 0; lo < o->n; lo += CHUNK) {
        size_t n = o->n - lo < CHUNK ? o->n - lo : CHUNK;

        for (size_t i = 0; i < n; i++)
            keys[i] = lo + i;
        bench_check(fl_job_pull(j, table, keys, n, FL_PULL_CREATE, values),
                    "making rows");
    }
    free(keys);
    free(values);
    return 0;
}

static void end(void *state)
{
    trainer *t = state;

    modes_threads_release(&t->threads);
    free(t);
}

static const job_work work = { .build = build,
                               .begin = begin,
                               .train = train,
                               .judge = make_rows,
                               .end = end };

/* --- in the saver --------------------------------------------------------- */

typedef struct saver {
    fl_ctx *ctx;
    char server[ADDRESS_MAX]; /* server 0 */
    char dir[64];
} saver;

static void *begin_saver(const void *spec)
{
    saver *s = bench_alloc(sizeof *s);

    *s = *(const saver *)spec;
    s->ctx = job_ctx(SEED);
    bench_check(fl_ctx_set(s->ctx, "join_token", "bench"), "settings");
    return s;
}

/* Any order but the last is one to save. */
static void be_saver(void *state, const member_order *o, member_answer *out)
{
    saver *s = state;
    char *version;

    (void)out;
    if (o->what == MEMBER_END) {
        fl_ctx_free(s->ctx);
        free(s);
        return;
    }
    bench_check(fl_job_save_at(s->ctx, s->server, s->dir, &version), "saving");
    fl_text_free(version);
}

/* --- turns ---------------------------------------------------------------- */

typedef struct turns {
    double seconds, cpu_seconds;
    double longest; /* time between two batches, the longest of any trainer */
    size_t n;
} turns;

typedef struct bench_job {
    job job;
    member saver;
    saver spec;
} bench_job;

/* What trainers answer instead of a loss. */
static double longest_of(const job *j)
{
    double longest = 0;

    for (int i = 0; i < j->spec.n_trainers; i++)
        longest = j->losses[i] > longest ? j->losses[i] : longest;
    return longest;
}

static void train_turn(bench_job *b, turns *t)
{
    job_run r = job_train(&b->job, TURN);
    double longest = longest_of(&b->job);

    t->seconds += r.seconds;
    t->cpu_seconds += r.cpu_seconds;
    t->longest = longest > t->longest ? longest : t->longest;
    t->n++;
}

static bool is_saved(const bench_job *b)
{
    struct pollfd p = { .fd = b->saver.answers, .events = POLLIN };

    return poll(&p, 1, 0) > 0;
}

static turns train_during_save(bench_job *b)
{
    turns t = { 0 };

    member_tell(&b->saver, (member_order){ .what = MEMBER_TRAIN });
    do
        train_turn(b, &t);
    while (!is_saved(b) && t.seconds < WINDOW_S);
    (void)member_hear(&b->saver);
    return t;
}

static turns train_without(bench_job *b, size_t n)
{
    turns t = { 0 };

    while (t.n < n)
        train_turn(b, &t);
    return t;
}

/* --- figures -------------------------------------------------------------- */

/* Of all pairs. */
typedef struct figures {
    size_t n;
    double *of_without, *cpu_of_without, *pause_ms, *pause_steps, *other_ms;
} figures;

static void figures_init(figures *f, size_t n)
{
    f->n = n;
    f->of_without = bench_alloc(n * sizeof(double));
    f->cpu_of_without = bench_alloc(n * sizeof(double));
    f->pause_ms = bench_alloc(n * sizeof(double));
    f->pause_steps = bench_alloc(n * sizeof(double));
    f->other_ms = bench_alloc(n * sizeof(double));
}

/* A thread that waited took as much longer than a step. */
static void note(figures *f, size_t i, const turns *during,
                 const turns *without)
{
    double step = without->seconds / (double)(without->n * TURN);

    f->of_without[i] = without->seconds / (double)without->n /
                       (during->seconds / (double)during->n);
    f->cpu_of_without[i] = without->cpu_seconds / (double)without->n /
                           (during->cpu_seconds / (double)during->n);
    f->pause_ms[i] = 1e3 * (during->longest - step);
    f->pause_steps[i] = during->longest / step - 1;
    f->other_ms[i] = 1e3 * (without->longest - step);
}

static void put_figures(const figures *f)
{
    bench_figure("model.during_save", "of_without", f->of_without, f->n, "");
    bench_figure("model.during_save", "cpu_of_without", f->cpu_of_without, f->n,
                 "");
    bench_figure("model.cut", "pause_ms", f->pause_ms, f->n, "ms");
    bench_figure("model.cut", "pause_steps", f->pause_steps, f->n, "");
    bench_figure("model.cut", "other_pause_ms", f->other_ms, f->n, "ms");
}

static void figures_release(figures *f)
{
    free(f->of_without);
    free(f->cpu_of_without);
    free(f->pause_ms);
    free(f->pause_steps);
    free(f->other_ms);
}

/* --- all ------------------------------------------------------------------ */

static void start(bench_job *b, const ctr_data *d)
{
    snprintf(b->spec.dir, sizeof b->spec.dir, "/dev/shm/bench_model_XXXXXX");
    bench_check_new(mkdtemp(b->spec.dir), "a folder in memory");
    job_start(&b->job, &(job_spec){ .mode = "async",
                                    .n_servers = SERVERS,
                                    .n_trainers = TRAINERS,
                                    .geo_period = 1,
                                    .seed = SEED,
                                    .work = &work,
                                    .task = d });
    snprintf(b->spec.server, sizeof b->spec.server, "%s",
             b->job.seats[0].address);
    b->saver =
        member_start("a save of the job", begin_saver, be_saver, &b->spec);
    (void)member_hear(&b->saver);
    (void)job_judge(&b->job, bench_model_rows());
}

static void stop(bench_job *b)
{
    char line[128];

    member_end(&b->saver);
    job_end(&b->job);
    snprintf(line, sizeof line, "rm -rf %s", b->spec.dir);
    if (system(line))
        fprintf(stderr, "bench: %s stays\n", b->spec.dir);
}

void bench_model_job(void)
{
    bench_job *b = bench_alloc(sizeof *b);
    figures f;
    ctr_data d;

    ctr_data_init(&d, DATA_BATCHES, SEED);
    figures_init(&f, bench_repeats(PAIRS));
    start(b, &d);
    (void)train_during_save(b);
    for (size_t i = 0; i < f.n; i++) {
        turns during = train_during_save(b);
        turns without = train_without(b, during.n);

        note(&f, i, &during, &without);
    }
    stop(b);
    put_figures(&f);
    figures_release(&f);
    ctr_data_release(&d);
    free(b);
}
