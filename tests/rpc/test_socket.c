/* test_socket.c - streams over sockets: bytes, ends, descriptors, users, and
 * which way is taken. */
#include "net_kit.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/hash.h"
#include "base/log.h"
#include "certs.h"
#include "rpc/stream/tls.h"

#define BIG_BYTES ((size_t)20 << 20)
#define SLOW_BYTES 3000
#define FAST_BYTES 200000
#define NOBODY 65534

static char folder[] = "/tmp/flotilla_socket_XXXXXX";
static char unix_address[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(unix_address, sizeof(unix_address), "unix:%s/door", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static const fl_socket_options automatic = { .job = 0x77 };
static const fl_socket_options off = { .local = FL_LOCAL_OFF, .job = 0x77 };
static const fl_socket_options force = { .local = FL_LOCAL_FORCE, .job = 0x77 };

/* --- bytes both ways ------------------------------------------------------ */

/* One end that writes a pattern and expects that of the other. */
typedef struct talker {
    fl_stream *s;
    uint8_t mine, yours; /* which pattern */
    size_t chunk;        /* of a read */
    size_t wrote, got;
    bool is_wrong, is_gone, is_over;
    gate done;
    uint8_t buf[FAST_BYTES];
} talker;

static uint8_t pattern(uint8_t which, size_t i)
{
    return (uint8_t)(fl_mix64(i / 64 + 1) + which + i);
}

static void talk_out(talker *t)
{
    struct iovec v[2];
    uint8_t bytes[64 * 200];
    size_t n = sizeof(bytes);
    ptrdiff_t took;

    while (t->wrote < BIG_BYTES) {
        if (n > BIG_BYTES - t->wrote)
            n = BIG_BYTES - t->wrote;
        for (size_t i = 0; i < n; i++)
            bytes[i] = pattern(t->mine, t->wrote + i);
        v[0] = (struct iovec){ bytes, n / 3 };
        v[1] = (struct iovec){ bytes + n / 3, n - n / 3 };
        took = t->s->ops->write(t->s, v, 2);
        if (took == FL_STREAM_AGAIN)
            return;
        if (took < 0) {
            t->is_gone = true;
            return;
        }
        t->wrote += (size_t)took;
    }
}

/* One read per event: a slow reader lets the writer wait. */
static void talk_in(talker *t)
{
    ptrdiff_t n = t->s->ops->read(t->s, t->buf, t->chunk);

    if (n == FL_STREAM_AGAIN)
        return;
    if (n <= 0) {
        t->is_gone = true;
        return;
    }
    for (size_t i = 0; i < (size_t)n; i++)
        if (t->buf[i] != pattern(t->yours, t->got + i))
            t->is_wrong = true;
    t->got += (size_t)n;
}

/* A hang-up is told even when nothing is wanted any more. */
static void talk(void *arg, unsigned events)
{
    talker *t = arg;

    if (t->is_over)
        return;
    if (events & FL_IO_READ)
        talk_in(t);
    if (events & FL_IO_WRITE)
        talk_out(t);
    t->is_over = t->is_gone || t->is_wrong ||
                 (t->got == BIG_BYTES && t->wrote == BIG_BYTES);
    if (t->is_over) {
        t->s->ops->want(t->s, 0);
        gate_add(&t->done);
    } else if (t->wrote == BIG_BYTES) {
        t->s->ops->want(t->s, FL_IO_READ);
    }
}

static void start_talking(void *arg)
{
    talker *t = arg;

    t->s->ready = talk;
    t->s->arg = t;
    t->s->ops->want(t->s, FL_IO_READ | FL_IO_WRITE);
}

static talker *talker_new(fl_stream *s, uint8_t mine, uint8_t yours,
                          size_t chunk)
{
    talker *t = fl_alloc(sizeof(*t));

    t->s = s;
    t->mine = mine;
    t->yours = yours;
    t->chunk = chunk;
    gate_init(&t->done);
    in_loop(s->loop, start_talking, t);
    return t;
}

static void talker_check(talker *t)
{
    gate_wait(&t->done, 1);
    assert_false(t->is_gone);
    assert_false(t->is_wrong);
    assert_int_equal(t->got, BIG_BYTES);
}

static void talker_free(talker *t)
{
    gate_release(&t->done);
    fl_free(t);
}

static void talk_both_ways(net_pair *t)
{
    talker *a = talker_new(t->accepted[0], 1, 2, SLOW_BYTES);
    talker *b = talker_new(t->dialled, 2, 1, FAST_BYTES);

    talker_check(a);
    talker_check(b);
    net_pair_close(t->accepted[0]);
    net_pair_close(t->dialled);
    t->accepted[0] = t->dialled = NULL;
    talker_free(a);
    talker_free(b);
}

static void tcp_carries_much_both_ways_to_a_slow_reader(void **state)
{
    net_pair t;

    (void)state;
    net_pair_init(&t, &off);
    net_pair_listen(&t, "127.0.0.1:0");
    net_pair_connect(&t, t.address);
    assert_false(t.accepted[0]->is_local || t.dialled->is_local);
    assert_false(t.dialled->is_secret);
    assert_null(t.dialled->ops->send_fd);
    assert_string_equal(t.dialled->peer, t.address);
    assert_memory_equal(t.accepted[0]->peer, "127.0.0.1:", 10);
    talk_both_ways(&t);
    net_pair_release(&t);
}

static void the_local_socket_carries_much_both_ways(void **state)
{
    net_pair t;
    char peer[64];

    (void)state;
    net_pair_init(&t, &automatic);
    net_pair_listen(&t, "127.0.0.1:0");
    net_pair_connect(&t, t.address);
    assert_true(t.accepted[0]->is_local && t.dialled->is_local);
    snprintf(peer, sizeof(peer), "local process %ld", (long)getpid());
    assert_string_equal(t.accepted[0]->peer, peer);
    assert_non_null(strstr(t.dialled->peer, " (local)"));
    talk_both_ways(&t);
    net_pair_release(&t);
}

static void a_path_carries_much_both_ways(void **state)
{
    net_pair t;

    (void)state;
    net_pair_init(&t, &off);
    net_pair_listen(&t, unix_address);
    assert_string_equal(t.address, unix_address);
    net_pair_connect(&t, t.address);
    assert_true(t.accepted[0]->is_local && t.dialled->is_local);
    assert_string_equal(t.dialled->peer, unix_address);
    talk_both_ways(&t);
    net_pair_release(&t);
}

static void a_name_is_looked_up(void **state)
{
    net_pair t;
    char name[64];

    (void)state;
    net_pair_init(&t, &off);
    net_pair_listen(&t, "127.0.0.1:0");
    snprintf(name, sizeof(name), "localhost:%s", strrchr(t.address, ':') + 1);
    net_pair_connect(&t, name);
    talk_both_ways(&t);
    net_pair_release(&t);
}

/* --- TLS ------------------------------------------------------------------ */

typedef struct papers {
    char ca[64], cert[64], key[64];
    fl_tls *tls;
} papers;

static void papers_init(papers *p)
{
    test_cert ca = { 0 }, own = { 0 };
    fl_tls_files files = { p->ca, p->cert, p->key };

    snprintf(p->ca, sizeof(p->ca), "%s/ca.pem", folder);
    snprintf(p->cert, sizeof(p->cert), "%s/cert.pem", folder);
    snprintf(p->key, sizeof(p->key), "%s/key.pem", folder);
    assert_true(
        test_cert_make(&ca, "authority", NULL, -CERT_HOUR, CERT_HOUR, NULL));
    assert_true(
        test_cert_make(&own, "member", &ca, -CERT_HOUR, CERT_HOUR, NULL));
    assert_true(test_cert_write(&ca, p->ca));
    assert_true(test_cert_write(&own, p->cert));
    assert_true(test_key_write(&own, p->key, NULL));
    p->tls = NULL;
    assert_ok(fl_tls_new(&p->tls, &files));
    test_cert_release(&ca);
    test_cert_release(&own);
}

static void papers_release(papers *p)
{
    fl_tls_free(p->tls);
    unlink(p->ca);
    unlink(p->cert);
    unlink(p->key);
}

static fl_loop *second_loop(void *arg)
{
    const net_pair *t = arg;

    return t->loops[1];
}

static void with_tls_every_stream_is_secret_and_none_local(void **state)
{
    papers p;
    net_pair t;
    fl_socket_options o = { .job = 0x77 };

    (void)state;
    papers_init(&p);
    o.tls = p.tls;
    net_pair_init(&t, &o);
    assert_ok(t.net->ops->listen(t.net,
                                 &(fl_listen_args){ "127.0.0.1:0", t.loops[0],
                                                    second_loop,
                                                    net_pair_accept, &t },
                                 &t.door, t.address));
    net_pair_connect(&t, t.address);
    assert_true(t.accepted[0]->is_secret && t.dialled->is_secret);
    assert_false(t.accepted[0]->is_local || t.dialled->is_local);
    assert_false(t.accepted_elsewhere);
    talk_both_ways(&t);
    net_pair_release(&t);
    papers_release(&p);
}

static void force_and_tls_exclude_each_other(void **state)
{
    papers p;
    fl_socket_options o = { .local = FL_LOCAL_FORCE };
    fl_net *n = NULL;

    (void)state;
    papers_init(&p);
    o.tls = p.tls;
    assert_int_equal(fl_net_sockets(&n, &o), FL_ERR_INVAL);
    assert_says("exclude each other");
    assert_null(n);
    papers_release(&p);
}

/* --- which way ------------------------------------------------------------ */

static void forced_it_is_the_local_socket(void **state)
{
    net_pair t;

    (void)state;
    net_pair_init(&t, &force);
    net_pair_listen(&t, "127.0.0.1:0");
    net_pair_connect(&t, t.address);
    assert_true(t.accepted[0]->is_local && t.dialled->is_local);
    net_pair_release(&t);
}

static void forced_without_a_local_socket_is_an_error(void **state)
{
    net_pair there, here;

    (void)state;
    net_pair_init(&there, &off);
    net_pair_init(&here, &force);
    net_pair_listen(&there, "127.0.0.1:0");
    net_pair_fails(&here, there.address,
                   "local_transport=force: cannot connect");
    net_pair_fails(&here, "192.0.2.1:6174", "192.0.2.1:6174 is not on this");
    net_pair_release(&here);
    net_pair_release(&there);
}

static void without_a_local_socket_it_is_tcp(void **state)
{
    net_pair there, here;

    (void)state;
    net_pair_init(&there, &off);
    net_pair_init(&here, &automatic);
    net_pair_listen(&there, "127.0.0.1:0");
    net_pair_connect(&there, there.address);
    net_pair_dial(&here, there.address);
    gate_wait(&there.came, 2);
    assert_non_null(here.dialled);
    assert_false(here.dialled->is_local);
    net_pair_release(&here);
    net_pair_release(&there);
}

static void the_local_socket_is_of_one_job(void **state)
{
    fl_socket_options other_job = { .job = 0x78 };
    net_pair there, here;

    (void)state;
    net_pair_init(&there, &automatic);
    net_pair_init(&here, &other_job);
    net_pair_listen(&there, "127.0.0.1:0");
    net_pair_dial(&here, there.address);
    gate_wait(&there.came, 1);
    assert_non_null(here.dialled);
    assert_false(here.dialled->is_local);
    net_pair_release(&here);
    net_pair_release(&there);
}

/* --- ends ----------------------------------------------------------------- */

typedef struct listener_end {
    fl_stream *s;
    gate told;
    char why[FL_ERR_TEXT_MAX];
} listener_end;

static void read_to_end(void *arg, unsigned events)
{
    listener_end *e = arg;
    char buf[100];
    ptrdiff_t n = e->s->ops->read(e->s, buf, sizeof(buf));

    (void)events;
    if (n != FL_STREAM_GONE || gate_count(&e->told))
        return;
    snprintf(e->why, sizeof(e->why), "%s", fl_last_error());
    e->s->ops->want(e->s, 0);
    gate_add(&e->told);
}

static void want_end(void *arg)
{
    listener_end *e = arg;

    e->s->ready = read_to_end;
    e->s->arg = e;
    e->s->ops->want(e->s, FL_IO_READ);
}

/* The signal that a write to a closed socket raises would end the test. */
static void write_until_gone(void *arg)
{
    listener_end *e = arg;
    struct iovec v = { e->why, sizeof(e->why) };
    ptrdiff_t n;

    do
        n = e->s->ops->write(e->s, &v, 1);
    while (n >= 0);
    if (n == FL_STREAM_GONE)
        gate_add(&e->told);
}

static void check_end(const fl_socket_options *o)
{
    net_pair t;
    listener_end e = { 0 };

    net_pair_init(&t, o);
    net_pair_listen(&t, "127.0.0.1:0");
    net_pair_connect(&t, t.address);
    gate_init(&e.told);
    e.s = t.accepted[0];
    in_loop(e.s->loop, want_end, &e);
    net_pair_close(t.dialled);
    t.dialled = NULL;
    gate_wait(&e.told, 1);
    if (!strstr(e.why, "has closed the connection") ||
        !strstr(e.why, e.s->peer))
        fail_msg("'%s'", e.why);
    in_loop(e.s->loop, write_until_gone, &e);
    gate_wait(&e.told, 2);
    net_pair_release(&t);
    gate_release(&e.told);
}

static void the_other_ends_close_is_told(void **state)
{
    (void)state;
    check_end(&off);
    check_end(&automatic);
}

/* --- options -------------------------------------------------------------- */

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof(value);

    assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
    return value;
}

static bool is_connected_tcp(int fd)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa);

    return getpeername(fd, (struct sockaddr *)&sa, &len) == 0 &&
           sa.ss_family == AF_INET;
}

