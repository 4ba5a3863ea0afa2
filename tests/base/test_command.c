/* test_command.c - commands of the user's: how they end, what they say, and
 * that none is waited for beyond its time. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/command.h"
#include "base/file.h"
#include "base/alloc.h"

#define LONG_MS 60000

static fl_status run(const char *text, uint64_t timeout_ms)
{
    fl_command c = { .text = text, .timeout_ms = timeout_ms };

    return fl_command_run(&c);
}

static void expect_said(const char *part)
{
    if (!strstr(fl_last_error(), part))
        fail_msg("'%s' does not say '%s'", fl_last_error(), part);
}

static void one_that_ends_well_is_fine(void **state)
{
    (void)state;
    assert_int_equal(run("true", LONG_MS), FL_OK);
    assert_int_equal(run("echo hello; exit 0; :", LONG_MS), FL_OK);
}

static void words_arrive_as_they_are(void **state)
{
    const char *const words[] = { "a  b", "$(exit 1)", "it's \"so\"" };
    fl_command c = { .text = "f() { [ $# = 3 ] && [ \"$1\" = 'a  b' ] && "
                             "[ \"$2\" = '$(exit 1)' ] && "
                             "[ \"$3\" = \"it's \\\"so\\\"\" ]; }; f",
                     .words = words,
                     .n_words = 3,
                     .timeout_ms = LONG_MS };

    (void)state;
    if (fl_command_run(&c))
        fail_msg("%s", fl_last_error());
}

static void a_failure_has_its_status_and_its_words(void **state)
{
    (void)state;
    assert_int_equal(run("echo out; echo no space >&2; exit 3; :", LONG_MS),
                     FL_ERR_IO);
    expect_said("ended with status 3 and said 'out no space'");
    assert_int_equal(run("exit 4; :", LONG_MS), FL_ERR_IO);
    expect_said("ended with status 4 and said nothing");
    assert_int_equal(run("no_such_command_at_all", LONG_MS), FL_ERR_IO);
    expect_said("ended with status 127 (not found)");
    assert_int_equal(run("kill -9 $$; :", LONG_MS), FL_ERR_IO);
    expect_said("was ended by signal 9");
}

static void of_many_words_the_last_are_kept(void **state)
{
    (void)state;
    assert_int_equal(run("i=0; while [ $i -lt 2000 ]; do echo line $i; "
                         "i=$((i+1)); done; exit 1; :",
                         LONG_MS),
                     FL_ERR_IO);
    expect_said("said '...");
    expect_said("line 1999'");
}

static void it_reads_nothing(void **state)
{
    (void)state;
    assert_int_equal(run("[ -z \"$(cat)\" ]; :", LONG_MS), FL_OK);
}

/* Its number is in a file; it is gone when kill finds nobody. */
static void one_that_takes_too_long_is_ended_with_what_it_started(void **state)
{
    char path[] = "/tmp/flotilla_command_XXXXXX";
    int fd = mkstemp(path);
    char command[256], *text = NULL;
    size_t len;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    snprintf(command, sizeof(command),
             "echo waiting; sleep 600 & echo $! >%s; wait; :", path);
    assert_int_equal(run(command, 1000), FL_ERR_TIMEOUT);
    expect_said("was ended after 1000 ms and had said 'waiting'");
    assert_int_equal(fl_file_read(path, 64, &text, &len), FL_OK);
    /* A killed process stays until its parent has seen it; its new parent
       does that at once, but not at the same time. */
    for (int i = 0; i < 10000 && kill((pid_t)strtol(text, NULL, 10), 0) == 0;
         i++)
        usleep(1000);
    assert_int_equal(kill((pid_t)strtol(text, NULL, 10), 0), -1);
    assert_int_equal(errno, ESRCH);
    fl_free(text);
    unlink(path);
}

static void what_it_leaves_behind_is_not_waited_for(void **state)
{
    (void)state;
    assert_int_equal(run("sleep 600 & :", LONG_MS), FL_OK);
}

static void a_command_beyond_all_measure_is_refused(void **state)
{
    char *text = malloc(8193);

    (void)state;
    memset(text, 'x', 8192);
    text[8192] = '\0';
    assert_int_equal(run(text, LONG_MS), FL_ERR_IO);
    expect_said("cannot start the command");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_ends_well_is_fine),
        cmocka_unit_test(words_arrive_as_they_are),
        cmocka_unit_test(a_failure_has_its_status_and_its_words),
        cmocka_unit_test(of_many_words_the_last_are_kept),
        cmocka_unit_test(it_reads_nothing),
        cmocka_unit_test(one_that_takes_too_long_is_ended_with_what_it_started),
        cmocka_unit_test(what_it_leaves_behind_is_not_waited_for),
        cmocka_unit_test(a_command_beyond_all_measure_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
