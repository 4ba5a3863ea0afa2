/* modes.c - distributed training on this machine, against hogwild threads and
 * Reduce replicas of one process and against the floor.
 *
 * All jobs and all that they are compared with are processes that were started
 * once. They take turns, a second each: a round has a group for each shape of a
 * job (servers, trainers, transport), and in a group the four modes and the
 * four references, in an order that changes from round to round. A ratio is
 * taken to the references of the same group and round.
 *
 * Geo exchanges every GEO_PERIOD batches of a trainer, in the middle of
 * each turn.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "modes_auc.h"
#include "modes_job.h"
#include "modes_net.h"
#include "modes_wire.h"

#define DATA_BATCHES (600 * CTR_PER_LARGE)
#define DATA_SEED 1
#define TEST_BATCHES 50
#define TEST_SEED 2

#define ROUNDS 9
#define ROUNDS_MAX 64
#define N_TRAINERS 2
#define DENSE_BATCHES 3
/* Of a trainer: half a second or so; small batches are exchanged as often as
   the setting's default says. Speed is measured behind a first pass over the
   first batches: rows have been born (table.insert.rate says what that costs),
   memory for an exchange has been touched, and exchanges lie in the middle of
   turns. */
#ifdef CTR_SMALL
#define SHAPE ".small"
#define GEO_PERIOD 100
#define TURN_BATCHES (12 * GEO_PERIOD)
#define WARM_BATCHES (21 * GEO_PERIOD / 2)
#else
#define SHAPE ""
#define GEO_PERIOD 20
#define TURN_BATCHES GEO_PERIOD
#define WARM_BATCHES (13 * GEO_PERIOD / 2)
#endif
#define SPEED_BATCHES (240 * CTR_PER_LARGE)
#define TURN_SAMPLES ((double)TURN_BATCHES * N_TRAINERS * CTR_BATCH)

static const char *const modes[] = { "sync", "half_async", "async", "geo" };
#define N_MODES (sizeof modes / sizeof *modes)

typedef struct shape {
    int n_servers;
    bool is_tcp;
} shape;

static const shape shapes[] = {
    { 1, false }, { 2, false }, { 1, true }, { 2, true }
};
#define N_SHAPES (sizeof shapes / sizeof *shapes)

enum { LOCAL, TABLE, REDUCE, FLOOR, N_REFS };

typedef struct group {
    job jobs[N_MODES];
    job_run runs[N_MODES][ROUNDS_MAX];
    job_run refs[N_REFS][ROUNDS_MAX];
} group;

typedef struct speed {
    alone refs[N_REFS];
    group groups[N_SHAPES];
    size_t n_rounds;
    ctr_task task;
} speed;

/* --- rounds --------------------------------------------------------------- */

static alone_spec reference(const ctr_data *d, alone_kind kind,
                            const char *name)
{
    return (alone_spec){ .name = name,
                         .kind = kind,
                         .n_threads = N_TRAINERS,
                         .seed = DATA_SEED,
                         .task = { .data = d } };
}

/* CPU seconds of a few turns. */
static double try_out(const ctr_data *d, alone_kind kind, const char *name)
{
    alone_spec s = reference(d, kind, name);
    double seconds[3];
    alone a;

    alone_start(&a, &s);
    (void)alone_train(&a, TURN_BATCHES);
    for (int i = 0; i < 3; i++)
        seconds[i] = alone_train(&a, TURN_BATCHES).cpu_seconds;
    alone_end(&a);
    return bench_spread_of(seconds, 3).median;
}

/* What counts as local is the faster of the two ways to keep rows. */
static alone_kind faster_local(const ctr_data *d)
{
    double array = try_out(d, ALONE_HOGWILD, "local, rows in an array");
    double table = try_out(d, ALONE_TABLE, "local, rows in a table");

    printf("# modes: local keeps its rows in %s (a table's CPU is %.2f times "
           "that of an array)\n",
           table < array ? "a hashed table" : "an array", table / array);
    return table < array ? ALONE_TABLE : ALONE_HOGWILD;
}

static void start_all(speed *s, const ctr_data *d)
{
    const alone_spec refs[N_REFS] = {
        [LOCAL] = reference(d, faster_local(d), "local"),
        [TABLE] = reference(d, ALONE_TABLE, "local, rows in a table"),
        [REDUCE] = reference(d, ALONE_REDUCE, "replicas"),
        [FLOOR] = reference(d, ALONE_FLOOR, "the floor"),
    };

    for (int i = 0; i < N_REFS; i++) {
        alone_start(&s->refs[i], &refs[i]);
        (void)alone_train(&s->refs[i], WARM_BATCHES * N_TRAINERS);
    }
    for (size_t g = 0; g < N_SHAPES; g++)
        for (size_t m = 0; m < N_MODES; m++) {
            job *j = &s->groups[g].jobs[m];

            job_start(j, &(job_spec){ .mode = modes[m],
                                      .n_servers = shapes[g].n_servers,
                                      .n_trainers = N_TRAINERS,
                                      .is_tcp = shapes[g].is_tcp,
                                      .geo_period = GEO_PERIOD,
                                      .seed = DATA_SEED,
                                      .work = &ctr_work,
                                      .task = &s->task });
            (void)job_train(j, WARM_BATCHES);
        }
}

