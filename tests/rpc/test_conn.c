/* test_conn.c - whole messages over streams: what arrives and what is
   refused. */
#include "conn_kit.h"

#include <sys/socket.h>

#include "base/thread.h"
#include "rpc/stream/socket.h"

#define MB ((uint64_t)1 << 20)
#define PATIENCE_NS ((uint64_t)120 * 1000000000)

static const size_t sizes[] = { 0,     1,     7,      63,      64,     65,
                                4095,  4096,  4097,   8191,    8192,   16383,
                                16384, 16385, 65471,  65472,   65473,  65536,
                                65537, 99999, 640000, 1 << 20, 5 << 20 };

/* --- what arrives --------------------------------------------------------- */

static void exchange(wire *w, size_t max_len)
{
    seen s[2];
    uint64_t bytes = 0, n = 0;

    for (int i = 0; i < 2; i++)
        connect_end(w, i, &s[i]);
    for (size_t i = 0; i < FL_LEN(sizes) && sizes[i] <= max_len; i++, n++) {
        bytes += sizes[i];
        for (int k = 0; k < 2; k++)
            send_number(s[k].c, n, sizes[i]);
    }
    wire_run(w);
    for (int i = 0; i < 2; i++) {
        fl_conn_stats stats = fl_conn_stats_get(s[i].c);

        assert_int_equal(s[i].n_messages, n);
        assert_int_equal(s[i].n_bytes, bytes);
        assert_false(s[i].is_closed);
        assert_int_equal(stats.in_messages, n);
        assert_int_equal(stats.out_messages, n);
        assert_int_equal(stats.in_bytes, bytes + n * FL_FRAME_BYTES);
        assert_int_equal(stats.out_bytes, bytes + n * FL_FRAME_BYTES);
    }
    for (int i = 0; i < 2; i++)
        fl_conn_free(s[i].c);
}

static void messages_of_all_sizes_arrive_both_ways_at_once(void **state)
{
    wire w;

    (void)state;
    wire_init(&w, false);
    exchange(&w, SIZE_MAX);
    wire_release(&w);
}

static void cuts_at_any_place_change_nothing(void **state)
{
    static const struct {
        size_t chunk, max_len;
    } cuts[] = { { 100, 99999 },
                 { 1000, 640000 },
                 { 30000, 5 << 20 },
                 { 100000, 5 << 20 } };

    (void)state;
    for (size_t i = 0; i < FL_LEN(cuts); i++) {
        wire w;

        wire_init(&w, false);
        w.chunk = cuts[i].chunk;
        w.draws = i + 1;
        exchange(&w, cuts[i].max_len);
        wire_release(&w);
    }
}

static void one_byte_at_a_time_gives_the_same_messages(void **state)
{
    wire w;

    (void)state;
    wire_init(&w, false);
    w.chunk = 1;
    exchange(&w, 65537);
    wire_release(&w);
}

static void a_secret_stream_is_read_on_after_a_short_read(void **state)
{
    wire w;

    (void)state;
    wire_init(&w, false);
    w.end[0]->base.is_secret = true;
    w.end[1]->base.is_secret = true;
    w.chunk = 16384;
    exchange(&w, SIZE_MAX);
    wire_release(&w);
}

static void the_head_arrives_as_it_was_sent(void **state)
{
    fl_frame f = { .type = TYPE_READ,
                   .flags = FL_FRAME_REPLY | FL_FRAME_ERROR,
                   .trace = UINT64_MAX,
                   .sequence = 77,
                   .rank = 5,
                   .incarnation = 6,
                   .step = 1234567890123 };
    wire w;
    seen a, b;

    (void)state;
    wire_init(&w, false);
    connect_end(&w, 0, &a);
    connect_end(&w, 1, &b);
    fl_conn_send_copy(a.c, &f, NULL, 0);
    wire_run(&w);
    assert_int_equal(b.n_messages, 1);
    assert_int_equal(b.last.type, f.type);
    assert_int_equal(b.last.flags, f.flags);
    assert_int_equal(b.last.trace, f.trace);
    assert_int_equal(b.last.sequence, f.sequence);
    assert_int_equal(b.last.rank, f.rank);
    assert_int_equal(b.last.incarnation, f.incarnation);
    assert_int_equal(b.last.step, f.step);
    assert_string_equal(fl_conn_peer(b.c), "wire:1");
    fl_conn_free(a.c);
    fl_conn_free(b.c);
    wire_release(&w);
}

