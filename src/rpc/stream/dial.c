/* dial.c - connecting by sockets, without ever blocking the loop.
 *
 *     look up the name     in a thread of its own when it is no number
 *     the local socket     when the address is this machine's
 *     each place by TCP    with its share of the time that is left
 *     TLS                  when the net has it
 *
 * A dial belongs to its loop. It begins there by a post, so that it can be
 * started from any thread and never calls back before it returns.
 *
 * A thread that looks a name up cannot be stopped. It works on an fl_resolving
 * of its own, which it shares with the dial (until that is cancelled), with the
 * post of its result and with the net's list (to be joined); the last of them
 * frees it.
 *
 * Lock order: the net's mu, then an fl_resolving's mu, then a loop's.
 */
#include "rpc/stream/socket_inside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "rpc/stream/tls.h"

/* Pause before a local socket with a full queue is tried again. */
#define FULL_PAUSE_MS 10

typedef struct dial {
    fl_loop *loop;
    fl_socket_plan plan; /* a copy: the net may be freed earlier */
    fl_address address;
    char text[FL_ADDRESS_MAX];
    uint64_t timeout_ms, deadline_ms;
    fl_dial_fn fn;
    void *arg;

    fl_resolving *resolving; /* NULL: there is a result, or none is needed */
    fl_err failed;           /* of the look-up */
    fl_place places[FL_PLACES_MAX];
    size_t n_places, at;

    bool has_begun, is_in_tls; /* between them it can be freed */
    bool is_cancelled;         /* and is freed when it comes back */
    int fd;
    fl_watch *watch;
    uint64_t timer;
} dial;

struct fl_resolving {
    atomic_int refs;
    fl_thread *thread;
    fl_resolving *next; /* guarded by the net's mu */
    fl_address address;
    fl_loop *loop;
    fl_place places[FL_PLACES_MAX]; /* by the thread until is_done */
    size_t n_places;
    fl_err failed;
    fl_mutex mu;
    dial *d;      /* NULL: nobody waits any more; guarded by mu */
    bool is_done; /* guarded by mu */
};

static void try_place(dial *d);

/* --- endings -------------------------------------------------------------- */

/* Ends the attempt that is under way. */
static void end_attempt(dial *d)
{
    fl_loop_cancel(d->loop, d->timer);
    d->timer = 0;
    if (d->watch)
        fl_watch_end(d->watch);
    d->watch = NULL;
    if (d->fd >= 0)
        close(d->fd);
    d->fd = -1;
}

/* The last thing that happens to a dial. */
static void finish(dial *d, fl_stream *s)
{
    fl_dial_fn fn = d->fn;
    void *arg = d->arg;

    fl_free(d);
    fn(arg, s);
}

/* With the last error of this thread. */
static void fail(dial *d)
{
    end_attempt(d);
    finish(d, NULL);
}

static uint64_t left_ms(const dial *d)
{
    uint64_t now = fl_loop_now_ms(d->loop);

    return d->deadline_ms > now ? d->deadline_ms - now : 0;
}

static bool nobody_listens(int err)
{
    return err == ECONNREFUSED || err == ENOENT;
}

static void fail_late(dial *d)
{
    (void)fl_err_set(FL_ERR_TIMEOUT,
                     "%s did not answer within %" PRIu64 " ms; check that the "
                     "address is right, that its process runs, and that no "
                     "firewall is in the way",
                     d->text, d->timeout_ms);
    fail(d);
}

static void tls_done(void *arg, fl_stream *s)
{
    dial *d = arg;

    if (!d->is_cancelled) {
        finish(d, s);
        return;
    }
    if (s)
        s->ops->close(s);
    fl_free(d);
}

static void connected(dial *d, const char *peer, bool is_local)
{
    fl_stream *s;
    int fd = d->fd;

    d->fd = -1;
    end_attempt(d);
    s = fl_stream_of_fd(d->loop, fd, peer, is_local);
    if (is_local || !d->plan.o.tls) {
        finish(d, s);
        return;
    }
    d->is_in_tls = true;
    fl_tls_start(d->plan.o.tls, s, FL_TLS_CLIENT, left_ms(d) + 1, tls_done, d);
}

