/* w2v.c - word2vec: skip-gram with negatives, on one machine and on servers.
 *
 * A batch is 100 pairs of a word and one beside it, with five negatives for all
 * of them; the loss is the sigmoid cross entropy of one right and five wrong
 * logits, summed, and the mean over the batch. All parameters are sparse rows,
 * and a batch is small: so this is where the way of the rows counts most.
 *
 * Local threads, async and geo take turns on the same text, each process or
 * thread on its half; in the end their vectors are compared with what people
 * think of pairs of words.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "modes_job.h"
#include "w2v_speed.h"
#include "w2v_text.h"

#define N_WORKERS 2
#define TEXT_WORDS 8000000
#define BATCH 100
#define NEGATIVES 5
#define DIM 100
#define SETTINGS "learning_rate=1.0"
#define HELD 16 /* batches that a trainer may look at at once */
#define GEO_PERIOD 400

#define TURN_BATCHES 4000 /* of a worker */
#define ROUNDS 50
#define ROUNDS_MAX 200

enum { CENTER, CONTEXT, NEGATIVE, LABEL, N_FEEDS };
static const char *const feed_names[N_FEEDS] = { "center", "context",
                                                 "negatives", "label" };

static const char *const lists[] = { "EN-WS-353-ALL", "EN-MEN-TR-3k" };
static const char *const list_names[] = { "ws353", "men" };
#define N_LISTS (sizeof lists / sizeof *lists)

typedef struct w2v_task {
    const w2v_text *text;
    const char *dir;
} w2v_task;

/* --- the network ---------------------------------------------------------- */

static fl_var *rows_of(fl_var *ids, const w2v_task *t, const char *name,
                       int64_t width)
{
    char init[64];

    snprintf(init, sizeof init, "uniform(%g,%g)", -0.5 / DIM, 0.5 / DIM);
    return fl_layers_embedding(
        ids, (int64_t)t->text->n_words, width, .is_sparse = true,
        .param = { .name = name, .init = name[3] ? "constant(0)" : init });
}

static fl_var *ids_of(fl_ctx *c, int feed)
{
    return fl_layers_data(c, feed_names[feed], FL_DTYPE_I64, 2,
                          (int64_t[]){ -1, 1 }, 0);
}

/* Logits [batch, 1 + NEGATIVES], the right one first. */
static fl_var *logits(fl_ctx *c, const w2v_task *t)
{
    fl_var *center = rows_of(ids_of(c, CENTER), t, "emb", DIM);
    fl_var *context = ids_of(c, CONTEXT), *negative = ids_of(c, NEGATIVE);
    fl_var *right, *wrong;

    right = fl_layers_binary("elementwise_mul", center,
                             rows_of(context, t, "emb_w", DIM), NULL);
    right = fl_layers_unary("reduce_sum", right, "{dim=[1], keep_dim=true}");
    right = fl_layers_binary("elementwise_add", right,
                             rows_of(context, t, "emb_b", 1), NULL);
    wrong =
        fl_layers_binary("matmul", center, rows_of(negative, t, "emb_w", DIM),
                         "{transpose_Y=true}");
    wrong = fl_layers_binary("elementwise_add", wrong,
                             fl_layers_reshape(rows_of(negative, t, "emb_b", 1),
                                               1, (int64_t[]){ NEGATIVES }),
                             NULL);
    return fl_layers_concat((fl_var *[]){ right, wrong }, 2, 1);
}

static fl_var *build(fl_ctx *c, const w2v_task *t)
{
    fl_var *label = fl_layers_data(c, feed_names[LABEL], FL_DTYPE_F32, 2,
                                   (int64_t[]){ -1, 1 + NEGATIVES }, 0);
    fl_var *loss =
        fl_layers_sigmoid_cross_entropy_with_logits(logits(c, t), label);
    fl_optimizer *o;

    loss = fl_layers_scale(fl_layers_mean(loss), 1 + NEGATIVES, 0);
    bench_check_new(loss, "building the network");
    bench_check(fl_optimizer_new(&o, c, "sgd", SETTINGS),
                "making the optimizer");
    bench_check(fl_minimize(o, loss), "minimize");
    return loss;
}

