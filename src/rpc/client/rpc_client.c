/* rpc_client.c - a client's connection to one server: dialling, handshakes,
 * signs of life, and the way back after a break.
 *
 *     AT_REST --pause--> AT_DIAL --stream--> AT_HELLO --CHALLENGE--> AT_PROOF
 *        ^                  |                   |                       |
 *        +------ broke -----+-------------------+--- AT_REQUESTS <-WELCOME
 *
 * What may pass (a refused dial, a broken connection, an attempt that takes too
 * long) ends in fl_rpc_client_broke, which pauses and dials again until
 * give_up_ms. What will not pass (a server that refuses this client or is
 * another one than it was) ends in fl_rpc_client_fail at once.
 *
 * The loop owns everything but the inbox and what fl_rpc_client_get shows. A
 * link that is freed from inside one of its own callbacks, or while a wake-up
 * is on its way, is closed at once and its memory is freed by the last of them.
 */
#include "rpc/client/rpc_client.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "rpc/client/rpc_client_inside.h"

#define WINDOW_MAX 64
#define ATTEMPT_MS 5000u /* to dial and shake hands */
#define PAUSE_MS 10u     /* before the first attempt; doubles */
#define PAUSE_DOUBLINGS 7u

static void on_wake(void *arg);
static void attempt(fl_rpc_client *l);

/* --- life ----------------------------------------------------------------- */

static fl_status check_options(const char *address,
                               const fl_rpc_client_options *o)
{
    FL_TRY(fl_address_check(address));
    if (strlen(address) >= FL_ADDRESS_MAX)
        FL_FAIL(FL_ERR_INVAL, "address %s is longer than %d characters",
                address, FL_ADDRESS_MAX - 1);
    if (o->window < 1 || o->window > WINDOW_MAX)
        FL_FAIL(FL_ERR_INVAL, "link to %s: a window of %d is not in 1..%d",
                address, o->window, WINDOW_MAX);
    if (!o->ping_ms || o->suspect_ms < o->ping_ms)
        FL_FAIL(FL_ERR_INVAL,
                "link to %s: suspect_ms (%llu) must be at least ping_ms "
                "(%llu), which is at least 1",
                address, (unsigned long long)o->suspect_ms,
                (unsigned long long)o->ping_ms);
    return FL_OK;
}

fl_status fl_rpc_client_new(fl_rpc_client **out, fl_loop *loop, fl_net *net,
                            const char *address, const fl_rpc_client_options *o)
{
    fl_rpc_client *l;

    FL_TRY(check_options(address, o));
    l = fl_alloc(sizeof(*l));
    l->loop = loop;
    l->net = net;
    l->o = *o;
    (void)snprintf(l->address, sizeof(l->address), "%s", address);
    fl_mutex_init(&l->mu);
    atomic_store(&l->heard_ms, fl_loop_now_ms(loop));
    l->n_posted = 1;
    fl_loop_post(loop, on_wake, l);
    *out = l;
    return FL_OK;
}

static void destroy(fl_rpc_client *l)
{
    fl_pack_release(&l->hello);
    fl_mutex_release(&l->mu);
    fl_free(l);
}

const char *fl_rpc_client_peer(const fl_rpc_client *l)
{
    return l->o.peer_name ? l->o.peer_name
                          : fl_member_role_name(l->o.peer_role);
}

void fl_rpc_client_enter(fl_rpc_client *l)
{
    l->depth++;
}

void fl_rpc_client_leave(fl_rpc_client *l)
{
    bool is_posted;

    if (--l->depth || !l->is_freed)
        return;
    fl_lock(&l->mu);
    is_posted = l->n_posted > 0;
    fl_unlock(&l->mu);
    if (!is_posted)
        destroy(l);
}

static uint64_t since_heard(fl_rpc_client *l)
{
    uint64_t now = fl_loop_now_ms(l->loop), heard = atomic_load(&l->heard_ms);

    return now > heard ? now - heard : 0;
}

static void set_state(fl_rpc_client *l, fl_rpc_client_state state)
{
    fl_lock(&l->mu);
    l->state = state;
    fl_unlock(&l->mu);
    if (l->o.on_state)
        l->o.on_state(l->o.arg, l, state, since_heard(l));
}

