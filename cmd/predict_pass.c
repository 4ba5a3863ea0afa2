/* predict_pass.c - threads that score, batches in the order of the records.
 *
 * One thread reads, so batches come in the order of the file. A thread takes the
 * next batch and its number under one lock, scores it, makes of it for itself
 * what is wanted, and hands that over when the batches before it were. A failure
 * ends the pass for all.
 */
#include "predict.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct pass {
    fl_model *model;
    fl_dataset *set;
    const predict_feeds *feeds;
    const predict_taker *taker;

    pthread_mutex_t taking; /* guards next and fl_dataset_next */
    uint64_t next;

    pthread_mutex_t mu; /* guards what follows; behind `taking` */
    pthread_cond_t changed;
    uint64_t written; /* batches */
    bool failed;
    char why[PREDICT_WHY_BYTES];
} pass;

typedef struct worker {
    pass *pass;
    int number;
    pthread_t thread;
    bool is_started;
    fl_predictor *predictor;
    fl_feed *feeds;
    predict_batch batch;
} worker;

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

/* --- batches -------------------------------------------------------------- */

/* Batches are numbered as they come. */
static fl_status take_batch(worker *w)
{
    pass *p = w->pass;
    fl_status st;

    pthread_mutex_lock(&p->taking);
    st = fl_dataset_next(p->set, w->number, &w->batch.slots, &w->batch.n_rows);
    w->batch.number = p->next;
    p->next += !st && w->batch.slots;
    pthread_mutex_unlock(&p->taking);
    return st;
}

static bool is_mine(const worker *w)
{
    const predict_taker *t = w->pass->taker;

    return !t->n_shares || w->batch.number % t->n_shares == t->mine;
}

/* Waits for the batches before this one. */
static bool hand_over(worker *w)
{
    pass *p = w->pass;
    const predict_taker *t = p->taker;
    bool goes_on;

    pthread_mutex_lock(&p->mu);
    while (!p->failed && p->written != w->batch.number)
        pthread_cond_wait(&p->changed, &p->mu);
    goes_on = !p->failed && (!is_mine(w) || t->take(t->arg, &w->batch, p->why));
    p->failed |= !goes_on;
    p->written++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->mu);
    return goes_on;
}

/* NULL, or why it cannot be done. */
static const char *score(worker *w)
{
    const pass *p = w->pass;

    predict_feeds_of(p->feeds, w->batch.slots, w->batch.n_rows, w->feeds);
    if (fl_predictor_run(w->predictor, w->feeds, p->feeds->n, w->batch.outputs,
                         w->batch.n_outputs))
        return fl_last_error();
    return p->taker->make ? p->taker->make(&w->batch) : NULL;
}

/* False when there is no more, or the pass has failed. */
static bool one_batch(worker *w)
{
    const char *why = take_batch(w) ? fl_last_error() : NULL;

    if (!why && !w->batch.slots)
        return false;
    if (!why && is_mine(w))
        why = score(w);
    if (why) {
        fail_pass(w->pass, why);
        return false;
    }
    return hand_over(w);
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
    (void)fl_model_outputs(p->model, &w->batch.n_outputs);
    w->feeds = calloc(p->feeds->n + 1, sizeof(*w->feeds));
    w->batch.outputs =
        calloc(w->batch.n_outputs + 1, sizeof(*w->batch.outputs));
    if (!w->feeds || !w->batch.outputs) {
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
    free(w->batch.outputs);
    free(w->batch.text);
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

int predict_pass(const predict_args *a, fl_model *m, data_input *in,
                 const predict_feeds *feeds, const predict_taker *taker)
{
    size_t n = (size_t)a->data.threads;
    pass p = { .model = m, .set = in->set, .feeds = feeds, .taker = taker };
    worker *workers = calloc(n, sizeof(*workers));

    if (!workers)
        return cmd_failed(a->self, "no memory for %zu threads", n);
    pthread_mutex_init(&p.taking, NULL);
    pthread_mutex_init(&p.mu, NULL);
    pthread_cond_init(&p.changed, NULL);
    run_workers(&p, workers, n);
    pthread_cond_destroy(&p.changed);
    pthread_mutex_destroy(&p.mu);
    pthread_mutex_destroy(&p.taking);
    free(workers);
    return p.failed ? cmd_failed(a->self, "%s", p.why) : CMD_OK;
}
