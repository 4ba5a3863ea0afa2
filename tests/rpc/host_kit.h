/* host_kit.h - a server that keeps a book, and clients that write into it.
 *
 *     PUSH    u64 number: each client counts from 1; added to the sum
 *     PULL    the reply is the sum
 *     HASH    the reply is owed until the test gives it
 *     STATS   the reply is in pieces, "twelve" and " bytes"
 *     CLEAR   the reply is an error
 *
 * What goes wrong in a loop is noted and asserted by the test's own thread.
 */
#ifndef FL_TESTS_RPC_HOST_KIT_H
#define FL_TESTS_RPC_HOST_KIT_H

#include "loop_kit.h"
#include "types_kit.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/vec.h"
#include "rpc/server/rpc_server.h"
#include "rpc/client/rpc_client.h"
#include "rpc/wire/handshake.h"
#include "rpc/sim/sim.h"

#define KIT_RANKS 16

typedef struct book {
    fl_loop *later;     /* replies to pushes come up to 20 ms later, here */
    bool owes_pushes;   /* until book_pay */
    fl_status admitted; /* what admit says */
    atomic_size_t n_returned; /* replies in pieces */
    gate events;
    fl_mutex mu;
    uint64_t sum, n_pushes, dice, sessions_freed; /* guarded by mu */
    uint64_t last[KIT_RANKS];                     /* guarded by mu */
    bool is_out_of_order;                         /* guarded by mu */
    FL_VEC(fl_reply *) owed;                      /* guarded by mu */
    char log[2048]; /* "up 3;down 3 closed;silent 3;heard 3;"; guarded by mu */
} book;

typedef struct owed_reply {
    book *b;
    fl_reply *r;
} owed_reply;

static inline void book_init(book *b)
{
    memset(b, 0, sizeof(*b));
    fl_mutex_init(&b->mu);
    gate_init(&b->events);
}

static inline void book_release(book *b)
{
    fl_vec_release(&b->owed);
    fl_mutex_release(&b->mu);
    gate_release(&b->events);
}

static inline void book_note(book *b, const char *what, fl_session *s,
                             const char *more)
{
    size_t len;

    fl_lock(&b->mu);
    len = strlen(b->log);
    snprintf(b->log + len, sizeof(b->log) - len, "%s %u%s;", what,
             fl_session_who(s)->rank, more);
    fl_unlock(&b->mu);
    gate_add(&b->events);
}

static inline void book_up(void *arg, fl_session *s)
{
    book_note(arg, "up", s, "");
}

static inline void book_down(void *arg, fl_session *s, fl_status why)
{
    book_note(arg, "down", s, why ? " badly" : "");
}

static inline void book_silent(void *arg, fl_session *s, bool silent)
{
    book_note(arg, silent ? "silent" : "heard", s, "");
}

static inline fl_status book_admit(void *arg, const fl_identity *id)
{
    book *b = arg;

    (void)id;
    if (b->admitted)
        FL_FAIL(b->admitted, "the book is full");
    return FL_OK;
}

static inline void book_pay_later(void *arg)
{
    owed_reply *o = arg;

    fl_reply_send(o->r, NULL, 0);
    fl_free(o);
}

static inline void book_answer_push(book *b, fl_reply *r)
{
    uint64_t ms;
    owed_reply *o;

    if (b->owes_pushes) {
        fl_lock(&b->mu);
        fl_vec_push(&b->owed, r);
        fl_unlock(&b->mu);
        return;
    }
    fl_lock(&b->mu);
    ms = fl_mix64(++b->dice) % 40;
    fl_unlock(&b->mu);
    if (!b->later || ms >= 20) {
        fl_reply_send(r, NULL, 0);
        return;
    }
    o = fl_alloc(sizeof(*o));
    *o = (owed_reply){ b, r };
    if (fl_loop_is_mine(b->later))
        fl_loop_timer(b->later, ms, book_pay_later, o);
    else
        fl_loop_post(b->later, book_pay_later, o);
}

static inline void book_returned(void *arg)
{
    atomic_fetch_add(&((book *)arg)->n_returned, 1);
}

static inline void book_send_pieces(void *arg)
{
    static char words[2][7] = { "twelve", " bytes" };
    struct iovec v[2] = { { words[0], 6 }, { words[1], 6 } };
    owed_reply *o = arg;

    fl_reply_send_pieces(o->r, v, 2, book_returned, o->b);
    fl_free(o);
}

/* By another thread where there is one. */
static inline void book_answer_pieces(book *b, fl_reply *r)
{
    owed_reply *o = fl_alloc(sizeof(*o));

    *o = (owed_reply){ b, r };
    if (b->later)
        fl_loop_post(b->later, book_send_pieces, o);
    else
        book_send_pieces(o);
}