static void set_timer(fl_rpc_client *l, uint64_t delay_ms, fl_loop_fn fn)
{
    fl_loop_cancel(l->loop, l->timer);
    l->timer_due_ms = fl_loop_now_ms(l->loop) + delay_ms;
    l->timer = fl_loop_timer(l->loop, delay_ms, fn, l);
}

/* To be called once in a timer's callback. */
static uint64_t paused_ms(fl_rpc_client *l)
{
    l->timer = 0;
    return fl_heartbeat_paused_ms(l->timer_due_ms, fl_loop_now_ms(l->loop),
                                  l->o.suspect_ms);
}

/* Back to rest, whatever was under way. */
static void drop(fl_rpc_client *l)
{
    fl_conn *conn = l->conn;

    fl_loop_cancel(l->loop, l->timer);
    l->timer = 0;
    if (l->phase == FL_RPC_CLIENT_AT_DIAL && l->dial)
        l->net->ops->cancel(l->dial);
    l->dial = NULL;
    l->conn = NULL;
    l->phase = FL_RPC_CLIENT_AT_REST;
    fl_rpc_client_unsend(l);
    fl_conn_free(conn);
}

static fl_rpc_client_list take_inbox(fl_rpc_client *l)
{
    fl_rpc_client_list in;

    fl_lock(&l->mu);
    in = l->inbox;
    l->inbox = (fl_rpc_client_list){ 0 };
    fl_unlock(&l->mu);
    return in;
}

/* The last state: nothing is accepted any more, for the reason in *e. */
static void end(fl_rpc_client *l, const fl_err *e)
{
    drop(l);
    fl_lock(&l->mu);
    l->state = FL_RPC_CLIENT_FAILED;
    l->why = *e;
    fl_unlock(&l->mu);
}

void fl_rpc_client_fail(fl_rpc_client *l, fl_status st)
{
    fl_err e;

    st = fl_err_ctx(st, "%s %u at %s", fl_rpc_client_peer(l), l->o.peer_rank,
                    l->address);
    fl_err_save(&e, st);
    end(l, &e);
    (void)fl_err_restore(&e);
    if (l->o.on_state)
        l->o.on_state(l->o.arg, l, FL_RPC_CLIENT_FAILED, since_heard(l));
    fl_rpc_client_answer_all(l, take_inbox(l), &e);
}

static void send_plain(fl_rpc_client *l, fl_frame_type type,
                       const void *payload, size_t len)
{
    fl_frame f = {
        .type = (uint16_t)type,
        .rank = l->o.me.rank,
        .incarnation = l->o.me.incarnation,
        .step = l->calls.step,
    };

    l->sent_ms = fl_loop_now_ms(l->loop);
    fl_conn_send_copy(l->conn, &f, payload, len);
}

void fl_rpc_client_free(fl_rpc_client *l)
{
    fl_err e;

    if (!l)
        return;
    FL_ASSERT(fl_loop_is_mine(l->loop) && !l->is_freed);
    fl_rpc_client_enter(l);
    l->is_freed = true;
    if (l->phase == FL_RPC_CLIENT_AT_REQUESTS)
        send_plain(l, FL_TYPE_BYE, NULL, 0);
    (void)fl_err_set(FL_ERR_CLOSED, "the link to %s %u at %s was closed",
                     fl_rpc_client_peer(l), l->o.peer_rank, l->address);
    fl_err_save(&e, FL_ERR_CLOSED);
    end(l, &e);
    fl_rpc_client_answer_all(l, take_inbox(l), &e);
    fl_rpc_client_leave(l);
}

/* --- breaks and pauses ---------------------------------------------------- */

static void give_up(fl_rpc_client *l)
{
    uint64_t ms = l->was_up ? l->o.restart_timeout_ms : l->o.connect_timeout_ms;

    fl_rpc_client_fail(
        l, fl_err_set(FL_ERR_TIMEOUT, "%s in %llu ms; at last: %s",
                      l->was_up ? "did not come back" : "could not be reached",
                      (unsigned long long)ms,
                      l->broke.status ? l->broke.text
                                      : "there was no time to dial"));
}

void fl_rpc_client_give_up(fl_rpc_client *l)
{
    fl_rpc_client_enter(l);
    if (l->state != FL_RPC_CLIENT_FAILED)
        fl_rpc_client_fail(
            l, fl_err_set(FL_ERR_CLOSED, "was given up by an interruption"));
    fl_rpc_client_leave(l);
}

