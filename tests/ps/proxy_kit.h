/* proxy_kit.h - a thread between trainers and servers that passes bytes on,
 * cuts connections in their midst and can keep what clients send.
 *
 * One door for each server. A connection that is cut ends at a drawn number of
 * bytes, both ways counted together: what comes behind it is lost, and both
 * ends are reset or closed, by chance.
 */
#ifndef FL_TESTS_PS_PROXY_KIT_H
#define FL_TESTS_PS_PROXY_KIT_H

#include "job_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>

#define PROXY_DOORS JOB_SERVERS
#define PROXY_PAIRS 64
#define PROXY_CHUNK 4096
#define PROXY_KEPT 8 /* connections whose bytes are kept */

/* One direction of a connection. */
typedef struct pipe_way {
    int from, to;
    uint8_t bytes[PROXY_CHUNK];
    size_t lo, hi;
    struct kept *kept;
} pipe_way;

typedef struct kept {
    uint8_t *bytes;
    size_t n;
} kept;

typedef struct pair {
    bool is_used;
    uint64_t left; /* bytes until it is cut; UINT64_MAX: never */
    pipe_way ways[2];
} pair;

typedef struct proxy {
    int n_doors, doors[PROXY_DOORS], stop[2];
    uint16_t to[PROXY_DOORS]; /* ports of the servers */
    fl_thread *thread;
    /* Before the start, and then the thread's, up to the join. */
    uint64_t cut_below; /* bytes are drawn below it; 0: never */
    uint64_t dice, n_cuts, n_bytes;
    bool keeps;
    kept kept[PROXY_KEPT];
    int n_kept;
    pair pairs[PROXY_PAIRS];
} proxy;

/* --- connections ---------------------------------------------------------- */

static inline int proxy_dial(uint16_t port)
{
    struct sockaddr_in at = port_place(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && !connect(fd, (struct sockaddr *)&at, sizeof(at)))
        return fd;
    close(fd);
    return -1;
}

