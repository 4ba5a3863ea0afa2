/* test_interrupt.c - work that somebody else ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/interrupt.h"

typedef struct job {
    fl_interruptible me;
    int n_stopped;
} job;

static void stop(void *arg)
{
    ((job *)arg)->n_stopped++;
}

static void enter(job *j, fl_interrupt_kind kind)
{
    *j = (job){ .me = { .kind = kind, .stop = stop, .arg = j } };
    fl_interruptible_enter(&j->me);
}

static void what_ends_soon_is_stopped_by_both_kinds(void **state)
{
    job soon, now;

    (void)state;
    enter(&soon, FL_INTERRUPT_SOON);
    enter(&now, FL_INTERRUPT_NOW);
    fl_interrupt(FL_INTERRUPT_SOON);
    assert_int_equal(soon.n_stopped, 1);
    assert_int_equal(now.n_stopped, 0);
    fl_interrupt(FL_INTERRUPT_NOW);
    assert_int_equal(soon.n_stopped, 2);
    assert_int_equal(now.n_stopped, 1);
    fl_interruptible_leave(&soon.me);
    fl_interruptible_leave(&now.me);
}

static void who_has_left_is_left_alone(void **state)
{
    job a, b, c;

    (void)state;
    enter(&a, FL_INTERRUPT_SOON);
    enter(&b, FL_INTERRUPT_SOON);
    enter(&c, FL_INTERRUPT_SOON);
    fl_interruptible_leave(&b.me);
    fl_interrupt(FL_INTERRUPT_SOON);
    fl_interruptible_leave(&c.me);
    fl_interruptible_leave(&a.me);
    fl_interrupt(FL_INTERRUPT_NOW);
    assert_int_equal(a.n_stopped, 1);
    assert_int_equal(b.n_stopped, 0);
    assert_int_equal(c.n_stopped, 1);
}

static void what_was_stopped_is_named(void **state)
{
    (void)state;
    assert_int_equal(fl_interrupted("loading"), FL_ERR_CLOSED);
    assert_string_equal(fl_last_error(), "loading was interrupted");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_ends_soon_is_stopped_by_both_kinds),
        cmocka_unit_test(who_has_left_is_left_alone),
        cmocka_unit_test(what_was_stopped_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
