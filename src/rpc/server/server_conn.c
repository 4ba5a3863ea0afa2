/* server_conn.c - a connection on the server's side.
 *
 *     NEW -> HELLO -> PROOF -> WAITING -> UP -> LEAVING -> GONE
 *
 * From each of them it may be gone at once. LEAVING is for those that were told
 * why they may not stay: the connection is kept until the peer closes it, or
 * its time is up, since closing it here first could destroy the very words that
 * are on their way.
 *
 * Everything runs in the peer's loop. Whatever calls the owner or may end the
 * peer holds a reference meanwhile.
 */
#include "rpc/server/rpc_server_inside.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"

/* --- life ----------------------------------------------------------------- */

fl_server_conn *fl_server_conn_new(fl_rpc_server *h, fl_loop_conns *conns,
                                   fl_stream *s)
{
    fl_server_conn *p = fl_alloc(sizeof(*p));

    atomic_store(&p->refs, 1);
    atomic_fetch_add(&h->refs, 1);
    p->host = h;
    p->conns = conns;
    p->stream = s;
    p->phase = FL_SERVER_CONN_NEW;
    return p;
}

fl_server_conn *fl_server_conn_ref(fl_server_conn *p)
{
    atomic_fetch_add(&p->refs, 1);
    return p;
}

void fl_server_conn_unref(fl_server_conn *p)
{
    fl_rpc_server *h = p->host;

    if (atomic_fetch_sub(&p->refs, 1) != 1)
        return;
    FL_DEBUG_ASSERT(!p->conn && !p->stream && !p->session);
    fl_free(p);
    fl_rpc_server_unref(h);
}

void fl_server_conn_in_loop(fl_server_conn *p, fl_loop_fn fn)
{
    fl_server_conn_ref(p);
    if (fl_loop_is_mine(p->conns->loop))
        fn(p);
    else
        fl_loop_post(p->conns->loop, fn, p);
}

static uint64_t now_ms(const fl_server_conn *p)
{
    return fl_loop_now_ms(p->conns->loop);
}

/* --- sending -------------------------------------------------------------- */

static fl_frame head(const fl_server_conn *p, fl_frame_type type,
                     uint16_t flags)
{
    return (fl_frame){
        .type = (uint16_t)type,
        .flags = flags,
        .rank = p->host->o.me.rank,
        .incarnation = p->host->o.me.incarnation,
        .step = atomic_load(&p->host->step),
    };
}

fl_frame fl_server_conn_reply_head(const fl_server_conn *p,
                                   const fl_frame *asked, uint16_t flags)
{
    fl_frame f =
        head(p, (fl_frame_type)asked->type, (uint16_t)(FL_FRAME_REPLY | flags));

    f.request = asked->request;
    f.trace = asked->trace;
    f.sequence = asked->sequence;
    return f;
}

static void send_plain(fl_server_conn *p, fl_frame_type type,
                       const void *payload, size_t len)
{
    fl_frame f = head(p, type, 0);

    p->sent_ms = now_ms(p);
    fl_conn_send_copy(p->conn, &f, payload, len);
}

/* This thread's last error. */
static void send_error(fl_server_conn *p, fl_frame_type type, fl_status st)
{
    fl_frame f = head(p, type, FL_FRAME_REPLY | FL_FRAME_ERROR);
    fl_pack pack = { 0 };

    fl_error_pack(&pack, st, fl_last_error());
    fl_conn_send_copy(p->conn, &f, pack.data, pack.len);
    fl_pack_release(&pack);
}

void fl_server_conn_send(fl_server_conn *p, const fl_message *m)
{
    if (p->phase == FL_SERVER_CONN_UP) {
        p->sent_ms = now_ms(p);
        fl_conn_send(p->conn, m);
    } else if (m->done) {
        m->done(m->arg);
    }
}

/* --- leaving -------------------------------------------------------------- */

