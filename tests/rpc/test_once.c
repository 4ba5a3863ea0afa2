/* test_once.c - exactly once, in order, whatever breaks. */
#include "host_kit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rpc/stream/socket.h"
#include "rpc/server/session.h"

static uint64_t sum_to(uint64_t n)
{
    return n * (n + 1) / 2;
}

/* --- in the simulation ---------------------------------------------------- */

static void push_through_cuts(uint64_t seed, size_t n, uint64_t bytes,
                              uint64_t cuts)
{
    fl_sim_faults f = { .seed = seed,
                        .delay_hi_ms = 3,
                        .cut_after_bytes = bytes,
                        .refuse_share = 0.1 };
    fl_rpc_client_options o = kit_link_options(0);
    const fl_rpc_client_stats *counts;
    stage s;
    client c;

    stage_init(&s, &f);
    s.b.later = s.loop;
    stage_client(&s, &c, &o);
    client_make_numbers(&c, n);
    client_push(&c, n, 0);
    for (int i = 0; i < 3600 && atomic_load(&c.n_ok) < n && !c.st; i++)
        stage_run(&s, 1000);
    if (c.st)
        fail_msg("%s", c.text);
    assert_int_equal(atomic_load(&c.n_ok), n);
    assert_int_equal(s.b.n_pushes, n);
    assert_int_equal(s.b.sum, sum_to(n));
    assert_false(s.b.is_out_of_order);
    counts = fl_rpc_client_stats_of(c.l);
    assert_true(fl_sim_cuts(s.sim) >= cuts);
    assert_int_equal(counts->waiting, 0);
    assert_true(counts->sent_again > 0 && counts->reconnects > 0);
    client_close(&c);
    stage_run(&s, 1000);
    stage_release(&s);
}

static void many_pushes_through_a_thousand_cuts_are_applied_once(void **state)
{
    (void)state;
    push_through_cuts(1, 100000, 11000, 1000);
}

static void any_seed_will_do(void **state)
{
    (void)state;
    for (uint64_t seed = 10; seed < 30; seed++)
        push_through_cuts(seed, 2000, 2000 + 300 * seed, 10);
}

/* Each request that was taken in before the cut is answered by what is
   remembered of it, or by the reply that is still owed. */
static void a_repetition_waits_for_a_reply_that_is_owed(void **state)
{
    fl_sim_faults f = { .seed = 2, .delay_hi_ms = 2 };
    fl_rpc_client_options o = kit_link_options(0);
    stage s;
    client c;

    (void)state;
    stage_init(&s, &f);
    s.b.owes_pushes = true;
    stage_client(&s, &c, &o);
    client_make_numbers(&c, 10);
    client_push(&c, 10, 0);
    stage_run(&s, 1000);
    assert_int_equal(s.b.owed.len, 10);
    fl_sim_cut_all(s.sim);
    stage_run(&s, 1000);
    assert_string_equal(c.states, "UDU");
    assert_int_equal(s.b.owed.len, 10);
    assert_int_equal(atomic_load(&c.n_ok), 0);
    book_pay(&s.b);
    stage_run(&s, 1000);
    assert_int_equal(atomic_load(&c.n_ok), 10);
    assert_int_equal(s.b.sum, 55);
    client_close(&c);
    stage_release(&s);
}

static void a_reply_that_was_lost_is_remembered(void **state)
{
    fl_sim_faults f = { .seed = 3, .delay_hi_ms = 2 };
    fl_rpc_client_options o = kit_link_options(0);
    stage s;
    client c;

    (void)state;
    stage_init(&s, &f);
    s.b.owes_pushes = true;
    stage_client(&s, &c, &o);
    client_make_numbers(&c, 10);
    client_push(&c, 10, 0);
    stage_run(&s, 1000);
    fl_sim_cut_all(s.sim);
    assert_int_equal(book_pay(&s.b), 10);
    stage_run(&s, 1000);
    assert_int_equal(atomic_load(&c.n_ok), 10);
    assert_int_equal(s.b.owed.len, 0);
    assert_int_equal(s.b.sum, 55);
    client_close(&c);
    stage_release(&s);
}

/* The server forgets results beyond the last 128; one that waits for long must
   not be among them. */
