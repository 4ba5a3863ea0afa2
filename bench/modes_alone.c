/* modes_alone.c - the same work without servers, in a process of its own. */
#include <stdio.h>
#include <stdlib.h>

#include "floor_ctr.h"
#include "harness.h"
#include "modes_job.h"
#include "modes_net.h"

typedef struct worker {
    const alone_spec *spec;
    fl_ctx *ctx;
    fl_executor *exe;
    modes_threads threads;
    fl_compiled_program *replicas;
    floor_ctr *floor;
    ctr_judge *judge; /* NULL until it is needed */
    void *state;      /* of the work of a job */
} worker;

static fl_compiled_program *make_replicas(fl_ctx *c, const modes_threads *t)
{
    fl_compiled_program *cp;
    fl_build_strategy build =
        FL_INIT(fl_build_strategy, .reduce_strategy = FL_REPLICA_REDUCE);
    fl_exec_strategy exec =
        FL_INIT(fl_exec_strategy, .n_replicas = t->n_threads);

    bench_check(fl_compiled_program_new(&cp, fl_default_main_program(c)),
                "making replicas");
    bench_check(
        fl_compiled_program_with_data_parallel(cp, t->loss, &build, &exec),
        "making replicas");
    return cp;
}

static void build_threads(worker *w)
{
    const alone_spec *s = w->spec;
    ctr_net_spec net = *modes_net_of(s->task.net);
    bool is_joined = s->kind == ALONE_JOINED;

    net.is_distributed = s->kind == ALONE_TABLE;
    modes_threads_init(&w->threads, w->ctx, &net, s->task.data,
                       is_joined ? 1 : s->n_threads);
    if (is_joined)
        w->threads.n_joined = s->n_threads;
}

static void *begin_worker(const void *spec)
{
    const alone_spec *s = spec;
    worker *w = bench_alloc(sizeof *w);

    w->spec = s;
    if (s->kind == ALONE_FLOOR) {
        w->floor = floor_ctr_new(s->task.data, FLOOR_SGD, JOB_RATE, s->seed);
        return w;
    }
    w->ctx = job_ctx(s->seed);
    bench_check(fl_executor_new(&w->exe, w->ctx), "an executor");
    if (s->kind == ALONE_WORK)
        w->state =
            s->work->begin(w->ctx, &(job_spec){ .task = s->job_task }, 0);
    else
        build_threads(w);
    bench_check(fl_run(w->exe, fl_default_startup_program(w->ctx), NULL),
                "running the startup program");
    if (s->kind == ALONE_REDUCE)
        w->replicas = make_replicas(w->ctx, &w->threads);
    return w;
}

/* One batch per replica and step. */
static double train_replicas(worker *w, size_t first, size_t n)
{
    modes_threads *t = &w->threads;
    fl_feed feeds[MODES_THREADS_MAX * CTR_FEEDS];
    fl_tensor out[MODES_THREADS_MAX];
    fl_run_args args =
        FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = CTR_FEEDS,
                .fetches = &t->loss, .n_fetches = 1, .out = out);
    double sum = 0;

    for (size_t at = first; at < first + n; at += (size_t)t->n_threads) {
        for (int r = 0; r < t->n_threads; r++)
            ctr_batch_fill(t->batches[r][0], t->data, at + (size_t)r, 1,
                           feeds + r * CTR_FEEDS);
        bench_check(fl_run_compiled_each(w->exe, w->replicas, &args),
                    "training with replicas");
        for (int r = 0; r < t->n_threads; r++)
            sum += (double)*(const float *)out[r].data;
    }
    return sum / (double)n;
}

static double train(worker *w, const member_order *o)
{
    if (w->floor)
        return floor_ctr_train(w->floor, w->spec->n_threads, o->n);
    if (w->replicas)
        return train_replicas(w, o->first, o->n);
    if (w->state)
        return w->spec->work->train(w->state, w->exe,
                                    fl_default_main_program(w->ctx), o);
    return modes_threads_train(&w->threads, w->exe,
                               fl_default_main_program(w->ctx), o->first, o->n);
}

static double judge(worker *w)
{
    fl_tensor t;

    if (!w->judge)
        w->judge = ctr_judge_new();
    for (size_t i = 0; i < CTR_PARTS; i++) {
        bench_check(
            fl_scope_get(fl_current_scope(w->ctx), ctr_parts[i].name, &t),
            "looking at what was learnt");
        ctr_judge_set(w->judge, &ctr_parts[i], t.data);
    }
    return ctr_judge_auc(w->judge, w->spec->task.test);
}

static void end_worker(worker *w)
{
    ctr_judge_free(w->judge);
    if (w->replicas)
        fl_compiled_program_free(w->replicas);
    if (w->state)
        w->spec->work->end(w->state);
    if (w->floor) {
        floor_ctr_free(w->floor);
    } else {
        fl_executor_free(w->exe);
        fl_ctx_free(w->ctx);
        modes_threads_release(&w->threads);
    }
    free(w);
}

static void be_worker(void *state, const member_order *o, member_answer *out)
{
    worker *w = state;

    switch (o->what) {
    case MEMBER_TRAIN:
        out->loss = train(w, o);
        break;
    case MEMBER_SETTLE:
        break;
    case MEMBER_JUDGE:
        out->auc = judge(w);
        break;
    case MEMBER_END:
        end_worker(w);
        break;
    }
}

/* --- in the bench --------------------------------------------------------- */

void alone_start(alone *a, const alone_spec *spec)
{
    *a = (alone){ .spec = *spec };
    a->member = member_start(spec->name, begin_worker, be_worker, &a->spec);
    (void)member_hear(&a->member);
}

void alone_end(alone *a)
{
    member_end(&a->member);
}

job_run alone_train(alone *a, size_t n_batches)
{
    job_run r = { .cpu_seconds = -member_cpu_seconds(&a->member),
                  .seconds = -member_now() };

    member_tell(&a->member, (member_order){ MEMBER_TRAIN, a->next, n_batches });
    r.loss = member_hear(&a->member).loss;
    r.seconds += member_now();
    r.cpu_seconds += member_cpu_seconds(&a->member);
    a->next += n_batches;
    return r;
}

double alone_auc(alone *a)
{
    member_tell(&a->member, (member_order){ .what = MEMBER_JUDGE });
    return member_hear(&a->member).auc;
}
