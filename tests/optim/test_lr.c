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
    const fl_lr_decay seven = { .lr = 0.1, .steps = 7, .rate = 0.5 };
    const fl_lr_decay four = { .lr = 0.1, .steps = 4, .rate = 0.5 };

    (void)state;
    assert_true(near(fl_lr_exponential(&seven, 0), 0.1));
    assert_true(near(fl_lr_exponential(&seven, 7), 0.05));
    assert_true(near(fl_lr_exponential(&four, 2), 0.1 * sqrt(0.5)));
}

static void a_staircase_stays_until_the_period_is_over(void **state)
{
    const fl_lr_decay d = {
        .lr = 0.1, .steps = 7, .rate = 0.5, .staircase = true
    };

    (void)state;
    assert_true(near(fl_lr_exponential(&d, 6), 0.1));
    assert_true(near(fl_lr_exponential(&d, 7), 0.05));
    assert_true(near(fl_lr_exponential(&d, 20), 0.025));
    assert_true(near(fl_lr_natural_exp(&d, 13), 0.1 * exp(-0.5)));
    assert_true(near(fl_lr_inverse_time(&d, 13), 0.1 / 1.5));
}

static void other_decays_follow_their_formulas(void **state)
{
    const fl_lr_decay d = { .lr = 0.1, .steps = 4, .rate = 0.5 };

    (void)state;
    assert_true(near(fl_lr_natural_exp(&d, 0), 0.1));
    assert_true(near(fl_lr_natural_exp(&d, 6), 0.1 * exp(-0.75)));
    assert_true(near(fl_lr_inverse_time(&d, 0), 0.1));
    assert_true(near(fl_lr_inverse_time(&d, 6), 0.1 / 1.75));
}

static void noam_rises_to_the_end_of_its_warmup_and_falls(void **state)
{
    (void)state;
    assert_true(near(fl_lr_noam(1, 64, 4, 0), 0.125 / 8));
    assert_true(near(fl_lr_noam(1, 64, 4, 3), 0.125 / 2));
    assert_true(near(fl_lr_noam(2, 64, 4, 15), 2 * 0.125 / 4));
}

static void a_polynomial_ends_or_begins_again(void **state)
{
    fl_lr_polynomial p = { .lr = 1, .steps = 10, .end = 0.2, .power = 2 };

    (void)state;
    assert_true(near(fl_lr_polynomial_decay(&p, 0), 1));
    assert_true(near(fl_lr_polynomial_decay(&p, 5), 0.2 + 0.8 * 0.25));
    assert_true(near(fl_lr_polynomial_decay(&p, 10), 0.2));
    assert_true(near(fl_lr_polynomial_decay(&p, 99), 0.2));
    p.cycle = true;
    assert_true(near(fl_lr_polynomial_decay(&p, 0), 1));
    assert_true(near(fl_lr_polynomial_decay(&p, 10), 0.2));
    assert_true(near(fl_lr_polynomial_decay(&p, 15), 0.2 + 0.8 / 16));
    assert_true(near(fl_lr_polynomial_decay(&p, 20), 0.2));
}

static void cosine_moves_once_per_epoch(void **state)
{
    (void)state;
    assert_true(near(fl_lr_cosine(0.1, 10, 4, 0), 0.1));
    assert_true(near(fl_lr_cosine(0.1, 10, 4, 9), 0.1));
    assert_true(near(fl_lr_cosine(0.1, 10, 4, 20), 0.05));
    assert_true(near(fl_lr_cosine(0.1, 10, 4, 45), 0));
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
        cmocka_unit_test(other_decays_follow_their_formulas),
        cmocka_unit_test(noam_rises_to_the_end_of_its_warmup_and_falls),
        cmocka_unit_test(a_polynomial_ends_or_begins_again),
        cmocka_unit_test(cosine_moves_once_per_epoch),
        cmocka_unit_test(a_boundary_belongs_to_the_next_piece),
        cmocka_unit_test(warmup_rises_to_its_end_and_hands_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
