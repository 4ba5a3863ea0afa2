/* test_pump_lines.c - what the pump does with bad lines, headers and caches. */
#include "pump_kit.h"

/* --- bad lines ------------------------------------------------------------ */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Lines of the quarantine file, sorted; they end where *text is freed. */
static size_t read_quarantine(char **text, char **lines, size_t max)
{
    size_t len, n = 0;

    assert_ok(fl_file_read(quarantine, FILE_MAX, text, &len));
    for (char *at = *text; *at && n < max; n++) {
        char *end = strchr(at, '\n');

        assert_non_null(end);
        *end = '\0';
        lines[n] = at;
        at = end + 1;
    }
    qsort(lines, n, sizeof(*lines), by_text);
    return n;
}

static void bad_lines_have_their_numbers_with_many_threads(void **state)
{
    fl_pump_stats stats;
    char *text = NULL, *lines[128];
    fl_str file = { 0 };
    fl_pump_args a;
    sink s;

    (void)state;
    sink_init(&s);
    for (int i = 1; i <= 50000; i++)
        fl_str_addf(&file, i % 500 ? "%d\r\n" : "x%05d\r\n", i);
    add_file("a", fl_str_text(&file));
    a = args_of(&s, &numbers, 8);
    a.source.block_bytes = 500;
    assert_ok(run(&a, &stats));
    assert_int_equal(stats.bad_lines, 100);
    assert_int_equal(stats.lines, 50000);
    assert_int_equal(stats.records, 49900);
    assert_int_equal(read_quarantine(&text, lines, FL_LEN(lines)), 100);
    for (int i = 0; i < 100; i++) {
        uint64_t number = strtoull(strchr(lines[i], ':') + 1, NULL, 10);
        char want[200];

        snprintf(want, sizeof(want), "%s:%" PRIu64 ":n\tno number\tx%05" PRIu64,
                 paths.data[0], number, number);
        assert_string_equal(lines[i], want);
        if (i > 0)
            assert_string_not_equal(lines[i], lines[i - 1]);
    }
    fl_free(text);
    fl_str_release(&file);
    sink_release(&s);
}

static void too_many_bad_lines_end_the_pass(void **state)
{
    fl_pump_args a;
    sink s;

    (void)state;
    sink_init(&s);
    add_numbers("a", "x\ny\nz\n", 0, 1000);
    a = args_of(&s, &numbers, 1);
    a.limits.max_lines = 2;
    assert_int_equal(run(&a, NULL), FL_ERR_CORRUPT);
    expect_said("/a:3:n: no number");
    a.limits = (fl_bad_limits){ .max_lines = 10, .max_share = 0.002 };
    assert_int_equal(run(&a, NULL), FL_ERR_CORRUPT);
    expect_said("3 bad lines of 1003");
    sink_release(&s);
}

static void a_line_that_is_too_long_is_a_bad_line(void **state)
{
    char *text = NULL, *lines[4], first[2010], want[256];
    fl_pump_args a;
    sink s;

    (void)state;
    sink_init(&s);
    memset(first, '7', sizeof(first));
    memcpy(first, "0\n1\n", 4);
    memcpy(first + sizeof(first) - 4, "\nx\n", 4);
    add_numbers("a", first, 2, 1000);
    a = args_of(&s, &numbers, 3);
    assert_ok(run(&a, NULL));
    expect_each_once(&s, 1000);
    assert_int_equal(read_quarantine(&text, lines, FL_LEN(lines)), 2);
    snprintf(want, sizeof(want), "%s:3:-\tlonger than max_line_bytes=1000",
             paths.data[0]);
    assert_memory_equal(lines[0], want, strlen(want));
    snprintf(want, sizeof(want), "%s:4:n\tno number\tx", paths.data[0]);
    assert_string_equal(lines[1], want);
    fl_free(text);
    sink_release(&s);
}

/* --- headers -------------------------------------------------------------- */

static void every_block_knows_the_header_of_its_file(void **state)
{
    fl_pump_stats stats;
    fl_pump_args a;
    sink s;

    (void)state;
    sink_init(&s);
    for (uint64_t i = 0; i < 8; i++) {
        char base[16];

        snprintf(base, sizeof(base), "#%" PRIu64 "%s\n", i * 2000,
                 i % 2 ? "\r" : "");
        add_numbers((char[]){ (char)('a' + i), '\0' }, base, 0, 2000);
    }
    a = args_of(&s, &with_base, 4);
    a.source.block_bytes = 200;
    assert_ok(run(&a, &stats));
    expect_each_once(&s, 16000);
    assert_int_equal(stats.lines, 16000 + 8);
    sink_release(&s);
}

static void a_first_line_that_is_no_header_is_a_record(void **state)
{
    fl_pump_args a;
    sink s;

    (void)state;
    sink_init(&s);
    add_numbers("a", "", 0, 100);
    a = args_of(&s, &with_base, 1);
    assert_ok(run(&a, NULL));
    expect_each_once(&s, 100);
    sink_release(&s);
}

static void a_header_counts_in_the_numbers_of_lines(void **state)
{
    fl_pump_args a;
    sink s;

    (void)state;
    sink_init(&s);
    add_file("a", "#5\n1\nx\n");
    a = args_of(&s, &with_base, 1);
    a.limits.max_lines = 0;
    assert_int_equal(run(&a, NULL), FL_ERR_CORRUPT);
    expect_said("/a:3:n: no number");
    sink_release(&s);
}

