/* modes_auc.c - area under the curve after an epoch, and the way there.
 *
 * All see the same samples in the same order of batches, as far as a mode has
 * an order. Seeds differ in the first values of the parameters and in where in
 * the data the epoch begins; everything is compared within a seed.
 */
#include "modes_auc.h"

#include <math.h>
#include <stdio.h>

#include "ctr_net.h"
#include "harness.h"

static const char *const modes[] = { "sync", "half_async", "async", "geo" };
#define N_MODES (sizeof modes / sizeof *modes)

#define GEO_PERIOD 20

/* Learns well within such an epoch, which sgd does not, and all modes take
   it. */
static const ctr_net_spec net = { .optimizer = "adagrad",
                                  .settings = "learning_rate=0.01" };

/* --- one epoch ------------------------------------------------------------ */

#define N_SEEDS 5
#define SERVERS_MAX 2

typedef struct epoch {
    size_t n_batches; /* of all trainers */
    size_t apart;     /* batches by which the epochs of seeds are apart */
    int geo_period;
} epoch;

static const epoch usual = { 240, 120, GEO_PERIOD };

/* Small batches; the period is what is measured. */
static const epoch period_epoch = { 4000, 900, 0 };

static alone_spec alone_of(const ctr_data *d, const ctr_data *test,
                           alone_kind kind, uint64_t seed)
{
    return (alone_spec){ .name =
                             kind == ALONE_JOINED ? "joined batches" : "local",
                         .kind = kind,
                         .n_threads = 2,
                         .seed = seed,
                         .task = { &net, d, test } };
}

static double local_epoch(const epoch *e, const ctr_data *d,
                          const ctr_data *test, alone_kind kind, uint64_t seed)
{
    alone_spec s = alone_of(d, test, kind, seed);
    double auc;
    alone a;

    alone_start(&a, &s);
    a.next = seed * e->apart;
    (void)alone_train(&a, e->n_batches);
    auc = alone_auc(&a);
    alone_end(&a);
    return auc;
}

static double job_epoch(const epoch *e, const ctr_data *d, const ctr_data *test,
                        const char *mode, int n_servers, uint64_t seed)
{
    const ctr_task task = { &net, d, test };
    double auc;
    job j;

    job_start(&j, &(job_spec){ .mode = mode,
                               .n_servers = n_servers,
                               .n_trainers = 2,
                               .geo_period = e->geo_period,
                               .seed = seed,
                               .work = &ctr_work,
                               .task = &task });
    j.next = seed * e->apart;
    (void)job_train(&j, e->n_batches / 2);
    auc = job_judge(&j, 0);
    job_end(&j);
    return auc;
}

/* The mean of the differences is the figure; the row shows their spread. */
static void put_difference(const char *prefix, const double *x,
                           const double *base, size_t n)
{
    double off[N_SEEDS], mean = 0;

    for (size_t i = 0; i < n; i++) {
        off[i] = x[i] - base[i];
        mean += off[i] / (double)n;
    }
    bench_figure(prefix, "auc_off", off, n, "auc");
    bench_figure(prefix, "auc_off_mean", &mean, 1, "auc");
}

static size_t count_seeds(void)
{
    return bench_repeats(N_SEEDS) < N_SEEDS ? bench_repeats(N_SEEDS) : N_SEEDS;
}

void modes_measure_auc(const ctr_data *data, const ctr_data *test)
{
    double hogwild[N_SEEDS], joined[N_SEEDS];
    double x[SERVERS_MAX][N_MODES][N_SEEDS];
    double best = ctr_best_auc(test);
    const size_t n = count_seeds();
    char prefix[32];

    for (size_t s = 0; s < n; s++) {
        hogwild[s] = local_epoch(&usual, data, test, ALONE_HOGWILD, s);
        joined[s] = local_epoch(&usual, data, test, ALONE_JOINED, s);
        for (int k = 0; k < SERVERS_MAX; k++)
            for (size_t m = 0; m < N_MODES; m++)
                x[k][m][s] = job_epoch(&usual, data, test, modes[m], k + 1, s);
    }
    bench_figure("modes.best", "auc", &best, 1, "auc");
    bench_figure("modes.local", "auc", hogwild, n, "auc");
    bench_figure("modes.joined", "auc", joined, n, "auc");
    for (int k = 0; k < SERVERS_MAX; k++)
        for (size_t m = 0; m < N_MODES; m++) {
            snprintf(prefix, sizeof prefix, "modes.%s.%ds2t", modes[m], k + 1);
            bench_figure(prefix, "auc", x[k][m], n, "auc");
            put_difference(prefix, x[k][m], m ? hogwild : joined, n);
        }
}

/* --- how often geo exchanges ------------------------------------------------ */

