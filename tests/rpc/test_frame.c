/* test_frame.c - heads and packed numbers: what is written is read again, byte
 * by byte as documented, and everything else is refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "types_kit.h"

#define MAX_BYTES (UINT64_C(1) << 30)

static const fl_frame sample = {
    .type = TYPE_ADD,
    .flags = FL_FRAME_REPLY | FL_FRAME_ARENA,
    .length = 0x08070605,
    .request = UINT64_C(0x1817161514131211),
    .trace = UINT64_C(0x2827262524232221),
    .sequence = UINT64_C(0x3837363534333231),
    .rank = 0x44434241,
    .incarnation = 0x54535251,
    .step = UINT64_C(0x6867666564636261),
    .arena = UINT64_C(0x7877767574737271),
};

static void expect_refused(const uint8_t *head, const char *said)
{
    fl_frame f = { .type = 999 };

    assert_int_equal(fl_frame_read(head, MAX_BYTES, type_name, &f),
                     FL_ERR_CORRUPT);
    assert_int_equal(f.type, 999);
    if (!strstr(fl_last_error(), said))
        fail_msg("'%s' does not say '%s'", fl_last_error(), said);
}

static void a_head_has_the_documented_bytes(void **state)
{
    static const uint8_t expected[FL_FRAME_BYTES] = {
        'F',  'L',  'T',  '1',  18,   0,    5,    0,    /* 0 */
        0x05, 0x06, 0x07, 0x08, 0,    0,    0,    0,    /* 8 */
        0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, /* 16 */
        0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, /* 24 */
        0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, /* 32 */
        0x41, 0x42, 0x43, 0x44, 0x51, 0x52, 0x53, 0x54, /* 40 */
        0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, /* 48 */
        0x71, 0x72, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, /* 56 */
    };
    uint8_t head[FL_FRAME_BYTES];

    (void)state;
    memset(head, 0xee, sizeof(head));
    fl_frame_write(&sample, head);
    assert_memory_equal(head, expected, sizeof(head));
}

static void a_head_is_read_as_it_was_written(void **state)
{
    uint8_t head[FL_FRAME_BYTES], again[FL_FRAME_BYTES];
    fl_frame f;

    (void)state;
    fl_frame_write(&sample, head);
    assert_int_equal(fl_frame_read(head, MAX_BYTES, type_name, &f), FL_OK);
    assert_true(f.type == sample.type && f.flags == sample.flags);
    assert_true(f.length == sample.length && f.request == sample.request);
    assert_true(f.trace == sample.trace && f.sequence == sample.sequence);
    assert_true(f.rank == sample.rank && f.step == sample.step);
    assert_true(f.incarnation == sample.incarnation);
    assert_true(f.arena == sample.arena);
    fl_frame_write(&f, again);
    assert_memory_equal(head, again, sizeof(head));
}

static void a_stranger_is_called_by_its_name(void **state)
{
    static const struct {
        const char *bytes, *said;
    } cases[] = {
        { "GET / HTTP/1.1\r\n", "look like HTTP" },
        { "POST /", "look like HTTP" },
        { "\x16\x03\x01\x02", "look like TLS" },
        { "SSH-2.0", "look like SSH" },
        { "FLT2", "another version" },
        { "abcd", "61 62 63 64" },
    };
    uint8_t head[FL_FRAME_BYTES];

    (void)state;
    for (size_t i = 0; i < FL_LEN(cases); i++) {
        fl_frame_write(&sample, head);
        memcpy(head, cases[i].bytes, strlen(cases[i].bytes));
        expect_refused(head, cases[i].said);
    }
}

static void an_unknown_type_is_refused(void **state)
{
    uint8_t head[FL_FRAME_BYTES];
    fl_frame f = { .type = 77 };

    (void)state;
    fl_frame_write(&f, head);
    expect_refused(head, "unknown type 77");
    f.type = 0;
    fl_frame_write(&f, head);
    expect_refused(head, "unknown type 0");
}

static void every_flag_that_is_not_known_is_refused(void **state)
{
    uint8_t head[FL_FRAME_BYTES];

    (void)state;
    for (int bit = 3; bit < 16; bit++) {
        fl_frame f = { .type = FL_TYPE_PING, .flags = (uint16_t)(1u << bit) };

        fl_frame_write(&f, head);
        expect_refused(head, "unknown flags");
    }
}

