/* test_codec.c - values and keys as they travel: all lengths, nothing outside of
 * their memory, zeros where nothing is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "ps/msg/codec.h"

#define LEN_MAX 40

static void *memory(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);

    assert_non_null(p);
    memset(p, 0xff, bytes);
    return p;
}

/* --- values --------------------------------------------------------------- */

static void a_codec_is_known_by_its_name(void **state)
{
    fl_codec c = FL_CODEC_F32;

    (void)state;
    for (int i = 0; i < FL_CODECS; i++) {
        assert_true(fl_codec_find(fl_codec_name((fl_codec)i), &c));
        assert_int_equal(c, i);
    }
    assert_false(fl_codec_find("f16", &c));
    assert_int_equal(fl_codec_bytes(FL_CODEC_F32, 3), 12);
    assert_int_equal(fl_codec_bytes(FL_CODEC_BF16, 3), 8);
    assert_int_equal(fl_codec_bytes(FL_CODEC_BF16, 4), 8);
    assert_int_equal(fl_codec_bytes(FL_CODEC_BF16, 0), 0);
}

/* Eighths up to 10 need 7 bits: no codec changes them. */
static void check_values(fl_codec c, size_t n)
{
    size_t bytes = (size_t)fl_codec_bytes(c, n);
    float *values = memory(n * sizeof(float)), *got = memory(n * sizeof(float));
    uint8_t *coded = memory(bytes);

    for (size_t i = 0; i < n; i++)
        values[i] = (float)(i % 80) / 8 - 5;
    fl_codec_encode(c, values, n, coded);
    fl_codec_decode(c, coded, n, got);
    for (size_t i = 0; i < n; i++)
        assert_true(got[i] == values[i]);
    for (size_t i = n * fl_codec_width(c); i < bytes; i++)
        assert_int_equal(coded[i], 0);
    free(values);
    free(got);
    free(coded);
}

static void values_of_few_bits_come_back_as_they_were(void **state)
{
    (void)state;
    for (int c = 0; c < FL_CODECS; c++)
        for (size_t n = 0; n <= LEN_MAX; n++)
            check_values((fl_codec)c, n);
}

static void bf16_rounds_to_the_nearest_of_eight_bits(void **state)
{
    float x[] = { 1 + 0x1p-8f, 1 + 0x1.8p-7f, -1.01f }, got[3];
    uint32_t coded[2];

    (void)state;
    fl_codec_encode(FL_CODEC_BF16, x, 3, coded);
    fl_codec_decode(FL_CODEC_BF16, coded, 3, got);
    assert_true(got[0] == 1 && got[1] == 1 + 0x1p-6f);
    assert_true(got[2] == -1.0078125f);
}

static void rows_are_decoded_to_their_places(void **state)
{
    static const float values[] = { 1, 2, 3, 4, 5, 6 };
    static const uint32_t places[] = { 2, 0 };
    uint32_t coded[6];

    (void)state;
    for (int c = 0; c < FL_CODECS; c++) {
        float out[9] = { 0 };

        fl_codec_encode((fl_codec)c, values, 6, coded);
        fl_codec_decode_rows((fl_codec)c,
                             &(fl_codec_rows){ coded, places, 2, 3 }, out);
        assert_memory_equal(out, values + 3, 3 * sizeof(float));
        assert_memory_equal(out + 6, values, 3 * sizeof(float));
        assert_true(out[3] == 0 && out[5] == 0);
    }
}

/* --- keys ----------------------------------------------------------------- */

static void the_largest_key_says_how_many_bytes_are_needed(void **state)
{
    uint64_t keys[] = { 0, 0, 0 };

    (void)state;
    assert_int_equal(fl_keys_width(keys, 0), 1);
    assert_int_equal(fl_keys_width(keys, 3), 1);
    for (uint32_t width = 1; width <= 8; width++) {
        keys[1] = UINT64_MAX >> (64 - 8 * width);
        assert_int_equal(fl_keys_width(keys, 3), width);
    }
    keys[1] = 256;
    assert_int_equal(fl_keys_width(keys, 3), 2);
}

/* As one, and cut in two. */
static void check_keys(size_t n, uint32_t width)
{
    size_t bytes = (size_t)fl_keys_bytes(n, width);
    uint64_t *keys = memory(n * sizeof(*keys)), *got = memory(n * sizeof(*got));
    uint8_t *coded = memory(bytes);
    fl_coded_keys from = { coded, n, width };

    for (size_t i = 0; i < n; i++)
        keys[i] = fl_mix64(i) >> (64 - 8 * width);
    fl_keys_encode(keys, n, width, coded);
    for (size_t i = n * width; i < bytes; i++)
        assert_int_equal(coded[i], 0);
    for (size_t cut = 0; cut <= n; cut++) {
        memset(got, 0xff, n * sizeof(*got));
        fl_keys_decode(&from, 0, cut, got);
        fl_keys_decode(&from, cut, n - cut, got + cut);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(got[i], keys[i]);
    }
    free(keys);
    free(got);
    free(coded);
}

static void keys_of_any_width_come_back(void **state)
{
    (void)state;
    for (uint32_t width = 1; width <= 8; width++)
        for (size_t n = 0; n <= LEN_MAX; n++)
            check_keys(n, width);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_codec_is_known_by_its_name),
        cmocka_unit_test(values_of_few_bits_come_back_as_they_were),
        cmocka_unit_test(bf16_rounds_to_the_nearest_of_eight_bits),
        cmocka_unit_test(rows_are_decoded_to_their_places),
        cmocka_unit_test(the_largest_key_says_how_many_bytes_are_needed),
        cmocka_unit_test(keys_of_any_width_come_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
