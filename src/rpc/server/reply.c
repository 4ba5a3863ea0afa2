/* reply.c - answers that are owed, from any thread.
 *
 * A reply goes to the connection its request came from. One that is to be
 * remembered goes into the session first and then to whoever asked for it last,
 * which may be a later connection. In the connection's own loop it is sent at
 * once, from elsewhere it is carried there; where the connection is gone it is
 * dropped.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "rpc/server/rpc_server_inside.h"

/* What is around a sentence in the payload of an error. */
#define ERROR_HEAD_BYTES 8

struct fl_reply {
    fl_server_conn *peer; /* a reference */
    fl_session *session;  /* a reference */
    fl_frame asked;
    bool has_room;
    uint64_t place, room_len;
};

/* A message on its way to the loop of its connection. */
typedef struct carried {
    fl_server_conn *peer; /* a reference */
    fl_message m;
    struct iovec *pieces; /* ours */
    void *copy;           /* ours, or NULL */
    size_t copy_len;
} carried;

fl_reply *fl_reply_new(fl_server_conn *p, const fl_frame *asked)
{
    fl_reply *r = fl_alloc(sizeof(*r));

    r->peer = fl_server_conn_ref(p);
    r->session = fl_session_ref(p->session);
    r->asked = *asked;
    return r;
}

static void reply_free(fl_reply *r)
{
    fl_server_conn_unref(r->peer);
    fl_session_unref(r->session);
    fl_free(r);
}

/* Then not even the loops may be there any more. */
static bool is_too_late(const fl_reply *r)
{
    return atomic_load(&r->peer->host->is_closed);
}

static bool is_mine(const fl_server_conn *p)
{
    return fl_loop_is_mine(p->conns->loop);
}

fl_session *fl_reply_session(const fl_reply *r)
{
    return r->session;
}

fl_conn *fl_reply_hold(const fl_reply *r)
{
    fl_server_conn *p = r->peer;

    if (is_too_late(r) || p->phase != FL_SERVER_CONN_UP)
        return NULL;
    FL_ASSERT(is_mine(p));
    fl_conn_hold(p->conn);
    return p->conn;
}

void fl_reply_defer_others(const fl_reply *r)
{
    const fl_server_conn *p = r->peer;

    FL_ASSERT(is_mine(p));
    if (p->phase == FL_SERVER_CONN_UP)
        fl_conn_defer(p->conn);
}

bool fl_reply_post(const fl_reply *r, fl_loop_fn fn, void *arg)
{
    return fl_rpc_server_post(r->peer->host, r->peer->conns->loop, fn, arg);
}

/* --- to another loop ------------------------------------------------------ */

static void carried_free(carried *c)
{
    if (c->copy)
        fl_data_free(c->copy, c->copy_len);
    fl_server_conn_unref(c->peer);
    fl_free(c->pieces);
    fl_free(c);
}

static void deliver_copy(void *arg)
{
    carried *c = arg;

    if (c->peer->phase == FL_SERVER_CONN_UP) {
        c->peer->sent_ms = fl_loop_now_ms(c->peer->conns->loop);
        fl_conn_send_copy(c->peer->conn, &c->m.frame, c->copy, c->copy_len);
    }
    carried_free(c);
}

static void deliver_pieces(void *arg)
{
    carried *c = arg;

    fl_server_conn_send(c->peer, &c->m);
    carried_free(c);
}

static carried *carried_new(fl_server_conn *to, const fl_frame *f)
{
    carried *c = fl_alloc(sizeof(*c));

    c->peer = fl_server_conn_ref(to);
    c->m.frame = *f;
    return c;
}

/* False without memory for the copy. */
static bool carry_copy(fl_server_conn *to, const fl_frame *f,
                       const void *payload, size_t len)
{
    carried *c = carried_new(to, f);

    if (len) {
        c->copy = fl_try_alloc(len);
        c->copy_len = len;
        if (!c->copy) {
            carried_free(c);
            return false;
        }
        memcpy(c->copy, payload, len);
    }
    if (!fl_rpc_server_post(to->host, to->conns->loop, deliver_copy, c))
        carried_free(c);
    return true;
}

static void carry_pieces(fl_server_conn *to, const fl_message *m)
{
    carried *c = carried_new(to, &m->frame);
    size_t bytes = (size_t)m->n_pieces * sizeof(*m->pieces);

    c->m = *m;
    if (bytes) {
        c->pieces = fl_alloc(bytes);
        memcpy(c->pieces, m->pieces, bytes);
    }
    c->m.pieces = c->pieces;
    if (fl_rpc_server_post(to->host, to->conns->loop, deliver_pieces, c))
        return;
    if (m->done)
        m->done(m->arg);
    carried_free(c);
}

/* --- giving --------------------------------------------------------------- */

