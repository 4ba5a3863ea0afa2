/* test_bad.c - bad lines: what is written down, and when it is too much. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"
#include "data/dataset/bad.h"

#define FILE_MAX (1 << 24)
#define N_THREADS 8
#define N_EACH 200

#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)

static char folder[] = "/tmp/flotilla_bad_XXXXXX";
static char path[64];
static fl_schema schema;
static char logged[2048];

static void keep_log(void *arg, fl_log_level level, const char *area,
                     const char *text)
{
    (void)arg;
    (void)area;
    if (level == FL_LOG_WARN)
        snprintf(logged, sizeof(logged), "%s", text);
}

static int make_folder(void **state)
{
    static const fl_slot slots[] = { { .name = "label", .width = 1 },
                                     { .name = "a:b" } };

    (void)state;
    if (!mkdtemp(folder) || fl_schema_init(&schema, slots, FL_LEN(slots)))
        return -1;
    snprintf(path, sizeof(path), "%s/quarantine", folder);
    fl_log_set(keep_log, NULL, FL_LOG_WARN);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    fl_log_set(NULL, NULL, FL_LOG_INFO);
    fl_schema_release(&schema);
    return rmdir(folder);
}

static int remove_file(void **state)
{
    (void)state;
    unlink(path);
    logged[0] = '\0';
    return 0;
}

static fl_bad_log *make_log(uint64_t max_lines, double max_share)
{
    fl_bad_limits l = { .quarantine = path,
                        .max_lines = max_lines,
                        .max_share = max_share };

    return fl_bad_log_new(&l, &schema);
}

static fl_status add(fl_bad_log *b, uint64_t number, int slot,
                     const char *reason, const char *text, size_t len)
{
    fl_line l = { .at = text, .end = text + len, .number = number };
    fl_bad bad = { .slot = slot };

    snprintf(bad.reason, sizeof(bad.reason), "%s", reason);
    return fl_bad_log_add(b, "day.txt", &l, &bad);
}

static fl_status add_some(fl_bad_log *b, uint64_t n)
{
    fl_status st = FL_OK;

    for (uint64_t i = 1; !st && i <= n; i++)
        st = add(b, i, FL_NO_SLOT, "no number", "x", 1);
    return st;
}

static void expect_file(const char *want)
{
    char *text = NULL;
    size_t len;

    assert_ok(fl_file_read(path, FILE_MAX, &text, &len));
    assert_string_equal(text, want);
    fl_free(text);
}

static void expect_said(const char *text)
{
    if (!strstr(fl_last_error(), text))
        fail_msg("'%s' does not say '%s'", fl_last_error(), text);
}

/* --- the file ------------------------------------------------------------- */

static void an_entry_has_place_reason_and_text(void **state)
{
    fl_bad_log *b = make_log(1000, 1);

    (void)state;
    assert_ok(add(b, 7, 0, "no number", "1 2 z", 5));
    assert_ok(add(b, 9, FL_NO_SLOT, "39 columns, not 40", "", 0));
    expect_file("day.txt:7:label\tno number\t1 2 z\n"
                "day.txt:9:-\t39 columns, not 40\t\n");
    fl_bad_log_free(b);
}

static void bytes_that_do_not_print_are_escaped(void **state)
{
    static const char text[] = "a\tb\nc\\d\0e\r\x7f\xc3\xa4 ~";
    fl_bad_log *b = make_log(1000, 1);

    (void)state;
    assert_ok(add(b, 1, 1, "tab \t here", text, sizeof(text) - 1));
    expect_file("day.txt:1:a\\x3ab\ttab \\t here\t"
                "a\\tb\\nc\\\\d\\x00e\\x0d\\x7f\\xc3\\xa4 ~\n");
    fl_bad_log_free(b);
}

static void a_long_line_is_cut_at_a_thousand_bytes(void **state)
{
    char text[2000], want[1100];
    fl_bad_log *b = make_log(1000, 1);

    (void)state;
    memset(text, 'x', sizeof(text));
    assert_ok(add(b, 1, 0, "long", text, sizeof(text)));
    snprintf(want, sizeof(want), "day.txt:1:label\tlong\t%.1000s\n", text);
    expect_file(want);
    fl_bad_log_free(b);
}

