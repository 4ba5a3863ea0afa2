/* socket.c - sockets as streams, their options, and the net of them.
 *
 * A stream registers with its loop when an event is wanted for the first time,
 * not when it is made: an accepted stream is made in the loop that accepts and
 * then handed over to another one.
 */
#include "rpc/stream/socket_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

#define BUFFER_BYTES (1 << 20)

/* A peer that takes no bytes for so long, or leaves so many probes without an
   answer, is gone. Far beyond what rpc/client/rpc_client.h waits: it decides.
   */
#define USER_TIMEOUT_MS 120000
#define KEEP_IDLE_S 30
#define KEEP_INTERVAL_S 10
#define KEEP_COUNT 6

/* Descriptors that one read can bring; the kernel closes what does not fit. */
#define FDS_MAX 4

typedef struct sock {
    fl_stream base;
    int fd;
    fl_watch *watch; /* NULL until the first `want` */
    int fd_out;      /* goes with the next byte; -1: none */
    int fd_in;       /* came and was not taken; -1: none */
    fl_err *broken;  /* why it could not be watched; NULL: it could */
    uint64_t timer;  /* tells the owner that it is broken */
} sock;

/* --- options -------------------------------------------------------------- */

static void set_int(int fd, int level, int name, int value)
{
    /* Refused options cost speed at most. */
    (void)setsockopt(fd, level, name, &value, sizeof(value));
}

static void set_tcp_options(int fd)
{
    set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS);
    set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S);
    set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTERVAL_S);
    set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_COUNT);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", strlen("reno"));
}

int fl_socket_open(const fl_socket_plan *plan, int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0 || family == AF_UNIX)
        return fd;
    /* Before it connects or listens: the window's scale depends on it. */
    if (plan->has_big_buffers) {
        set_int(fd, SOL_SOCKET, SO_RCVBUF, BUFFER_BYTES);
        set_int(fd, SOL_SOCKET, SO_SNDBUF, BUFFER_BYTES);
    }
    set_tcp_options(fd);
    return fd;
}

/* Whether a size that is asked for is given. Where the system's limit cuts it,
   the automatic sizes are better than the cut one. */
static bool can_size(int fd, int name)
{
    int got = 0;
    socklen_t len = sizeof(got);

    set_int(fd, SOL_SOCKET, name, BUFFER_BYTES);
    return getsockopt(fd, SOL_SOCKET, name, &got, &len) == 0 &&
           got >= 2 * BUFFER_BYTES;
}

static bool probe_buffers(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool can;

    if (fd < 0)
        return false;
    can = can_size(fd, SO_RCVBUF) && can_size(fd, SO_SNDBUF);
    close(fd);
    return can;
}

/* --- the local path ------------------------------------------------------- */

void fl_socket_local_name(uint64_t job, uint16_t port,
                          char out[FL_LOCAL_NAME_MAX])
{
    snprintf(out, FL_LOCAL_NAME_MAX, "flotilla-%016" PRIx64 "-%u", job, port);
}

fl_status fl_socket_peer_get(int fd, fl_socket_peer *out)
{
    struct ucred c;
    socklen_t len = sizeof(c);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &len) != 0)
        FL_FAIL(FL_ERR_IO, "the user behind a UNIX socket is not told: %s",
                strerror(errno));
    *out = (fl_socket_peer){ .user = c.uid, .process = c.pid };
    return FL_OK;
}

/* --- streams -------------------------------------------------------------- */

static ptrdiff_t gone(const sock *s, const char *doing)
{
    (void)fl_err_set(FL_ERR_IO, "%s %s failed: %s", doing, s->base.peer,
                     strerror(errno));
    return FL_STREAM_GONE;
}

static ptrdiff_t gone_before(const sock *s)
{
    (void)fl_err_restore(s->broken);
    return FL_STREAM_GONE;
}

/* The last descriptor is kept, the ones before it are closed. */
static void keep_fds(sock *s, struct msghdr *m)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        size_t n;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            if (s->fd_in >= 0)
                close(s->fd_in);
            memcpy(&s->fd_in, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
        }
    }
}

static ssize_t receive_with_fds(sock *s, void *to, size_t n)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(FDS_MAX * sizeof(int))];
    } control;
    struct iovec v = { .iov_base = to, .iov_len = n };
    struct msghdr m = { .msg_iov = &v,
                        .msg_iovlen = 1,
                        .msg_control = &control,
                        .msg_controllen = sizeof(control) };
    ssize_t got = recvmsg(s->fd, &m, MSG_CMSG_CLOEXEC);

    if (got >= 0)
        keep_fds(s, &m);
    return got;
}

static ptrdiff_t sock_read(fl_stream *base, void *to, size_t n)
{
    sock *s = (sock *)base;
    ssize_t got;

    FL_ASSERT(n > 0);
    if (s->broken)
        return gone_before(s);
    do
        got = base->ops->take_fd ? receive_with_fds(s, to, n)
                                 : recv(s->fd, to, n, 0);
    while (got < 0 && errno == EINTR);
    if (got > 0)
        return got;
    if (got == 0) {
        (void)fl_err_set(FL_ERR_IO, "%s has closed the connection", base->peer);
        return FL_STREAM_GONE;
    }
    if (errno == EAGAIN)
        return FL_STREAM_AGAIN;
    return gone(s, "reading from");
}

