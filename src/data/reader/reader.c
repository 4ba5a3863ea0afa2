/* reader.c - batches of generators, made ahead.
 *
 * A batch in flight is a ready batch. Workers put ready batches into queues:
 * one for all of them, or, when the order counts, one each, which consumers
 * then empty in turn; the queue of a worker that has ended is passed over once
 * it is empty.
 *
 *     thread     a feeder of the pool -> filled -> queue -> consumer -> pool
 *     process    shared slot -> watcher -> queue -> consumer -> shared slot
 *
 * A thread waits when its queue is full, with its next batch already made. A
 * process waits for a shared slot. A consumer gives its last batch back before
 * it waits for the next, so nobody waits in a circle.
 *
 * Locks: `mu` guards everything that workers and consumers share. Generators
 * are called without it. The workers' own lock is never held together with it.
 */
#include "data/reader/reader.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "data/reader/workers.h"

#define CAPACITY_PER_WORKER 4

/* Slots beside those that wait: one is with a consumer, one is being filled. */
#define SLOTS_BESIDE 2

/* A batch made by a thread. */
typedef struct box {
    fl_ready_batch ready; /* the first field: a ready batch is its box */
    fl_feeder *feeder;
} box;

typedef struct queue {
    fl_ready_batch *first, *last;
    size_t len;
    int n_open; /* workers that still put into it */
} queue;

typedef struct source {
    fl_generator fn;
    void *arg;
    bool by_sample;
    size_t batch_size;
    bool drop_last;
} source;

typedef struct maker {
    fl_reader *reader;
    int number;
    bool done; /* its generator has said the end; worker only */
    fl_thread *thread;
} maker;

typedef enum reader_state { STOPPED, STARTING, RUNNING, CLOSING } reader_state;

struct fl_reader {
    fl_feed_spec spec;
    fl_reader_args args; /* with all defaults filled in */
    source next_source;  /* what the next start takes */
    source source;       /* what runs */
    maker *makers;
    fl_workers *processes;
    atomic_bool stop; /* workers leave soon */

    fl_mutex mu;
    fl_cond ready;         /* something for consumers changed */
    fl_cond has_space;     /* something for workers changed */
    reader_state state;    /* guarded by mu, and so is what follows */
    queue *queues;         /* n_queues */
    int n_queues, turn;    /* turn: the queue that is asked next */
    size_t queue_max;      /* ready batches that may wait in one */
    fl_err error;          /* FL_OK: none */
    int n_asking;          /* consumers inside fl_reader_next */
    fl_ready_batch *pool;  /* boxes that nobody has */
    fl_ready_batch **held; /* what each consumer has borrowed */
};

/* --- setting up ---------------------------------------------------------- */

static fl_status check_args(const fl_reader_args *a)
{
    if (a->workers != FL_READER_THREADS && a->workers != FL_READER_PROCESSES)
        FL_FAIL(FL_ERR_INVAL,
                "workers %d is neither FL_READER_THREADS nor "
                "FL_READER_PROCESSES",
                (int)a->workers);
    if (a->n_workers < 0 || a->n_workers > FL_READER_WORKERS_MAX)
        FL_FAIL(FL_ERR_INVAL, "n_workers %d is not in 0..%d", a->n_workers,
                FL_READER_WORKERS_MAX);
    if (a->capacity > FL_READER_CAPACITY_MAX)
        FL_FAIL(FL_ERR_INVAL, "capacity %zu is more than %d batches",
                a->capacity, FL_READER_CAPACITY_MAX);
    return FL_OK;
}

static size_t divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

static void set_limits(fl_reader *r)
{
    fl_reader_args *a = &r->args;

    if (!a->n_workers)
        a->n_workers = 1;
    if (!a->capacity)
        a->capacity = (size_t)a->n_workers * CAPACITY_PER_WORKER;
    if (!a->batch_bytes_max)
        a->batch_bytes_max = FL_BATCH_BYTES_MAX;
    r->n_queues = a->ordered ? a->n_workers : 1;
    r->queue_max = divide_up(a->capacity, (size_t)r->n_queues);
}