static void on_pause_over(void *arg)
{
    fl_rpc_client *l = arg;

    fl_rpc_client_enter(l);
    l->give_up_ms += paused_ms(l);
    attempt(l);
    fl_rpc_client_leave(l);
}

/* Clients of a server that comes back do not all dial at the same moment; by
   rank and not by chance, so that a simulation can be repeated. */
static void pause_before_attempt(fl_rpc_client *l)
{
    uint64_t now = fl_loop_now_ms(l->loop);
    uint64_t left = l->give_up_ms > now ? l->give_up_ms - now : 0;
    unsigned n =
        l->n_attempts < PAUSE_DOUBLINGS ? l->n_attempts : PAUSE_DOUBLINGS;
    uint64_t half = (PAUSE_MS << n) / 2;
    uint64_t ms =
        half + fl_mix64(((uint64_t)l->o.me.rank << 32) + l->n_attempts) % half;

    l->n_attempts++;
    set_timer(l, ms < left ? ms : left, on_pause_over);
}

void fl_rpc_client_broke(fl_rpc_client *l, fl_status st)
{
    bool was_up = l->phase == FL_RPC_CLIENT_AT_REQUESTS;

    fl_err_save(&l->broke, st);
    drop(l);
    if (was_up) {
        l->give_up_ms = fl_loop_now_ms(l->loop) + l->o.restart_timeout_ms;
        l->n_attempts = 0;
        (void)fl_err_restore(&l->broke);
        set_state(l, FL_RPC_CLIENT_DOWN);
    }
    if (!l->is_freed)
        pause_before_attempt(l);
}

/* --- signs of life -------------------------------------------------------- */

static void look(fl_rpc_client *l, uint64_t paused)
{
    uint64_t heard = fl_conn_heard_ms(l->conn);

    atomic_store(&l->heard_ms, heard);
    switch (fl_heartbeat_check(&l->heartbeat, heard, paused,
                               fl_loop_now_ms(l->loop), l->o.suspect_ms)) {
    case FL_HEARTBEAT_SILENT:
        set_state(l, FL_RPC_CLIENT_SILENT);
        break;
    case FL_HEARTBEAT_HEARD:
        set_state(l, FL_RPC_CLIENT_UP);
        break;
    case FL_HEARTBEAT_SAME:
        break;
    }
}

static void on_look(void *arg);

static void look_later(fl_rpc_client *l)
{
    set_timer(l, fl_heartbeat_every_ms(l->o.ping_ms, l->o.suspect_ms), on_look);
}

static void on_look(void *arg)
{
    fl_rpc_client *l = arg;
    uint64_t silence, now = fl_loop_now_ms(l->loop);

    fl_rpc_client_enter(l);
    look(l, paused_ms(l));
    silence = fl_heartbeat_silence_ms(&l->heartbeat, now);
    if (l->phase == FL_RPC_CLIENT_AT_REQUESTS && l->heartbeat.is_silent &&
        silence >= l->o.restart_timeout_ms)
        fl_rpc_client_fail(l, fl_err_set(FL_ERR_TIMEOUT,
                                         "said nothing for %llu ms",
                                         (unsigned long long)silence));
    if (l->phase == FL_RPC_CLIENT_AT_REQUESTS) {
        if (now - l->sent_ms >= l->o.ping_ms)
            send_plain(l, FL_TYPE_PING, NULL, 0);
        look_later(l);
    }
    fl_rpc_client_leave(l);
}

/* --- handshake ------------------------------------------------------------ */

static void send_hello(fl_rpc_client *l)
{
    fl_hello h = {
        .version = FL_PROTOCOL_VERSION,
        .wanted_role = l->o.peer_role,
        .wanted_rank = l->o.peer_rank,
        .who = l->o.me,
    };

    fl_auth_nonce(l->nonce);
    memcpy(h.nonce, l->nonce, sizeof(h.nonce));
    fl_pack_release(&l->hello);
    fl_hello_pack(&l->hello, &h);
    send_plain(l, FL_TYPE_HELLO, l->hello.data, l->hello.len);
}

