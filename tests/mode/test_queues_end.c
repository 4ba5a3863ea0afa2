/* test_queues_end.c - bounded queues that are drained, closed or given up. */
#include "queues_kit.h"

/* --- draining ------------------------------------------------------------- */

typedef struct drainer {
    shop *shop;
    fl_err err;
    atomic_bool is_over;
} drainer;

static void drain(void *arg)
{
    drainer *d = arg;

    fl_err_save(&d->err, fl_queues_drain(d->shop->q));
    d->is_over = true;
}

static void wait_for_end(const drainer *d)
{
    uint64_t deadline = fl_now_ns() + KIT_HANGS_NS;

    while (!d->is_over && fl_now_ns() < deadline)
        sched_yield();
    assert_true(d->is_over);
}

/* What comes later is nothing to it: others go on, and there is always some. */
static void draining_waits_for_what_was_there_alone(void **state)
{
    item under_way = { 0 }, lingers = { 0 }, later = { 0 };
    fl_thread *thread;
    drainer d;
    sleeper sl;
    shop s;

    (void)state;
    sleeper_init(&sl);
    shop_open(&s, (fl_queues_config){ .capacity = 4,
                                      .max_take = 2,
                                      .linger_ns = FOR_EVER,
                                      .n_threads = 1 });
    d = (drainer){ .shop = &s };
    s.is_slow[0] = true;
    assert_ok(put(&s, 0, &under_way, &sl));
    fl_queues_release(s.q);
    assert_ok(put(&s, 1, &lingers, &sl));
    assert_int_equal(n_sent(&s), 1);
    assert_ok(fl_thread_start(&thread, "drainer", drain, &d));
    wait_for_sent(&s, 2); /* nothing lingers now */
    assert_false(d.is_over);
    assert_ok(put(&s, 0, &later, &sl));
    fl_queues_done(s.q, 0, 1, FL_OK);
    wait_for_sent(&s, 3);
    wait_for_end(&d);
    fl_thread_join(thread);
    assert_int_equal(d.err.status, FL_OK);
    fl_queues_done(s.q, 0, 1, FL_OK);
    assert_ok(fl_queues_close(s.q));
    shop_free(&s);
    sleeper_release(&sl);
}

/* What is dropped is over, what is under way is not. */
static void draining_ends_with_the_error(void **state)
{
    item it[3] = { 0 };
    fl_thread *thread;
    drainer d;
    sleeper sl;
    shop s;

    (void)state;
    sleeper_init(&sl);
    shop_open(
        &s, (fl_queues_config){ .capacity = 4, .max_take = 1, .n_threads = 1 });
    d = (drainer){ .shop = &s };
    s.is_slow[0] = true;
    for (size_t i = 0; i < FL_LEN(it); i++)
        assert_ok(put(&s, 0, &it[i], &sl));
    assert_ok(fl_thread_start(&thread, "drainer", drain, &d));
    fl_queues_fail(s.q, fl_err_set(FL_ERR_IO, "the bridge is out"));
    assert_false(d.is_over);
    fl_queues_done(s.q, 0, 1, FL_OK);
    wait_for_end(&d);
    fl_thread_join(thread);
    assert_int_equal(fl_err_restore(&d.err), FL_ERR_IO);
    assert_says("the bridge is out");
    assert_int_equal(s.n_dropped, 2);
    assert_int_equal(fl_queues_close(s.q), FL_ERR_IO);
    shop_free(&s);
    sleeper_release(&sl);
}

/* --- the end -------------------------------------------------------------- */

static void closing_waits_for_everything_without_lingering(void **state)
{
    item it[4] = { 0 };
    sleeper sl;
    shop s;

    (void)state;
    sleeper_init(&sl);
    shop_open(&s, (fl_queues_config){ .capacity = 4,
                                      .max_take = 3,
                                      .linger_ns = FOR_EVER,
                                      .n_threads = 2 });
    assert_ok(put(&s, 0, &it[0], &sl));
    assert_ok(put(&s, 1, &it[1], &sl));
    assert_ok(put(&s, 1, &it[2], &sl));
    assert_int_equal(n_sent(&s), 0);
    assert_ok(fl_queues_close(s.q));
    assert_int_equal(n_sent(&s), 2);
    assert_int_equal(put(&s, 0, &it[3], &sl), FL_ERR_CLOSED);
    assert_says("no gradients are taken any more");
    assert_ok(fl_queues_close(s.q));
    shop_free(&s);
    sleeper_release(&sl);
}

static void closing_without_anything_put_is_fine(void **state)
{
    shop s;

    (void)state;
    shop_open(
        &s, (fl_queues_config){ .capacity = 1, .max_take = 1, .n_threads = 1 });
    assert_ok(fl_queues_close(s.q));
    fl_queues_cancel(s.q);
    shop_free(&s);
}

static void an_error_is_given_to_everybody_from_then_on(void **state)
{
    item it[6] = { 0 };
    sleeper sl;
    shop s;

    (void)state;
    sleeper_init(&sl);
    shop_open(
        &s, (fl_queues_config){ .capacity = 2, .max_take = 1, .n_threads = 2 });
    s.is_slow[0] = true;
    s.is_broken[1] = true;
    assert_ok(put(&s, 0, &it[0], &sl));
    wait_for_sent(&s, 1);
    assert_ok(put(&s, 0, &it[1], &sl));
    assert_ok(put(&s, 0, &it[2], &sl));
    assert_int_equal(put(&s, 0, &it[3], &sl), FL_PENDING);
    assert_ok(put(&s, 1, &it[4], &sl));
    assert_int_equal(sleeper_result(&sl, &it[3].answer, FL_PENDING), FL_ERR_IO);
    assert_says("the van broke");
    assert_int_equal(put(&s, 2, &it[5], &sl), FL_ERR_IO);
    fl_queues_done(s.q, 0, 1, FL_OK);
    assert_int_equal(fl_queues_close(s.q), FL_ERR_IO);
    assert_says("the van broke");
    assert_int_equal(s.n_dropped, 3);
    assert_int_equal(s.log.len, 2);
    shop_free(&s);
    sleeper_release(&sl);
}

static void giving_up_waits_for_nothing_and_answers_all(void **state)
{
    item it[4] = { 0 };
    sleeper sl;
    shop s;

    (void)state;
    sleeper_init(&sl);
    shop_open(
        &s, (fl_queues_config){ .capacity = 1, .max_take = 1, .n_threads = 2 });
    s.is_slow[0] = true;
    assert_ok(put(&s, 0, &it[0], &sl));
    wait_for_sent(&s, 1);
    assert_ok(put(&s, 0, &it[1], &sl));
    assert_int_equal(put(&s, 0, &it[2], &sl), FL_PENDING);
    fl_queues_cancel(s.q);
    assert_int_equal(sleeper_result(&sl, &it[2].answer, FL_PENDING),
                     FL_ERR_CLOSED);
    assert_int_equal(s.n_dropped, 2);
    fl_queues_done(s.q, 0, 1, FL_OK);
    shop_free(&s);
    sleeper_release(&sl);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draining_waits_for_what_was_there_alone),
        cmocka_unit_test(draining_ends_with_the_error),
        cmocka_unit_test(closing_waits_for_everything_without_lingering),
        cmocka_unit_test(closing_without_anything_put_is_fine),
        cmocka_unit_test(an_error_is_given_to_everybody_from_then_on),
        cmocka_unit_test(giving_up_waits_for_nothing_and_answers_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
