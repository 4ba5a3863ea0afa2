/* queues.c - bounded queues, and the threads that empty them.
 *
 * A queue is one list: the entries that had room, then those whose owners
 * wait. It is in one of four states:
 *
 *     RESTING -> LINGERING -> READY -> BUSY -> RESTING
 *
 * BUSY is one of which so much is under way as may be; others rest meanwhile.
 *
 * A queue that is not full enough lingers until its deadline; since all linger
 * equally long, the list of them is in the order of deadlines, and one resting
 * thread keeps time for its head. A queue in which somebody waits does not
 * linger: more would not come in.
 *
 * `mu` guards everything here. Answers and drop are called under it; they take
 * locks of their own and never come back.
 */
#include "mode/queues.h"

#include "base/alloc.h"
#include "base/thread.h"

typedef enum state { RESTING, LINGERING, READY, BUSY } state;

typedef struct queue {
    fl_queue_entry *first, *last;
    fl_queue_entry *waiting; /* the first whose owner waits */
    size_t len, n_inside;    /* all, and those that had room */
    size_t n_under_way;      /* works that are not done */
    uint64_t n_put, n_gone;  /* entries ever: put, and done or dropped */
    state state;
    uint64_t deadline_ns;      /* of a lingering one */
    bool is_released;          /* it need not linger until it is empty */
    struct queue *prev, *next; /* in the list of its state */
} queue;

typedef struct queue_list {
    queue *first, *last;
} queue_list;

struct fl_queues {
    fl_queues_config o;
    fl_mutex mu;
    fl_cond cond; /* work has come, or the end */
    fl_cond gone; /* what somebody may wait for is */
    queue *queues;
    queue_list lingering, ready;
    size_t n_active; /* queues to be seen to, and works under way */
    bool has_timekeeper, is_closing, is_cancelled;
    int n_draining; /* who waits for all to be worked on */
    fl_err err;     /* the first one */
    fl_thread **threads;
    int n_started;
};

/* --- lists of queues ------------------------------------------------------ */

static void append(queue_list *l, queue *v)
{
    v->prev = l->last;
    v->next = NULL;
    if (l->last)
        l->last->next = v;
    else
        l->first = v;
    l->last = v;
}

static void detach(queue_list *l, queue *v)
{
    if (v->prev)
        v->prev->next = v->next;
    else
        l->first = v->next;
    if (v->next)
        v->next->prev = v->prev;
    else
        l->last = v->prev;
}

/* Somebody has to see to it. */
static size_t is_pressing(state s)
{
    return s == LINGERING || s == READY;
}

static void set_state(fl_queues *q, queue *v, state s)
{
    q->n_active += is_pressing(s) - is_pressing(v->state);
    if (v->state == LINGERING)
        detach(&q->lingering, v);
    if (v->state == READY)
        detach(&q->ready, v);
    if (s == LINGERING)
        append(&q->lingering, v);
    if (s == READY)
        append(&q->ready, v);
    v->state = s;
}

/* --- entries -------------------------------------------------------------- */

/* The longest waiting owner goes on. Its error is this thread's last one. */
static void answer_next(fl_queues *q, queue *v, fl_status st)
{
    fl_queue_entry *e = v->waiting;
    fl_comm_answer *a = e->waits;

    atomic_fetch_add(q->o.wait_ns, fl_now_ns() - e->since_ns);
    e->waits = NULL;
    v->waiting = e->next;
    v->n_inside++;
    fl_comm_finish(a, st);
}

/* Takes n entries from the front, which lets as many owners go on. */
static fl_queue_entry *take(fl_queues *q, queue *v, size_t n)
{
    fl_queue_entry *list = v->first, *last = list;

    while (v->waiting && v->n_inside < q->o.capacity + n)
        answer_next(q, v, FL_OK);
    for (size_t i = 1; i < n; i++)
        last = last->next;
    v->first = last->next;
    if (!v->first) {
        v->last = NULL;
        v->is_released = false;
    }
    last->next = NULL;
    v->len -= n;
    v->n_inside -= n;
    return list;
}

/* Nothing more is going to come, for now or for good. */
static bool is_hasty(const fl_queues *q)
{
    return q->is_closing || q->n_draining;
}

static bool is_full_enough(const fl_queues *q, const queue *v)
{
    return v->len >= q->o.enough || v->is_released || v->waiting ||
           !q->o.linger_ns || is_hasty(q);
}