static fl_status send_proof(fl_rpc_client *l, const fl_payload *challenge)
{
    uint8_t proof[FL_PROOF_BYTES];
    fl_auth_input in = {
        .label = "client",
        .client_nonce = l->nonce,
        .server_nonce = l->server_nonce,
        .identity = l->hello.data,
        .identity_len = l->hello.len,
    };

    FL_TRY(fl_handshake_read32(challenge, l->server_nonce));
    fl_auth_proof(l->o.token, &in, proof);
    send_plain(l, FL_TYPE_PROOF, proof, sizeof(proof));
    return FL_OK;
}

static fl_status check_server(fl_rpc_client *l, const fl_welcome *w,
                              const fl_payload *payload, size_t proved)
{
    const fl_identity *who = &w->who;
    uint8_t proof[FL_PROOF_BYTES];
    fl_auth_input in = {
        .label = "server",
        .client_nonce = l->nonce,
        .server_nonce = l->server_nonce,
        .identity = fl_payload_data(payload),
        .identity_len = proved,
    };

    fl_auth_proof(l->o.token, &in, proof);
    if (!fl_auth_equal(proof, w->proof))
        FL_FAIL(FL_ERR_INVAL, "who answers there does not know the token");
    if (strcmp(who->job, l->o.me.job) != 0)
        FL_FAIL(FL_ERR_INVAL, "belongs to job '%s', not to '%s'", who->job,
                l->o.me.job);
    if (who->role != l->o.peer_role || who->rank != l->o.peer_rank)
        FL_FAIL(FL_ERR_INVAL,
                "%s %u answers there: check the order of the addresses",
                fl_member_role_name(who->role), who->rank);
    if (l->was_up && who->boot_id != l->boot_id)
        FL_FAIL(FL_ERR_CLOSED,
                "came back without its state: the job must start again from "
                "its last save");
    return FL_OK;
}

/* Everything goes through the stream when there is none; no harm done. */
static void offer_arena(fl_conn *c)
{
    fl_status st = fl_conn_offer_arena(c);

    (void)st;
}

static void welcome(fl_rpc_client *l, const fl_payload *payload)
{
    fl_welcome w;
    size_t proved;
    fl_status st = fl_welcome_read(payload, &w, &proved);

    if (st) {
        fl_rpc_client_broke(l, st);
        return;
    }
    st = check_server(l, &w, payload, proved);
    if (!st)
        st = fl_rpc_client_agree(l, w.sequence, !l->was_up);
    if (st) {
        fl_rpc_client_fail(l, st);
        return;
    }
    if (l->was_up)
        fl_stat_add(&l->stats.reconnects, 1);
    l->was_up = true;
    l->boot_id = w.who.boot_id;
    fl_lock(&l->mu);
    l->peer = w.who;
    fl_unlock(&l->mu);
    l->phase = FL_RPC_CLIENT_AT_REQUESTS;
    fl_conn_set_max_bytes(l->conn, l->o.conn.max_bytes);
    l->n_attempts = 0;
    fl_heartbeat_start(&l->heartbeat, fl_loop_now_ms(l->loop));
    look_later(l);
    offer_arena(l->conn);
    set_state(l, FL_RPC_CLIENT_UP);
    fl_rpc_client_pump(l);
}

static void refused(fl_rpc_client *l, const fl_payload *payload)
{
    fl_rpc_client_fail(
        l, fl_err_ctx(fl_error_read(payload), "refuses this process"));
}

static void handshake(fl_rpc_client *l, const fl_frame *f,
                      const fl_payload *payload)
{
    fl_status st;

    if (f->type == FL_TYPE_HELLO && f->flags & FL_FRAME_ERROR) {
        refused(l, payload);
    } else if (f->type == FL_TYPE_CHALLENGE && !f->flags &&
               l->phase == FL_RPC_CLIENT_AT_HELLO) {
        st = send_proof(l, payload);
        if (st)
            fl_rpc_client_broke(l, st);
        else
            l->phase = FL_RPC_CLIENT_AT_PROOF;
    } else if (f->type == FL_TYPE_WELCOME && !f->flags &&
               l->phase == FL_RPC_CLIENT_AT_PROOF) {
        welcome(l, payload);
    } else {
        fl_rpc_client_broke(
            l,
            fl_err_set(FL_ERR_CORRUPT, "a message of type %s in the handshake",
                       fl_frame_type_name(f->type, l->o.conn.names)));
    }
}

/* --- messages ------------------------------------------------------------- */

