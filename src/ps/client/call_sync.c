/* call_sync.c - requests that are waited for. */
#include "ps/client/call_sync.h"

#include <string.h>

/* The wait comes first: both callbacks get the same argument. */
typedef struct question {
    fl_latch latch;
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
static fl_status finish(fl_latch *w, fl_status st)
{
    if (!st)
        st = fl_latch_wait(w);
    fl_latch_release(w);
    return st;
}

fl_status fl_client_call(fl_client *c, int server, uint16_t type, bool once,
                         const void *payload, size_t len,
                         fl_client_reply on_reply, void *arg)
{
    question q = { .on_reply = on_reply, .arg = arg };

    fl_latch_init(&q.latch, fl_client_poller(c));
    fl_latch_add(&q.latch);
    return finish(&q.latch, fl_client_ask(c, server, type, once, payload, len,
                                          pass_on, fl_latch_done, &q));
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
    fl_latch w;

    fl_latch_init(&w, fl_client_poller(c));
    fl_latch_add(&w);
    return finish(&w, fl_client_leave(c, fl_latch_done, &w));
}
