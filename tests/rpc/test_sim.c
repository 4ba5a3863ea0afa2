/* test_sim.c - the simulated network: what arrives, in which order and when,
 * under every fault it can make. All times here are virtual. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "rpc/sim/sim.h"

#define RING_BYTES ((uint64_t)64 << 10)
#define MAX_PEERS 256
#define SERVER "server0:1"

/* Fails the test with the library's own sentence. */
#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)

typedef struct world world;

/* An end that sends numbered bytes and checks those it gets. */
typedef struct peer {
    world *w;
    fl_stream *s;
    uint64_t to_send, sent, got;
    uint64_t n_told; /* callbacks */
    bool is_gone, is_deaf;
} peer;

struct world {
    fl_sim *sim;
    fl_net *net;
    fl_listener *listener;
    fl_loop *loops[2];
    peer clients[MAX_PEERS], servers[MAX_PEERS];
    int n_dialled, n_connected, n_failed, n_accepted;
    fl_status why; /* of the last dial that failed */
    uint64_t to_send, hash;
    bool are_deaf; /* peers that do not read */
};

static void note(world *w, uint64_t what)
{
    w->hash = fl_mix64(w->hash ^ fl_mix64(fl_sim_now_ms(w->sim) ^ what << 32));
}

/* --- peers --------------------------------------------------------------- */

static uint8_t byte_at(uint64_t i)
{
    return (uint8_t)(i * 131 + (i >> 8) * 7);
}

static void leave(peer *p)
{
    if (p->s)
        p->s->ops->close(p->s);
    p->s = NULL;
}

static void be_gone(peer *p)
{
    assert_non_null(strstr(fl_last_error(), p->s->peer));
    note(p->w, 3);
    p->is_gone = true;
    leave(p);
}

static void take_some(peer *p)
{
    uint8_t buf[5000];
    ptrdiff_t n = 0;

    if (p->is_deaf)
        return;
    while ((n = p->s->ops->read(p->s, buf, sizeof(buf))) > 0) {
        for (ptrdiff_t i = 0; i < n; i++)
            if (buf[i] != byte_at(p->got + (uint64_t)i))
                fail_msg("byte %llu is wrong",
                         (unsigned long long)p->got + (unsigned)i);
        p->got += (uint64_t)n;
        note(p->w, (uint64_t)n << 8 | 1);
    }
    if (n == FL_STREAM_GONE)
        be_gone(p);
    else
        assert_int_equal(n, FL_STREAM_AGAIN);
}

static void want(peer *p)
{
    unsigned write = p->sent < p->to_send ? FL_IO_WRITE : 0;
    unsigned read = p->is_deaf ? 0 : FL_IO_READ;

    p->s->ops->want(p->s, read | write);
}

static void give_some(peer *p)
{
    uint8_t buf[9000];
    ptrdiff_t n = 0;

    while (p->sent < p->to_send && n >= 0) {
        uint64_t left = p->to_send - p->sent;
        size_t len = left < sizeof(buf) ? (size_t)left : sizeof(buf);
        struct iovec v[3] = { { buf, len / 3 },
                              { NULL, 0 },
                              { buf + len / 3, len - len / 3 } };

        for (size_t i = 0; i < len; i++)
            buf[i] = byte_at(p->sent + i);
        n = p->s->ops->write(p->s, v, 3);
        assert_int_not_equal(n, 0);
        p->sent += n > 0 ? (uint64_t)n : 0;
        note(p->w, (uint64_t)n << 8 | 2);
    }
    if (n == FL_STREAM_GONE)
        be_gone(p);
}

static void on_ready(void *arg, unsigned events)
{
    peer *p = arg;

    p->n_told++;
    if (events & FL_IO_WRITE)
        give_some(p);
    if (p->s && events & FL_IO_READ)
        take_some(p);
    if (p->s)
        want(p);
}

static void enter(world *w, peer *p, fl_stream *s)
{
    *p =
        (peer){ .w = w, .s = s, .to_send = w->to_send, .is_deaf = w->are_deaf };
    assert_false(s->is_local || s->is_secret);
    assert_ptr_equal(s->loop, fl_sim_loop(w->sim));
    s->ready = on_ready;
    s->arg = p;
    want(p);
}

/* --- worlds -------------------------------------------------------------- */