static void thousands_of_small_messages_share_reads_and_writes(void **state)
{
    enum { N = 20000, LEN = 100 };
    wire w;
    seen a, b;

    (void)state;
    wire_init(&w, false);
    connect_end(&w, 0, &a);
    connect_end(&w, 1, &b);
    w.room = 0;
    for (uint64_t i = 0; i < N; i++)
        send_number(a.c, i, LEN);
    w.end[0]->n_writes = 0;
    w.room = 1 << 20;
    wire_run(&w);
    assert_int_equal(b.n_messages, N);
    assert_true(w.end[0]->n_writes < N / 100);
    assert_true(w.end[1]->n_reads < N / 100);
    fl_conn_free(a.c);
    fl_conn_free(b.c);
    wire_release(&w);
}

static void steady_traffic_does_not_reach_the_allocator(void **state)
{
    uint64_t n = 0, calls = 0;
    wire w;
    seen a, b;

    (void)state;
    wire_init(&w, false);
    connect_end(&w, 0, &a);
    connect_end(&w, 1, &b);
    for (int round = 0; round < 40; round++) {
        uint8_t *bytes = fl_alloc(300000);

        for (int k = 1; k <= 3; k++, n++) {
            fill(bytes, n, (size_t)k * 100000);
            send_borrowed(&a, n, bytes, (size_t)k * 100000);
            wire_run(&w);
        }
        fl_free(bytes);
        if (round == 10)
            calls = fl_data_calls();
    }
    assert_int_equal(b.n_messages, n);
    assert_int_equal(a.n_done, n);
    assert_int_equal(fl_data_calls(), calls);
    fl_conn_free(a.c);
    fl_conn_free(b.c);
    wire_release(&w);
}

static void buffers_that_are_kept_have_a_limit(void **state)
{
    size_t before = fl_data_bytes();
    wire w;
    seen a, b;

    (void)state;
    wire_init(&w, false);
    connect_end(&w, 0, &a);
    connect_end(&w, 1, &b);
    for (uint64_t i = 0; i < 30; i++) {
        send_number(a.c, i, (i + 1) * 100000);
        wire_run(&w);
    }
    assert_int_equal(b.n_messages, 30);
    assert_true(fl_data_bytes() - before <= 8 * MB);
    fl_conn_free(a.c);
    fl_conn_free(b.c);
    assert_int_equal(fl_data_bytes(), before);
    wire_release(&w);
}

static void hearing_is_told_by_the_loops_clock(void **state)
{
    wire w;
    seen a, b;

    (void)state;
    wire_init(&w, false);
    connect_end(&w, 0, &a);
    connect_end(&w, 1, &b);
    fl_sim_run(w.sim, 5000, NULL);
    assert_int_equal(fl_conn_heard_ms(b.c), 0);
    send_number(a.c, 0, 10);
    wire_run(&w);
    assert_int_equal(fl_conn_heard_ms(b.c), 5000);
    fl_conn_free(a.c);
    fl_conn_free(b.c);
    wire_release(&w);
}

/* --- what is refused ------------------------------------------------------ */

