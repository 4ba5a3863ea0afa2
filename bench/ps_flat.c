/* ps_flat.c - an array of rows behind TCP: what a server costs that looks up no
 * key, knows no peer and checks nothing but that it stays within its array.
 *
 *     request   u64 op, u64 n, n row numbers (u64), for a put n rows
 *     reply     n rows, or 8 bytes for a put
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "harness.h"
#include "ps_peers.h"
#include "ps_process.h"

enum { GET, PUT };

typedef struct head {
    uint64_t op, n;
} head;

#define BODY_MAX (PS_BATCH * (sizeof(uint64_t) + PS_ROW_BYTES))
#define AHEAD 16 /* rows that are asked for before they are needed */

static size_t body_bytes(const head *h)
{
    return h->n * (sizeof(uint64_t) + (h->op == PUT ? PS_ROW_BYTES : 0));
}

static size_t reply_bytes(const head *h)
{
    return h->op == PUT ? sizeof(uint64_t) : h->n * PS_ROW_BYTES;
}

/* --- the server process -------------------------------------------------- */

typedef struct flat_server {
    int fd, poll_fd;
    float *rows;
    size_t n_rows;
    uint8_t *in; /* head and body */
    size_t n_in;
    uint8_t *out;
    size_t out_at, n_out;
} flat_server;

static void stop(const char *why)
{
    fprintf(stderr, "bench: flat server: %s\n", why);
    exit(1);
}

static void answer(flat_server *s)
{
    head h;
    const uint64_t *rows = (const uint64_t *)(s->in + sizeof h);
    const uint8_t *values;

    memcpy(&h, s->in, sizeof h);
    values = (const uint8_t *)(rows + h.n);
    for (size_t i = 0; i < h.n; i++) {
        float *row = s->rows + rows[i] * PS_DIM;

        if (rows[i] >= s->n_rows)
            stop("there is no such row");
        if (i + AHEAD < h.n)
            __builtin_prefetch(s->rows + rows[i + AHEAD] * PS_DIM);
        if (h.op == PUT)
            memcpy(row, values + i * PS_ROW_BYTES, PS_ROW_BYTES);
        else
            memcpy(s->out + i * PS_ROW_BYTES, row, PS_ROW_BYTES);
    }
    s->out_at = 0;
    s->n_out = reply_bytes(&h);
    s->n_in = 0;
}

/* Bytes that the request needs in all, as far as it is known. */
static size_t wanted(const flat_server *s)
{
    head h;

    if (s->n_in < sizeof h)
        return sizeof h;
    memcpy(&h, s->in, sizeof h);
    if (h.n > PS_BATCH)
        stop("a request is too large");
    return sizeof h + body_bytes(&h);
}

/* False when there is nothing to read now. */
static bool read_more(flat_server *s)
{
    ssize_t n = recv(s->fd, s->in + s->n_in, wanted(s) - s->n_in, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0)
        exit(0); /* the client is done */
    s->n_in += (size_t)n;
    if (s->n_in >= sizeof(head) && s->n_in == wanted(s))
        answer(s);
    return true;
}

static bool write_more(flat_server *s)
{
    ssize_t n =
        send(s->fd, s->out + s->out_at, s->n_out - s->out_at, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n < 0)
        exit(0);
    s->out_at += (size_t)n;
    return true;
}

/* A reply leaves before the next request is read. */
static void serve(flat_server *s)
{
    struct epoll_event e = { .events = EPOLLIN };

    for (;;) {
        bool is_writing = s->out_at < s->n_out;

        if (is_writing ? write_more(s) : read_more(s))
            continue;
        e.events = is_writing ? EPOLLOUT : EPOLLIN;
        if (epoll_ctl(s->poll_fd, EPOLL_CTL_MOD, s->fd, &e) != 0)
            stop("epoll_ctl failed");
        (void)epoll_wait(s->poll_fd, &e, 1, -1);
    }
}

/* ADDRESS ROWS */
int ps_flat_serve(char **argv)
{
    int listener = process_listen(argv[0]);
    flat_server s = { .n_rows = strtoull(argv[1], NULL, 10) };
    struct epoll_event e = { .events = EPOLLIN };

    s.rows = bench_alloc(s.n_rows * PS_ROW_BYTES);
    s.in = bench_alloc(sizeof(head) + BODY_MAX);
    s.out = bench_alloc(PS_BATCH * PS_ROW_BYTES);
    s.fd = accept(listener, NULL, NULL);
    s.poll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (s.fd < 0 || s.poll_fd < 0 ||
        epoll_ctl(s.poll_fd, EPOLL_CTL_ADD, s.fd, &e) != 0)
        stop("no connection");
    serve(&s);
    return 0;
}

