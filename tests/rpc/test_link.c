/* test_link.c - what a request becomes, who has a rank, and what both sides see
 * of an end. */
#include "host_kit.h"

#include "base/log.h"
#include "rpc/stream/socket.h"

static const fl_sim_faults near_by = { .seed = 1, .delay_hi_ms = 2 };

/* --- requests ------------------------------------------------------------- */

static void a_request_gets_its_reply(void **state)
{
    fl_rpc_client_options o = kit_link_options(3);
    fl_rpc_client_info info;
    stage s;
    client c;

    (void)state;
    stage_init(&s, &near_by);
    stage_client(&s, &c, &o);
    client_make_numbers(&c, 3);
    client_push(&c, 3, 0);
    client_ask(&c, TYPE_READ, 0);
    stage_run(&s, 1000);
    assert_int_equal(atomic_load(&c.n_ok), 4);
    assert_int_equal(c.pull, 6);
    fl_rpc_client_get(c.l, &info);
    assert_int_equal(info.state, FL_RPC_CLIENT_UP);
    assert_int_equal(info.peer.boot_id, 7);
    assert_int_equal(fl_rpc_client_stats_of(c.l)->waiting, 0);
    assert_string_equal(info.address, "server0:1");
    client_close(&c);
    stage_release(&s);
}

static void an_error_of_the_server_reaches_the_caller(void **state)
{
    fl_rpc_client_options o = kit_link_options(3);
    stage s;
    client c;

    (void)state;
    stage_init(&s, &near_by);
    stage_client(&s, &c, &o);
    client_ask(&c, TYPE_MISSING, 0);
    stage_run(&s, 1000);
    assert_int_equal(atomic_load(&c.n_bad), 1);
    assert_int_equal(c.st, FL_ERR_NOTFOUND);
    assert_string_equal(c.text, "no such page");
    client_close(&c);
    stage_release(&s);
}

static void no_more_than_a_window_is_under_way(void **state)
{
    fl_rpc_client_options o = kit_link_options(3);
    stage s;
    client c;

    (void)state;
    o.window = 4;
    stage_init(&s, &near_by);
    stage_client(&s, &c, &o);
    for (int i = 0; i < 10; i++)
        client_ask(&c, TYPE_OWE, 0);
    for (size_t left = 10; left;) {
        size_t n = left < 4 ? left : 4;

        stage_run(&s, 1000);
        assert_int_equal(s.b.owed.len, n);
        left -= book_pay(&s.b);
    }
    stage_run(&s, 1000);
    assert_int_equal(atomic_load(&c.n_ok), 10);
    client_close(&c);
    stage_release(&s);
}

/* Large requests over a slow line, with room for one at a time. */
static void a_full_connection_holds_requests_back(void **state)
{
    static uint8_t large[100000];
    fl_sim_faults slow = { .seed = 2, .delay_hi_ms = 2, .bytes_per_ms = 1000 };
    fl_rpc_client_options o = kit_link_options(3);
    struct iovec v[2] = { { large, 8 }, { large, sizeof(large) } };
    stage s;
    client c;

    (void)state;
    o.conn.window_bytes = 1;
    stage_init(&s, &slow);
    stage_client(&s, &c, &o);
    for (int i = 0; i < 20; i++)
        fl_rpc_client_call(c.l, &(fl_rpc_call){ .type = TYPE_READ,
                                                .pieces = v,
                                                .n_pieces = 2,
                                                .on_reply = client_answer,
                                                .arg = &c });
    stage_run(&s, 1000);
    assert_true(atomic_load(&c.n_ok) < 20);
    stage_run(&s, 9000);
    assert_int_equal(atomic_load(&c.n_ok), 20);
    client_close(&c);
    stage_release(&s);
}

static void a_request_without_an_answer_runs_out_of_time(void **state)
{
    fl_rpc_client_options o = kit_link_options(3);
    stage s;
    client c;

    (void)state;
    stage_init(&s, &near_by);
    stage_client(&s, &c, &o);
    client_ask(&c, TYPE_OWE, 700);
    client_ask(&c, TYPE_OWE, 0);
    stage_run(&s, 600);
    assert_int_equal(gate_count(&c.answers), 0);
    stage_run(&s, 200);
    assert_int_equal(atomic_load(&c.n_bad), 1);
    assert_int_equal(c.st, FL_ERR_TIMEOUT);
    assert_text(c.text, "server 0 at server0:1 gave no answer");
    book_pay(&s.b); /* the late answer harms nobody */
    stage_run(&s, 1000);
    assert_int_equal(atomic_load(&c.n_ok), 1);
    assert_string_equal(c.states, "U");
    client_close(&c);
    stage_release(&s);
}

