/* test_auth.c - proofs of the join token. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "rpc/wire/auth.h"

static const uint8_t nonce_a[FL_NONCE_BYTES] = { 1, 2, 3 };
static const uint8_t nonce_b[FL_NONCE_BYTES] = { 4, 5, 6 };

static fl_auth_input some_input(void)
{
    return (fl_auth_input){ .label = "client",
                            .client_nonce = nonce_a,
                            .server_nonce = nonce_b,
                            .identity = "who i am",
                            .identity_len = 8 };
}

static bool prove_the_same(const char *token, const fl_auth_input *x,
                           const char *other, const fl_auth_input *y)
{
    uint8_t a[FL_PROOF_BYTES], b[FL_PROOF_BYTES];

    fl_auth_proof(token, x, a);
    fl_auth_proof(other, y, b);
    return fl_auth_equal(a, b);
}

static void the_same_token_gives_the_same_proof(void **state)
{
    fl_auth_input in = some_input();

    (void)state;
    assert_true(prove_the_same("secret", &in, "secret", &in));
}

/* Made with another implementation of HMAC, from the bytes in the docs. */
static void a_proof_is_made_as_the_docs_say(void **state)
{
    static const uint8_t known[FL_PROOF_BYTES] = {
        0x8c, 0xf5, 0x6a, 0xc8, 0xc5, 0xd0, 0x36, 0x53, 0x86, 0x34, 0x06,
        0xb6, 0x96, 0x5a, 0x9b, 0x0c, 0xbb, 0x56, 0x97, 0x9c, 0xb9, 0xd9,
        0x30, 0xaf, 0x75, 0xaa, 0x37, 0x2c, 0xa3, 0xf1, 0x47, 0xa4,
    };
    fl_auth_input in = some_input();
    uint8_t proof[FL_PROOF_BYTES];

    (void)state;
    fl_auth_proof("secret", &in, proof);
    assert_memory_equal(proof, known, sizeof(known));
}

static void every_part_changes_the_proof(void **state)
{
    fl_auth_input in = some_input(), other;

    (void)state;
    assert_false(prove_the_same("secret", &in, "Secret", &in));
    other = in;
    other.label = "server";
    assert_false(prove_the_same("secret", &in, "secret", &other));
    other = in;
    other.client_nonce = nonce_b;
    assert_false(prove_the_same("secret", &in, "secret", &other));
    other = in;
    other.server_nonce = nonce_a;
    assert_false(prove_the_same("secret", &in, "secret", &other));
    other = in;
    other.identity = "who I am";
    assert_false(prove_the_same("secret", &in, "secret", &other));
    other = in;
    other.identity_len--;
    assert_false(prove_the_same("secret", &in, "secret", &other));
}

static void an_empty_token_fits_an_empty_one_only(void **state)
{
    fl_auth_input in = some_input();

    (void)state;
    assert_true(prove_the_same("", &in, "", &in));
    assert_true(prove_the_same("", &in, NULL, &in));
    assert_false(prove_the_same("", &in, "secret", &in));
}

static void tokens_longer_than_a_block_differ_to_the_end(void **state)
{
    fl_auth_input in = some_input();
    char a[300], b[300];

    (void)state;
    memset(a, 'x', sizeof(a) - 1);
    a[sizeof(a) - 1] = 0;
    memcpy(b, a, sizeof(b));
    assert_true(prove_the_same(a, &in, b, &in));
    b[sizeof(b) - 2] = 'y';
    assert_false(prove_the_same(a, &in, b, &in));
}

static void a_difference_in_any_byte_is_seen(void **state)
{
    uint8_t a[FL_PROOF_BYTES] = { 0 }, b[FL_PROOF_BYTES] = { 0 };

    (void)state;
    for (size_t i = 0; i < FL_PROOF_BYTES; i++) {
        b[i] = 0x80;
        assert_false(fl_auth_equal(a, b));
        b[i] = 0;
        assert_true(fl_auth_equal(a, b));
    }
}

static void nonces_do_not_repeat(void **state)
{
    uint8_t seen[64][FL_NONCE_BYTES];

    (void)state;
    for (size_t i = 0; i < 64; i++) {
        fl_auth_nonce(seen[i]);
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(seen[i], seen[j], FL_NONCE_BYTES);
    }
    assert_true(fl_auth_random64() != fl_auth_random64());
    assert_true(fl_auth_random64() != 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_token_gives_the_same_proof),
        cmocka_unit_test(a_proof_is_made_as_the_docs_say),
        cmocka_unit_test(every_part_changes_the_proof),
        cmocka_unit_test(an_empty_token_fits_an_empty_one_only),
        cmocka_unit_test(tokens_longer_than_a_block_differ_to_the_end),
        cmocka_unit_test(a_difference_in_any_byte_is_seen),
        cmocka_unit_test(nonces_do_not_repeat),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
