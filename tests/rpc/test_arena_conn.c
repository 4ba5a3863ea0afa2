/* test_arena_conn.c - connections that share memory, with peers that keep the
 * rules and peers that do not. */
#include "types_kit.h"
#include "wire_kit.h"

#include <sys/socket.h>

#include "base/thread.h"
#include "rpc/stream/shared_arena.h"
#include "rpc/stream/socket.h"

#define UNIT FL_ARENA_UNIT
#define ARENA_BYTES ((uint64_t)1 << 20)
#define PATIENCE_NS ((uint64_t)120 * 1000000000)

/* --- connections ---------------------------------------------------------- */

#define KEEP_MAX 256

typedef struct side {
    fl_conn *c;
    fl_status accepted; /* what accepting the peer's offer gave */
    uint64_t n_messages, n_done;
    bool keeps;
    fl_payload *kept[KEEP_MAX];
    size_t n_kept;
    bool is_closed;
    fl_status why;
    fl_err error;
    bool is_threaded;
    uint64_t n_bad;
} side;

static const fl_conn_options options = { .max_bytes = 64 << 20,
                                         .window_bytes = 64 << 20,
                                         .names = type_name,
                                         .arena_bytes = ARENA_BYTES };

static void on_message(void *arg, fl_conn *c, const fl_frame *f, fl_payload *p)
{
    side *s = arg;

    expect(s, !(f->flags & FL_FRAME_ARENA) && !f->arena);
    if (f->type == FL_TYPE_ARENA) {
        s->accepted = fl_conn_accept_arena(c, p);
        fl_payload_free(p);
        return;
    }
    for (uint64_t i = 0; i < f->length; i += 101)
        expect(s, fl_payload_data(p)[i] == (uint8_t)f->request);
    s->n_messages++;
    if (s->keeps && s->n_kept < KEEP_MAX)
        s->kept[s->n_kept++] = p;
    else
        fl_payload_free(p);
}

static void on_close(void *arg, fl_conn *c, fl_status why)
{
    side *s = arg;

    (void)c;
    s->is_closed = true;
    s->why = why;
    fl_err_save(&s->error, why);
}

static const fl_conn_events events = { on_message, on_close, NULL };

static void connect_side(wire *w, int i, const fl_conn_options *o, side *s)
{
    *s = (side){ 0 };
    s->c = fl_conn_new(&w->end[i]->base, o, &events, s);
}

/* Two connections that have shaken hands about their arenas. */
static void connect_both(wire *w, side s[2])
{
    wire_init(w, true);
    for (int i = 0; i < 2; i++)
        connect_side(w, i, &options, &s[i]);
    for (int i = 0; i < 2; i++)
        assert_ok(fl_conn_offer_arena(s[i].c));
    wire_run(w);
    for (int i = 0; i < 2; i++)
        assert_ok(s[i].accepted);
}

static void release_both(wire *w, side s[2])
{
    for (int i = 0; i < 2; i++)
        fl_conn_free(s[i].c);
    wire_release(w);
}

/* Bytes that live until they are sent. */
typedef struct sending {
    side *s;
    uint8_t *bytes;
} sending;

static void end_sending(void *arg)
{
    sending *g = arg;

    g->s->n_done++;
    fl_free(g->bytes);
    fl_free(g);
}

static void send_filled(side *s, uint64_t number, size_t len)
{
    sending *g = fl_alloc(sizeof(*g));
    struct iovec v[2];
    fl_message m = { .frame = { .type = TYPE_ADD, .request = number },
                     .pieces = v,
                     .n_pieces = 2,
                     .done = end_sending,
                     .arg = g };

    *g = (sending){ s, fl_alloc(len) };
    memset(g->bytes, (int)number, len);
    if (number % 2) {
        fl_conn_send_copy(s->c, &m.frame, g->bytes, len);
        end_sending(g);
        return;
    }
    v[0] = (struct iovec){ g->bytes, len / 2 };
    v[1] = (struct iovec){ g->bytes + len / 2, len - len / 2 };
    fl_conn_send(s->c, &m);
}

/* Bytes that lie on the wire for an end. */
static size_t on_wire(const wire *w, int to)
{
    return w->end[to]->hi - w->end[to]->lo;
}