/* --- UNIX sockets --------------------------------------------------------- */

static fl_status refuse_user(const dial *d, uid_t user)
{
    FL_FAIL(FL_ERR_IO,
            "the local socket of %s is of user %lu, not of this process's user "
            "%lu; run both as the same user",
            d->text, (unsigned long)user, (unsigned long)geteuid());
}

/* FL_PENDING when the listener's queue is full, which passes. */
static fl_status connect_unix(dial *d, const fl_place *p, fl_socket_peer *peer)
{
    int err, fd = fl_socket_open(&d->plan, AF_UNIX);
    fl_status st = FL_OK;

    if (fd < 0)
        FL_FAIL(FL_ERR_IO, "cannot make a socket to dial %s: %s", d->text,
                strerror(errno));
    err = connect(fd, (const struct sockaddr *)&p->sa, p->len) ? errno : 0;
    if (!err)
        st = fl_socket_peer_get(fd, peer);
    if (!err && !st) {
        d->fd = fd;
        return FL_OK;
    }
    close(fd);
    if (st)
        return st;
    if (err == EAGAIN || err == EINTR)
        return FL_PENDING;
    st = nobody_listens(err) ? FL_ERR_CLOSED : FL_ERR_IO;
    FL_FAIL(st,
            "cannot connect to %s by its local socket: %s; check that its "
            "process runs on this machine",
            d->text, strerror(err));
}

/* Tries again a little later. */
static void pause_full(dial *d, fl_loop_fn again)
{
    uint64_t left = left_ms(d);

    if (!left) {
        fail_late(d);
        return;
    }
    fl_loop_cancel(d->loop, d->timer);
    d->timer = fl_loop_timer(
        d->loop, left < FULL_PAUSE_MS ? left : FULL_PAUSE_MS, again, d);
}

static void try_path(void *arg)
{
    dial *d = arg;
    fl_place p = fl_place_of_path(d->address.host);
    fl_socket_peer peer;
    fl_status st = connect_unix(d, &p, &peer);

    if (st == FL_PENDING) {
        pause_full(d, try_path);
        return;
    }
    if (!st && peer.user != geteuid() && peer.user != 0)
        st = refuse_user(d, peer.user);
    if (st)
        fail(d);
    else
        connected(d, d->text, true);
}

/* The user must be the very same: another one's process would refuse this one,
   or has taken the name to listen in. */
static fl_status connect_local(dial *d)
{
    char name[FL_LOCAL_NAME_MAX];
    fl_place p;
    fl_socket_peer peer;

    fl_socket_local_name(d->plan.o.job, d->address.port, name);
    p = fl_place_of_name(name);
    FL_TRY(connect_unix(d, &p, &peer));
    if (peer.user != geteuid()) {
        close(d->fd);
        d->fd = -1;
        return refuse_user(d, peer.user);
    }
    return FL_OK;
}

static void try_local(void *arg)
{
    dial *d = arg;
    bool must = d->plan.o.local == FL_LOCAL_FORCE;
    char peer[FL_ADDRESS_MAX];
    fl_status st = connect_local(d);

    if (!st) {
        snprintf(peer, sizeof(peer), "%.119s (local)", d->text);
        connected(d, peer, true);
    } else if (!must) {
        try_place(d);
    } else if (st == FL_PENDING) {
        pause_full(d, try_local);
    } else {
        (void)fl_err_ctx(st, "local_transport=force");
        fail(d);
    }
}

/* --- TCP ------------------------------------------------------------------ */

static void next_place(dial *d, int err)
{
    (void)fl_err_set(nobody_listens(err) ? FL_ERR_CLOSED : FL_ERR_IO,
                     "cannot connect to %s: %s; check that its process runs "
                     "there",
                     d->text, strerror(err));
    end_attempt(d);
    d->at++;
    if (d->at < d->n_places)
        try_place(d);
    else
        fail(d);
}

