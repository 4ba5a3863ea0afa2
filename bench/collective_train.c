/* collective_train.c - training without servers, on this machine: the dense tower
 * of the click network with two workers against two Reduce replicas, and all of
 * it, its rows dealt over the workers, against mode sync with a server and local
 * threads.
 *
 * As in `modes`, all are processes that were started once and take turns; a ratio
 * is taken to the reference of the same round.
 */
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "modes_job.h"
#include "modes_net.h"

#define DATA_BATCHES (240 * CTR_PER_LARGE)
#define DATA_SEED 1
#define ROUNDS 9
#define ROUNDS_MAX 64
#define N_WORKERS 2
#define TURN_BATCHES (20 * CTR_PER_LARGE) /* of a worker: half a second or so */
#define WARM_BATCHES (6 * TURN_BATCHES)
#define TURN_SAMPLES ((double)TURN_BATCHES * N_WORKERS * CTR_BATCH)

enum { TOWER, CTR, SYNC, N_JOBS };
enum { REDUCE, LOCAL, N_REFS };

typedef struct course {
    ctr_net_spec tower, dealt;
    ctr_task tasks[N_JOBS];
    job jobs[N_JOBS];
    alone refs[N_REFS];
    job_run runs[N_JOBS][ROUNDS_MAX], ref_runs[N_REFS][ROUNDS_MAX];
    size_t n_rounds;
} course;

/* --- turns ---------------------------------------------------------------- */

static void start_jobs(course *k)
{
    static const struct {
        const char *mode;
        int n_servers;
    } kinds[N_JOBS] = { [TOWER] = { "collective", 0 },
                        [CTR] = { "collective", 0 },
                        [SYNC] = { "sync", 1 } };

    for (int i = 0; i < N_JOBS; i++) {
        job_start(&k->jobs[i], &(job_spec){ .mode = kinds[i].mode,
                                            .n_servers = kinds[i].n_servers,
                                            .n_trainers = N_WORKERS,
                                            .geo_period = 1,
                                            .seed = DATA_SEED,
                                            .work = &ctr_work,
                                            .task = &k->tasks[i] });
        (void)job_train(&k->jobs[i], WARM_BATCHES);
    }
}

static void start_refs(course *k)
{
    const alone_spec refs[N_REFS] = {
        [REDUCE] = { .name = "replicas",
                     .kind = ALONE_REDUCE,
                     .task = k->tasks[TOWER] },
        [LOCAL] = { .name = "local",
                    .kind = ALONE_TABLE,
                    .task = k->tasks[CTR] },
    };

    for (int i = 0; i < N_REFS; i++) {
        alone_spec s = refs[i];

        s.n_threads = N_WORKERS;
        s.seed = DATA_SEED;
        alone_start(&k->refs[i], &s);
        (void)alone_train(&k->refs[i], WARM_BATCHES * N_WORKERS);
    }
}

static void run_round(course *k, size_t round)
{
    const size_t n = N_JOBS + N_REFS;

    for (size_t i = 0; i < n; i++) {
        size_t who = (i * 3 + round) % n; /* jobs and references mixed */

        if (who < N_JOBS)
            k->runs[who][round] = job_train(&k->jobs[who], TURN_BATCHES);
        else
            k->ref_runs[who - N_JOBS][round] =
                alone_train(&k->refs[who - N_JOBS], TURN_BATCHES * N_WORKERS);
    }
}

static void end_all(course *k)
{
    for (int i = 0; i < N_JOBS; i++)
        job_end(&k->jobs[i]);
    for (int i = 0; i < N_REFS; i++)
        alone_end(&k->refs[i]);
}

/* --- figures -------------------------------------------------------------- */

static void put_ratio(const course *k, const char *prefix, const char *name,
                      const job_run *run, const job_run *ref)
{
    double x[ROUNDS_MAX];

    for (size_t r = 0; r < k->n_rounds; r++)
        x[r] = ref[r].seconds / run[r].seconds;
    bench_figure(prefix, name, x, k->n_rounds, "ratio");
}

static void put_job(const course *k, const char *prefix, const job_run *run)
{
    double rates[ROUNDS_MAX], cpu[ROUNDS_MAX], bytes[ROUNDS_MAX];

    for (size_t r = 0; r < k->n_rounds; r++) {
        rates[r] = TURN_SAMPLES / run[r].seconds;
        cpu[r] = 1e6 * run[r].cpu_seconds / TURN_SAMPLES;
        bytes[r] = run[r].bytes / TURN_SAMPLES;
    }
    bench_figure(prefix, "rate", rates, k->n_rounds, "samples/s");
    bench_figure(prefix, "cpu_us", cpu, k->n_rounds, "us/sample");
    bench_figure(prefix, "bytes_per_sample", bytes, k->n_rounds, "bytes");
    printf("# %s: loss %.4f -> %.4f\n", prefix, run[0].loss,
           run[k->n_rounds - 1].loss);
}

static void put_figures(const course *k)
{
    put_job(k, "collective.tower", k->runs[TOWER]);
    put_ratio(k, "collective.tower", "of_reduce", k->runs[TOWER],
              k->ref_runs[REDUCE]);
    put_job(k, "collective.ctr", k->runs[CTR]);
    put_ratio(k, "collective.ctr", "of_sync", k->runs[CTR], k->runs[SYNC]);
    put_ratio(k, "collective.ctr", "of_local", k->runs[CTR],
              k->ref_runs[LOCAL]);
}

int main(void)
{
    course *k = bench_alloc(sizeof *k);
    ctr_data data, *d = &data;

    ctr_data_init(d, DATA_BATCHES, DATA_SEED);
    k->n_rounds = bench_repeats(ROUNDS);
    if (k->n_rounds > ROUNDS_MAX)
        k->n_rounds = ROUNDS_MAX;
    k->tower = k->dealt = modes_net;
    k->tower.is_frozen = true;
    k->dealt.is_distributed = true;
    k->tasks[TOWER] = (ctr_task){ .net = &k->tower, .data = d };
    k->tasks[CTR] = k->tasks[SYNC] = (ctr_task){ .net = &k->dealt, .data = d };
    start_jobs(k);
    start_refs(k);
    for (size_t r = 0; r < k->n_rounds; r++)
        run_round(k, r);
    end_all(k);
    put_figures(k);
    free(k);
    ctr_data_release(d);
    return 0;
}