static void on_accept(void *arg, fl_stream *s)
{
    world *w = arg;

    assert_true(w->n_accepted < MAX_PEERS);
    note(w, 4);
    enter(w, &w->servers[w->n_accepted++], s);
}

static void on_dialled(void *arg, fl_stream *s)
{
    world *w = arg;

    note(w, s ? 5 : 6);
    if (s) {
        enter(w, &w->clients[w->n_connected++], s);
        return;
    }
    w->n_failed++;
    w->why = strstr(fl_last_error(), "within") ? FL_ERR_TIMEOUT : FL_ERR_IO;
}

static void start(world *w, const fl_sim_faults *f)
{
    char address[FL_ADDRESS_MAX];

    memset(w, 0, sizeof(*w));
    w->sim = fl_sim_new(f);
    w->net = fl_sim_net(w->sim);
    w->loops[0] = w->loops[1] = fl_sim_loop(w->sim);
    assert_ok(w->net->ops->listen(
        w->net, &(fl_listen_args){ SERVER, w->loops[0], NULL, on_accept, w },
        &w->listener, address));
    assert_string_equal(address, SERVER);
}

static void *dial_to(world *w, const char *address, uint64_t timeout_ms)
{
    void *handle = NULL;

    assert_true(w->n_dialled < MAX_PEERS);
    w->n_dialled++;
    assert_ok(w->net->ops->dial(
        w->net,
        &(fl_dial_args){ w->loops[0], address, timeout_ms, on_dialled, w },
        &handle));
    assert_non_null(handle);
    return handle;
}

static void dial(world *w)
{
    dial_to(w, SERVER, 100000);
}

static void run_for(world *w, uint64_t ms)
{
    fl_sim_run(w->sim, fl_sim_now_ms(w->sim) + ms, NULL);
}

static void stop_listening(world *w)
{
    if (w->listener)
        w->net->ops->unlisten(w->listener);
    w->listener = NULL;
}

static void finish(world *w)
{
    for (int i = 0; i < MAX_PEERS; i++) {
        leave(&w->clients[i]);
        leave(&w->servers[i]);
    }
    stop_listening(w);
    fl_sim_free(w->sim);
}

/* One connection on a net without faults. */
static void start_pair(world *w, uint64_t to_send)
{
    start(w, &(fl_sim_faults){ .seed = 1 });
    w->to_send = to_send;
    dial(w);
    run_for(w, 1);
    assert_int_equal(w->n_connected, 1);
    assert_int_equal(w->n_accepted, 1);
}

/* --- runs ---------------------------------------------------------------- */

static uint64_t hash_of_run(uint64_t seed)
{
    static world w;
    fl_sim_faults f = { .seed = seed,
                        .delay_lo_ms = 1,
                        .delay_hi_ms = 20,
                        .cut_after_bytes = 200000,
                        .refuse_share = 0.2,
                        .bytes_per_ms = 1000 };

    start(&w, &f);
    w.to_send = 100000;
    for (int i = 0; i < 20; i++)
        dial(&w);
    run_for(&w, 60);
    fl_sim_freeze(w.sim, SERVER, true);
    run_for(&w, 60);
    fl_sim_freeze(w.sim, SERVER, false);
    run_for(&w, 5000);
    assert_true(fl_sim_cuts(w.sim) > 0);
    assert_true(w.n_failed > 0);
    finish(&w);
    return w.hash;
}

static void equal_seeds_give_equal_runs(void **state)
{
    (void)state;
    assert_true(hash_of_run(7) == hash_of_run(7));
}

static void another_seed_gives_another_run(void **state)
{
    (void)state;
    assert_true(hash_of_run(7) != hash_of_run(8));
}

static void bytes_arrive_whole_and_in_order(void **state)
{
    static world w;
    static const fl_sim_faults faults[] = {
        { .seed = 1 },
        { .seed = 2, .delay_lo_ms = 3, .delay_hi_ms = 3 },
        { .seed = 3, .delay_hi_ms = 30 },
        { .seed = 4, .bytes_per_ms = 500 },
        { .seed = 5, .delay_hi_ms = 9, .bytes_per_ms = 333 },
    };
    enum { N = 6, BYTES = 300000 };

    (void)state;
    for (size_t i = 0; i < FL_LEN(faults); i++) {
        start(&w, &faults[i]);
        w.to_send = BYTES;
        for (int k = 0; k < N; k++)
            dial(&w);
        run_for(&w, 20000);
        assert_int_equal(w.n_accepted, N);
        for (int k = 0; k < N; k++) {
            assert_int_equal(w.clients[k].got, BYTES);
            assert_int_equal(w.servers[k].got, BYTES);
        }
        assert_int_equal(fl_sim_cuts(w.sim), 0);
        finish(&w);
    }
}

