/* test_queues.c - bounded queues: who waits for room, what goes together, and by
 * whom. */
#include "queues_kit.h"

/* --- room ----------------------------------------------------------------- */

static void a_full_queue_makes_its_owners_wait_in_turn(void **state)
{
    item it[6] = { 0 };
    sleeper sl;
    shop s;

    (void)state;
    sleeper_init(&sl);
    shop_open(
        &s, (fl_queues_config){ .capacity = 2, .max_take = 1, .n_threads = 2 });
    s.is_slow[0] = true;
    assert_ok(put(&s, 0, &it[0], &sl));
    wait_for_sent(&s, 1);
    assert_ok(put(&s, 0, &it[1], &sl));
    assert_ok(put(&s, 0, &it[2], &sl));
    assert_int_equal(put(&s, 0, &it[3], &sl), FL_PENDING);
    assert_int_equal(put(&s, 0, &it[4], &sl), FL_PENDING);
    assert_false(is_answered(&it[3]));
    fl_queues_done(s.q, 0, 1, FL_OK);
    assert_ok(sleeper_result(&sl, &it[3].answer, FL_PENDING));
    assert_false(is_answered(&it[4]));
    wait_for_sent(&s, 2);
    fl_queues_done(s.q, 0, 1, FL_OK);
    assert_ok(sleeper_result(&sl, &it[4].answer, FL_PENDING));
    wait_for_sent(&s, 3);
    s.is_slow[0] = false;
    fl_queues_done(s.q, 0, 1, FL_OK);
    assert_ok(fl_queues_close(s.q));
    assert_int_equal(n_sent(&s), 5);
    assert_true(s.wait_ns > 0);
    shop_free(&s);
    sleeper_release(&sl);
}

static void a_slow_queue_delays_no_other(void **state)
{
    item slow = { 0 }, quick[20] = { 0 };
    sleeper sl;
    shop s;

    (void)state;
    sleeper_init(&sl);
    shop_open(
        &s, (fl_queues_config){ .capacity = 1, .max_take = 1, .n_threads = 1 });
    s.is_slow[0] = true;
    assert_ok(put(&s, 0, &slow, &sl));
    for (size_t i = 0; i < FL_LEN(quick); i++)
        assert_ok(sleeper_result(&sl, &quick[i].answer,
                                 put(&s, 1 + i % 2, &quick[i], &sl)));
    wait_for_sent(&s, 1 + FL_LEN(quick));
    fl_queues_done(s.q, 0, 1, FL_OK);
    assert_ok(fl_queues_close(s.q));
    shop_free(&s);
    sleeper_release(&sl);
}

/* --- merging -------------------------------------------------------------- */

static void a_full_merge_goes_at_once(void **state)
{
    item it[5] = { 0 };
    sleeper sl;
    shop s;

    (void)state;
    sleeper_init(&sl);
    shop_open(&s, (fl_queues_config){ .capacity = 9,
                                      .max_take = 3,
                                      .linger_ns = FOR_EVER,
                                      .n_threads = 2 });
    for (int i = 0; i < 5; i++) {
        it[i].number = i;
        assert_ok(put(&s, 0, &it[i], &sl));
    }
    wait_for_sent(&s, 1);
    assert_int_equal(s.log.data[0].n, 3);
    assert_ok(fl_queues_close(s.q));
    assert_int_equal(s.log.len, 2);
    assert_int_equal(s.log.data[1].n, 2);
    for (int i = 0; i < 5; i++)
        assert_int_equal(s.log.data[i / 3].number[i % 3], i);
    shop_free(&s);
    sleeper_release(&sl);
}