fl_status fl_reader_make(fl_reader **out, const fl_slot *slots,
                         const fl_feed_var *vars, size_t n_slots,
                         const fl_reader_args *args)
{
    fl_feed_spec spec;
    fl_reader *r;

    FL_TRY(check_args(args));
    FL_TRY(fl_feed_spec_init(&spec, slots, vars, n_slots));
    r = fl_alloc(sizeof(*r));
    r->spec = spec;
    r->args = *args;
    set_limits(r);
    r->makers = fl_alloc((size_t)r->args.n_workers * sizeof(*r->makers));
    r->queues = fl_alloc((size_t)r->n_queues * sizeof(*r->queues));
    r->held = fl_alloc(FL_CONSUMERS_MAX * sizeof(fl_ready_batch *));
    fl_mutex_init(&r->mu);
    fl_cond_init(&r->ready);
    fl_cond_init(&r->has_space);
    *out = r;
    return FL_OK;
}

void fl_reader_free(fl_reader *r)
{
    if (!r)
        return;
    fl_reader_reset(r);
    while (r->pool) {
        box *b = (box *)(void *)r->pool;

        r->pool = b->ready.next;
        fl_feeder_free(b->feeder);
        fl_free(b);
    }
    fl_mutex_release(&r->mu);
    fl_cond_release(&r->ready);
    fl_cond_release(&r->has_space);
    fl_free(r->makers);
    fl_free(r->queues);
    fl_free(r->held);
    fl_feed_spec_release(&r->spec);
    fl_free(r);
}

void fl_reader_decorate_sample_generator(fl_reader *r, fl_generator fn,
                                         void *arg, size_t batch_size,
                                         bool drop_last)
{
    r->next_source = (source){ fn, arg, true, batch_size, drop_last };
}

void fl_reader_decorate_batch_generator(fl_reader *r, fl_generator fn,
                                        void *arg)
{
    r->next_source = (source){ .fn = fn, .arg = arg };
}

/* --- making batches: threads and processes alike ------------------------- */

/* One call of the generator. */
static fl_status generate(const fl_reader *r, int number, fl_feeder *into,
                          bool *end)
{
    fl_status st = r->source.fn(r->source.arg, number, into, end);

    if (st == FL_PENDING)
        FL_FAIL(FL_ERR_INVAL,
                "the generator gave the status %d, which is "
                "none; it has to wait for its data itself",
                (int)st);
    return st;
}

static fl_status end_with_data(void)
{
    FL_FAIL(FL_ERR_INVAL, "the generator put something into the feeder and set "
                          "end; set it in a call of its own");
}

static fl_status add_sample(fl_reader *r, maker *m, fl_feeder *into)
{
    size_t before = fl_feeder_samples(into);
    bool end = false;

    FL_TRY(generate(r, m->number, into, &end));
    if (end && (fl_feeder_samples(into) != before || fl_feeder_is_open(into)))
        return end_with_data();
    if (!end) {
        FL_TRY(fl_feeder_close_sample(into));
        if (fl_feeder_samples(into) != before + 1)
            FL_FAIL(FL_ERR_INVAL,
                    "the generator has to put one sample into the feeder at "
                    "each call, or none and set end; after sample %zu of the "
                    "batch it did neither",
                    before);
    }
    m->done = end;
    return FL_OK;
}

static fl_status add_samples(fl_reader *r, maker *m, fl_feeder *into, bool *end)
{
    const source *s = &r->source;
    size_t n;

    while (!m->done && fl_feeder_samples(into) < s->batch_size &&
           !atomic_load_explicit(&r->stop, memory_order_relaxed))
        FL_TRY(add_sample(r, m, into));
    n = fl_feeder_samples(into);
    *end = n == 0 || (s->drop_last && n < s->batch_size);
    return FL_OK;
}

