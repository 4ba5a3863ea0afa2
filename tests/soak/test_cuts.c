/* test_cuts.c - exactly once, at length: 100 000 pushes in a simulation that
 * cuts 1000 connections, and 10 000 over TCP through a proxy that cuts 100. */
#include "../ps/town_kit.h"

static void a_hundred_thousand_pushes_survive_a_thousand_cuts(void **state)
{
    (void)state;
    expect_once_in_simulation(100000, 1000);
}

static void ten_thousand_pushes_survive_a_hundred_cuts_of_tcp(void **state)
{
    (void)state;
    expect_once_through_proxy(10000, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hundred_thousand_pushes_survive_a_thousand_cuts),
        cmocka_unit_test(ten_thousand_pushes_survive_a_hundred_cuts_of_tcp),
    };

    be_quiet();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
