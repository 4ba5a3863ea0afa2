/* auth.h - proving that one knows the join token without sending it.
 *
 * HMAC-SHA-256 with the token as its key, over a label, both nonces and what
 * the sender says it is. An empty token proves nothing and is accepted by an
 * empty token only.
 */
#ifndef FL_RPC_WIRE_AUTH_H
#define FL_RPC_WIRE_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FL_NONCE_BYTES 32
#define FL_PROOF_BYTES 32

void fl_auth_nonce(uint8_t out[FL_NONCE_BYTES]); /* from the system */
uint64_t fl_auth_random64(void);                 /* the same way; never 0 */

typedef struct fl_auth_input {
    const char *label; /* "client" or "server"; under 16 bytes */
    const uint8_t *client_nonce, *server_nonce;
    const void *identity; /* the HELLO payload, as sent */
    size_t identity_len;
} fl_auth_input;

/* NULL is an empty token, too. */
void fl_auth_proof(const char *token, const fl_auth_input *in,
                   uint8_t out[FL_PROOF_BYTES]);

/* The look token: whoever has it may look at a job, and cannot tell the token
   that it comes from. */
#define FL_LOOK_TOKEN_BYTES (2 * FL_PROOF_BYTES + 1)
void fl_auth_look_token(const char *token, char out[FL_LOOK_TOKEN_BYTES]);
/* 32 random bytes in the same form. */
void fl_auth_new_token(char out[FL_LOOK_TOKEN_BYTES]);

/* In a time that does not depend on where they differ. */
bool fl_auth_equal(const uint8_t a[FL_PROOF_BYTES],
                   const uint8_t b[FL_PROOF_BYTES]);

#endif
