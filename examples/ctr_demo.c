/* ctr_demo.c - trains a click-through-rate model and shows what it learned.
 *
 *     usage: ctr_demo [--samples N] [--threads N]
 *
 * The data is a click log made in memory. Each line has 26 ids (who, where,
 * what was shown), 13 numbers, and whether there was a click, drawn with a
 * probability that a planted model gives. So the best possible result is known
 * here, which it never is in life: a model that scores each line with its true
 * probability cannot be beaten.
 *
 * The network is a CTR-DNN: each id picks a row of 8 numbers from one table,
 * all of them and the 13 numbers go through two dense layers. Training is
 * hogwild: each thread takes its own batches and updates the shared parameters
 * without locks. Two threads rarely meet on one row of the table, and where
 * they do, a lost update costs less than a lock would.
 */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <flotilla/flotilla.h>

enum {
    N_SLOTS = 26,
    N_DENSE = 13,
    SLOT_IDS = 3846, /* ids of one slot; 26 times that is about 100 000 rows */
    TABLE_ROWS = N_SLOTS * SLOT_IDS,
    EMBEDDING = 8,
    BATCH = 256,
    N_FEEDS = N_SLOTS + 2,
    MAX_THREADS = 256,
    WINDOW = 20000 /* the AUC on the way is that of the last so many samples */
};

static _Noreturn void die(const char *what, const char *why)
{
    fprintf(stderr, "ctr_demo: %s: %s\n", what, why);
    exit(1);
}

/* --- the click log ------------------------------------------------------- */

/* Columns, so that a batch of a slot is one piece of memory to feed. */
typedef struct click_log {
    int64_t n;
    int64_t *ids[N_SLOTS];
    float *dense; /* [n, N_DENSE] */
    int64_t *click;
    float *truth; /* the probability that the click was drawn with */
} click_log;

/* Uniform in [0, 1), from (purpose, a, b) alone: no state to share. */
static double uniform(uint64_t purpose, uint64_t a, uint64_t b)
{
    uint64_t z = (purpose << 58) ^ (a << 8) ^ b;

    z = (z + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) / ((uint64_t)1 << 53);
}

enum { DRAW_ID = 1, DRAW_DENSE, DRAW_CLICK, PLANT_WEIGHT, PLANT_TASTE };

/* What the planted model knows about an id: uniform in [-1, 1). */
static double planted(uint64_t purpose, int64_t id)
{
    return 2 * uniform(purpose, (uint64_t)id, 0) - 1;
}

/* Some slots say much and most say little, as in life. */
static double voice(int slot)
{
    return 1 / (1 + slot / 3.0);
}

/* Every id pulls the click rate up or down, and neighbouring slots please or
   displease each other: the part that a linear model cannot find. */
static double true_logit(const click_log *log, int64_t i)
{
    double logit = -1.6;

    for (int s = 0; s < N_SLOTS; s++)
        logit += 1.5 * voice(s) * planted(PLANT_WEIGHT, log->ids[s][i]);
    for (int s = 0; s + 1 < N_SLOTS; s += 2)
        logit += voice(s) * planted(PLANT_TASTE, log->ids[s][i]) *
                 planted(PLANT_TASTE, log->ids[s + 1][i]);
    for (int d = 0; d < N_DENSE; d++)
        logit +=
            planted(PLANT_WEIGHT, -1 - d) * (log->dense[i * N_DENSE + d] - 0.5);
    return logit;
}

/* `line` counts over all logs of a run, so no two share a sample. */
static void draw_sample(click_log *log, int64_t i, uint64_t line)
{
    for (uint64_t s = 0; s < N_SLOTS; s++) {
        double u = uniform(DRAW_ID, line, s);

        /* The power makes a few ids common and most of them rare. */
        log->ids[s][i] =
            (int64_t)s * SLOT_IDS + (int64_t)(SLOT_IDS * pow(u, 6));
    }
    for (uint64_t d = 0; d < N_DENSE; d++)
        log->dense[i * N_DENSE + (int64_t)d] =
            (float)uniform(DRAW_DENSE, line, d);
    log->truth[i] = (float)(1 / (1 + exp(-true_logit(log, i))));
    log->click[i] = uniform(DRAW_CLICK, line, 0) < log->truth[i];
}