static void a_request_that_was_never_sent_runs_out_of_time_too(void **state)
{
    fl_rpc_client_options o = kit_link_options(3);
    stage s;
    client c;

    (void)state;
    o.connect_timeout_ms = 60000;
    stage_init(&s, &near_by);
    fl_rpc_server_free(s.host);
    s.host = NULL;
    stage_client(&s, &c, &o);
    client_make_numbers(&c, 1);
    client_push(&c, 1, 700);
    stage_run(&s, 1000);
    assert_int_equal(c.st, FL_ERR_TIMEOUT);
    client_close(&c);
    stage_release(&s);
}

/* Its memory is its owner's again, so the connection cannot be kept. */
static void a_request_that_is_half_sent_costs_the_connection(void **state)
{
    static uint8_t large[1 << 20];
    fl_rpc_client_options o = kit_link_options(3);
    struct iovec v = { large, sizeof(large) };
    stage s;
    client c;

    (void)state;
    stage_init(&s, &near_by);
    stage_client(&s, &c, &o);
    stage_run(&s, 1000);
    fl_sim_freeze(s.sim, s.address, true);
    fl_rpc_client_call(c.l, &(fl_rpc_call){ .type = TYPE_READ,
                                            .pieces = &v,
                                            .n_pieces = 1,
                                            .timeout_ms = 500,
                                            .on_reply = client_answer,
                                            .arg = &c });
    stage_run(&s, 1000);
    assert_int_equal(c.st, FL_ERR_TIMEOUT);
    assert_string_equal(c.states, "UD");
    fl_sim_freeze(s.sim, s.address, false);
    client_ask(&c, TYPE_READ, 0);
    stage_run(&s, 10000);
    assert_int_equal(atomic_load(&c.n_ok), 1);
    client_close(&c);
    stage_release(&s);
}

static void a_link_may_be_freed_in_its_own_callback(void **state)
{
    fl_rpc_client_options o = kit_link_options(3);
    stage s;
    client c;

    (void)state;
    stage_init(&s, &near_by);
    stage_client(&s, &c, &o);
    c.frees_in_reply = true;
    for (int i = 0; i < 10; i++)
        client_ask(&c, TYPE_READ, 0);
    stage_run(&s, 1000);
    assert_null(c.l);
    assert_int_equal(atomic_load(&c.n_ok), 1);
    assert_int_equal(atomic_load(&c.n_bad), 9);
    assert_int_equal(c.st, FL_ERR_CLOSED);
    client_release(&c);
    stage_release(&s);
}

static void a_link_says_goodbye(void **state)
{
    fl_rpc_client_options o = kit_link_options(3);
    stage s;
    client c;

    (void)state;
    stage_init(&s, &near_by);
    stage_client(&s, &c, &o);
    client_ask(&c, TYPE_OWE, 0);
    stage_run(&s, 1000);
    client_close(&c);
    assert_int_equal(c.st, FL_ERR_CLOSED);
    assert_text(c.text, "was closed");
    stage_run(&s, 1000);
    assert_string_equal(s.b.log, "up 3;down 3;");
    book_pay(&s.b); /* to nobody */
    stage_release(&s);
}

static void bad_options_are_refused(void **state)
{
    fl_rpc_client_options o = kit_link_options(0);
    fl_rpc_server_options ho = kit_host_options();
    char address[FL_ADDRESS_MAX];
    fl_rpc_client *l = NULL;
    fl_rpc_server *h = NULL;
    stage s;

    (void)state;
    stage_init(&s, &near_by);
    o.window = 65;
    assert_int_equal(fl_rpc_client_new(&l, s.loop, s.net, "server0:1", &o),
                     FL_ERR_INVAL);
    assert_says("a window of 65 is not in 1..64");
    o.window = 64;
    assert_int_equal(fl_rpc_client_new(&l, s.loop, s.net, "server0", &o),
                     FL_ERR_INVAL);
    ho.max_connections = 0;
    ho.listen = "server1:1";
    ho.loops = &s.loop;
    ho.n_loops = 1;
    ho.events = &book_events;
    ho.arg = &s.b;
    assert_int_equal(fl_rpc_server_new(&h, s.net, &ho, address), FL_ERR_INVAL);
    assert_says("max_connections (0)");
    stage_release(&s);
}