/* Looks at all sockets of this process: the streams do not show theirs. */
static void tcp_sockets_have_their_options(void **state)
{
    net_pair t;
    int n = 0, n_fds = (int)sysconf(_SC_OPEN_MAX);

    (void)state;
    net_pair_init(&t, &off);
    net_pair_listen(&t, "127.0.0.1:0");
    net_pair_connect(&t, t.address);
    for (int fd = 3; fd < n_fds && fd < 1024; fd++) {
        if (!is_connected_tcp(fd))
            continue;
        n++;
        assert_int_equal(option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
        assert_int_equal(option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
        assert_true(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT) > 0);
        assert_true(option(fd, IPPROTO_TCP, TCP_KEEPIDLE) < 60);
        assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    }
    assert_int_equal(n, 2);
    net_pair_release(&t);
}

/* --- descriptors ---------------------------------------------------------- */

typedef struct parcel {
    fl_stream *from, *to;
    int fd, came;
    fl_status st, again;
    gate arrived;
} parcel;

static void send_parcel(void *arg)
{
    parcel *p = arg;
    struct iovec v = { (char[]){ 'x', 'y' }, 2 };

    p->st = p->from->ops->send_fd(p->from, p->fd);
    if (p->from->ops->write(p->from, &v, 1) != 2)
        p->st = FL_ERR_IO;
    if (p->from->ops->write(p->from, &v, 1) != 2)
        p->st = FL_ERR_IO;
}

static void parcel_ready(void *arg, unsigned events)
{
    parcel *p = arg;
    char buf[8];

    (void)events;
    if (p->to->ops->read(p->to, buf, sizeof(buf)) <= 0)
        return;
    p->to->ops->want(p->to, 0);
    gate_add(&p->arrived);
}

static void await_parcel(void *arg)
{
    parcel *p = arg;

    p->to->ready = parcel_ready;
    p->to->arg = p;
    p->to->ops->want(p->to, FL_IO_READ);
}

static void take_parcel(void *arg)
{
    parcel *p = arg;

    p->came = -1;
    p->st = p->to->ops->take_fd(p->to, &p->came);
    p->again = p->to->ops->take_fd(p->to, &p->came);
}

static void a_descriptor_goes_with_the_next_byte(void **state)
{
    net_pair t;
    parcel p = { 0 };
    int ends[2];
    char c = 0;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    net_pair_init(&t, &automatic);
    net_pair_listen(&t, "127.0.0.1:0");
    net_pair_connect(&t, t.address);
    gate_init(&p.arrived);
    p.from = t.dialled;
    p.to = t.accepted[0];
    p.fd = ends[1];
    in_loop(p.to->loop, await_parcel, &p);
    in_loop(p.from->loop, send_parcel, &p);
    assert_int_equal(p.st, FL_OK);
    close(ends[1]);
    gate_wait(&p.arrived, 1);
    in_loop(p.to->loop, take_parcel, &p);
    assert_int_equal(p.st, FL_OK);
    assert_int_equal(p.again, FL_ERR_NOTFOUND);
    assert_true(fcntl(p.came, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(write(p.came, "z", 1), 1);
    close(p.came);
    assert_int_equal(read(ends[0], &c, 1), 1);
    assert_int_equal(c, 'z');
    assert_int_equal(read(ends[0], &c, 1), 0); /* no copy is left open */
    close(ends[0]);
    net_pair_release(&t);
    gate_release(&p.arrived);
}

/* A peer may send more of them than it should. */
static void send_many(int fd, int what, int n)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(16 * sizeof(int))];
    } control = { 0 };
    struct iovec v = { (char[]){ 'x' }, 1 };
    struct msghdr m = { .msg_iov = &v,
                        .msg_iovlen = 1,
                        .msg_control = &control,
                        .msg_controllen = CMSG_SPACE((size_t)n * sizeof(int)) };
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
    for (int i = 0; i < n; i++)
        memcpy(CMSG_DATA(c) + (size_t)i * sizeof(int), &what, sizeof(what));
    assert_int_equal(sendmsg(fd, &m, 0), 1);
}