static void end_all(speed *s)
{
    for (int i = 0; i < N_REFS; i++)
        alone_end(&s->refs[i]);
    for (size_t g = 0; g < N_SHAPES; g++)
        for (size_t m = 0; m < N_MODES; m++)
            job_end(&s->groups[g].jobs[m]);
}

static void run_group(speed *s, group *g, size_t round)
{
    const size_t n = N_MODES + N_REFS;

    for (size_t i = 0; i < n; i++) {
        size_t who = (i * 3 + round) % n; /* modes and references mixed */

        if (who < N_MODES)
            g->runs[who][round] = job_train(&g->jobs[who], TURN_BATCHES);
        else
            g->refs[who - N_MODES][round] =
                alone_train(&s->refs[who - N_MODES], TURN_BATCHES * N_TRAINERS);
    }
}

/* --- figures -------------------------------------------------------------- */

/* One figure of one job: of its run and of the references beside it. */
typedef struct turn {
    const job_run *run, *local, *table, *reduce, *floor;
} turn;

static double rate(const turn *t)
{
    return TURN_SAMPLES / t->run->seconds;
}

static double of_local(const turn *t)
{
    return t->local->seconds / t->run->seconds;
}

static double of_table(const turn *t)
{
    return t->table->seconds / t->run->seconds;
}

static double of_reduce(const turn *t)
{
    return t->reduce->seconds / t->run->seconds;
}

static double of_floor(const turn *t)
{
    return t->floor->seconds / t->run->seconds;
}

static double cpu_us(const turn *t)
{
    return 1e6 * t->run->cpu_seconds / TURN_SAMPLES;
}

static double server_cpu_us(const turn *t)
{
    return 1e6 * t->run->server_cpu_seconds / TURN_SAMPLES;
}

static double cpu_over_local(const turn *t)
{
    return t->run->cpu_seconds / t->local->cpu_seconds;
}

static double cpu_over_table(const turn *t)
{
    return t->run->cpu_seconds / t->table->cpu_seconds;
}

static double bytes_per_sample(const turn *t)
{
    return t->run->bytes / TURN_SAMPLES;
}

static double requests_per_batch(const turn *t)
{
    return t->run->n_requests / (TURN_BATCHES * N_TRAINERS);
}

static double wait_share(const turn *t)
{
    return t->run->wait_seconds / (N_TRAINERS * t->run->seconds);
}

typedef struct figure {
    const char *name, *unit;
    double (*of)(const turn *t);
    const char *only; /* for this mode; NULL: for all */
} figure;

static const figure figures[] = {
    { "rate", "samples/s", rate, NULL },
    { "of_local", "ratio", of_local, NULL },
    { "of_table", "ratio", of_table, NULL },
    { "of_floor", "ratio", of_floor, NULL },
    { "of_reduce", "ratio", of_reduce, "sync" },
    { "cpu_us", "us/sample", cpu_us, NULL },
    { "server_cpu_us", "us/sample", server_cpu_us, NULL },
    { "cpu_over_local", "ratio", cpu_over_local, NULL },
    { "cpu_over_table", "ratio", cpu_over_table, NULL },
    { "bytes_per_sample", "bytes", bytes_per_sample, NULL },
    { "requests_per_batch", "requests", requests_per_batch, NULL },
    { "wait_share", "ratio", wait_share, NULL },
};

/* 1s2t.tcp of sync.1s2t.tcp */
static const char *shape_name(const group *g, size_t m)
{
    return strchr(g->jobs[m].name, '.') + 1;
}

static void put_job(const speed *s, const group *g, size_t m)
{
    char prefix[48];
    double x[ROUNDS_MAX];

    snprintf(prefix, sizeof prefix, "modes.%s" SHAPE ".%s", modes[m],
             shape_name(g, m));
    for (size_t f = 0; f < sizeof figures / sizeof *figures; f++) {
        if (figures[f].only && strcmp(figures[f].only, modes[m]))
            continue;
        for (size_t r = 0; r < s->n_rounds; r++) {
            turn t = { .run = &g->runs[m][r],
                       .local = &g->refs[LOCAL][r],
                       .table = &g->refs[TABLE][r],
                       .reduce = &g->refs[REDUCE][r],
                       .floor = &g->refs[FLOOR][r] };

            x[r] = figures[f].of(&t);
        }
        bench_figure(prefix, figures[f].name, x, s->n_rounds, figures[f].unit);
    }
    printf("# %s: loss %.4f -> %.4f\n", prefix, g->runs[m][0].loss,
           g->runs[m][s->n_rounds - 1].loss);
}