/* --- ranks and incarnations ----------------------------------------------- */

static void the_newer_of_two_connections_wins(void **state)
{
    fl_rpc_client_options o = kit_link_options(3);
    stage s;
    client a, b;

    (void)state;
    stage_init(&s, &near_by);
    stage_client(&s, &a, &o);
    client_make_numbers(&a, 5);
    client_push(&a, 5, 0);
    stage_run(&s, 1000);
    stage_client(&s, &b, &o);
    stage_run(&s, 1000);
    assert_string_equal(a.states, "UF");
    assert_text(a.text, "a newer connection has come as trainer 3");
    assert_string_equal(b.states, "U");
    assert_string_equal(s.b.log, "up 3;down 3 badly;up 3;");
    /* Its numbers go on behind those of the older one. */
    client_make_numbers(&b, 10);
    b.n_pushed = 5;
    client_push(&b, 5, 0);
    stage_run(&s, 1000);
    assert_int_equal(atomic_load(&b.n_ok), 5);
    assert_int_equal(s.b.sum, 55);
    assert_false(s.b.is_out_of_order);
    client_close(&a);
    client_close(&b);
    stage_release(&s);
}

static void a_newer_incarnation_is_a_new_session(void **state)
{
    fl_rpc_client_options o = kit_link_options(3), old = o;
    fl_session_mark marks[4];
    stage s;
    client a, b, c;

    (void)state;
    stage_init(&s, &near_by);
    stage_client(&s, &a, &o);
    client_make_numbers(&a, 5);
    client_push(&a, 5, 0);
    stage_run(&s, 1000);
    o.me.incarnation = 2;
    stage_client(&s, &b, &o);
    stage_run(&s, 1000);
    assert_string_equal(a.states, "UF");
    assert_string_equal(b.states, "U");
    assert_string_equal(s.b.log, "up 3;down 3 badly;up 3;");
    assert_int_equal(fl_rpc_server_marks(s.host, marks, 4), 1);
    assert_int_equal(marks[0].incarnation, 2);
    assert_int_equal(marks[0].sequence, 0);
    stage_client(&s, &c, &old);
    stage_run(&s, 1000);
    assert_string_equal(c.states, "F");
    assert_text(c.text, "incarnation 1 of trainer 3 is over: incarnation 2");
    assert_string_equal(b.states, "U");
    client_close(&a);
    client_close(&b);
    client_close(&c);
    stage_release(&s);
}

static void who_has_no_incarnation_yet_may_come_in(void **state)
{
    fl_rpc_client_options o = kit_link_options(3), fresh = o;
    stage s;
    client a, b;

    (void)state;
    fresh.me.incarnation = 0;
    stage_init(&s, &near_by);
    stage_client(&s, &a, &o);
    stage_run(&s, 1000);
    stage_client(&s, &b, &fresh);
    stage_run(&s, 1000);
    assert_string_equal(a.states, "U");
    assert_string_equal(b.states, "U");
    client_close(&a);
    client_close(&b);
    stage_release(&s);
}

static void tools_come_and_go_and_are_forgotten(void **state)
{
    fl_rpc_client_options o = kit_link_options(0);
    stage s;
    client c;

    (void)state;
    o.me.role = FL_MEMBER_TOOL;
    stage_init(&s, &near_by);
    for (uint32_t i = 0; i < 100; i++) {
        o.me.rank = 1000 + i;
        stage_client(&s, &c, &o);
        client_ask(&c, TYPE_READ, 0);
        stage_run(&s, 100);
        assert_int_equal(atomic_load(&c.n_ok), 1);
        client_close(&c);
        stage_run(&s, 100);
    }
    assert_int_equal(fl_rpc_server_marks(s.host, NULL, 0), 64);
    stage_release(&s);
}

