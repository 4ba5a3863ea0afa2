/* test_listen.c - addresses, listening and dialling, and how they fail. */
#include "net_kit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/file.h"
#include "base/log.h"
#include "rpc/stream/address.h"

#define N_DIALS 40
#define N_FILLERS 16

static char folder[] = "/tmp/flotilla_listen_XXXXXX";
static char path[64], unix_address[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/door", folder);
    snprintf(unix_address, sizeof(unix_address), "unix:%s/door", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static const fl_socket_options automatic = { .job = 0x99 };
static const fl_socket_options off = { .local = FL_LOCAL_OFF };

static void expect_refused(net_pair *t, const char *address, const char *said)
{
    char out[FL_ADDRESS_MAX] = "old";

    assert_int_not_equal(
        t->net->ops->listen(
            t->net,
            &(fl_listen_args){ address, t->loops[0], NULL, net_pair_accept, t },
            &t->door, out),
        FL_OK);
    assert_says(said);
    assert_null(t->door);
    assert_string_equal(out, "old");
}

/* --- addresses ------------------------------------------------------------ */

static void good_addresses_pass_and_come_back(void **state)
{
    static const char *const texts[] = {
        "127.0.0.1:6174",       "node-3.example.org:1", "server0:1",
        "[::1]:65535",          "[fe80::1%eth0]:7",     "0.0.0.0:0",
        "unix:/tmp/some where", "unix:relative",
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(texts); i++) {
        fl_address a;
        char text[FL_ADDRESS_MAX];

        assert_ok(fl_address_check(texts[i]));
        assert_ok(fl_address_parse(&a, texts[i]));
        fl_address_text(&a, text);
        assert_string_equal(text, texts[i]);
    }
}

static void bad_addresses_are_refused(void **state)
{
    static const char *const texts[][2] = {
        { "", "has no port" },
        { "host", "has no port" },
        { "host:", "no port from 0 to 65535" },
        { "host:65536", "no port from 0 to 65535" },
        { "host:1x", "no port from 0 to 65535" },
        { "host:-1", "no port from 0 to 65535" },
        { "host:99999999999", "no port from 0 to 65535" },
        { ":80", "has no host" },
        { "a b:80", "has no host, or a character" },
        { "::1:80", "several colons" },
        { "[::1]", "no ']:'" },
        { "[::1:80", "no ']:'" },
        { "[host]:80", "no V6 address" },
        { "unix:", "has no path" },
    };
    char long_text[400];

    (void)state;
    for (size_t i = 0; i < FL_LEN(texts); i++) {
        assert_int_equal(fl_address_check(texts[i][0]), FL_ERR_INVAL);
        assert_says(texts[i][1]);
    }
    memset(long_text, 'a', sizeof(long_text));
    snprintf(long_text + 350, 50, ":80");
    assert_int_equal(fl_address_check(long_text), FL_ERR_INVAL);
    assert_says("longer than 127");
    memcpy(long_text, "unix:", 5);
    long_text[120] = '\0';
    assert_int_equal(fl_address_check(long_text), FL_ERR_INVAL);
    assert_says("longer than a UNIX socket's");
}

/* --- listening ------------------------------------------------------------ */

static void a_port_that_is_taken_is_an_error(void **state)
{
    net_pair a, b;

    (void)state;
    net_pair_init(&a, &automatic);
    net_pair_init(&b, &automatic);
    net_pair_listen(&a, "127.0.0.1:0");
    expect_refused(&b, a.address, "is taken by another process");
    assert_says(a.address);
    expect_refused(&b, "192.0.2.1:0", "cannot listen on 192.0.2.1:0");
    expect_refused(&b, "nonsense", "has no port");
    net_pair_release(&b);
    net_pair_release(&a);
}

static void a_port_is_free_again_after_its_listener(void **state)
{
    net_pair t;

    (void)state;
    net_pair_init(&t, &automatic);
    net_pair_listen(&t, "127.0.0.1:0");
    for (int i = 0; i < 3; i++) {
        char again[FL_ADDRESS_MAX];

        net_pair_connect(&t, t.address);
        net_pair_close(t.dialled);
        t.dialled = NULL;
        memcpy(again, t.address, sizeof(again));
        t.net->ops->unlisten(t.door);
        t.door = NULL;
        net_pair_fails(&t, again, "cannot connect");
        net_pair_listen(&t, again);
        assert_string_equal(t.address, again);
    }
    net_pair_release(&t);
}

static fl_loop *in_turn(void *arg)
{
    static size_t n_chosen;
    const net_pair *t = arg;

    return t->loops[n_chosen++ % 2];
}

static void streams_go_to_the_loops_that_are_chosen(void **state)
{
    net_pair t;
    int n_first = 0;

    (void)state;
    net_pair_init(&t, &off);
    assert_ok(
        t.net->ops->listen(t.net,
                           &(fl_listen_args){ "127.0.0.1:0", t.loops[0],
                                              in_turn, net_pair_accept, &t },
                           &t.door, t.address));
    for (size_t i = 0; i < N_DIALS; i++) {
        net_pair_connect(&t, t.address);
        net_pair_close(t.dialled);
        t.dialled = NULL;
        assert_ptr_equal(t.accepted[i]->loop, t.loops[i % 2]);
        n_first += t.accepted[i]->loop == t.loops[0];
    }
    assert_int_equal(n_first, N_DIALS / 2);
    assert_false(t.accepted_elsewhere);
    net_pair_release(&t);
}

static void accept_and_end(void *arg, fl_stream *s)
{
    net_pair *t = arg;

    t->net->ops->unlisten(t->door);
    t->door = NULL;
    net_pair_accept(t, s);
}

static void a_listener_may_end_in_its_own_callback(void **state)
{
    net_pair t;

    (void)state;
    net_pair_init(&t, &automatic);
    assert_ok(t.net->ops->listen(t.net,
                                 &(fl_listen_args){ "127.0.0.1:0", t.loops[0],
                                                    NULL, accept_and_end, &t },
                                 &t.door, t.address));
    net_pair_connect(&t, t.address);
    assert_null(t.door);
    net_pair_close(t.dialled);
    t.dialled = NULL;
    net_pair_fails(&t, t.address, "cannot connect");
    net_pair_release(&t);
}

/* --- socket files --------------------------------------------------------- */

static bool there_is_a_file(void)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

static void a_socket_file_comes_and_goes_with_its_listener(void **state)
{
    net_pair t;
    struct stat st;

    (void)state;
    net_pair_init(&t, &automatic);
    net_pair_listen(&t, unix_address);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(st.st_mode & 0077, 0);
    t.net->ops->unlisten(t.door);
    t.door = NULL;
    assert_false(there_is_a_file());
    net_pair_fails(&t, unix_address, "No such file");
    net_pair_release(&t);
}

static void a_stale_socket_file_is_replaced_and_a_live_one_is_not(void **state)
{
    net_pair a, b;
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)state;
    memcpy(un.sun_path, path, strlen(path) + 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
    close(fd); /* as after a process that was killed */
    assert_true(there_is_a_file());
    net_pair_init(&a, &automatic);
    net_pair_init(&b, &automatic);
    net_pair_listen(&a, unix_address);
    expect_refused(&b, unix_address, "another process listens there");
    net_pair_connect(&a, unix_address);
    net_pair_release(&b);
    assert_true(there_is_a_file());
    net_pair_release(&a);
    assert_false(there_is_a_file());
}

static void a_file_that_is_no_socket_is_left_alone(void **state)
{
    net_pair t;

    (void)state;
    assert_ok(fl_file_write(path, "text", 4));
    net_pair_init(&t, &automatic);
    expect_refused(&t, unix_address, "a file that is no socket");
    assert_true(there_is_a_file());
    unlink(path);
    net_pair_listen(&t, unix_address);
    unlink(path);
    assert_ok(fl_file_write(path, "text", 4));
    net_pair_release(&t);
    assert_true(there_is_a_file());
    unlink(path);
}

/* --- no descriptors left -------------------------------------------------- */

static void count_line(void *arg, fl_log_level level, const char *area,
                       const char *text)
{
    (void)level;
    (void)area;
    if (strstr(text, "no connections are accepted at"))
        gate_add(arg);
}

static int connect_by_hand(const char *address)
{
    struct sockaddr_in in = { .sin_family = AF_INET };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    fl_address a;

    assert_ok(fl_address_parse(&a, address));
    in.sin_port = htons(a.port);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
    return fd;
}

typedef struct brake {
    gate held, go;
} brake;

static void hold(void *arg)
{
    brake *b = arg;

    gate_add(&b->held);
    (void)gate_reaches(&b->go, 1);
}

/* The loop is held until the connection waits and no descriptor is left. */
static void accepting_pauses_while_descriptors_are_short(void **state)
{
    net_pair t;
    gate lines;
    brake b;
    struct rlimit old, low;
    int fd, next;

    (void)state;
    gate_init(&lines);
    gate_init(&b.held);
    gate_init(&b.go);
    net_pair_init(&t, &off);
    net_pair_listen(&t, "127.0.0.1:0");
    fl_log_set(count_line, &lines, FL_LOG_WARN);
    fl_loop_post(t.loops[0], hold, &b);
    gate_wait(&b.held, 1);
    fd = connect_by_hand(t.address);
    next = dup(fd);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = (struct rlimit){ (rlim_t)next, old.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    gate_add(&b.go);
    if (!gate_reaches(&lines, 1))
        fail_msg("waited in vain");
    assert_int_equal(gate_count(&t.came), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    gate_wait(&t.came, 1);
    assert_int_equal(gate_count(&lines), 1);
    fl_log_set(NULL, NULL, FL_LOG_INFO);
    close(fd);
    net_pair_release(&t);
    gate_release(&lines);
    gate_release(&b.held);
    gate_release(&b.go);
}

/* --- dialling ------------------------------------------------------------- */

static void nobody_there_is_an_error_that_says_so(void **state)
{
    net_pair t;
    char address[FL_ADDRESS_MAX];

    (void)state;
    net_pair_init(&t, &automatic);
    net_pair_listen(&t, "127.0.0.1:0");
    memcpy(address, t.address, sizeof(address));
    t.net->ops->unlisten(t.door);
    t.door = NULL;
    net_pair_fails(&t, address, "Connection refused");
    assert_non_null(strstr(t.failed.text, address));
    net_pair_release(&t);
}

static void an_address_that_cannot_be_dialled_fails_at_once(void **state)
{
    net_pair t;
    void *handle = NULL;

    (void)state;
    net_pair_init(&t, &automatic);
    assert_int_equal(
        t.net->ops->dial(t.net,
                         &(fl_dial_args){ t.loops[1], "127.0.0.1:0", 1000,
                                          net_pair_dialled, &t },
                         &handle),
        FL_ERR_INVAL);
    assert_says("port 0");
    assert_int_equal(t.net->ops->dial(t.net,
                                      &(fl_dial_args){ t.loops[1], "what", 1000,
                                                       net_pair_dialled, &t },
                                      &handle),
                     FL_ERR_INVAL);
    assert_null(handle);
    net_pair_release(&t);
    assert_int_equal(t.done.count, 0);
}

static void a_name_that_does_not_resolve_is_an_error(void **state)
{
    net_pair t;

    (void)state;
    net_pair_init(&t, &automatic);
    t.timeout_ms = 600000;
    net_pair_fails(&t, "no-such-host.invalid:6174", "cannot be looked up");
    assert_non_null(strstr(t.failed.text, "no-such-host.invalid"));
    net_pair_release(&t);
}

/* A listening socket whose queue is full does not answer any more. */
typedef struct hole {
    int fd, fillers[N_FILLERS];
    char address[64];
} hole;

static void hole_init(hole *h)
{
    struct sockaddr_in in = { .sin_family = AF_INET };
    socklen_t len = sizeof(in);

    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    h->fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(h->fd, (struct sockaddr *)&in, sizeof(in)), 0);
    assert_int_equal(listen(h->fd, 0), 0);
    assert_int_equal(getsockname(h->fd, (struct sockaddr *)&in, &len), 0);
    snprintf(h->address, sizeof(h->address), "127.0.0.1:%u",
             ntohs(in.sin_port));
    for (int i = 0; i < N_FILLERS; i++) {
        h->fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(h->fillers[i], (struct sockaddr *)&in, sizeof(in));
    }
}

static void hole_release(hole *h)
{
    for (int i = 0; i < N_FILLERS; i++)
        close(h->fillers[i]);
    close(h->fd);
}

static void a_peer_that_does_not_answer_is_given_up(void **state)
{
    net_pair t;
    hole h;

    (void)state;
    hole_init(&h);
    net_pair_init(&t, &automatic);
    t.timeout_ms = 50;
    net_pair_fails(&t, h.address, "did not answer within 50 ms");
    net_pair_release(&t);
    hole_release(&h);
}

static void dial_and_cancel(void *arg)
{
    net_pair *t = arg;

    net_pair_dial_inside(t);
    t->net->ops->cancel(t->handle);
}

static void cancel_unless_over(void *arg)
{
    net_pair *t = arg;

    if (!gate_count(&t->done))
        t->net->ops->cancel(t->handle);
}

static void nothing(void *arg)
{
    (void)arg;
}

static void a_dial_that_is_cancelled_calls_nobody(void **state)
{
    net_pair t;
    hole h;

    (void)state;
    hole_init(&h);
    net_pair_init(&t, &off);
    t.to = h.address;
    in_loop(t.loops[1], dial_and_cancel, &t); /* before it begins */
    in_loop(t.loops[1], net_pair_dial_inside, &t);
    in_loop(t.loops[1], nothing, NULL);
    in_loop(t.loops[1], cancel_unless_over, &t); /* while it connects */
    t.to = "no-such-host.invalid:6174";
    in_loop(t.loops[1], dial_and_cancel, &t); /* while it looks the name up */
    in_loop(t.loops[1], nothing, NULL);
    net_pair_release(&t);
    assert_int_equal(t.done.count, 0);
    hole_release(&h);
}

/* Whoever is first, the look-up or the cancel, nothing is left behind. */
static void a_name_that_is_looked_up_can_be_cancelled(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        net_pair t;

        net_pair_init(&t, &automatic);
        t.to = "no-such-host.invalid:6174";
        in_loop(t.loops[1], net_pair_dial_inside, &t);
        if (i % 2)
            in_loop(t.loops[1], nothing, NULL);
        in_loop(t.loops[1], cancel_unless_over, &t);
        net_pair_release(&t);
    }
}

typedef struct crowd {
    net_pair *t;
    gate done;
    int n_failed;
} crowd;

static void crowd_dialled(void *arg, fl_stream *s)
{
    crowd *c = arg;

    if (s)
        s->ops->close(s);
    else
        c->n_failed++;
    gate_add(&c->done);
}

static void many_dials_from_any_thread_are_all_answered(void **state)
{
    net_pair t;
    crowd c = { .t = &t };

    (void)state;
    gate_init(&c.done);
    net_pair_init(&t, &automatic);
    net_pair_listen(&t, "127.0.0.1:0");
    for (size_t i = 0; i < N_DIALS; i++) {
        void *handle;
        char name[64];

        snprintf(name, sizeof(name), "%s:%s", i % 2 ? "localhost" : "127.0.0.1",
                 strrchr(t.address, ':') + 1);
        assert_ok(
            t.net->ops->dial(t.net,
                             &(fl_dial_args){ t.loops[1], name, KIT_TIMEOUT_MS,
                                              crowd_dialled, &c },
                             &handle));
    }
    gate_wait(&c.done, N_DIALS);
    gate_wait(&t.came, N_DIALS);
    assert_int_equal(c.n_failed, 0);
    net_pair_release(&t);
    gate_release(&c.done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_addresses_pass_and_come_back),
        cmocka_unit_test(bad_addresses_are_refused),
        cmocka_unit_test(a_port_that_is_taken_is_an_error),
        cmocka_unit_test(a_port_is_free_again_after_its_listener),
        cmocka_unit_test(streams_go_to_the_loops_that_are_chosen),
        cmocka_unit_test(a_listener_may_end_in_its_own_callback),
        cmocka_unit_test(a_socket_file_comes_and_goes_with_its_listener),
        cmocka_unit_test(a_stale_socket_file_is_replaced_and_a_live_one_is_not),
        cmocka_unit_test(a_file_that_is_no_socket_is_left_alone),
        cmocka_unit_test(accepting_pauses_while_descriptors_are_short),
        cmocka_unit_test(nobody_there_is_an_error_that_says_so),
        cmocka_unit_test(an_address_that_cannot_be_dialled_fails_at_once),
        cmocka_unit_test(a_name_that_does_not_resolve_is_an_error),
        cmocka_unit_test(a_peer_that_does_not_answer_is_given_up),
        cmocka_unit_test(a_dial_that_is_cancelled_calls_nobody),
        cmocka_unit_test(a_name_that_is_looked_up_can_be_cancelled),
        cmocka_unit_test(many_dials_from_any_thread_are_all_answered),
    };

    return cmocka_run_group_tests_name("rpc/listen", tests, make_folder,
                                       remove_folder);
}
