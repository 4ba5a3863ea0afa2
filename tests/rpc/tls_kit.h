/* tls_kit.h - what the tests of TLS share: certificates in a folder, ends of
 * our own in real loops, and ends by OpenSSL in the test's thread, which
 * blocks, but never for longer than WAIT_S.
 */
#ifndef FL_TESTS_RPC_TLS_KIT_H
#define FL_TESTS_RPC_TLS_KIT_H

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/thread.h"
#include "certs.h"
#include "rpc/stream/socket.h"
#include "rpc/stream/tls.h"

#define WAIT_S 30
#define WAIT_MS (UINT64_C(1000) * WAIT_S)
#define PIECE_MAX (200 << 10)

#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)

/* --- certificates --------------------------------------------------------- */

/* Pairs NAME.crt and NAME.key in the folder; the first two sign the others. */
enum { OURS, THEIRS, MEMBER, OTHER, STRANGER, EXPIRED, EARLY, HALF, N_CERTS };

typedef struct cert_plan {
    const char *name;
    int by;
    long from, to; /* hours */
    const char *use;
} cert_plan;

static const cert_plan plans[N_CERTS] = {
    [OURS] = { "ours", -1, -2, 2, NULL },
    [THEIRS] = { "theirs", -1, -2, 2, NULL },
    [MEMBER] = { "member", OURS, -1, 1, "clientAuth,serverAuth" },
    [OTHER] = { "other", OURS, -1, 1, NULL },
    [STRANGER] = { "stranger", THEIRS, -1, 1, NULL },
    [EXPIRED] = { "expired", OURS, -2, -1, NULL },
    [EARLY] = { "early", OURS, 1, 2, NULL },
    [HALF] = { "half", OURS, -1, 1, "serverAuth" },
};

static char folder[] = "/tmp/flotilla_tls_XXXXXX";
static char crt[N_CERTS][64], key[N_CERTS][64], locked_key[64], junk[64];
static test_cert certs[N_CERTS];
static fl_tls *member, *other, *stranger;

static inline bool make_certs(void)
{
    for (int i = 0; i < N_CERTS; i++) {
        const cert_plan *p = &plans[i];

        snprintf(crt[i], sizeof(crt[i]), "%s/%s.crt", folder, p->name);
        snprintf(key[i], sizeof(key[i]), "%s/%s.key", folder, p->name);
        if (!test_cert_make(&certs[i], p->name,
                            p->by < 0 ? NULL : &certs[p->by],
                            p->from * CERT_HOUR, p->to * CERT_HOUR, p->use) ||
            !test_cert_write(&certs[i], crt[i]) ||
            !test_key_write(&certs[i], key[i], NULL))
            return false;
    }
    snprintf(locked_key, sizeof(locked_key), "%s/locked.key", folder);
    snprintf(junk, sizeof(junk), "%s/junk", folder);
    return test_key_write(&certs[MEMBER], locked_key, "password");
}

static inline fl_status open_tls(fl_tls **out, int ca, int who)
{
    return fl_tls_new(out, &(fl_tls_files){ crt[ca], crt[who], key[who] });
}

static inline int make_folder(void **state)
{
    FILE *f;

    (void)state;
    if (!mkdtemp(folder) || !make_certs())
        return -1;
    f = fopen(junk, "w");
    if (!f || fputs("no PEM at all\n", f) < 0 || fclose(f) != 0)
        return -1;
    return open_tls(&member, OURS, MEMBER) || open_tls(&other, OURS, OTHER) ||
           open_tls(&stranger, THEIRS, STRANGER);
}

static inline int remove_folder(void **state)
{
    (void)state;
    for (int i = 0; i < N_CERTS; i++) {
        unlink(crt[i]);
        unlink(key[i]);
        test_cert_release(&certs[i]);
    }
    unlink(locked_key);
    unlink(junk);
    fl_tls_free(member);
    fl_tls_free(other);
    fl_tls_free(stranger);
    return rmdir(folder);
}

/* --- ends of our own ------------------------------------------------------ */

typedef struct end end;
typedef void (*end_fn)(end *e);

/* Belongs to its loop; what the test's thread looks at is guarded by mu. */
struct end {
    fl_loop *loop;
    fl_tls *tls;
    fl_tls_side side;
    uint64_t timeout_ms;
    int fd;
    fl_tls_handshake *handshake;
    end_fn go; /* with the stream, in the loop; NULL: nothing */

    fl_stream *s;
    uint64_t to_send, sent, to_get, got, draws;
    size_t per_event; /* bytes that an event reads; 0: until there are none */
    uint64_t n_events, n_events_then, n_wrong, n_left;
    uint8_t piece[PIECE_MAX], head[64];

    fl_mutex mu;
    fl_cond changed;
    bool is_shaken, is_done, is_closed, has_passed;
    bool was_refused;
    char why[FL_ERR_TEXT_MAX];
};