static void *must_alloc(int64_t n, size_t bytes)
{
    void *p = calloc((size_t)n, bytes);

    if (!p)
        die("making the click log", "no memory; ask for fewer --samples");
    return p;
}

static click_log make_log(int64_t n, uint64_t first_line)
{
    click_log log = { .n = n };

    for (int s = 0; s < N_SLOTS; s++)
        log.ids[s] = must_alloc(n, sizeof(int64_t));
    log.dense = must_alloc(n * N_DENSE, sizeof(float));
    log.click = must_alloc(n, sizeof(int64_t));
    log.truth = must_alloc(n, sizeof(float));
    for (int64_t i = 0; i < n; i++)
        draw_sample(&log, i, first_line + (uint64_t)i);
    return log;
}

static void free_log(click_log *log)
{
    for (int s = 0; s < N_SLOTS; s++)
        free(log->ids[s]);
    free(log->dense);
    free(log->click);
    free(log->truth);
}

/* --- the network --------------------------------------------------------- */

static const char *const feed_names[N_FEEDS] = {
    "C1",  "C2",  "C3",  "C4",  "C5",  "C6",  "C7",    "C8",   "C9",  "C10",
    "C11", "C12", "C13", "C14", "C15", "C16", "C17",   "C18",  "C19", "C20",
    "C21", "C22", "C23", "C24", "C25", "C26", "dense", "click"
};

typedef struct network {
    fl_var *prediction; /* [n, 2]: the probabilities of no click and of one */
    fl_var *loss;
} network;

static network build(fl_ctx *ctx)
{
    const int64_t one[] = { -1, 1 }, dense[] = { -1, N_DENSE };
    fl_var *parts[N_SLOTS + 1];
    fl_var *click, *hidden;
    network net;

    /* The slots share one table because they use one parameter name. The
       gradient of a batch touches few of its rows: is_sparse keeps it small. */
    for (int s = 0; s < N_SLOTS; s++)
        parts[s] = fl_embedding(
            fl_data(ctx, feed_names[s], FL_DTYPE_I64, 2, one, 0), TABLE_ROWS,
            EMBEDDING, .is_sparse = true, .param.name = "table",
            .param.init = "uniform(-0.05,0.05)");
    parts[N_SLOTS] = fl_data(ctx, "dense", FL_DTYPE_F32, 2, dense, 0);
    click = fl_data(ctx, "click", FL_DTYPE_I64, 2, one, 0);

    hidden = fl_concat(parts, N_SLOTS + 1, 1);
    hidden = fl_fc(hidden, 128, .act = "relu");
    hidden = fl_fc(hidden, 64, .act = "relu");
    net.prediction = fl_fc(hidden, 2, .act = "softmax");
    net.loss = fl_mean(fl_cross_entropy(net.prediction, click));
    return net;
}

/* The batch [lo, lo + n) as views of the log's columns: nothing is copied. */
static void fill_feeds(const click_log *log, int64_t lo, int64_t n,
                       fl_feed *feeds)
{
    const int64_t one[] = { n, 1 }, dense[] = { n, N_DENSE };

    for (int i = 0; i < N_FEEDS; i++)
        feeds[i].name = feed_names[i];
    for (int s = 0; s < N_SLOTS; s++)
        feeds[s].value = fl_tensor_of(FL_DTYPE_I64, log->ids[s] + lo, 2, one);
    feeds[N_SLOTS].value =
        fl_tensor_of(FL_DTYPE_F32, log->dense + lo * N_DENSE, 2, dense);
    feeds[N_SLOTS + 1].value =
        fl_tensor_of(FL_DTYPE_I64, log->click + lo, 2, one);
}

/* --- how good is it? ----------------------------------------------------- */

typedef struct scored {
    float score;
    int64_t click;
} scored;

static int by_score(const void *a, const void *b)
{
    float x = ((const scored *)a)->score, y = ((const scored *)b)->score;

    return (x > y) - (x < y);
}

/* The chance that a clicked sample scores higher than one that was not; a tie
   counts half. Sorts s. */
