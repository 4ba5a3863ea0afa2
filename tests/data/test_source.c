/* test_source.c - text out of files: whatever the file and the size of the
 * blocks, the same lines with the same numbers. */
#include "source_kit.h"

/* --- files ---------------------------------------------------------------- */

static void lines_of_a_plain_file(void **state)
{
    (void)state;
    expect_lines(put("a", "one\ntwo\n\nfour\n"), &usual, "one\ntwo\n\nfour\n");
}

static void the_last_line_gets_its_newline(void **state)
{
    (void)state;
    expect_lines(put("a", "one\ntwo"), &usual, "one\ntwo");
    expect_lines(put("b", "x"), &usual, "x");
    expect_lines(put("c", "x\n\r"), &usual, "x\n\r");
}

static void carriage_returns_stay(void **state)
{
    const char *path = put("a", "one\r\ntwo\r\n");
    fl_source *s = open_source(path, &usual);
    fl_source_state got;
    fl_text text = { 0 };

    (void)state;
    assert_ok(fl_source_next(s, &text, &got));
    assert_int_equal(got, FL_SOURCE_TEXT);
    assert_int_equal(text.n_lines, 2);
    assert_string_equal(text.data, "one\r\ntwo\r\n");
    assert_int_equal(fl_source_fd(s), -1);
    fl_text_release(&text);
    fl_source_close(s);
}

static void empty_files_have_no_lines(void **state)
{
    unsigned char packed[256];

    (void)state;
    expect_lines(put("a", ""), &usual, "");
    expect_lines(put_bytes("b", packed, gzip(packed, "", 0)), &usual, "");
    expect_lines(put_bytes("c", packed, zstd(packed, "", 0)), &usual, "");
    expect_lines("/dev/null", &usual, "");
}

static void a_nul_is_a_byte_like_others(void **state)
{
    static const char text[] = "a\0b\n\0\n\0\0";

    (void)state;
    expect_text(put_bytes("a", text, sizeof(text)), &usual, text, sizeof(text));
}

static void what_begins_like_a_magic_number_is_text(void **state)
{
    static const char *const texts[] = {
        "(", "(a\n", "P", "P*", "P*M", "P*Mx\n", "\x1f", "\x1fz\n", "_*M\x19",
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(texts); i++)
        expect_lines(put("a", texts[i]), &usual, texts[i]);
}

/* Plain, gzip and zstd in every tiny block size, with and without lines that
   are too long. */
static void blocks_of_any_size_give_the_same_lines(void **state)
{
    enum { LEN = 3000 };
    static const size_t limits[] = { 1, 7, 40, 64, 65, 1000 };
    static unsigned char packed[PACKED_MAX];
    char text[LEN];

    (void)state;
    make_text(text, LEN, 1, 64);
    put_bytes("plain", text, LEN);
    put_bytes("gz", packed, gzip(packed, text, LEN));
    put_bytes("zst", packed, zstd(packed, text, LEN));
    for (size_t block = 1; block <= 100; block++) {
        for (size_t i = 0; i < FL_LEN(limits); i++) {
            fl_source_options o = options(block, limits[i]);

            expect_text(in_folder("plain"), &o, text, LEN);
            expect_text(in_folder("gz"), &o, text, LEN);
            expect_text(in_folder("zst"), &o, text, LEN);
        }
    }
}

static void texts_of_any_length_end_well(void **state)
{
    char text[300];

    (void)state;
    for (size_t len = 0; len <= sizeof(text); len++) {
        fl_source_options o = options(1 + len % 90, 1 + len % 35);

        make_text(text, len, len, 40);
        expect_text(put_bytes("a", text, len), &o, text, len);
    }
}

static void blocks_have_what_was_asked_for(void **state)
{
    enum { LEN = 200000 };
    char *text = fl_alloc(LEN);
    fl_source_options o = options(10000, 30000);
    fl_source_state got = FL_SOURCE_TEXT;
    size_t total = 0;
    fl_text t = { 0 };
    fl_source *s;

    (void)state;
    make_text(text, LEN, 3, 20000);
    s = open_source(put_bytes("a", text, LEN), &o);
    for (;;) {
        assert_ok(fl_source_next(s, &t, &got));
        if (got == FL_SOURCE_END)
            break;
        total += t.len;
        assert_true(t.len >= 10000 || total >= LEN);
        assert_true(t.len <= 40001);
    }
    assert_true(total == LEN || total == LEN + 1);
    fl_text_release(&t);
    fl_source_close(s);
    fl_free(text);
}

/* --- compressed files ----------------------------------------------------- */

static void members_and_frames_follow_one_another(void **state)
{
    static unsigned char packed[4 * 1024];
    static const unsigned char skipped[] = { 0x53, 0x2a, 0x4d, 0x18, 3,  0,
                                             0,    0,    'x',  'y',  'z' };
    size_t n;

    (void)state;
    n = gzip(packed, "one\nt", 5);
    n += gzip(packed + n, "", 0);
    n += gzip(packed + n, "wo\nthree", 8);
    expect_lines(put_bytes("a", packed, n), &usual, "one\ntwo\nthree");
    memcpy(packed, skipped, sizeof(skipped));
    n = sizeof(skipped);
    n += zstd(packed + n, "one\nt", 5);
    n += zstd(packed + n, "", 0);
    n += zstd(packed + n, "wo\nthree", 8);
    expect_lines(put_bytes("b", packed, n), &usual, "one\ntwo\nthree");
}