static void a_pass_replaces_the_entries_of_the_one_before(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= 2; i++) {
        fl_bad_log *b = make_log(1000, 1);

        assert_ok(add(b, i, 0, "bad", "x", 1));
        assert_ok(fl_bad_log_end(b));
        fl_bad_log_free(b);
    }
    expect_file("day.txt:2:label\tbad\tx\n");
}

static void a_pass_without_bad_lines_leaves_the_file_alone(void **state)
{
    fl_bad_log *b = make_log(0, 0);

    (void)state;
    fl_bad_log_lines(b, 1000000);
    assert_ok(fl_bad_log_end(b));
    assert_int_equal(access(path, F_OK), -1);
    assert_string_equal(logged, "");
    fl_bad_log_free(b);
}

static void without_a_path_nothing_is_written(void **state)
{
    fl_bad_limits l = { .quarantine = "", .max_lines = 1, .max_share = 1 };
    fl_bad_log *b = fl_bad_log_new(&l, &schema);

    (void)state;
    assert_ok(add_some(b, 1));
    assert_int_equal(add_some(b, 1), FL_ERR_CORRUPT);
    expect_said("the setting quarantine names a file");
    assert_int_equal(fl_bad_log_count(b), 2);
    fl_bad_log_free(b);
}

static void a_file_that_cannot_be_made_is_an_error(void **state)
{
    fl_bad_log *b = make_log(1000, 1);
    fl_status st;

    (void)state;
    assert_int_equal(mkdir(path, 0700), 0);
    st = add_some(b, 1);
    rmdir(path);
    assert_int_equal(st, FL_ERR_IO);
    expect_said(path);
    expect_said("setting quarantine");
    fl_bad_log_free(b);
}

static void a_full_disk_is_an_error(void **state)
{
    fl_bad_limits l = { .quarantine = "/dev/full",
                        .max_lines = 10,
                        .max_share = 1 };
    fl_bad_log *b = fl_bad_log_new(&l, &schema);

    (void)state;
    assert_int_equal(add_some(b, 1), FL_ERR_IO);
    expect_said("/dev/full");
    fl_bad_log_free(b);
}

/* --- limits --------------------------------------------------------------- */

static void one_line_above_the_limit_ends_the_job(void **state)
{
    fl_bad_log *b = make_log(3, 1);

    (void)state;
    fl_bad_log_lines(b, 50);
    assert_ok(add_some(b, 3));
    assert_int_equal(add(b, 44, 0, "no number", "x", 1), FL_ERR_CORRUPT);
    expect_said("day.txt:44:label: no number");
    expect_said("4 bad lines of 50");
    expect_said("max_bad_lines=3");
    expect_said("raise max_bad_lines");
    expect_said(path);
    fl_bad_log_free(b);
}

static void a_limit_of_none_ends_at_the_first(void **state)
{
    fl_bad_log *b = make_log(0, 1);

    (void)state;
    assert_int_equal(add_some(b, 1), FL_ERR_CORRUPT);
    fl_bad_log_free(b);
}

static void one_bad_line_of_few_is_no_share(void **state)
{
    fl_bad_log *b = make_log(1000, 0.001);

    (void)state;
    fl_bad_log_lines(b, 2);
    assert_ok(add_some(b, 1));
    assert_ok(fl_bad_log_end(b));
    fl_bad_log_free(b);
}

static void the_share_is_judged_at_the_end(void **state)
{
    fl_bad_log *b = make_log(1000, 0.001);

    (void)state;
    fl_bad_log_lines(b, 2000);
    assert_ok(add_some(b, 3));
    assert_int_equal(fl_bad_log_end(b), FL_ERR_CORRUPT);
    expect_said("day.txt:1: no number");
    expect_said("3 bad lines of 2000");
    expect_said("max_bad_share=0.001");
    fl_bad_log_free(b);
}

