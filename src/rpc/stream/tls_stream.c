/* tls_stream.c - a handshake, and the secret stream that comes of it.
 *
 *     owner  <-- plain -->  SSL  <-- records, through a BIO -->  inner stream
 *
 * The BIO keeps nothing: a record that SSL hands over is in the inner stream or
 * SSL keeps it. So a write that was accepted is as safe as one on a plain
 * socket, and closing loses nothing that was accepted.
 *
 * Events. SSL reads ahead, and what it holds makes no event on the inner
 * stream; while the owner wants to read and there is something, a post takes
 * the event's place. Half a record is not something: after a read that ended
 * for want of bytes (`drained`) only the inner stream's event counts, or the
 * post would come again and again for nothing. Reading may have to write first
 * (a key update is answered) and the other way round; the owner's wish is then
 * translated into what SSL waits for.
 *
 * Ends. Callbacks may close the stream. Everything but the struct itself is
 * released at once; the struct when no callback and no post refers to it.
 *
 * All fields belong to the inner stream's loop.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "rpc/stream/tls_inside.h"

#define RECORD_BYTES SSL3_RT_MAX_PLAIN_LENGTH

/* One call moves no more than this, so that others in the loop get their turn
   when a peer is as fast as we are. */
#define TURN_BYTES ((size_t)1 << 20)

/* A handshake is a stream that nobody owns yet. */
struct fl_tls_handshake {
    fl_stream stream;
    fl_tls *tls;
    fl_stream *inner;
    SSL *ssl;
    fl_tls_peer peer;

    fl_tls_side side;
    fl_dial_fn fn;
    void *fn_arg;
    uint64_t timer, timeout_ms;

    unsigned wants, inner_wants;
    bool read_writes, write_reads; /* what SSL waits for is the other one */
    bool drained;

    bool inner_gone, gone;
    fl_err inner_why, why;

    bool posted, closed;
    int calls; /* of the owner that are not back yet */

    /* The record under way. SSL wants the same one again after it could not
       write it all, whatever the owner offers then; bytes of it that the owner
       did not offer in that call are owed. */
    size_t plain_len, owed;
    uint8_t plain[RECORD_BYTES];
};

typedef fl_tls_handshake tls_stream;

/* --- the BIO under SSL ---------------------------------------------------- */

static void note_inner_gone(tls_stream *t)
{
    if (t->inner_gone)
        return;
    t->inner_gone = true;
    t->inner_why.status = FL_ERR_IO;
    snprintf(t->inner_why.text, sizeof(t->inner_why.text), "%s",
             fl_last_error());
}

static void note_first(fl_tls_peer *p, const char *bytes, size_t n)
{
    size_t room = FL_TLS_FIRST_BYTES - p->n_first;

    if (n > room)
        n = room;
    memcpy(p->first + p->n_first, bytes, n);
    p->n_first += n;
}

static int bio_read(BIO *b, char *to, int n)
{
    tls_stream *t = BIO_get_data(b);
    ptrdiff_t got = t->inner->ops->read(t->inner, to, (size_t)n);

    BIO_clear_retry_flags(b);
    if (got > 0) {
        note_first(&t->peer, to, (size_t)got);
        return (int)got;
    }
    if (got == FL_STREAM_AGAIN)
        BIO_set_retry_read(b);
    else
        note_inner_gone(t);
    return -1;
}

static int bio_write(BIO *b, const char *from, int n)
{
    tls_stream *t = BIO_get_data(b);
    struct iovec v = { .iov_base = (void *)(uintptr_t)from,
                       .iov_len = (size_t)n };
    ptrdiff_t put = t->inner->ops->write(t->inner, &v, 1);

    BIO_clear_retry_flags(b);
    if (put > 0)
        return (int)put;
    if (put == FL_STREAM_GONE)
        note_inner_gone(t);
    else
        BIO_set_retry_write(b);
    return -1;
}

static long bio_ctrl(BIO *b, int cmd, long num, void *ptr)
{
    (void)b;
    (void)num;
    (void)ptr;
    return cmd == BIO_CTRL_FLUSH; /* there is nothing to flush */
}

