/* test_job_cuts.c - pushes are applied exactly once, whatever happens to the
 * connections. tests/soak/test_cuts.c does the same ten times as long. */
#include "fault_cluster_kit.h"

static void ten_thousand_pushes_survive_a_hundred_cuts(void **state)
{
    (void)state;
    expect_once_in_simulation(10000, 100);
}

static void a_thousand_pushes_survive_ten_cuts_of_tcp(void **state)
{
    (void)state;
    expect_once_through_proxy(1000, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_thousand_pushes_survive_a_hundred_cuts),
        cmocka_unit_test(a_thousand_pushes_survive_ten_cuts_of_tcp),
    };

    be_quiet();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