static void attach_fd(struct msghdr *m, int fd)
{
    struct cmsghdr *c = CMSG_FIRSTHDR(m);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(fd));
    memcpy(CMSG_DATA(c), &fd, sizeof(fd));
}

static ptrdiff_t sock_write(fl_stream *base, const struct iovec *v, int n)
{
    sock *s = (sock *)base;
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = { 0 };
    struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)v,
                        .msg_iovlen = (size_t)(n < IOV_MAX ? n : IOV_MAX) };
    ssize_t got;

    if (s->broken)
        return gone_before(s);
    if (s->fd_out >= 0) {
        m.msg_control = &control;
        m.msg_controllen = sizeof(control);
        attach_fd(&m, s->fd_out);
    }
    do
        got = sendmsg(s->fd, &m, MSG_NOSIGNAL);
    while (got < 0 && errno == EINTR);
    if (got > 0 && s->fd_out >= 0) {
        close(s->fd_out);
        s->fd_out = -1;
    }
    if (got >= 0)
        return got;
    if (errno == EAGAIN)
        return FL_STREAM_AGAIN;
    return gone(s, "writing to");
}

static void sock_ready(void *arg, unsigned events)
{
    sock *s = arg;

    s->base.ready(s->base.arg, events);
}

static void tell_broken(void *arg)
{
    sock *s = arg;

    s->timer = 0;
    sock_ready(s, FL_IO_READ | FL_IO_WRITE);
}

static void sock_want(fl_stream *base, unsigned events)
{
    sock *s = (sock *)base;
    fl_status st;

    if (s->broken)
        return;
    if (s->watch) {
        fl_watch_set(s->watch, events);
        return;
    }
    st = fl_loop_watch(base->loop, s->fd, events, sock_ready, s, &s->watch);
    if (!st)
        return;
    s->broken = fl_alloc(sizeof(*s->broken));
    fl_err_save(s->broken, st);
    s->timer = fl_loop_timer(base->loop, 0, tell_broken, s);
}

/* Without a watch it is nobody's yet, and any thread may close it. */
static void sock_close(fl_stream *base)
{
    sock *s = (sock *)base;

    if (s->timer)
        fl_loop_cancel(base->loop, s->timer);
    if (s->watch)
        fl_watch_end(s->watch);
    close(s->fd);
    if (s->fd_out >= 0)
        close(s->fd_out);
    if (s->fd_in >= 0)
        close(s->fd_in);
    fl_free(s->broken);
    fl_free(s);
}

static fl_status sock_send_fd(fl_stream *base, int fd)
{
    sock *s = (sock *)base;
    int copy;

    FL_ASSERT(s->fd_out < 0);
    copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        FL_FAIL(FL_ERR_IO, "descriptor %d cannot be sent to %s: %s", fd,
                base->peer, strerror(errno));
    s->fd_out = copy;
    return FL_OK;
}

static fl_status sock_take_fd(fl_stream *base, int *fd)
{
    sock *s = (sock *)base;

    if (s->fd_in < 0)
        FL_FAIL(FL_ERR_NOTFOUND,
                "%s has sent no descriptor; one that came may have been "
                "refused for the limit on open files (ulimit -n)",
                base->peer);
    *fd = s->fd_in;
    s->fd_in = -1;
    return FL_OK;
}

static const fl_stream_ops tcp_ops = {
    .read = sock_read,
    .write = sock_write,
    .want = sock_want,
    .close = sock_close,
};

static const fl_stream_ops unix_ops = {
    .read = sock_read,
    .write = sock_write,
    .want = sock_want,
    .close = sock_close,
    .send_fd = sock_send_fd,
    .take_fd = sock_take_fd,
};

static bool is_unix_socket(int fd)
{
    int domain = 0;
    socklen_t len = sizeof(domain);

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 &&
           domain == AF_UNIX;
}

fl_stream *fl_stream_of_fd(fl_loop *l, int fd, const char *peer, bool is_local)
{
    sock *s = fl_alloc(sizeof(*s));

    s->base.ops = is_unix_socket(fd) ? &unix_ops : &tcp_ops;
    s->base.loop = l;
    s->base.is_local = is_local;
    memcpy(s->base.peer, peer, strnlen(peer, sizeof(s->base.peer) - 1));
    s->fd = fd;
    s->fd_out = s->fd_in = -1;
    return &s->base;
}

/* --- the net -------------------------------------------------------------- */

static const fl_net_ops socket_ops = {
    .listen = fl_socket_listen,
    .unlisten = fl_socket_unlisten,
    .dial = fl_socket_dial,
    .cancel = fl_socket_cancel,
};

fl_status fl_net_sockets(fl_net **out, const fl_socket_options *o)
{
    fl_socket_net *n;

    if (o->tls && o->local == FL_LOCAL_FORCE)
        FL_FAIL(FL_ERR_INVAL,
                "local_transport=force and TLS exclude each other: the local "
                "path is not encrypted; use auto or off, or leave TLS out");
    n = fl_alloc(sizeof(*n));
    n->base.ops = &socket_ops;
    n->plan.o = *o;
    n->plan.has_big_buffers = probe_buffers();
    fl_mutex_init(&n->mu);
    *out = &n->base;
    return FL_OK;
}

void fl_net_free_sockets(fl_net *base)
{
    fl_socket_net *n = (fl_socket_net *)base;

    if (!n)
        return;
    fl_socket_reap(n, FL_REAP_ALL);
    fl_mutex_release(&n->mu);
    fl_free(n);
}