static void of_many_descriptors_one_is_kept(void **state)
{
    fl_loop *l = NULL;
    parcel p = { 0 };
    int ends[2], pair[2];
    char c;

    (void)state;
    assert_ok(fl_loop_new(&l, "loop"));
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair),
                     0);
    gate_init(&p.arrived);
    p.to = fl_stream_of_fd(l, pair[0], "pair", true);
    for (size_t i = 1; i <= 3; i++) {
        send_many(pair[1], ends[1], 16);
        in_loop(l, await_parcel, &p);
        gate_wait(&p.arrived, i);
    }
    close(ends[1]);
    in_loop(l, take_parcel, &p);
    assert_int_equal(p.st, FL_OK);
    close(p.came);
    assert_int_equal(read(ends[0], &c, 1), 0);
    net_pair_close(p.to);
    close(pair[1]);
    close(ends[0]);
    fl_loop_free(l);
    gate_release(&p.arrived);
}

/* --- users ---------------------------------------------------------------- */

/* Connects to the local socket by hand; how many bytes come before its end
   (0), or -1. */
static int knock(const char *port)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM, 0), n;
    char c;

    n = snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "flotilla-%016x-%s",
                 0x77, port);
    if (connect(fd, (struct sockaddr *)&un,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                            (size_t)n)) != 0)
        return -1;
    n = (int)read(fd, &c, 1);
    close(fd);
    return n;
}