static void no_number_runs_away_from_one_without_a_reply(void **state)
{
    fl_sim_faults f = { .seed = 4, .delay_hi_ms = 2 };
    fl_rpc_client_options o = kit_link_options(0);
    fl_reply *first;
    stage s;
    client c;

    (void)state;
    stage_init(&s, &f);
    s.b.owes_pushes = true;
    stage_client(&s, &c, &o);
    client_make_numbers(&c, 500);
    client_push(&c, 1, 0);
    stage_run(&s, 100);
    assert_int_equal(s.b.owed.len, 1);
    first = s.b.owed.data[0];
    s.b.owed.len = 0;
    s.b.owes_pushes = false;
    client_push(&c, 499, 0);
    stage_run(&s, 2000);
    assert_int_equal(s.b.n_pushes, FL_RPC_SERVER_RESULTS);
    fl_sim_cut_all(s.sim);
    stage_run(&s, 2000);
    fl_reply_send(first, NULL, 0);
    stage_run(&s, 2000);
    assert_int_equal(atomic_load(&c.n_ok), 500);
    assert_int_equal(s.b.sum, sum_to(500));
    assert_false(s.b.is_out_of_order);
    client_close(&c);
    stage_release(&s);
}

/* A number that was given cannot be taken back: the server must be able to
   count over it. */
static void a_push_that_ran_out_of_time_leaves_no_gap(void **state)
{
    fl_sim_faults f = { .seed = 5, .delay_hi_ms = 2 };
    fl_sim_faults far = { .delay_lo_ms = 1000, .delay_hi_ms = 1000 };
    fl_rpc_client_options o = kit_link_options(0);
    stage s;
    client c;

    (void)state;
    stage_init(&s, &f);
    stage_client(&s, &c, &o);
    client_make_numbers(&c, 20);
    client_push(&c, 5, 0);
    stage_run(&s, 1000);
    fl_sim_set_faults(s.sim, &far);
    client_push(&c, 5, 300);
    stage_run(&s, 500);
    assert_int_equal(atomic_load(&c.n_bad), 5);
    assert_int_equal(c.st, FL_ERR_TIMEOUT);
    fl_sim_cut_all(s.sim); /* what was under way is lost */
    fl_sim_set_faults(s.sim, &f);
    s.b.last[0] = 10;
    client_push(&c, 10, 0);
    stage_run(&s, 5000);
    assert_int_equal(atomic_load(&c.n_ok), 15);
    assert_false(s.b.is_out_of_order);
    assert_int_equal(s.b.n_pushes, 15);
    client_close(&c);
    stage_release(&s);
}

static void count_release(void *data)
{
    ++*(int *)data;
}

static fl_server_conn *no_peer(void)
{
    return NULL;
}

/* Without a connection: marks alone. */
static void a_session_knows_new_old_and_wrong_numbers(void **state)
{
    fl_sim *sim = fl_sim_new(&(fl_sim_faults){ .seed = 6 });
    fl_identity id = { .role = FL_MEMBER_TRAINER };
    fl_session *s = fl_session_new(&id, fl_sim_loop(sim));
    fl_remembered r = { .len = 1 };
    fl_frame f = { .sequence = 5 };
    int released = 0;

    (void)state;
    fl_session_set(s, &released, count_release);
    fl_session_restore(s, 5);
    assert_int_equal(fl_session_last(s), 5);
    assert_int_equal(fl_session_take(s, no_peer(), &f, &r), FL_ONCE_KNOWN);
    assert_int_equal(r.len, 0);
    f.sequence = 7;
    assert_int_equal(fl_session_take(s, no_peer(), &f, &r), FL_ONCE_WRONG);
    assert_says("gap");
    fl_session_unref(s);
    assert_int_equal(released, 1);
    fl_sim_free(sim);
}

/* --- over sockets --------------------------------------------------------- */

#define PROXY_CONNS 32
#define PROXY_BYTES 4096

/* A thread between clients and the server that cuts connections. */
typedef struct proxy {
    fl_thread *thread;
    int door, stop[2];
    uint16_t port, to;
    atomic_uint n_cuts;
    unsigned max_cuts;
    uint64_t dice, bytes_per_cut;
    int n;
    struct {
        int fd[2];
        uint64_t left; /* bytes until it is cut */
    } conns[PROXY_CONNS];
} proxy;

static int listen_locally(uint16_t *port)
{
    struct sockaddr_in a = { .sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, len), 0);
    assert_int_equal(listen(fd, 64), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    *port = ntohs(a.sin_port);
    return fd;
}