/* --- a server that comes back --------------------------------------------- */

/* Ends the host, and starts another with this life, from these marks. */
static void restart(stage *s, uint64_t boot_id, const fl_session_mark *marks,
                    size_t n)
{
    fl_rpc_server_free(s->host);
    stage_run(s, 500);
    s->ho.me.boot_id = boot_id;
    s->ho.marks = marks;
    s->ho.n_marks = n;
    stage_host(s);
}

static void a_server_with_its_state_goes_on(void **state)
{
    fl_rpc_client_options o = kit_link_options(3);
    fl_session_mark marks[2];
    stage s;
    client c;

    (void)state;
    stage_init(&s, &near_by);
    stage_client(&s, &c, &o);
    client_make_numbers(&c, 20);
    client_push(&c, 5, 0);
    stage_run(&s, 1000);
    /* Five more that are applied, and whose replies are lost. */
    s.b.owes_pushes = true;
    client_push(&c, 5, 0);
    stage_run(&s, 1000);
    assert_int_equal(fl_rpc_server_marks(s.host, marks, 2), 1);
    assert_int_equal(marks[0].sequence, 10);
    s.b.owes_pushes = false;
    restart(&s, 7, marks, 1);
    book_pay(&s.b); /* to a host that is gone */
    client_push(&c, 10, 0);
    stage_run(&s, 5000);
    assert_int_equal(atomic_load(&c.n_ok), 20);
    assert_int_equal(s.b.n_pushes, 20);
    assert_int_equal(s.b.sum, 210);
    assert_false(s.b.is_out_of_order);
    assert_string_equal(c.states, "UDU");
    client_close(&c);
    stage_release(&s);
}

static void expect_not_taken_back(uint64_t boot_id, uint64_t mark,
                                  const char *text)
{
    fl_rpc_client_options o = kit_link_options(3);
    fl_session_mark m = { FL_MEMBER_TRAINER, 3, 1, mark };
    stage s;
    client c;

    stage_init(&s, &near_by);
    stage_client(&s, &c, &o);
    client_make_numbers(&c, 6);
    client_push(&c, 5, 0);
    stage_run(&s, 1000);
    restart(&s, boot_id, &m, 1);
    client_push(&c, 1, 0);
    stage_run(&s, 5000);
    assert_int_equal(c.st, FL_ERR_CLOSED);
    assert_text(c.text, text);
    assert_text(c.text, "server 0 at server0:1");
    assert_string_equal(c.states, "UDF");
    client_close(&c);
    stage_release(&s);
}

static void a_server_without_its_state_is_not_taken_back(void **state)
{
    (void)state;
    expect_not_taken_back(8, 5, "came back without its state");
    expect_not_taken_back(7, 4,
                          "without requests that it had confirmed (it "
                          "has 4, it had 5)");
    expect_not_taken_back(7, 6,
                          "another process has sent requests to it as "
                          "trainer 3");
}

static void a_session_that_is_set_back_comes_in_again(void **state)
{
    fl_rpc_client_options o = kit_link_options(3);
    fl_session_mark m = { FL_MEMBER_TRAINER, 3, 1, 2 };
    stage s;
    client c;

    (void)state;
    stage_init(&s, &near_by);
    stage_client(&s, &c, &o);
    client_make_numbers(&c, 5);
    client_push(&c, 5, 0);
    stage_run(&s, 1000);
    fl_rpc_server_set_marks(s.host, &m, 1);
    stage_run(&s, 1000);
    assert_string_equal(c.states, "UDF");
    assert_text(c.text, "it has 2, it had 5");
    client_close(&c);
    stage_release(&s);
}

/* --- local sockets, real loops -------------------------------------------- */

#define ROOM_BYTES 100000

typedef struct local {
    fl_net *net;
    fl_loop *loops[2]; /* the host's, the link's */
    fl_rpc_server *host;
    char address[FL_ADDRESS_MAX];
    fl_rpc_client *l;
    gate answers;
    uint8_t bytes[ROOM_BYTES]; /* what is asked with */
    atomic_int n_rooms, n_wrong;
} local;

