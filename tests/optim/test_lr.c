/* test_lr.c - learning-rate schedules at their corners. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <math.h>

#include "optim/lr.h"

static bool near(double x, double y)
{
    return fabs(x - y) <= 1e-12;
}

static void exponential_decay_halves_every_period(void **state)
{
    (void)state;
    assert_true(near(fl_lr_exponential(0.1, 7, 0.5, false, 0), 0.1));
    assert_true(near(fl_lr_exponential(0.1, 7, 0.5, false, 7), 0.05));
    assert_true(
        near(fl_lr_exponential(0.1, 4, 0.5, false, 2), 0.1 * sqrt(0.5)));
}

static void a_staircase_stays_until_the_period_is_over(void **state)
{
    (void)state;
    assert_true(near(fl_lr_exponential(0.1, 7, 0.5, true, 6), 0.1));
    assert_true(near(fl_lr_exponential(0.1, 7, 0.5, true, 7), 0.05));
    assert_true(near(fl_lr_exponential(0.1, 7, 0.5, true, 20), 0.025));
}

static void a_boundary_belongs_to_the_next_piece(void **state)
{
    const int64_t boundaries[] = { 10, 30 };
    const double values[] = { 0.1, 0.01, 0.001 };

    (void)state;
    assert_true(fl_lr_piecewise(boundaries, values, 2, 0) == 0.1);
    assert_true(fl_lr_piecewise(boundaries, values, 2, 9) == 0.1);
    assert_true(fl_lr_piecewise(boundaries, values, 2, 10) == 0.01);
    assert_true(fl_lr_piecewise(boundaries, values, 2, 30) == 0.001);
    assert_true(fl_lr_piecewise(boundaries, values, 2, 1000) == 0.001);
    assert_true(fl_lr_piecewise(NULL, values, 0, 5) == 0.1);
}

static void warmup_rises_to_its_end_and_hands_over(void **state)
{
    (void)state;
    assert_true(fl_lr_warmup(0.5, 10, 0.01, 0.1, 0) == 0.01);
    assert_true(near(fl_lr_warmup(0.5, 10, 0.01, 0.1, 9), 0.091));
    assert_true(fl_lr_warmup(0.5, 10, 0.01, 0.1, 10) == 0.5);
    assert_true(fl_lr_warmup(0.5, 0, 0.01, 0.1, 0) == 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponential_decay_halves_every_period),
        cmocka_unit_test(a_staircase_stays_until_the_period_is_over),
        cmocka_unit_test(a_boundary_belongs_to_the_next_piece),
        cmocka_unit_test(warmup_rises_to_its_end_and_hands_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