static void said_bye(fl_rpc_client *l, const fl_frame *f,
                     const fl_payload *payload)
{
    if (f->flags & FL_FRAME_ERROR)
        fl_rpc_client_fail(
            l, fl_err_ctx(fl_error_read(payload), "ended the connection"));
    else
        fl_rpc_client_broke(l, fl_err_set(FL_ERR_CLOSED, "it left in order"));
}

static void hear_line(fl_rpc_client *l, const fl_payload *payload)
{
    fl_unpack u = fl_unpack_of(payload);
    char line[FL_ERR_TEXT_MAX];
    uint8_t level = fl_unpack_u8(&u);

    fl_unpack_text(&u, line, sizeof(line));
    if (u.bad || !l->o.on_log)
        return;
    fl_make_printable(line);
    l->o.on_log(l->o.arg, l, level, line);
}

/* Takes the payload over. */
static void take_message(fl_rpc_client *l, const fl_frame *f,
                         fl_payload *payload)
{
    fl_status st;

    if (f->type == FL_TYPE_BYE) {
        said_bye(l, f, payload);
    } else if (f->flags & FL_FRAME_REPLY) {
        fl_rpc_client_reply(l, f, payload);
        fl_rpc_client_pump(l);
        return;
    } else if (f->type == FL_TYPE_ARENA) {
        st = fl_conn_accept_arena(l->conn, payload);
        if (st)
            fl_rpc_client_broke(l, st);
    } else if (f->type == FL_TYPE_LOG) {
        hear_line(l, payload);
    } else if (f->type != FL_TYPE_PING) {
        fl_rpc_client_fail(
            l, fl_err_set(FL_ERR_CORRUPT,
                          "sent a message of type %s, which only "
                          "clients send",
                          fl_frame_type_name(f->type, l->o.conn.names)));
    }
    fl_payload_free(payload);
}

static void on_message(void *arg, fl_conn *c, const fl_frame *f,
                       fl_payload *payload)
{
    fl_rpc_client *l = arg;

    (void)c;
    fl_rpc_client_enter(l);
    if (l->phase != FL_RPC_CLIENT_AT_REQUESTS) {
        handshake(l, f, payload);
        fl_payload_free(payload);
        fl_rpc_client_leave(l);
        return;
    }
    if (f->step > atomic_load(&l->peer_step))
        atomic_store(&l->peer_step, f->step);
    look(l, 0);
    if (l->phase == FL_RPC_CLIENT_AT_REQUESTS)
        take_message(l, f, payload);
    else
        fl_payload_free(payload);
    fl_rpc_client_leave(l);
}

static void on_close(void *arg, fl_conn *c, fl_status why)
{
    fl_rpc_client *l = arg;

    (void)c;
    fl_rpc_client_enter(l);
    if (l->phase == FL_RPC_CLIENT_AT_PROOF)
        why = fl_err_ctx(why, "the connection ended after the proof of the "
                              "token (is it the same there?)");
    fl_rpc_client_broke(l, why);
    fl_rpc_client_leave(l);
}

static void on_room(void *arg, fl_conn *c)
{
    fl_rpc_client *l = arg;

    (void)c;
    fl_rpc_client_enter(l);
    fl_rpc_client_pump(l);
    fl_rpc_client_leave(l);
}

/* --- attempts ------------------------------------------------------------- */

/* Who listened as long as it lived has ended when nobody listens. */
static void dial_failed(fl_rpc_client *l)
{
    bool is_final = l->was_up ? l->o.no_return : l->o.must_listen;
    fl_err why;

    fl_err_keep(&why);
    if (is_final && why.status == FL_ERR_CLOSED)
        fl_rpc_client_fail(
            l, fl_err_set(FL_ERR_CLOSED, "%s; %s",
                          l->was_up ? "has ended" : "nobody listens there",
                          why.text));
    else
        fl_rpc_client_broke(l, fl_err_set(FL_ERR_IO, "%s", why.text));
}

static void on_stream(void *arg, fl_stream *s)
{
    static const fl_conn_events events = {
        .on_message = on_message,
        .on_close = on_close,
        .on_room = on_room,
    };
    fl_rpc_client *l = arg;

    fl_rpc_client_enter(l);
    l->dial = NULL;
    if (s) {
        l->phase = FL_RPC_CLIENT_AT_HELLO;
        l->conn = fl_conn_new(s, &l->o.conn, &events, l);
        fl_conn_set_max_bytes(l->conn, FL_HANDSHAKE_BYTES_MAX);
        send_hello(l);
    } else {
        dial_failed(l);
    }
    fl_rpc_client_leave(l);
}