static void expect_refused(const uint8_t head[FL_FRAME_BYTES], const char *says)
{
    size_t before = fl_data_bytes();
    wire w, other;
    seen s, a, b;

    wire_init(&w, false);
    wire_init(&other, false);
    connect_end(&w, 1, &s);
    connect_end(&other, 0, &a);
    connect_end(&other, 1, &b);
    wire_put(w.end[1], head, FL_FRAME_BYTES);
    wire_run(&w);
    expect_closed(&s, FL_ERR_CORRUPT, says);
    assert_says("wire:1");
    assert_int_equal(s.n_messages, 0);
    assert_int_equal(fl_data_bytes(), before);
    assert_null(w.end[1]);
    send_number(a.c, 0, 1000);
    wire_run(&other);
    assert_int_equal(b.n_messages, 1);
    fl_conn_free(s.c);
    fl_conn_free(a.c);
    fl_conn_free(b.c);
    wire_release(&w);
    wire_release(&other);
}

static void bytes_that_are_no_message_close_that_connection_only(void **state)
{
    fl_frame good = { .type = TYPE_ADD, .length = 10 };
    uint8_t head[FL_FRAME_BYTES];

    (void)state;
    fl_frame_write(&good, head);
    head[0] ^= 1;
    expect_refused(head, "FLT1");
    memset(head, 0, sizeof(head));
    memcpy(head, "GET / HTTP/1.1\r\n", 16);
    expect_refused(head, "HTTP");
    fl_frame_write(&good, head);
    head[4] = 200;
    expect_refused(head, "type");
    fl_frame_write(&good, head);
    head[7] = 0x80;
    expect_refused(head, "flags");
    good.arena = 64;
    fl_frame_write(&good, head);
    expect_refused(head, "arena");
}

static void lengths_beyond_the_limit_are_refused(void **state)
{
    static const uint64_t lengths[] = { ((uint64_t)64 << 20) + 1,
                                        (uint64_t)10 << 30, (uint64_t)1 << 63,
                                        UINT64_MAX - 63, UINT64_MAX };

    (void)state;
    for (size_t i = 0; i < FL_LEN(lengths); i++) {
        fl_frame f = { .type = TYPE_ADD, .length = lengths[i] };
        uint8_t head[FL_FRAME_BYTES];

        fl_frame_write(&f, head);
        expect_refused(head, "allowed");
    }
}

static void an_announced_length_alone_takes_little_memory(void **state)
{
    fl_conn_options wide = options;
    fl_frame f = { .type = TYPE_ADD, .length = (uint64_t)10 << 30 };
    size_t before = fl_data_bytes();
    uint8_t byte = 1;
    wire w;
    seen s = { 0 };

    (void)state;
    wide.max_bytes = (uint64_t)16 << 30;
    wire_init(&w, false);
    s.c = fl_conn_new(&w.end[1]->base, &wide, &seeing, &s);
    write_frame(&w, &f);
    wire_put(w.end[1], &byte, 1);
    wire_run(&w);
    assert_false(s.is_closed);
    assert_true(fl_data_bytes() - before <= 16 * MB);
    wire_close(&w.end[0]->base);
    wire_run(&w);
    expect_closed(&s, FL_ERR_IO, "1 of 10737418240 bytes");
    assert_int_equal(fl_data_bytes(), before);
    fl_conn_free(s.c);
    wire_release(&w);
}

static void messages_longer_than_a_step_arrive_whole(void **state)
{
    static const size_t lens[] = { (16 << 20) - 1, 16 << 20, (16 << 20) + 1,
                                   40000003 };
    size_t before = fl_data_bytes();
    wire w;
    seen a, b;

    (void)state;
    wire_init(&w, false);
    connect_end(&w, 0, &a);
    connect_end(&w, 1, &b);
    for (size_t i = 0; i < FL_LEN(lens); i++)
        send_number(a.c, i, lens[i]);
    wire_run(&w);
    assert_int_equal(b.n_messages, FL_LEN(lens));
    fl_conn_free(a.c);
    fl_conn_free(b.c);
    assert_int_equal(fl_data_bytes(), before);
    wire_release(&w);
}

