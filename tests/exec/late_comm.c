/* late_comm.c - a backend for tests that answers from a thread of its own. */
#include "late_comm.h"

#include <string.h>

#include "ctx/ctx.h"

/* Nothing takes this long unless it hangs. */
#define HANGS_NS (UINT64_C(60) * 1000000000u)

static void note(late_comm *c, late_event e)
{
    fl_vec_push(&c->events, e);
    fl_cond_wake_all(&c->changed);
}

static fl_status late_declare(fl_comm *port, const char *table,
                              const char *settings, uint64_t seed)
{
    (void)port;
    (void)table;
    (void)settings;
    (void)seed;
    return FL_OK;
}

static void fill(const fl_comm_request *r)
{
    for (size_t i = 0; i < r->rows.n * r->rows.dim; i++)
        r->out[i] = (float)r->rows.keys[i / r->rows.dim];
}

static fl_status late_pull(fl_comm *port, fl_comm_request *r)
{
    late_comm *c = (late_comm *)port;
    late_wait w = { .request = r, .answer = &r->answer, .worker = r->worker };
    late_event e = { .kind = LATE_PULL,
                     .worker = r->worker,
                     .is_behind = r->is_behind,
                     .key = r->rows.keys[0],
                     .n = r->rows.n };

    fl_lock(&c->mu);
    w.number = c->n_pulls[r->worker.thread]++;
    w.is_kept = c->keeps_back;
    if (!c->pulls_at_once)
        fl_vec_push(&c->waits, w);
    note(c, e);
    fl_unlock(&c->mu);
    if (!c->pulls_at_once)
        return FL_PENDING;
    fill(r);
    return FL_OK;
}

static fl_status late_push(fl_comm *port, fl_comm_request *r)
{
    late_comm *c = (late_comm *)port;
    late_event e = { .kind = LATE_PUSH,
                     .worker = r->worker,
                     .key = r->rows.keys[0],
                     .n = r->rows.n,
                     .step = r->step };
    bool fails;

    fl_lock(&c->mu);
    fails = c->n_pushes[r->worker.thread] == c->fails_at;
    c->n_pushes[r->worker.thread] += !fails;
    note(c, e);
    fl_unlock(&c->mu);
    if (fails)
        FL_FAIL(FL_ERR_IO, "the wire is cut");
    return FL_OK;
}

static fl_status barrier_result(const late_comm *c)
{
    if (c->barriers_fail)
        FL_FAIL(FL_ERR_IO, "the others are gone");
    return FL_OK;
}

static fl_status late_barrier(fl_comm *port, fl_comm_call *r)
{
    late_comm *c = (late_comm *)port;
    late_wait w = { .answer = &r->answer, .worker = r->worker };
    late_event e = { .kind = LATE_BARRIER,
                     .worker = r->worker,
                     .n = r->n,
                     .samples = r->samples };

    fl_lock(&c->mu);
    note(c, e);
    if (c->barrier_answer == BARRIER_LATE)
        fl_vec_push(&c->waits, w);
    fl_unlock(&c->mu);
    if (c->barrier_answer == BARRIER_AT_ONCE)
        return barrier_result(c);
    if (c->barrier_answer == BARRIER_BEFORE)
        fl_comm_finish(&r->answer, barrier_result(c));
    return FL_PENDING;
}

static uint64_t late_step(fl_comm *port)
{
    late_comm *c = (late_comm *)port;
    uint64_t step;

    fl_lock(&c->mu);
    step = c->next_step++;
    fl_unlock(&c->mu);
    return step;
}

static void late_enter(fl_comm *port, int n)
{
    late_comm *c = (late_comm *)port;

    fl_lock(&c->mu);
    c->n_entered += n;
    memset(c->n_left, 0, sizeof(c->n_left));
    fl_unlock(&c->mu);
}

static void late_leave(fl_comm *port, int thread)
{
    late_comm *c = (late_comm *)port;

    fl_lock(&c->mu);
    c->n_left[thread]++;
    fl_cond_wake_all(&c->changed);
    fl_unlock(&c->mu);
}

/* --- answers -------------------------------------------------------------- */

static bool may_answer(const late_comm *c, const late_wait *w)
{
    if (c->is_silent || w->is_kept ||
        (c->answers == ANSWER_WHO_WAITS && !c->n_inside))
        return false;
    return !w->request || !c->holds || c->n_left[w->worker.thread] ||
           c->n_pushes[w->worker.thread] >= w->number;
}

/* Takes one that may be answered out of the list. */
static bool take_ready(late_comm *c, late_wait *out)
{
    for (size_t i = 0; i < c->waits.len; i++) {
        if (!may_answer(c, &c->waits.data[i]))
            continue;
        *out = c->waits.data[i];
        c->waits.data[i] = c->waits.data[--c->waits.len];
        return true;
    }
    return false;
}

/* Under mu, which is given up for the answer. */
static void answer(late_comm *c, const late_wait *w)
{
    note(c, (late_event){ .kind = w->request ? LATE_PULLED : LATE_PASSED,
                          .worker = w->worker });
    fl_unlock(&c->mu);
    if (w->request)
        fill(w->request);
    fl_comm_finish(w->answer, w->request ? FL_OK : barrier_result(c));
    fl_lock(&c->mu);
    c->n_answered++;
    fl_cond_wake_all(&c->changed);
}

static void answer_all(void *arg)
{
    late_comm *c = arg;
    late_wait w;
    fl_cond never;

    fl_cond_init(&never);
    fl_lock(&c->mu);
    while (!c->is_closed) {
        if (c->answers == ANSWER_HELPER || !take_ready(c, &w)) {
            fl_cond_wait(&c->changed, &c->mu);
            continue;
        }
        if (c->delay_ns)
            fl_cond_wait_until(&never, &c->mu, fl_now_ns() + c->delay_ns);
        answer(c, &w);
    }
    fl_unlock(&c->mu);
    fl_cond_release(&never);
}