static int bio_create(BIO *b)
{
    BIO_set_init(b, 1);
    return 1;
}

BIO_METHOD *fl_tls_bio_method(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "stream");

    if (!m)
        return NULL;
    BIO_meth_set_read(m, bio_read);
    BIO_meth_set_write(m, bio_write);
    BIO_meth_set_ctrl(m, bio_ctrl);
    BIO_meth_set_create(m, bio_create);
    return m;
}

/* --- failures ------------------------------------------------------------- */

/* What OpenSSL knows comes before what the inner stream says: after a refusal
   the inner stream is closed by the peer, too, and that is not the reason. */
static fl_status find_why(tls_stream *t, int error)
{
    fl_status st = fl_tls_why(&t->peer);

    if (st)
        return st;
    st = fl_tls_why_first(&t->peer);
    if (st)
        return st;
    if (t->inner_gone) {
        (void)fl_err_restore(&t->inner_why);
        return t->peer.shaking
                   ? fl_err_ctx(FL_ERR_IO,
                                "TLS with %s failed in the handshake",
                                t->peer.name)
                   : FL_ERR_IO;
    }
    if (error == SSL_ERROR_ZERO_RETURN)
        return fl_err_set(FL_ERR_IO, "%s closed the connection", t->peer.name);
    return fl_err_set(FL_ERR_IO,
                      "TLS with %s failed for no reason that is known",
                      t->peer.name);
}

static void set_gone(tls_stream *t, int error)
{
    t->gone = true;
    fl_err_save(&t->why, find_why(t, error));
}

/* What a call of SSL that did not succeed waits for. 0: it failed. */
static unsigned waits_for(tls_stream *t, int rc)
{
    int error = SSL_get_error(t->ssl, rc);

    if (error == SSL_ERROR_WANT_READ)
        return FL_IO_READ;
    if (error == SSL_ERROR_WANT_WRITE)
        return FL_IO_WRITE;
    set_gone(t, error);
    return 0;
}

/* A peer that refuses our certificate says so and closes. Whoever writes to it
   then finds a broken connection before the reason, which is still to be read;
   looking for it puts it into OpenSSL's queue. */
static void look_for_alert(tls_stream *t)
{
    char byte;
    size_t n;

    ERR_clear_error();
    (void)SSL_peek_ex(t->ssl, &byte, 1, &n);
}

/* Whoever owns a stream takes its end for one of the connection, whatever its
   kind: the status is the same as a socket's. */
static ptrdiff_t tell_gone(const tls_stream *t)
{
    (void)fl_err_set(FL_ERR_IO, "%s", t->why.text);
    return FL_STREAM_GONE;
}

/* --- events --------------------------------------------------------------- */

static void free_when_idle(tls_stream *t)
{
    if (t->closed && !t->posted && t->calls == 0)
        fl_free(t);
}

static bool is_readable(const tls_stream *t)
{
    return t->gone || (!t->drained && SSL_has_pending(t->ssl));
}

static void tell(tls_stream *t, unsigned events);

static void run_post(void *arg)
{
    tls_stream *t = arg;

    t->posted = false;
    if (t->closed)
        free_when_idle(t);
    else if ((t->wants & FL_IO_READ) && is_readable(t))
        tell(t, FL_IO_READ);
}

/* The event that the inner stream will not give. */
static void post_if_readable(tls_stream *t)
{
    if (t->posted || t->calls > 0 || !(t->wants & FL_IO_READ) ||
        !is_readable(t))
        return;
    t->posted = true;
    fl_loop_post(t->stream.loop, run_post, t);
}

static void tell(tls_stream *t, unsigned events)
{
    t->calls++;
    t->stream.ready(t->stream.arg, events);
    t->calls--;
    if (t->closed)
        free_when_idle(t);
    else
        post_if_readable(t);
}

static void want_inner(tls_stream *t, unsigned events)
{
    if (events == t->inner_wants)
        return;
    t->inner_wants = events;
    t->inner->ops->want(t->inner, events);
}

static unsigned read_event(const tls_stream *t)
{
    return t->read_writes ? FL_IO_WRITE : FL_IO_READ;
}

