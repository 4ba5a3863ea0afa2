/* session.c - exactly once: the numbers that were applied and their results. */
#include "rpc/server/session.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "rpc/server/rpc_server_inside.h"

fl_session *fl_session_new(const fl_identity *who, const fl_loop *clock)
{
    fl_session *s = fl_alloc(sizeof(*s));

    atomic_store(&s->refs, 1);
    s->clock = clock;
    s->who = *who;
    atomic_store(&s->heard_ms, fl_loop_now_ms(clock));
    fl_mutex_init(&s->mu);
    return s;
}

fl_session *fl_session_ref(fl_session *s)
{
    atomic_fetch_add(&s->refs, 1);
    return s;
}

/* Guarded by mu. */
static void forget_results(fl_session *s)
{
    for (size_t i = 0; s->results && i < FL_RPC_SERVER_RESULTS; i++) {
        fl_free(s->results[i].bytes);
        if (s->results[i].to)
            fl_server_conn_unref(s->results[i].to);
    }
    fl_free(s->results);
    s->results = NULL;
}

void fl_session_unref(fl_session *s)
{
    if (!s || atomic_fetch_sub(&s->refs, 1) != 1)
        return;
    if (s->release)
        s->release(s->data);
    forget_results(s);
    fl_mutex_release(&s->mu);
    fl_free(s);
}

/* --- exactly once --------------------------------------------------------- */

uint64_t fl_session_last(fl_session *s)
{
    uint64_t last;

    fl_lock(&s->mu);
    last = s->last;
    fl_unlock(&s->mu);
    return last;
}

void fl_session_restore(fl_session *s, uint64_t last)
{
    fl_lock(&s->mu);
    forget_results(s);
    s->last = s->restored = last;
    fl_unlock(&s->mu);
}

static fl_result *slot_of(fl_session *s, uint64_t sequence)
{
    if (!s->results)
        s->results = fl_alloc(FL_RPC_SERVER_RESULTS * sizeof(*s->results));
    return &s->results[sequence % FL_RPC_SERVER_RESULTS];
}

static fl_once wrong(const char *what, uint64_t sequence, uint64_t last)
{
    (void)fl_err_set(FL_ERR_CORRUPT,
                     "request number %" PRIu64 " %s (the last one was %" PRIu64
                     ")",
                     sequence, what, last);
    return FL_ONCE_WRONG;
}

static fl_once take_new(fl_session *s, fl_server_conn *from, const fl_frame *f)
{
    fl_result *r = slot_of(s, f->sequence);

    if (r->is_open)
        return wrong("comes while too many are without a reply", f->sequence,
                     s->last);
    fl_free(r->bytes);
    *r = (fl_result){
        .sequence = f->sequence,
        .is_open = true,
        .to = fl_server_conn_ref(from),
        .asked = *f,
    };
    s->last = f->sequence;
    return FL_ONCE_NEW;
}

static fl_once take_again(fl_session *s, fl_server_conn *from,
                          const fl_frame *f, fl_remembered *out)
{
    fl_result *r = slot_of(s, f->sequence);

    if (r->sequence != f->sequence) {
        if (f->sequence > s->restored)
            return wrong("was applied so long ago that its result is forgotten",
                         f->sequence, s->last);
        out->flags = 0;
        out->len = 0;
        return FL_ONCE_KNOWN;
    }
    if (r->is_open) {
        fl_server_conn_ref(from);
        fl_server_conn_unref(r->to);
        r->to = from;
        r->asked = *f;
        return FL_ONCE_OPEN;
    }
    out->flags = r->flags;
    out->len = r->len;
    if (r->len)
        memcpy(out->bytes, r->bytes, r->len);
    return FL_ONCE_KNOWN;
}

fl_once fl_session_take(fl_session *s, fl_server_conn *from, const fl_frame *f,
                        fl_remembered *out)
{
    fl_once what;

    fl_lock(&s->mu);
    if (f->sequence <= s->last)
        what = take_again(s, from, f, out);
    else if (f->sequence == s->last + 1)
        what = take_new(s, from, f);
    else
        what = wrong("leaves a gap", f->sequence, s->last);
    fl_unlock(&s->mu);
    return what;
}

void fl_session_settle(fl_session *s, uint64_t sequence,
                       const fl_remembered *result, fl_server_conn **to,
                       fl_frame *asked)
{
    fl_result *r;

    *to = NULL;
    fl_lock(&s->mu);
    r = slot_of(s, sequence);
    if (r->sequence == sequence && r->is_open) {
        *to = r->to;
        *asked = r->asked;
        r->to = NULL;
        r->is_open = false;
        r->flags = result->flags;
        r->len = result->len;
        if (r->len) {
            r->bytes = fl_alloc(r->len);
            memcpy(r->bytes, result->bytes, r->len);
        }
    }
    fl_unlock(&s->mu);
}

/* --- for the owner -------------------------------------------------------- */

const fl_identity *fl_session_who(const fl_session *s)
{
    return &s->who;
}

const char *fl_session_peer(const fl_session *s)
{
    return s->peer;
}

uint64_t fl_session_step(const fl_session *s)
{
    return atomic_load(&s->step);
}

uint64_t fl_session_heard_ms_ago(const fl_session *s)
{
    uint64_t now = fl_loop_now_ms(s->clock), heard = atomic_load(&s->heard_ms);

    return now > heard ? now - heard : 0;
}

void *fl_session_data(const fl_session *s)
{
    return s->data;
}

void fl_session_set(fl_session *s, void *data, void (*release)(void *data))
{
    if (s->release)
        s->release(s->data);
    s->data = data;
    s->release = release;
}
