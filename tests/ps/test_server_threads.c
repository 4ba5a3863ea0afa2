/* test_server_threads.c - servers with threads of their own, over real sockets:
 * many requests at once, strangers at the door, and ends at a bad moment. */
#include "server_kit.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rpc/stream/socket.h"

#define TRAINERS 3
#define ROUNDS 60
#define ROWS 4096u /* their values are worth a place in the arena */

static void sim_cluster_open(sim_cluster *c, fl_local_use local, int n_servers,
                             int n_trainers)
{
    fl_socket_options so = { .local = local, .job = 1 };

    *c = (sim_cluster){ 0 };
    assert_ok(fl_net_sockets(&c->net, &so));
    assert_ok(fl_loop_new(&c->loop, "trainers"));
    for (int i = 0; i < KIT_SERVERS; i++)
        (void)snprintf(c->names[i], sizeof(c->names[i]), "127.0.0.1:0");
    sim_cluster_init(c, n_servers, n_trainers);
    c->o.connect_timeout_ms = 60000;
    c->o.restart_timeout_ms = 60000;
    c->o.arena_bytes = 1 << 20;
}

static void sim_cluster_close(sim_cluster *c)
{
    fl_net *net = c->net;
    fl_loop *loop = c->loop;

    sim_cluster_release(c);
    fl_loop_free(loop);
    fl_net_free_sockets(net);
}

/* --- many requests at once ------------------------------------------------ */

typedef struct work {
    answer push[TRAINERS][2][ROUNDS], pull[TRAINERS][2][ROUNDS];
} work;

static void begin_work(sim_cluster *c, trainer *t, work *w)
{
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < TRAINERS * c->o.n_servers; i++) {
            fl_rpc_client *l = t[i % TRAINERS].links[i / TRAINERS];
            fl_pack push = pack_push(1, ROWS, (uint32_t)(round * 100 + i));
            fl_pack pull = pack_pull(1, ROWS);

            send_to(l, FL_MSG_PUSH, ONCE, &push,
                    &w->push[i % TRAINERS][i / TRAINERS][round]);
            send_to(l, FL_MSG_PULL, REPEATED, &pull,
                    &w->pull[i % TRAINERS][i / TRAINERS][round]);
        }
    }
}

/* Values only ever fall, by sums of eighths. */
static void check_values(const answer *a)
{
    const float *v = (const float *)a->bytes;

    assert_int_equal(a->len, ROWS * KIT_DIM * sizeof(float));
    for (size_t i = 0; i < ROWS * KIT_DIM; i++)
        assert_true(v[i] <= 1 && v[i] * 16 == (float)(int)(v[i] * 16));
}

typedef enum wanted { ALL_GOOD, GOOD_OR_NOT } wanted;

static void end_work(sim_cluster *c, work *w, wanted how)
{
    for (int i = 0; i < TRAINERS * c->o.n_servers * ROUNDS; i++) {
        int server = i / TRAINERS % c->o.n_servers;
        int round = i / TRAINERS / c->o.n_servers;
        answer *push = &w->push[i % TRAINERS][server][round];
        answer *pull = &w->pull[i % TRAINERS][server][round];

        await(c, push);
        await(c, pull);
        if (how == ALL_GOOD && push->st)
            fail_msg("%s", push->text);
        if (how == ALL_GOOD && pull->st)
            fail_msg("%s", pull->text);
        if (!pull->st)
            check_values(pull);
        answer_release(push);
        answer_release(pull);
    }
}

static uint64_t run_job(fl_local_use local)
{
    work *w = fl_alloc(sizeof(*w));
    answer met[TRAINERS];
    trainer t[TRAINERS];
    uint64_t hash;
    sim_cluster c;

    sim_cluster_open(&c, local, 2, TRAINERS);
    serve_all(&c);
    for (uint32_t i = 0; i < TRAINERS; i++) {
        trainer_join(&c, &t[i], i, 100 + i);
        declare(&c, &t[i], KIT_TABLE);
    }
    begin_work(&c, t, w);
    for (int i = 0; i < TRAINERS; i++)
        send_barrier(&t[i], "x", 0, &met[i]);
    for (int i = 0; i < TRAINERS; i++)
        expect_answer(&c, &met[i], FL_OK, "");
    end_work(&c, w, ALL_GOOD);
    hash = hash_of(&c, 0) ^ fl_mix64(hash_of(&c, 1));
    for (int i = 0; i < TRAINERS; i++)
        trainer_leave(&c, &t[i]);
    expect_over(&c, FL_OK, "");
    sim_cluster_close(&c);
    fl_free(w);
    return hash;
}

