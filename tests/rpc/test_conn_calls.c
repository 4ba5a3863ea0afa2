/* test_conn_calls.c - who may do what inside a callback of a connection, and
 * when it is told that a message was sent. */
#include "conn_kit.h"

/* --- inside of callbacks -------------------------------------------------- */

static void replies_from_inside_a_message_leave_together(void **state)
{
    enum { N = 500 };
    wire w;
    seen a, b;

    (void)state;
    wire_init(&w, false);
    connect_end(&w, 0, &a);
    connect_end(&w, 1, &b);
    b.echoes = true;
    w.room = 0;
    for (uint64_t i = 0; i < N; i++)
        send_number(a.c, i, 50);
    w.room = 1 << 20;
    wire_run(&w);
    assert_int_equal(a.n_messages, N);
    assert_true(w.end[1]->n_writes < N / 10);
    fl_conn_free(a.c);
    fl_conn_free(b.c);
    wire_release(&w);
}

static void what_is_deferred_leaves_with_the_next_message(void **state)
{
    wire w;
    seen a, b;

    (void)state;
    wire_init(&w, false);
    connect_end(&w, 0, &a);
    connect_end(&w, 1, &b);
    b.echoes = b.defers = true;
    for (uint64_t i = 0; i < 3; i++)
        send_number(a.c, i, 50);
    wire_run(&w);
    assert_int_equal(b.n_messages, 3);
    assert_int_equal(a.n_messages, 0);
    assert_int_equal(w.end[1]->n_writes, 0);
    send_number(b.c, 3, 50);
    wire_run(&w);
    assert_int_equal(a.n_messages, 4);
    assert_int_equal(w.end[1]->n_writes, 1);
    /* Nor does it hold up who answers later. */
    b.defers = false;
    a.next = b.next;
    send_number(a.c, b.next, 50);
    wire_run(&w);
    assert_int_equal(a.n_messages, 5);
    fl_conn_free(a.c);
    fl_conn_free(b.c);
    wire_release(&w);
}

static void freeing_inside_a_message_drops_the_rest(void **state)
{
    wire w;
    seen a, b;

    (void)state;
    wire_init(&w, false);
    connect_end(&w, 0, &a);
    connect_end(&w, 1, &b);
    b.frees = true;
    for (uint64_t i = 0; i < 10; i++)
        send_number(a.c, i, 1000);
    wire_run(&w);
    assert_int_equal(b.n_messages, 1);
    assert_null(b.c);
    assert_false(b.is_closed);
    assert_true(a.is_closed);
    fl_conn_free(a.c);
    wire_release(&w);
}

static void freeing_inside_of_a_long_message_is_safe(void **state)
{
    wire w;
    seen a, b;

    (void)state;
    wire_init(&w, false);
    connect_end(&w, 0, &a);
    connect_end(&w, 1, &b);
    b.frees = true;
    send_number(a.c, 0, 500000);
    send_number(a.c, 1, 500000);
    wire_run(&w);
    assert_int_equal(b.n_messages, 1);
    fl_conn_free(a.c);
    wire_release(&w);
}

static void freeing_inside_of_the_close_is_safe(void **state)
{
    wire w;
    seen s;

    (void)state;
    wire_init(&w, false);
    connect_end(&w, 1, &s);
    s.frees = true;
    wire_close(&w.end[0]->base);
    wire_run(&w);
    assert_true(s.is_closed);
    assert_null(s.c);
    wire_release(&w);
}

static void free_it(void *arg)
{
    seen *s = arg;
    fl_conn *c = s->c;

    s->n_done++;
    s->c = NULL; /* the others are told from inside of the free */
    fl_conn_free(c);
}

static void freeing_inside_of_done_still_ends_the_others(void **state)
{
    uint8_t bytes[100] = { 0 };
    struct iovec v = { bytes, sizeof(bytes) };
    fl_message m = { .frame = { .type = TYPE_ADD },
                     .pieces = &v,
                     .n_pieces = 1,
                     .done = free_it };
    wire w;
    seen a, b;

    (void)state;
    wire_init(&w, false);
    connect_end(&w, 0, &a);
    connect_end(&w, 1, &b);
    m.arg = &a;
    w.room = 0;
    for (int i = 0; i < 5; i++)
        fl_conn_send(a.c, &m);
    w.room = 2 * (FL_FRAME_BYTES + sizeof(bytes)) + 10;
    wire_step(&w, 0);
    assert_int_equal(a.n_done, 5);
    assert_null(a.c);
    fl_conn_free(b.c);
    wire_release(&w);
}

static void send_another(void *arg)
{
    seen *s = arg;

    send_number(s->c, ++s->n_done, 10);
}

static void sending_inside_of_done_works(void **state)
{
    fl_message m = { .frame = { .type = TYPE_ADD }, .done = send_another };
    wire w;
    seen a, b;

    (void)state;
    wire_init(&w, false);
    connect_end(&w, 0, &a);
    connect_end(&w, 1, &b);
    m.arg = &a;
    fl_conn_send(a.c, &m);
    assert_int_equal(a.n_done, 1);
    wire_run(&w);
    assert_int_equal(b.n_messages, 2);
    fl_conn_free(a.c);
    fl_conn_free(b.c);
    wire_release(&w);
}

