/* tls.h - TLS 1.3 with certificates on both sides, by OpenSSL.
 *
 * Both ends must show a certificate signed by the given authority. There is no
 * other version and no way to leave the check out. Names in certificates are
 * not compared with addresses: whoever has a certificate of this authority is a
 * member, so the authority should be the job's own. A certificate that limits
 * its use (extendedKeyUsage) must allow both clientAuth and serverAuth.
 *
 * A client's handshake ends before the server has looked at its certificate
 * (that is how TLS 1.3 is made): a client that is refused learns it, with the
 * reason, from its first read or write.
 */
#ifndef FL_RPC_STREAM_TLS_H
#define FL_RPC_STREAM_TLS_H

#include "rpc/stream/stream.h"

typedef struct fl_tls fl_tls;

/* Files in PEM; the key has no password. Errors name the file and what OpenSSL
   says. A certificate of one's own that the authority would not accept (it is
   expired, or somebody else's) is an error at once. Any thread may use it. */
typedef struct fl_tls_files {
    const char *ca, *cert, *key;
} fl_tls_files;
FL_MUST_CHECK
fl_status fl_tls_new(fl_tls **out, const fl_tls_files *files);
/* After the last of its streams is closed; NULL is fine. */
void fl_tls_free(fl_tls *t);

typedef enum fl_tls_side { FL_TLS_SERVER, FL_TLS_CLIENT } fl_tls_side;

typedef struct fl_tls_handshake fl_tls_handshake; /* a handshake under way */

/* Takes the inner stream over and shakes hands; calls fn once with the secret
   stream, or with NULL when the peer was refused (the inner stream is then
   closed). Within timeout_ms. fn is called later, never from inside, and in the
   inner stream's loop. */
fl_tls_handshake *fl_tls_start(fl_tls *t, fl_stream *inner, fl_tls_side side,
                               uint64_t timeout_ms, fl_dial_fn fn, void *arg);

/* Gives a handshake up and closes the inner stream; fn is not called. In the
   loop, and only before fn was called. */
void fl_tls_cancel(fl_tls_handshake *s);

#endif
