/* call_sync.c - requests that are waited for. */
#include "ps/client/call_sync.h"

#include <string.h>

/* --- waiting -------------------------------------------------------------- */

void fl_wait_init(fl_wait *w, fl_client *c)
{
    *w = (fl_wait){ .client = c };
    fl_mutex_init(&w->mu);
}

void fl_wait_release(fl_wait *w)
{
    fl_mutex_release(&w->mu);
}

void fl_wait_begin(fl_wait *w)
{
    fl_lock(&w->mu);
    w->n_open++;
    fl_unlock(&w->mu);
}

/* Whoever waits may free it from the unlock on. */
static void end_one(fl_wait *w, fl_status st)
{
    fl_poller *poller = fl_client_poller(w->client);
    bool is_last;

    fl_lock(&w->mu);
    if (st && !w->err.status)
        fl_err_save(&w->err, st);
    is_last = --w->n_open == 0;
    fl_unlock(&w->mu);
    if (is_last)
        fl_poller_notify(poller);
}

static bool is_over(void *arg)
{
    fl_wait *w = arg;
    bool is;

    fl_lock(&w->mu);
    is = !w->n_open;
    fl_unlock(&w->mu);
    return is;
}

void fl_wait_failed(fl_wait *w)
{
    end_one(w, FL_OK);
}

void fl_wait_done(void *wait, fl_status st)
{
    end_one(wait, st);
}

fl_status fl_wait_for(fl_wait *w)
{
    /* When it is over, the client may be gone. */
    if (!is_over(w)) {
        fl_poller *poller = fl_client_poller(w->client);

        poller->wait(poller, is_over, w);
    }
    return w->err.status ? fl_err_restore(&w->err) : FL_OK;
}

/* --- questions ------------------------------------------------------------ */

/* The wait comes first: both callbacks get the same argument. */
typedef struct question {
    fl_wait wait;
    fl_client_reply on_reply;
    void *arg;
} question;

static void pass_on(void *arg, int server, const void *payload, uint64_t len)
{
    const question *q = arg;

    if (q->on_reply)
        q->on_reply(q->arg, server, payload, len);
}

/* st is what the call that began the request gave: after an error nobody will
   end it. */
static fl_status finish(fl_wait *w, fl_status st)
{
    if (!st)
        st = fl_wait_for(w);
    fl_wait_release(w);
    return st;
}

fl_status fl_client_call(fl_client *c, int server, uint16_t type, bool once,
                         const void *payload, size_t len,
                         fl_client_reply on_reply, void *arg)
{
    question q = { .on_reply = on_reply, .arg = arg };

    fl_wait_init(&q.wait, c);
    fl_wait_begin(&q.wait);
    return finish(&q.wait, fl_client_ask(c, server, type, once, payload, len,
                                         pass_on, fl_wait_done, &q));
}

/* Of two trainers that disagree one is told by server 0: only then the others
   are asked, so that they all hold what one trainer has declared. */
fl_status fl_client_call_declare(fl_client *c, const char *text)
{
    size_t len = strlen(text);

    FL_TRY(fl_client_call(c, 0, FL_TYPE_DECLARE, false, text, len, NULL, NULL));
    return fl_client_call(c, -1, FL_TYPE_DECLARE, false, text, len, NULL, NULL);
}

fl_status fl_client_call_barrier(fl_client *c, const char *name,
                                 uint64_t generation)
{
    fl_pack payload = { 0 };
    fl_status st;

    fl_pack_text(&payload, name);
    fl_pack_u64(&payload, generation);
    fl_pack_u64(&payload, 0); /* no share in anything */
    st = fl_client_call(c, 0, FL_TYPE_BARRIER, false, payload.data, payload.len,
                        NULL, NULL);
    fl_pack_release(&payload);
    return st;
}

fl_status fl_client_call_leave(fl_client *c)
{
    fl_wait w;

    fl_wait_init(&w, c);
    fl_wait_begin(&w);
    return finish(&w, fl_client_leave(c, fl_wait_done, &w));
}
