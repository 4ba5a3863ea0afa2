/* test_pace.c - when the threads of a save may go on. Nobody waits here, and no
 * clock is looked at: the decision is asked for at times of the test's own. */
#include "kit.h"

#include "ckpt/pace.h"

#define MS UINT64_C(1000000)
#define S (1000 * MS)
#define NOW (1000 * S)

static uint64_t work;

static uint64_t work_so_far(void *arg)
{
    (void)arg;
    return work;
}

/* An eighth of a core, beside whoever works. */
static fl_pace beside_others(void)
{
    fl_pace p;

    fl_pace_init(&p, &(fl_pace_limits){ .cores = 0.125, .work = work_so_far });
    fl_pace_begin(&p, FL_PACE_PATIENT);
    return p;
}

/* Until when a thread waits that took so much CPU time; from now. */
static uint64_t wait_for_cpu(fl_pace *p, uint64_t cpu_ns, uint64_t now)
{
    uint64_t due = fl_pace_due(p, (fl_pace_use){ .cpu_ns = cpu_ns }, now);

    return due ? due - now : 0;
}

/* Others go on working meanwhile. */
static uint64_t wait_beside(fl_pace *p, uint64_t cpu_ns, uint64_t now)
{
    work++;
    return wait_for_cpu(p, cpu_ns, now);
}

static void no_limit_is_no_wait(void **state)
{
    fl_pace p;

    (void)state;
    fl_pace_init(&p, &(fl_pace_limits){ .work = work_so_far });
    fl_pace_begin(&p, FL_PACE_PATIENT);
    work++;
    assert_int_equal(fl_pace_due(&p, (fl_pace_use){ S, S }, NOW), 0);
    fl_pace_release(&p);
}

static void each_byte_has_its_time(void **state)
{
    fl_pace p;

    (void)state;
    fl_pace_init(&p, &(fl_pace_limits){ .bytes_per_s = 1000 });
    for (uint64_t i = 1; i <= 4; i++)
        assert_int_equal(fl_pace_due(&p, (fl_pace_use){ .bytes = 5000 }, NOW),
                         NOW + i * 5 * S);
    /* Whoever was late by then does not catch up. */
    assert_int_equal(
        fl_pace_due(&p, (fl_pace_use){ .bytes = 5000 }, NOW + 100 * S),
        NOW + 105 * S);
    fl_pace_release(&p);
}

static void a_save_that_nobody_works_beside_does_not_wait(void **state)
{
    fl_pace p;

    (void)state;
    work = 7; /* before it began */
    p = beside_others();
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(wait_for_cpu(&p, 10 * S, NOW + i), 0);
    fl_pace_release(&p);
}

static void beside_work_cpu_time_is_stretched_to_its_share(void **state)
{
    uint64_t now = NOW, wait;
    fl_pace p = beside_others();

    (void)state;
    assert_int_equal(wait_beside(&p, FL_PACE_BURST_NS, now), 0);
    for (int i = 0; i < 10; i++) {
        wait = wait_beside(&p, 4 * MS, now);
        assert_int_equal(wait, 32 * MS);
        now += wait;
    }
    fl_pace_release(&p);
}

/* One every second that takes no more than the share. */
static void a_small_save_does_not_wait(void **state)
{
    fl_pace p = beside_others();

    (void)state;
    for (uint64_t i = 0; i < 100; i++) {
        fl_pace_begin(&p, FL_PACE_PATIENT);
        assert_int_equal(wait_beside(&p, FL_PACE_BURST_NS / 5 * 3, NOW + i * S),
                         0);
        assert_int_equal(wait_beside(&p, FL_PACE_BURST_NS / 5 * 2, NOW + i * S),
                         0);
    }
    fl_pace_release(&p);
}

static void an_urgent_save_takes_the_cores_it_gets(void **state)
{
    fl_pace p = beside_others();

    (void)state;
    fl_pace_begin(&p, FL_PACE_URGENT);
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(wait_beside(&p, S, NOW + i), 0);
    /* Which are not taken from the next one. */
    fl_pace_begin(&p, FL_PACE_PATIENT);
    assert_int_equal(wait_beside(&p, FL_PACE_BURST_NS, NOW + S), 0);
    assert_int_equal(wait_beside(&p, MS, NOW + S), 8 * MS);
    fl_pace_release(&p);
}

static void unused_time_is_kept_up_to_the_burst(void **state)
{
    fl_pace p = beside_others();

    (void)state;
    assert_int_equal(wait_beside(&p, FL_PACE_BURST_NS, NOW), 0);
    assert_int_equal(wait_beside(&p, FL_PACE_BURST_NS + 5 * MS, NOW + 3600 * S),
                     40 * MS);
    fl_pace_release(&p);
}

static void when_others_have_stopped_nobody_waits(void **state)
{
    fl_pace p = beside_others();
    uint64_t now = NOW;

    (void)state;
    assert_true(wait_beside(&p, S, now) > FL_PACE_QUIET_NS);
    assert_true(wait_for_cpu(&p, 0, now + FL_PACE_QUIET_NS / 2) > 0);
    assert_int_equal(wait_for_cpu(&p, S, now + FL_PACE_QUIET_NS), 0);
    /* They go on. */
    now += FL_PACE_QUIET_NS;
    assert_true(wait_beside(&p, 0, now) > 0);
    fl_pace_release(&p);
}

static void the_slower_limit_counts(void **state)
{
    fl_pace p = beside_others();

    (void)state;
    p.limits.bytes_per_s = 1000;
    work++;
    assert_int_equal(
        fl_pace_due(&p, (fl_pace_use){ .bytes = 1000, .cpu_ns = MS }, NOW),
        NOW + S);
    assert_int_equal(
        fl_pace_due(&p, (fl_pace_use){ .cpu_ns = FL_PACE_BURST_NS + S }, NOW),
        NOW + 8 * S + 8 * MS);
    fl_pace_release(&p);
}

static void wait_for_a_day(void *pace)
{
    fl_pace_wait(pace, (fl_pace_use){ .bytes = 86400 });
}

static void a_pace_that_is_stopped_holds_up_nobody(void **state)
{
    fl_thread *thread;
    fl_pace p;

    (void)state;
    fl_pace_wait(NULL, (fl_pace_use){ 1, 1 });
    fl_pace_init(&p, &(fl_pace_limits){ .bytes_per_s = 1 });
    assert_ok(fl_thread_start(&thread, "pace", wait_for_a_day, &p));
    fl_pace_stop(&p);
    fl_thread_join(thread);
    fl_pace_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_limit_is_no_wait),
        cmocka_unit_test(each_byte_has_its_time),
        cmocka_unit_test(a_save_that_nobody_works_beside_does_not_wait),
        cmocka_unit_test(beside_work_cpu_time_is_stretched_to_its_share),
        cmocka_unit_test(a_small_save_does_not_wait),
        cmocka_unit_test(an_urgent_save_takes_the_cores_it_gets),
        cmocka_unit_test(unused_time_is_kept_up_to_the_burst),
        cmocka_unit_test(when_others_have_stopped_nobody_waits),
        cmocka_unit_test(the_slower_limit_counts),
        cmocka_unit_test(a_pace_that_is_stopped_holds_up_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