static inline void book_push(book *b, fl_session *s, const fl_payload *p)
{
    fl_unpack u = fl_unpack_of(p);
    uint64_t x = fl_unpack_u64(&u);
    uint32_t rank = fl_session_who(s)->rank;

    fl_lock(&b->mu);
    if (u.bad || rank >= KIT_RANKS || x != b->last[rank] + 1)
        b->is_out_of_order = true;
    else
        b->last[rank] = x;
    b->sum += x;
    b->n_pushes++;
    fl_unlock(&b->mu);
}

static inline void book_request(void *arg, fl_session *s, const fl_frame *f,
                                fl_payload *payload, fl_reply *r)
{
    book *b = arg;
    uint64_t sum;

    switch (f->type) {
    case TYPE_ADD:
        book_push(b, s, payload);
        book_answer_push(b, r);
        break;
    case TYPE_READ:
        fl_lock(&b->mu);
        sum = b->sum;
        fl_unlock(&b->mu);
        fl_reply_send(r, &sum, sizeof(sum));
        break;
    case TYPE_OWE:
        fl_lock(&b->mu);
        fl_vec_push(&b->owed, r);
        fl_unlock(&b->mu);
        break;
    case TYPE_PIECES:
        book_answer_pieces(b, r);
        break;
    default:
        fl_reply_error(r, fl_err_set(FL_ERR_NOTFOUND, "no such page"));
    }
    fl_payload_free(payload);
}

static const fl_rpc_server_events book_events = {
    .on_request = book_request,
    .on_up = book_up,
    .on_down = book_down,
    .on_silent = book_silent,
    .admit = book_admit,
};

/* Gives all replies that are owed. */
static inline size_t book_pay(book *b)
{
    size_t n = b->owed.len;

    for (size_t i = 0; i < n; i++)
        fl_reply_send(b->owed.data[i], NULL, 0);
    b->owed.len = 0;
    return n;
}

static inline fl_rpc_server_options kit_host_options(void)
{
    return (fl_rpc_server_options){
        .me = { .role = FL_MEMBER_SERVER, .boot_id = 7, .job = "job" },
        .token = "token",
        .conn = { .max_bytes = 1 << 24,
                  .window_bytes = 1 << 20,
                  .names = type_name },
        .ping_ms = 500,
        .suspect_ms = 2000,
        .handshake_ms = 5000,
        .max_connections = 2000,
    };
}

/* --- clients -------------------------------------------------------------- */

typedef struct client {
    fl_rpc_client *l;
    gate answers; /* good and bad */
    gate ups;
    atomic_size_t n_ok, n_bad;
    atomic_size_t n_twelve; /* replies of that many bytes */
    fl_mutex mu;
    fl_status st;  /* of the last bad one; guarded by mu */
    uint64_t pull; /* the last one; guarded by mu */
    char text[FL_ERR_TEXT_MAX];
    char states[256]; /* "USUDUF", one letter each; guarded by mu */
    struct iovec *pieces;
    uint64_t *numbers;
    uint64_t n_pushed; /* by client_push */
    bool frees_in_reply;
} client;

static inline void client_told(void *arg, fl_rpc_client *l,
                               fl_rpc_client_state state, uint64_t since_ms)
{
    client *c = arg;
    size_t len;

    (void)l;
    (void)since_ms;
    fl_lock(&c->mu);
    len = strlen(c->states);
    if (len < sizeof(c->states) - 1)
        c->states[len] = "?USDF"[state];
    if (state == FL_RPC_CLIENT_FAILED)
        snprintf(c->text, sizeof(c->text), "%s", fl_last_error());
    fl_unlock(&c->mu);
    if (state == FL_RPC_CLIENT_UP)
        gate_add(&c->ups);
}

static inline fl_rpc_client_options kit_link_options(uint32_t rank)
{
    return (fl_rpc_client_options){
        .me = { .role = FL_MEMBER_TRAINER,
                .rank = rank,
                .incarnation = 1,
                .job = "job" },
        .peer_role = FL_MEMBER_SERVER,
        .token = "token",
        .conn = { .max_bytes = 1 << 24,
                  .window_bytes = 1 << 20,
                  .names = type_name },
        .window = 64,
        .ping_ms = 500,
        .suspect_ms = 2000,
        .connect_timeout_ms = 10000,
        .restart_timeout_ms = 30000,
    };
}