static fl_status add_batch(fl_reader *r, maker *m, fl_feeder *into, bool *end)
{
    FL_TRY(generate(r, m->number, into, end));
    if (*end && !fl_feeder_is_empty(into))
        return end_with_data();
    return FL_OK;
}

/* An fl_generator of whole batches, whatever the reader's own one gives. */
static fl_status fill(void *arg, int number, fl_feeder *into, bool *end)
{
    fl_reader *r = arg;
    maker *m = &r->makers[number];

    if (r->source.by_sample)
        return add_samples(r, m, into, end);
    return add_batch(r, m, into, end);
}

/* --- queues -------------------------------------------------------------- */

static queue *queue_of(fl_reader *r, int number)
{
    return &r->queues[r->args.ordered ? number : 0];
}

static void push(queue *q, fl_ready_batch *p)
{
    p->next = NULL;
    if (q->last)
        q->last->next = p;
    else
        q->first = p;
    q->last = p;
    q->len++;
}

static fl_ready_batch *pop(queue *q)
{
    fl_ready_batch *p = q->first;

    if (!p)
        return NULL;
    q->first = p->next;
    if (!q->first)
        q->last = NULL;
    q->len--;
    return p;
}

/* With mu: the ready batch goes back to where it came from. */
static void give_back(fl_reader *r, fl_ready_batch *p)
{
    if (r->processes) {
        fl_workers_give_back(r->processes, p);
        return;
    }
    p->next = r->pool;
    r->pool = p;
}

static void end_of_worker(void *arg, int number)
{
    fl_reader *r = arg;

    fl_lock(&r->mu);
    queue_of(r, number)->n_open--;
    fl_cond_wake_all(&r->ready);
    fl_unlock(&r->mu);
}

/* The first error is the reader's. Nothing more is needed from anybody. */
static void fail_reader(void *arg, int number, fl_status st)
{
    fl_reader *r = arg;

    (void)number;
    fl_lock(&r->mu);
    if (!r->error.status)
        fl_err_save(&r->error, st);
    atomic_store(&r->stop, true);
    fl_cond_wake_all(&r->ready);
    fl_cond_wake_all(&r->has_space);
    fl_unlock(&r->mu);
}

/* --- threads ------------------------------------------------------------- */

static box *take_box(fl_reader *r)
{
    box *b;

    fl_lock(&r->mu);
    b = (box *)(void *)r->pool;
    if (b)
        r->pool = b->ready.next;
    fl_unlock(&r->mu);
    if (b)
        return b;
    b = fl_alloc(sizeof(*b));
    b->feeder = fl_feeder_borrow(&r->spec);
    return b;
}

static void drop_box(fl_reader *r, box *b)
{
    fl_lock(&r->mu);
    give_back(r, &b->ready);
    fl_unlock(&r->mu);
}

/* Waits for space; a reader that stops drops the batch. */
static void put_box(fl_reader *r, maker *m, box *b)
{
    queue *q = queue_of(r, m->number);

    b->ready.worker = m->number;
    fl_lock(&r->mu);
    while (q->len >= r->queue_max && !atomic_load(&r->stop))
        fl_cond_wait(&r->has_space, &r->mu);
    if (atomic_load(&r->stop)) {
        give_back(r, &b->ready);
    } else {
        push(q, &b->ready);
        fl_cond_wake_all(&r->ready);
    }
    fl_unlock(&r->mu);
}

static fl_status fill_box(fl_reader *r, maker *m, box *b, bool *end)
{
    fl_feeder_begin(b->feeder);
    FL_TRY(fill(r, m->number, b->feeder, end));
    if (*end)
        return FL_OK;
    return fl_feeder_feeds(b->feeder, &b->ready.feeds, &b->ready.n_rows);
}

