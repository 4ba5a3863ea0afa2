/* modes_net.c - training threads of one process. */
#include "modes_net.h"

#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "modes_job.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const ctr_net_spec modes_net = { .optimizer = "sgd",
                                 .settings = "learning_rate=" TEXT(JOB_RATE) };

const ctr_net_spec *modes_net_of(const ctr_net_spec *given)
{
    return given ? given : &modes_net;
}

void modes_threads_init(modes_threads *t, fl_ctx *c, const ctr_net_spec *net,
                        const ctr_data *d, int n_threads)
{
    *t = (modes_threads){
        .data = d, .n_threads = n_threads, .n_joined = 1, .stride = 1
    };
    t->loss = ctr_net_build(c, net).loss;
    for (int i = 0; i < n_threads; i++)
        for (int k = 0; k < MODES_HELD; k++)
            t->batches[i][k] = ctr_batch_new();
}

void modes_threads_release(modes_threads *t)
{
    for (int i = 0; i < t->n_threads; i++)
        for (int k = 0; k < MODES_HELD; k++)
            free(t->batches[i][k]);
}

static void note_time(modes_threads *t)
{
    double now = member_now();

    if (t->last > 0 && now - t->last > t->longest)
        t->longest = now - t->last;
    t->last = now;
}

static bool next_batch(void *arg, int thread, fl_feed *feeds)
{
    modes_threads *t = arg;
    size_t at = atomic_fetch_add(&t->n_dealt, (size_t)t->n_joined);

    if (t->n_threads == 1)
        note_time(t);
    if (at >= t->n)
        return false;
    ctr_batch_fill(t->batches[thread][t->turn[thread]++ % MODES_HELD], t->data,
                   t->first + at * t->stride, t->n_joined, feeds);
    return true;
}

static void add_loss(void *arg, int thread, const fl_tensor *fetched)
{
    modes_threads *t = arg;

    t->sum[thread] += (double)*(const float *)fetched->data;
}

double modes_threads_train(modes_threads *t, fl_executor *e, fl_program *p,
                           size_t first, size_t n)
{
    double sum = 0;

    t->first = first;
    t->n = n;
    t->n_dealt = 0;
    t->last = t->longest = 0;
    for (int i = 0; i < t->n_threads; i++)
        t->sum[i] = 0;
    bench_check(
        fl_run_hogwild(e, p,
                       FL_OPTIONS(fl_hogwild_args, .n_threads = t->n_threads,
                                  .feed_names = ctr_feed_names,
                                  .n_feeds = CTR_FEEDS, .next = next_batch,
                                  .fetches = &t->loss, .n_fetches = 1,
                                  .on_batch = add_loss, .arg = t,
                                  .holds_batches = MODES_HELD)),
        "training");
    for (int i = 0; i < t->n_threads; i++)
        sum += t->sum[i];
    return sum * t->n_joined / (double)n;
}

/* --- the work of a job ---------------------------------------------------- */

typedef struct ctr_trainer {
    const ctr_task *task;
    int rank;
    modes_threads threads;
    ctr_judge *judge; /* NULL until it is needed */
} ctr_trainer;

static void build_ctr(fl_ctx *c, const job_spec *s)
{
    const ctr_task *task = s->task;

    (void)ctr_net_build(c, modes_net_of(task->net));
}

static void *begin_ctr(fl_ctx *c, const job_spec *s, int rank)
{
    ctr_trainer *t = bench_alloc(sizeof *t);

    t->task = s->task;
    t->rank = rank;
    modes_threads_init(&t->threads, c, modes_net_of(t->task->net),
                       t->task->data, 1);
    t->threads.stride = (size_t)s->n_trainers;
    return t;
}

static double train_ctr(void *state, fl_executor *e, fl_program *p,
                        const member_order *o)
{
    ctr_trainer *t = state;

    return modes_threads_train(&t->threads, e, p, o->first + (size_t)t->rank,
                               o->n);
}

static fl_status pull_dense(fl_job *j, const char *name, float *out)
{
    int dense;
    fl_status st = fl_job_find_dense(j, name, &dense);

    return st ? st : fl_job_pull_dense(j, dense, out);
}

static fl_status pull_rows(fl_job *j, const char *name, const uint64_t *keys,
                           float *out)
{
    int table;
    fl_status st = fl_job_find_table(j, name, &table);

    return st ? st : fl_job_pull(j, table, keys, CTR_ROWS, FL_PULL_ONLY, out);
}

static double judge_ctr(void *state, fl_transpiler *from, const member_order *o)
{
    ctr_trainer *t = state;
    float *values = bench_alloc(ctr_part_size(&ctr_parts[0]) * sizeof *values);
    uint64_t *keys = bench_alloc(CTR_ROWS * sizeof *keys);
    fl_job *j = fl_transpiler_job(from);

    (void)o;
    if (!t->judge)
        t->judge = ctr_judge_new();
    for (uint64_t i = 0; i < CTR_ROWS; i++)
        keys[i] = i;
    for (size_t i = 0; i < CTR_PARTS; i++) {
        const ctr_part *p = &ctr_parts[i];

        bench_check(i ? pull_dense(j, p->name, values)
                      : pull_rows(j, p->name, keys, values),
                    "fetching what was learnt");
        ctr_judge_set(t->judge, p, values);
    }
    free(values);
    free(keys);
    return ctr_judge_auc(t->judge, t->task->test);
}

static void end_ctr(void *state)
{
    ctr_trainer *t = state;

    ctr_judge_free(t->judge);
    modes_threads_release(&t->threads);
    free(t);
}

const job_work ctr_work = { .build = build_ctr,
                            .begin = begin_ctr,
                            .train = train_ctr,
                            .judge = judge_ctr,
                            .end = end_ctr };