static void send_copy(fl_server_conn *to, const fl_frame *f,
                      const void *payload, size_t len)
{
    fl_frame error = *f;
    fl_pack p = { 0 };

    if (is_mine(to)) {
        if (to->phase == FL_SERVER_CONN_UP) {
            to->sent_ms = fl_loop_now_ms(to->conns->loop);
            fl_conn_send_copy(to->conn, f, payload, len);
        }
        return;
    }
    if (carry_copy(to, f, payload, len))
        return;
    error.flags |= FL_FRAME_ERROR;
    fl_error_pack(&p, FL_ERR_NOMEM, "the server has no memory for the reply");
    /* So little that it would be the process's end without it anyway. */
    (void)carry_copy(to, &error, p.data, p.len);
    fl_pack_release(&p);
}

void fl_reply_again(fl_server_conn *p, const fl_frame *asked,
                    const fl_remembered *r)
{
    fl_frame f = fl_server_conn_reply_head(p, asked, r->flags);

    send_copy(p, &f, r->bytes, r->len);
}

static void settle(fl_reply *r, const fl_remembered *result)
{
    fl_frame asked;
    fl_server_conn *to;

    fl_session_settle(r->session, r->asked.sequence, result, &to, &asked);
    if (!to)
        return;
    fl_reply_again(to, &asked, result);
    fl_server_conn_unref(to);
}

/* Takes back what was asked for and is not used. */
static void drop_room(fl_reply *r)
{
    if (!r->has_room || is_too_late(r))
        return;
    FL_ASSERT(is_mine(r->peer));
    r->has_room = false;
    if (r->peer->conn)
        fl_conn_drop_reserved(r->peer->conn, r->place);
}

static void give_copy(fl_reply *r, uint16_t flags, const void *payload,
                      size_t len)
{
    fl_remembered result;
    fl_frame f;

    drop_room(r);
    if (is_too_late(r)) {
        reply_free(r);
        return;
    }
    if (r->asked.sequence) {
        FL_ASSERT(len <= FL_RESULT_MAX);
        result.flags = flags;
        result.len = (uint32_t)len;
        if (len)
            memcpy(result.bytes, payload, len);
        settle(r, &result);
    } else {
        f = fl_server_conn_reply_head(r->peer, &r->asked, flags);
        send_copy(r->peer, &f, payload, len);
    }
    reply_free(r);
}

void fl_reply_send(fl_reply *r, const void *payload, size_t len)
{
    give_copy(r, 0, payload, len);
}

void fl_reply_error(fl_reply *r, fl_status st)
{
    char text[FL_RESULT_MAX - ERROR_HEAD_BYTES + 1];
    fl_pack p = { 0 };

    (void)snprintf(text, sizeof(text), "%s", fl_last_error());
    fl_error_pack(&p, st, text);
    give_copy(r, FL_FRAME_ERROR, p.data, p.len);
    fl_pack_release(&p);
}

/* A result to remember is small: copied at once, its pieces are free again. */
static void give_pieces_once(fl_reply *r, const struct iovec *pieces, int n,
                             void (*done)(void *arg), void *arg)
{
    fl_remembered result = { 0 };

    for (int i = 0; i < n; i++) {
        size_t len = pieces[i].iov_len;

        FL_ASSERT(len <= FL_RESULT_MAX - result.len);
        if (len)
            memcpy(result.bytes + result.len, pieces[i].iov_base, len);
        result.len += (uint32_t)len;
    }
    settle(r, &result);
    if (done)
        done(arg);
}

void fl_reply_send_pieces(fl_reply *r, const struct iovec *pieces, int n,
                          void (*done)(void *arg), void *arg)
{
    fl_message m = {
        .pieces = pieces,
        .n_pieces = n,
        .done = done,
        .arg = arg,
    };

    drop_room(r);
    if (is_too_late(r)) {
        if (done)
            done(arg);
    } else if (r->asked.sequence) {
        give_pieces_once(r, pieces, n, done, arg);
    } else {
        m.frame = fl_server_conn_reply_head(r->peer, &r->asked, 0);
        if (is_mine(r->peer))
            fl_server_conn_send(r->peer, &m);
        else
            carry_pieces(r->peer, &m);
    }
    reply_free(r);
}

void *fl_reply_reserve(fl_reply *r, uint64_t len)
{
    void *room;

    if (is_too_late(r))
        return NULL;
    FL_ASSERT(is_mine(r->peer) && !r->has_room);
    if (r->asked.sequence || r->peer->phase != FL_SERVER_CONN_UP)
        return NULL;
    room = fl_conn_reserve(r->peer->conn, len, &r->place);
    r->has_room = room != NULL;
    r->room_len = len;
    return room;
}

void fl_reply_send_reserved(fl_reply *r)
{
    fl_server_conn *p = r->peer;
    fl_frame f = fl_server_conn_reply_head(p, &r->asked, 0);

    FL_ASSERT(r->has_room);
    if (is_too_late(r)) {
        reply_free(r);
        return;
    }
    FL_ASSERT(is_mine(p));
    if (p->phase == FL_SERVER_CONN_UP) {
        p->sent_ms = fl_loop_now_ms(p->conns->loop);
        fl_conn_send_reserved(p->conn, &f, r->place, r->room_len);
    } else {
        drop_room(r);
    }
    reply_free(r);
}
