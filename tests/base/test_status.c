/* test_status.c - one error per thread, and how it travels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "base/thread.h"

static void every_status_has_its_own_text(void **state)
{
    const fl_status all[] = {
        FL_OK,
#define X(name, value, text) FL_ERR_##name,
        FL_STATUS_MAP(X)
#undef X
            FL_PENDING,
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(all); i++) {
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(fl_status_text(all[i]),
                                    fl_status_text(all[j]));
    }
    assert_string_equal(fl_status_text(FL_ERR_NOTFOUND), "no such name");
    assert_string_equal(fl_status_text((fl_status)77), "unknown status");
}

static fl_status open_door(int n)
{
    if (n > 3)
        FL_FAIL(FL_ERR_INVAL, "door %d is not in 1..%d", n, 3);
    return FL_OK;
}

static fl_status enter(int n)
{
    FL_TRY(open_door(n));
    return FL_OK;
}

static void a_failure_carries_its_sentence_up(void **state)
{
    (void)state;
    assert_int_equal(enter(2), FL_OK);
    assert_int_equal(enter(7), FL_ERR_INVAL);
    assert_string_equal(fl_last_error(), "door 7 is not in 1..3");
}

static void context_comes_before_the_cause(void **state)
{
    (void)state;
    assert_int_equal(fl_err_ctx(enter(7), "house %s", "red"), FL_ERR_INVAL);
    assert_string_equal(fl_last_error(), "house red: door 7 is not in 1..3");
}

static void context_leaves_what_is_no_error_untouched(void **state)
{
    (void)state;
    fl_err_set(FL_ERR_IO, "old");
    assert_int_equal(fl_err_ctx(FL_OK, "new"), FL_OK);
    assert_int_equal(fl_err_ctx(FL_PENDING, "new"), FL_PENDING);
    assert_string_equal(fl_last_error(), "old");
}

static void a_stale_sentence_never_explains_another_status(void **state)
{
    fl_err e;

    (void)state;
    fl_err_set(FL_ERR_IO, "old");
    fl_err_save(&e, FL_ERR_NOMEM);
    assert_string_equal(e.text, fl_status_text(FL_ERR_NOMEM));
    fl_err_ctx(FL_ERR_NOMEM, "table t");
    assert_string_equal(fl_last_error(), "table t: no memory for data");
}

static void the_old_sentence_may_be_part_of_the_new(void **state)
{
    (void)state;
    fl_err_set(FL_ERR_IO, "inner");
    fl_err_set(FL_ERR_CORRUPT, "outer of (%s)", fl_last_error());
    assert_string_equal(fl_last_error(), "outer of (inner)");
}

static void a_long_sentence_is_cut_and_says_so(void **state)
{
    char longer[3 * FL_ERR_TEXT_MAX];
    const char *text = fl_last_error();

    (void)state;
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    fl_err_set(FL_ERR_INVAL, "%s", longer);
    assert_int_equal(strlen(text), FL_ERR_TEXT_MAX - 1);
    assert_string_equal(text + strlen(text) - 4, "x...");
}

static void a_cut_never_splits_a_character(void **state)
{
    const char *text = fl_last_error();
    char longer[2 * FL_ERR_TEXT_MAX];
    size_t len;

    (void)state;
    for (size_t i = 0; i + 3 < sizeof(longer); i += 3)
        memcpy(longer + i, "\xe2\x82\xac", 4);
    for (const char *pad = "abc"; *pad; pad++) {
        fl_err_set(FL_ERR_INVAL, "%s%s", pad, longer);
        len = strlen(text);
        assert_string_equal(text + len - 3, "...");
        assert_int_equal((len - 3 - strlen(pad)) % 3, 0);
    }
}

static void a_long_context_leaves_room_for_the_cause(void **state)
{
    char longer[2 * FL_ERR_TEXT_MAX];

    (void)state;
    memset(longer, 'c', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    fl_err_set(FL_ERR_IO, "disk 9 is full");
    fl_err_ctx(FL_ERR_IO, "%s", longer);
    assert_non_null(strstr(fl_last_error(), "...: disk 9 is full"));
}

typedef struct report {
    bool was_empty;
    fl_err err;
} report;

static void fail_elsewhere(void *arg)
{
    report *r = arg;

    r->was_empty = fl_last_error()[0] == '\0';
    fl_err_save(&r->err, fl_err_set(FL_ERR_CLOSED, "peer %d left", 4));
}

static void each_thread_has_its_own_error(void **state)
{
    fl_thread *t = NULL;
    report r;

    (void)state;
    fl_err_set(FL_ERR_IO, "mine");
    assert_int_equal(fl_thread_start(&t, "other", fail_elsewhere, &r), FL_OK);
    fl_thread_join(t);
    assert_string_equal(fl_last_error(), "mine");
    assert_true(r.was_empty);
    assert_int_equal(fl_err_restore(&r.err), FL_ERR_CLOSED);
    assert_string_equal(fl_last_error(), "peer 4 left");
}

static void restoring_success_keeps_the_last_error(void **state)
{
    fl_err e;

    (void)state;
    fl_err_set(FL_ERR_IO, "mine");
    fl_err_save(&e, FL_OK);
    assert_string_equal(e.text, "");
    assert_int_equal(fl_err_restore(&e), FL_OK);
    assert_string_equal(fl_last_error(), "mine");
}

/* Runs FL_ASSERT(0 > 1) in a child; returns what it said. */
static int run_failing_assert(char *said, size_t size)
{
    int fds[2], status;
    ssize_t n;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(fds[1], STDERR_FILENO);
        FL_ASSERT(0 > 1);
        _exit(0);
    }
    close(fds[1]);
    n = read(fds[0], said, size - 1);
    said[n > 0 ? n : 0] = '\0';
    close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void a_failed_assertion_says_where_and_aborts(void **state)
{
    char said[512];
    int status = run_failing_assert(said, sizeof(said));

    (void)state;
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_non_null(strstr(said, "test_status.c:"));
    assert_non_null(strstr(said, "assertion failed: 0 > 1"));
}