/* --- the client ---------------------------------------------------------- */

typedef struct flat {
    pid_t server;
    int fd;
    uint64_t done; /* reply to a put */
} flat;

/* Batches on their way: the byte at which the one being sent or received is. */
typedef struct transfer {
    flat *f;
    const ps_batch *batches;
    uint64_t op;
    size_t n, n_sent, sent_bytes, n_got, got_bytes;
} transfer;

static void *flat_open(const ps_shape *s)
{
    flat *f = bench_alloc(sizeof *f);
    char address[ADDRESS_MAX], n_rows[24];

    process_free_address(address);
    snprintf(n_rows, sizeof n_rows, "%zu", s->n_rows);
    f->server = process_start(
        (char *[]){ PROCESS_SELF, "flat", address, n_rows, NULL });
    f->fd = process_connect(address);
    return f;
}

/* What is left of `pieces` behind the first `skip` bytes. */
static int pieces_left(struct iovec *pieces, int n, size_t skip)
{
    int left = 0;

    for (int i = 0; i < n; i++) {
        size_t over = skip < pieces[i].iov_len ? skip : pieces[i].iov_len;

        skip -= over;
        if (over == pieces[i].iov_len)
            continue;
        pieces[left++] = (struct iovec){ (uint8_t *)pieces[i].iov_base + over,
                                         pieces[i].iov_len - over };
    }
    return left;
}

static void check_io(ssize_t n)
{
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    fprintf(stderr, "bench: the flat server is gone\n");
    exit(1);
}

static void send_some(transfer *t)
{
    const ps_batch *b = &t->batches[t->n_sent];
    head h = { t->op, b->n };
    struct iovec pieces[] = {
        { &h, sizeof h },
        { (void *)(uintptr_t)b->rows, b->n * sizeof *b->rows },
        { (void *)(uintptr_t)b->values,
          t->op == PUT ? b->n * PS_ROW_BYTES : 0 },
    };
    struct msghdr m = { .msg_iov = pieces };
    ssize_t n;

    m.msg_iovlen = (size_t)pieces_left(pieces, 3, t->sent_bytes);
    n = sendmsg(t->f->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    check_io(n);
    t->sent_bytes += n > 0 ? (size_t)n : 0;
    if (t->sent_bytes < sizeof h + body_bytes(&h))
        return;
    t->sent_bytes = 0;
    t->n_sent++;
}

static void receive_some(transfer *t)
{
    const ps_batch *b = &t->batches[t->n_got];
    head h = { t->op, b->n };
    uint8_t *to = t->op == PUT ? (uint8_t *)&t->f->done : (uint8_t *)b->out;
    ssize_t n = recv(t->f->fd, to + t->got_bytes,
                     reply_bytes(&h) - t->got_bytes, MSG_DONTWAIT);

    check_io(n);
    t->got_bytes += n > 0 ? (size_t)n : 0;
    if (t->got_bytes < reply_bytes(&h))
        return;
    t->got_bytes = 0;
    t->n_got++;
}

/* Sends and receives as it comes, so that no two can wait for each other. */
static void run_all(flat *f, const ps_batch *b, size_t n, uint64_t op)
{
    transfer t = { .f = f, .batches = b, .op = op, .n = n };

    while (t.n_got < n) {
        bool may_send = t.n_sent < n && t.n_sent < t.n_got + PS_DEPTH;
        struct pollfd p = { .fd = f->fd, .events = POLLIN };

        p.events |= may_send ? POLLOUT : 0;
        if (poll(&p, 1, -1) < 0 && errno != EINTR)
            check_io(0);
        if (may_send && p.revents & POLLOUT)
            send_some(&t);
        if (p.revents & (POLLIN | POLLHUP | POLLERR))
            receive_some(&t);
    }
}

static void flat_pull(void *peer, const ps_batch *b, size_t n)
{
    run_all(peer, b, n, GET);
}

static void flat_push(void *peer, const ps_batch *b, size_t n)
{
    run_all(peer, b, n, PUT);
}

static double flat_cpu_seconds(const void *peer)
{
    const flat *f = peer;

    return process_cpu_seconds(f->server);
}

static void flat_close(void *peer)
{
    flat *f = peer;

    close(f->fd);
    process_wait(f->server, "the flat server");
    free(f);
}

const ps_kind ps_flat = { .name = "the flat server",
                          .overwrites = true,
                          .open = flat_open,
                          .pull = flat_pull,
                          .push = flat_push,
                          .cpu_seconds = flat_cpu_seconds,
                          .close = flat_close };