static void count_member(const fl_server_conn *p, int n)
{
    if (p->said.who.incarnation)
        atomic_fetch_add(&p->conns->n_members, n);
}

/* Gives up its rank and its session; the connection stays. */
static void detach(fl_server_conn *p, fl_status why)
{
    fl_rpc_server *h = p->host;
    bool was_up = p->phase == FL_SERVER_CONN_UP;

    p->phase = FL_SERVER_CONN_LEAVING;
    if (was_up)
        count_member(p, -1);
    if (was_up && h->e.on_down)
        h->e.on_down(h->o.arg, p->session, why);
    if (p->member)
        fl_rank_slot_leave(p);
    fl_session_unref(p->session);
    p->session = NULL;
}

/* The connection's end, and the peer's, but for its memory. */
void fl_server_conn_drop(fl_server_conn *p)
{
    fl_conn *c = p->conn;

    if (p->phase == FL_SERVER_CONN_GONE)
        return;
    p->phase = FL_SERVER_CONN_GONE;
    p->conn = NULL;
    fl_session_unref(p->session);
    p->session = NULL;
    fl_pack_release(&p->hello);
    fl_rpc_server_end_shaking(p->host, p, FL_CONN_ENDS);
    fl_conn_free(c);
}

static void leave(fl_server_conn *p, fl_status why)
{
    if (p->phase == FL_SERVER_CONN_GONE)
        return;
    detach(p, why);
    fl_server_conn_drop(p);
}

/* It is told this thread's last error, and not welcome any more. */
static void send_off(fl_server_conn *p, fl_frame_type type, fl_status st)
{
    fl_err why;

    fl_err_save(&why, st);
    send_error(p, type, st);
    detach(p, fl_err_restore(&why));
    p->since_ms = now_ms(p);
    fl_rpc_server_add_shaking(p->host, p);
}

static void refuse(fl_server_conn *p, fl_status st)
{
    fl_rpc_server_log_refused(p->host, fl_conn_peer(p->conn), fl_last_error());
    send_off(p, FL_TYPE_HELLO, st);
}

/* For one that has proved nothing. */
static void refuse_silently(fl_server_conn *p, const char *why)
{
    fl_rpc_server_log_refused(p->host, fl_conn_peer(p->conn), why);
    leave(p, FL_ERR_CLOSED);
}

void fl_server_conn_log(fl_server_conn *p, uint8_t level, const char *line)
{
    fl_pack pack = { 0 };

    if (p->phase != FL_SERVER_CONN_UP)
        return;
    fl_pack_u8(&pack, level);
    fl_pack_text(&pack, line);
    send_plain(p, FL_TYPE_LOG, pack.data, pack.len);
    fl_pack_release(&pack);
}

void fl_server_conn_dismiss(fl_server_conn *p, const fl_err *why)
{
    if (p->phase == FL_SERVER_CONN_UP)
        send_off(p, FL_TYPE_BYE, fl_err_restore(why));
}

void fl_server_conn_taken_over(void *peer)
{
    fl_server_conn *p = peer;

    if (p->phase == FL_SERVER_CONN_UP || p->phase == FL_SERVER_CONN_WAITING) {
        const fl_identity *id = &p->said.who;

        (void)fl_err_set(FL_ERR_CLOSED,
                         "a newer connection has come as %s %u: two processes "
                         "of a job must not have the same rank",
                         fl_member_role_name(id->role), id->rank);
        send_off(p, FL_TYPE_BYE, FL_ERR_CLOSED);
    }
    fl_server_conn_unref(p);
}

void fl_server_conn_set_back(void *peer)
{
    fl_server_conn *p = peer;

    (void)fl_err_set(FL_ERR_CLOSED, "the server's state was set back");
    if (p->phase == FL_SERVER_CONN_UP)
        leave(p, FL_ERR_CLOSED);
    fl_server_conn_unref(p);
}

void fl_server_conn_give_way(void *peer)
{
    fl_server_conn *p = peer;

    if (p->phase != FL_SERVER_CONN_UP)
        leave(p, FL_ERR_CLOSED);
    fl_server_conn_unref(p);
}

