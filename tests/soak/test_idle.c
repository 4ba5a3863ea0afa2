/* test_idle.c - 8000 connections of another process that do nothing, and a
 * machine at four times its load: those who work are served, the memory is
 * bounded, and nobody is called silent. */
#include "../ps/idle_kit.h"

#define CONNECTIONS 8000
#define LOAD_MS 10000

static void thousands_of_strangers_do_no_harm(void **state)
{
    (void)state;
    hold_idle(CONNECTIONS, IDLE_STRANGERS, "join_token=" IDLE_TOKEN);
}

static void strangers_beyond_the_limit_give_way(void **state)
{
    (void)state;
    hold_idle(CONNECTIONS, IDLE_STRANGERS,
              "max_connections=1000 join_token=" IDLE_TOKEN);
}

static void thousands_of_tools_do_no_harm(void **state)
{
    (void)state;
    hold_idle(CONNECTIONS, IDLE_TOOLS, "join_token=" IDLE_TOKEN);
}

static void nobody_is_called_silent_under_load(void **state)
{
    (void)state;
    run_under_load(LOAD_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thousands_of_strangers_do_no_harm),
        cmocka_unit_test(strangers_beyond_the_limit_give_way),
        cmocka_unit_test(thousands_of_tools_do_no_harm),
        cmocka_unit_test(nobody_is_called_silent_under_load),
    };

    be_quiet();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