/* Doubles each byte, in the arena where there is one. */
static void double_bytes(void *arg, fl_session *s, const fl_frame *f,
                         fl_payload *payload, fl_reply *r)
{
    local *t = arg;
    const uint8_t *in = fl_payload_data(payload);
    uint8_t small[ROOM_BYTES];
    uint8_t *out = fl_reply_reserve(r, ROOM_BYTES), *to = out ? out : small;

    (void)f;
    FL_ASSERT(fl_reply_session(r) == s);
    for (size_t i = 0; i < ROOM_BYTES; i++)
        to[i] = (uint8_t)(2 * in[i]);
    if (out) {
        atomic_fetch_add(&t->n_rooms, 1);
        fl_reply_send_reserved(r);
    } else {
        fl_reply_send(r, small, sizeof(small));
    }
    fl_payload_free(payload);
}

static void check_doubled(void *arg, fl_status st, const fl_frame *f,
                          fl_payload *payload)
{
    local *t = arg;
    bool is_right = !st && fl_payload_len(payload) == ROOM_BYTES;

    (void)f;
    for (size_t i = 0; is_right && i < ROOM_BYTES; i++)
        is_right = fl_payload_data(payload)[i] == (uint8_t)(2 * t->bytes[i]);
    atomic_fetch_add(&t->n_wrong, !is_right);
    fl_payload_free(payload);
    gate_add(&t->answers);
}

static void free_link(void *arg)
{
    fl_rpc_client_free(((local *)arg)->l);
}

static void ask_doubles(local *t, size_t n)
{
    struct iovec v = { t->bytes, sizeof(t->bytes) };
    fl_rpc_call call = { .type = TYPE_READ,
                         .pieces = &v,
                         .n_pieces = 1,
                         .on_reply = check_doubled,
                         .arg = t };

    for (size_t i = 0; i < n; i++)
        fl_rpc_client_call(t->l, &call);
    gate_wait(&t->answers, n);
}

static void a_local_server_answers_through_the_arena(void **state)
{
    fl_socket_options so = { .local = FL_LOCAL_FORCE, .job = 77 };
    fl_rpc_server_options ho = kit_host_options();
    fl_rpc_client_options lo = kit_link_options(0);
    fl_rpc_server_events e = { .on_request = double_bytes };
    local *t = fl_alloc(sizeof(*t));

    (void)state;
    ho.conn.arena_bytes = lo.conn.arena_bytes = 1 << 20;
    for (size_t i = 0; i < ROOM_BYTES; i++)
        t->bytes[i] = (uint8_t)(i * 7 + i / 256);
    gate_init(&t->answers);
    assert_ok(fl_net_sockets(&t->net, &so));
    assert_ok(fl_loop_new(&t->loops[0], "serves"));
    assert_ok(fl_loop_new(&t->loops[1], "asks"));
    ho.listen = "127.0.0.1:0";
    ho.loops = t->loops;
    ho.n_loops = 1;
    ho.events = &e;
    ho.arg = t;
    assert_ok(fl_rpc_server_new(&t->host, t->net, &ho, t->address));
    assert_ok(fl_rpc_client_new(&t->l, t->loops[1], t->net, t->address, &lo));
    ask_doubles(t, 200);
    assert_int_equal(atomic_load(&t->n_wrong), 0);
    assert_true(atomic_load(&t->n_rooms) > 0);
    in_loop(t->loops[1], free_link, t);
    fl_rpc_server_free(t->host);
    fl_loop_free(t->loops[1]);
    fl_loop_free(t->loops[0]);
    fl_net_free_sockets(t->net);
    gate_release(&t->answers);
    fl_free(t);
}

/* --- several loops -------------------------------------------------------- */

#define STAYERS 4

typedef struct spread {
    fl_net *net;
    fl_loop *loops[2], *asks;
    fl_rpc_server *host;
    char address[FL_ADDRESS_MAX];
    fl_rpc_client *l; /* the last one */
    gate ups, downs;
    atomic_int n_stay[2]; /* by loop */
} spread;

static void spread_up(void *arg, fl_session *s)
{
    spread *t = arg;

    if (fl_session_who(s)->rank < STAYERS)
        atomic_fetch_add(&t->n_stay[fl_loop_is_mine(t->loops[1])], 1);
    gate_add(&t->ups);
}

static void spread_down(void *arg, fl_session *s, fl_status why)
{
    (void)s;
    (void)why;
    gate_add(&((spread *)arg)->downs);
}