/* --- batches -------------------------------------------------------------- */

typedef struct batch {
    int64_t centers[BATCH], contexts[BATCH], negatives[NEGATIVES];
} batch;

/* A thread: where it reads, and its last batches, in turn. */
typedef struct lane {
    w2v_reader reader;
    batch batches[HELD];
    unsigned turn;
    size_t n_left;
    double loss;
} lane;

typedef struct worker {
    const w2v_task *task;
    fl_ctx *ctx;
    fl_executor *exe; /* of a local one */
    const char *loss;
    int n_threads;
    lane lanes[N_WORKERS];
    float labels[BATCH][1 + NEGATIVES];
} worker;

static bool next_batch(void *arg, int thread, fl_feed *feeds)
{
    worker *w = arg;
    lane *l = &w->lanes[thread];
    batch *b = &l->batches[l->turn++ % HELD];
    const int64_t column[2] = { BATCH, 1 };

    if (!l->n_left)
        return false;
    l->n_left--;
    w2v_read(&l->reader, b->centers, b->contexts, BATCH, b->negatives,
             NEGATIVES);
    feeds[CENTER].value = fl_tensor_of(FL_DTYPE_I64, b->centers, 2, column);
    feeds[CONTEXT].value = fl_tensor_of(FL_DTYPE_I64, b->contexts, 2, column);
    feeds[NEGATIVE].value = fl_tensor_of(FL_DTYPE_I64, b->negatives, 2,
                                         (int64_t[]){ NEGATIVES, 1 });
    feeds[LABEL].value = fl_tensor_of(FL_DTYPE_F32, w->labels, 2,
                                      (int64_t[]){ BATCH, 1 + NEGATIVES });
    return true;
}

static void add_loss(void *arg, int thread, const fl_tensor *fetched)
{
    worker *w = arg;

    w->lanes[thread].loss += (double)*(const float *)fetched->data;
}

static worker *worker_new(fl_ctx *c, const w2v_task *t, int first_part,
                          int n_threads)
{
    worker *w = bench_alloc(sizeof *w);

    w->task = t;
    w->ctx = c;
    w->n_threads = n_threads;
    w->loss = fl_var_name(build(c, t));
    for (int i = 0; i < n_threads; i++)
        w->lanes[i].reader = w2v_reader_of(t->text, first_part + i, N_WORKERS);
    for (int i = 0; i < BATCH; i++)
        w->labels[i][0] = 1;
    return w;
}

/* o->n batches of each thread. */
static double train(worker *w, fl_executor *e, fl_program *p,
                    const member_order *o)
{
    double loss = 0;

    for (int i = 0; i < w->n_threads; i++) {
        w->lanes[i].n_left = o->n;
        w->lanes[i].loss = 0;
    }
    bench_check(
        fl_run_hogwild(e, p,
                       FL_OPTIONS(fl_hogwild_args, .n_threads = w->n_threads,
                                  .feed_names = feed_names, .n_feeds = N_FEEDS,
                                  .next = next_batch, .fetches = &w->loss,
                                  .n_fetches = 1, .on_batch = add_loss,
                                  .arg = w, .holds_batches = HELD)),
        "training");
    for (int i = 0; i < w->n_threads; i++)
        loss += w->lanes[i].loss;
    return loss / (double)o->n / w->n_threads;
}

static double judge_rows(const w2v_task *t, size_t list, const float *rows)
{
    size_t n_missing;

    return w2v_spearman(t->text, t->dir, lists[list], rows, DIM, &n_missing);
}

/* --- a job's trainers ----------------------------------------------------- */

static void build_w2v(fl_ctx *c, const job_spec *s)
{
    (void)build(c, s->task);
}

static void *begin_w2v(fl_ctx *c, const job_spec *s, int rank)
{
    return worker_new(c, s->task, rank, 1);
}

