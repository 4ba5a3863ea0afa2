/* predict_pass.c - threads that score, lines in the order of the records.
 *
 * One thread reads, so batches come in the order of the file. A thread takes the
 * next batch and its number under one lock, scores it and makes its lines for
 * itself, and writes them when the batches before it were written. A failure
 * ends the pass for all.
 */
#include "predict.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink.h"

/* The longest number, with what stands before it. */
#define NUMBER_BYTES 32

typedef struct pass {
    const predict_args *args;
    fl_model *model;
    fl_dataset *set;
    const predict_feeds *feeds;
    sink to;

    pthread_mutex_t taking; /* guards next and fl_dataset_next */
    uint64_t next;

    pthread_mutex_t mu; /* guards what follows; behind `taking` */
    pthread_cond_t changed;
    uint64_t written; /* batches */
    bool failed;
    char why[SINK_WHY_BYTES];
} pass;

typedef struct worker {
    pass *pass;
    int number;
    pthread_t thread;
    bool is_started;
    fl_predictor *predictor;
    fl_feed *feeds;
    fl_tensor *outputs;
    size_t n_outputs;
    char *text;
    size_t len, cap;
} worker;

/* A batch on its way. */
typedef struct batch {
    const fl_feed *feeds; /* NULL: there are no more */
    size_t n_rows;
    uint64_t number;
} batch;

/* --- failing -------------------------------------------------------------- */

static void fail_pass(pass *p, const char *why)
{
    pthread_mutex_lock(&p->mu);
    if (!p->failed)
        (void)snprintf(p->why, sizeof(p->why), "%s", why);
    p->failed = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->mu);
}

static bool has_failed(pass *p)
{
    bool failed;

    pthread_mutex_lock(&p->mu);
    failed = p->failed;
    pthread_mutex_unlock(&p->mu);
    return failed;
}

/* --- lines ---------------------------------------------------------------- */

static bool reserve(worker *w, size_t more)
{
    size_t cap = w->cap ? w->cap : 4096;
    char *text;

    while (cap < w->len + more)
        cap *= 2;
    if (cap == w->cap)
        return true;
    text = realloc(w->text, cap);
    if (!text)
        return false;
    w->text = text;
    w->cap = cap;
    return true;
}

#define PRINTER(name, type, format, shown)                                     \
    static int print_##name(char *to, const void *data, size_t i)              \
    {                                                                          \
        return snprintf(to, NUMBER_BYTES, format,                              \
                        (shown)((const type *)data)[i]);                       \
    }

/* As many digits as it takes to read the same number back. */
PRINTER(f32, float, "%.9g", double)
PRINTER(f64, double, "%.17g", double)
PRINTER(i32, int32_t, "%" PRId32, int32_t)
PRINTER(i64, int64_t, "%" PRId64, int64_t)
PRINTER(u64, uint64_t, "%" PRIu64, uint64_t)
PRINTER(u8, uint8_t, "%u", unsigned)

static int (*const printers[])(char *, const void *, size_t) = {
    [FL_DTYPE_F32] = print_f32, [FL_DTYPE_F64] = print_f64,
    [FL_DTYPE_I32] = print_i32, [FL_DTYPE_I64] = print_i64,
    [FL_DTYPE_U64] = print_u64, [FL_DTYPE_U8] = print_u8,
    [FL_DTYPE_BOOL] = print_u8,
};

/* The numbers of one record of one output, each with a tab behind it. */
static bool add_numbers(worker *w, const fl_tensor *t, size_t row,
                        size_t n_rows)
{
    size_t width = (size_t)fl_tensor_numel(t) / n_rows;

    if (!reserve(w, (width + 1) * NUMBER_BYTES))
        return false;
    for (size_t i = row * width; i < (row + 1) * width; i++) {
        w->len += (size_t)printers[t->dtype](w->text + w->len, t->data, i);
        w->text[w->len++] = '\t';
    }
    return true;
}

static bool add_line(worker *w, size_t row, size_t n_rows)
{
    for (size_t o = 0; o < w->n_outputs; o++)
        if (!add_numbers(w, &w->outputs[o], row, n_rows))
            return false;
    w->text[w->len - 1] = '\n'; /* instead of the last tab */
    return true;
}

/* An output that does not have a row for each record cannot be a score. */
static const char *make_lines(worker *w, size_t n_rows)
{
    w->len = 0;
    for (size_t o = 0; o < w->n_outputs; o++) {
        const fl_shape *s = &w->outputs[o].shape;

        if (!s->rank || s->dim[0] != (int64_t)n_rows ||
            !fl_tensor_numel(&w->outputs[o]))
            return "an output of the model has no number for each record; only "
                   "such outputs can be written as lines";
    }
    for (size_t i = 0; i < n_rows; i++)
        if (!add_line(w, i, n_rows))
            return "no memory for the lines of a batch";
    return NULL;
}

