/* dataset_queue.c - a pass of a QueueDataset.
 *
 * A reading thread cuts batches from its own rows; what does not make a whole
 * one waits for its next rows. When the pump is done, the thread that waited
 * for it cuts batches from what all of them have left, so that only the last
 * batch of a pass can be short, and tells the queue how the pass ended.
 *
 * Every batch knows where its records are from; they are trained when the
 * training says so.
 */
#include "base/vec.h"
#include "data/batches.h"
#include "data/dataset/dataset_inside.h"

#define BATCHES_PER_CONSUMER 4

/* What one reading thread has. Rows that are kept are fewer than a batch. */
typedef struct hand {
    fl_records kept;
    const uint32_t **at; /* the records at hand, kept ones first */
    size_t cap;
    fl_row_runs runs; /* where they are from */
} hand;

struct fl_queue_pass {
    const fl_input *input;
    size_t batch_size;
    fl_batches *batches;
    fl_reading *reading;
    fl_thread *joiner;
    hand *hands; /* n_threads, and one for what is left at the end */
    int n_threads;
    fl_columns **held; /* by consumer, what it has asked for last */
    int n_consumers;
    const fl_file_position **before; /* by file; NULL: nothing */
    fl_trained *trained;             /* the dataset's */
};

/* --- cutting batches ----------------------------------------------------- */

/* Of the first n records whose runs are given. */
static fl_status put_batch(fl_queue_pass *q, const uint32_t *const *rows,
                           size_t n, fl_row_runs *runs)
{
    fl_columns *c;
    fl_status st;

    FL_TRY(fl_batches_empty(q->batches, &c));
    st = fl_columns_gather(c, rows, n);
    if (st) {
        fl_batches_give_back(q->batches, c);
        return st;
    }
    c->runs.len = 0;
    fl_row_runs_move(runs, n, &c->runs);
    fl_batches_put(q->batches, c);
    return FL_OK;
}

static fl_status reserve(hand *h, size_t n)
{
    size_t cap = h->cap * 2 > n ? h->cap * 2 : n;
    size_t bytes;

    if (n <= h->cap)
        return FL_OK;
    fl_data_free(h->at, h->cap * sizeof(*h->at));
    h->cap = 0;
    h->at = fl_mul_overflow(cap, sizeof(*h->at), &bytes) ? NULL
                                                         : fl_try_alloc(bytes);
    if (!h->at)
        FL_FAIL(FL_ERR_NOMEM, "no memory for batches from %zu records", n);
    h->cap = cap;
    return FL_OK;
}

static size_t point_at(const uint32_t **at, const fl_records *rows)
{
    for (size_t i = 0; i < rows->n; i++)
        at[i] = fl_records_at(rows, i);
    return rows->n;
}

/* Called by the reading threads. */
static fl_status take_rows(void *arg, int worker, fl_row_run from,
                           fl_records *rows)
{
    fl_queue_pass *q = arg;
    hand *h = &q->hands[worker];
    size_t n_kept = h->kept.n, n = n_kept + rows->n, done = 0;

    fl_row_runs_add(&h->runs, from);
    if (n < q->batch_size)
        return fl_records_move_tail(rows, 0, &h->kept);
    FL_TRY(reserve(h, n));
    point_at(h->at + point_at(h->at, &h->kept), rows);
    for (; n - done >= q->batch_size; done += q->batch_size)
        FL_TRY(put_batch(q, h->at + done, q->batch_size, &h->runs));
    /* The first batch took all that was kept. */
    fl_records_clear(&h->kept);
    return fl_records_move_tail(rows, done - n_kept, &h->kept);
}

static fl_status put_rest(fl_queue_pass *q)
{
    hand *rest = &q->hands[q->n_threads];
    size_t n = 0;

    for (int i = 0; i < q->n_threads; i++)
        n += q->hands[i].kept.n;
    if (n == 0)
        return FL_OK;
    FL_TRY(reserve(rest, n));
    n = 0;
    for (int i = 0; i < q->n_threads; i++) {
        hand *h = &q->hands[i];

        fl_row_runs_move(&h->runs, h->kept.n, &rest->runs);
        n += point_at(rest->at + n, &h->kept);
    }
    for (size_t lo = 0; lo < n; lo += q->batch_size)
        FL_TRY(put_batch(q, rest->at + lo,
                         n - lo < q->batch_size ? n - lo : q->batch_size,
                         &rest->runs));
    return FL_OK;
}