static void a_short_merge_goes_when_its_time_is_up(void **state)
{
    item it[N_QUEUES] = { 0 };
    sleeper sl;
    shop s;

    (void)state;
    sleeper_init(&sl);
    shop_open(&s, (fl_queues_config){ .capacity = 9,
                                      .max_take = 3,
                                      .linger_ns = 1000000,
                                      .n_threads = 2 });
    for (size_t i = 0; i < N_QUEUES; i++)
        assert_ok(put(&s, i, &it[i], &sl));
    wait_for_sent(&s, N_QUEUES);
    for (size_t i = 0; i < N_QUEUES; i++)
        assert_int_equal(s.log.data[i].n, 1);
    assert_ok(fl_queues_close(s.q));
    shop_free(&s);
    sleeper_release(&sl);
}

/* More would not come in: whoever has some is kept out. */
static void a_queue_whose_owners_wait_does_not_linger(void **state)
{
    item it[2] = { 0 };
    sleeper sl;
    shop s;

    (void)state;
    sleeper_init(&sl);
    shop_open(&s, (fl_queues_config){ .capacity = 1,
                                      .max_take = 8,
                                      .linger_ns = FOR_EVER,
                                      .n_threads = 1 });
    assert_ok(put(&s, 2, &it[0], &sl));
    assert_ok(sleeper_result(&sl, &it[1].answer, put(&s, 2, &it[1], &sl)));
    wait_for_sent(&s, 1);
    assert_int_equal(s.log.data[0].n, 2);
    assert_ok(fl_queues_close(s.q));
    shop_free(&s);
    sleeper_release(&sl);
}

/* --- releasing ------------------------------------------------------------ */

/* By who releases it: there is no thread that could. */
static void what_is_released_goes_at_once(void **state)
{
    item it[4] = { 0 };
    sleeper sl;
    shop s;

    (void)state;
    sleeper_init(&sl);
    shop_open(&s, (fl_queues_config){ .capacity = 9,
                                      .max_take = 1,
                                      .max_under_way = 2,
                                      .enough = 9,
                                      .linger_ns = FOR_EVER,
                                      .n_threads = 0 });
    for (int i = 0; i < 3; i++) {
        it[i].number = i;
        assert_ok(put(&s, i == 1, &it[i], &sl));
    }
    assert_int_equal(n_sent(&s), 0);
    fl_queues_release(s.q);
    assert_int_equal(n_sent(&s), 3);
    assert_int_equal(s.log.data[0].number[0], 0);
    assert_int_equal(s.log.data[1].number[0], 2);
    assert_int_equal(s.log.data[2].number[0], 1);
    /* What comes behind it waits again. */
    assert_ok(put(&s, 0, &it[3], &sl));
    assert_int_equal(n_sent(&s), 3);
    fl_queues_release(s.q);
    fl_queues_release(s.q);
    assert_int_equal(n_sent(&s), 4);
    assert_ok(fl_queues_close(s.q));
    shop_free(&s);
    sleeper_release(&sl);
}

/* Released is released, also for what had to stay. */
static void no_more_is_under_way_than_may_be(void **state)
{
    item it[5] = { 0 };
    sleeper sl;
    shop s;

    (void)state;
    sleeper_init(&sl);
    shop_open(&s, (fl_queues_config){ .capacity = 9,
                                      .max_take = 1,
                                      .max_under_way = 2,
                                      .enough = 9,
                                      .linger_ns = FOR_EVER,
                                      .n_threads = 0 });
    s.is_slow[0] = true;
    for (int i = 0; i < 5; i++) {
        it[i].number = i;
        assert_ok(put(&s, 0, &it[i], &sl));
    }
    fl_queues_release(s.q);
    assert_int_equal(n_sent(&s), 2);
    for (size_t i = 2; i < 5; i++) {
        fl_queues_done(s.q, 0, 1, FL_OK);
        assert_int_equal(n_sent(&s), i + 1);
        assert_int_equal(s.log.data[i].number[0], i);
    }
    fl_queues_done(s.q, 0, 1, FL_OK);
    fl_queues_done(s.q, 0, 1, FL_OK);
    assert_ok(fl_queues_close(s.q));
    assert_int_equal(n_sent(&s), 5);
    shop_free(&s);
    sleeper_release(&sl);
}