static void flags_that_contradict_are_refused(void **state)
{
    uint8_t head[FL_FRAME_BYTES];
    fl_frame error = { .type = TYPE_READ, .flags = FL_FRAME_ERROR };
    fl_frame place = { .type = TYPE_READ, .arena = 64 };

    (void)state;
    fl_frame_write(&error, head);
    expect_refused(head, "not as a reply");
    fl_frame_write(&place, head);
    expect_refused(head, "the place 64 in the arena");
}

static void a_length_is_held_against_the_limit(void **state)
{
    uint8_t head[FL_FRAME_BYTES];
    fl_frame f = { .type = TYPE_READ, .length = MAX_BYTES };

    (void)state;
    fl_frame_write(&f, head);
    assert_int_equal(fl_frame_read(head, MAX_BYTES, type_name, &f), FL_OK);
    f.length++;
    fl_frame_write(&f, head);
    expect_refused(head, "(read) announces 1073741825 bytes");
    f.length = UINT64_MAX;
    fl_frame_write(&f, head);
    expect_refused(head, "announces 18446744073709551615 bytes");
}

static void a_type_has_a_name(void **state)
{
    (void)state;
    assert_string_equal(fl_frame_type_name(FL_TYPE_HELLO, NULL), "hello");
    assert_string_equal(fl_frame_type_name(TYPE_READ, type_name), "read");
    assert_string_equal(fl_frame_type_name(TYPE_READ, NULL), "type 17");
    assert_string_equal(fl_frame_type_name(77, type_name), "type 77");
    assert_string_equal(fl_frame_type_name(UINT16_MAX, type_name),
                        "type 65535");
}

/* --- payloads ------------------------------------------------------------- */

static void pack_all(fl_pack *p)
{
    fl_pack_u8(p, 7);
    fl_pack_u32(p, 0x04030201);
    fl_pack_align(p);
    fl_pack_u64(p, UINT64_MAX - 1);
    fl_pack_f64(p, -0.1);
    fl_pack_text(p, "job");
    fl_pack_text(p, "");
    fl_pack_bytes(p, "xyz", 3);
    fl_pack_bytes(p, NULL, 0);
    fl_pack_align(p);
    fl_pack_align(p);
    fl_pack_f64(p, INFINITY);
}

static void packed_numbers_come_back(void **state)
{
    fl_pack p = { 0 };
    fl_unpack u;
    char text[4];

    (void)state;
    pack_all(&p);
    u = (fl_unpack){ .at = p.data, .end = p.data + p.len };
    assert_int_equal(fl_unpack_u8(&u), 7);
    assert_int_equal(fl_unpack_u32(&u), 0x04030201);
    fl_unpack_align(&u, p.data);
    assert_true(fl_unpack_u64(&u) == UINT64_MAX - 1);
    assert_true(fl_unpack_f64(&u) == -0.1);
    fl_unpack_text(&u, text, sizeof(text));
    assert_string_equal(text, "job");
    fl_unpack_text(&u, text, sizeof(text));
    assert_string_equal(text, "");
    assert_memory_equal(fl_unpack_bytes(&u, 3), "xyz", 3);
    fl_unpack_align(&u, p.data);
    assert_true(isinf(fl_unpack_f64(&u)));
    assert_false(u.bad);
    assert_ptr_equal(u.at, u.end);
    fl_pack_release(&p);
    assert_null(p.data);
}

static void packed_numbers_have_the_documented_bytes(void **state)
{
    static const uint8_t expected[] = {
        7,    1,    2,    3,    4,    0,    0,    0,    /* u8, u32, align */
        254,  0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* u64 */
        0x9a, 0x99, 0x99, 0x99, 0x99, 0x99, 0xb9, 0xbf, /* f64 */
        3,    0,    0,    0,    'j',  'o',  'b',        /* text */
        0,    0,    0,    0,    'x',  'y',  'z',        /* text, bytes */
        0,    0,                                        /* align */
        0,    0,    0,    0,    0,    0,    0xf0, 0x7f, /* f64 */
    };
    fl_pack p = { 0 };

    (void)state;
    pack_all(&p);
    assert_int_equal(p.len, sizeof(expected));
    assert_memory_equal(p.data, expected, sizeof(expected));
    fl_pack_release(&p);
}

