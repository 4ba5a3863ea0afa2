/* wire_kit.h - two streams joined in memory, for tests of connections.
 *
 * Everything happens in the test's thread, when wire_run is called. An end may
 * belong to a connection or to the test itself, which then plays a peer byte by
 * byte. The clock is that of a simulation without a network.
 */
#ifndef FL_TESTS_RPC_WIRE_KIT_H
#define FL_TESTS_RPC_WIRE_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "rpc/wire/conn.h"
#include "rpc/sim/sim.h"

/* Fails the test with the library's own sentence. */
#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)

#define assert_says(text)                                                      \
    do {                                                                       \
        if (!strstr(fl_last_error(), (text)))                                  \
            fail_msg("'%s' does not say '%s'", fl_last_error(), (text));       \
    } while (0)

/* In a callback that may run in a loop's own thread, where a test cannot be
   failed: there it is counted in n_bad, for the test's thread to look at. */
#define expect(seen, cond)                                                     \
    do {                                                                       \
        if (!(cond) && (seen)->is_threaded)                                    \
            (seen)->n_bad++;                                                   \
        else if (!(cond))                                                      \
            fail_msg("%s", #cond);                                             \
    } while (0)

/* A run that takes more rounds has gone astray. */
#define WIRE_ROUNDS 50000000

typedef struct wire wire;

typedef struct wire_end {
    fl_stream base;
    wire *w;
    int side;
    unsigned wanted;
    int fd_out, fd_in; /* -1: none */
    uint8_t *came;     /* bytes that wait to be read: [lo, hi) */
    size_t lo, hi, cap;
    uint64_t n_reads, n_writes;
} wire_end;

struct wire {
    fl_sim *sim;
    wire_end *end[2]; /* NULL: closed */
    size_t chunk;     /* of one read or write at most */
    size_t room;      /* bytes under way in a direction at most */
    uint64_t draws;   /* not 0: chunks are drawn from 1 to chunk */
};

static inline size_t wire_chunk(wire *w)
{
    if (!w->draws)
        return w->chunk;
    return 1 + (size_t)(fl_mix64(w->draws++) % w->chunk);
}

static inline ptrdiff_t wire_gone(void)
{
    (void)fl_err_set(FL_ERR_IO, "the other end of the wire is closed");
    return FL_STREAM_GONE;
}

static inline ptrdiff_t wire_read(fl_stream *s, void *to, size_t n)
{
    wire_end *e = (wire_end *)s;
    size_t has = e->hi - e->lo, most = wire_chunk(e->w);

    e->n_reads++;
    if (!has)
        return e->w->end[!e->side] ? FL_STREAM_AGAIN : wire_gone();
    n = n < has ? n : has;
    n = n < most ? n : most;
    memcpy(to, e->came + e->lo, n);
    e->lo += n;
    return (ptrdiff_t)n;
}

/* Bytes on their way to an end. */
static inline void wire_put(wire_end *e, const void *bytes, size_t n)
{
    if (e->lo) {
        memmove(e->came, e->came + e->lo, e->hi - e->lo);
        e->hi -= e->lo;
        e->lo = 0;
    }
    if (e->hi + n > e->cap) {
        e->cap = 2 * (e->hi + n);
        e->came = fl_realloc(e->came, e->cap);
    }
    if (n)
        memcpy(e->came + e->hi, bytes, n);
    e->hi += n;
}

static inline ptrdiff_t wire_write(fl_stream *s, const struct iovec *v, int n)
{
    wire_end *e = (wire_end *)s, *to = e->w->end[!e->side];
    size_t most = wire_chunk(e->w), took = 0, has;

    e->n_writes++;
    if (!to)
        return wire_gone();
    has = to->hi - to->lo;
    if (has >= e->w->room)
        return FL_STREAM_AGAIN;
    if (most > e->w->room - has)
        most = e->w->room - has;
    if (e->fd_out >= 0) {
        if (to->fd_in >= 0)
            close(to->fd_in);
        to->fd_in = e->fd_out;
        e->fd_out = -1;
    }
    for (int i = 0; i < n && took < most; i++) {
        size_t part = v[i].iov_len < most - took ? v[i].iov_len : most - took;

        wire_put(to, v[i].iov_base, part);
        took += part;
    }
    return (ptrdiff_t)took;
}

static inline void wire_want(fl_stream *s, unsigned events)
{
    ((wire_end *)s)->wanted = events;
}

static inline void wire_close(fl_stream *s)
{
    wire_end *e = (wire_end *)s;

    e->w->end[e->side] = NULL;
    if (e->fd_in >= 0)
        close(e->fd_in);
    if (e->fd_out >= 0)
        close(e->fd_out);
    fl_free(e->came);
    fl_free(e);
}

static inline fl_status wire_send_fd(fl_stream *s, int fd)
{
    wire_end *e = (wire_end *)s;

    assert_true(e->fd_out < 0);
    e->fd_out = dup(fd);
    return FL_OK;
}

static inline fl_status wire_take_fd(fl_stream *s, int *fd)
{
    wire_end *e = (wire_end *)s;

    if (e->fd_in < 0)
        FL_FAIL(FL_ERR_NOTFOUND, "no descriptor came");
    *fd = e->fd_in;
    e->fd_in = -1;
    return FL_OK;
}

static inline wire_end *wire_end_new(wire *w, int side, bool is_local)
{
    static const fl_stream_ops plain = {
        .read = wire_read,
        .write = wire_write,
        .want = wire_want,
        .close = wire_close,
    };
    static const fl_stream_ops local = {
        .read = wire_read,
        .write = wire_write,
        .want = wire_want,
        .close = wire_close,
        .send_fd = wire_send_fd,
        .take_fd = wire_take_fd,
    };
    wire_end *e = fl_alloc(sizeof(*e));

    e->base.ops = is_local ? &local : &plain;
    e->base.loop = fl_sim_loop(w->sim);
    e->base.is_local = is_local;
    snprintf(e->base.peer, sizeof(e->base.peer), "wire:%d", side);
    e->w = w;
    e->side = side;
    e->fd_in = e->fd_out = -1;
    return e;
}

static inline void wire_init(wire *w, bool is_local)
{
    fl_sim_faults none = { .seed = 1 };

    *w = (wire){ .chunk = SIZE_MAX, .room = (size_t)1 << 20 };
    w->sim = fl_sim_new(&none);
    for (int i = 0; i < 2; i++)
        w->end[i] = wire_end_new(w, i, is_local);
}

/* Connections are freed before. */
static inline void wire_release(wire *w)
{
    for (int i = 0; i < 2; i++)
        if (w->end[i])
            wire_close(&w->end[i]->base);
    fl_sim_free(w->sim);
}

static inline bool wire_step(wire *w, int side)
{
    wire_end *e = w->end[side];
    wire_end *other = w->end[!side];
    unsigned events = 0;

    if (!e || !e->base.ready)
        return false;
    if (e->hi > e->lo || !other)
        events |= FL_IO_READ;
    if (!other || other->hi - other->lo < w->room)
        events |= FL_IO_WRITE;
    events &= e->wanted;
    if (events)
        e->base.ready(e->base.arg, events);
    return events != 0;
}

/* Until nothing is left to happen. */
static inline void wire_run(wire *w)
{
    for (long i = 0; i < WIRE_ROUNDS; i++) {
        bool went = wire_step(w, 0);

        went |= wire_step(w, 1);
        if (went)
            continue;
        fl_sim_run(w->sim, fl_sim_now_ms(w->sim) + 1, NULL);
        if (!wire_step(w, 0) && !wire_step(w, 1))
            return;
    }
    fail_msg("the wire does not come to rest");
}

#endif