/* --- batches -------------------------------------------------------------- */

/* Batches are numbered as they come. */
static fl_status take_batch(worker *w, batch *out)
{
    pass *p = w->pass;
    fl_status st;

    pthread_mutex_lock(&p->taking);
    st = fl_dataset_next(p->set, w->number, &out->feeds, &out->n_rows);
    out->number = p->next;
    p->next += !st && out->feeds;
    pthread_mutex_unlock(&p->taking);
    return st;
}

/* Waits for the batches before this one. */
static bool write_in_turn(worker *w, uint64_t number)
{
    pass *p = w->pass;
    bool goes_on;

    pthread_mutex_lock(&p->mu);
    while (!p->failed && p->written != number)
        pthread_cond_wait(&p->changed, &p->mu);
    goes_on = !p->failed && sink_write(&p->to, w->text, w->len);
    p->failed = !goes_on;
    p->written++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->mu);
    return goes_on;
}

/* False when there is no more, or the pass has failed. */
static bool one_batch(worker *w)
{
    batch b = { 0 };
    const char *why;

    if (take_batch(w, &b)) {
        fail_pass(w->pass, fl_last_error());
        return false;
    }
    if (!b.feeds)
        return false;
    predict_feeds_of(w->pass->feeds, b.feeds, b.n_rows, w->feeds);
    if (fl_predictor_run(w->predictor, w->feeds, w->pass->feeds->n, w->outputs,
                         w->n_outputs)) {
        fail_pass(w->pass, fl_last_error());
        return false;
    }
    why = make_lines(w, b.n_rows);
    if (why) {
        fail_pass(w->pass, why);
        return false;
    }
    return write_in_turn(w, b.number);
}

static void *work(void *arg)
{
    worker *w = arg;

    while (!has_failed(w->pass) && one_batch(w))
        ;
    return NULL;
}

/* --- threads -------------------------------------------------------------- */

static bool worker_init(worker *w, pass *p, int number)
{
    w->pass = p;
    w->number = number;
    (void)fl_model_outputs(p->model, &w->n_outputs);
    w->feeds = calloc(p->feeds->n + 1, sizeof(*w->feeds));
    w->outputs = calloc(w->n_outputs + 1, sizeof(*w->outputs));
    if (!w->feeds || !w->outputs) {
        fail_pass(p, "no memory for a thread");
        return false;
    }
    if (fl_predictor_new(&w->predictor, p->model)) {
        fail_pass(p, fl_last_error());
        return false;
    }
    return true;
}

static void worker_release(worker *w)
{
    fl_predictor_free(w->predictor);
    free(w->feeds);
    free(w->outputs);
    free(w->text);
}

/* The first worker is the calling thread; too few threads are no error. */
static void work_together(worker *workers, size_t n)
{
    for (size_t i = 1; i < n; i++)
        workers[i].is_started =
            !pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    work(&workers[0]);
    for (size_t i = 1; i < n; i++)
        if (workers[i].is_started)
            pthread_join(workers[i].thread, NULL);
}

static void run_workers(pass *p, worker *workers, size_t n)
{
    bool are_ready = true;

    for (size_t i = 0; are_ready && i < n; i++)
        are_ready = worker_init(&workers[i], p, (int)i);
    if (are_ready && fl_dataset_begin(p->set, (int)n)) {
        fail_pass(p, fl_last_error());
    } else if (are_ready) {
        work_together(workers, n);
        fl_dataset_end(p->set);
    }
    for (size_t i = 0; i < n; i++)
        worker_release(&workers[i]);
}

/* The file is there when every line is. */
static int finish(pass *p)
{
    const char *self = p->args->self;

    if (p->failed && p->why[0]) {
        sink_abandon(&p->to);
        return cmd_failed(self, "%s", p->why);
    }
    if (p->failed || !sink_close(&p->to)) {
        int code = sink_failed(&p->to, self);

        sink_abandon(&p->to);
        return code;
    }
    return CMD_OK;
}

int predict_pass(const predict_args *a, fl_model *m, data_input *in,
                 const predict_feeds *feeds)
{
    size_t n = (size_t)a->data.threads;
    pass p = { .args = a, .model = m, .set = in->set, .feeds = feeds };
    worker *workers = calloc(n, sizeof(*workers));
    int code;

    if (!workers)
        return cmd_failed(a->self, "no memory for %zu threads", n);
    if (!sink_open(&p.to, a->data.out, "-o")) {
        free(workers);
        return sink_failed(&p.to, a->self);
    }
    pthread_mutex_init(&p.taking, NULL);
    pthread_mutex_init(&p.mu, NULL);
    pthread_cond_init(&p.changed, NULL);
    run_workers(&p, workers, n);
    code = finish(&p);
    pthread_cond_destroy(&p.changed);
    pthread_mutex_destroy(&p.mu);
    pthread_mutex_destroy(&p.taking);
    free(workers);
    return code;
}
