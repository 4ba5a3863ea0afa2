/* test_clock.c - how far the clock of server 0 is ahead, by its answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ps/msg/calls.h"

static void the_fastest_answer_counts(void **state)
{
    fl_clock_guess g = { 0 };

    (void)state;
    fl_clock_take(&g, 1000, 51500, 2000); /* 50000 ahead, or 500 less or more */
    assert_int_equal(g.ahead_ns, 50000);
    assert_int_equal(g.error_ns, 500);
    fl_clock_take(&g, 3000, 90000, 9000);
    assert_int_equal(g.ahead_ns, 50000);
    fl_clock_take(&g, 10000, 60080, 10100);
    assert_int_equal(g.ahead_ns, 50030);
    assert_int_equal(g.error_ns, 50);
    assert_int_equal(g.n, 3);
}

static void a_clock_may_be_behind(void **state)
{
    fl_clock_guess g = { 0 };

    (void)state;
    fl_clock_take(&g, 1000000, 100, 1000200);
    assert_int_equal(g.ahead_ns, -1000000);
}

static void a_difference_within_the_error_is_none(void **state)
{
    fl_clock_guess g = { 0 };

    (void)state;
    fl_clock_take(&g, 1000, 1990, 2000);
    assert_int_equal(g.ahead_ns, 0);
    assert_int_equal(g.error_ns, 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_answer_counts),
        cmocka_unit_test(a_clock_may_be_behind),
        cmocka_unit_test(a_difference_within_the_error_is_none),
    };

    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