static void a_last_word_before_freeing_arrives(void **state)
{
    wire w;
    seen a, b;

    (void)state;
    wire_init(&w, false);
    connect_end(&w, 0, &a);
    connect_end(&w, 1, &b);
    b.echoes = true;
    b.frees = true;
    send_number(a.c, 0, 100);
    wire_run(&w);
    assert_null(b.c);
    assert_int_equal(a.n_messages, 1);
    assert_true(a.is_closed);
    fl_conn_free(a.c);
    wire_release(&w);
}

/* --- sending -------------------------------------------------------------- */

static void done_comes_after_the_last_byte(void **state)
{
    static uint8_t bytes[300000];
    wire w;
    seen a, b;

    (void)state;
    fill(bytes, 0, sizeof(bytes));
    wire_init(&w, false);
    connect_end(&w, 0, &a);
    connect_end(&w, 1, &b);
    w.room = 100000;
    send_borrowed(&a, 0, bytes, sizeof(bytes));
    assert_int_equal(a.n_done, 0);
    wire_step(&w, 1);
    wire_step(&w, 0);
    wire_step(&w, 1);
    wire_step(&w, 0);
    assert_int_equal(a.n_done, 0);
    wire_run(&w);
    assert_int_equal(a.n_done, 1);
    assert_int_equal(b.n_messages, 1);
    fl_conn_free(a.c);
    fl_conn_free(b.c);
    wire_release(&w);
}

static void done_comes_once_when_the_connection_ends(void **state)
{
    static uint8_t bytes[5000];
    wire w;
    seen a, b;

    (void)state;
    wire_init(&w, false);
    connect_end(&w, 0, &a);
    connect_end(&w, 1, &b);
    w.room = 3000;
    send_borrowed(&a, 0, bytes, sizeof(bytes));
    send_borrowed(&a, 1, bytes, sizeof(bytes));
    assert_int_equal(a.n_done, 0);
    fl_conn_free(a.c);
    assert_int_equal(a.n_done, 2);
    send_borrowed(&b, 0, bytes, sizeof(bytes));
    wire_run(&w);
    assert_true(b.is_closed);
    assert_int_equal(b.n_done, 1);
    send_borrowed(&b, 1, bytes, sizeof(bytes));
    assert_int_equal(b.n_done, 2);
    fl_conn_free(b.c);
    wire_release(&w);
}

/* A refusal is sent and the connection closed, while we are still writing. */
static void what_the_peer_said_last_is_read_after_a_failed_write(void **state)
{
    fl_frame f = { .type = FL_TYPE_HELLO, .flags = FL_FRAME_REPLY };
    wire w;
    seen s;

    (void)state;
    wire_init(&w, false);
    connect_end(&w, 1, &s);
    write_frame(&w, &f);
    wire_close(&w.end[0]->base);
    send_number(s.c, 0, 100);
    assert_false(s.is_closed);
    assert_int_equal(s.n_messages, 0);
    fl_sim_run(w.sim, 1, NULL);
    assert_int_equal(s.n_messages, 1);
    expect_closed(&s, FL_ERR_IO, "closed");
    fl_conn_free(s.c);
    wire_release(&w);
}

static void freeing_after_a_failed_write_calls_nothing_later(void **state)
{
    wire w;
    seen s;

    (void)state;
    wire_init(&w, false);
    connect_end(&w, 1, &s);
    wire_close(&w.end[0]->base);
    send_number(s.c, 0, 100);
    fl_conn_free(s.c);
    wire_run(&w);
    assert_false(s.is_closed);
    wire_release(&w);
}

static void the_window_fills_and_its_room_is_told(void **state)
{
    wire w;
    seen a, b;

    (void)state;
    wire_init(&w, false);
    connect_end(&w, 0, &a);
    connect_end(&w, 1, &b);
    w.room = 50000;
    for (uint64_t i = 0; i < 10; i++)
        send_number(a.c, i, 100000);
    assert_false(fl_conn_is_full(a.c));
    for (uint64_t i = 10; i < 20; i++)
        send_number(a.c, i, 100000);
    assert_true(fl_conn_is_full(a.c));
    assert_int_equal(a.n_rooms, 0);
    wire_run(&w);
    assert_int_equal(a.n_rooms, 1);
    assert_int_equal(b.n_messages, 20);
    fl_conn_free(a.c);
    fl_conn_free(b.c);
    wire_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_from_inside_a_message_leave_together),
        cmocka_unit_test(what_is_deferred_leaves_with_the_next_message),
        cmocka_unit_test(freeing_inside_a_message_drops_the_rest),
        cmocka_unit_test(freeing_inside_of_a_long_message_is_safe),
        cmocka_unit_test(freeing_inside_of_the_close_is_safe),
        cmocka_unit_test(freeing_inside_of_done_still_ends_the_others),
        cmocka_unit_test(sending_inside_of_done_works),
        cmocka_unit_test(a_last_word_before_freeing_arrives),
        cmocka_unit_test(done_comes_after_the_last_byte),
        cmocka_unit_test(done_comes_once_when_the_connection_ends),
        cmocka_unit_test(what_the_peer_said_last_is_read_after_a_failed_write),
        cmocka_unit_test(freeing_after_a_failed_write_calls_nothing_later),
        cmocka_unit_test(the_window_fills_and_its_room_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