static void spread_refuse(void *arg, fl_session *s, const fl_frame *f,
                          fl_payload *payload, fl_reply *r)
{
    (void)arg;
    (void)s;
    (void)f;
    fl_payload_free(payload);
    fl_reply_send(r, NULL, 0);
}

static fl_rpc_client *spread_connect(spread *t, uint32_t rank,
                                     uint32_t incarnation, size_t n_ups)
{
    fl_rpc_client_options o = kit_link_options(rank);
    fl_rpc_client *l;

    o.me.incarnation = incarnation;
    assert_ok(fl_rpc_client_new(&l, t->asks, t->net, t->address, &o));
    gate_wait(&t->ups, n_ups);
    return l;
}

static void spread_leave(void *arg)
{
    fl_rpc_client_free(((spread *)arg)->l);
}

/* Who comes to join, and may still be there when it has come to stay, does not
   decide where that is. */
static void members_that_stay_are_spread_over_the_loops(void **state)
{
    fl_socket_options so = { .local = FL_LOCAL_OFF };
    fl_rpc_server_options ho = kit_host_options();
    fl_rpc_server_events e = { .on_request = spread_refuse,
                               .on_up = spread_up,
                               .on_down = spread_down };
    fl_rpc_client *stay[STAYERS];
    spread t = { 0 };

    (void)state;
    gate_init(&t.ups);
    gate_init(&t.downs);
    assert_ok(fl_net_sockets(&t.net, &so));
    assert_ok(fl_loop_new(&t.loops[0], "serves0"));
    assert_ok(fl_loop_new(&t.loops[1], "serves1"));
    assert_ok(fl_loop_new(&t.asks, "asks"));
    ho.listen = "127.0.0.1:0";
    ho.loops = t.loops;
    ho.n_loops = 2;
    ho.events = &e;
    ho.arg = &t;
    assert_ok(fl_rpc_server_new(&t.host, t.net, &ho, t.address));
    for (uint32_t i = 0; i < STAYERS; i++) {
        t.l = spread_connect(&t, STAYERS, 0, 2 * i + 1);
        stay[i] = spread_connect(&t, i, 1, 2 * i + 2);
        in_loop(t.asks, spread_leave, &t);
        gate_wait(&t.downs, i + 1);
    }
    assert_int_equal(atomic_load(&t.n_stay[0]), STAYERS / 2);
    assert_int_equal(atomic_load(&t.n_stay[1]), STAYERS / 2);
    for (uint32_t i = 0; i < STAYERS; i++) {
        t.l = stay[i];
        in_loop(t.asks, spread_leave, &t);
    }
    fl_rpc_server_free(t.host);
    fl_loop_free(t.asks);
    fl_loop_free(t.loops[1]);
    fl_loop_free(t.loops[0]);
    fl_net_free_sockets(t.net);
    gate_release(&t.ups);
    gate_release(&t.downs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_gets_its_reply),
        cmocka_unit_test(an_error_of_the_server_reaches_the_caller),
        cmocka_unit_test(no_more_than_a_window_is_under_way),
        cmocka_unit_test(a_full_connection_holds_requests_back),
        cmocka_unit_test(a_request_without_an_answer_runs_out_of_time),
        cmocka_unit_test(a_request_that_was_never_sent_runs_out_of_time_too),
        cmocka_unit_test(a_request_that_is_half_sent_costs_the_connection),
        cmocka_unit_test(a_link_may_be_freed_in_its_own_callback),
        cmocka_unit_test(a_link_says_goodbye),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(the_newer_of_two_connections_wins),
        cmocka_unit_test(a_newer_incarnation_is_a_new_session),
        cmocka_unit_test(who_has_no_incarnation_yet_may_come_in),
        cmocka_unit_test(tools_come_and_go_and_are_forgotten),
        cmocka_unit_test(a_server_with_its_state_goes_on),
        cmocka_unit_test(a_server_without_its_state_is_not_taken_back),
        cmocka_unit_test(a_session_that_is_set_back_comes_in_again),
        cmocka_unit_test(a_local_server_answers_through_the_arena),
        cmocka_unit_test(members_that_stay_are_spread_over_the_loops),
    };

    fl_log_set_level(FL_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
