/* tls_inside.h - what the files of TLS share; for tls*.c only. */
#ifndef FL_RPC_STREAM_TLS_INSIDE_H
#define FL_RPC_STREAM_TLS_INSIDE_H

#include "rpc/stream/openssl.h"
#include "rpc/stream/tls.h"

struct fl_tls {
    SSL_CTX *ctx;
    BIO_METHOD *bio; /* tls_stream.c: reads and writes an inner stream */
};

BIO_METHOD *fl_tls_bio_method(void); /* NULL when there is no memory */

/* --- sentences (tls_why.c) ------------------------------------------------ */

#define FL_TLS_FIRST_BYTES 4

/* Who the peer is, as far as a sentence needs it. */
typedef struct fl_tls_peer {
    const SSL *ssl;
    const char *name;
    bool shaking;                      /* the handshake is not over */
    uint8_t first[FL_TLS_FIRST_BYTES]; /* that it sent */
    size_t n_first;
} fl_tls_peer;

/* What OpenSSL's queue of errors says about this peer. Empties the queue;
   FL_OK, and no sentence, when it says nothing. */
fl_status fl_tls_why(const fl_tls_peer *p);

/* That the peer is none of TLS, by its first bytes; FL_OK when it may be. */
fl_status fl_tls_why_first(const fl_tls_peer *p);

/* OpenSSL's text for the first error in the queue; empties it. */
const char *fl_tls_reason(void);

/* What is wrong with a certificate, after "it" or a file's name. */
const char *fl_tls_verify_text(long code);

#endif