static void threads_and_transports_do_not_change_the_result(void **state)
{
    uint64_t hash;

    (void)state;
    hash = run_job(FL_LOCAL_OFF);
    assert_true(run_job(FL_LOCAL_FORCE) == hash);
}

/* --- strangers ------------------------------------------------------------ */

static int dial(const sim_cluster *c)
{
    struct sockaddr_in a = { .sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const char *port = strrchr(c->names[0], ':') + 1;

    a.sin_port = htons((uint16_t)strtoul(port, NULL, 10));
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    return fd;
}

/* The server ends the connection, whatever it says before. */
static void expect_closed(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    char bytes[4096];

    do
        assert_int_equal(poll(&p, 1, 60000), 1);
    while (recv(fd, bytes, sizeof(bytes), 0) > 0);
    close(fd);
}

static void say_and_be_closed(const sim_cluster *c, const void *bytes, size_t n)
{
    int fd = dial(c);

    assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), n);
    expect_closed(fd);
}

static void pull_some(sim_cluster *c, trainer *t)
{
    fl_pack p = pack_pull(1, 10);

    ask_ok(c, t->links[0], FL_MSG_PULL, REPEATED, &p);
}

static void strangers_are_sent_away_and_others_are_served(void **state)
{
    static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: "
                               "text/html, application/json\r\n\r\n";
    fl_frame huge = { .type = FL_TYPE_HELLO, .length = 10000000000u };
    fl_frame early = { .type = FL_MSG_PULL, .request = 1 };
    uint8_t head[FL_FRAME_BYTES], noise[512];
    trainer t;
    sim_cluster c;

    (void)state;
    sim_cluster_open(&c, FL_LOCAL_OFF, 1, 1);
    serve_all(&c);
    trainer_join(&c, &t, 0, 100);
    declare(&c, &t, KIT_TABLE);
    say_and_be_closed(&c, http, sizeof(http) - 1);
    pull_some(&c, &t);
    for (uint64_t seed = 0; seed < 20; seed++) {
        for (size_t i = 0; i < sizeof(noise); i++)
            noise[i] = (uint8_t)fl_mix64(seed * sizeof(noise) + i);
        say_and_be_closed(&c, noise, sizeof(noise));
    }
    fl_frame_write(&huge, head);
    say_and_be_closed(&c, head, sizeof(head));
    fl_frame_write(&early, head);
    say_and_be_closed(&c, head, sizeof(head));
    pull_some(&c, &t);
    trainer_leave(&c, &t);
    expect_over(&c, FL_OK, "");
    sim_cluster_close(&c);
}

/* A member that announces too much loses its connection, and nothing else. */
static void a_message_that_is_too_large_costs_its_connection(void **state)
{
    fl_pack big = pack_push(1, 200000, 1);
    trainer t[2];
    answer a;
    sim_cluster c;

    (void)state;
    sim_cluster_open(&c, FL_LOCAL_OFF, 1, 2);
    serve_all(&c);
    trainer_join(&c, &t[0], 0, 100);
    trainer_join(&c, &t[1], 1, 101);
    declare(&c, &t[0], KIT_TABLE);
    send_to(t[0].links[0], FL_MSG_PUSH, ONCE, &big, &a);
    for (int i = 0; i < 20; i++)
        pull_some(&c, &t[1]);
    close_link(&c, t[0].links[0]);
    t[0].links[0] = NULL;
    expect_answer(&c, &a, FL_ERR_CLOSED, "");
    trainer_die(&c, &t[0]);
    trainer_die(&c, &t[1]);
    sim_cluster_close(&c);
}

/* Both ends of a connection are in this process. */
static int allowed_connections(int most)
{
    struct rlimit r;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &r), 0);
    r.rlim_cur = r.rlim_max < 8192 ? r.rlim_max : 8192;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &r), 0);
    return (int)r.rlim_cur / 2 - 100 < most ? (int)r.rlim_cur / 2 - 100 : most;
}