/* Somebody must see to that queue, unless somebody does. */
static void arrange(fl_queues *q, queue *v)
{
    if (v->state == BUSY || v->state == READY || !v->len)
        return;
    if (is_full_enough(q, v)) {
        set_state(q, v, READY);
        fl_cond_wake_one(&q->cond);
    } else if (v->state == RESTING) {
        v->deadline_ns = fl_now_ns() + q->o.linger_ns;
        set_state(q, v, LINGERING);
        if (!q->has_timekeeper)
            fl_cond_wake_one(&q->cond);
    }
}

/* Everybody who waits is told the error, and what is queued goes. */
static void drop_all(fl_queues *q)
{
    for (size_t i = 0; i < q->o.n_queues; i++) {
        queue *v = &q->queues[i];

        while (v->waiting)
            answer_next(q, v, fl_err_restore(&q->err));
        if (v->first)
            q->o.drop(q->o.arg, i, v->first);
        v->n_gone += v->len;
        v->first = v->last = NULL;
        v->len = v->n_inside = 0;
        v->is_released = false;
        if (v->state != BUSY)
            set_state(q, v, RESTING);
    }
}

static void fail(fl_queues *q, fl_status st)
{
    if (q->err.status)
        return;
    fl_err_save(&q->err, st);
    drop_all(q);
}

/* --- threads -------------------------------------------------------------- */

static void end_lingering(fl_queues *q)
{
    queue *v;

    while ((v = q->lingering.first) &&
           (is_hasty(q) || v->deadline_ns <= fl_now_ns()))
        set_state(q, v, READY);
}

/* One thread at a time keeps the time for those that linger. */
static void rest(fl_queues *q)
{
    if (!q->lingering.first || q->has_timekeeper) {
        fl_cond_wait(&q->cond, &q->mu);
        return;
    }
    q->has_timekeeper = true;
    (void)fl_cond_wait_until(&q->cond, &q->mu, q->lingering.first->deadline_ns);
    q->has_timekeeper = false;
}

static bool is_over(const fl_queues *q)
{
    return q->is_cancelled || (q->is_closing && !q->n_active);
}

static void work_on(fl_queues *q, queue *v)
{
    size_t n = v->len < q->o.max_take ? v->len : q->o.max_take;
    fl_queue_entry *list;

    q->n_active++;
    v->n_under_way++;
    set_state(q, v, v->n_under_way < q->o.max_under_way ? RESTING : BUSY);
    list = take(q, v, n);
    if (q->ready.first || (q->lingering.first && !q->has_timekeeper))
        fl_cond_wake_one(&q->cond);
    fl_unlock(&q->mu);
    q->o.work(q->o.arg, (size_t)(v - q->queues), list, n);
    fl_lock(&q->mu);
}

static void pause(fl_queues *q)
{
    fl_unlock(&q->mu);
    if (q->o.pause)
        q->o.pause(q->o.arg);
    fl_lock(&q->mu);
}

static void work_loop(void *arg)
{
    fl_queues *q = arg;
    bool has_worked = false;

    fl_lock(&q->mu);
    while (has_worked || !is_over(q)) {
        end_lingering(q);
        if (q->ready.first) {
            queue *v = q->ready.first;

            work_on(q, v);
            arrange(q, v);
            has_worked = true;
        } else if (has_worked) {
            has_worked = false;
            pause(q);
        } else {
            rest(q);
        }
    }
    fl_unlock(&q->mu);
}

/* What goes alone needs no merging: whoever finds the queue at rest sends it,
   and no thread is woken for it. */
static void see_to(fl_queues *q, queue *v)
{
    if (v->state == RESTING && v->len && is_full_enough(q, v) &&
        (v->len == 1 || q->o.max_take == 1))
        work_on(q, v);
    arrange(q, v);
}

static fl_status start_threads(fl_queues *q)
{
    while (q->n_started < q->o.n_threads) {
        FL_TRY(
            fl_thread_start(&q->threads[q->n_started], "send", work_loop, q));
        q->n_started++;
    }
    return FL_OK;
}

static void join_threads(fl_queues *q)
{
    for (int i = 0; i < q->n_started; i++)
        fl_thread_join(q->threads[i]);
    q->n_started = 0;
}

/* --- the outside ---------------------------------------------------------- */

fl_queues *fl_queues_new(const fl_queues_config *config)
{
    fl_queues *q = fl_alloc(sizeof(*q));

    q->o = *config;
    fl_mutex_init(&q->mu);
    fl_cond_init(&q->cond);
    fl_cond_init(&q->gone);
    q->queues = fl_alloc((config->n_queues + 1) * sizeof(*q->queues));
    q->threads = fl_alloc((size_t)config->n_threads * sizeof(*q->threads));
    return q;
}

