/* test_scan.c - numbers out of text: the right ones, and only those. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"
#include "data/format/scan_fast.h"
#include "data/dataset/source.h"

#define N_RANDOM 200000
#define TEXT_MAX 1024

static uint64_t draw(uint64_t *s)
{
    *s += 0x9e3779b97f4a7c15u;
    return fl_mix64(*s);
}

/* --- text before a page that cannot be read ------------------------------ */

static char *page; /* what follows its last byte faults */
static size_t page_bytes;

static int map_page(void **state)
{
    (void)state;
    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    page = mmap(NULL, 2 * page_bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return -1;
    return mprotect(page + page_bytes, page_bytes, PROT_NONE);
}

static int unmap_page(void **state)
{
    (void)state;
    return munmap(page, 2 * page_bytes);
}

/* The text at the end of the page. */
static const char *at_the_edge(const char *text)
{
    size_t n = strlen(text);

    return memcpy(page + page_bytes - n, text, n);
}

static const char *edge(void)
{
    return page + page_bytes;
}

/* --- whole numbers ------------------------------------------------------- */

/* Good when `left` is NULL; else what is left when it fails. */
static void expect_u64(const char *text, uint64_t value, const char *left)
{
    const char *at = at_the_edge(text);
    uint64_t got = 0;

    assert_int_equal(fl_scan_u64(&at, edge(), &got), left == NULL);
    assert_ptr_equal(at, edge() - (left ? strlen(left) : 0));
    if (!left)
        assert_true(got == value);
}

static void ids_reach_to_the_last_of_64_bits(void **state)
{
    (void)state;
    expect_u64("0", 0, NULL);
    expect_u64("7", 7, NULL);
    expect_u64("1234567", 1234567, NULL);
    expect_u64("12345678", 12345678, NULL);
    expect_u64("9999999999999999999", 9999999999999999999u, NULL);
    expect_u64("18446744073709551615", UINT64_MAX, NULL);
    expect_u64("000000000000000000000000000000018446744073709551615",
               UINT64_MAX, NULL);
    expect_u64("18446744073709551616", 0, "6");
    expect_u64("18446744073709551620", 0, "0");
    expect_u64("99999999999999999999", 0, "9");
    expect_u64("184467440737095516150", 0, "0");
}

static void what_is_no_id_is_left_where_it_is(void **state)
{
    static const char *const texts[] = {
        "+1", "-1", " 1", "x", ".5", "/", ":"
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(texts); i++)
        expect_u64(texts[i], 0, texts[i]);
    expect_u64("", 0, "");
}

static void an_id_ends_where_the_digits_do(void **state)
{
    const char *text = at_the_edge("12345678901 5");
    const char *at = text;
    uint64_t got;

    (void)state;
    assert_true(fl_scan_u64(&at, edge(), &got));
    assert_true(got == 12345678901u);
    assert_memory_equal(at, " 5", 2);
    at = text;
    assert_true(fl_scan_u64(&at, text + 3, &got));
    assert_true(got == 123);
}

static void random_ids_come_back(void **state)
{
    uint64_t s = 1;

    (void)state;
    for (int i = 0; i < N_RANDOM; i++) {
        uint64_t id = draw(&s) >> draw(&s) % 64;
        char text[32];

        snprintf(text, sizeof(text), "%" PRIu64, id);
        expect_u64(text, id, NULL);
    }
}

static void expect_i64(const char *text, int64_t value, const char *left)
{
    const char *at = at_the_edge(text);
    int64_t got = 0;

    assert_int_equal(fl_scan_i64(&at, edge(), &got), left == NULL);
    assert_ptr_equal(at, edge() - (left ? strlen(left) : 0));
    if (!left)
        assert_true(got == value);
}

static void integers_reach_to_both_ends(void **state)
{
    (void)state;
    expect_i64("0", 0, NULL);
    expect_i64("-0", 0, NULL);
    expect_i64("-3", -3, NULL);
    expect_i64("9223372036854775807", INT64_MAX, NULL);
    expect_i64("-9223372036854775808", INT64_MIN, NULL);
    expect_i64("9223372036854775808", 0, "8");
    expect_i64("-9223372036854775809", 0, "9");
    expect_i64("-", 0, "");
    expect_i64("--1", 0, "-1");
    expect_i64("+1", 0, "+1");
    expect_i64("", 0, "");
}

static void expect_hex(const char *text, uint64_t value, const char *left)
{
    const char *at = at_the_edge(text);
    uint64_t got = 0;

    assert_int_equal(fl_scan_hex(&at, edge(), &got), left == NULL);
    assert_ptr_equal(at, edge() - (left ? strlen(left) : 0));
    if (!left)
        assert_true(got == value);
}

static void hexadecimals_have_up_to_16_digits(void **state)
{
    (void)state;
    expect_hex("0", 0, NULL);
    expect_hex("68fd1e64", 0x68fd1e64, NULL);
    expect_hex("aBcDeF", 0xabcdef, NULL);
    expect_hex("ffffffffffffffff", UINT64_MAX, NULL);
    expect_hex("00000000000000000", 0, "0");
    expect_hex("g", 0, "g");
    expect_hex("@", 0, "@");
    expect_hex("`", 0, "`");
    expect_hex("", 0, "");
}

/* --- floats -------------------------------------------------------------- */

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

/* As strtof reads it, to the bit; and so does the short form, if it takes
   it. */
static void expect_like_strtof(const char *text)
{
    static char padded[TEXT_MAX + FL_TEXT_PADDING];
    const char *at = at_the_edge(text);
    float right = strtof(text, NULL), got = 0;

    if (!fl_scan_f32(&at, edge(), &got))
        fail_msg("'%s' was refused", text);
    assert_ptr_equal(at, edge());
    if (bits_of(got) != bits_of(right))
        fail_msg("'%s' is %.9g and not %.9g", text, (double)right, (double)got);
    memset(padded, 0, sizeof(padded));
    memcpy(padded, text, strlen(text));
    at = padded;
    if (fl_short_f32(&at, &got) && !*at)
        assert_int_equal(bits_of(got), bits_of(right));
    at = padded;
    if (fl_unit_f32(&at, &got) && !*at)
        assert_int_equal(bits_of(got), bits_of(right));
}

static void expect_no_float(const char *text, const char *left)
{
    const char *at = at_the_edge(text);
    float got = 5;

    if (fl_scan_f32(&at, edge(), &got))
        fail_msg("'%s' was taken as %.9g", text, (double)got);
    assert_ptr_equal(at, edge() - strlen(left));
    assert_true(got == 5);
}

static void floats_are_read_like_strtof_does(void **state)
{
    static const char *const texts[] = {
        "0",
        "-0",
        "+0",
        "0.0",
        "1",
        "+1",
        "-1",
        "0.1",
        "0.3",
        "1.5",
        "12.25",
        "0.0000001",
        "0.1234567",
        "0.12345678",
        "123456.789",
        "1e10",
        "1E10",
        "1e+10",
        "-1.5e-10",
        "16777216",
        "16777217",
        "16777218",
        "16777219",
        "33554434",
        "9007199791611905",
        "9007199254740993",
        "0.000000000000000000000000000000000000000000001",
        "1e-45",
        "7e-46",
        "7.006492321624085e-46",
        "7.006492321624086e-46",
        "1e-46",
        "1e-400",
        "0e999999999999",
        "0.0e-999999999999",
        "1.17549435e-38",
        "1.1754942e-38",
        "3.4028234e38",
        "3.40282346638528859811704183484e38",
        "3.4028235677973366e38",
        "340282346638528859811704183484516925440",
        "1.00000017881393432617187499",
        "1.000000178813934326171875",
        "1.00000017881393432617187501",
        "0.0033333333333333335",
        "100000000000000000000000000000e-29",
        "00000000000000000000000000001.5",
        "8388608.5",
        "8388609.5",
        "1e22",
        "1e23",
        "123456789012345678901234e5",
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(texts); i++)
        expect_like_strtof(texts[i]);
}

static void random_floats_come_back_to_the_bit(void **state)
{
    static const char *const forms[] = { "%.9g", "%.17g", "%.7e", "%.3e" };
    uint64_t s = 2;

    (void)state;
    for (int i = 0; i < N_RANDOM; i++) {
        uint32_t bits = (uint32_t)draw(&s);
        char text[64];
        float x;

        memcpy(&x, &bits, sizeof(x));
        if (!isfinite(x))
            continue;
        snprintf(text, sizeof(text), forms[i % 4], (double)x);
        if (isfinite(strtof(text, NULL)))
            expect_like_strtof(text);
    }
}

static void short_decimals_are_read_like_strtof_does(void **state)
{
    uint64_t s = 3;

    (void)state;
    for (int i = 0; i < N_RANDOM; i++) {
        uint64_t m = draw(&s) % 1000000000000000000u >> draw(&s) % 60;
        char text[64];

        snprintf(text, sizeof(text), "%s%" PRIu64 ".%0*" PRIu64,
                 i % 3 ? "" : "-", draw(&s) % (i % 2 ? 2 : 100000),
                 (int)(draw(&s) % 12), m % 10000000);
        expect_like_strtof(text);
    }
}

/* Between two floats, and a little below and above. */
static void the_middle_of_two_floats_is_told_apart(void **state)
{
    uint64_t s = 4;

    (void)state;
    for (int i = 0; i < N_RANDOM / 20; i++) {
        uint32_t bits = (uint32_t)draw(&s) % 0x7f7fffff;
        char text[TEXT_MAX];
        float low, high;
        size_t n;

        memcpy(&low, &bits, sizeof(low));
        bits++;
        memcpy(&high, &bits, sizeof(high));
        n = (size_t)snprintf(text, sizeof(text), "%.160f",
                             ((double)low + (double)high) / 2);
        expect_like_strtof(text);
        snprintf(text + n, sizeof(text) - n, "0000000000000000000001");
        expect_like_strtof(text);
        for (char *c = text + n - 1; c >= text; c--) {
            if (*c > '0' && *c <= '9') {
                --*c;
                break;
            }
            if (*c == '0')
                *c = '9';
        }
        expect_like_strtof(text);
    }
}

static void numbers_that_make_up_for_their_zeros_are_read(void **state)
{
    char text[TEXT_MAX];

    (void)state;
    snprintf(text, sizeof(text), "0.%0*d1e501", 500, 0);
    expect_like_strtof(text);
    snprintf(text, sizeof(text), "1%0*de-499", 500, 0);
    expect_like_strtof(text);
    snprintf(text, sizeof(text), "0.%0*d", 900, 0);
    expect_like_strtof(text);
}

static void what_is_no_float_is_refused_at_its_byte(void **state)
{
    (void)state;
    expect_no_float("", "");
    expect_no_float("-", "");
    expect_no_float("+-1", "-1");
    expect_no_float(".5", ".5");
    expect_no_float("5.", "");
    expect_no_float("5.x", "x");
    expect_no_float("5e", "");
    expect_no_float("5e+", "");
    expect_no_float("5ex", "x");
    expect_no_float("nan", "nan");
    expect_no_float("-inf", "inf");
    expect_no_float("x", "x");
    expect_no_float("3.5e38", "3.5e38");
    expect_no_float("-1e39", "-1e39");
    expect_no_float("1e999999999999999999999", "1e999999999999999999999");
    expect_no_float("340282366920938463463374607431768211456",
                    "340282366920938463463374607431768211456");
}

/* --- back into text ------------------------------------------------------ */

static void expect_printed(float x, const char *text)
{
    fl_str out = { 0 };

    fl_print_f32(&out, x);
    assert_string_equal(out.data, text);
    fl_str_release(&out);
}

static void floats_are_printed_as_short_as_they_can_be(void **state)
{
    (void)state;
    expect_printed(0, "0");
    expect_printed(-0.0f, "-0");
    expect_printed(0.1f, "0.1");
    expect_printed(1.0f / 3, "0.33333334");
    expect_printed(16777216, "16777216");
    expect_printed(1e30f, "1e+30");
    expect_printed(FLT_MAX, "3.4028235e+38");
    expect_printed(-1.5e-45f, "-1.4013e-45");
}

static void printed_floats_read_as_the_same(void **state)
{
    uint64_t s = 5;

    (void)state;
    for (int i = 0; i < N_RANDOM; i++) {
        uint32_t bits = (uint32_t)draw(&s);
        fl_str out = { 0 };
        const char *at;
        float x, again;

        memcpy(&x, &bits, sizeof(x));
        if (!isfinite(x))
            continue;
        fl_print_f32(&out, x);
        at = out.data;
        assert_true(fl_scan_f32(&at, out.data + out.len, &again));
        assert_int_equal(bits_of(again), bits);
        fl_str_release(&out);
    }
}

static void a_locale_with_a_comma_changes_nothing(void **state)
{
    static const char *const names[] = { "de_DE.UTF-8", "de_DE.utf8", "de_DE",
                                         "fr_FR.UTF-8" };
    const char *at;
    bool found = false;
    float x;

    (void)state;
    for (size_t i = 0; i < FL_LEN(names) && !found; i++)
        found = setlocale(LC_NUMERIC, names[i]) != NULL;
    if (!found)
        skip();
    expect_printed(0.5f, "0.5");
    at = at_the_edge("1.000000178813934326171875");
    assert_true(fl_scan_f32(&at, edge(), &x));
    assert_true(x > 1);
    assert_non_null(setlocale(LC_NUMERIC, "C"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_reach_to_the_last_of_64_bits),
        cmocka_unit_test(what_is_no_id_is_left_where_it_is),
        cmocka_unit_test(an_id_ends_where_the_digits_do),
        cmocka_unit_test(random_ids_come_back),
        cmocka_unit_test(integers_reach_to_both_ends),
        cmocka_unit_test(hexadecimals_have_up_to_16_digits),
        cmocka_unit_test(floats_are_read_like_strtof_does),
        cmocka_unit_test(random_floats_come_back_to_the_bit),
        cmocka_unit_test(short_decimals_are_read_like_strtof_does),
        cmocka_unit_test(the_middle_of_two_floats_is_told_apart),
        cmocka_unit_test(numbers_that_make_up_for_their_zeros_are_read),
        cmocka_unit_test(what_is_no_float_is_refused_at_its_byte),
        cmocka_unit_test(floats_are_printed_as_short_as_they_can_be),
        cmocka_unit_test(printed_floats_read_as_the_same),
        cmocka_unit_test(a_locale_with_a_comma_changes_nothing),
    };

    return cmocka_run_group_tests_name("scan", tests, map_page, unmap_page);
}
