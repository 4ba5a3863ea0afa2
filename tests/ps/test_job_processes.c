/* test_job_processes.c - whole jobs, each member a process; and a machine that
 * has more to do than it can. */
#include "idle_kit.h"
#include "job_work.h"

#define CONNECTIONS 1000
#define LOAD_MS 3000

static uint64_t run(int n_servers, const char *settings)
{
    uint64_t hash;
    job j;

    job_init(&j, n_servers, JOB_TRAINERS, settings, whole_work);
    hash = job_run_processes(&j);
    job_release(&j);
    return hash;
}

static void any_number_of_server_processes_holds_the_same_rows(void **state)
{
    uint64_t one = run(1, "join_token=t");

    (void)state;
    assert_true(one != 0);
    assert_true(run(2, "join_token=t") == one);
    assert_true(run(3, "join_token=t") == one);
}

static void processes_and_threads_give_the_same_rows(void **state)
{
    uint64_t processes = run(2, ""), threads;
    job j;

    (void)state;
    job_init(&j, 2, JOB_TRAINERS, "", whole_work);
    threads = job_run_threads(&j);
    job_release(&j);
    assert_true(processes == threads);
}

static void nobody_is_called_silent_under_load(void **state)
{
    (void)state;
    run_under_load(LOAD_MS);
}

static void strangers_that_say_nothing_do_no_harm(void **state)
{
    (void)state;
    hold_idle(CONNECTIONS, IDLE_STRANGERS, "join_token=" IDLE_TOKEN);
}

static void strangers_beyond_the_limit_give_way(void **state)
{
    (void)state;
    hold_idle(CONNECTIONS, IDLE_STRANGERS,
              "max_connections=300 join_token=" IDLE_TOKEN);
}

static void many_tools_that_do_nothing_do_no_harm(void **state)
{
    (void)state;
    hold_idle(CONNECTIONS, IDLE_TOOLS, "join_token=" IDLE_TOKEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_server_processes_holds_the_same_rows),
        cmocka_unit_test(nobody_is_called_silent_under_load),
        cmocka_unit_test(strangers_that_say_nothing_do_no_harm),
        cmocka_unit_test(strangers_beyond_the_limit_give_way),
        cmocka_unit_test(many_tools_that_do_nothing_do_no_harm),
        cmocka_unit_test(processes_and_threads_give_the_same_rows),
    };

    be_quiet();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