/* By a thread, if nobody releases it. */
static void what_is_not_released_goes_when_its_time_is_up(void **state)
{
    item it = { 0 };
    sleeper sl;
    shop s;

    (void)state;
    sleeper_init(&sl);
    shop_open(&s, (fl_queues_config){ .capacity = 9,
                                      .max_take = 1,
                                      .enough = 9,
                                      .linger_ns = 1000000,
                                      .n_threads = 1 });
    assert_ok(put(&s, 0, &it, &sl));
    wait_for_sent(&s, 1);
    assert_ok(fl_queues_close(s.q));
    shop_free(&s);
    sleeper_release(&sl);
}

/* --- by whom -------------------------------------------------------------- */

/* What was sent as number i. */
static sent sent_as(shop *s, size_t i)
{
    sent e;

    wait_for_sent(s, i + 1);
    fl_lock(&s->mu);
    e = s->log.data[i];
    fl_unlock(&s->mu);
    return e;
}

static void what_goes_alone_is_worked_on_by_who_puts_it(void **state)
{
    item it[2 * N_QUEUES] = { 0 };
    sleeper sl;
    shop s;

    (void)state;
    sleeper_init(&sl);
    for (size_t max_take = 1; max_take <= 4; max_take += 3) {
        /* There is no thread that could do it. */
        shop_open(&s, (fl_queues_config){ .capacity = 1,
                                          .max_take = max_take,
                                          .n_threads = 0 });
        for (size_t i = 0; i < FL_LEN(it); i++) {
            it[i].number = (int)i;
            assert_ok(put(&s, i % N_QUEUES, &it[i], &sl));
            assert_int_equal(n_sent(&s), i + 1);
            assert_int_equal(sent_as(&s, i).n, 1);
            assert_int_equal(sent_as(&s, i).number[0], i);
            assert_ptr_equal(sent_as(&s, i).thread, &this_thread);
        }
        assert_ok(fl_queues_close(s.q));
        shop_free(&s);
    }
    sleeper_release(&sl);
}

/* Says that n entries of queue 0 are done, in a thread of its own. */
typedef struct teller {
    shop *shop;
    size_t n;
    const void *thread;
} teller;

static void tell(void *arg)
{
    teller *t = arg;

    t->thread = &this_thread;
    fl_queues_done(t->shop->q, 0, t->n, FL_OK);
}

static const void *say_done(shop *s, size_t n)
{
    teller t = { .shop = s, .n = n };
    fl_thread *thread;

    assert_ok(fl_thread_start(&thread, "teller", tell, &t));
    fl_thread_join(thread);
    return t.thread;
}

static void what_goes_alone_next_is_worked_on_by_who_says_done(void **state)
{
    item it[2] = { 0 };
    const void *by;
    sleeper sl;
    shop s;

    (void)state;
    sleeper_init(&sl);
    shop_open(
        &s, (fl_queues_config){ .capacity = 2, .max_take = 4, .n_threads = 0 });
    s.is_slow[0] = true;
    it[1].number = 1;
    assert_ok(put(&s, 0, &it[0], &sl));
    assert_ok(put(&s, 0, &it[1], &sl));
    assert_int_equal(n_sent(&s), 1); /* it waits for the one before it */
    by = say_done(&s, 1);
    assert_int_equal(n_sent(&s), 2);
    assert_int_equal(sent_as(&s, 1).number[0], 1);
    assert_ptr_equal(sent_as(&s, 1).thread, by);
    (void)say_done(&s, 1);
    assert_ok(fl_queues_close(s.q));
    assert_int_equal(n_sent(&s), 2);
    shop_free(&s);
    sleeper_release(&sl);
}

/* Also when there are many: nothing is merged. The owner that waits for room
   is told by the same thread. */
