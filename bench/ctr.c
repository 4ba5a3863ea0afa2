/* ctr.c - how fast the library trains the click network, against the floor.
 *
 * The library keeps the rows of the ids in an array, as the floor does, or in
 * the hashed table that grows as ids come by. Floor and library train networks
 * of their own on the same batches in the same order, in turn; a ratio is taken
 * per pair. Both print their loss, and the program fails when the two do not
 * learn alike: then it did not measure the same work.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctr_inside.h"
#include "ctr_net.h"
#include "floor_ctr.h"
#include "harness.h"

#define DATA_BATCHES (600 * CTR_PER_LARGE)
#define DATA_SEED 1
#define FLOOR_SEED 7

#define PAIRS 15
#define RUN_SECONDS 0.8
#define WARM_BATCHES                                                           \
    (8 * CTR_PER_LARGE) /* per thread, also to find out how many fill a run */

#define THREADS_MAX FLOOR_THREADS_MAX
/* Threads that race take their batches in an order of their own, and after many
   passes over the same lines their losses are some way apart. */
#define LOSS_TOLERANCE 0.02
#define RACING_TOLERANCE 0.2

/* The optimizers that are measured, with equal settings on both sides. */
typedef struct optimizer {
    const char *name, *settings;
    floor_rule rule;
    double lr;
} optimizer;

static const optimizer optimizers[] = {
    { "sgd", "learning_rate=0.3", FLOOR_SGD, 0.3 },
    { "adam", "learning_rate=0.001, lazy_mode=true", FLOOR_ADAM, 0.001 },
};

/* Where the rows of the ids are kept, and how products are computed. */
typedef struct storage {
    const char *prefix; /* of the names of its figures */
    bool is_distributed;
    const char *precision;
} storage;

static const storage in_array = { "ctr", false, "f32" };
static const storage in_table = { "ctr_table", true, "f32" };
static const storage in_bf16 = { "ctr.bf16", false, "bf16" };

/* A thread's batch. */
typedef struct ctr_worker {
    ctr_batch *batch;
    double loss; /* sum over the batches of this run */
} ctr_worker;

/* The network built through the public interface. */
typedef struct net {
    fl_ctx *ctx;
    fl_executor *exe;
    fl_program *program;
    const char *loss;
    const ctr_data *data;
    ctr_worker workers[THREADS_MAX];
    atomic_size_t next; /* batch to deal */
    size_t end;
} net;

/* What one run works on. */
typedef struct job {
    net *net;
    floor_ctr *floor;
    fl_compiled_program *replicas;
    int n_threads;
    size_t n_batches;
} job;

/* --- the network --------------------------------------------------------- */

static net *net_new(const ctr_data *d, const storage *rows, const optimizer *o)
{
    net *n = bench_alloc(sizeof *n);

    bench_check(fl_ctx_new(&n->ctx), "settings");
    bench_check(fl_ctx_set(n->ctx, "precision", rows->precision),
                "the setting precision");
    n->data = d;
    for (int t = 0; t < THREADS_MAX; t++)
        n->workers[t].batch = ctr_batch_new();
    n->loss = ctr_net_build(n->ctx, &(ctr_net_spec){ .is_distributed =
                                                         rows->is_distributed,
                                                     .optimizer = o->name,
                                                     .settings = o->settings })
                  .loss;
    n->program = fl_default_main_program(n->ctx);
    bench_check(fl_executor_new(&n->exe, n->ctx), "an executor");
    bench_check(fl_run(n->exe, fl_default_startup_program(n->ctx), NULL),
                "running the startup program");
    return n;
}

static void net_free(net *n)
{
    fl_executor_free(n->exe);
    fl_ctx_free(n->ctx);
    for (int t = 0; t < THREADS_MAX; t++)
        free(n->workers[t].batch);
    free(n);
}

/* --- batches ------------------------------------------------------------- */

static bool next_batch(void *arg, int thread, fl_feed *feeds)
{
    net *n = arg;
    size_t at = atomic_fetch_add(&n->next, 1);

    if (at >= n->end)
        return false;
    ctr_batch_fill(n->workers[thread].batch, n->data, at, 1, feeds);
    return true;
}

static void add_loss(void *arg, int thread, const fl_tensor *fetched)
{
    net *n = arg;

    n->workers[thread].loss += *(const float *)fetched->data;
}

/* --- runs: each trains on the next n_batches and returns their mean loss - */

static double train_floor(void *arg)
{
    const job *j = arg;

    return floor_ctr_train(j->floor, j->n_threads, j->n_batches);
}