/* Every cut of a payload is noticed, and nothing is read behind it. */
static void a_payload_that_is_cut_anywhere_is_bad(void **state)
{
    fl_pack p = { 0 };

    (void)state;
    pack_all(&p);
    for (size_t n = 0; n < p.len; n++) {
        uint8_t *copy = fl_alloc(n + !n);
        fl_unpack u = { .at = copy, .end = copy + n };
        char text[8];

        memcpy(copy, p.data, n);
        (void)fl_unpack_u8(&u);
        (void)fl_unpack_u32(&u);
        fl_unpack_align(&u, copy);
        (void)fl_unpack_u64(&u);
        (void)fl_unpack_f64(&u);
        fl_unpack_text(&u, text, sizeof(text));
        fl_unpack_text(&u, text, sizeof(text));
        (void)fl_unpack_bytes(&u, 3);
        fl_unpack_align(&u, copy);
        (void)fl_unpack_f64(&u);
        assert_true(u.bad);
        assert_true(u.at <= u.end);
        fl_free(copy);
    }
    fl_pack_release(&p);
}

static void after_a_bad_read_everything_is_0(void **state)
{
    uint8_t bytes[16];
    fl_unpack u = { .at = bytes, .end = bytes + sizeof(bytes) };
    char text[4] = "old";

    (void)state;
    memset(bytes, 0xff, sizeof(bytes));
    assert_null(fl_unpack_bytes(&u, UINT64_MAX));
    assert_true(u.bad);
    assert_int_equal(fl_unpack_u8(&u), 0);
    assert_int_equal(fl_unpack_u32(&u), 0);
    assert_true(fl_unpack_u64(&u) == 0);
    assert_true(fl_unpack_f64(&u) == 0);
    fl_unpack_text(&u, text, sizeof(text));
    assert_string_equal(text, "");
    assert_null(fl_unpack_bytes(&u, 0));
    assert_ptr_equal(u.at, bytes);
}

static void a_text_that_does_not_fit_is_bad(void **state)
{
    fl_pack p = { 0 };
    fl_unpack u;
    char text[4];

    (void)state;
    fl_pack_text(&p, "four");
    u = (fl_unpack){ .at = p.data, .end = p.data + p.len };
    fl_unpack_text(&u, text, sizeof(text));
    assert_true(u.bad);
    assert_string_equal(text, "");
    fl_pack_release(&p);
}

static void a_text_with_a_nul_is_bad(void **state)
{
    static const uint8_t bytes[] = { 3, 0, 0, 0, 'a', 0, 'b' };
    fl_unpack u = { .at = bytes, .end = bytes + sizeof(bytes) };
    char text[8];

    (void)state;
    fl_unpack_text(&u, text, sizeof(text));
    assert_true(u.bad);
    assert_string_equal(text, "");
}

static void an_empty_payload_may_have_no_memory(void **state)
{
    fl_unpack u = { 0 };

    (void)state;
    fl_unpack_align(&u, NULL);
    (void)fl_unpack_bytes(&u, 0);
    assert_false(u.bad);
    assert_int_equal(fl_unpack_u8(&u), 0);
    assert_true(u.bad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_has_the_documented_bytes),
        cmocka_unit_test(a_head_is_read_as_it_was_written),
        cmocka_unit_test(a_stranger_is_called_by_its_name),
        cmocka_unit_test(an_unknown_type_is_refused),
        cmocka_unit_test(every_flag_that_is_not_known_is_refused),
        cmocka_unit_test(flags_that_contradict_are_refused),
        cmocka_unit_test(a_length_is_held_against_the_limit),
        cmocka_unit_test(a_type_has_a_name),
        cmocka_unit_test(packed_numbers_come_back),
        cmocka_unit_test(packed_numbers_have_the_documented_bytes),
        cmocka_unit_test(a_payload_that_is_cut_anywhere_is_bad),
        cmocka_unit_test(after_a_bad_read_everything_is_0),
        cmocka_unit_test(a_text_that_does_not_fit_is_bad),
        cmocka_unit_test(a_text_with_a_nul_is_bad),
        cmocka_unit_test(an_empty_payload_may_have_no_memory),
    };

    return cmocka_run_group_tests_name("rpc/frame", tests, NULL, NULL);
}