static void place_late(void *arg)
{
    dial *d = arg;

    d->timer = 0;
    if (d->at + 1 < d->n_places)
        next_place(d, ETIMEDOUT);
    else
        fail_late(d);
}

/* A port of the range that the system gives out to dialling sockets can be
   connected to itself while nobody listens on it. */
static bool is_own_end(int fd)
{
    fl_place here = { .len = sizeof(here.sa) }, there = here;

    return getsockname(fd, (struct sockaddr *)&here.sa, &here.len) == 0 &&
           getpeername(fd, (struct sockaddr *)&there.sa, &there.len) == 0 &&
           here.len == there.len && memcmp(&here.sa, &there.sa, here.len) == 0;
}

static void place_answered(void *arg, unsigned events)
{
    dial *d = arg;
    int err = 0;
    socklen_t len = sizeof(err);

    (void)events;
    if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0)
        err = errno;
    if (!err && is_own_end(d->fd))
        err = ECONNREFUSED;
    if (err)
        next_place(d, err);
    else
        connected(d, d->text, false);
}

static void try_place(dial *d)
{
    const fl_place *p = &d->places[d->at];
    uint64_t share = left_ms(d) / (d->n_places - d->at);

    d->fd = fl_socket_open(&d->plan, p->sa.ss_family);
    if (d->fd < 0) {
        next_place(d, errno);
        return;
    }
    /* Interrupted, it goes on like one that is in progress. */
    if (connect(d->fd, (const struct sockaddr *)&p->sa, p->len) != 0 &&
        errno != EINPROGRESS && errno != EINTR) {
        next_place(d, errno);
        return;
    }
    fl_loop_cancel(d->loop, d->timer);
    d->timer = fl_loop_timer(d->loop, share, place_late, d);
    if (fl_loop_watch(d->loop, d->fd, FL_IO_WRITE, place_answered, d,
                      &d->watch))
        fail(d);
}

/* --- names ---------------------------------------------------------------- */

static void unref(fl_resolving *r)
{
    if (atomic_fetch_sub(&r->refs, 1) != 1)
        return;
    fl_mutex_release(&r->mu);
    fl_free(r);
}

/* Goes on when it has begun and the places are known. */
static void go_on(dial *d)
{
    fl_local_use local = d->plan.o.local;
    bool is_here;

    if (!d->has_begun || d->resolving)
        return;
    if (d->failed.status) {
        (void)fl_err_restore(&d->failed);
        (void)fl_err_ctx(d->failed.status, "dialling %s", d->text);
        fail(d);
        return;
    }
    if (d->address.is_unix) {
        try_path(d);
        return;
    }
    is_here = local != FL_LOCAL_OFF && !d->plan.o.tls &&
              fl_place_is_here(&d->places[0]);
    if (is_here) {
        try_local(d);
    } else if (local == FL_LOCAL_FORCE) {
        (void)fl_err_set(FL_ERR_IO,
                         "local_transport=force, but %s is not on this "
                         "machine; use auto",
                         d->text);
        fail(d);
    } else {
        try_place(d);
    }
}

static void resolved(void *arg)
{
    fl_resolving *r = arg;
    dial *d;

    fl_lock(&r->mu);
    d = r->d;
    r->d = NULL;
    fl_unlock(&r->mu);
    if (d) {
        memcpy(d->places, r->places, sizeof(d->places));
        d->n_places = r->n_places;
        d->failed = r->failed;
        d->resolving = NULL;
        unref(r);
        go_on(d);
    }
    unref(r);
}

static void resolve(void *arg)
{
    fl_resolving *r = arg;
    fl_status st = fl_address_look_up(&r->address, FL_LOOKUP_NAMES, r->places,
                                      &r->n_places);

    if (st)
        fl_err_save(&r->failed, st);
    fl_lock(&r->mu);
    r->is_done = true;
    if (r->d) {
        atomic_fetch_add(&r->refs, 1);
        fl_loop_post(r->loop, resolved, r);
    }
    fl_unlock(&r->mu);
}