/* --- handshake ------------------------------------------------------------ */

static fl_status check_version(const fl_server_conn *p)
{
    if (p->said.version != FL_PROTOCOL_VERSION)
        FL_FAIL(FL_ERR_INVAL,
                "protocol version %u does not fit version %d here: run the "
                "same release on all machines",
                p->said.version, FL_PROTOCOL_VERSION);
    return FL_OK;
}

/* After the proof: a stranger is not told what is here. Without a token the
   proof is anybody's, hence the job's name is not told even then. */
static fl_status check_hello(const fl_server_conn *p)
{
    const fl_identity *me = &p->host->o.me;
    const fl_hello *s = &p->said;

    if (strcmp(s->who.job, me->job) != 0)
        FL_FAIL(FL_ERR_INVAL,
                "job '%s' is not the job here: the setting job must be the "
                "same for all",
                s->who.job);
    if (s->wanted_role != me->role || s->wanted_rank != me->rank)
        FL_FAIL(FL_ERR_INVAL,
                "%s %u was looked for, and this is %s %u: check the order of "
                "the addresses",
                fl_member_role_name(s->wanted_role), s->wanted_rank,
                fl_member_role_name(me->role), me->rank);
    return FL_OK;
}

static void take_hello(fl_server_conn *p, const fl_payload *payload)
{
    fl_status st = fl_hello_read(payload, &p->said);

    if (st) {
        refuse_silently(p, fl_last_error());
        return;
    }
    st = check_version(p);
    if (st) {
        refuse(p, st);
        return;
    }
    fl_pack_bytes(&p->hello, fl_payload_data(payload),
                  (size_t)fl_payload_len(payload));
    fl_auth_nonce(p->nonce);
    p->phase = FL_SERVER_CONN_PROOF;
    send_plain(p, FL_TYPE_CHALLENGE, p->nonce, sizeof(p->nonce));
}

static void prove(const fl_server_conn *p, const char *label,
                  const fl_pack *what, uint8_t out[FL_PROOF_BYTES])
{
    fl_auth_input in = {
        .label = label,
        .client_nonce = p->said.nonce,
        .server_nonce = p->nonce,
        .identity = what->data,
        .identity_len = what->len,
    };

    fl_auth_proof(p->said.who.may_only_look ? p->host->look_token
                                            : p->host->o.token,
                  &in, out);
}

/* Whether it is the proof of the token or, by a tool, of the look token. */
static bool is_proved(fl_server_conn *p, const uint8_t got[FL_PROOF_BYTES])
{
    uint8_t right[FL_PROOF_BYTES];

    prove(p, "client", &p->hello, right);
    if (fl_auth_equal(got, right))
        return true;
    if (p->said.who.role != FL_MEMBER_TOOL)
        return false;
    p->said.who.may_only_look = true;
    prove(p, "client", &p->hello, right);
    return fl_auth_equal(got, right);
}

static void take_proof(fl_server_conn *p, const fl_payload *payload)
{
    uint8_t got[FL_PROOF_BYTES];
    fl_rpc_server *h = p->host;
    fl_status st;

    if (fl_handshake_read32(payload, got) || !is_proved(p, got)) {
        refuse_silently(p, "it does not know the token");
        return;
    }
    st = check_hello(p);
    if (!st && h->e.admit)
        st = h->e.admit(h->o.arg, &p->said.who);
    if (!st)
        st = fl_rank_slot_join(p);
    if (st)
        refuse(p, st);
}

static void send_welcome(fl_server_conn *p)
{
    fl_welcome w = {
        .who = p->host->o.me,
        .sequence = fl_session_last(p->session),
    };
    fl_pack pack = { 0 };

    fl_welcome_pack(&pack, &w);
    prove(p, "server", &pack, w.proof);
    fl_pack_bytes(&pack, w.proof, sizeof(w.proof));
    send_plain(p, FL_TYPE_WELCOME, pack.data, pack.len);
    fl_pack_release(&pack);
}