static void what_is_never_merged_is_worked_on_by_who_says_done(void **state)
{
    item it[4] = { 0 };
    sleeper sl;
    shop s;

    (void)state;
    sleeper_init(&sl);
    shop_open(
        &s, (fl_queues_config){ .capacity = 2, .max_take = 1, .n_threads = 0 });
    s.is_slow[0] = true;
    for (int i = 0; i < 4; i++) {
        it[i].number = i;
        assert_int_equal(put(&s, 0, &it[i], &sl), i < 3 ? FL_OK : FL_PENDING);
    }
    for (size_t i = 1; i < 4; i++) {
        const void *by = say_done(&s, 1);

        assert_int_equal(n_sent(&s), i + 1);
        assert_int_equal(sent_as(&s, i).n, 1);
        assert_int_equal(sent_as(&s, i).number[0], i);
        assert_ptr_equal(sent_as(&s, i).thread, by);
        assert_true(is_answered(&it[3]));
    }
    (void)say_done(&s, 1);
    assert_ok(fl_queues_close(s.q));
    shop_free(&s);
    sleeper_release(&sl);
}

static void what_is_merged_is_worked_on_by_the_threads(void **state)
{
    item it[4] = { 0 };
    const void *by;
    sleeper sl;
    shop s;

    (void)state;
    sleeper_init(&sl);
    shop_open(
        &s, (fl_queues_config){ .capacity = 4, .max_take = 4, .n_threads = 1 });
    s.is_slow[0] = true;
    for (int i = 0; i < 4; i++) {
        it[i].number = i;
        assert_ok(put(&s, 0, &it[i], &sl));
    }
    assert_int_equal(n_sent(&s), 1);
    by = say_done(&s, 1);
    assert_int_equal(sent_as(&s, 1).n, 3);
    assert_int_equal(sent_as(&s, 1).number[0], 1);
    assert_ptr_not_equal(sent_as(&s, 1).thread, by);
    assert_ptr_not_equal(sent_as(&s, 1).thread, &this_thread);
    s.is_slow[0] = false;
    (void)say_done(&s, 3);
    assert_ok(fl_queues_close(s.q));
    assert_int_equal(n_sent(&s), 2);
    shop_free(&s);
    sleeper_release(&sl);
}

/* What was begun may wait for that to leave. */
static void a_thread_that_has_worked_pauses_before_it_rests(void **state)
{
    uint64_t deadline = fl_now_ns() + KIT_HANGS_NS;
    item it[2] = { 0 };
    sleeper sl;
    shop s;

    (void)state;
    sleeper_init(&sl);
    shop_open(&s, (fl_queues_config){ .capacity = 2,
                                      .max_take = 2,
                                      .linger_ns = FOR_EVER,
                                      .n_threads = 1 });
    for (int i = 0; i < 2; i++)
        assert_ok(put(&s, 0, &it[i], &sl));
    fl_lock(&s.mu);
    while (!s.n_at_pause && fl_cond_wait_until(&s.cond, &s.mu, deadline))
        ;
    assert_int_equal(s.n_at_pause, 1);
    fl_unlock(&s.mu);
    assert_ok(fl_queues_close(s.q));
    shop_free(&s);
    sleeper_release(&sl);
}

static void what_lingers_is_worked_on_by_the_threads(void **state)
{
    static const uint64_t linger_ns[] = { 1000000, FOR_EVER };
    sleeper sl;
    shop s;

    (void)state;
    sleeper_init(&sl);
    /* One whose time is up, and two that are enough. */
    for (size_t n = 1; n <= 2; n++) {
        item it[2] = { 0 };

        shop_open(&s, (fl_queues_config){ .capacity = 4,
                                          .max_take = 2,
                                          .linger_ns = linger_ns[n - 1],
                                          .n_threads = 1 });
        for (size_t i = 0; i < n; i++)
            assert_ok(put(&s, 0, &it[i], &sl));
        assert_int_equal(sent_as(&s, 0).n, n);
        assert_ptr_not_equal(sent_as(&s, 0).thread, &this_thread);
        assert_ok(fl_queues_close(s.q));
        shop_free(&s);
    }
    sleeper_release(&sl);
}

/* --- many at once --------------------------------------------------------- */