/* Opens a run of n_batches, and closes it with their mean loss. */
static void begin(net *n, size_t n_batches)
{
    n->end = n->next + n_batches;
    for (int t = 0; t < THREADS_MAX; t++)
        n->workers[t].loss = 0;
}

static double finish(net *n, size_t n_batches)
{
    double loss = 0;

    n->next = n->end;
    for (int t = 0; t < THREADS_MAX; t++)
        loss += n->workers[t].loss;
    return loss / (double)n_batches;
}

static double train_hogwild(void *arg)
{
    const job *j = arg;
    net *n = j->net;

    begin(n, j->n_batches);
    bench_check(
        fl_run_hogwild(n->exe, n->program,
                       FL_OPTIONS(fl_hogwild_args, .n_threads = j->n_threads,
                                  .feed_names = ctr_feed_names,
                                  .n_feeds = CTR_FEEDS, .next = next_batch,
                                  .fetches = &n->loss, .n_fetches = 1,
                                  .on_batch = add_loss, .arg = n)),
        "training with hogwild threads");
    return finish(n, j->n_batches);
}

/* One batch per replica and step, until they are used up. */
static double train_replicas(void *arg)
{
    const job *j = arg;
    net *n = j->net;
    fl_feed feeds[THREADS_MAX * CTR_FEEDS];
    fl_tensor out[THREADS_MAX];
    fl_run_args args =
        FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = CTR_FEEDS,
                .fetches = &n->loss, .n_fetches = 1, .out = out);

    begin(n, j->n_batches);
    for (size_t at = n->next; at < n->end; at += (size_t)j->n_threads) {
        for (int r = 0; r < j->n_threads; r++)
            ctr_batch_fill(n->workers[r].batch, n->data, at + (size_t)r, 1,
                           feeds + r * CTR_FEEDS);
        bench_check(fl_run_compiled_each(n->exe, j->replicas, &args),
                    "training with replicas");
        for (int r = 0; r < j->n_threads; r++)
            add_loss(n, r, &out[r]);
    }
    return finish(n, j->n_batches);
}

/* One batch after the other, each with all threads: operators are cut over
   them. */
static double train_shared(void *arg)
{
    const job *j = arg;
    net *n = j->net;
    fl_feed feeds[CTR_FEEDS];
    fl_tensor out;
    fl_run_args args =
        FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = CTR_FEEDS,
                .fetches = &n->loss, .n_fetches = 1, .out = &out);

    begin(n, j->n_batches);
    for (size_t at = n->next; at < n->end; at++) {
        ctr_batch_fill(n->workers[0].batch, n->data, at, 1, feeds);
        bench_check(fl_run(n->exe, n->program, &args), "training step");
        add_loss(n, 0, &out);
    }
    return finish(n, j->n_batches);
}

/* --- figures ------------------------------------------------------------- */

/* One of two that take turns. */
typedef struct party {
    const char *name;
    double (*train)(void *job);
    job job;
    double first_loss;
    bench_sample *runs;
} party;

/* Pairs of runs; `b` is measured against `a`. */
typedef struct pairs {
    const char *prefix; /* of the names of its figures */
    party a, b;
    size_t n, n_samples; /* pairs, and samples per run */
} pairs;

static bench_side side_of(party *p)
{
    return (bench_side){ p->train, &p->job };
}

/* Trains a party on a few batches and returns the seconds it took. */
static double warm_up(party *p)
{
    bench_side side = side_of(p);

    p->job.n_batches = (size_t)(WARM_BATCHES * p->job.n_threads);
    p->first_loss = bench_run(&side).value;
    return bench_run(&side).seconds;
}

/* Batches that make a run, the same number for each thread. */
static size_t batches_of_run(double seconds_warm, int n_threads)
{
    size_t n = (size_t)(RUN_SECONDS / seconds_warm * WARM_BATCHES);

    return (n ? n : 1) * (size_t)n_threads;
}

static void run_pairs(pairs *p)
{
    bench_side a = side_of(&p->a), b = side_of(&p->b);
    double seconds = warm_up(&p->a);
    size_t n_batches = batches_of_run(seconds, p->a.job.n_threads);

    warm_up(&p->b);
    p->a.job.n_batches = p->b.job.n_batches = n_batches;
    p->n = bench_repeats(PAIRS);
    p->n_samples = n_batches * CTR_BATCH;
    p->a.runs = bench_alloc(p->n * sizeof *p->a.runs);
    p->b.runs = bench_alloc(p->n * sizeof *p->b.runs);
    bench_pairs(&a, &b, p->n, p->a.runs, p->b.runs);
}