static unsigned write_event(const tls_stream *t)
{
    return t->write_reads ? FL_IO_READ : FL_IO_WRITE;
}

static void translate_wants(tls_stream *t)
{
    unsigned events = 0;

    if (t->wants & FL_IO_READ)
        events |= read_event(t);
    if (t->wants & FL_IO_WRITE)
        events |= write_event(t);
    want_inner(t, events);
}

static void on_inner(void *arg, unsigned events)
{
    tls_stream *t = arg;
    unsigned told = 0;

    if (events & ~t->inner_wants) /* a hang-up, which is always told */
        told = events;
    if ((t->wants & FL_IO_READ) && (events & read_event(t)))
        told |= FL_IO_READ;
    if ((t->wants & FL_IO_WRITE) && (events & write_event(t)))
        told |= FL_IO_WRITE;
    if (told && t->stream.ready) /* without an owner it waits for one */
        tell(t, told);
}

/* --- the stream ----------------------------------------------------------- */

static ptrdiff_t tls_read(fl_stream *s, void *to, size_t n)
{
    tls_stream *t = (tls_stream *)s;
    size_t done = 0, got;

    if (n > TURN_BYTES)
        n = TURN_BYTES;
    t->drained = false;
    while (done < n && !t->gone) {
        unsigned waits;

        ERR_clear_error();
        got = 0;
        if (SSL_read_ex(t->ssl, (char *)to + done, n - done, &got) == 1) {
            done += got;
            continue;
        }
        waits = waits_for(t, 0);
        t->drained = waits != 0;
        t->read_writes = waits == FL_IO_WRITE;
        break;
    }
    translate_wants(t);
    post_if_readable(t);
    if (done > 0)
        return (ptrdiff_t)done;
    return t->gone ? tell_gone(t) : FL_STREAM_AGAIN;
}

/* A place in what the owner offers. */
typedef struct spot {
    const struct iovec *v;
    int n;
    size_t off; /* in v[0] */
} spot;

/* Goes on by up to n bytes, copying them when `to` is not NULL; returns how
   far it came. */
static size_t move_on(spot *s, size_t n, uint8_t *to)
{
    size_t done = 0;

    while (s->n > 0 && done < n) {
        size_t here = s->v->iov_len - s->off;
        size_t take = here < n - done ? here : n - done;

        if (to && take > 0)
            memcpy(to + done, (const uint8_t *)s->v->iov_base + s->off, take);
        done += take;
        s->off += take;
        if (s->off == s->v->iov_len) {
            s->v++;
            s->n--;
            s->off = 0;
        }
    }
    return done;
}

/* Writes the record under way; false when it has to wait or failed. */
static bool write_record(tls_stream *t)
{
    size_t put = 0;

    ERR_clear_error();
    t->write_reads = false;
    if (SSL_write_ex(t->ssl, t->plain, t->plain_len, &put) == 1)
        return true;
    if (t->inner_gone) {
        look_for_alert(t);
        set_gone(t, SSL_ERROR_SYSCALL);
    } else {
        t->write_reads = waits_for(t, 0) == FL_IO_READ;
    }
    return false;
}

static ptrdiff_t tls_write(fl_stream *s, const struct iovec *v, int n)
{
    tls_stream *t = (tls_stream *)s;
    spot at = { v, n, 0 };
    size_t done = move_on(&at, t->owed, NULL), moved;

    t->owed -= done;
    while (!t->gone && done < TURN_BYTES) {
        if (t->plain_len == 0) {
            spot ahead = at;

            t->plain_len = move_on(&ahead, RECORD_BYTES, t->plain);
        }
        if (t->plain_len == 0 || !write_record(t))
            break;
        moved = move_on(&at, t->plain_len, NULL);
        t->owed = t->plain_len - moved;
        t->plain_len = 0;
        done += moved;
    }
    translate_wants(t);
    post_if_readable(t);
    if (done > 0)
        return (ptrdiff_t)done;
    return t->gone ? tell_gone(t) : FL_STREAM_AGAIN;
}

static void tls_want(fl_stream *s, unsigned events)
{
    tls_stream *t = (tls_stream *)s;

    t->wants = events;
    translate_wants(t);
    post_if_readable(t);
}