static void the_share_ends_a_long_pass_early(void **state)
{
    fl_bad_log *b = make_log(1000000, 0.001);

    (void)state;
    fl_bad_log_lines(b, 99999);
    assert_ok(add_some(b, 101));
    fl_bad_log_lines(b, 1);
    assert_int_equal(add_some(b, 1), FL_ERR_CORRUPT);
    expect_said("102 bad lines of 100000");
    fl_bad_log_free(b);
}

static void known_bad_lines_are_limited_but_not_written(void **state)
{
    fl_bad_log *b = make_log(10, 1);

    (void)state;
    assert_ok(fl_bad_log_add_known(b, "old.txt", 0));
    assert_ok(fl_bad_log_add_known(b, "old.txt", 10));
    assert_int_equal(fl_bad_log_add_known(b, "new.txt", 2), FL_ERR_CORRUPT);
    expect_said("new.txt: 2 bad lines were found when its cache was written");
    assert_int_equal(fl_bad_log_count(b), 12);
    assert_int_equal(access(path, F_OK), -1);
    fl_bad_log_free(b);
}

static void the_end_says_how_many_there_were(void **state)
{
    fl_bad_log *b = make_log(1000, 0.01);

    (void)state;
    fl_bad_log_lines(b, 5000);
    assert_ok(add_some(b, 4));
    assert_ok(fl_bad_log_end(b));
    assert_non_null(strstr(logged, "bad lines=4 of=5000"));
    assert_non_null(strstr(logged, path));
    assert_non_null(strstr(logged, "day.txt:1: no number"));
    fl_bad_log_free(b);
}

/* --- threads -------------------------------------------------------------- */

static void add_from_thread(void *arg)
{
    fl_bad_log *b = arg;

    for (int i = 0; i < N_EACH; i++) {
        fl_bad_log_lines(b, 2);
        (void)add(b, 5, 0, "same", "text", 4);
    }
}

static void threads_write_whole_entries(void **state)
{
    static const char entry[] = "day.txt:5:label\tsame\ttext\n";
    size_t entry_len = sizeof(entry) - 1, len;
    fl_bad_log *b = make_log(UINT64_MAX, 1);
    fl_thread *threads[N_THREADS];
    char *text = NULL;

    (void)state;
    for (int i = 0; i < N_THREADS; i++)
        assert_ok(fl_thread_start(&threads[i], "bad", add_from_thread, b));
    for (int i = 0; i < N_THREADS; i++)
        fl_thread_join(threads[i]);
    assert_int_equal(fl_bad_log_count(b), N_THREADS * N_EACH);
    assert_ok(fl_bad_log_end(b));
    assert_ok(fl_file_read(path, FILE_MAX, &text, &len));
    assert_int_equal(len, N_THREADS * N_EACH * entry_len);
    for (size_t at = 0; at < len; at += entry_len)
        assert_memory_equal(text + at, entry, entry_len);
    fl_free(text);
    fl_bad_log_free(b);
}

int main(void)
{
#define T(name) cmocka_unit_test_teardown(name, remove_file)
    const struct CMUnitTest tests[] = {
        T(an_entry_has_place_reason_and_text),
        T(bytes_that_do_not_print_are_escaped),
        T(a_long_line_is_cut_at_a_thousand_bytes),
        T(a_pass_replaces_the_entries_of_the_one_before),
        T(a_pass_without_bad_lines_leaves_the_file_alone),
        T(without_a_path_nothing_is_written),
        T(a_file_that_cannot_be_made_is_an_error),
        T(a_full_disk_is_an_error),
        T(one_line_above_the_limit_ends_the_job),
        T(a_limit_of_none_ends_at_the_first),
        T(one_bad_line_of_few_is_no_share),
        T(the_share_is_judged_at_the_end),
        T(the_share_ends_a_long_pass_early),
        T(known_bad_lines_are_limited_but_not_written),
        T(the_end_says_how_many_there_were),
        T(threads_write_whole_entries),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