static void on_attempt_over(void *arg)
{
    fl_rpc_client *l = arg;

    fl_rpc_client_enter(l);
    l->give_up_ms += paused_ms(l);
    fl_rpc_client_broke(l, fl_err_set(FL_ERR_TIMEOUT, "%s",
                                      l->phase == FL_RPC_CLIENT_AT_DIAL
                                          ? "nobody took the connection"
                                          : "no answer in the handshake"));
    fl_rpc_client_leave(l);
}

static void attempt(fl_rpc_client *l)
{
    uint64_t left, now = fl_loop_now_ms(l->loop);
    void *handle = NULL;
    fl_status st;

    if (now >= l->give_up_ms) {
        give_up(l);
        return;
    }
    left = l->give_up_ms - now;
    if (left > ATTEMPT_MS)
        left = ATTEMPT_MS;
    l->phase = FL_RPC_CLIENT_AT_DIAL;
    set_timer(l, left, on_attempt_over);
    st = l->net->ops->dial(
        l->net, &(fl_dial_args){ l->loop, l->address, left, on_stream, l },
        &handle);
    if (st)
        fl_rpc_client_broke(l, st);
    else if (l->phase == FL_RPC_CLIENT_AT_DIAL)
        l->dial = handle;
}

/* --- any thread ----------------------------------------------------------- */

static void start(fl_rpc_client *l)
{
    l->is_started = true;
    l->give_up_ms = fl_loop_now_ms(l->loop) + l->o.connect_timeout_ms;
    attempt(l);
}

static void on_wake(void *arg)
{
    fl_rpc_client *l = arg;
    fl_rpc_client_list in;
    fl_err why;

    fl_rpc_client_enter(l);
    fl_lock(&l->mu);
    in = l->inbox;
    l->inbox = (fl_rpc_client_list){ 0 };
    l->n_posted--;
    l->only_deferred = false;
    why = l->why;
    fl_unlock(&l->mu);
    if (why.status) {
        fl_rpc_client_answer_all(l, in, &why);
    } else {
        fl_rpc_client_take_calls(l, in);
        if (!l->is_started)
            start(l);
    }
    fl_rpc_client_leave(l);
}

/* Who posted before this may be about to call, too: they leave together. */
static void wake_last(void *arg)
{
    fl_rpc_client *l = arg;

    fl_loop_post_deferred(l->loop, on_wake, l);
}

void fl_rpc_client_call(fl_rpc_client *l, const fl_rpc_call *c)
{
    fl_rpc_client_entry *e = fl_alloc(sizeof(*e));
    bool must_post;

    e->call = *c;
    fl_stat_add(&l->stats.waiting, 1);
    fl_lock(&l->mu);
    fl_rpc_client_list_add(&l->inbox, e);
    must_post = !l->n_posted || (l->only_deferred && !c->may_coalesce);
    if (must_post) {
        l->only_deferred = c->may_coalesce;
        l->n_posted++;
    }
    fl_unlock(&l->mu);
    if (must_post && c->may_coalesce)
        fl_loop_post_deferred(l->loop, wake_last, l);
    else if (must_post)
        fl_loop_post(l->loop, on_wake, l);
}

fl_status fl_rpc_client_why(fl_rpc_client *l)
{
    fl_err e;

    fl_lock(&l->mu);
    e = l->why;
    fl_unlock(&l->mu);
    return e.status ? fl_err_restore(&e) : FL_OK;
}

const fl_rpc_client_stats *fl_rpc_client_stats_of(const fl_rpc_client *l)
{
    return &l->stats;
}

void fl_rpc_client_get(fl_rpc_client *l, fl_rpc_client_info *out)
{
    *out = (fl_rpc_client_info){
        .heard_ms_ago = since_heard(l),
        .peer_step = atomic_load(&l->peer_step),
    };
    memcpy(out->address, l->address, sizeof(out->address));
    fl_lock(&l->mu);
    out->state = l->state;
    out->peer = l->peer;
    fl_unlock(&l->mu);
}
