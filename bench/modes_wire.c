/* modes_wire.c - jobs whose values travel as bf16, beside the same jobs with
 * f32: in the same minute, in turns, and what they learn from the same first
 * values and the same batches.
 *
 * CPU time is that of all processes of a job, and a ratio of it is taken within
 * a round; the two take turns in being first.
 */
#include "modes_wire.h"

#include <stdio.h>
#include <stdlib.h>

#include "harness.h"

static const char *const modes[] = { "sync", "half_async", "async" };
#define N_MODES (sizeof modes / sizeof *modes)

enum { F32, BF16, N_WIRES };
static const char *const wires[N_WIRES] = { NULL, "bf16" };

#define N_TRAINERS 2
#define DATA_SEED 1
#define GEO_PERIOD 20 /* not used by these modes */

/* --- speed ---------------------------------------------------------------- */

#define ROUNDS_MAX 64

/* How jobs are measured: where, and for how long. */
typedef struct course {
    bool is_tcp, is_on_hosts;
    size_t rounds;
    size_t warm_batches, turn_batches; /* a trainer's */
} course;

static const course near = { .rounds = 9,
                             .warm_batches = 60,
                             .turn_batches = 20 };
static const course by_tcp = {
    .is_tcp = true, .rounds = 9, .warm_batches = 60, .turn_batches = 20
};
/* A few seconds a turn. */
static const course slow = { .is_tcp = true,
                             .is_on_hosts = true,
                             .rounds = 3,
                             .warm_batches = 5,
                             .turn_batches = 20 };

typedef struct pair {
    const course *course;
    job jobs[N_WIRES];
    job_run runs[N_WIRES][ROUNDS_MAX];
} pair;

static void start_pair(pair *p, const char *mode, const ctr_task *task)
{
    for (int w = 0; w < N_WIRES; w++) {
        job_start(&p->jobs[w],
                  &(job_spec){ .mode = mode,
                               .n_servers = 1,
                               .n_trainers = N_TRAINERS,
                               .is_tcp = p->course->is_tcp,
                               .is_on_hosts = p->course->is_on_hosts,
                               .wire = wires[w],
                               .geo_period = GEO_PERIOD,
                               .seed = DATA_SEED,
                               .work = &ctr_work,
                               .task = task });
        (void)job_train(&p->jobs[w], p->course->warm_batches);
    }
}

static void run_pair(pair *p, size_t round)
{
    for (int i = 0; i < N_WIRES; i++) {
        size_t w = ((size_t)i + round) % N_WIRES;

        p->runs[w][round] = job_train(&p->jobs[w], p->course->turn_batches);
    }
}

/* One turn of both. */
typedef struct turn {
    const job_run *bf16, *f32;
    double samples;
} turn;

static double rate(const turn *t)
{
    return t->samples / t->bf16->seconds;
}

static double bytes_per_sample(const turn *t)
{
    return t->bf16->bytes / t->samples;
}

static double over_f32(const turn *t)
{
    return t->f32->seconds / t->bf16->seconds;
}

static double cpu_over_f32(const turn *t)
{
    return t->bf16->cpu_seconds / t->f32->cpu_seconds;
}

static const struct {
    const char *name, *unit;
    double (*of)(const turn *t);
} figures[] = {
    { "rate", "samples/s", rate },
    { "bytes_per_sample", "bytes", bytes_per_sample },
    { "over_f32", "ratio", over_f32 },
    { "cpu_over_f32", "ratio", cpu_over_f32 },
};

static void put_pair(const pair *p, size_t n_rounds)
{
    char prefix[48];
    double x[ROUNDS_MAX];

    snprintf(prefix, sizeof prefix, "modes.%s", p->jobs[BF16].name);
    for (size_t f = 0; f < sizeof figures / sizeof *figures; f++) {
        for (size_t r = 0; r < n_rounds; r++) {
            turn t = { .bf16 = &p->runs[BF16][r],
                       .f32 = &p->runs[F32][r],
                       .samples = (double)p->course->turn_batches * N_TRAINERS *
                                  CTR_BATCH };

            x[r] = figures[f].of(&t);
        }
        bench_figure(prefix, figures[f].name, x, n_rounds, figures[f].unit);
    }
}

/* The pairs of all modes, in turns. */
static void measure(const ctr_data *data, const course *c)
{
    const ctr_task task = { .data = data };
    size_t n_rounds = bench_repeats(c->rounds);
    pair *pairs = bench_alloc(N_MODES * sizeof *pairs);

    if (n_rounds > ROUNDS_MAX)
        n_rounds = ROUNDS_MAX;
    for (size_t i = 0; i < N_MODES; i++) {
        pairs[i].course = c;
        start_pair(&pairs[i], modes[i], &task);
    }
    for (size_t r = 0; r < n_rounds; r++)
        for (size_t i = 0; i < N_MODES; i++)
            run_pair(&pairs[i], r);
    for (size_t i = 0; i < N_MODES; i++) {
        for (int w = 0; w < N_WIRES; w++)
            job_end(&pairs[i].jobs[w]);
        put_pair(&pairs[i], n_rounds);
    }
    free(pairs);
}

void modes_measure_wire(const ctr_data *data)
{
    measure(data, &near);
    measure(data, &by_tcp);
}

void modes_measure_link(const ctr_data *data)
{
    measure(data, &slow);
}

/* --- what they learn ------------------------------------------------------ */

#define N_SEEDS 5
#define EPOCH_BATCHES 240
#define SEED_BATCHES 120 /* by which the epochs of seeds are apart */

static const ctr_net_spec net = { .optimizer = "adagrad",
                                  .settings = "learning_rate=0.01" };

static double epoch(const ctr_task *task, const char *mode, const char *wire,
                    uint64_t seed)
{
    double auc;
    job j;

    job_start(&j, &(job_spec){ .mode = mode,
                               .n_servers = 1,
                               .n_trainers = N_TRAINERS,
                               .wire = wire,
                               .geo_period = GEO_PERIOD,
                               .seed = seed,
                               .work = &ctr_work,
                               .task = task });
    j.next = seed * SEED_BATCHES;
    (void)job_train(&j, EPOCH_BATCHES / N_TRAINERS);
    auc = job_judge(&j, 0);
    job_end(&j);
    return auc;
}

void modes_measure_wire_auc(const ctr_data *data, const ctr_data *test)
{
    const ctr_task task = { &net, data, test };
    const size_t n =
        bench_repeats(N_SEEDS) < N_SEEDS ? bench_repeats(N_SEEDS) : N_SEEDS;
    double off[N_SEEDS], mean;
    char prefix[32];

    for (size_t m = 0; m < N_MODES; m++) {
        mean = 0;
        for (size_t s = 0; s < n; s++) {
            off[s] = epoch(&task, modes[m], wires[BF16], s) -
                     epoch(&task, modes[m], wires[F32], s);
            mean += off[s] / (double)n;
        }
        snprintf(prefix, sizeof prefix, "modes.%s.1s2t.bf16", modes[m]);
        bench_figure(prefix, "auc_off", off, n, "auc");
        bench_figure(prefix, "auc_off_mean", &mean, 1, "auc");
    }
}
