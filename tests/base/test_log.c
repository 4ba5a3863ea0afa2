/* test_log.c - one sink, its lines, and its replacement. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/thread.h"

typedef struct heard {
    int lines;
    fl_log_level level;
    char area[32], text[4096];
} heard;

static void hear(void *arg, fl_log_level level, const char *area,
                 const char *text)
{
    heard *h = arg;

    h->lines++;
    h->level = level;
    snprintf(h->area, sizeof(h->area), "%s", area);
    snprintf(h->text, sizeof(h->text), "%s", text);
}

static int restore_default(void **state)
{
    (void)state;
    fl_log_set(NULL, NULL, FL_LOG_INFO);
    return 0;
}

static void a_sink_hears_level_area_and_text(void **state)
{
    heard h = { 0 };

    (void)state;
    fl_log_set(hear, &h, FL_LOG_DEBUG);
    FL_WARN("exec", "plan ops=%d name=%s", 12, "x");
    assert_int_equal(h.lines, 1);
    assert_int_equal(h.level, FL_LOG_WARN);
    assert_string_equal(h.area, "exec");
    assert_string_equal(h.text, "plan ops=12 name=x");
}

static void lines_below_the_least_level_are_dropped(void **state)
{
    heard h = { 0 };

    (void)state;
    fl_log_set(hear, &h, FL_LOG_WARN);
    fl_log(FL_LOG_DEBUG, "a", "x");
    FL_INFO("a", "x");
    assert_int_equal(h.lines, 0);
    FL_WARN("a", "x");
    fl_log(FL_LOG_ERROR, "a", "x");
    assert_int_equal(h.lines, 2);
}

static void talk_back(void *arg, fl_log_level level, const char *area,
                      const char *text)
{
    hear(arg, level, area, text);
    FL_WARN("sink", "heard %s", text);
}

static void a_sink_that_logs_does_not_wait_for_itself(void **state)
{
    heard h = { 0 };

    (void)state;
    fl_log_set(talk_back, &h, FL_LOG_INFO);
    FL_INFO("a", "one");
    FL_INFO("a", "two");
    assert_int_equal(h.lines, 2);
    assert_string_equal(h.text, "two");
}

static void a_long_text_is_cut(void **state)
{
    heard h = { 0 };

    (void)state;
    fl_log_set(hear, &h, FL_LOG_INFO);
    FL_INFO("a", "%05000d", 7);
    assert_in_range(strlen(h.text), 1000, 4999);
}

#define LINES 500

static void say_many(void *arg)
{
    for (int i = 0; i < LINES; i++)
        FL_INFO("two", "%s", (const char *)arg);
}

/* The sink counts without a lock of its own: the log's must suffice. */
static void lines_of_two_threads_come_one_by_one(void **state)
{
    heard h = { 0 };
    fl_thread *t = NULL;

    (void)state;
    fl_log_set(hear, &h, FL_LOG_INFO);
    assert_int_equal(fl_thread_start(&t, "b", say_many, "b"), FL_OK);
    say_many("a");
    fl_thread_join(t);
    assert_int_equal(h.lines, 2 * LINES);
}

/* What `fn` writes to stderr. */
static void capture(void (*fn)(void), char *out, size_t size)
{
    FILE *f = tmpfile();
    int saved = dup(STDERR_FILENO);
    size_t n;

    assert_non_null(f);
    assert_true(saved >= 0);
    dup2(fileno(f), STDERR_FILENO);
    fn();
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(f);
    n = fread(out, 1, size - 1, f);
    out[n] = '\0';
    fclose(f);
}

static void say_two(void)
{
    fl_log(FL_LOG_DEBUG, "exec", "hidden");
    FL_INFO("exec", "plan ops=%d", 3);
    fl_log(FL_LOG_ERROR, "api", "bad");
}

static void the_default_sink_writes_stamped_lines(void **state)
{
    char out[512];
    regex_t re;

    (void)state;
    fl_log_set(NULL, NULL, FL_LOG_INFO);
    capture(say_two, out, sizeof(out));
#define STAMP "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{3}Z "
    assert_int_equal(regcomp(&re,
                             "^" STAMP "INFO exec plan ops=3\n" STAMP
                             "ERROR api bad\n$",
                             REG_EXTENDED | REG_NOSUB),
                     0);
    assert_int_equal(regexec(&re, out, 0, NULL, 0), 0);
    regfree(&re);
}

static void say_too_much(void)
{
    char area[3000];

    memset(area, 'a', sizeof(area) - 1);
    area[sizeof(area) - 1] = '\0';
    FL_INFO(area, "text");
}

static void a_line_too_long_still_ends(void **state)
{
    char out[8192];

    (void)state;
    fl_log_set(NULL, NULL, FL_LOG_INFO);
    capture(say_too_much, out, sizeof(out));
    assert_ptr_equal(strchr(out, '\n'), out + strlen(out) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sink_hears_level_area_and_text),
        cmocka_unit_test(lines_below_the_least_level_are_dropped),
        cmocka_unit_test(a_sink_that_logs_does_not_wait_for_itself),
        cmocka_unit_test(a_long_text_is_cut),
        cmocka_unit_test(lines_of_two_threads_come_one_by_one),
        cmocka_unit_test(the_default_sink_writes_stamped_lines),
        cmocka_unit_test(a_line_too_long_still_ends),
    };

    return cmocka_run_group_tests(tests, NULL, restore_default);
}