static inline void client_open(client *c, fl_loop *loop, fl_net *net,
                               const char *address,
                               const fl_rpc_client_options *o)
{
    fl_rpc_client_options with = *o;

    memset(c, 0, sizeof(*c));
    gate_init(&c->answers);
    gate_init(&c->ups);
    fl_mutex_init(&c->mu);
    with.on_state = client_told;
    with.arg = c;
    assert_ok(fl_rpc_client_new(&c->l, loop, net, address, &with));
}

static inline void client_free_link(void *arg)
{
    client *c = arg;
    fl_rpc_client *l = c->l;

    c->l = NULL;
    fl_rpc_client_free(l);
}

static inline void client_release(client *c)
{
    gate_release(&c->answers);
    gate_release(&c->ups);
    fl_mutex_release(&c->mu);
    fl_free(c->pieces);
    fl_free(c->numbers);
}

/* In a simulation. */
static inline void client_close(client *c)
{
    client_free_link(c);
    client_release(c);
}

static inline void client_answer(void *arg, fl_status st, const fl_frame *f,
                                 fl_payload *payload)
{
    client *c = arg;
    fl_unpack u = fl_unpack_of(payload);

    fl_lock(&c->mu);
    if (st) {
        c->st = st;
        snprintf(c->text, sizeof(c->text), "%s", fl_last_error());
    } else if (f->type == TYPE_READ) {
        c->pull = fl_unpack_u64(&u);
    }
    fl_unlock(&c->mu);
    if (payload && fl_payload_len(payload) == 12 &&
        memcmp(fl_payload_data(payload), "twelve bytes", 12) == 0)
        atomic_fetch_add(&c->n_twelve, 1);
    fl_payload_free(payload);
    atomic_fetch_add(st ? &c->n_bad : &c->n_ok, 1);
    if (c->frees_in_reply && c->l)
        client_free_link(c);
    gate_add(&c->answers);
}

static inline void client_ask(client *c, uint16_t type, uint64_t timeout_ms)
{
    fl_rpc_client_call(c->l, &(fl_rpc_call){ .type = (uint16_t)type,
                                             .timeout_ms = timeout_ms,
                                             .on_reply = client_answer,
                                             .arg = c });
}

/* The numbers 1 to n, in all; once per client. */
static inline void client_make_numbers(client *c, size_t n)
{
    c->numbers = fl_alloc(n * sizeof(*c->numbers));
    c->pieces = fl_alloc(n * sizeof(*c->pieces));
    for (size_t i = 0; i < n; i++) {
        c->numbers[i] = i + 1;
        c->pieces[i] = (struct iovec){ &c->numbers[i], sizeof(uint64_t) };
    }
}

static inline void client_push(client *c, size_t n, uint64_t timeout_ms)
{
    for (size_t i = 0; i < n; i++) {
        struct iovec *piece = &c->pieces[c->n_pushed++];

        fl_rpc_client_call(c->l, &(fl_rpc_call){ .type = TYPE_ADD,
                                                 .once = true,
                                                 .pieces = piece,
                                                 .n_pieces = 1,
                                                 .timeout_ms = timeout_ms,
                                                 .on_reply = client_answer,
                                                 .arg = c });
    }
}

/* --- one server, one client, simulated ------------------------------------ */

typedef struct stage {
    fl_sim *sim;
    fl_net *net;
    fl_loop *loop;
    book b;
    fl_rpc_server_options ho;
    fl_rpc_server *host;
    char address[FL_ADDRESS_MAX];
} stage;

static inline void stage_host(stage *s)
{
    s->ho.listen = "server0:1";
    s->ho.loops = &s->loop;
    s->ho.n_loops = 1;
    s->ho.events = &book_events;
    s->ho.arg = &s->b;
    assert_ok(fl_rpc_server_new(&s->host, s->net, &s->ho, s->address));
}

static inline void stage_init(stage *s, const fl_sim_faults *f)
{
    *s = (stage){ .sim = fl_sim_new(f), .ho = kit_host_options() };
    s->net = fl_sim_net(s->sim);
    s->loop = fl_sim_loop(s->sim);
    book_init(&s->b);
    stage_host(s);
}

static inline void stage_release(stage *s)
{
    fl_rpc_server_free(s->host);
    fl_sim_free(s->sim);
    book_release(&s->b);
}

static inline void stage_run(stage *s, uint64_t ms)
{
    fl_sim_run(s->sim, fl_sim_now_ms(s->sim) + ms, NULL);
}

static inline void stage_client(stage *s, client *c,
                                const fl_rpc_client_options *o)
{
    client_open(c, s->loop, s->net, "server0:1", o);
}

#define assert_text(text, said)                                                \
    do {                                                                       \
        if (!strstr(text, said))                                               \
            fail_msg("'%s' does not say '%s'", text, said);                    \
    } while (0)

#endif