/* Everything goes through the stream when there is none; no harm done. */
static void offer_arena(fl_conn *c)
{
    fl_status st = fl_conn_offer_arena(c);

    (void)st;
}

void fl_server_conn_up(void *peer)
{
    fl_server_conn *p = peer;
    fl_rpc_server *h = p->host;

    if (p->phase == FL_SERVER_CONN_WAITING) {
        p->session = fl_rank_slot_session(p);
        p->phase = FL_SERVER_CONN_UP;
        count_member(p, 1);
        fl_conn_set_max_bytes(p->conn, p->host->o.conn.max_bytes);
        fl_heartbeat_start(&p->heartbeat, now_ms(p));
        atomic_store(&p->session->heard_ms, now_ms(p));
        fl_rpc_server_end_shaking(h, p, FL_CONN_STAYS);
        send_welcome(p);
        fl_pack_release(&p->hello);
        offer_arena(p->conn);
        if (h->e.on_up)
            h->e.on_up(h->o.arg, p->session);
    }
    fl_server_conn_unref(p);
}

static void handshake(fl_server_conn *p, const fl_frame *f,
                      const fl_payload *payload)
{
    if (p->phase == FL_SERVER_CONN_HELLO && f->type == FL_TYPE_HELLO &&
        !f->flags)
        take_hello(p, payload);
    else if (p->phase == FL_SERVER_CONN_PROOF && f->type == FL_TYPE_PROOF &&
             !f->flags)
        take_proof(p, payload);
    else
        refuse_silently(p, "it sent something else than a handshake");
}

/* --- requests ------------------------------------------------------------- */

/* Takes the payload over. */
static void take_request(fl_server_conn *p, const fl_frame *f,
                         fl_payload *payload)
{
    fl_rpc_server *h = p->host;
    fl_once what = FL_ONCE_NEW;
    fl_remembered known;

    if (f->sequence)
        what = fl_session_take(p->session, p, f, &known);
    if (what == FL_ONCE_NEW && f->type != FL_TYPE_PING) {
        h->e.on_request(h->o.arg, p->session, f, payload, fl_reply_new(p, f));
        return;
    }
    fl_payload_free(payload);
    if (what == FL_ONCE_NEW) /* a number whose request ran out of time */
        fl_reply_send(fl_reply_new(p, f), NULL, 0);
    else if (what == FL_ONCE_KNOWN)
        fl_reply_again(p, f, &known);
    else if (what == FL_ONCE_WRONG)
        send_off(p, FL_TYPE_BYE, FL_ERR_CORRUPT);
}

static fl_status check_message(const fl_server_conn *p, const fl_frame *f)
{
    const fl_identity *id = &p->said.who;

    if (f->type == FL_TYPE_ARENA) /* the connection's own */
        return FL_OK;
    if (f->rank != id->rank || f->incarnation != id->incarnation)
        FL_FAIL(FL_ERR_CORRUPT,
                "a message of rank %u, incarnation %u, on a connection of rank "
                "%u, incarnation %u",
                f->rank, f->incarnation, id->rank, id->incarnation);
    if (f->flags || f->type <= FL_TYPE_WELCOME)
        FL_FAIL(FL_ERR_CORRUPT,
                "a message of type %s, flags 0x%04x, which a "
                "client does not send here",
                fl_frame_type_name(f->type, p->host->o.conn.names), f->flags);
    return FL_OK;
}

static void note_step(fl_server_conn *p, uint64_t step)
{
    uint64_t seen = atomic_load(&p->host->step);

    atomic_store(&p->session->step, step);
    while (step > seen &&
           !atomic_compare_exchange_weak(&p->host->step, &seen, step))
        ;
}