/* What the other user's process does; its result is its exit status. Nothing
   of cmocka runs here. */
static int be_nobody(int from_parent)
{
    char address[FL_ADDRESS_MAX];
    fl_socket_options o = automatic;
    net_pair t = { .timeout_ms = KIT_TIMEOUT_MS, .to = address };

    if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
        return 10;
    if (read(from_parent, address, sizeof(address)) != sizeof(address))
        return 11;
    if (knock(strrchr(address, ':') + 1) > 0)
        return 12;
    gate_init(&t.done);
    if (fl_net_sockets(&t.net, &o) || fl_loop_new(&t.loops[1], "nobody"))
        return 13;
    net_pair_dial_inside(&t);
    if (t.dial_st || !gate_reaches(&t.done, 1) || !t.dialled ||
        t.dialled->is_local)
        return 14;
    return 0;
}

static void count_line(void *arg, fl_log_level level, const char *area,
                       const char *text)
{
    (void)level;
    (void)area;
    if (strstr(text, "of user 65534"))
        gate_add(arg);
}

/* The child is made before there are any threads. */
static void another_user_is_refused_locally_and_comes_by_tcp(void **state)
{
    net_pair t;
    gate lines;
    int to_child[2], status = -1;
    pid_t child;

    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(pipe(to_child), 0);
    child = fork();
    if (child == 0)
        _exit(be_nobody(to_child[0]));
    gate_init(&lines);
    fl_log_set(count_line, &lines, FL_LOG_WARN);
    net_pair_init(&t, &automatic);
    net_pair_listen(&t, "127.0.0.1:0");
    assert_int_equal(write(to_child[1], t.address, FL_ADDRESS_MAX),
                     FL_ADDRESS_MAX);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    gate_wait(&t.came, 1);
    assert_int_equal(gate_count(&t.came), 1);
    assert_false(t.accepted[0]->is_local);
    assert_int_equal(gate_count(&lines), 1);
    net_pair_release(&t);
    fl_log_set(NULL, NULL, FL_LOG_INFO);
    gate_release(&lines);
    close(to_child[0]);
    close(to_child[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_user_is_refused_locally_and_comes_by_tcp),
        cmocka_unit_test(tcp_carries_much_both_ways_to_a_slow_reader),
        cmocka_unit_test(the_local_socket_carries_much_both_ways),
        cmocka_unit_test(a_path_carries_much_both_ways),
        cmocka_unit_test(a_name_is_looked_up),
        cmocka_unit_test(with_tls_every_stream_is_secret_and_none_local),
        cmocka_unit_test(force_and_tls_exclude_each_other),
        cmocka_unit_test(forced_it_is_the_local_socket),
        cmocka_unit_test(forced_without_a_local_socket_is_an_error),
        cmocka_unit_test(without_a_local_socket_it_is_tcp),
        cmocka_unit_test(the_local_socket_is_of_one_job),
        cmocka_unit_test(the_other_ends_close_is_told),
        cmocka_unit_test(tcp_sockets_have_their_options),
        cmocka_unit_test(a_descriptor_goes_with_the_next_byte),
        cmocka_unit_test(of_many_descriptors_one_is_kept),
    };

    return cmocka_run_group_tests_name("rpc/socket", tests, make_folder,
                                       remove_folder);
}