static inline void proxy_ready(int fd)
{
    int one = 1;

    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static inline void proxy_open(proxy *p, int door)
{
    int client = accept4(p->doors[door], NULL, NULL, SOCK_CLOEXEC);
    int server = client < 0 ? -1 : proxy_dial(p->to[door]);
    pair *q = p->pairs;

    while (q < p->pairs + PROXY_PAIRS && q->is_used)
        q++;
    if (server < 0 || q == p->pairs + PROXY_PAIRS) {
        close(client);
        close(server);
        return;
    }
    proxy_ready(client);
    proxy_ready(server);
    *q = (pair){ .is_used = true, .left = UINT64_MAX };
    q->ways[0].from = q->ways[1].to = client;
    q->ways[0].to = q->ways[1].from = server;
    if (p->cut_below)
        q->left = fl_mix64(p->dice++) % p->cut_below;
    if (p->keeps && p->n_kept < PROXY_KEPT)
        q->ways[0].kept = &p->kept[p->n_kept++];
}

static inline void proxy_close(pair *q)
{
    close(q->ways[0].from);
    close(q->ways[0].to);
    q->is_used = false;
}

static inline void proxy_cut(proxy *p, pair *q)
{
    struct linger now = { .l_onoff = 1 };

    p->n_cuts++;
    for (int i = 0; i < 2; i++)
        if (fl_mix64(p->dice++) & 1)
            (void)setsockopt(q->ways[i].from, SOL_SOCKET, SO_LINGER, &now,
                             sizeof(now));
    proxy_close(q);
}

/* --- bytes ---------------------------------------------------------------- */

static inline void keep(kept *k, const uint8_t *bytes, size_t n)
{
    if (!k)
        return;
    k->bytes = realloc(k->bytes, k->n + n);
    memcpy(k->bytes + k->n, bytes, n);
    k->n += n;
}

/* False when the connection is over. */
static inline bool proxy_read(proxy *p, pair *q, pipe_way *w)
{
    ssize_t n = recv(w->from, w->bytes, sizeof(w->bytes), 0);

    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    if ((uint64_t)n > q->left)
        n = (ssize_t)q->left;
    w->lo = 0;
    w->hi = (size_t)n;
    keep(w->kept, w->bytes, w->hi);
    p->n_bytes += w->hi;
    if (q->left != UINT64_MAX)
        q->left -= w->hi;
    return true;
}

static inline bool proxy_write(pipe_way *w)
{
    ssize_t n;

    if (w->lo == w->hi)
        return true;
    n = send(w->to, w->bytes + w->lo, w->hi - w->lo, MSG_NOSIGNAL);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    w->lo += (size_t)n;
    return true;
}

static inline void proxy_pass(proxy *p, pair *q, const short events[2])
{
    bool is_there = true;

    for (int i = 0; i < 2 && is_there; i++) {
        pipe_way *w = &q->ways[i];

        if (w->lo == w->hi && events[i] & (POLLIN | POLLERR | POLLHUP))
            is_there = proxy_read(p, q, w);
        if (is_there)
            is_there = proxy_write(w);
    }
    if (!is_there)
        proxy_close(q);
    else if (!q->left)
        proxy_cut(p, q);
}

/* --- the thread ----------------------------------------------------------- */

/* What is waited for on the client's and on the server's side. */
static inline void proxy_wants(const pair *q, short out[2])
{
    for (int i = 0; i < 2; i++) {
        const pipe_way *in = &q->ways[i], *back = &q->ways[!i];

        out[i] = (short)((in->lo == in->hi ? POLLIN : 0) |
                         (back->lo < back->hi ? POLLOUT : 0));
    }
}

static inline nfds_t proxy_fds(const proxy *p, struct pollfd *fds)
{
    nfds_t n = 0;

    fds[n++] = (struct pollfd){ .fd = p->stop[0], .events = POLLIN };
    for (int i = 0; i < p->n_doors; i++)
        fds[n++] = (struct pollfd){ .fd = p->doors[i], .events = POLLIN };
    for (int i = 0; i < PROXY_PAIRS; i++) {
        const pair *q = &p->pairs[i];
        short wants[2];

        proxy_wants(q, wants);
        for (int k = 0; k < 2; k++)
            fds[n++] = (struct pollfd){ .fd = q->is_used ? q->ways[k].from : -1,
                                        .events = wants[k] };
    }
    return n;
}

static inline void proxy_run(void *arg)
{
    struct pollfd fds[1 + PROXY_DOORS + 2 * PROXY_PAIRS];
    proxy *p = arg;

    for (;;) {
        const struct pollfd *at = fds + 1 + p->n_doors;

        if (poll(fds, proxy_fds(p, fds), -1) < 0)
            continue;
        for (int i = 0; i < PROXY_PAIRS; i++, at += 2) {
            short events[2] = { at[0].revents, at[1].revents };

            if (p->pairs[i].is_used && (events[0] || events[1]))
                proxy_pass(p, &p->pairs[i], events);
        }
        for (int i = 0; i < p->n_doors; i++)
            if (fds[1 + i].revents)
                proxy_open(p, i);
        if (fds[0].revents)
            break;
    }
    for (int i = 0; i < PROXY_PAIRS; i++)
        if (p->pairs[i].is_used)
            proxy_close(&p->pairs[i]);
}

/* Doors for servers at "127.0.0.1:P,...", and their addresses. */
static inline void proxy_start(proxy *p, const char *servers,
                               char ways[JOB_ADDRESSES])
{
    size_t len = 0;

    for (const char *at = servers; at; at = strchr(at, ',')) {
        uint16_t port = free_port();
        int i = p->n_doors++;

        at += *at == ',';
        p->to[i] = (uint16_t)strtoul(strchr(at, ':') + 1, NULL, 10);
        p->doors[i] = port_listen(port);
        assert_true(p->doors[i] >= 0);
        len += (size_t)snprintf(ways + len, JOB_ADDRESSES - len,
                                "%s127.0.0.1:%u", i ? "," : "", port);
    }
    assert_int_equal(pipe(p->stop), 0);
    assert_ok(fl_thread_start(&p->thread, "proxy", proxy_run, p));
}

static inline void proxy_stop(proxy *p)
{
    assert_int_equal(write(p->stop[1], "x", 1), 1);
    fl_thread_join(p->thread);
    for (int i = 0; i < p->n_doors; i++)
        close(p->doors[i]);
    close(p->stop[0]);
    close(p->stop[1]);
}

static inline void proxy_forget(proxy *p)
{
    for (int i = 0; i < p->n_kept; i++)
        free(p->kept[i].bytes);
}

#endif