static void large_payloads_go_by_the_arena_and_small_ones_do_not(void **state)
{
    wire w;
    side s[2];

    (void)state;
    connect_both(&w, s);
    send_filled(&s[0], 2, 100000);
    assert_int_equal(on_wire(&w, 1), FL_FRAME_BYTES);
    assert_int_equal(s[0].n_done, 1);
    send_filled(&s[0], 3, FL_CONN_ARENA_MIN);
    assert_int_equal(on_wire(&w, 1), 2 * FL_FRAME_BYTES);
    send_filled(&s[0], 4, FL_CONN_ARENA_MIN - 1);
    assert_int_equal(on_wire(&w, 1),
                     3 * FL_FRAME_BYTES + FL_CONN_ARENA_MIN - 1);
    send_filled(&s[1], 5, 100000);
    wire_run(&w);
    assert_int_equal(s[1].n_messages, 3);
    assert_int_equal(s[0].n_messages, 1);
    release_both(&w, s);
}

/* 40 blocks do not fit, and all messages arrive all the same. */
static void a_full_arena_sends_through_the_stream(void **state)
{
    wire w;
    side s[2];

    (void)state;
    connect_both(&w, s);
    s[1].keeps = true;
    for (uint64_t i = 0; i < 40; i++) {
        send_filled(&s[0], i, 100000);
        wire_run(&w);
    }
    assert_int_equal(s[1].n_messages, 40);
    for (size_t i = 0; i < s[1].n_kept; i++)
        for (size_t j = 0; j < 100000; j += 997)
            assert_int_equal(fl_payload_data(s[1].kept[i])[j], i);
    for (size_t i = 0; i < s[1].n_kept; i++)
        fl_payload_free(s[1].kept[i]);
    s[1].keeps = false;
    wire_run(&w);
    send_filled(&s[0], 40, 500000);
    assert_int_equal(on_wire(&w, 1), FL_FRAME_BYTES);
    wire_run(&w);
    assert_int_equal(s[1].n_messages, 41);
    release_both(&w, s);
}

/* Only one way has traffic, and the room still comes back. */
static void room_comes_back_without_any_traffic_the_other_way(void **state)
{
    wire w;
    side s[2];

    (void)state;
    connect_both(&w, s);
    for (uint64_t i = 0; i < 500; i++) {
        size_t before = on_wire(&w, 1);

        send_filled(&s[0], i, i % 2 ? 200000 : 10000);
        assert_int_equal(on_wire(&w, 1) - before, FL_FRAME_BYTES);
        if (i % 3 == 0)
            wire_run(&w);
    }
    wire_run(&w);
    assert_int_equal(s[1].n_messages, 500);
    release_both(&w, s);
}

static void giving_back_travels_with_a_reply(void **state)
{
    wire w;
    side s[2];

    (void)state;
    connect_both(&w, s);
    send_filled(&s[0], 0, 10000);
    wire_run(&w);
    w.end[1]->n_writes = 0;
    send_filled(&s[1], 0, 10);
    assert_int_equal(w.end[1]->n_writes, 1);
    assert_int_equal(on_wire(&w, 0), 2 * FL_FRAME_BYTES + 10 + 8);
    wire_run(&w);
    release_both(&w, s);
}

static void payloads_stay_readable_after_the_connection(void **state)
{
    wire w;
    side s[2];

    (void)state;
    connect_both(&w, s);
    s[1].keeps = true;
    for (uint64_t i = 0; i < 3; i++)
        send_filled(&s[0], i, 50000);
    wire_run(&w);
    fl_conn_free(s[0].c);
    wire_run(&w);
    assert_true(s[1].is_closed);
    assert_int_equal(fl_payload_data(s[1].kept[1])[49999], 1);
    fl_payload_free(s[1].kept[0]);
    fl_conn_free(s[1].c);
    wire_release(&w);
    assert_int_equal(fl_payload_data(s[1].kept[2])[49999], 2);
    fl_payload_free(s[1].kept[1]);
    fl_payload_free(s[1].kept[2]);
}

