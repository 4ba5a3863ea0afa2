/* test_team.c - every member once per run, and errors across the join. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/team.h"
#include "base/thread.h"

#define MEMBERS 5

typedef struct tally {
    int calls[MEMBERS];
    pthread_t who[MEMBERS];
    unsigned failing; /* bit i: member i fails */
} tally;

static fl_status count(void *arg, int i)
{
    tally *t = arg;

    t->calls[i]++;
    t->who[i] = pthread_self();
    if (t->failing >> i & 1)
        FL_FAIL(FL_ERR_NUMERIC, "member %d found a NaN", i);
    return FL_OK;
}

static void every_member_runs_once_per_run(void **state)
{
    (void)state;
    for (int n = 1; n <= MEMBERS; n++) {
        tally y = { .failing = 0 };
        fl_team *t = NULL;

        assert_int_equal(fl_team_new(&t, n, "crew"), FL_OK);
        assert_int_equal(fl_team_size(t), n);
        for (int run = 1; run <= 300; run++) {
            assert_int_equal(fl_team_run(t, count, &y), FL_OK);
            for (int i = 0; i < n; i++)
                assert_int_equal(y.calls[i], run);
        }
        for (int i = n; i < MEMBERS; i++)
            assert_int_equal(y.calls[i], 0);
        fl_team_free(t);
    }
}

static void members_have_threads_of_their_own(void **state)
{
    tally y = { .failing = 0 };
    fl_team *t = NULL;

    (void)state;
    assert_int_equal(fl_team_new(&t, MEMBERS, "crew"), FL_OK);
    assert_int_equal(fl_team_run(t, count, &y), FL_OK);
    assert_true(pthread_equal(y.who[0], pthread_self()));
    for (int i = 0; i < MEMBERS; i++) {
        for (int j = 0; j < i; j++)
            assert_false(pthread_equal(y.who[i], y.who[j]));
    }
    fl_team_free(t);
}

typedef struct meeting {
    fl_mutex mu;
    fl_cond arrived;
    int here; /* guarded by mu */
} meeting;

/* Returns only when all members are inside at the same time. */
static fl_status meet(void *arg, int i)
{
    const uint64_t deadline = fl_now_ns() + 60000000000u;
    meeting *m = arg;
    bool in_time = true;

    (void)i;
    fl_lock(&m->mu);
    m->here++;
    fl_cond_wake_all(&m->arrived);
    while (m->here < MEMBERS && in_time)
        in_time = fl_cond_wait_until(&m->arrived, &m->mu, deadline);
    fl_unlock(&m->mu);
    return in_time ? FL_OK : fl_err_set(FL_ERR_TIMEOUT, "met nobody");
}

static void members_run_at_the_same_time(void **state)
{
    meeting m = { .here = 0 };
    fl_team *t = NULL;

    (void)state;
    fl_mutex_init(&m.mu);
    fl_cond_init(&m.arrived);
    assert_int_equal(fl_team_new(&t, MEMBERS, "crew"), FL_OK);
    assert_int_equal(fl_team_run(t, meet, &m), FL_OK);
    fl_team_free(t);
    fl_cond_release(&m.arrived);
    fl_mutex_release(&m.mu);
}

static void an_error_crosses_the_join(void **state)
{
    tally y = { .failing = 1 << 3 };
    fl_team *t = NULL;

    (void)state;
    assert_int_equal(fl_team_new(&t, MEMBERS, "crew"), FL_OK);
    fl_err_set(FL_ERR_IO, "older");
    assert_int_equal(fl_team_run(t, count, &y), FL_ERR_NUMERIC);
    assert_string_equal(fl_last_error(), "member 3 found a NaN");
    for (int i = 0; i < MEMBERS; i++)
        assert_int_equal(y.calls[i], 1);
    fl_team_free(t);
}

static void the_lowest_failing_member_speaks(void **state)
{
    fl_team *t = NULL;

    (void)state;
    assert_int_equal(fl_team_new(&t, MEMBERS, "crew"), FL_OK);
    for (unsigned mask = 1; mask < 1u << MEMBERS; mask++) {
        tally y = { .failing = mask };
        char expected[64];

        snprintf(expected, sizeof(expected), "member %d found a NaN",
                 __builtin_ctz(mask));
        assert_int_equal(fl_team_run(t, count, &y), FL_ERR_NUMERIC);
        assert_string_equal(fl_last_error(), expected);
    }
    fl_team_free(t);
}

static void an_error_does_not_outlive_its_run(void **state)
{
    tally y = { .failing = 1 << 2 };
    fl_team *t = NULL;

    (void)state;
    assert_int_equal(fl_team_new(&t, MEMBERS, "crew"), FL_OK);
    assert_int_equal(fl_team_run(t, count, &y), FL_ERR_NUMERIC);
    y.failing = 0;
    assert_int_equal(fl_team_run(t, count, &y), FL_OK);
    fl_team_free(t);
}

static void a_team_of_one_returns_its_own_error(void **state)
{
    tally y = { .failing = 1 };
    fl_team *t = NULL;

    (void)state;
    assert_int_equal(fl_team_new(&t, 1, "alone"), FL_OK);
    assert_int_equal(fl_team_run(t, count, &y), FL_ERR_NUMERIC);
    assert_string_equal(fl_last_error(), "member 0 found a NaN");
    assert_true(pthread_equal(y.who[0], pthread_self()));
    fl_team_free(t);
}