/* More text than any buffer on its way has. */
static void large_files_unpack(void **state)
{
    enum { LEN = 3 << 20 };
    unsigned char *packed = fl_alloc(LEN + PACKED_MAX);
    char *text = fl_alloc(LEN);
    fl_source_options o = options(300000, 1000);
    size_t n = 0;

    (void)state;
    make_text(text, LEN, 4, 200);
    for (size_t at = 0; at < LEN; at += LEN / 6)
        n += gzip(packed + n, text + at, LEN / 6);
    expect_text(put_bytes("gz", packed, n), &o, text, LEN);
    n = 0;
    for (size_t at = 0; at < LEN; at += LEN / 6)
        n += zstd(packed + n, text + at, LEN / 6);
    expect_text(put_bytes("zst", packed, n), &o, text, LEN);
    expect_text(put_bytes("plain", text, LEN), &o, text, LEN);
    fl_free(packed);
    fl_free(text);
}

/* Cut at every length: either an error, or so early that it is text. */
static void expect_cuts_found(const unsigned char *packed, size_t len)
{
    for (size_t n = 2; n < len; n++)
        expect_failure(put_bytes("a", packed, n), &usual, FL_ERR_CORRUPT,
                       "is cut");
}

static void a_cut_gzip_file_is_an_error(void **state)
{
    unsigned char packed[256];

    (void)state;
    expect_cuts_found(packed, gzip(packed, "one\ntwo\nthree\n", 14));
}

static void a_cut_zstd_file_is_an_error(void **state)
{
    unsigned char packed[256];

    (void)state;
    expect_cuts_found(packed, zstd(packed, "one\ntwo\nthree\n", 14));
}

static void a_cut_file_says_how_much_text_came_before(void **state)
{
    enum { LEN = 100000 };
    static unsigned char packed[PACKED_MAX];
    char text[LEN];
    size_t n;

    (void)state;
    make_text(text, LEN, 5, 100);
    n = gzip(packed, text, LEN);
    expect_failure(put_bytes("a", packed, n - 8), &usual, FL_ERR_CORRUPT,
                   "after 100000 bytes of text");
    memcpy(packed + n, packed, 5); /* a second member that only begins */
    expect_failure(put_bytes("a", packed, n + 5), &usual, FL_ERR_CORRUPT,
                   "after 100000 bytes of text");
}

static void a_damaged_file_is_an_error(void **state)
{
    unsigned char packed[256];
    size_t n = gzip(packed, "one\ntwo\nthree\n", 14);

    (void)state;
    packed[n - 6] ^= 1; /* the checksum */
    expect_failure(put_bytes("a", packed, n), &usual, FL_ERR_CORRUPT,
                   "gzip data is damaged");
    packed[n - 6] ^= 1;
    packed[n] = 'x';
    expect_failure(put_bytes("a", packed, n + 1), &usual, FL_ERR_CORRUPT,
                   "after 14 bytes of text");
    n = zstd(packed, "one\ntwo\nthree\n", 14);
    memcpy(packed + n, "rubbish", 7);
    expect_failure(put_bytes("b", packed, n + 7), &usual, FL_ERR_CORRUPT,
                   "zstd data is damaged");
}

/* --- long lines ----------------------------------------------------------- */

static void a_line_of_the_largest_length_is_good(void **state)
{
    fl_source_options o = options(5, 5);

    (void)state;
    expect_lines(put("a", "12345\n123456\n12345"), &o, "12345\n123456\n12345");
    expect_lines(put("b", "1234\r\n12345\r\n"), &o, "1234\r\n12345\r\n");
}

static void huge_lines_take_no_memory(void **state)
{
    enum { HUGE_BYTES = 8 << 20 };
    fl_source_options o = options(1000, 3000);
    char *text = fl_alloc(HUGE_BYTES + 100);
    fl_source *s;
    fl_source_state got;
    fl_text t = { 0 };
    size_t before;

    (void)state;
    memset(text, 'h', HUGE_BYTES + 100);
    memcpy(text, "first\n", 6);
    memcpy(text + HUGE_BYTES, "\nlast", 5);
    put_bytes("a", text, HUGE_BYTES + 5);
    before = fl_data_bytes();
    s = open_source(in_folder("a"), &o);
    do {
        assert_ok(fl_source_next(s, &t, &got));
        assert_true(fl_data_bytes() - before < 20000);
    } while (got != FL_SOURCE_END);
    fl_text_release(&t);
    fl_source_close(s);
    assert_int_equal(fl_data_bytes(), before);
    expect_text(in_folder("a"), &o, text, HUGE_BYTES + 5);
    fl_free(text);
}

