/* auth.c - nonces and proofs, by OpenSSL.
 *
 *     proof = HMAC-SHA-256(token, label, 0 up to 16 bytes |
 *                                 client's nonce | server's nonce |
 *                                 SHA-256(identity))
 *
 * The label keeps a server from sending a client's proof back as its own, the
 * two nonces keep an old proof from being used again, and the identity keeps
 * the one who proves from being taken for somebody else. All parts have fixed
 * lengths, so no two inputs give the same bytes.
 *
 * The look token is the lower-case hexadecimal text of
 * HMAC-SHA-256(token, "flotilla look"), and a token like any other: a tool that
 * proves it may look, and nothing more.
 *
 * A failure of OpenSSL here is one of this process (no entropy, no memory for a
 * few hundred bytes), not of a peer: there is nothing to go on with.
 */
#include "rpc/wire/auth.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "rpc/stream/openssl.h"

typedef struct proof_input {
    char label[16]; /* the rest is 0 */
    uint8_t client_nonce[FL_NONCE_BYTES];
    uint8_t server_nonce[FL_NONCE_BYTES];
    uint8_t identity[SHA256_DIGEST_LENGTH];
} proof_input;

_Static_assert(sizeof(proof_input) == 112, "there is no padding");

static void fill_random(void *out, int n)
{
    if (RAND_bytes(out, n) != 1)
        fl_die(__FILE__, __LINE__, "the system gives no random numbers");
}

void fl_auth_nonce(uint8_t out[FL_NONCE_BYTES])
{
    fill_random(out, FL_NONCE_BYTES);
}

uint64_t fl_auth_random64(void)
{
    uint64_t x;

    do
        fill_random(&x, sizeof(x));
    while (!x);
    return x;
}

void fl_auth_proof(const char *token, const fl_auth_input *in,
                   uint8_t out[FL_PROOF_BYTES])
{
    const char *key = token ? token : "";
    size_t key_len = strlen(key), label_len = strlen(in->label);
    proof_input i = { .label = "" };
    unsigned len = 0;

    FL_ASSERT(label_len < sizeof(i.label) && key_len <= INT_MAX);
    memcpy(i.label, in->label, label_len);
    memcpy(i.client_nonce, in->client_nonce, FL_NONCE_BYTES);
    memcpy(i.server_nonce, in->server_nonce, FL_NONCE_BYTES);
    FL_ASSERT(SHA256(in->identity, in->identity_len, i.identity));
    FL_ASSERT(HMAC(EVP_sha256(), key, (int)key_len, (const uint8_t *)&i,
                   sizeof(i), out, &len));
    FL_ASSERT(len == FL_PROOF_BYTES);
}

static void print_hex(const uint8_t bytes[FL_PROOF_BYTES],
                      char out[FL_LOOK_TOKEN_BYTES])
{
    for (size_t i = 0; i < FL_PROOF_BYTES; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

void fl_auth_look_token(const char *token, char out[FL_LOOK_TOKEN_BYTES])
{
    static const char label[] = "flotilla look";
    const char *key = token ? token : "";
    size_t key_len = strlen(key);
    uint8_t bytes[FL_PROOF_BYTES];
    unsigned len = 0;

    FL_ASSERT(key_len <= INT_MAX);
    FL_ASSERT(HMAC(EVP_sha256(), key, (int)key_len, (const uint8_t *)label,
                   sizeof(label) - 1, bytes, &len));
    FL_ASSERT(len == FL_PROOF_BYTES);
    print_hex(bytes, out);
}

void fl_auth_new_token(char out[FL_LOOK_TOKEN_BYTES])
{
    uint8_t bytes[FL_PROOF_BYTES];

    fill_random(bytes, sizeof(bytes));
    print_hex(bytes, out);
}

bool fl_auth_equal(const uint8_t a[FL_PROOF_BYTES],
                   const uint8_t b[FL_PROOF_BYTES])
{
    return CRYPTO_memcmp(a, b, FL_PROOF_BYTES) == 0;
}