#define N_MAKERS 4
#define N_MADE 3000

typedef struct maker {
    shop *shop;
    int who;
    fl_err err;
} maker;

static fl_status make_all(const maker *m, item *items, sleeper *sl)
{
    for (int i = 0; i < N_MADE; i++) {
        item *it = &items[i];

        it->who = m->who;
        it->number = i;
        FL_TRY(sleeper_result(sl, &it->answer,
                              put(m->shop, (size_t)i % N_QUEUES, it, sl)));
    }
    return FL_OK;
}

/* The entries stay until the queues are closed. */
static item made[N_MAKERS][N_MADE];

static void make(void *arg)
{
    maker *m = arg;
    sleeper sl;

    sleeper_init(&sl);
    fl_err_save(&m->err, make_all(m, made[m->who], &sl));
    sleeper_release(&sl);
}

static void check_order(const shop *s)
{
    int next[N_QUEUES][N_MAKERS];
    size_t n = 0;

    for (int i = 0; i < N_QUEUES * N_MAKERS; i++)
        next[i / N_MAKERS][i % N_MAKERS] = i / N_MAKERS;
    for (size_t i = 0; i < s->log.len; i++) {
        const sent *e = &s->log.data[i];

        n += e->n;
        for (size_t k = 0; k < e->n; k++) {
            assert_int_equal(e->number[k], next[e->queue][e->who[k]]);
            next[e->queue][e->who[k]] += N_QUEUES;
        }
    }
    assert_int_equal(n, N_MAKERS * N_MADE);
}

static void check_many_threads(size_t max_take, uint64_t linger_ns)
{
    fl_thread *threads[N_MAKERS];
    maker makers[N_MAKERS];
    shop s;

    memset(made, 0, sizeof(made));
    shop_open(&s, (fl_queues_config){ .capacity = 3,
                                      .max_take = max_take,
                                      .linger_ns = linger_ns,
                                      .n_threads = 3 });
    for (int i = 0; i < N_MAKERS; i++) {
        makers[i] = (maker){ .shop = &s, .who = i };
        assert_ok(fl_thread_start(&threads[i], "maker", make, &makers[i]));
    }
    for (int i = 0; i < N_MAKERS; i++) {
        fl_thread_join(threads[i]);
        assert_int_equal(makers[i].err.status, FL_OK);
    }
    assert_ok(fl_queues_close(s.q));
    check_order(&s);
    assert_int_equal(s.n_dropped, 0);
    shop_free(&s);
}

/* Worked on by the threads of the queues, by these and others, and by others
   alone. */
static void order_is_kept_and_nothing_is_lost_among_many_threads(void **state)
{
    (void)state;
    check_many_threads(4, 20000);
    check_many_threads(4, 0);
    check_many_threads(1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_queue_makes_its_owners_wait_in_turn),
        cmocka_unit_test(a_slow_queue_delays_no_other),
        cmocka_unit_test(a_full_merge_goes_at_once),
        cmocka_unit_test(a_short_merge_goes_when_its_time_is_up),
        cmocka_unit_test(a_queue_whose_owners_wait_does_not_linger),
        cmocka_unit_test(what_is_released_goes_at_once),
        cmocka_unit_test(no_more_is_under_way_than_may_be),
        cmocka_unit_test(what_is_not_released_goes_when_its_time_is_up),
        cmocka_unit_test(what_goes_alone_is_worked_on_by_who_puts_it),
        cmocka_unit_test(what_goes_alone_next_is_worked_on_by_who_says_done),
        cmocka_unit_test(what_is_never_merged_is_worked_on_by_who_says_done),
        cmocka_unit_test(what_is_merged_is_worked_on_by_the_threads),
        cmocka_unit_test(a_thread_that_has_worked_pauses_before_it_rests),
        cmocka_unit_test(what_lingers_is_worked_on_by_the_threads),
        cmocka_unit_test(order_is_kept_and_nothing_is_lost_among_many_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