static void a_place_is_the_nearest_one_and_travels_with_its_error(void **state)
{
    fl_error_place p = FL_INIT(fl_error_place, .op_tag = 0);
    fl_err carried;
    fl_status st;

    (void)state;
    st = fl_err_at_op(fl_err_set(FL_ERR_INVAL, "wrong"), 7, "mul");
    st = fl_err_at_op(fl_err_ctx(st, "outside"), 8, "conditional_block");
    fl_err_save(&carried, fl_err_at_feed(st, 9, "x"));
    (void)fl_err_set(FL_ERR_IO, "another");
    assert_false(fl_last_error_place(&p));
    assert_int_equal(fl_err_restore(&carried), FL_ERR_INVAL);
    assert_true(fl_last_error_place(&p));
    assert_string_equal(fl_last_error(), "outside: wrong");
    assert_int_equal(p.op_tag, 7);
    assert_string_equal(p.op, "mul");
    assert_int_equal(p.var_tag, 9);
    assert_string_equal(p.var, "x");
    assert_true(p.is_feed);
}

static void what_is_no_error_has_no_place(void **state)
{
    fl_error_place p = FL_INIT(fl_error_place, .op_tag = 0);

    (void)state;
    (void)fl_err_set(FL_ERR_INVAL, "wrong");
    assert_int_equal(fl_err_at_op(FL_OK, 7, "mul"), FL_OK);
    assert_int_equal(fl_err_at_var(FL_OK, 7, "w"), FL_OK);
    assert_false(fl_last_error_place(&p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_place_is_the_nearest_one_and_travels_with_its_error),
        cmocka_unit_test(what_is_no_error_has_no_place),
        cmocka_unit_test(every_status_has_its_own_text),
        cmocka_unit_test(a_failure_carries_its_sentence_up),
        cmocka_unit_test(context_comes_before_the_cause),
        cmocka_unit_test(context_leaves_what_is_no_error_untouched),
        cmocka_unit_test(a_stale_sentence_never_explains_another_status),
        cmocka_unit_test(the_old_sentence_may_be_part_of_the_new),
        cmocka_unit_test(a_long_sentence_is_cut_and_says_so),
        cmocka_unit_test(a_cut_never_splits_a_character),
        cmocka_unit_test(a_long_context_leaves_room_for_the_cause),
        cmocka_unit_test(each_thread_has_its_own_error),
        cmocka_unit_test(restoring_success_keeps_the_last_error),
        cmocka_unit_test(a_failed_assertion_says_where_and_aborts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