static void a_slow_stream_keeps_its_limit(void **state)
{
    static world w;
    enum { RATE = 200, BYTES = 400000 };
    uint64_t ms = 0;

    (void)state;
    start(&w, &(fl_sim_faults){ .seed = 1, .bytes_per_ms = RATE });
    w.to_send = BYTES;
    dial(&w);
    for (; ms < 2 * BYTES / RATE && w.servers[0].got < BYTES; ms++) {
        run_for(&w, 1);
        assert_true(w.servers[0].got <= (ms + 1) * RATE);
        assert_true(w.clients[0].got <= (ms + 1) * RATE);
    }
    assert_int_equal(w.servers[0].got, BYTES);
    assert_true(ms >= BYTES / RATE);
    finish(&w);
}

static void a_full_stream_waits_for_its_reader(void **state)
{
    static world w;

    (void)state;
    start_pair(&w, 0);
    w.servers[0].is_deaf = true;
    want(&w.servers[0]);
    w.clients[0].to_send = 3 * RING_BYTES;
    want(&w.clients[0]);
    run_for(&w, 100);
    assert_int_equal(w.clients[0].sent, RING_BYTES);
    assert_int_equal(w.servers[0].got, 0);
    w.servers[0].is_deaf = false;
    want(&w.servers[0]);
    run_for(&w, 100);
    assert_int_equal(w.servers[0].got, 3 * RING_BYTES);
    finish(&w);
}

static void many_small_writes_arrive(void **state)
{
    static world w;
    enum { BYTES = 2000 };
    struct iovec v;
    uint64_t n_full = 0;
    uint8_t b;

    (void)state;
    start(&w, &(fl_sim_faults){ .seed = 1, .delay_hi_ms = 10 });
    dial(&w);
    run_for(&w, 50);
    for (uint64_t i = 0; i < BYTES;) {
        fl_stream *s = w.clients[0].s;
        ptrdiff_t n;

        b = byte_at(i);
        v = (struct iovec){ &b, 1 };
        n = s->ops->write(s, &v, 1);
        if (n == 1) {
            i++;
            continue;
        }
        assert_int_equal(n, FL_STREAM_AGAIN);
        assert_true(++n_full < BYTES);
        run_for(&w, 1);
    }
    run_for(&w, 50);
    assert_true(n_full > 0);
    assert_int_equal(w.servers[0].got, BYTES);
    finish(&w);
}

static void count_events(void *arg, unsigned events)
{
    assert_int_equal(events, FL_IO_READ);
    ++*(int *)arg;
}

static void an_event_comes_again_while_it_is_wanted(void **state)
{
    static world w;
    fl_stream *s;
    int n = 0;

    (void)state;
    start_pair(&w, 0);
    s = w.servers[0].s;
    s->ready = count_events;
    s->arg = &n;
    run_for(&w, 10);
    assert_int_equal(n, 0);
    w.clients[0].to_send = 1;
    want(&w.clients[0]);
    run_for(&w, 10);
    assert_true(n > 1);
    s->ops->want(s, 0);
    n = 0;
    run_for(&w, 10);
    assert_int_equal(n, 0);
    finish(&w);
}

/* --- ends ---------------------------------------------------------------- */

static void a_closed_stream_gives_its_last_bytes_first(void **state)
{
    static world w;
    peer *c = &w.clients[0], *s = &w.servers[0];

    (void)state;
    start(&w, &(fl_sim_faults){ .seed = 4, .delay_hi_ms = 40 });
    dial(&w);
    run_for(&w, 200);
    c->to_send = 50000;
    give_some(c);
    leave(c);
    run_for(&w, 200);
    assert_int_equal(s->got, 50000);
    assert_true(s->is_gone);
    finish(&w);
}