static double auc(scored *s, int64_t n)
{
    double clicks = 0, wins = 0;

    qsort(s, (size_t)n, sizeof(*s), by_score);
    for (int64_t lo = 0, hi; lo < n; lo = hi) {
        double before = (double)lo - clicks, tied = 0;

        for (hi = lo; hi < n && s[hi].score == s[lo].score; hi++)
            tied += s[hi].click != 0;
        wins += tied * (before + ((double)(hi - lo) - tied) / 2);
        clicks += tied;
    }
    return wins / (clicks * ((double)n - clicks));
}

/* --- training ------------------------------------------------------------ */

typedef struct training {
    const click_log *log;
    atomic_int_fast64_t next; /* the first sample that no thread has taken */
    int64_t lo[MAX_THREADS];  /* the batch that each thread is at */
    int64_t len[MAX_THREADS];

    pthread_mutex_t mu; /* guards what follows */
    int64_t done;
    double loss; /* a running mean */
    scored window[WINDOW];
    double started, told;
    bool on_terminal;
} training;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Called by every thread when it wants work. */
static bool next_batch(void *arg, int thread, fl_feed *feeds)
{
    training *t = arg;
    int64_t lo = atomic_fetch_add(&t->next, BATCH);

    if (lo >= t->log->n)
        return false;
    t->lo[thread] = lo;
    t->len[thread] = t->log->n - lo < BATCH ? t->log->n - lo : BATCH;
    fill_feeds(t->log, lo, t->len[thread], feeds);
    return true;
}

static void tell(training *t)
{
    static scored sorted[WINDOW]; /* guarded by t->mu, too */
    int64_t n = t->done < WINDOW ? t->done : WINDOW;
    double rate = (double)t->done / (now() - t->started);

    memcpy(sorted, t->window, (size_t)n * sizeof(*sorted));
    printf("%s%8" PRId64 " of %" PRId64 " samples  %7.0f samples/s  loss %.4f"
           "  AUC %.4f%s",
           t->on_terminal ? "\r" : "", t->done, t->log->n, rate, t->loss,
           auc(sorted, n), t->on_terminal ? "" : "\n");
    fflush(stdout);
    t->told = now();
}

/* Called after every batch with the prediction and the loss. The predictions
   were made before the update, so this is an honest test on unseen samples. */
static void on_batch(void *arg, int thread, const fl_tensor *fetched)
{
    training *t = arg;
    const float *prediction = fetched[0].data;
    double loss = *(const float *)fetched[1].data;
    double pause = t->on_terminal ? 0.2 : 1;

    pthread_mutex_lock(&t->mu);
    for (int64_t i = 0; i < t->len[thread]; i++) {
        scored *s = &t->window[t->done++ % WINDOW];

        s->score = prediction[2 * i + 1];
        s->click = t->log->click[t->lo[thread] + i];
    }
    t->loss += (loss - t->loss) * (t->loss == 0 ? 1 : 0.02);
    if (now() - t->told >= pause)
        tell(t);
    pthread_mutex_unlock(&t->mu);
}

static void train(fl_ctx *ctx, fl_executor *exe, const network *net,
                  const click_log *log, int n_threads)
{
    const char *fetches[] = { fl_var_name(net->prediction),
                              fl_var_name(net->loss) };
    training *t = must_alloc(1, sizeof(*t));
    fl_hogwild_args args = { .num_threads = n_threads,
                             .feed_names = feed_names,
                             .n_feeds = N_FEEDS,
                             .next = next_batch,
                             .fetches = fetches,
                             .n_fetches = 2,
                             .on_batch = on_batch,
                             .arg = t };

    t->log = log;
    t->started = t->told = now();
    t->on_terminal = isatty(STDOUT_FILENO);
    pthread_mutex_init(&t->mu, NULL);
    if (fl_run_hogwild(exe, fl_default_main_program(ctx), &args))
        die("training", fl_last_error());
    tell(t);
    if (t->on_terminal)
        putchar('\n');
    pthread_mutex_destroy(&t->mu);
    free(t);
}

/* --- the examination ----------------------------------------------------- */

/* Scores the held-out log. The test program is the main program without its
   backward and update operators: looking changes nothing. */