static double train_w2v(void *state, fl_executor *e, fl_program *p,
                        const member_order *o)
{
    return train(state, e, p, o);
}

static double judge_w2v(void *state, fl_transpiler *t, const member_order *o)
{
    const worker *w = state;
    const size_t n = w->task->text->n_words;
    float *rows = bench_alloc(n * DIM * sizeof *rows);
    uint64_t *keys = bench_alloc(n * sizeof *keys);
    fl_job *j = fl_transpiler_job(t);
    double r;
    int table;

    for (size_t i = 0; i < n; i++)
        keys[i] = i;
    bench_check(fl_job_find_table(j, "emb", &table), "finding emb");
    bench_check(fl_job_pull(j, table, keys, n, FL_PULL_ONLY, rows),
                "fetching what was learnt");
    r = judge_rows(w->task, o->n, rows);
    free(rows);
    free(keys);
    return r;
}

static void end_w2v(void *state)
{
    free(state);
}

static const job_work w2v_work = { .build = build_w2v,
                                   .begin = begin_w2v,
                                   .train = train_w2v,
                                   .judge = judge_w2v,
                                   .end = end_w2v };

/* --- threads of one process ----------------------------------------------- */

static void *begin_local(const void *spec)
{
    worker *w = worker_new(job_ctx(1), spec, 0, N_WORKERS);

    bench_check(fl_executor_new(&w->exe, w->ctx), "an executor");
    bench_check(fl_run(w->exe, fl_default_startup_program(w->ctx), NULL),
                "running the startup program");
    return w;
}

static double judge_local(const worker *w, const member_order *o)
{
    fl_tensor t;

    bench_check(fl_scope_get(fl_current_scope(w->ctx), "emb", &t),
                "looking at what was learnt");
    return judge_rows(w->task, o->n, t.data);
}

static void be_local(void *state, const member_order *o, member_answer *out)
{
    worker *w = state;

    switch (o->what) {
    case MEMBER_TRAIN:
        out->loss = train(w, w->exe, fl_default_main_program(w->ctx), o);
        break;
    case MEMBER_SETTLE:
        break;
    case MEMBER_JUDGE:
        out->auc = judge_local(w, o);
        break;
    case MEMBER_END:
        fl_executor_free(w->exe);
        fl_ctx_free(w->ctx);
        free(w);
        break;
    }
}

static job_run train_local(const member *m, size_t n_each)
{
    job_run r = { .cpu_seconds = -member_cpu_seconds(m),
                  .seconds = -member_now() };

    member_tell(m, (member_order){ .what = MEMBER_TRAIN, .n = n_each });
    r.loss = member_hear(m).loss;
    r.seconds += member_now();
    r.cpu_seconds += member_cpu_seconds(m);
    return r;
}

static double judge_member(const member *m, size_t list)
{
    member_tell(m, (member_order){ .what = MEMBER_JUDGE, .n = list });
    return member_hear(m).auc;
}

/* --- rounds --------------------------------------------------------------- */

static const char *const modes[] = { "async", "geo" };
#define N_MODES (sizeof modes / sizeof *modes)

typedef struct rounds {
    member local;
    job jobs[N_MODES];
    job_run runs[N_MODES][ROUNDS_MAX], locals[ROUNDS_MAX];
    size_t n;
} rounds;

static void start_all(rounds *r, const w2v_task *t)
{
    r->local = member_start("local", begin_local, be_local, t);
    (void)member_hear(&r->local);
    for (size_t m = 0; m < N_MODES; m++)
        job_start(&r->jobs[m], &(job_spec){ .mode = modes[m],
                                            .n_servers = 1,
                                            .n_trainers = N_WORKERS,
                                            .geo_period = GEO_PERIOD,
                                            .seed = 1,
                                            .work = &w2v_work,
                                            .task = t });
}