static void both_ends_see_a_cut(void **state)
{
    static world w;
    enum { N = 40 };
    int n_apart = 0;

    (void)state;
    start(&w,
          &(fl_sim_faults){ .seed = 2, .delay_hi_ms = 5, .bytes_per_ms = 900 });
    w.to_send = UINT64_MAX;
    for (int i = 0; i < N; i++) {
        dial(&w);
        run_for(&w, 20); /* one by one: equal numbers are a pair */
    }
    assert_int_equal(w.n_accepted, N);
    fl_sim_cut_all(w.sim);
    assert_int_equal(fl_sim_cuts(w.sim), N);
    for (int i = 0; i < 2000; i++) {
        run_for(&w, 1);
        for (int k = 0; k < N; k++)
            n_apart += w.clients[k].is_gone != w.servers[k].is_gone;
    }
    assert_true(n_apart > 0); /* one knew, the other did not */
    for (int k = 0; k < N; k++) {
        assert_true(w.clients[k].is_gone && w.servers[k].is_gone);
        assert_true(w.clients[k].got < w.servers[k].sent);
    }
    finish(&w);
}

static void connections_are_cut_after_so_many_bytes_on_average(void **state)
{
    static world w;
    enum { N = 200, MEAN = 50000 };
    uint64_t bytes = 0;

    (void)state;
    start(&w, &(fl_sim_faults){ .seed = 2, .cut_after_bytes = MEAN });
    w.to_send = UINT64_MAX;
    for (int i = 0; i < N; i++)
        dial(&w);
    run_for(&w, 5000);
    assert_int_equal(fl_sim_cuts(w.sim), N);
    for (int i = 0; i < N; i++) {
        assert_true(w.clients[i].is_gone && w.servers[i].is_gone);
        bytes += w.clients[i].got + w.servers[i].got;
    }
    assert_in_range(bytes / N, MEAN * 3 / 4, MEAN * 5 / 4);
    finish(&w);
}

static void faults_change_from_now_on(void **state)
{
    static world w;
    fl_sim_faults f = { .seed = 1, .bytes_per_ms = 1000 };

    (void)state;
    start(&w, &f);
    w.to_send = UINT64_MAX;
    dial(&w);
    run_for(&w, 50);
    f.cut_after_bytes = 1000000;
    fl_sim_set_faults(w.sim, &f);
    f.cut_after_bytes = 0;
    fl_sim_set_faults(w.sim, &f);
    run_for(&w, 5000);
    assert_int_equal(fl_sim_cuts(w.sim), 0);
    f.cut_after_bytes = 10000;
    f.refuse_share = 1;
    fl_sim_set_faults(w.sim, &f);
    dial(&w);
    run_for(&w, 5000);
    assert_int_equal(fl_sim_cuts(w.sim), 1);
    assert_true(w.clients[0].is_gone && w.servers[0].is_gone);
    assert_int_equal(w.n_failed, 1);
    finish(&w);
}

static void a_break_is_told_even_when_nothing_is_wanted(void **state)
{
    static world w;
    fl_stream *s;
    uint8_t b;

    (void)state;
    start_pair(&w, 0);
    w.are_deaf = true;
    enter(&w, &w.clients[0], w.clients[0].s);
    s = w.clients[0].s;
    fl_sim_cut_all(w.sim);
    run_for(&w, 2000);
    assert_int_equal(w.clients[0].n_told, 1);
    assert_int_equal(s->ops->read(s, &b, 1), FL_STREAM_GONE);
    assert_non_null(strstr(fl_last_error(), SERVER));
    finish(&w);
}

static void a_write_into_the_void_is_bounded(void **state)
{
    static world w;
    peer *c = &w.clients[0];

    (void)state;
    start_pair(&w, 0);
    fl_sim_cut_all(w.sim);
    c->to_send = 3 * RING_BYTES;
    give_some(c);
    assert_false(c->is_gone);
    assert_int_equal(c->sent, RING_BYTES);
    run_for(&w, 2000);
    assert_true(c->is_gone);
    assert_int_equal(w.servers[0].got, 0);
    finish(&w);
}

/* --- dials --------------------------------------------------------------- */