static void room_is_filled_in_place(void **state)
{
    fl_frame f = { .type = TYPE_READ, .request = 9 };
    uint64_t place[4];
    wire w;
    side s[2];
    void *room;

    (void)state;
    connect_both(&w, s);
    assert_null(fl_conn_reserve(s[0].c, FL_CONN_ARENA_MIN - 1, &place[0]));
    assert_null(fl_conn_reserve(s[0].c, ARENA_BYTES + 1, &place[0]));
    room = fl_conn_reserve(s[0].c, ARENA_BYTES, &place[0]);
    assert_non_null(room);
    assert_null(fl_conn_reserve(s[0].c, FL_CONN_ARENA_MIN, &place[1]));
    fl_conn_drop_reserved(s[0].c, place[0]);
    for (int i = 0; i < 3; i++) {
        room = fl_conn_reserve(s[0].c, 100000, &place[i]);
        memset(room, 9, 100000);
    }
    fl_conn_send_reserved(s[0].c, &f, place[2], 100000);
    fl_conn_send_reserved(s[0].c, &f, place[1], 10);
    fl_conn_send_reserved(s[0].c, &f, place[0], 0);
    wire_run(&w);
    assert_int_equal(s[1].n_messages, 3);
    fl_conn_free(s[1].c);
    wire_run(&w);
    assert_null(fl_conn_reserve(s[0].c, 100000, &place[0]));
    fl_conn_send_reserved(s[0].c, &f, place[0], 100000);
    fl_conn_free(s[0].c);
    wire_release(&w);
}

static void a_peer_without_an_arena_declines(void **state)
{
    fl_conn_options none = options;
    wire w;
    side a, b;
    uint64_t place;

    (void)state;
    none.arena_bytes = 0;
    wire_init(&w, true);
    connect_side(&w, 0, &options, &a);
    connect_side(&w, 1, &none, &b);
    assert_ok(fl_conn_offer_arena(a.c));
    assert_ok(fl_conn_offer_arena(b.c));
    wire_run(&w);
    assert_ok(b.accepted);
    assert_null(fl_conn_reserve(a.c, 100000, &place));
    send_filled(&a, 0, 100000);
    wire_run(&w);
    assert_int_equal(b.n_messages, 1);
    fl_conn_free(a.c);
    fl_conn_free(b.c);
    wire_release(&w);
}

static void nothing_is_offered_where_no_arena_can_be(void **state)
{
    wire w;
    side a;

    (void)state;
    wire_init(&w, false);
    connect_side(&w, 0, &options, &a);
    assert_ok(fl_conn_offer_arena(a.c));
    assert_int_equal(on_wire(&w, 1), 0);
    fl_conn_free(a.c);
    wire_release(&w);
}

/* --- peers that lie ------------------------------------------------------- */

/* The test plays the peer at end 0. */
static void put_message(wire *w, fl_frame f, const void *payload)
{
    uint8_t head[FL_FRAME_BYTES];

    fl_frame_write(&f, head);
    wire_put(w->end[1], head, sizeof(head));
    if (payload)
        wire_put(w->end[1], payload, f.length);
}

static void put_offer(wire *w, int fd, uint64_t bytes)
{
    fl_pack p = { 0 };

    w->end[1]->fd_in = fd < 0 ? -1 : dup(fd);
    fl_pack_u64(&p, bytes);
    put_message(w, (fl_frame){ .type = FL_TYPE_ARENA, .length = 8 }, p.data);
    fl_pack_release(&p);
    wire_run(w);
}

static void expect_closed(wire *w, side *s, const char *says)
{
    wire_run(w);
    assert_true(s->is_closed);
    assert_int_equal(s->why, FL_ERR_CORRUPT);
    (void)fl_err_restore(&s->error);
    assert_says(says);
    assert_int_equal(s->n_messages, 0);
    fl_conn_free(s->c);
    wire_release(w);
}

static fl_arena_out *make_arena(uint64_t bytes)
{
    fl_arena_out *a = NULL;

    assert_ok(fl_arena_out_new(&a, bytes));
    return a;
}

static void places_of_a_lying_sender_close_the_connection(void **state)
{
    static const struct {
        uint64_t place, length;
    } lies[] = {
        { 0, ARENA_BYTES + 1 },          { 64, 10000 },
        { ARENA_BYTES, 10000 },          { ARENA_BYTES - UNIT, UNIT + 1 },
        { UINT64_MAX - UNIT + 1, UNIT }, { 0, 0 },
    };
    fl_arena_out *a = make_arena(ARENA_BYTES);

    (void)state;
    for (size_t i = 0; i < FL_LEN(lies); i++) {
        fl_frame f = { .type = TYPE_ADD,
                       .flags = FL_FRAME_ARENA,
                       .length = lies[i].length,
                       .arena = lies[i].place };
        wire w;
        side s;

        wire_init(&w, true);
        connect_side(&w, 1, &options, &s);
        put_offer(&w, fl_arena_out_fd(a), ARENA_BYTES);
        assert_ok(s.accepted);
        put_message(&w, f, NULL);
        expect_closed(&w, &s, "not within the shared arena");
    }
    fl_arena_out_free(a);
}