static void wait_for_end(void *arg)
{
    fl_queue_pass *q = arg;
    fl_status st = fl_reading_wait(q->reading);

    fl_trained_close(q->trained);
    if (!st)
        st = put_rest(q);
    if (st)
        fl_batches_fail(q->batches, st);
    else
        fl_batches_finish(q->batches);
}

/* --- the pass ------------------------------------------------------------ */

static fl_queue_pass *make_pass(const fl_dataset *d, int n_consumers)
{
    fl_queue_pass *q = fl_alloc(sizeof(*q));
    size_t capacity =
        BATCHES_PER_CONSUMER * (size_t)n_consumers + (size_t)d->n_threads;

    q->input = d->input;
    q->batch_size = d->batch_size;
    q->batches = fl_batches_new(&d->input->parser->schema, capacity);
    q->n_threads = d->n_threads;
    q->hands = fl_alloc(((size_t)d->n_threads + 1) * sizeof(*q->hands));
    q->n_consumers = n_consumers;
    q->held = fl_alloc((size_t)n_consumers * sizeof(*q->held));
    return q;
}

static void free_pass(fl_queue_pass *q)
{
    for (int i = 0; i <= q->n_threads; i++) {
        hand *h = &q->hands[i];

        fl_records_release(&h->kept);
        fl_data_free(h->at, h->cap * sizeof(*h->at));
        fl_vec_release(&h->runs);
    }
    fl_reading_free(q->reading);
    fl_batches_free(q->batches);
    fl_free(q->before);
    fl_free(q->held);
    fl_free(q->hands);
    fl_free(q);
}

/* Without a thread that waits, the wait is made here; it is short. */
static void abandon(fl_queue_pass *q)
{
    fl_batches_close(q->batches);
    fl_reading_stop(q->reading);
    wait_for_end(q);
}

static fl_status start_reading(fl_queue_pass *q, fl_dataset *d)
{
    fl_reading_args a = { .n_threads = d->n_threads,
                          .take = take_rows,
                          .arg = q,
                          .before = q->before,
                          .trained = q->trained };
    fl_status st = fl_reading_start(&q->reading, d, &a);
    fl_err err;

    if (st)
        return st;
    st = fl_thread_start(&q->joiner, "data-join", wait_for_end, q);
    if (st) {
        fl_err_save(&err, st);
        abandon(q);
        return fl_err_restore(&err);
    }
    return FL_OK;
}

fl_status fl_queue_pass_begin(fl_dataset *d, int n_consumers,
                              const fl_position *from)
{
    const fl_file_position **before = NULL;
    fl_queue_pass *q;
    fl_status st;

    FL_TRY(fl_dataset_open_input(d, "begin", d->n_threads));
    FL_TRY(fl_position_files(d, from, &before));
    q = make_pass(d, n_consumers);
    q->before = before;
    q->trained = fl_trained_new(d->input->paths.len);
    st = start_reading(q, d);
    if (st) {
        fl_trained_free(q->trained);
        free_pass(q);
        return st;
    }
    d->trained = q->trained;
    d->queue = q;
    return FL_OK;
}

fl_status fl_queue_pass_next(fl_queue_pass *q, int consumer, fl_columns **out,
                             uint64_t *waited_ns)
{
    fl_columns *c = NULL;

    fl_batches_give_back(q->batches, q->held[consumer]);
    q->held[consumer] = NULL;
    FL_TRY(fl_batches_take(q->batches, &c, waited_ns));
    q->held[consumer] = c;
    if (c)
        fl_input_shape_feeds(q->input, c);
    *out = c;
    return FL_OK;
}

const fl_columns *fl_queue_pass_held(const fl_queue_pass *q, int consumer)
{
    return q->held[consumer];
}

fl_pump_stats fl_queue_pass_stats(fl_queue_pass *q)
{
    return fl_reading_stats(q->reading);
}

void fl_queue_pass_close(fl_queue_pass *q)
{
    fl_batches_close(q->batches);
    fl_reading_stop(q->reading);
}

fl_pump_stats fl_queue_pass_end(fl_queue_pass *q)
{
    fl_pump_stats stats;

    fl_thread_join(q->joiner);
    stats = fl_reading_stats(q->reading);
    free_pass(q);
    return stats;
}