static void proxy_accept(proxy *p)
{
    struct sockaddr_in a = { .sin_family = AF_INET,
                             .sin_port = htons(p->to),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int in = accept4(p->door, NULL, NULL, SOCK_CLOEXEC);
    int out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (in < 0 || out < 0 || p->n == PROXY_CONNS ||
        connect(out, (struct sockaddr *)&a, sizeof(a)) != 0) {
        close(in);
        close(out);
        return;
    }
    p->conns[p->n].fd[0] = in;
    p->conns[p->n].fd[1] = out;
    p->conns[p->n].left = 1 + fl_mix64(++p->dice) % (2 * p->bytes_per_cut);
    p->n++;
}

static void proxy_end(proxy *p, int i)
{
    close(p->conns[i].fd[0]);
    close(p->conns[i].fd[1]);
    p->conns[i] = p->conns[--p->n];
}

static bool write_all(int fd, const uint8_t *from, size_t n)
{
    while (n) {
        ssize_t w = send(fd, from, n, MSG_NOSIGNAL);

        if (w <= 0)
            return false;
        from += w;
        n -= (size_t)w;
    }
    return true;
}

/* Moves bytes one way; false when the connection is to end. */
static bool proxy_move(proxy *p, int i, int side)
{
    uint8_t bytes[PROXY_BYTES];
    bool may_cut = atomic_load(&p->n_cuts) < p->max_cuts;
    ssize_t n = recv(p->conns[i].fd[side], bytes, sizeof(bytes), 0);

    if (n <= 0)
        return false;
    if (may_cut && (uint64_t)n >= p->conns[i].left) {
        (void)write_all(p->conns[i].fd[!side], bytes,
                        (size_t)p->conns[i].left - 1);
        atomic_fetch_add(&p->n_cuts, 1);
        return false;
    }
    if (may_cut)
        p->conns[i].left -= (uint64_t)n;
    return write_all(p->conns[i].fd[!side], bytes, (size_t)n);
}

static void proxy_main(void *arg)
{
    proxy *p = arg;

    for (;;) {
        struct pollfd f[2 + 2 * PROXY_CONNS] = {
            { .fd = p->stop[0], .events = POLLIN },
            { .fd = p->door, .events = POLLIN },
        };
        int n = p->n;

        for (int i = 0; i < 2 * n; i++)
            f[2 + i] = (struct pollfd){ .fd = p->conns[i / 2].fd[i % 2],
                                        .events = POLLIN };
        if (poll(f, (nfds_t)(2 + 2 * n), -1) < 0 && errno != EINTR)
            break;
        if (f[0].revents)
            break;
        for (int i = n - 1; i >= 0; i--)
            if ((f[2 + 2 * i].revents && !proxy_move(p, i, 0)) ||
                (f[3 + 2 * i].revents && !proxy_move(p, i, 1)))
                proxy_end(p, i);
        if (f[1].revents)
            proxy_accept(p);
    }
    while (p->n)
        proxy_end(p, 0);
}

static void proxy_start(proxy *p, const char *address, unsigned cuts,
                        uint64_t bytes_per_cut)
{
    unsigned port;

    *p = (proxy){ .max_cuts = cuts, .bytes_per_cut = bytes_per_cut };
    assert_int_equal(sscanf(strrchr(address, ':'), ":%u", &port), 1);
    p->to = (uint16_t)port;
    p->door = listen_locally(&p->port);
    assert_int_equal(pipe(p->stop), 0);
    assert_ok(fl_thread_start(&p->thread, "proxy", proxy_main, p));
}

static void proxy_stop(proxy *p)
{
    assert_int_equal(write(p->stop[1], "x", 1), 1);
    fl_thread_join(p->thread);
    close(p->door);
    close(p->stop[0]);
    close(p->stop[1]);
}

typedef struct net_pair {
    fl_net *net;
    fl_loop *serve[2], *ask[2], *pay;
    fl_rpc_server *host;
    book b;
    char address[FL_ADDRESS_MAX];
    char by_proxy[FL_ADDRESS_MAX];
    proxy p;
} net_pair;

static void net_pair_init(net_pair *t, unsigned cuts, uint64_t bytes_per_cut)
{
    fl_socket_options so = { .local = FL_LOCAL_OFF };
    fl_rpc_server_options o = kit_host_options();

    *t = (net_pair){ 0 };
    book_init(&t->b);
    assert_ok(fl_net_sockets(&t->net, &so));
    assert_ok(fl_loop_new(&t->serve[0], "serve0"));
    assert_ok(fl_loop_new(&t->serve[1], "serve1"));
    assert_ok(fl_loop_new(&t->ask[0], "ask0"));
    assert_ok(fl_loop_new(&t->ask[1], "ask1"));
    assert_ok(fl_loop_new(&t->pay, "pay"));
    o.listen = "127.0.0.1:0";
    o.loops = t->serve;
    o.n_loops = 2;
    o.events = &book_events;
    o.arg = &t->b;
    t->b.later = t->pay; /* replies come from a third thread */
    assert_ok(fl_rpc_server_new(&t->host, t->net, &o, t->address));
    proxy_start(&t->p, t->address, cuts, bytes_per_cut);
    snprintf(t->by_proxy, sizeof(t->by_proxy), "127.0.0.1:%u", t->p.port);
}

static void net_pair_release(net_pair *t)
{
    fl_rpc_server_free(t->host);
    proxy_stop(&t->p);
    fl_loop_free(t->pay);
    fl_loop_free(t->ask[0]);
    fl_loop_free(t->ask[1]);
    fl_loop_free(t->serve[0]);
    fl_loop_free(t->serve[1]);
    fl_net_free_sockets(t->net);
    book_release(&t->b);
}

static void pushes_over_tcp_survive_a_hundred_cuts(void **state)
{
    const size_t n = 10000;
    fl_rpc_client_options o = kit_link_options(0);
    client c;
    net_pair t;

    (void)state;
    net_pair_init(&t, 100, 8000);
    client_open(&c, t.ask[0], t.net, t.by_proxy, &o);
    client_make_numbers(&c, n);
    client_push(&c, n, 0);
    gate_wait(&c.answers, n);
    assert_int_equal(atomic_load(&c.n_ok), n);
    assert_int_equal(t.b.sum, sum_to(n));
    assert_false(t.b.is_out_of_order);
    assert_int_equal(atomic_load(&t.p.n_cuts), 100);
    in_loop(t.ask[0], client_free_link, &c);
    client_release(&c);
    net_pair_release(&t);
}

#define LINKS 8

static void eight_links_and_two_loops_do_not_mix(void **state)
{
    const size_t n = 1000;
    client c[LINKS];
    net_pair t;

    (void)state;
    net_pair_init(&t, 60, 8000);
    for (uint32_t i = 0; i < LINKS; i++) {
        fl_rpc_client_options o = kit_link_options(i);

        client_open(&c[i], t.ask[i % 2], t.net, t.by_proxy, &o);
        client_make_numbers(&c[i], n);
        client_push(&c[i], n, 0);
    }
    for (int i = 0; i < LINKS; i++) {
        fl_rpc_client_info info;

        fl_rpc_client_get(c[i].l, &info);
        gate_wait(&c[i].answers, n);
        assert_int_equal(atomic_load(&c[i].n_ok), n);
    }
    assert_int_equal(t.b.sum, LINKS * sum_to(n));
    assert_false(t.b.is_out_of_order);
    for (int i = 0; i < LINKS; i++) {
        in_loop(t.ask[i % 2], client_free_link, &c[i]);
        client_release(&c[i]);
    }
    net_pair_release(&t);
}

static void nothing(void *arg)
{
    (void)arg;
}

static void ask_for_pieces(client *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fl_rpc_client_call(c->l, &(fl_rpc_call){ .type = TYPE_PIECES,
                                                 .once = i % 2 == 0,
                                                 .on_reply = client_answer,
                                                 .arg = c });
}

/* By another thread, remembered or not, through cuts. */
static void replies_in_pieces_come_whole_and_their_memory_back(void **state)
{
    const size_t n = 2000;
    fl_rpc_client_options o = kit_link_options(0);
    client c;
    net_pair t;

    (void)state;
    net_pair_init(&t, 10, 8000);
    client_open(&c, t.ask[0], t.net, t.by_proxy, &o);
    ask_for_pieces(&c, n);
    gate_wait(&c.answers, n);
    assert_int_equal(atomic_load(&c.n_ok), n);
    assert_int_equal(atomic_load(&c.n_twelve), n);
    in_loop(t.ask[0], client_free_link, &c);
    client_release(&c);
    fl_rpc_server_free(t.host);
    t.host = NULL;
    in_loop(t.pay, nothing, NULL);
    assert_true(atomic_load(&t.b.n_returned) >= n);
    net_pair_release(&t);
}

/* The host goes while requests are under way; the links fail in order. */
static void a_host_may_go_at_any_moment(void **state)
{
    fl_rpc_client_options o = kit_link_options(0);
    client c;
    net_pair t;

    (void)state;
    net_pair_init(&t, 0, 1);
    o.restart_timeout_ms = 300;
    client_open(&c, t.ask[0], t.net, t.address, &o);
    client_make_numbers(&c, 5000);
    client_push(&c, 5000, 0);
    gate_wait(&c.answers, 100);
    fl_rpc_server_free(t.host);
    t.host = NULL;
    gate_wait(&c.answers, 5000);
    in_loop(t.ask[0], client_free_link, &c);
    client_release(&c);
    net_pair_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_pushes_through_a_thousand_cuts_are_applied_once),
        cmocka_unit_test(any_seed_will_do),
        cmocka_unit_test(a_repetition_waits_for_a_reply_that_is_owed),
        cmocka_unit_test(a_reply_that_was_lost_is_remembered),
        cmocka_unit_test(no_number_runs_away_from_one_without_a_reply),
        cmocka_unit_test(a_push_that_ran_out_of_time_leaves_no_gap),
        cmocka_unit_test(a_session_knows_new_old_and_wrong_numbers),
        cmocka_unit_test(pushes_over_tcp_survive_a_hundred_cuts),
        cmocka_unit_test(eight_links_and_two_loops_do_not_mix),
        cmocka_unit_test(replies_in_pieces_come_whole_and_their_memory_back),
        cmocka_unit_test(a_host_may_go_at_any_moment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