static void a_share_of_dials_is_refused(void **state)
{
    static world w;
    enum { N = 200 };

    (void)state;
    start(&w, &(fl_sim_faults){ .seed = 3, .refuse_share = 0.3 });
    for (int i = 0; i < N; i++)
        dial(&w);
    assert_int_equal(w.n_failed, 0); /* not from inside the call */
    run_for(&w, 10);
    assert_int_equal(w.n_connected + w.n_failed, N);
    assert_int_equal(w.n_accepted, w.n_connected);
    assert_in_range(w.n_failed, 40, 80);
    finish(&w);
}

static void dialling_where_nobody_listens_fails(void **state)
{
    static world w;

    (void)state;
    start(&w, &(fl_sim_faults){ .seed = 3 });
    dial_to(&w, "server9:1", 1000);
    run_for(&w, 10);
    assert_int_equal(w.n_failed, 1);
    assert_non_null(strstr(fl_last_error(), "server9:1"));
    stop_listening(&w);
    dial(&w);
    run_for(&w, 10);
    assert_int_equal(w.n_failed, 2);
    finish(&w);
}

static void a_dial_that_takes_too_long_fails_in_time(void **state)
{
    static world w;

    (void)state;
    start(&w, &(fl_sim_faults){ .delay_lo_ms = 500, .delay_hi_ms = 500 });
    dial_to(&w, SERVER, 100);
    run_for(&w, 100);
    assert_int_equal(w.n_failed, 0);
    run_for(&w, 1);
    assert_int_equal(w.n_failed, 1);
    assert_int_equal(w.why, FL_ERR_TIMEOUT);
    run_for(&w, 5000);
    assert_int_equal(w.n_connected + w.n_accepted, 0);
    finish(&w);
}

static void a_cancelled_dial_is_never_told(void **state)
{
    static world w;

    (void)state;
    start(&w, &(fl_sim_faults){ .seed = 1, .delay_hi_ms = 10 });
    w.net->ops->cancel(dial_to(&w, SERVER, 1000));
    run_for(&w, 1000);
    assert_int_equal(w.n_connected + w.n_failed + w.n_accepted, 0);
    finish(&w);
}

static void a_dial_without_memory_fails(void **state)
{
    static world w;

    (void)state;
    start(&w, &(fl_sim_faults){ .seed = 1 });
    dial(&w);
    fl_alloc_fail_after(1);
    run_for(&w, 10);
    fl_alloc_fail_after(0);
    assert_int_equal(w.n_failed, 1);
    assert_non_null(strstr(fl_last_error(), "no memory"));
    finish(&w);
}

static void an_address_is_listened_on_once(void **state)
{
    static world w;
    fl_listener *l = NULL;
    char address[FL_ADDRESS_MAX];

    (void)state;
    start(&w, &(fl_sim_faults){ .seed = 1 });
    assert_int_equal(
        w.net->ops->listen(
            w.net, &(fl_listen_args){ SERVER, w.loops[0], NULL, on_accept, &w },
            &l, address),
        FL_ERR_IO);
    assert_non_null(strstr(fl_last_error(), SERVER));
    assert_int_equal(w.net->ops->listen(w.net,
                                        &(fl_listen_args){ "", w.loops[0], NULL,
                                                           on_accept, &w },
                                        &l, address),
                     FL_ERR_INVAL);
    assert_null(l);
    stop_listening(&w);
    assert_ok(w.net->ops->listen(
        w.net, &(fl_listen_args){ SERVER, w.loops[0], NULL, on_accept, &w },
        &w.listener, address));
    finish(&w);
}

static void a_port_of_0_is_replaced(void **state)
{
    static world w;
    fl_listener *l = NULL;
    char address[FL_ADDRESS_MAX];

    (void)state;
    start(&w, &(fl_sim_faults){ .seed = 1 });
    assert_ok(w.net->ops->listen(
        w.net,
        &(fl_listen_args){ "server0:0", w.loops[0], NULL, on_accept, &w }, &l,
        address));
    assert_string_not_equal(address, "server0:0");
    dial_to(&w, address, 1000);
    run_for(&w, 10);
    assert_int_equal(w.n_connected, 1);
    w.net->ops->unlisten(l);
    finish(&w);
}

/* --- freezing ------------------------------------------------------------ */