static fl_status start_resolving(fl_socket_net *n, dial *d)
{
    fl_resolving *r = fl_alloc(sizeof(*r));
    fl_status st;

    atomic_store(&r->refs, 2); /* the dial's and the list's */
    r->address = d->address;
    r->loop = d->loop;
    r->d = d;
    fl_mutex_init(&r->mu);
    d->resolving = r;
    fl_lock(&n->mu);
    st = fl_thread_start(&r->thread, "fl-resolve", resolve, r);
    if (!st) {
        r->next = n->resolving;
        n->resolving = r;
    }
    fl_unlock(&n->mu);
    if (st) {
        fl_mutex_release(&r->mu);
        fl_free(r);
    }
    return st;
}

static bool is_done(fl_resolving *r)
{
    bool done;

    fl_lock(&r->mu);
    done = r->is_done;
    fl_unlock(&r->mu);
    return done;
}

void fl_socket_reap(fl_socket_net *n, fl_reap which)
{
    fl_resolving **at;

    fl_lock(&n->mu);
    at = &n->resolving;
    while (*at) {
        fl_resolving *r = *at;

        if (which == FL_REAP_DONE && !is_done(r)) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        fl_thread_join(r->thread);
        unref(r);
    }
    fl_unlock(&n->mu);
}

/* --- the calls ------------------------------------------------------------ */

static void name_late(void *arg)
{
    dial *d = arg;
    fl_resolving *r = d->resolving;

    d->timer = 0;
    fl_lock(&r->mu);
    r->d = NULL;
    fl_unlock(&r->mu);
    unref(r);
    (void)fl_err_set(FL_ERR_TIMEOUT,
                     "dialling %s: host %s was not looked up within %" PRIu64
                     " ms; check this machine's name service",
                     d->text, d->address.host, d->timeout_ms);
    fail(d);
}

static void begin(void *arg)
{
    dial *d = arg;
    uint64_t now = fl_loop_now_ms(d->loop);

    if (d->is_cancelled) {
        fl_free(d);
        return;
    }
    d->has_begun = true;
    d->deadline_ms =
        d->timeout_ms < UINT64_MAX - now ? now + d->timeout_ms : UINT64_MAX;
    if (d->resolving)
        d->timer = fl_loop_timer(d->loop, d->timeout_ms, name_late, d);
    go_on(d);
}

/* What must be known before a connection is tried. */
static fl_status prepare(fl_socket_net *n, dial *d, const char *address)
{
    FL_TRY(fl_address_parse(&d->address, address));
    fl_address_text(&d->address, d->text);
    if (d->address.is_unix)
        return FL_OK;
    if (!d->address.port)
        FL_FAIL(FL_ERR_INVAL,
                "address %s has port 0, which cannot be dialled; give the "
                "port that the other process listens on",
                d->text);
    if (!fl_address_look_up(&d->address, FL_LOOKUP_NUMBERS, d->places,
                            &d->n_places))
        return FL_OK;
    return start_resolving(n, d);
}

fl_status fl_socket_dial(fl_net *base, const fl_dial_args *a, void **handle)
{
    fl_socket_net *n = (fl_socket_net *)base;
    dial *d = fl_alloc(sizeof(*d));
    fl_status st;

    d->loop = a->loop;
    d->plan = n->plan;
    d->timeout_ms = a->timeout_ms;
    d->fn = a->fn;
    d->arg = a->arg;
    d->fd = -1;
    fl_socket_reap(n, FL_REAP_DONE);
    st = prepare(n, d, a->address);
    if (st) {
        fl_free(d);
        return st;
    }
    *handle = d;
    fl_loop_post(a->loop, begin, d);
    return FL_OK;
}

void fl_socket_cancel(void *handle)
{
    dial *d = handle;

    if (!d)
        return;
    if (d->resolving) {
        fl_lock(&d->resolving->mu);
        d->resolving->d = NULL;
        fl_unlock(&d->resolving->mu);
        unref(d->resolving);
        d->resolving = NULL;
    }
    d->is_cancelled = true;
    if (!d->has_begun || d->is_in_tls)
        return;
    end_attempt(d);
    fl_free(d);
}