static void run_all(rounds *r)
{
    for (size_t i = 0; i < r->n; i++)
        for (size_t k = 0; k <= N_MODES; k++) {
            size_t who = (k + i) % (N_MODES + 1);

            if (who < N_MODES)
                r->runs[who][i] = job_train(&r->jobs[who], TURN_BATCHES);
            else
                r->locals[i] = train_local(&r->local, TURN_BATCHES);
        }
}

/* Pairs make words: as many of the text as were read for them. */
static double words_per_pair(const w2v_text *t)
{
    w2v_reader r = w2v_reader_of(t, 0, 1);
    batch b;

    for (int i = 0; i < 1000; i++)
        w2v_read(&r, b.centers, b.contexts, BATCH, b.negatives, NEGATIVES);
    return (double)r.n_read / (1000 * BATCH);
}

static void put_mode(const rounds *r, size_t m, double words)
{
    double rate[ROUNDS_MAX], share[ROUNDS_MAX], cpu[ROUNDS_MAX];
    char prefix[32];

    snprintf(prefix, sizeof prefix, "w2v.%s", modes[m]);
    for (size_t i = 0; i < r->n; i++) {
        const job_run *run = &r->runs[m][i], *local = &r->locals[i];

        rate[i] = words / run->seconds;
        share[i] = local->seconds / run->seconds;
        cpu[i] = run->cpu_seconds / local->cpu_seconds;
    }
    bench_figure(prefix, "rate", rate, r->n, "words/s");
    bench_figure(prefix, "of_local", share, r->n, "ratio");
    bench_figure(prefix, "cpu_over_local", cpu, r->n, "ratio");
    printf("# %s: loss %.4f -> %.4f\n", prefix, r->runs[m][0].loss,
           r->runs[m][r->n - 1].loss);
}

static void put_quality(rounds *r)
{
    char name[48];

    for (size_t l = 0; l < N_LISTS; l++) {
        double x = judge_member(&r->local, l);

        snprintf(name, sizeof name, "spearman_%s", list_names[l]);
        bench_figure("w2v.local", name, &x, 1, "rho");
        for (size_t m = 0; m < N_MODES; m++) {
            char prefix[32];

            snprintf(prefix, sizeof prefix, "w2v.%s", modes[m]);
            x = job_judge(&r->jobs[m], l);
            bench_figure(prefix, name, &x, 1, "rho");
        }
    }
}

static void measure(const w2v_task *t)
{
    rounds *r = bench_alloc(sizeof *r);
    double words = words_per_pair(t->text) * BATCH * TURN_BATCHES * N_WORKERS;
    double rate[ROUNDS_MAX];

    r->n = bench_repeats(ROUNDS);
    if (r->n > ROUNDS_MAX)
        r->n = ROUNDS_MAX;
    start_all(r, t);
    run_all(r);
    for (size_t i = 0; i < r->n; i++)
        rate[i] = words / r->locals[i].seconds;
    bench_figure("w2v.local", "rate", rate, r->n, "words/s");
    printf("# w2v.local: loss %.4f -> %.4f\n", r->locals[0].loss,
           r->locals[r->n - 1].loss);
    for (size_t m = 0; m < N_MODES; m++)
        put_mode(r, m, words);
    put_quality(r);
    member_end(&r->local);
    for (size_t m = 0; m < N_MODES; m++)
        job_end(&r->jobs[m]);
    free(r);
}

int main(void)
{
    w2v_task task = { .dir = getenv("BENCH_TEXT") };
    const char *part = getenv("BENCH_W2V");
    w2v_text text;

    if (!task.dir || !w2v_text_open(&text, task.dir, TEXT_WORDS)) {
        printf("# w2v: skipped; BENCH_TEXT names no directory with a corpus "
               "(bench/README.md)\n");
        return 0;
    }
    task.text = &text;
    printf("# w2v: %zu words of text, %zu different\n", text.len, text.n_words);
    if (!part || !strcmp(part, "modes"))
        measure(&task);
    if (!part || !strcmp(part, "speed"))
        w2v_measure_speed(&text, task.dir);
    w2v_text_close(&text);
    return 0;
}