static void a_long_line_within_the_limit_makes_the_block_grow(void **state)
{
    enum { LEN = 1 << 20 };
    fl_source_options o = options(100, LEN);
    char *text = fl_alloc(LEN + 1);

    (void)state;
    memset(text, 'x', LEN);
    text[LEN] = '\n';
    expect_text(put_bytes("a", text, LEN + 1), &o, text, LEN + 1);
    fl_free(text);
}

/* Every second line is too long: no text may be moved again and again. */
static void many_long_lines_cost_little(void **state)
{
    enum { LINES = 200000, EACH = 8 };
    fl_source_options o = options(1 << 20, 5);
    char *text = fl_alloc(LINES * EACH);

    (void)state;
    for (size_t i = 0; i < LINES; i += 2) {
        memcpy(text + i * EACH, "1234567\n", EACH);
        memcpy(text + (i + 1) * EACH, "123\n567\n", EACH);
    }
    expect_text(put_bytes("a", text, LINES * EACH), &o, text, LINES * EACH);
    fl_free(text);
}

/* --- what cannot be opened ------------------------------------------------ */

static void expect_refused(const char *path, const fl_source_options *o,
                           fl_status status, const char *said)
{
    fl_source *s = NULL;

    assert_int_equal(fl_source_open(&s, path, o), status);
    assert_null(s);
    expect_said(path);
    expect_said(said);
}

static void what_cannot_be_opened_is_named(void **state)
{
    fl_source_options o = through("cat -v");

    (void)state;
    expect_refused(in_folder("none"), &usual, FL_ERR_NOTFOUND,
                   "No such file or directory");
    expect_refused(in_folder("none"), &o, FL_ERR_NOTFOUND, "'cat -v'");
    expect_refused(folder, &usual, FL_ERR_IO, "is a folder");
    put("a", "");
    expect_refused(in_folder("a/b"), &usual, FL_ERR_IO, "Not a directory");
    o = options(0, 1);
    expect_refused(in_folder("a"), &o, FL_ERR_INVAL, "at least 1");
    o = options(1, 0);
    expect_refused(in_folder("a"), &o, FL_ERR_INVAL, "at least 1");
}

static void closing_nothing_is_fine(void **state)
{
    fl_text t = { 0 };

    (void)state;
    fl_source_close(NULL);
    fl_text_release(&t);
}

/* Every allocation fails once; the reading goes on after it and loses
   nothing. */
static void a_failed_allocation_loses_nothing(void **state)
{
    enum { LEN = 2000 };
    static unsigned char packed[PACKED_MAX];
    static const char *const names[] = { "plain", "gz", "zst" };
    fl_source_options o = options(100, 50);
    script wanted = { 0 };
    char text[LEN];

    (void)state;
    make_text(text, LEN, 8, 60);
    put_bytes("plain", text, LEN);
    put_bytes("gz", packed, gzip(packed, text, LEN));
    put_bytes("zst", packed, zstd(packed, text, LEN));
    write_expected(&wanted, text, LEN, o.line_max);
    for (size_t i = 0; i < FL_LEN(names); i++) {
        size_t before = fl_data_bytes();

        for (uint64_t n = 1; n <= 12; n++) {
            fl_source *s = open_source(in_folder(names[i]), &o);
            script got = { 0 };
            fl_status st;

            fl_alloc_fail_after(n);
            st = read_all(s, &got);
            assert_true(st == FL_OK || st == FL_ERR_NOMEM);
            assert_true(n > 2 || st == FL_ERR_NOMEM);
            fl_alloc_fail_after(0);
            assert_ok(read_all(s, &got));
            expect_same(&got, &wanted);
            fl_vec_release(&got.bytes);
            fl_source_close(s);
        }
        assert_int_equal(fl_data_bytes(), before);
    }
    fl_vec_release(&wanted.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(lines_of_a_plain_file),
        TEST(the_last_line_gets_its_newline),
        TEST(carriage_returns_stay),
        TEST(empty_files_have_no_lines),
        TEST(a_nul_is_a_byte_like_others),
        TEST(what_begins_like_a_magic_number_is_text),
        TEST(blocks_of_any_size_give_the_same_lines),
        TEST(texts_of_any_length_end_well),
        TEST(blocks_have_what_was_asked_for),
        TEST(members_and_frames_follow_one_another),
        TEST(large_files_unpack),
        TEST(a_cut_gzip_file_is_an_error),
        TEST(a_cut_zstd_file_is_an_error),
        TEST(a_cut_file_says_how_much_text_came_before),
        TEST(a_damaged_file_is_an_error),
        TEST(a_line_of_the_largest_length_is_good),
        TEST(huge_lines_take_no_memory),
        TEST(a_long_line_within_the_limit_makes_the_block_grow),
        TEST(many_long_lines_cost_little),
        TEST(what_cannot_be_opened_is_named),
        TEST(closing_nothing_is_fine),
        TEST(a_failed_allocation_loses_nothing),
    };

    return cmocka_run_group_tests_name("source", tests, make_folder,
                                       remove_folder);
}
