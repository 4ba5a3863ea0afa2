/* data_pass.c - one pass over a data set, with threads of its own.
 *
 * A thread goes on until it finds no more batches, or has enough. The first
 * failure ends the pass for all, when they come back for a batch, and is told
 * by the calling thread.
 */
#include "data.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct pass {
    fl_dataset *set;
    data_on_batch fn;
    void *arg;

    pthread_mutex_t mu; /* guards what follows */
    bool failed;
    char why[DATA_WHY_BYTES];
} pass;

typedef struct worker {
    pass *pass;
    int number;
    pthread_t thread;
    char why[DATA_WHY_BYTES];
} worker;

/* Only the first failure is kept: the others follow from it. */
static void fail_pass(pass *p, const char *why)
{
    pthread_mutex_lock(&p->mu);
    if (!p->failed)
        memcpy(p->why, why, sizeof(p->why));
    p->failed = true;
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

/* The last error belongs to the thread, so it is kept here. */
static data_verdict one_batch(worker *w)
{
    const fl_feed *feeds = NULL;
    size_t n_rows = 0;

    if (fl_dataset_next(w->pass->set, w->number, &feeds, &n_rows)) {
        snprintf(w->why, sizeof(w->why), "%s", fl_last_error());
        return DATA_FAILED;
    }
    if (!feeds)
        return DATA_ENOUGH;
    return w->pass->fn(w->pass->arg, w->number, feeds, n_rows, w->why);
}

static void *work(void *arg)
{
    worker *w = arg;
    data_verdict v = DATA_MORE;

    while (v == DATA_MORE && !has_failed(w->pass))
        v = one_batch(w);
    if (v == DATA_FAILED)
        fail_pass(w->pass, w->why);
    return NULL;
}

/* The first worker is the calling thread; too few threads are no error. */
static void work_together(worker *workers, size_t n)
{
    size_t started = 1;

    while (started < n && !pthread_create(&workers[started].thread, NULL, work,
                                          &workers[started]))
        started++;
    work(&workers[0]);
    while (started-- > 1)
        pthread_join(workers[started].thread, NULL);
}

int data_pass(const data_args *a, data_input *in, data_on_batch fn, void *arg)
{
    size_t n = (size_t)a->threads;
    pass p = { .set = in->set, .fn = fn, .arg = arg };
    worker *workers = calloc(n, sizeof(*workers));
    int code = CMD_OK;

    if (!workers)
        return cmd_failed(a->self, "no memory for %zu threads", n);
    for (size_t i = 0; i < n; i++) {
        workers[i].pass = &p;
        workers[i].number = (int)i;
    }
    pthread_mutex_init(&p.mu, NULL);
    if (fl_dataset_begin(in->set, (int)n)) {
        code = cmd_failed(a->self, "%s", fl_last_error());
    } else {
        work_together(workers, n);
        fl_dataset_end(in->set);
    }
    if (p.failed)
        code = cmd_failed(a->self, "%s", p.why);
    pthread_mutex_destroy(&p.mu);
    free(workers);
    return code;
}

const void *data_values(const fl_feed *feed, size_t row, size_t *n)
{
    const fl_tensor *t = &feed->value;
    size_t bytes = fl_dtype_bytes(t->dtype);
    size_t lo, hi;

    if (t->kind == FL_KIND_RAGGED) {
        lo = (size_t)t->lod[0][row];
        hi = (size_t)t->lod[0][row + 1];
    } else {
        size_t width = (size_t)(fl_tensor_numel(t) / t->shape.dim[0]);

        lo = row * width;
        hi = lo + width;
    }
    *n = hi - lo;
    return (const char *)t->data + lo * bytes;
}
