/* late_comm.c - a backend for tests that answers from a thread of its own. */
#include "late_comm.h"

#include "api/ctx.h"

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

static fl_status late_pull(fl_comm *port, fl_comm_request *r)
{
    late_comm *c = (late_comm *)port;
    late_wait w = { .request = r };
    late_event e = { LATE_PULL, r->seat, r->keys[0], r->n, 0, 0 };

    fl_lock(&c->mu);
    w.number = c->n_pulls[r->seat.thread]++;
    fl_vec_push(&c->waits, w);
    note(c, e);
    fl_unlock(&c->mu);
    return FL_PENDING;
}

static fl_status late_push(fl_comm *port, fl_comm_request *r)
{
    late_comm *c = (late_comm *)port;
    late_event e = { LATE_PUSH, r->seat, r->keys[0], r->n, r->step, 0 };
    bool fails;

    fl_lock(&c->mu);
    fails = c->n_pushes[r->seat.thread]++ == c->fails_at;
    note(c, e);
    fl_unlock(&c->mu);
    if (fails)
        FL_FAIL(FL_ERR_IO, "the wire is cut");
    return FL_OK;
}

static fl_status late_meet(fl_comm *port, fl_comm_call *r)
{
    late_comm *c = (late_comm *)port;
    late_event e = { LATE_MEET, r->seat, 0, r->n, 0, r->samples };

    fl_lock(&c->mu);
    note(c, e);
    fl_unlock(&c->mu);
    return FL_OK;
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
    ((late_comm *)port)->n_entered += n;
}

static void late_leave(fl_comm *port, int thread)
{
    late_comm *c = (late_comm *)port;

    fl_lock(&c->mu);
    c->n_left[thread]++;
    fl_unlock(&c->mu);
}

/* --- answers ---------------------------------------------------------------
 */

static bool may_answer(const late_comm *c, const late_wait *w)
{
    return !c->holds || c->n_pushes[w->request->seat.thread] >= w->number;
}

/* Takes one that may be answered out of the list. */
static fl_comm_request *take_ready(late_comm *c)
{
    for (size_t i = 0; i < c->waits.len; i++) {
        fl_comm_request *r = c->waits.data[i].request;

        if (!may_answer(c, &c->waits.data[i]))
            continue;
        c->waits.data[i] = c->waits.data[--c->waits.len];
        return r;
    }
    return NULL;
}

static void answer(fl_comm_request *r)
{
    for (size_t i = 0; i < r->n * r->dim; i++)
        r->rows[i] = (float)r->keys[i / r->dim];
    fl_comm_finish(&r->answer, FL_OK);
}

static void answer_all(void *arg)
{
    late_comm *c = arg;
    fl_cond never;

    fl_cond_init(&never);
    fl_lock(&c->mu);
    while (!c->is_closed) {
        fl_comm_request *r = take_ready(c);

        if (!r) {
            fl_cond_wait(&c->changed, &c->mu);
            continue;
        }
        if (c->delay_ns)
            fl_cond_wait_until(&never, &c->mu, fl_now_ns() + c->delay_ns);
        fl_unlock(&c->mu);
        answer(r);
        fl_lock(&c->mu);
    }
    fl_unlock(&c->mu);
    fl_cond_release(&never);
}

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
    fl_mutex_release(&c->mu);
    fl_free(c);
}

late_comm *late_comm_use(fl_ctx *ctx)
{
    late_comm *c = fl_alloc(sizeof(*c));

    c->port = (fl_comm){ .name = "late",
                         .looks_ahead = true,
                         .declare = late_declare,
                         .pull = late_pull,
                         .push = late_push,
                         .meet = late_meet,
                         .step = late_step,
                         .enter = late_enter,
                         .leave = late_leave,
                         .free = late_free };
    c->fails_at = -1;
    fl_mutex_init(&c->mu);
    fl_cond_init(&c->changed);
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