void fl_queues_free(fl_queues *q)
{
    if (!q)
        return;
    FL_ASSERT(!q->n_started && !q->n_active);
    fl_free(q->threads);
    fl_free(q->queues);
    fl_cond_release(&q->gone);
    fl_cond_release(&q->cond);
    fl_mutex_release(&q->mu);
    fl_free(q);
}

/* The end of the list. FL_PENDING when there is no room. */
static fl_status add(fl_queues *q, queue *v, fl_queue_entry *e,
                     fl_comm_answer *answer)
{
    bool has_room = v->n_inside < q->o.capacity;

    *e = (fl_queue_entry){ .waits = has_room ? NULL : answer };
    if (v->last)
        v->last->next = e;
    else
        v->first = e;
    v->last = e;
    v->len++;
    v->n_put++;
    if (has_room) {
        v->n_inside++;
        return FL_OK;
    }
    e->since_ns = fl_now_ns();
    if (!v->waiting)
        v->waiting = e;
    return FL_PENDING;
}

fl_status fl_queues_put(fl_queues *q, size_t queue_no, fl_queue_entry *entry,
                        fl_comm_answer *answer)
{
    queue *v = &q->queues[queue_no];
    fl_status st = FL_OK;

    fl_lock(&q->mu);
    if (q->err.status)
        st = fl_err_restore(&q->err);
    else if (q->is_closing)
        st = fl_err_set(FL_ERR_CLOSED,
                        "the job is being left: no gradients are taken any "
                        "more");
    else
        st = start_threads(q);
    if (!st) {
        st = add(q, v, entry, answer);
        see_to(q, v);
    }
    fl_unlock(&q->mu);
    return st;
}

void fl_queues_release(fl_queues *q)
{
    fl_lock(&q->mu);
    for (size_t i = 0; i < q->o.n_queues; i++) {
        queue *v = &q->queues[i];

        v->is_released = v->len;
        while (v->len && v->state != BUSY)
            work_on(q, v);
    }
    fl_unlock(&q->mu);
}

/* Who waits for that need not wait any longer. */
static void wake_waiters(fl_queues *q)
{
    if (is_over(q))
        fl_cond_wake_all(&q->cond);
    if (q->n_draining)
        fl_cond_wake_all(&q->gone);
}

void fl_queues_done(fl_queues *q, size_t queue_no, size_t n, fl_status st)
{
    queue *v = &q->queues[queue_no];

    fl_lock(&q->mu);
    q->n_active--;
    v->n_under_way--;
    v->n_gone += n;
    if (v->state == BUSY)
        set_state(q, v, RESTING);
    if (st)
        fail(q, st);
    see_to(q, v);
    wake_waiters(q);
    fl_unlock(&q->mu);
}

void fl_queues_fail(fl_queues *q, fl_status st)
{
    fl_lock(&q->mu);
    fail(q, st);
    wake_waiters(q);
    fl_unlock(&q->mu);
}

fl_status fl_queues_drain(fl_queues *q)
{
    fl_status st;

    fl_lock(&q->mu);
    q->n_draining++;
    fl_cond_wake_all(&q->cond);
    for (size_t i = 0; i < q->o.n_queues; i++) {
        const queue *v = &q->queues[i];
        const uint64_t n = v->n_put;

        while (v->n_gone < n)
            fl_cond_wait(&q->gone, &q->mu);
    }
    q->n_draining--;
    st = q->err.status ? fl_err_restore(&q->err) : FL_OK;
    fl_unlock(&q->mu);
    return st;
}

fl_status fl_queues_close(fl_queues *q)
{
    fl_status st;

    fl_lock(&q->mu);
    q->is_closing = true;
    fl_cond_wake_all(&q->cond);
    fl_unlock(&q->mu);
    join_threads(q);
    fl_lock(&q->mu);
    st = q->err.status ? fl_err_restore(&q->err) : FL_OK;
    fl_unlock(&q->mu);
    return st;
}

void fl_queues_cancel(fl_queues *q)
{
    fl_lock(&q->mu);
    q->is_closing = q->is_cancelled = true;
    fail(q, fl_err_set(FL_ERR_CLOSED, "training was given up"));
    fl_cond_wake_all(&q->cond);
    fl_unlock(&q->mu);
    join_threads(q);
}