static void a_place_without_an_arena_closes_the_connection(void **state)
{
    fl_frame f = { .type = TYPE_ADD, .flags = FL_FRAME_ARENA, .length = 10000 };
    wire w;
    side s;

    (void)state;
    wire_init(&w, true);
    connect_side(&w, 1, &options, &s);
    put_message(&w, f, NULL);
    expect_closed(&w, &s, "none was accepted");
}

static void answers_of_a_lying_receiver_close_the_connection(void **state)
{
    static const struct {
        uint64_t length;
        uint16_t flags;
        bool offers;
        const char *says;
    } lies[] = {
        { 8, FL_FRAME_REPLY, true, "is given back" },
        { 7, FL_FRAME_REPLY, true, "does not fit" },
        { 65 * 8, FL_FRAME_REPLY, true, "does not fit" },
        { 0, FL_FRAME_REPLY | FL_FRAME_ERROR, true, "does not fit" },
        { 0, FL_FRAME_REPLY, false, "does not fit" },
    };
    uint8_t zeros[65 * 8] = { 0 };

    (void)state;
    for (size_t i = 0; i < FL_LEN(lies); i++) {
        fl_frame f = { .type = FL_TYPE_ARENA,
                       .flags = lies[i].flags,
                       .length = lies[i].length };
        wire w;
        side s;

        wire_init(&w, true);
        connect_side(&w, 1, &options, &s);
        if (lies[i].offers)
            assert_ok(fl_conn_offer_arena(s.c));
        put_message(&w, f, zeros);
        expect_closed(&w, &s, lies[i].says);
    }
}

static void offers_that_do_not_hold_are_refused(void **state)
{
    fl_arena_out *a = make_arena(ARENA_BYTES);
    int fd = fl_arena_out_fd(a);
    wire w;
    side s;

    (void)state;
    wire_init(&w, true);
    connect_side(&w, 1, &options, &s);
    put_offer(&w, -1, ARENA_BYTES);
    assert_int_equal(s.accepted, FL_ERR_NOTFOUND);
    put_offer(&w, fd, ARENA_BYTES + UNIT);
    assert_int_equal(s.accepted, FL_ERR_CORRUPT);
    put_message(&w, (fl_frame){ .type = FL_TYPE_ARENA, .length = 4 }, "1234");
    wire_run(&w);
    assert_int_equal(s.accepted, FL_ERR_CORRUPT);
    put_offer(&w, fd, ARENA_BYTES);
    assert_ok(s.accepted);
    put_offer(&w, fd, ARENA_BYTES);
    assert_int_equal(s.accepted, FL_ERR_CORRUPT);
    assert_says("second");
    assert_false(s.is_closed);
    fl_conn_free(s.c);
    wire_release(&w);
    fl_arena_out_free(a);
}

static void an_offer_over_a_stream_without_descriptors_is_refused(void **state)
{
    wire w;
    side s;

    (void)state;
    wire_init(&w, false);
    connect_side(&w, 1, &options, &s);
    put_offer(&w, -1, ARENA_BYTES);
    assert_int_equal(s.accepted, FL_ERR_CORRUPT);
    assert_says("carries no descriptors");
    fl_conn_free(s.c);
    wire_release(&w);
}

/* --- real sockets --------------------------------------------------------- */

/* Both ends send numbered messages of all lengths, and keep some payloads for
   a while, so that the arena is full now and then. */
#define N_MESSAGES 2000
#define WINDOW 32

typedef struct party {
    side s;
    fl_loop *loop;
    int fd;
    uint64_t n_sent, n_heard;
    struct meeting *m;
} party;

typedef struct meeting {
    fl_mutex mu;
    fl_cond changed;
    int n_full; /* guarded by mu: parties that have got everything */
    int n_free; /* guarded by mu */
    party p[2];
} meeting;

static void add_one(meeting *m, int *what)
{
    fl_lock(&m->mu);
    ++*what;
    fl_cond_wake_all(&m->changed);
    fl_unlock(&m->mu);
}

