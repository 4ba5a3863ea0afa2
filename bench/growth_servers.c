/* growth_servers.c - a tiny model, with more and more trainers: what a server
 * needs for a request when all of them train, when one does and the others are only
 * there, and what a session takes of its memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "growth.h"
#include "harness.h"
#include "modes_job.h"

#define REPEATS 5
#define BATCHES 4096     /* of all trainers, in one repeat, at least */
#define BATCHES_EACH 128 /* of each, at least: it comes with cold caches */
#define BATCH 16
#define IDS 4 /* of a sample */
#define ROWS 1000
#define IDLE_S 2
#define GROUP 2 /* of trainers that train at a time */

/* --- the tiny model ------------------------------------------------------- */

typedef struct tiny {
    int rank;
    const char *loss;
    int64_t ids[BATCH * IDS], offsets[BATCH + 1];
    float labels[BATCH];
} tiny;

static fl_var *net(fl_ctx *c)
{
    fl_var *ids =
        fl_layers_data(c, "ids", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 1);
    fl_var *label =
        fl_layers_data(c, "label", FL_DTYPE_F32, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *sum = fl_layers_sequence_pool(
        fl_layers_embedding(ids, ROWS, 8, .is_sparse = true,
                            .is_distributed = true, .param = { .name = "emb" }),
        "sum");
    fl_var *score = fl_layers_fc(fl_layers_fc(sum, 8, .act = "relu"), 1);
    fl_var *loss = fl_layers_mean(
        fl_layers_sigmoid_cross_entropy_with_logits(score, label));
    fl_optimizer *o;

    bench_check(fl_optimizer_new(&o, c, "sgd", "learning_rate=0.01"), "a rule");
    bench_check(fl_minimize(o, loss), "minimize");
    return loss;
}

static void build(fl_ctx *c, const job_spec *s)
{
    (void)s;
    (void)net(c);
}

static void *begin(fl_ctx *c, const job_spec *s, int rank)
{
    tiny *t = bench_alloc(sizeof *t);

    (void)s;
    t->rank = rank;
    t->loss = fl_var_name(net(c));
    for (int i = 0; i <= BATCH; i++)
        t->offsets[i] = i * IDS;
    return t;
}

static void fill(tiny *t, size_t number)
{
    uint64_t x = (uint64_t)number * 2654435761u + (uint64_t)t->rank;

    for (int i = 0; i < BATCH * IDS; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        t->ids[i] = (int64_t)((x >> 33) % ROWS);
    }
    for (int i = 0; i < BATCH; i++)
        t->labels[i] = (float)(t->ids[i * IDS] & 1);
}

static double train(void *state, fl_executor *e, fl_program *p,
                    const member_order *o)
{
    tiny *t = state;
    fl_feed feeds[] = {
        { "ids",
          fl_tensor_ragged(FL_DTYPE_I64, t->ids, 2,
                           (int64_t[]){ BATCH * IDS, 1 }, t->offsets, BATCH) },
        { "label",
          fl_tensor_of(FL_DTYPE_F32, t->labels, 2, (int64_t[]){ BATCH, 1 }) },
    };
    double sum = 0;

    for (size_t i = 0; i < o->n; i++) {
        fl_tensor loss;

        fill(t, o->first + i);
        bench_check(fl_run(e, p,
                           FL_OPTIONS(fl_run_args, .feeds = feeds, .n_feeds = 2,
                                      .fetches = &t->loss, .n_fetches = 1,
                                      .out = &loss)),
                    "a batch");
        sum += (double)*(const float *)loss.data;
    }
    return o->n ? sum / (double)o->n : 0;
}

static const job_work tiny_work = {
    .build = build, .begin = begin, .train = train, .end = free
};

/* --- figures -------------------------------------------------------------- */

static double resident_kb(const member *m)
{
    char path[64], line[128];
    double kb = 0;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/status", (int)m->pid);
    f = fopen(path, "r");
    bench_check_new(f, "the memory of a server");
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, "VmRSS:", 6))
            kb = strtod(line + 6, NULL);
    fclose(f);
    return kb;
}

/* Those that are told, over the repeats. */
typedef struct figures {
    double busy[REPEATS], beside[REPEATS], requests[REPEATS], bytes[REPEATS];
    double idle[REPEATS]; /* of a session that nothing happens in */
} figures;

/* CPU of the server for each session, in us per second, while nobody trains. */
static double idle_us(const job *j)
{
    double start = member_cpu_seconds(&j->servers[0]);

    nanosleep(&(struct timespec){ .tv_sec = IDLE_S }, NULL);
    return 1e6 * (member_cpu_seconds(&j->servers[0]) - start) / IDLE_S /
           j->spec.n_trainers;
}

