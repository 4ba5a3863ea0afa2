/* test_launch_status.c - one line out of the page of `flotilla status`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "fleetrun_watch.h"

#define TITLES                                                                 \
    "member     address         process  phase  state        incarnation  "    \
    "step  samples  samples/s    loss     AUC  reported   waits for\n"

static void expect(const char *page, const char *line)
{
    char out[256];

    status_line(page, out, sizeof(out));
    assert_string_equal(out, line);
}

static void rates_add_up_and_the_slowest_is_named(void **state)
{
    (void)state;
    expect(TITLES
           "trainer 0  127.0.0.1:4321       77  train  up                     1"
           "   120    40000      12000    0.45    0.78  0.2 s ago  -\n"
           "trainer 1  127.0.0.1:4322       78  train  up                     1"
           "   119    20000       3500    0.47     0.8  0.1 s ago  -\n"
           "server 0   127.0.0.1:6170       70  -      up                     1"
           "     -        -          -       -       -  -          -\n"
           "\nthe job began 3 min 5 s ago and is at step 120\n",
           "train, 15.5k samples/s, loss 0.4600, AUC 0.7900, slowest is worker "
           "1 (3.5k/s)");
}

static void what_is_not_known_is_left_out(void **state)
{
    (void)state;
    expect(TITLES
           "trainer 0  127.0.0.1:4321       77  train  up                     1"
           "   120      400          -     nan       -  0.2 s ago  -\n"
           "\nthe job began 5 s ago and is at step 120\n",
           "train");
    expect(TITLES
           "trainer 0  127.0.0.1:4321       77  -      up                     1"
           "     0        -          -       -       -  -          -\n"
           "\nthe job began 5 s ago and is at step 0\n",
           "");
}

static void who_is_waited_for_and_who_is_silent_is_told(void **state)
{
    (void)state;
    expect(TITLES
           "trainer 0  127.0.0.1:4321       77  train  up                     1"
           "   120    40000        400       -       -  0.2 s ago  trainer 1\n"
           "trainer 1  127.0.0.1:4322       78  train  silent 4.2 s           1"
           "   119    20000        300       -       -  4.3 s ago  -\n"
           "trainer 2  127.0.0.1:4323       79  train  left                   1"
           "   119    20000        100       -       -  9.3 s ago  -\n"
           "\nthe job began 3 min 5 s ago and is at step 120\n",
           "train, 700 samples/s, slowest is worker 1 (300/s), waiting for "
           "worker 1, worker 1 is silent 4.2 s");
}

static void a_job_that_waits_or_is_over_says_so(void **state)
{
    (void)state;
    expect(TITLES "trainer 0  -  -  -  not here yet  -  -  -  -  -  -  -  -\n"
                  "\nthe job waits for trainer 0 (1 of 2 members are here)\n"
                  "the job began 1 s ago and is at step 0\n",
           "the job waits for trainer 0 (1 of 2 members are here)");
}

static void a_page_of_another_kind_gives_nothing(void **state)
{
    (void)state;
    expect("", "");
    expect("hello\nworld", "");
    expect(TITLES, "");
    expect("member  phase\ntrainer 0  train\n", "");
}

static void a_long_page_is_cut(void **state)
{
    char page[2048] = { 0 }, out[16];

    (void)state;
    (void)snprintf(page, sizeof(page), "%sthe job waits for ", TITLES);
    memset(page + strlen(page), 'x', 500);
    status_line(page, out, sizeof(out));
    assert_int_equal(strlen(out), sizeof(out) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_add_up_and_the_slowest_is_named),
        cmocka_unit_test(what_is_not_known_is_left_out),
        cmocka_unit_test(who_is_waited_for_and_who_is_silent_is_told),
        cmocka_unit_test(a_job_that_waits_or_is_over_says_so),
        cmocka_unit_test(a_page_of_another_kind_gives_nothing),
        cmocka_unit_test(a_long_page_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