static void release_pairs(pairs *p)
{
    free(p->a.runs);
    free(p->b.runs);
}

static void put_rate(const pairs *p, const char *name, const party *of)
{
    double *x = bench_alloc(p->n * sizeof *x);

    for (size_t i = 0; i < p->n; i++)
        x[i] = (double)p->n_samples / of->runs[i].seconds;
    bench_figure(p->prefix, name, x, p->n, "samples/s");
    free(x);
}

static void put_cpu(const pairs *p, const char *name, const party *of)
{
    double *x = bench_alloc(p->n * sizeof *x);

    for (size_t i = 0; i < p->n; i++)
        x[i] = 1e6 * of->runs[i].cpu_seconds / (double)p->n_samples;
    bench_figure(p->prefix, name, x, p->n, "us/sample");
    free(x);
}

static void put_ratio(const pairs *p, const char *name)
{
    double *x = bench_alloc(p->n * sizeof *x);

    for (size_t i = 0; i < p->n; i++)
        x[i] = p->a.runs[i].seconds / p->b.runs[i].seconds;
    bench_figure(p->prefix, name, x, p->n, "ratio");
    free(x);
}

/* The same by CPU time, which other programs on the machine disturb less. */
static void put_cpu_ratio(const pairs *p, const char *name)
{
    double *x = bench_alloc(p->n * sizeof *x);

    for (size_t i = 0; i < p->n; i++)
        x[i] = p->a.runs[i].cpu_seconds / p->b.runs[i].cpu_seconds;
    bench_figure(p->prefix, name, x, p->n, "ratio");
    free(x);
}

static double last_loss(const pairs *p, const party *of)
{
    return of->runs[p->n - 1].value;
}

static void print_losses(const pairs *p)
{
    printf("# %s: loss of %s %.4f -> %.4f, of %s %.4f -> %.4f\n", p->prefix,
           p->a.name, p->a.first_loss, last_loss(p, &p->a), p->b.name,
           p->b.first_loss, last_loss(p, &p->b));
}

/* False, with a message, when the two did not do the same work. */
static bool check_losses(const pairs *p)
{
    double a = last_loss(p, &p->a), b = last_loss(p, &p->b);
    double tolerance =
        p->b.job.n_threads == 1 ? LOSS_TOLERANCE : RACING_TOLERANCE;

    if (a < p->a.first_loss && b < p->b.first_loss &&
        fabs(b / a - 1) <= tolerance)
        return true;
    fprintf(stderr, "bench: %s: the two do not learn alike\n", p->prefix);
    return false;
}

static bool against_floor(const ctr_data *d, const storage *rows,
                          const optimizer *o, int n_threads)
{
    char prefix[32];
    pairs p = {
        .prefix = prefix,
        .a = { .name = "floor",
               .train = train_floor,
               .job = { .floor = floor_ctr_new(d, o->rule, o->lr, FLOOR_SEED),
                        .n_threads = n_threads } },
        .b = { .name = "library",
               .train = train_hogwild,
               .job = { .net = net_new(d, rows, o), .n_threads = n_threads } }
    };
    bool same;

    snprintf(prefix, sizeof prefix, "%s.%s.t%d", rows->prefix, o->name,
             n_threads);
    run_pairs(&p);
    put_rate(&p, "rate", &p.b);
    put_rate(&p, "floor_rate", &p.a);
    put_ratio(&p, "of_floor");
    put_cpu_ratio(&p, "cpu_of_floor");
    put_cpu(&p, "cpu_us", &p.b);
    put_cpu(&p, "floor_cpu_us", &p.a);
    print_losses(&p);
    same = check_losses(&p);
    release_pairs(&p);
    floor_ctr_free(p.a.job.floor);
    net_free(p.b.job.net);
    return same;
}

static fl_compiled_program *make_replicas(const net *n)
{
    fl_compiled_program *cp;
    fl_build_strategy build =
        FL_INIT(fl_build_strategy, .reduce_strategy = FL_REPLICA_REDUCE);
    fl_exec_strategy exec =
        FL_INIT(fl_exec_strategy, .n_replicas = THREADS_MAX);

    bench_check(fl_compiled_program_new(&cp, n->program), "making replicas");
    bench_check(
        fl_compiled_program_with_data_parallel(cp, n->loss, &build, &exec),
        "making replicas");
    return cp;
}