static void hear(fl_server_conn *p, uint64_t paused)
{
    fl_rpc_server *h = p->host;
    uint64_t heard = fl_conn_heard_ms(p->conn);
    fl_heartbeat_change change = fl_heartbeat_check(
        &p->heartbeat, heard, paused, now_ms(p), h->o.suspect_ms);

    atomic_store(&p->session->heard_ms, heard);
    if (change != FL_HEARTBEAT_SAME && h->e.on_silent)
        h->e.on_silent(h->o.arg, p->session, change == FL_HEARTBEAT_SILENT);
}

/* Takes the payload over. */
static void take_message(fl_server_conn *p, const fl_frame *f,
                         fl_payload *payload)
{
    fl_status st = check_message(p, f);

    hear(p, 0);
    if (!st && f->type == FL_TYPE_ARENA)
        st = fl_conn_accept_arena(p->conn, payload);
    if (st) {
        send_off(p, FL_TYPE_BYE, st);
    } else if (f->type == FL_TYPE_BYE) {
        leave(p, FL_OK);
    } else if (f->type != FL_TYPE_ARENA) {
        note_step(p, f->step);
        if (f->type != FL_TYPE_PING || f->request) {
            take_request(p, f, payload);
            return;
        }
    }
    fl_payload_free(payload);
}

static void on_message(void *arg, fl_conn *c, const fl_frame *f,
                       fl_payload *payload)
{
    fl_server_conn *p = fl_server_conn_ref(arg);

    (void)c;
    if (p->phase == FL_SERVER_CONN_UP) {
        take_message(p, f, payload);
    } else {
        if (p->phase != FL_SERVER_CONN_LEAVING)
            handshake(p, f, payload);
        fl_payload_free(payload);
    }
    fl_server_conn_unref(p);
}

static void on_close(void *arg, fl_conn *c, fl_status why)
{
    fl_server_conn *p = fl_server_conn_ref(arg);

    (void)c;
    if (why == FL_ERR_CORRUPT && p->phase < FL_SERVER_CONN_UP)
        fl_rpc_server_log_refused(p->host, fl_conn_peer(p->conn),
                                  fl_last_error());
    leave(p, why);
    fl_server_conn_unref(p);
}

void fl_server_conn_start(void *peer)
{
    static const fl_conn_events events = {
        .on_message = on_message,
        .on_close = on_close,
    };
    fl_server_conn *p = peer;
    fl_stream *s = p->stream;
    bool is_closed;

    p->stream = NULL;
    fl_lock(&p->host->mu);
    is_closed = p->host->is_closed;
    fl_unlock(&p->host->mu);
    if (is_closed) {
        s->ops->close(s);
        fl_server_conn_drop(p);
    } else {
        p->phase = FL_SERVER_CONN_HELLO;
        p->since_ms = now_ms(p);
        p->conn = fl_conn_new(s, &p->host->o.conn, &events, p);
        fl_conn_set_max_bytes(p->conn, FL_HANDSHAKE_BYTES_MAX);
        fl_loop_conns_add(p->conns, p);
    }
    fl_server_conn_unref(p);
}

/* --- looking after it ----------------------------------------------------- */

static void look_at_session(fl_server_conn *p, uint64_t paused_ms)
{
    hear(p, paused_ms);
    if (now_ms(p) - p->sent_ms >= p->host->o.ping_ms)
        send_plain(p, FL_TYPE_PING, NULL, 0);
}

void fl_server_conn_check(fl_server_conn *p, uint64_t paused_ms)
{
    if (p->phase == FL_SERVER_CONN_UP) {
        look_at_session(p, paused_ms);
        return;
    }
    p->since_ms += paused_ms;
    if (p->phase == FL_SERVER_CONN_GONE ||
        now_ms(p) < p->since_ms + p->host->o.handshake_ms)
        return;
    if (p->phase < FL_SERVER_CONN_WAITING)
        fl_rpc_server_log_refused(p->host, fl_conn_peer(p->conn),
                                  "its handshake takes too long");
    leave(p, FL_ERR_TIMEOUT);
}