static void thread_main(void *arg)
{
    maker *m = arg;
    fl_reader *r = m->reader;
    fl_status st = FL_OK;
    bool end = false;

    while (!st && !end && !atomic_load(&r->stop)) {
        box *b = take_box(r);

        st = fill_box(r, m, b, &end);
        if (!st && !end)
            put_box(r, m, b);
        else
            drop_box(r, b);
    }
    if (st)
        fail_reader(r, m->number, fl_err_ctx(st, "worker %d", m->number));
    else
        end_of_worker(r, m->number);
}

static fl_status start_threads(fl_reader *r)
{
    char name[32];

    for (int i = 0; i < r->args.n_workers; i++) {
        snprintf(name, sizeof(name), "fl-reader-%d", i);
        FL_TRY(fl_thread_start(&r->makers[i].thread, name, thread_main,
                               &r->makers[i]));
    }
    return FL_OK;
}

/* --- processes ----------------------------------------------------------- */

static void put_ready_batch(void *arg, fl_ready_batch *p)
{
    fl_reader *r = arg;

    fl_lock(&r->mu);
    push(queue_of(r, p->worker), p);
    fl_cond_wake_all(&r->ready);
    fl_unlock(&r->mu);
}

static fl_status start_processes(fl_reader *r)
{
    const fl_reader_args *a = &r->args;
    fl_workers_args args = {
        .spec = &r->spec,
        .n_workers = a->n_workers,
        .n_shm_slots =
            divide_up(a->capacity, (size_t)a->n_workers) + SLOTS_BESIDE,
        .batch_bytes_max = a->batch_bytes_max,
        .fill = fill,
        .fill_arg = r,
        .on_batch = put_ready_batch,
        .on_end = end_of_worker,
        .on_fail = fail_reader,
        .arg = r,
    };

    return fl_workers_start(&r->processes, &args);
}

/* --- epochs -------------------------------------------------------------- */

static fl_status check_source(const source *s)
{
    if (!s->fn)
        FL_FAIL(FL_ERR_INVAL, "the reader has no generator; give it one with "
                              "fl_reader_decorate_sample_generator or "
                              "fl_reader_decorate_batch_generator");
    if (s->by_sample && !s->batch_size)
        FL_FAIL(FL_ERR_INVAL, "the reader cuts samples into batches of 0; give "
                              "fl_reader_decorate_sample_generator a "
                              "batch_size of 1 or more");
    return FL_OK;
}

/* Before any worker runs. */
static void clear_epoch(fl_reader *r)
{
    r->source = r->next_source;
    r->error.status = FL_OK;
    r->turn = 0;
    atomic_store(&r->stop, false);
    for (int i = 0; i < r->args.n_workers; i++)
        r->makers[i] = (maker){ .reader = r, .number = i };
    for (int i = 0; i < r->n_queues; i++)
        r->queues[i] =
            (queue){ .n_open = r->args.ordered ? 1 : r->args.n_workers };
}

fl_status fl_reader_start(fl_reader *r)
{
    fl_status st;

    fl_lock(&r->mu);
    if (r->state != STOPPED) {
        fl_unlock(&r->mu);
        FL_FAIL(FL_ERR_BUSY, "the reader runs already; call fl_reader_reset "
                             "before it is started again");
    }
    st = check_source(&r->next_source);
    if (st) {
        fl_unlock(&r->mu);
        return st;
    }
    clear_epoch(r);
    r->state = STARTING;
    fl_unlock(&r->mu);
    if (r->args.workers == FL_READER_PROCESSES)
        st = start_processes(r);
    else
        st = start_threads(r);
    if (st) {
        fl_err e;

        fl_err_save(&e, st);
        fl_reader_reset(r);
        return fl_err_restore(&e);
    }
    fl_lock(&r->mu);
    r->state = RUNNING;
    fl_unlock(&r->mu);
    return FL_OK;
}

/* Boxes of the queues and of consumers return to the pool; ready batches of
   processes went with their memory. */