static void a_peer_that_leaves_is_told_and_where_it_was(void **state)
{
    static const struct {
        size_t bytes;
        const char *says;
    } cuts[] = {
        { 0, "closed" },
        { 1, "in the head" },
        { 63, "in the head" },
        { 64, "0 of 1000 bytes of a message (add)" },
        { 1063, "999 of 1000 bytes" },
        { 1064, "closed" },
    };
    fl_frame f = { .type = TYPE_ADD, .length = 1000 };
    uint8_t bytes[1064];

    (void)state;
    fl_frame_write(&f, bytes);
    fill(bytes + FL_FRAME_BYTES, 0, 1000);
    for (size_t i = 0; i < FL_LEN(cuts); i++) {
        wire w;
        seen s;

        wire_init(&w, false);
        connect_end(&w, 1, &s);
        wire_put(w.end[1], bytes, cuts[i].bytes);
        wire_close(&w.end[0]->base);
        wire_run(&w);
        expect_closed(&s, FL_ERR_IO, cuts[i].says);
        assert_int_equal(s.n_messages, cuts[i].bytes == sizeof(bytes));
        fl_conn_free(s.c);
        wire_release(&w);
    }
}

/* --- memory --------------------------------------------------------------- */

static void a_message_without_memory_closes_the_connection(void **state)
{
    wire w;
    seen s;
    fl_frame f = { .type = TYPE_ADD, .length = 1000 };

    (void)state;
    wire_init(&w, false);
    connect_end(&w, 1, &s);
    write_frame(&w, &f);
    fl_alloc_fail_after(1);
    wire_run(&w);
    fl_alloc_fail_after(0);
    expect_closed(&s, FL_ERR_NOMEM, "1000 bytes");
    fl_conn_free(s.c);
    wire_release(&w);
}

static void a_long_message_without_memory_closes_it_too(void **state)
{
    size_t before = fl_data_bytes();

    (void)state;
    for (size_t chunk = 10000; chunk <= 1 << 20; chunk += (1 << 20) - 10000) {
        wire w;
        seen a, b;

        wire_init(&w, false);
        w.chunk = chunk;
        connect_end(&w, 0, &a);
        connect_end(&w, 1, &b);
        send_number(a.c, 0, 20 << 20);
        fl_alloc_fail_after(2);
        wire_run(&w);
        fl_alloc_fail_after(0);
        expect_closed(&b, FL_ERR_NOMEM, "20971520 bytes");
        assert_int_equal(b.n_messages, 0);
        fl_conn_free(a.c);
        fl_conn_free(b.c);
        assert_int_equal(fl_data_bytes(), before);
        wire_release(&w);
    }
}

static void a_copy_without_memory_is_told_later(void **state)
{
    wire w;
    seen a, b;

    (void)state;
    wire_init(&w, false);
    connect_end(&w, 0, &a);
    connect_end(&w, 1, &b);
    w.room = 0;
    send_number(a.c, 0, 100);
    fl_alloc_fail_after(1);
    send_number(a.c, 1, 100000);
    fl_alloc_fail_after(0);
    assert_false(a.is_closed);
    wire_run(&w);
    expect_closed(&a, FL_ERR_NOMEM, "100000 bytes");
    fl_conn_free(a.c);
    fl_conn_free(b.c);
    wire_release(&w);
}

static void a_payload_outlives_its_connection(void **state)
{
    size_t before = fl_data_bytes();
    wire w;
    seen a, b;

    (void)state;
    wire_init(&w, false);
    connect_end(&w, 0, &a);
    connect_end(&w, 1, &b);
    b.keeps = true;
    send_number(a.c, 0, 70000);
    wire_run(&w);
    fl_conn_free(a.c);
    fl_conn_free(b.c);
    wire_release(&w);
    assert_true(is_right(0, b.kept));
    fl_payload_free(b.kept);
    assert_int_equal(fl_data_bytes(), before);
    fl_payload_free(NULL);
    fl_conn_free(NULL);
}

