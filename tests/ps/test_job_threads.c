/* test_job_threads.c - whole jobs, each member a thread of this process. */
#include "job_work.h"

static uint64_t run(int n_servers, const char *settings)
{
    uint64_t hash;
    job j;

    job_init(&j, n_servers, JOB_TRAINERS, settings, whole_work);
    hash = job_run_threads(&j);
    job_release(&j);
    return hash;
}

static void any_number_of_servers_holds_the_same_rows(void **state)
{
    uint64_t one = run(1, "join_token=t");

    (void)state;
    assert_true(one != 0);
    assert_true(run(2, "join_token=t") == one);
    assert_true(run(3, "join_token=t") == one);
}

static void shared_memory_and_sockets_give_the_same_rows(void **state)
{
    (void)state;
    assert_true(run(2, "local_transport=force") ==
                run(2, "local_transport=off server_threads=3"));
}

static void the_same_job_twice_gives_the_same_rows(void **state)
{
    (void)state;
    assert_true(run(2, "") == run(2, ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_servers_holds_the_same_rows),
        cmocka_unit_test(shared_memory_and_sockets_give_the_same_rows),
        cmocka_unit_test(the_same_job_twice_gives_the_same_rows),
    };

    be_quiet();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