/* --- who waits, and who flushes ------------------------------------------- */

static late_comm *comm_of(fl_poller *p)
{
    return (late_comm *)((char *)p - offsetof(late_comm, poller));
}

static void let_go(late_comm *c)
{
    for (size_t i = 0; i < c->waits.len; i++)
        c->waits.data[i].is_kept = false;
    fl_cond_wake_all(&c->changed);
}

static void late_flush(fl_poller *p)
{
    late_comm *c = comm_of(p);

    fl_lock(&c->mu);
    let_go(c);
    note(c, (late_event){ .kind = LATE_FLUSH });
    fl_unlock(&c->mu);
}

static void late_end_group(fl_comm *port)
{
    late_comm *c = (late_comm *)port;

    if (port->n_ahead < 2)
        return;
    fl_lock(&c->mu);
    note(c, (late_event){ .kind = LATE_GROUP });
    fl_unlock(&c->mu);
}

static void late_notify(fl_poller *p)
{
    late_comm *c = comm_of(p);

    fl_lock(&c->mu);
    c->n_notified++;
    fl_cond_wake_all(&c->notified);
    fl_cond_wake_all(&c->changed);
    fl_unlock(&c->mu);
}

/* Sleeps until it is notified, unless it was since n_notified. */
static void sleep_at_backend(late_comm *c, uint64_t n_notified)
{
    uint64_t deadline = fl_now_ns() + HANGS_NS;
    bool in_time = true;

    while (c->n_notified == n_notified && in_time)
        in_time = fl_cond_wait_until(&c->notified, &c->mu, deadline);
    c->n_forgotten += !in_time;
}

static void late_wait_for(fl_poller *p, bool (*is_over)(void *arg), void *arg)
{
    late_comm *c = comm_of(p);
    late_wait w;

    fl_lock(&c->mu);
    c->n_waits++;
    c->n_inside++;
    let_go(c);
    for (;;) {
        uint64_t n_notified = c->n_notified;
        bool is;

        fl_unlock(&c->mu);
        is = is_over(arg);
        fl_lock(&c->mu);
        if (is)
            break;
        if (c->answers == ANSWER_HELPER && take_ready(c, &w)) {
            c->n_helped++;
            answer(c, &w);
        } else {
            sleep_at_backend(c, n_notified);
        }
    }
    c->n_inside--;
    fl_unlock(&c->mu);
}

void late_comm_take_help(late_comm *c)
{
    c->port.has_own_deadline = true;
    atomic_store(&c->port.poller, &c->poller);
}

void late_comm_keep_back(late_comm *c)
{
    c->keeps_back = true;
    atomic_store(&c->port.poller, &c->poller);
}

void late_comm_set_answers(late_comm *c, late_answers answers)
{
    fl_lock(&c->mu);
    c->answers = answers;
    fl_cond_wake_all(&c->changed);
    fl_unlock(&c->mu);
}

static void set_silent(late_comm *c, bool is_silent)
{
    fl_lock(&c->mu);
    c->is_silent = is_silent;
    fl_cond_wake_all(&c->changed);
    fl_unlock(&c->mu);
}

void late_comm_fall_silent(late_comm *c)
{
    set_silent(c, true);
}

void late_comm_speak(late_comm *c)
{
    set_silent(c, false);
}

bool late_reaches(late_comm *c, int n_answered, uint64_t n_notified)
{
    uint64_t deadline = fl_now_ns() + HANGS_NS;
    bool in_time = true;

    fl_lock(&c->mu);
    while ((c->n_answered < n_answered || c->n_notified < n_notified) &&
           in_time)
        in_time = fl_cond_wait_until(&c->changed, &c->mu, deadline);
    fl_unlock(&c->mu);
    return in_time;
}

/* --- life ----------------------------------------------------------------- */

static void late_free(fl_comm *port)
{
    late_comm *c = (late_comm *)port;

    fl_lock(&c->mu);
    c->is_closed = true;
    fl_cond_wake_all(&c->changed);
    fl_unlock(&c->mu);
    fl_thread_join(c->thread);
    fl_vec_release(&c->waits);
    fl_vec_release(&c->events);
    fl_cond_release(&c->changed);
    fl_cond_release(&c->notified);
    fl_mutex_release(&c->mu);
    fl_free(c);
}

static const fl_comm_data data = {
    .pull = late_pull,
    .push = late_push,
    .barrier = late_barrier,
};

static const fl_comm_life life = {
    .declare = late_declare,
    .step = late_step,
    .enter = late_enter,
    .leave = late_leave,
    .end_group = late_end_group,
    .free = late_free,
};

late_comm *late_comm_use(fl_ctx *ctx)
{
    late_comm *c = fl_alloc(sizeof(*c));

    c->port =
        (fl_comm){ .name = "late", .data = &data, .life = &life, .n_ahead = 1 };
    c->poller = (fl_poller){ late_flush, late_wait_for, late_notify };
    c->fails_at = -1;
    fl_mutex_init(&c->mu);
    fl_cond_init(&c->changed);
    fl_cond_init(&c->notified);
    FL_ASSERT(!fl_thread_start(&c->thread, "late", answer_all, c));
    fl_comm_free(ctx->comm);
    ctx->comm = &c->port;
    return c;
}

size_t late_count(late_comm *c, late_kind kind)
{
    size_t n = 0;

    fl_lock(&c->mu);
    for (size_t i = 0; i < c->events.len; i++)
        n += c->events.data[i].kind == kind;
    fl_unlock(&c->mu);
    return n;
}
