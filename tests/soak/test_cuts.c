/* test_cuts.c - exactly once, at length: 100 000 pushes in a simulation that
 * cuts 1000 connections, and as many over TCP through a proxy that does. */
#include "../ps/fault_cluster_kit.h"

static void a_hundred_thousand_pushes_survive_a_thousand_cuts(void **state)
{
    (void)state;
    expect_once_in_simulation(100000, 1000);
}

static void the_same_holds_over_tcp(void **state)
{
    (void)state;
    expect_once_through_proxy(100000, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hundred_thousand_pushes_survive_a_thousand_cuts),
        cmocka_unit_test(the_same_holds_over_tcp),
    };

    be_quiet();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