static double examine(fl_ctx *ctx, fl_executor *exe, const network *net,
                      const click_log *log)
{
    const char *fetches[] = { fl_var_name(net->prediction) };
    scored *s = must_alloc(log->n, sizeof(*s));
    fl_feed feeds[N_FEEDS];
    fl_program *test;
    fl_tensor out;
    fl_run_args args = { feeds, N_FEEDS, fetches, 1, &out };
    double result;

    if (fl_program_for_test(fl_default_main_program(ctx), &test))
        die("making the test program", fl_last_error());
    for (int64_t lo = 0; lo < log->n; lo += BATCH) {
        int64_t n = log->n - lo < BATCH ? log->n - lo : BATCH;

        fill_feeds(log, lo, n, feeds);
        if (fl_run(exe, test, &args))
            die("running the test program", fl_last_error());
        for (int64_t i = 0; i < n; i++)
            s[lo + i] =
                (scored){ ((float *)out.data)[2 * i + 1], log->click[lo + i] };
    }
    fl_program_release(test);
    result = auc(s, log->n);
    free(s);
    return result;
}

static double best_possible(const click_log *log)
{
    scored *s = must_alloc(log->n, sizeof(*s));
    double result;

    for (int64_t i = 0; i < log->n; i++)
        s[i] = (scored){ log->truth[i], log->click[i] };
    result = auc(s, log->n);
    free(s);
    return result;
}

static void print_result(int64_t n, double learned, double best)
{
    printf("\nAUC on %" PRId64 " samples that were held out:\n", n);
    printf("  knows nothing  0.5000\n");
    printf("  this model     %.4f\n", learned);
    printf("  best possible  %.4f   (the probabilities behind the log)\n",
           best);
    printf("\nThe model learned %.0f %% of what there is to know.\n"
           "Next: open examples/ctr_demo.c; build() is the network, "
           "fill_feeds() is where\na log of your own goes in.\n",
           100 * (learned - 0.5) / (best - 0.5));
}

/* --- the run ------------------------------------------------------------- */

static void run(int64_t n_samples, int n_threads)
{
    click_log train_log = make_log(n_samples, 0);
    click_log test_log = make_log(n_samples / 10, (uint64_t)n_samples);
    fl_ctx *ctx = fl_ctx_new();
    fl_executor *exe;
    fl_optimizer *adam;
    network net;
    double learned;

    if (!ctx)
        die("reading the settings", fl_last_error());
    /* Lazy: rows without a gradient in this batch are left alone. */
    net = build(ctx);
    adam = fl_optimizer_new(ctx, "adam", "learning_rate=0.001, lazy_mode=true");
    if (!net.loss || !adam || fl_minimize(adam, net.loss))
        die("building the network", fl_last_error());

    exe = fl_executor_new(ctx);
    if (fl_run(exe, fl_default_startup_program(ctx), NULL))
        die("giving the parameters their first values", fl_last_error());
    printf("CTR-DNN: %d id slots, %d numbers, table of %d rows of %d, "
           "threads: %d\n",
           N_SLOTS, N_DENSE, TABLE_ROWS, EMBEDDING, n_threads);
    train(ctx, exe, &net, &train_log, n_threads);
    learned = examine(ctx, exe, &net, &test_log);
    print_result(test_log.n, learned, best_possible(&test_log));

    fl_executor_free(exe);
    fl_ctx_free(ctx);
    free_log(&train_log);
    free_log(&test_log);
}

static bool read_count(const char *text, long lo, long hi, long *out)
{
    char *end;

    *out = strtol(text, &end, 10);
    return end != text && !*end && *out >= lo && *out <= hi;
}

/* All of them, as far as there is room for their batches. */
static long count_cores(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : n;
}

int main(int argc, char **argv)
{
    long samples = 300000, threads = count_cores();
    bool good = argc % 2 == 1;

    for (int i = 1; i + 1 < argc && good; i += 2) {
        if (!strcmp(argv[i], "--samples"))
            good = read_count(argv[i + 1], 1000, 100000000, &samples);
        else if (!strcmp(argv[i], "--threads"))
            good = read_count(argv[i + 1], 1, MAX_THREADS, &threads);
        else
            good = false;
    }
    if (!good) {
        fprintf(stderr,
                "usage: ctr_demo [--samples 1000..] [--threads 1..%d]\n",
                MAX_THREADS);
        return 2;
    }
    run(samples, (int)threads);
    return 0;
}