static void idle_connections_do_not_keep_others_out(void **state)
{
    int n = allowed_connections(1000);
    int *fds = fl_alloc((size_t)n * sizeof(*fds));
    trainer t;
    sim_cluster c;

    (void)state;
    sim_cluster_open(&c, FL_LOCAL_OFF, 1, 1);
    c.o.max_connections = n - 100;
    serve_all(&c);
    for (int i = 0; i < n; i++)
        fds[i] = dial(&c);
    trainer_join(&c, &t, 0, 100);
    declare(&c, &t, KIT_TABLE);
    for (int i = 0; i < 20; i++)
        pull_some(&c, &t);
    trainer_leave(&c, &t);
    expect_over(&c, FL_OK, "");
    sim_cluster_close(&c);
    for (int i = 0; i < n; i++)
        close(fds[i]);
    fl_free(fds);
}

/* --- ends at a bad moment ------------------------------------------------- */

typedef struct busy {
    sim_cluster c;
    trainer t[TRAINERS];
    work *w;
    answer met;
} busy;

static void be_busy(busy *b, uint64_t restart_timeout_ms)
{
    b->w = fl_alloc(sizeof(*b->w));
    sim_cluster_open(&b->c, FL_LOCAL_AUTO, 2, TRAINERS);
    b->c.o.restart_timeout_ms = restart_timeout_ms;
    serve_all(&b->c);
    for (uint32_t i = 0; i < TRAINERS; i++)
        trainer_join(&b->c, &b->t[i], i, 100 + i);
    declare(&b->c, &b->t[0], KIT_TABLE);
    begin_work(&b->c, b->t, b->w);
    send_barrier(&b->t[0], "x", 0, &b->met);
    await(&b->c, &b->w->push[0][0][0]);
}

static void be_done(busy *b)
{
    for (int i = 0; i < TRAINERS; i++)
        trainer_die(&b->c, &b->t[i]);
    end_work(&b->c, b->w, GOOD_OR_NOT);
    await(&b->c, &b->met);
    assert_true(b->met.st != FL_OK);
    answer_release(&b->met);
    sim_cluster_close(&b->c);
    fl_free(b->w);
}

static void a_server_that_is_stopped_at_work_ends_in_order(void **state)
{
    busy b;

    (void)state;
    be_busy(&b, 60000);
    fl_server_stop(b.c.servers[0]);
    expect_over(&b.c, FL_OK, "");
    be_done(&b);
}

static void servers_may_be_freed_while_they_work(void **state)
{
    busy b;

    (void)state;
    be_busy(&b, 60000);
    close_server(&b.c, 0);
    close_server(&b.c, 1);
    be_done(&b);
}

static void without_server_0_a_server_ends_and_names_it(void **state)
{
    busy b;

    (void)state;
    be_busy(&b, 300);
    close_server(&b.c, 0);
    assert_true(fl_server_wait(b.c.servers[1]) != FL_OK);
    assert_text(fl_last_error(), "server 0");
    be_done(&b);
}

static void a_tool_ends_the_servers(void **state)
{
    fl_rpc_client *tool;
    busy b;

    (void)state;
    be_busy(&b, 60000);
    tool = open_tool(&b.c, 0);
    ask_ok(&b.c, tool, FL_MSG_SHUTDOWN, REPEATED, NULL);
    close_link(&b.c, tool);
    expect_over(&b.c, FL_OK, "");
    be_done(&b);
}

static void a_port_that_is_taken_is_an_error(void **state)
{
    fl_server *s = NULL;
    sim_cluster c;

    (void)state;
    sim_cluster_open(&c, FL_LOCAL_OFF, 1, 1);
    serve_all(&c);
    assert_int_equal(try_serve(&c, 0, &s), FL_ERR_BUSY);
    assert_text(fl_last_error(), c.names[0]);
    assert_null(s);
    sim_cluster_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_and_transports_do_not_change_the_result),
        cmocka_unit_test(strangers_are_sent_away_and_others_are_served),
        cmocka_unit_test(a_message_that_is_too_large_costs_its_connection),
        cmocka_unit_test(idle_connections_do_not_keep_others_out),
        cmocka_unit_test(a_server_that_is_stopped_at_work_ends_in_order),
        cmocka_unit_test(servers_may_be_freed_while_they_work),
        cmocka_unit_test(without_server_0_a_server_ends_and_names_it),
        cmocka_unit_test(a_tool_ends_the_servers),
        cmocka_unit_test(a_port_that_is_taken_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