static size_t batches_of(int n_trainers)
{
    size_t n = BATCHES / (size_t)n_trainers;

    return n > BATCHES_EACH ? n : BATCHES_EACH;
}

/* All trainers train, a few at a time: more processes than cores would measure how
   this machine switches between them. */
static job_run train_all(job *j)
{
    const int n = j->spec.n_trainers, n_group = n < GROUP ? n : GROUP;
    const size_t n_each = batches_of(n);
    job_run all = { 0 };

    for (int first = 0; first < n; first += n_group) {
        job_run r = job_train_some(j, first, n_group, n_each);

        all.server_cpu_seconds += r.server_cpu_seconds;
        all.n_requests += r.n_requests;
        all.bytes += r.bytes;
    }
    return all;
}

static void measure(job *j, size_t n, figures *out)
{
    const int n_trainers = j->spec.n_trainers;
    const double samples = (double)batches_of(n_trainers) * n_trainers * BATCH;

    (void)train_all(j);
    for (size_t i = 0; i < n; i++) {
        job_run all = train_all(j);
        job_run one = job_train_some(j, 0, 1, BATCHES);

        out->busy[i] = 1e6 * all.server_cpu_seconds / all.n_requests;
        out->beside[i] = 1e6 * one.server_cpu_seconds / one.n_requests;
        out->idle[i] = idle_us(j);
        out->requests[i] = all.n_requests / samples;
        out->bytes[i] = all.bytes / samples;
    }
}

static void put_over(const char *prefix, const char *name, const double *x,
                     const double *first, size_t n)
{
    double ratio[REPEATS];

    for (size_t i = 0; i < n; i++)
        ratio[i] = x[i] / first[i];
    bench_figure(prefix, name, ratio, n, "ratio");
}

static void put(const char *prefix, const figures *f, const figures *first,
                size_t n)
{
    bench_figure(prefix, "request_us", f->busy, n, "us");
    put_over(prefix, "of_t1", f->busy, first->busy, n);
    bench_figure(prefix, "beside_idle_us", f->beside, n, "us");
    put_over(prefix, "beside_idle.of_t1", f->beside, first->beside, n);
    bench_figure(prefix, "idle_us", f->idle, n, "us/s/session");
    bench_figure(prefix, "requests_per_sample", f->requests, n, "requests");
    bench_figure(prefix, "bytes_per_sample", f->bytes, n, "bytes");
}

static job_spec tiny_job(int n_servers, int n_trainers)
{
    return (job_spec){ .mode = "async",
                       .n_servers = n_servers,
                       .n_trainers = n_trainers,
                       .is_tcp = true,
                       .geo_period = 1,
                       .seed = 1,
                       .work = &tiny_work };
}

void growth_servers(void)
{
    static const int sizes[] = { 1, 8, 64, 256 };
    static figures now, first;
    size_t n = bench_repeats(REPEATS);
    double alone_kb = 0;
    static job j;

    n = n < REPEATS ? n : REPEATS;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        job_spec spec = tiny_job(1, sizes[s]);
        double session;
        char prefix[48];

        job_start(&j, &spec);
        measure(&j, n, &now);
        session = resident_kb(&j.servers[0]);
        job_end(&j);
        if (!s) {
            first = now;
            alone_kb = session;
        }
        snprintf(prefix, sizeof prefix, "growth.server.t%d", sizes[s]);
        put(prefix, &now, &first, n);
        if (s) {
            session = (session - alone_kb) / (sizes[s] - 1);
            bench_figure(prefix, "session_kb", &session, 1, "KB");
        }
    }
}

/* --- more servers --------------------------------------------------------- */

void growth_trainers(void)
{
    static const int sizes[] = { 1, 2, 4, JOB_SERVERS_MAX };
    double batch[REPEATS], requests[REPEATS], first[REPEATS];
    size_t n = bench_repeats(REPEATS);
    static job j;

    n = n < REPEATS ? n : REPEATS;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        job_spec spec = tiny_job(sizes[s], 1);
        char prefix[48];

        job_start(&j, &spec);
        (void)job_train(&j, BATCHES);
        for (size_t i = 0; i < n; i++) {
            job_run r = job_train(&j, BATCHES);

            batch[i] = 1e6 * r.trainer_cpu[0] / BATCHES;
            requests[i] = r.n_requests / BATCHES;
            first[i] = s ? first[i] : batch[i];
        }
        job_end(&j);
        snprintf(prefix, sizeof prefix, "growth.trainer.s%d", sizes[s]);
        bench_figure(prefix, "batch_us", batch, n, "us");
        put_over(prefix, "of_s1", batch, first, n);
        bench_figure(prefix, "requests_per_batch", requests, n, "requests");
    }
}