/* --- real sockets --------------------------------------------------------- */

#define ROUNDS 4

/* Two loops exchange messages over a socket pair; the test waits for both. */
typedef struct party {
    seen s;
    fl_loop *loop;
    int fd;
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

static void party_message(void *arg, fl_conn *c, const fl_frame *f,
                          fl_payload *payload)
{
    party *p = arg;

    see_message(&p->s, c, f, payload);
    if (p->s.n_messages == ROUNDS * FL_LEN(sizes))
        add_one(p->m, &p->m->n_full);
}

/* The other one may leave as soon as it has got everything. */
static void party_close(void *arg, fl_conn *c, fl_status why)
{
    (void)arg;
    (void)c;
    (void)why;
}

static void party_start(void *arg)
{
    static const fl_conn_events events = { party_message, party_close, NULL };
    party *p = arg;
    uint64_t n = 0;

    p->s.is_threaded = true;
    p->s.c = fl_conn_new(fl_stream_of_fd(p->loop, p->fd, "peer", false),
                         &options, &events, p);
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < FL_LEN(sizes); i++)
            send_number(p->s.c, n++, sizes[i]);
}

static void party_end(void *arg)
{
    party *p = arg;

    fl_conn_free(p->s.c);
    add_one(p->m, &p->m->n_free);
}

static void two_loops_exchange_messages_over_a_socket(void **state)
{
    meeting m = { .n_full = 0 };
    int fds[2];

    (void)state;
    fl_mutex_init(&m.mu);
    fl_cond_init(&m.changed);
    assert_int_equal(
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
        0);
    for (int i = 0; i < 2; i++) {
        m.p[i].fd = fds[i];
        m.p[i].m = &m;
        assert_ok(fl_loop_new(&m.p[i].loop, "party"));
        fl_loop_post(m.p[i].loop, party_start, &m.p[i]);
    }
    wait_for_two(&m, &m.n_full);
    for (int i = 0; i < 2; i++)
        fl_loop_post(m.p[i].loop, party_end, &m.p[i]);
    wait_for_two(&m, &m.n_free);
    for (int i = 0; i < 2; i++) {
        fl_loop_free(m.p[i].loop);
        assert_int_equal(m.p[i].s.n_bad, 0);
    }
    fl_cond_release(&m.changed);
    fl_mutex_release(&m.mu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_all_sizes_arrive_both_ways_at_once),
        cmocka_unit_test(cuts_at_any_place_change_nothing),
        cmocka_unit_test(one_byte_at_a_time_gives_the_same_messages),
        cmocka_unit_test(a_secret_stream_is_read_on_after_a_short_read),
        cmocka_unit_test(the_head_arrives_as_it_was_sent),
        cmocka_unit_test(thousands_of_small_messages_share_reads_and_writes),
        cmocka_unit_test(steady_traffic_does_not_reach_the_allocator),
        cmocka_unit_test(buffers_that_are_kept_have_a_limit),
        cmocka_unit_test(hearing_is_told_by_the_loops_clock),
        cmocka_unit_test(bytes_that_are_no_message_close_that_connection_only),
        cmocka_unit_test(lengths_beyond_the_limit_are_refused),
        cmocka_unit_test(an_announced_length_alone_takes_little_memory),
        cmocka_unit_test(messages_longer_than_a_step_arrive_whole),
        cmocka_unit_test(a_peer_that_leaves_is_told_and_where_it_was),
        cmocka_unit_test(a_message_without_memory_closes_the_connection),
        cmocka_unit_test(a_long_message_without_memory_closes_it_too),
        cmocka_unit_test(a_copy_without_memory_is_told_later),
        cmocka_unit_test(a_payload_outlives_its_connection),
        cmocka_unit_test(two_loops_exchange_messages_over_a_socket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