static inline end *new_end(fl_loop *loop, fl_tls *tls, fl_tls_side side, int fd)
{
    end *e = fl_alloc(sizeof(*e));

    e->loop = loop;
    e->tls = tls;
    e->side = side;
    e->timeout_ms = WAIT_MS;
    e->fd = fd;
    e->draws = (uint64_t)side;
    fl_mutex_init(&e->mu);
    fl_cond_init(&e->changed);
    return e;
}

static inline void set(end *e, bool *flag)
{
    fl_lock(&e->mu);
    *flag = true;
    fl_cond_wake_all(&e->changed);
    fl_unlock(&e->mu);
}

static inline void wait_for(end *e, const bool *flag)
{
    uint64_t deadline = fl_now_ns() + WAIT_S * UINT64_C(1000000000);
    bool is_set;

    fl_lock(&e->mu);
    while (!*flag && fl_cond_wait_until(&e->changed, &e->mu, deadline))
        continue;
    is_set = *flag;
    fl_unlock(&e->mu);
    if (!is_set)
        fail_msg("nothing happened for %d s", WAIT_S);
}

static inline void keep_why(end *e)
{
    fl_lock(&e->mu);
    snprintf(e->why, sizeof(e->why), "%s", fl_last_error());
    fl_unlock(&e->mu);
}

static inline void on_shaken(void *arg, fl_stream *s)
{
    end *e = arg;

    e->s = s;
    e->handshake = NULL;
    if (!s) {
        keep_why(e);
        e->was_refused = true;
    } else if (e->go) {
        e->go(e);
    }
    set(e, &e->is_shaken);
}

static inline void start(void *arg)
{
    end *e = arg;
    fl_stream *inner = fl_stream_of_fd(
        e->loop, e->fd,
        e->side == FL_TLS_SERVER ? "the.client:1" : "the.server:2", false);

    e->handshake =
        fl_tls_start(e->tls, inner, e->side, e->timeout_ms, on_shaken, e);
}

static inline void start_end(end *e)
{
    fl_loop_post(e->loop, start, e);
}

static inline void drop_stream(end *e)
{
    if (e->handshake)
        fl_tls_cancel(e->handshake);
    if (e->s)
        e->s->ops->close(e->s);
    e->handshake = NULL;
    e->s = NULL;
}

static inline void close_stream(void *arg)
{
    end *e = arg;

    drop_stream(e);
    set(e, &e->is_closed);
}

static inline void free_end(end *e)
{
    e->is_closed = false;
    fl_loop_post(e->loop, close_stream, e);
    wait_for(e, &e->is_closed);
    fl_mutex_release(&e->mu);
    fl_cond_release(&e->changed);
    fl_free(e);
}

static inline void expect_refused(end *e, const char *said)
{
    wait_for(e, &e->is_shaken);
    assert_true(e->was_refused);
    if (!strstr(e->why, said))
        fail_msg("'%s' does not say '%s'", e->why, said);
    if (!strstr(e->why, "the.client:1") && !strstr(e->why, "the.server:2"))
        fail_msg("'%s' does not name the peer", e->why);
}

static inline fl_loop *new_loop(void)
{
    fl_loop *l = NULL;

    assert_ok(fl_loop_new(&l, "test"));
    return l;
}

/* fd[0] is for a loop, fd[1] too or, with `blocks`, for the test's thread. */
static inline void make_pair(int fd[2], bool blocks)
{
    struct timeval limit = { .tv_sec = WAIT_S };
    int kind = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

    assert_int_equal(socketpair(AF_UNIX, kind, 0, fd), 0);
    if (!blocks)
        return;
    assert_int_equal(fcntl(fd[1], F_SETFL, 0), 0);
    setsockopt(fd[1], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd[1], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

/* --- ends by OpenSSL in the test's thread --------------------------------- */

typedef struct raw {
    SSL_CTX *ctx;
    SSL *ssl;
    int fd;
} raw;

/* who < 0: without a certificate; ca < 0: accepts everybody. */
static inline raw raw_open(int fd, int who, int ca)
{
    raw r = { SSL_CTX_new(TLS_method()), NULL, fd };

    assert_non_null(r.ctx);
    if (who >= 0) {
        assert_int_equal(SSL_CTX_use_certificate(r.ctx, certs[who].cert), 1);
        assert_int_equal(SSL_CTX_use_PrivateKey(r.ctx, certs[who].key), 1);
    }
    if (ca >= 0) {
        assert_int_equal(SSL_CTX_load_verify_file(r.ctx, crt[ca]), 1);
        SSL_CTX_set_verify(
            r.ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    }
    r.ssl = SSL_new(r.ctx);
    assert_non_null(r.ssl);
    SSL_set_fd(r.ssl, fd);
    return r;
}

static inline void raw_close(raw *r)
{
    SSL_free(r->ssl);
    SSL_CTX_free(r->ctx);
    close(r->fd);
    ERR_clear_error();
}

#endif