static void take_all_back(fl_reader *r)
{
    bool boxes = r->args.workers == FL_READER_THREADS;

    for (int i = 0; i < r->n_queues; i++) {
        fl_ready_batch *p;

        while (boxes && (p = pop(&r->queues[i])))
            give_back(r, p);
        r->queues[i] = (queue){ 0 };
    }
    for (int i = 0; i < FL_CONSUMERS_MAX; i++) {
        if (boxes && r->held[i])
            give_back(r, r->held[i]);
        r->held[i] = NULL;
    }
}

void fl_reader_reset(fl_reader *r)
{
    fl_lock(&r->mu);
    if (r->state == STOPPED) {
        fl_unlock(&r->mu);
        return;
    }
    r->state = CLOSING;
    atomic_store(&r->stop, true);
    fl_cond_wake_all(&r->ready);
    fl_cond_wake_all(&r->has_space);
    while (r->n_asking)
        fl_cond_wait(&r->has_space, &r->mu);
    fl_unlock(&r->mu);
    for (int i = 0; i < r->args.n_workers; i++) {
        fl_thread_join(r->makers[i].thread);
        r->makers[i].thread = NULL;
    }
    fl_workers_stop(r->processes);
    fl_lock(&r->mu);
    r->processes = NULL;
    take_all_back(r);
    r->state = STOPPED;
    fl_unlock(&r->mu);
}

/* --- consumers ----------------------------------------------------------- */

static int next_turn(const fl_reader *r)
{
    return r->turn + 1 < r->n_queues ? r->turn + 1 : 0;
}

/* With mu: the ready batch whose turn it is. NULL with *end false: not there
   yet. */
static fl_ready_batch *take_turn(fl_reader *r, bool *end)
{
    for (int i = 0; i < r->n_queues; i++, r->turn = next_turn(r)) {
        queue *q = &r->queues[r->turn];
        fl_ready_batch *p = pop(q);

        if (p) {
            r->turn = next_turn(r);
            return p;
        }
        *end = q->n_open == 0;
        if (!*end)
            return NULL;
    }
    return NULL;
}

/* With mu. *out NULL: the end. */
static fl_status take(fl_reader *r, fl_ready_batch **out)
{
    bool end = false;

    for (;;) {
        if (r->state != RUNNING)
            FL_FAIL(FL_ERR_CLOSED, "the reader was reset while this thread "
                                   "waited for a batch");
        if (r->error.status)
            return fl_err_restore(&r->error);
        *out = take_turn(r, &end);
        if (*out || end)
            break;
        fl_cond_wait(&r->ready, &r->mu);
    }
    /* Another thread may wait for the queue whose turn it is now. */
    fl_cond_wake_all(&r->ready);
    fl_cond_wake_all(&r->has_space);
    return FL_OK;
}

static fl_status ask(fl_reader *r, int consumer, fl_ready_batch **out)
{
    fl_status st;

    if (r->state == STOPPED || r->state == STARTING)
        FL_FAIL(FL_ERR_INVAL,
                "the reader is not started; call fl_reader_start");
    if (r->state == RUNNING && r->held[consumer]) {
        give_back(r, r->held[consumer]);
        r->held[consumer] = NULL;
    }
    r->n_asking++;
    st = take(r, out);
    if (!st)
        r->held[consumer] = *out;
    r->n_asking--;
    if (r->state == CLOSING)
        fl_cond_wake_all(&r->has_space);
    return st;
}

fl_status fl_reader_next(fl_reader *r, int consumer, const fl_feed **feeds,
                         size_t *n_rows)
{
    fl_ready_batch *p = NULL;
    fl_status st;

    if (consumer < 0 || consumer >= FL_CONSUMERS_MAX)
        FL_FAIL(FL_ERR_INVAL, "consumer %d is not in 0..%d", consumer,
                FL_CONSUMERS_MAX - 1);
    fl_lock(&r->mu);
    st = ask(r, consumer, &p);
    if (!st) {
        *feeds = p ? p->feeds : NULL;
        *n_rows = p ? p->n_rows : 0;
    }
    fl_unlock(&r->mu);
    return st;
}