static void a_frozen_address_is_silent_until_it_thaws(void **state)
{
    static world w;
    peer *c = &w.clients[0], *s = &w.servers[0];
    uint64_t n_told;

    (void)state;
    start_pair(&w, 0);
    fl_sim_freeze(w.sim, SERVER, true);
    n_told = s->n_told;
    c->to_send = 100;
    want(c);
    s->to_send = 100;
    want(s);
    give_some(s);
    run_for(&w, 5000);
    assert_int_equal(s->n_told, n_told);
    assert_int_equal(s->got + s->sent + c->got, 0);
    assert_false(c->is_gone || s->is_gone);
    fl_sim_freeze(w.sim, SERVER, false);
    run_for(&w, 10);
    assert_int_equal(s->got, 100);
    assert_int_equal(c->got, 100);
    finish(&w);
}

static void a_frozen_address_accepts_after_its_thaw(void **state)
{
    static world w;

    (void)state;
    start(&w, &(fl_sim_faults){ .seed = 1, .delay_hi_ms = 3 });
    fl_sim_freeze(w.sim, SERVER, true);
    w.to_send = 1000;
    dial(&w);
    dial(&w);
    run_for(&w, 1000);
    assert_int_equal(w.n_connected, 2);
    assert_int_equal(w.n_accepted, 0);
    leave(&w.clients[1]);
    fl_sim_freeze(w.sim, SERVER, false);
    run_for(&w, 1000);
    assert_int_equal(w.n_accepted, 2);
    assert_int_equal(w.clients[0].got, 1000);
    finish(&w);
}

static void a_frozen_end_sees_a_cut_after_its_thaw(void **state)
{
    static world w;

    (void)state;
    start_pair(&w, 0);
    fl_sim_freeze(w.sim, SERVER, true);
    fl_sim_cut_all(w.sim);
    run_for(&w, 2000);
    assert_true(w.clients[0].is_gone);
    assert_false(w.servers[0].is_gone);
    fl_sim_freeze(w.sim, SERVER, false);
    run_for(&w, 1);
    assert_true(w.servers[0].is_gone);
    finish(&w);
}

static void connections_that_nobody_accepted_end_with_the_listener(void **state)
{
    static world w;

    (void)state;
    start(&w, &(fl_sim_faults){ .seed = 1 });
    fl_sim_freeze(w.sim, SERVER, true);
    dial(&w);
    run_for(&w, 10);
    assert_int_equal(w.n_connected, 1);
    stop_listening(&w);
    run_for(&w, 10);
    assert_true(w.clients[0].is_gone);
    finish(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_seeds_give_equal_runs),
        cmocka_unit_test(another_seed_gives_another_run),
        cmocka_unit_test(bytes_arrive_whole_and_in_order),
        cmocka_unit_test(a_slow_stream_keeps_its_limit),
        cmocka_unit_test(a_full_stream_waits_for_its_reader),
        cmocka_unit_test(many_small_writes_arrive),
        cmocka_unit_test(an_event_comes_again_while_it_is_wanted),
        cmocka_unit_test(a_closed_stream_gives_its_last_bytes_first),
        cmocka_unit_test(both_ends_see_a_cut),
        cmocka_unit_test(connections_are_cut_after_so_many_bytes_on_average),
        cmocka_unit_test(faults_change_from_now_on),
        cmocka_unit_test(a_break_is_told_even_when_nothing_is_wanted),
        cmocka_unit_test(a_write_into_the_void_is_bounded),
        cmocka_unit_test(a_share_of_dials_is_refused),
        cmocka_unit_test(dialling_where_nobody_listens_fails),
        cmocka_unit_test(a_dial_that_takes_too_long_fails_in_time),
        cmocka_unit_test(a_cancelled_dial_is_never_told),
        cmocka_unit_test(a_dial_without_memory_fails),
        cmocka_unit_test(an_address_is_listened_on_once),
        cmocka_unit_test(a_port_of_0_is_replaced),
        cmocka_unit_test(a_frozen_address_is_silent_until_it_thaws),
        cmocka_unit_test(a_frozen_address_accepts_after_its_thaw),
        cmocka_unit_test(a_frozen_end_sees_a_cut_after_its_thaw),
        cmocka_unit_test(
            connections_that_nobody_accepted_end_with_the_listener),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