/* Another way to use all threads, against as many hogwild threads, which do
   not wait for each other. A step of theirs is one update where the threads
   make two, so the losses need not agree. */
static void against_hogwild(pairs *p)
{
    run_pairs(p);
    put_rate(p, "rate", &p->b);
    put_ratio(p, "of_hogwild");
    put_cpu(p, "cpu_us", &p->b);
    print_losses(p);
    release_pairs(p);
    net_free(p->a.job.net);
    net_free(p->b.job.net);
}

static pairs hogwild_and(const ctr_data *d, const optimizer *o)
{
    return (pairs){ .a = { .name = "hogwild",
                           .train = train_hogwild,
                           .job = { .net = net_new(d, &in_array, o),
                                    .n_threads = THREADS_MAX } },
                    .b = { .job = { .net = net_new(d, &in_array, o),
                                    .n_threads = THREADS_MAX } } };
}

/* Replicas that add up their gradients at each step. */
static void reduce_of_hogwild(const ctr_data *d, const optimizer *o)
{
    pairs p = hogwild_and(d, o);
    fl_compiled_program *cp = make_replicas(p.b.job.net);

    p.prefix = "ctr.sgd.reduce";
    p.b.name = "replicas";
    p.b.train = train_replicas;
    p.b.job.replicas = cp;
    against_hogwild(&p);
    fl_compiled_program_free(cp);
}

/* One run of the program whose operators are cut over the threads. */
static void shared_of_hogwild(const ctr_data *d, const optimizer *o)
{
    pairs p = hogwild_and(d, o);
    char threads[16];

    snprintf(threads, sizeof threads, "%d", THREADS_MAX);
    bench_check(fl_ctx_set(p.b.job.net->ctx, "num_threads", threads),
                "setting num_threads");
    p.prefix = "ctr.sgd.shared";
    p.b.name = "shared batches";
    p.b.train = train_shared;
    against_hogwild(&p);
}

/* What one training step keeps for temporaries, against what it needs. */
static void memory_of_live(const ctr_data *d, const optimizer *o)
{
    net *n = net_new(d, &in_array, o);
    fl_feed feeds[CTR_FEEDS];
    fl_tensor out;
    fl_run_args args =
        FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = CTR_FEEDS,
                .fetches = &n->loss, .n_fetches = 1, .out = &out);
    fl_executor *exe;
    fl_memory_use use = FL_INIT(fl_memory_use);
    double ratio;

    bench_check(fl_executor_new(&exe, n->ctx), "an executor");
    ctr_batch_fill(n->workers[0].batch, n->data, 0, 1, feeds);
    for (int i = 0; i < 3; i++)
        bench_check(fl_run(exe, n->program, &args), "training step");
    bench_check(fl_executor_memory(exe, &use), "memory");
    printf("# ctr.memory: kept %zu bytes, live %zu bytes\n", use.kept_bytes,
           use.live_bytes);
    ratio = (double)use.kept_bytes / (double)use.live_bytes;
    bench_figure("ctr.memory", "of_live", &ratio, 1, "ratio");
    fl_executor_free(exe);
    net_free(n);
}

static bool all_against_floor(const ctr_data *d, const storage *rows)
{
    bool same = true;

    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++)
        for (int t = 1; t <= THREADS_MAX; t++)
            same = against_floor(d, rows, &optimizers[i], t) && same;
    return same;
}

/* The floor stays f32. */
static bool bf16_against_floor(const ctr_data *d)
{
    return !bench_has_bf16("ctr.bf16.*.of_floor") ||
           all_against_floor(d, &in_bf16);
}

static bool all(const ctr_data *d)
{
    bool same = all_against_floor(d, &in_array);

    same = all_against_floor(d, &in_table) && same;
    same = bf16_against_floor(d) && same;
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
        const ctr_rule rule = { optimizers[i].name, optimizers[i].settings };

        ctr_measure_shares(d, &rule);
        ctr_measure_bf16_auc(d, &rule);
    }
    reduce_of_hogwild(d, &optimizers[0]);
    shared_of_hogwild(d, &optimizers[0]);
    memory_of_live(d, &optimizers[0]);
    return same;
}

/* BENCH_CTR=bf16 measures its speed alone. */
int main(void)
{
    const char *part = getenv("BENCH_CTR");
    ctr_data data;
    bool same;

    ctr_data_init(&data, DATA_BATCHES, DATA_SEED);
    same =
        part && !strcmp(part, "bf16") ? bf16_against_floor(&data) : all(&data);
    ctr_data_release(&data);
    return same ? 0 : 1;
}