static void a_bad_header_is_an_error_that_names_the_file(void **state)
{
    char text[2000];
    fl_pump_args a;
    sink s;

    (void)state;
    sink_init(&s);
    add_file("a", "#\n1\n");
    a = args_of(&s, &with_base, 2);
    assert_int_equal(run(&a, NULL), FL_ERR_CORRUPT);
    expect_said("/a:1: no number behind the #");
    memset(text, '#', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    fl_paths_release(&paths);
    add_file("long", text);
    assert_int_equal(run(&a, NULL), FL_ERR_CORRUPT);
    expect_said("/long:1: the first line, which may be a header, is longer");
    sink_release(&s);
}

/* --- the cache ------------------------------------------------------------ */

static void a_second_pass_reads_the_cache(void **state)
{
    fl_pump_stats stats;
    fl_pump_args a;
    sink s;

    (void)state;
    sink_init(&s);
    add_numbers("a", "x\n", 0, 100000);
    add_numbers("b", "", 100000, 100010);
    add_file("empty", "");
    a = args_of(&s, &numbers, 4);
    a.cache = cache;
    assert_ok(run(&a, &stats));
    expect_each_once(&s, 100010);
    assert_int_equal(stats.cached_files, 0);
    unlink(quarantine);
    for (int n_threads = 1; n_threads <= 4; n_threads += 3) {
        sink_release(&s);
        sink_init(&s);
        a.n_threads = n_threads;
        assert_ok(run(&a, &stats));
        expect_each_once(&s, 100010);
        assert_int_equal(stats.files, 3);
        assert_int_equal(stats.cached_files, 3);
        assert_int_equal(stats.empty_files, 1);
        assert_int_equal(stats.lines, 100011);
        assert_int_equal(stats.bad_lines, 1);
        assert_int_equal(stats.read, 100010 * 8);
    }
    assert_int_equal(access(quarantine, F_OK), -1);
    sink_release(&s);
}

static void bad_lines_of_a_cached_file_count_for_the_limit(void **state)
{
    fl_pump_args a;
    sink s;

    (void)state;
    sink_init(&s);
    add_numbers("a", "x\ny\n", 0, 10);
    a = args_of(&s, &numbers, 2);
    a.cache = cache;
    assert_ok(run(&a, NULL));
    a.limits.max_lines = 1;
    assert_int_equal(run(&a, NULL), FL_ERR_CORRUPT);
    expect_said("2 bad lines were found when its cache was written");
    sink_release(&s);
}

static void a_pass_that_was_cut_leaves_no_cache(void **state)
{
    fl_pump_stats stats;
    fl_pump_args a;
    sink s;

    (void)state;
    sink_init(&s);
    add_numbers("a", "", 0, 100000);
    a = args_of(&s, &numbers, 4);
    a.cache = cache;
    s.fail_at = 5;
    s.fail_as = FL_ERR_CLOSED;
    assert_ok(run(&a, NULL));
    assert_int_equal(rmdir(cache), 0);
    sink_release(&s);
    sink_init(&s);
    assert_ok(run(&a, &stats));
    expect_each_once(&s, 100000);
    assert_int_equal(stats.cached_files, 0);
    sink_release(&s);
}

static void a_fifo_is_read_without_the_cache(void **state)
{
    const char *fifo;
    fl_pump_stats stats;
    fl_pump_args a;
    fl_pump *p = NULL;
    sink s;

    (void)state;
    sink_init(&s);
    fifo = add_fifo("fifo");
    a = args_of(&s, &numbers, 2);
    a.cache = cache;
    for (uint32_t i = 1; i <= 2; i++) {
        assert_ok(fl_pump_start(&p, &a));
        write_fifo(fifo, "0\n1\n");
        assert_ok(fl_pump_join(p, &stats));
        assert_int_equal(stats.cached_files, 0);
        assert_int_equal(s.seen[1], i);
    }
    sink_release(&s);
}

static void a_format_that_draws_is_not_cached(void **state)
{
    fl_pump_args a = args_of(NULL, &drawing, 1);

    (void)state;
    a.cache = cache;
    assert_int_equal(run(&a, NULL), FL_ERR_INVAL);
    expect_said("format drawing draws its records anew");
}

int main(void)
{
#define T(name) cmocka_unit_test_teardown(name, remove_files)
    const struct CMUnitTest tests[] = {
        T(bad_lines_have_their_numbers_with_many_threads),
        T(too_many_bad_lines_end_the_pass),
        T(a_line_that_is_too_long_is_a_bad_line),
        T(every_block_knows_the_header_of_its_file),
        T(a_first_line_that_is_no_header_is_a_record),
        T(a_header_counts_in_the_numbers_of_lines),
        T(a_bad_header_is_an_error_that_names_the_file),
        T(a_second_pass_reads_the_cache),
        T(bad_lines_of_a_cached_file_count_for_the_limit),
        T(a_pass_that_was_cut_leaves_no_cache),
        T(a_fifo_is_read_without_the_cache),
        T(a_format_that_draws_is_not_cached),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
