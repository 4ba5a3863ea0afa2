/* test_comm.c - what every backend of the port to tables shares. */
#include "kit.h"

#include "ir/comm.h"

static int wakes;

static void count_wake(fl_waker *w)
{
    (void)w;
    wakes++;
}

static void finishing_wakes_and_carries_the_error(void **state)
{
    fl_waker waker = { .wake = count_wake };
    fl_comm_request r = { .answer = { .waker = &waker } };

    (void)state;
    wakes = 0;
    fl_comm_finish(&r.answer, fl_err_set(FL_ERR_IO, "the wire is cut"));
    assert_true(atomic_load(&r.answer.finished));
    assert_int_equal(wakes, 1);
    assert_int_equal(fl_err_restore(&r.answer.error), FL_ERR_IO);
    expect_said("the wire is cut");
}

static void finishing_well_carries_none(void **state)
{
    fl_waker waker = { .wake = count_wake };
    fl_comm_request r = { .answer = { .waker = &waker } };

    (void)state;
    wakes = 0;
    (void)fl_err_set(FL_ERR_IO, "of something else");
    fl_comm_finish(&r.answer, FL_OK);
    assert_true(atomic_load(&r.answer.finished));
    assert_int_equal(wakes, 1);
    assert_int_equal(r.answer.error.status, FL_OK);
}

static int freed;

static void count_free(fl_comm *c)
{
    (void)c;
    freed++;
}

static void freeing_is_the_backend_s_own(void **state)
{
    static const fl_comm_life life = { .free = count_free };
    fl_comm c = { .name = "mine", .life = &life };

    (void)state;
    freed = 0;
    fl_comm_free(&c);
    assert_int_equal(freed, 1);
    fl_comm_free(NULL);
    assert_int_equal(freed, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finishing_wakes_and_carries_the_error),
        cmocka_unit_test(finishing_well_carries_none),
        cmocka_unit_test(freeing_is_the_backend_s_own),
    };

    return cmocka_run_group_tests_name("comm", tests, NULL, NULL);
}