static void a_size_out_of_range_is_refused(void **state)
{
    fl_team *t = (fl_team *)state;

    assert_int_equal(fl_team_new(&t, 0, "crew"), FL_ERR_INVAL);
    assert_int_equal(fl_team_new(&t, -3, "crew"), FL_ERR_INVAL);
    assert_non_null(strstr(fl_last_error(), "team crew: -3 threads"));
    assert_int_equal(fl_team_new(&t, 1 << 30, "crew"), FL_ERR_INVAL);
    assert_ptr_equal(t, state);
}

static void a_team_that_never_ran_can_be_freed(void **state)
{
    fl_team *t = NULL;

    (void)state;
    for (int i = 0; i < 50; i++) {
        assert_int_equal(fl_team_new(&t, 3, "idle"), FL_OK);
        fl_team_free(t);
    }
    fl_team_free(NULL);
}

static fl_status add_one(void *arg, int i)
{
    (void)i;
    atomic_fetch_add_explicit((atomic_int *)arg, 1, memory_order_relaxed);
    return FL_OK;
}

/* Some runs follow at once and are met spinning, others find sleepers. */
static void spinning_and_sleeping_members_are_both_reached(void **state)
{
    atomic_int sum = 0;
    fl_team *t = NULL;
    int runs = 0;

    (void)state;
    assert_int_equal(fl_team_new(&t, 2, "pair"), FL_OK);
    for (int burst = 0; burst < 40; burst++) {
        uint64_t until = fl_now_ns() + 100000;

        for (int i = 0; i < 100; i++, runs++)
            assert_int_equal(fl_team_run(t, add_one, &sum), FL_OK);
        while (fl_now_ns() < until)
            ;
    }
    assert_int_equal(atomic_load(&sum), 2 * runs);
    fl_team_free(t);
}

typedef struct places {
    cpu_set_t only; /* where everybody has to go */
    int core[2];
} places;

static fl_status crowd(void *arg, int i)
{
    places *p = arg;

    if (sched_setaffinity(0, sizeof(p->only), &p->only) != 0)
        FL_FAIL(FL_ERR_IO, "member %d cannot move", i);
    return FL_OK;
}

static fl_status tell_core(void *arg, int i)
{
    places *p = arg;

    p->core[i] = sched_getcpu();
    return FL_OK;
}

static void a_member_leaves_the_core_of_the_caller(void **state)
{
    fl_team *t = NULL;
    cpu_set_t all;
    places p;

    (void)state;
    if (fl_cpu_count() < 2)
        skip();
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&p.only);
    CPU_SET((size_t)sched_getcpu(), &p.only);
    assert_int_equal(fl_team_new(&t, 2, "pair"), FL_OK);
    assert_int_equal(fl_team_run(t, crowd, &p), FL_OK);
    assert_int_equal(fl_team_run(t, tell_core, &p), FL_OK);
    fl_team_free(t);
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
    assert_true(CPU_ISSET((size_t)p.core[0], &p.only));
    assert_int_not_equal(p.core[0], p.core[1]);
}

static void without_a_core_for_each_nobody_moves(void **state)
{
    fl_team *t = NULL;
    cpu_set_t all;
    places p;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&p.only);
    CPU_SET((size_t)sched_getcpu(), &p.only);
    assert_int_equal(sched_setaffinity(0, sizeof(p.only), &p.only), 0);
    assert_int_equal(fl_team_new(&t, 2, "pair"), FL_OK);
    assert_int_equal(fl_team_run(t, crowd, &p), FL_OK);
    assert_int_equal(fl_team_run(t, tell_core, &p), FL_OK);
    fl_team_free(t);
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
    assert_int_equal(p.core[0], p.core[1]);
}

/* Two teams at once, each from its own thread: no state is shared. */
static void use_a_team(void *arg)
{
    fl_team *t = NULL;
    fl_err *out = arg;
    tally y = { .failing = 1 << 1 };
    fl_status st;

    st = fl_team_new(&t, 3, "side");
    for (int i = 0; i < 200 && (st == FL_OK || st == FL_ERR_NUMERIC); i++)
        st = fl_team_run(t, count, &y);
    fl_err_save(out, st);
    fl_team_free(t);
}

static void two_teams_do_not_know_each_other(void **state)
{
    fl_thread *t = NULL;
    fl_err a, b;

    (void)state;
    assert_int_equal(fl_thread_start(&t, "side", use_a_team, &a), FL_OK);
    use_a_team(&b);
    fl_thread_join(t);
    assert_int_equal(a.status, FL_ERR_NUMERIC);
    assert_string_equal(a.text, "member 1 found a NaN");
    assert_string_equal(b.text, "member 1 found a NaN");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_member_runs_once_per_run),
        cmocka_unit_test(members_have_threads_of_their_own),
        cmocka_unit_test(members_run_at_the_same_time),
        cmocka_unit_test(an_error_crosses_the_join),
        cmocka_unit_test(the_lowest_failing_member_speaks),
        cmocka_unit_test(an_error_does_not_outlive_its_run),
        cmocka_unit_test(a_team_of_one_returns_its_own_error),
        cmocka_unit_test(a_size_out_of_range_is_refused),
        cmocka_unit_test(a_team_that_never_ran_can_be_freed),
        cmocka_unit_test(spinning_and_sleeping_members_are_both_reached),
        cmocka_unit_test(a_member_leaves_the_core_of_the_caller),
        cmocka_unit_test(without_a_core_for_each_nobody_moves),
        cmocka_unit_test(two_teams_do_not_know_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