/* A reference, over all groups. */
static void put_reference(const speed *s, int ref, const char *prefix)
{
    const size_t n = s->n_rounds * N_SHAPES;
    double *rates = bench_alloc(n * sizeof *rates);
    double *cpu = bench_alloc(n * sizeof *cpu);
    double *share = bench_alloc(n * sizeof *share);

    for (size_t i = 0; i < n; i++) {
        const group *g = &s->groups[i % N_SHAPES];
        turn t = { .run = &g->refs[ref][i / N_SHAPES],
                   .floor = &g->refs[FLOOR][i / N_SHAPES] };

        rates[i] = rate(&t);
        cpu[i] = cpu_us(&t);
        share[i] = of_floor(&t);
    }
    bench_figure(prefix, "rate", rates, n, "samples/s");
    bench_figure(prefix, "cpu_us", cpu, n, "us/sample");
    if (ref != FLOOR)
        bench_figure(prefix, "of_floor", share, n, "ratio");
    free(rates);
    free(cpu);
    free(share);
}

/* What is_sparse saves: the same job with gradients and values of all rows. */
static void measure_dense_rows(const ctr_data *d)
{
    ctr_net_spec net = modes_net;
    ctr_task task = { .net = &net, .data = d };
    const double samples = (double)DENSE_BATCHES * N_TRAINERS * CTR_BATCH;
    double bytes, rate_of_all;
    job_run r;
    job j;

    net.is_dense = true;
    job_start(&j, &(job_spec){ .mode = "sync",
                               .n_servers = 1,
                               .n_trainers = N_TRAINERS,
                               .geo_period = GEO_PERIOD,
                               .seed = DATA_SEED,
                               .work = &ctr_work,
                               .task = &task });
    r = job_train(&j, DENSE_BATCHES);
    job_end(&j);
    bytes = r.bytes / samples;
    bench_figure("modes.sync.1s2t.dense_rows", "bytes_per_sample", &bytes, 1,
                 "bytes");
    rate_of_all = samples / r.seconds;
    bench_figure("modes.sync.1s2t.dense_rows", "rate", &rate_of_all, 1,
                 "samples/s");
}

static void measure_speed(const ctr_data *d)
{
    speed *s = bench_alloc(sizeof *s);

    s->n_rounds = bench_repeats(ROUNDS);
    if (s->n_rounds > ROUNDS_MAX)
        s->n_rounds = ROUNDS_MAX;
    s->task.data = d;
    start_all(s, d);
    for (size_t r = 0; r < s->n_rounds; r++)
        for (size_t g = 0; g < N_SHAPES; g++)
            run_group(s, &s->groups[(g + r) % N_SHAPES], r);
    end_all(s);
    put_reference(s, LOCAL, "modes.local" SHAPE);
    put_reference(s, TABLE, "modes.table" SHAPE);
    put_reference(s, REDUCE, "modes.reduce" SHAPE);
    put_reference(s, FLOOR, "modes.floor" SHAPE);
    for (size_t g = 0; g < N_SHAPES; g++)
        for (size_t m = 0; m < N_MODES; m++)
            put_job(s, &s->groups[g], m);
    free(s);
}

/* BENCH_MODES: "quick" for speed alone, "auc", "wire" and "way" for the others,
   which are for the large shape: they are about learning, or large messages. */
static bool wants(const char *what)
{
    const char *choice = getenv("BENCH_MODES");

#ifdef CTR_SMALL
    if (strcmp(what, "quick"))
        return false;
#endif
    return !choice || !*choice || !strcmp(choice, what);
}

/* What is measured only where its world was made before. */
static bool is_asked_for(const char *what)
{
    const char *choice = getenv("BENCH_MODES");

    return choice && !strcmp(choice, what);
}

int main(void)
{
    ctr_data data, test, first;

    ctr_data_init(&data, DATA_BATCHES, DATA_SEED);
    ctr_data_init(&test, TEST_BATCHES, TEST_SEED);
    first = data;
    first.n = (size_t)SPEED_BATCHES * CTR_BATCH;
    if (wants("quick")) {
        measure_speed(&first);
        if (CTR_PER_LARGE == 1)
            measure_dense_rows(&first);
    }
    if (wants("auc"))
        modes_measure_auc(&data, &test);
    if (wants("wire")) {
        modes_measure_wire(&first);
        modes_measure_wire_auc(&data, &test);
    }
    if (is_asked_for("link"))
        modes_measure_link(&first);
    if (wants("way"))
        modes_measure_way(&data, &test);
    ctr_data_release(&data);
    ctr_data_release(&test);
    return 0;
}