static void wait_for_two(meeting *m, const int *what)
{
    uint64_t deadline = fl_now_ns() + PATIENCE_NS;
    bool in_time = true;

    fl_lock(&m->mu);
    while (*what < 2 && in_time)
        in_time = fl_cond_wait_until(&m->changed, &m->mu, deadline);
    fl_unlock(&m->mu);
    assert_true(in_time);
}

static void send_on(party *p)
{
    while (p->n_sent < N_MESSAGES && p->n_sent < p->n_heard + WINDOW) {
        uint64_t k = p->n_sent++;

        send_filled(&p->s, k, fl_mix64(k) % 150000);
    }
}

static void party_message(void *arg, fl_conn *c, const fl_frame *f,
                          fl_payload *payload)
{
    party *p = arg;

    on_message(&p->s, c, f, payload);
    if (f->type == FL_TYPE_ARENA)
        return;
    expect(&p->s, f->request == p->n_heard);
    p->n_heard++;
    if (p->s.n_kept == 20)
        while (p->s.n_kept)
            fl_payload_free(p->s.kept[--p->s.n_kept]);
    send_on(p);
    if (p->n_heard == N_MESSAGES)
        add_one(p->m, &p->m->n_full);
}

static void party_close(void *arg, fl_conn *c, fl_status why)
{
    (void)arg; /* the other one has got everything and left */
    (void)c;
    (void)why;
}

static void party_start(void *arg)
{
    static const fl_conn_events party_events = { party_message, party_close,
                                                 NULL };
    party *p = arg;

    p->s.c = fl_conn_new(fl_stream_of_fd(p->loop, p->fd, "peer", true),
                         &options, &party_events, p);
    p->s.is_threaded = true;
    p->s.keeps = true;
    expect(&p->s, fl_conn_offer_arena(p->s.c) == FL_OK);
    send_on(p);
}

static void party_end(void *arg)
{
    party *p = arg;

    fl_conn_free(p->s.c);
    while (p->s.n_kept)
        fl_payload_free(p->s.kept[--p->s.n_kept]);
    add_one(p->m, &p->m->n_free);
}

static void two_loops_share_arenas_over_a_socket(void **state)
{
    meeting *m = fl_alloc(sizeof(*m));
    int fds[2];

    (void)state;
    fl_mutex_init(&m->mu);
    fl_cond_init(&m->changed);
    assert_int_equal(
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
        0);
    for (int i = 0; i < 2; i++) {
        m->p[i].fd = fds[i];
        m->p[i].m = m;
        assert_ok(fl_loop_new(&m->p[i].loop, "party"));
        fl_loop_post(m->p[i].loop, party_start, &m->p[i]);
    }
    wait_for_two(m, &m->n_full);
    for (int i = 0; i < 2; i++)
        fl_loop_post(m->p[i].loop, party_end, &m->p[i]);
    wait_for_two(m, &m->n_free);
    for (int i = 0; i < 2; i++)
        fl_loop_free(m->p[i].loop);
    for (int i = 0; i < 2; i++)
        assert_int_equal(m->p[i].s.accepted + m->p[i].s.n_bad, 0);
    fl_cond_release(&m->changed);
    fl_mutex_release(&m->mu);
    fl_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_payloads_go_by_the_arena_and_small_ones_do_not),
        cmocka_unit_test(a_full_arena_sends_through_the_stream),
        cmocka_unit_test(room_comes_back_without_any_traffic_the_other_way),
        cmocka_unit_test(giving_back_travels_with_a_reply),
        cmocka_unit_test(payloads_stay_readable_after_the_connection),
        cmocka_unit_test(room_is_filled_in_place),
        cmocka_unit_test(a_peer_without_an_arena_declines),
        cmocka_unit_test(nothing_is_offered_where_no_arena_can_be),
        cmocka_unit_test(places_of_a_lying_sender_close_the_connection),
        cmocka_unit_test(a_place_without_an_arena_closes_the_connection),
        cmocka_unit_test(answers_of_a_lying_receiver_close_the_connection),
        cmocka_unit_test(offers_that_do_not_hold_are_refused),
        cmocka_unit_test(an_offer_over_a_stream_without_descriptors_is_refused),
        cmocka_unit_test(two_loops_share_arenas_over_a_socket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
