/* handshake.h - the payloads of a handshake, and of replies that are errors.
 *
 *     HELLO      u32 version, u32 role and u32 rank of who should answer,
 *                32 bytes nonce, identity
 *     CHALLENGE  32 bytes nonce
 *     PROOF      32 bytes, over both nonces and the HELLO payload
 *     WELCOME    identity, u64 sequence, 32 bytes proof over what is before it
 *     an error   u32 status, text sentence
 *
 * The sequence in a WELCOME is the last one that the server has applied for
 * this session: a client that starts goes on behind it, and one that comes back
 * sees whether the server still has all that it has confirmed.
 */
#ifndef FL_RPC_WIRE_HANDSHAKE_H
#define FL_RPC_WIRE_HANDSHAKE_H

#include "rpc/wire/conn.h"
#include "rpc/wire/hello.h"

/* No message of a handshake is longer: a stranger gets no more memory. */
#define FL_HANDSHAKE_BYTES_MAX 4096

typedef struct fl_hello {
    uint32_t version;
    fl_member_role wanted_role; /* who should answer */
    uint32_t wanted_rank;
    uint8_t nonce[FL_NONCE_BYTES];
    fl_identity who;
} fl_hello;

typedef struct fl_welcome {
    fl_identity who;
    uint64_t sequence;
    uint8_t proof[FL_PROOF_BYTES];
} fl_welcome;

/* A payload may be NULL: then it is empty. */
fl_unpack fl_unpack_of(const fl_payload *p);

void fl_hello_pack(fl_pack *p, const fl_hello *h);
/* Of another version only the number is read: the rest may have any form. */
FL_MUST_CHECK
fl_status fl_hello_read(const fl_payload *p, fl_hello *out);

/* Without the proof, which is over these bytes. */
void fl_welcome_pack(fl_pack *p, const fl_welcome *w);
/* *proved is how many bytes the proof is over. */
FL_MUST_CHECK
fl_status fl_welcome_read(const fl_payload *p, fl_welcome *out, size_t *proved);

/* A CHALLENGE or a PROOF. */
FL_MUST_CHECK
fl_status fl_handshake_read32(const fl_payload *p, uint8_t out[32]);

/* A text of a peer ends up in logs and on terminals. */
void fl_make_printable(char *text);

void fl_error_pack(fl_pack *p, fl_status st, const char *text);
/* Makes it this thread's last error, and returns its status: never FL_OK. */
fl_status fl_error_read(const fl_payload *p);

#endif