void modes_measure_period(const ctr_data *data, const ctr_data *test)
{
    static const int periods[] = { 100, 200, 400 };
    const size_t n = count_seeds();
    double local[N_SEEDS], x[N_SEEDS];
    char prefix[48];

    for (size_t s = 0; s < n; s++)
        local[s] = local_epoch(&period_epoch, data, test, ALONE_HOGWILD, s);
    bench_figure("modes.local.small", "auc", local, n, "auc");
    for (size_t i = 0; i < sizeof periods / sizeof *periods; i++) {
        epoch e = period_epoch;

        e.geo_period = periods[i];
        for (size_t s = 0; s < n; s++)
            x[s] = job_epoch(&e, data, test, "geo", 1, s);
        snprintf(prefix, sizeof prefix, "modes.geo.small.1s2t.every%d",
                 periods[i]);
        bench_figure(prefix, "auc", x, n, "auc");
        put_difference(prefix, x, local, n);
    }
}

/* --- the way there -------------------------------------------------------- */

#define WAY_BATCHES 20 /* between two looks, over all trainers */
#define WAY_LOOKS 30   /* at most */
#define WAY_SEED 3
#define WAY_GOAL 0.79

/* What it took to reach the goal. */
typedef struct way {
    double samples, seconds, cpu_seconds;
    double trainer_cpu, server_cpu; /* of one process, on the average */
    bool is_there;
} way;

static void add_run(way *w, const job_run *r, int n_trainers)
{
    w->samples += WAY_BATCHES * CTR_BATCH;
    w->seconds += r->seconds;
    w->cpu_seconds += r->cpu_seconds;
    w->server_cpu += r->server_cpu_seconds;
    for (int i = 0; i < n_trainers; i++)
        w->trainer_cpu += r->trainer_cpu[i] / n_trainers;
}

static way local_way(const ctr_data *d, const ctr_data *test, double goal)
{
    alone_spec s = alone_of(d, test, ALONE_HOGWILD, WAY_SEED);
    way w = { 0 };
    alone a;

    alone_start(&a, &s);
    for (int i = 0; i < WAY_LOOKS && !w.is_there; i++) {
        job_run r = alone_train(&a, WAY_BATCHES);

        add_run(&w, &r, 0);
        w.is_there = alone_auc(&a) >= goal;
    }
    alone_end(&a);
    return w;
}

static way job_way(const ctr_data *d, const ctr_data *test, const char *mode,
                   int n_trainers, double goal)
{
    const ctr_task task = { &net, d, test };
    way w = { 0 };
    job j;

    job_start(&j, &(job_spec){ .mode = mode,
                               .n_servers = 1,
                               .n_trainers = n_trainers,
                               .geo_period = GEO_PERIOD,
                               .seed = WAY_SEED,
                               .work = &ctr_work,
                               .task = &task });
    for (int i = 0; i < WAY_LOOKS && !w.is_there; i++) {
        job_run r = job_train(&j, (size_t)(WAY_BATCHES / n_trainers));

        add_run(&w, &r, n_trainers);
        w.is_there = job_judge(&j, 0) >= goal;
    }
    job_end(&j);
    return w;
}

static void put_way(const char *prefix, const way *w, const way *local)
{
    double samples = w->samples / local->samples;
    double seconds = w->seconds / local->seconds;
    double cpu = w->cpu_seconds / local->cpu_seconds;
    double trainer = w->trainer_cpu / w->seconds;
    double server = w->server_cpu / w->seconds;

    if (!w->is_there) {
        printf("# %s: not reached after %.0f samples\n", prefix, w->samples);
        return;
    }
    bench_figure(prefix, "samples", &samples, 1, "ratio");
    bench_figure(prefix, "seconds", &seconds, 1, "ratio");
    bench_figure(prefix, "cpu", &cpu, 1, "ratio");
    bench_figure(prefix, "trainer_cpu_share", &trainer, 1, "ratio");
    bench_figure(prefix, "server_cpu_share", &server, 1, "ratio");
}

void modes_measure_way(const ctr_data *data, const ctr_data *test)
{
    static const int n_trainers[] = { 1, 2, 4 };
    double goal = WAY_GOAL;
    way local = local_way(data, test, goal);
    char prefix[48];

    bench_figure("modes.local.to_auc", "goal", &goal, 1, "auc");
    bench_figure("modes.local.to_auc", "samples", &local.samples, 1, "samples");
    bench_figure("modes.local.to_auc", "seconds", &local.seconds, 1, "s");
    for (size_t m = 0; m < N_MODES; m++)
        for (size_t i = 0; i < sizeof n_trainers / sizeof *n_trainers; i++) {
            way w = job_way(data, test, modes[m], n_trainers[i], goal);

            snprintf(prefix, sizeof prefix, "modes.%s.to_auc.%dt", modes[m],
                     n_trainers[i]);
            put_way(prefix, &w, &local);
        }
}