static void drop(tls_stream *t)
{
    SSL_free(t->ssl);
    t->ssl = NULL;
    t->inner->ops->close(t->inner);
    t->inner = NULL;
    t->closed = true;
    free_when_idle(t);
}

/* The goodbye is lost when the inner stream takes nothing now: the peer then
   sees an end without one, which it treats as an end, too. */
static void tls_close(fl_stream *s)
{
    tls_stream *t = (tls_stream *)s;

    if (!t->gone) {
        (void)SSL_shutdown(t->ssl);
        ERR_clear_error();
    }
    drop(t);
}

static const fl_stream_ops ops = {
    .read = tls_read,
    .write = tls_write,
    .want = tls_want,
    .close = tls_close,
};

/* --- the handshake -------------------------------------------------------- */

static void fail(tls_stream *t)
{
    fl_dial_fn fn = t->fn;
    void *arg = t->fn_arg;
    fl_err why = t->why;

    fl_loop_cancel(t->stream.loop, t->timer);
    drop(t);
    (void)fl_err_restore(&why);
    fn(arg, NULL);
}

static void succeed(tls_stream *t)
{
    fl_loop_cancel(t->stream.loop, t->timer);
    t->peer.shaking = false;
    t->inner->ready = on_inner;
    want_inner(t, 0);
    t->fn(t->fn_arg, &t->stream);
}

static void go_on(void *arg, unsigned events)
{
    tls_stream *t = arg;
    unsigned waits;
    int rc;

    (void)events;
    if (!t->ssl) /* a hang-up before `begin`: it will be told again */
        return;
    ERR_clear_error();
    rc = SSL_do_handshake(t->ssl);
    if (rc == 1) {
        succeed(t);
        return;
    }
    waits = waits_for(t, rc);
    if (waits)
        want_inner(t, waits);
    else
        fail(t);
}

static void run_out(void *arg)
{
    tls_stream *t = arg;

    fl_err_save(&t->why,
                fl_err_set(FL_ERR_TIMEOUT,
                           "TLS with %s failed: no handshake within %llu ms; "
                           "does it run, and with TLS?",
                           t->peer.name, (unsigned long long)t->timeout_ms));
    fail(t);
}

static void make_ssl(tls_stream *t)
{
    BIO *bio = BIO_new(t->tls->bio);

    t->ssl = SSL_new(t->tls->ctx);
    FL_ASSERT(t->ssl && bio);
    BIO_set_data(bio, t);
    SSL_set_bio(t->ssl, bio, bio);
    if (t->side == FL_TLS_SERVER)
        SSL_set_accept_state(t->ssl);
    else
        SSL_set_connect_state(t->ssl);
    t->peer.ssl = t->ssl;
}

static void begin(void *arg)
{
    tls_stream *t = arg;

    t->posted = false;
    if (t->closed) {
        free_when_idle(t);
        return;
    }
    make_ssl(t);
    t->timer = fl_loop_timer(t->stream.loop, t->timeout_ms, run_out, t);
    go_on(t, 0);
}

fl_tls_handshake *fl_tls_start(fl_tls *tls, fl_stream *inner, fl_tls_side side,
                               uint64_t timeout_ms, fl_dial_fn fn, void *arg)
{
    tls_stream *t = fl_alloc(sizeof(*t));

    t->stream =
        (fl_stream){ .ops = &ops, .loop = inner->loop, .is_secret = true };
    memcpy(t->stream.peer, inner->peer, sizeof(t->stream.peer));
    t->tls = tls;
    t->inner = inner;
    t->peer.name = t->stream.peer;
    t->peer.shaking = true;
    t->side = side;
    t->fn = fn;
    t->fn_arg = arg;
    t->timeout_ms = timeout_ms;
    inner->ready = go_on;
    inner->arg = t;
    t->posted = true;
    fl_loop_post(inner->loop, begin, t);
    return t;
}

void fl_tls_cancel(fl_tls_handshake *s)
{
    fl_loop_cancel(s->stream.loop, s->timer);
    drop(s);
}
