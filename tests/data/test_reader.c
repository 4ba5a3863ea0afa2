/* test_reader.c - readers with threads: order, ends, errors, resets. What holds
 * for processes as well is tested for both kinds. */
#include "reader_kit.h"

#include "base/alloc.h"

static const fl_reader_workers kinds[] = { FL_READER_THREADS,
                                           FL_READER_PROCESSES };

static void every_sample_comes_once(void **state)
{
    static counting c;

    (void)state;
    for (size_t k = 0; k < FL_LEN(kinds); k++)
        for (int n = 1; n <= 4; n += 3) {
            fl_reader *r =
                make_reader(FL_INIT(fl_reader_args, .workers = kinds[k],
                                    .n_workers = n, .capacity = 3));
            size_t want = 0, dropped = 0;

            rewind_counting(&c);
            for (int w = 0; w < n; w++) {
                c.n[w] = (uint64_t)(95 + w * 5); /* w = 1 ends with a batch */
                want += c.n[w];
                dropped += c.n[w] % 20;
            }
            fl_reader_decorate_sample_generator(r, count_samples, &c, 20,
                                                false);
            assert_ok(fl_reader_start(r));
            assert_int_equal(read_all(r, 20, false, &c), want);
            fl_reader_reset(r);
            rewind_counting(&c);
            fl_reader_decorate_sample_generator(r, count_samples, &c, 20, true);
            assert_ok(fl_reader_start(r));
            assert_int_equal(read_all(r, 20, true, &c), want - dropped);
            fl_reader_free(r);
        }
}

static void batches_come_in_turn_when_the_order_counts(void **state)
{
    static const uint64_t n[] = { 5, 2, 0, 4 };
    static const int turns[] = { 0, 1, 3, 0, 1, 3, 0, 3, 0, 3, 0 };
    static counting c;

    (void)state;
    memcpy(c.n, n, sizeof(n));
    for (size_t k = 0; k < FL_LEN(kinds); k++)
        for (size_t capacity = 1; capacity < 100; capacity *= 7) {
            fl_reader *r = make_reader(
                FL_INIT(fl_reader_args, .workers = kinds[k], .n_workers = 4,
                        .ordered = true, .capacity = capacity));
            uint64_t seen[4] = { 0 };
            const fl_feed *feeds;
            size_t n_rows;

            rewind_counting(&c);
            fl_reader_decorate_batch_generator(r, count_batches, &c);
            assert_ok(fl_reader_start(r));
            for (size_t i = 0; i < FL_LEN(turns); i++) {
                assert_ok(fl_reader_next(r, 0, &feeds, &n_rows));
                assert_non_null(feeds);
                check_batch(feeds, n_rows, turns[i], 3 * seen[turns[i]]++);
            }
            for (int again = 0; again < 2; again++) {
                assert_ok(fl_reader_next(r, 0, &feeds, &n_rows));
                assert_null(feeds);
                assert_int_equal(n_rows, 0);
            }
            fl_reader_free(r);
        }
}

static void a_reader_is_reset_at_any_moment_and_starts_anew(void **state)
{
    static counting c = { .n = { 40, 40, 40 } };

    (void)state;
    for (size_t k = 0; k < FL_LEN(kinds); k++) {
        fl_reader *r = make_reader(FL_INIT(fl_reader_args, .workers = kinds[k],
                                           .n_workers = 3, .ordered = true));

        fl_reader_reset(r); /* nothing runs: nothing happens */
        fl_reader_decorate_batch_generator(r, count_batches, &c);
        for (int taken = 0; taken < 12; taken += 1) {
            const fl_feed *feeds;
            size_t n_rows;

            rewind_counting(&c);
            assert_ok(fl_reader_start(r));
            for (int i = 0; i < taken; i++) {
                assert_ok(fl_reader_next(r, i % 2, &feeds, &n_rows));
                check_batch(feeds, n_rows, i % 3, (uint64_t)(i / 3) * 3);
            }
            fl_reader_reset(r);
            assert_int_equal(fl_reader_next(r, 0, &feeds, &n_rows),
                             FL_ERR_INVAL);
            assert_said("not started");
        }
        fl_reader_free(r);
    }
}

static void a_failed_generator_is_named_with_its_words(void **state)
{
    static counting c = { .n = { 1000 }, .fail_at = 50 };

    (void)state;
    for (size_t k = 0; k < FL_LEN(kinds); k++) {
        fl_reader *r = make_reader(
            FL_INIT(fl_reader_args, .workers = kinds[k], .n_workers = 1));
        const fl_feed *feeds = NULL;
        fl_status st = FL_OK;
        size_t n;

        rewind_counting(&c);
        fl_reader_decorate_sample_generator(r, count_samples, &c, 10, false);
        assert_ok(fl_reader_start(r));
        while (!st)
            st = fl_reader_next(r, 0, &feeds, &n);
        for (int consumer = 0; consumer < 2; consumer++) {
            assert_int_equal(st, FL_ERR_IO);
            assert_said("worker 0");
            assert_said("the sky fell at 50");
            st = fl_reader_next(r, consumer, &feeds, &n);
        }
        fl_reader_free(r);
    }
}

/* --- generators that break the rules -------------------------------------- */

static fl_status give_nothing(void *arg, int worker, fl_feeder *into, bool *end)
{
    (void)arg, (void)worker, (void)into, (void)end;
    return FL_OK;
}

static fl_status give_two(void *arg, int worker, fl_feeder *into, bool *end)
{
    (void)arg, (void)end;
    FL_TRY(give_sample(into, worker, 0));
    FL_TRY(fl_feeder_end_sample(into));
    return give_sample(into, worker, 1);
}

static fl_status give_half(void *arg, int worker, fl_feeder *into, bool *end)
{
    uint64_t key = 1;

    (void)arg, (void)worker, (void)end;
    return fl_feeder_ids(into, "key", &key, 1);
}

static fl_status give_and_end(void *arg, int worker, fl_feeder *into, bool *end)
{
    (void)arg;
    *end = true;
    return give_sample(into, worker, 0);
}

static fl_status say_pending(void *arg, int worker, fl_feeder *into, bool *end)
{
    (void)arg, (void)worker, (void)into, (void)end;
    return FL_PENDING;
}

static void expect_failure(fl_reader *r, const char *words)
{
    const fl_feed *feeds;
    size_t n;

    assert_ok(fl_reader_start(r));
    assert_int_equal(fl_reader_next(r, 0, &feeds, &n), FL_ERR_INVAL);
    assert_said("worker 0");
    assert_said(words);
    fl_reader_reset(r);
}

static void generators_that_break_the_rules_are_told(void **state)
{
    static const struct {
        fl_generator fn;
        const char *by_sample, *by_batch;
    } rows[] = {
        { give_nothing, "one sample", "the batch has no key" },
        { give_two, "one sample", "sample 1 is not ended" },
        { give_half, "sample 0 has no list", "sample 0 is not ended" },
        { give_and_end, "in a call of its own", "in a call of its own" },
        { say_pending, "status 100", "status 100" },
    };

    (void)state;
    for (size_t k = 0; k < FL_LEN(kinds); k++)
        for (size_t i = 0; i < FL_LEN(rows); i++) {
            fl_reader *r =
                make_reader(FL_INIT(fl_reader_args, .workers = kinds[k]));

            fl_reader_decorate_sample_generator(r, rows[i].fn, NULL, 4, false);
            expect_failure(r, rows[i].by_sample);
            fl_reader_decorate_batch_generator(r, rows[i].fn, NULL);
            expect_failure(r, rows[i].by_batch);
            fl_reader_free(r);
        }
}

/* --- several consumers ---------------------------------------------------- */

#define CONSUMERS 4
#define SHARED_BATCHES 400

typedef struct consumer {
    fl_reader *reader;
    int number;
    uint64_t n_rows, sum;
    fl_status st;
} consumer;

static void consume(void *arg)
{
    consumer *c = arg;
    const fl_feed *feeds;
    size_t n;

    while (!(c->st = fl_reader_next(c->reader, c->number, &feeds, &n)) && feeds)
        for (size_t i = 0; i < n; i++, c->n_rows++)
            c->sum += ((const uint64_t *)feeds[KEY].value.data)[i];
}

/* A reset takes batches back: who may meet one does not look into them. */
static void only_ask(void *arg)
{
    consumer *c = arg;
    const fl_feed *feeds;
    size_t n;

    do
        c->st = fl_reader_next(c->reader, c->number, &feeds, &n);
    while (!c->st && feeds);
}

static void start_consumers(fl_reader *r, consumer *all, fl_thread **threads,
                            void (*fn)(void *))
{
    for (int i = 0; i < CONSUMERS; i++) {
        all[i] = (consumer){ .reader = r, .number = i };
        assert_ok(fl_thread_start(&threads[i], "consumer", fn, &all[i]));
    }
}

static void several_consumers_share_the_batches(void **state)
{
    static counting c;

    (void)state;
    for (size_t k = 0; k < 2 * FL_LEN(kinds); k++) {
        fl_reader *r = make_reader(
            FL_INIT(fl_reader_args, .workers = kinds[k / 2], .n_workers = 3,
                    .capacity = 3, .ordered = k % 2));
        fl_thread *threads[CONSUMERS];
        consumer all[CONSUMERS];
        uint64_t rows = 0, sum = 0, want = 0;

        rewind_counting(&c);
        for (uint64_t w = 0; w < 3; w++) {
            c.n[w] = SHARED_BATCHES;
            for (uint64_t i = 0; i < SHARED_BATCHES * 3; i++)
                want += w * KEY_STEP + i;
        }
        fl_reader_decorate_batch_generator(r, count_batches, &c);
        assert_ok(fl_reader_start(r));
        start_consumers(r, all, threads, consume);
        for (int i = 0; i < CONSUMERS; i++) {
            fl_thread_join(threads[i]);
            assert_int_equal(all[i].st, FL_OK);
            rows += all[i].n_rows;
            sum += all[i].sum;
        }
        assert_int_equal(rows, 3 * SHARED_BATCHES * 3);
        assert_int_equal(sum, want);
        fl_reader_free(r);
    }
}

static void a_reset_ends_the_waits_of_other_consumers(void **state)
{
    static counting c;

    (void)state;
    for (size_t k = 0; k < FL_LEN(kinds); k++)
        for (int round = 0; round < 5; round++) {
            fl_reader *r =
                make_reader(FL_INIT(fl_reader_args, .workers = kinds[k],
                                    .n_workers = 2, .capacity = 2));
            fl_thread *threads[CONSUMERS];
            consumer all[CONSUMERS];
            const fl_feed *feeds;
            size_t n;

            rewind_counting(&c);
            c.n[0] = c.n[1] = UINT64_MAX;
            fl_reader_decorate_batch_generator(r, count_batches, &c);
            assert_ok(fl_reader_start(r));
            start_consumers(r, all, threads, only_ask);
            for (int i = 0; i < 10 * round; i++)
                assert_ok(fl_reader_next(r, CONSUMERS, &feeds, &n));
            fl_reader_reset(r);
            for (int i = 0; i < CONSUMERS; i++) {
                fl_thread_join(threads[i]);
                /* Or it asked after the reset was done. */
                assert_true(all[i].st == FL_ERR_CLOSED ||
                            all[i].st == FL_ERR_INVAL);
            }
            fl_reader_free(r);
        }
}

/* --- bounds --------------------------------------------------------------- */

static fl_mutex gate_mu;
static fl_cond gate_cond;
static uint64_t gate_made; /* guarded by gate_mu */

static fl_status count_made(void *arg, int worker, fl_feeder *into, bool *end)
{
    FL_TRY(count_batches(arg, worker, into, end));
    fl_lock(&gate_mu);
    gate_made++;
    fl_cond_wake_all(&gate_cond);
    fl_unlock(&gate_mu);
    return FL_OK;
}

static void wait_for_made(uint64_t n)
{
    uint64_t deadline = fl_now_ns() + DEADLINE_NS;

    fl_lock(&gate_mu);
    while (gate_made < n)
        assert_true(fl_cond_wait_until(&gate_cond, &gate_mu, deadline));
    fl_unlock(&gate_mu);
}

/* Two wait, the third is made and has no room; the consumer's fourth. */
static void a_thread_stays_ahead_by_the_capacity_and_one(void **state)
{
    static counting c = { .n = { 1000 } };
    fl_reader *r = make_reader(FL_INIT(fl_reader_args, .capacity = 2));
    const fl_feed *feeds;
    size_t n;

    (void)state;
    fl_mutex_init(&gate_mu);
    fl_cond_init(&gate_cond);
    fl_reader_decorate_batch_generator(r, count_made, &c);
    assert_ok(fl_reader_start(r));
    for (uint64_t i = 0; i < 50; i++) {
        wait_for_made(i + 3);
        fl_lock(&gate_mu);
        assert_int_equal(gate_made, i + 3);
        fl_unlock(&gate_mu);
        assert_ok(fl_reader_next(r, 0, &feeds, &n));
        check_batch(feeds, n, 0, 3 * i);
    }
    fl_reader_free(r);
    fl_cond_release(&gate_cond);
    fl_mutex_release(&gate_mu);
}

static void batches_are_recycled(void **state)
{
    static counting c = { .n = { UINT64_MAX } };
    fl_reader *r = make_reader(FL_INIT(fl_reader_args, .capacity = 2));
    const fl_feed *feeds;
    uint64_t calls = fl_data_calls();
    size_t n;

    (void)state;
    fl_reader_decorate_batch_generator(r, count_batches, &c);
    assert_ok(fl_reader_start(r));
    for (int i = 0; i < 400; i++)
        assert_ok(fl_reader_next(r, 0, &feeds, &n));
    /* Two wait, one is being made, one is with the consumer; each has three
       columns and the offsets of one. */
    assert_true(fl_data_calls() - calls <= 4 * 4);
    fl_reader_free(r);
}

static void wrong_arguments_are_refused(void **state)
{
    static counting c;
    fl_reader *r = NULL;
    const fl_feed *feeds;
    size_t n;

    (void)state;
    assert_int_equal(
        fl_reader_make(&r, kit_slots, NULL, N_SLOTS,
                       FL_OPTIONS(fl_reader_args, .n_workers = -1)),
        FL_ERR_INVAL);
    assert_said("n_workers -1");
    assert_int_equal(
        fl_reader_make(&r, kit_slots, NULL, N_SLOTS,
                       FL_OPTIONS(fl_reader_args, .capacity = 100000)),
        FL_ERR_INVAL);
    assert_said("capacity 100000");
    assert_int_equal(
        fl_reader_make(
            &r, kit_slots, NULL, N_SLOTS,
            FL_OPTIONS(fl_reader_args, .workers = (fl_reader_workers)9)),
        FL_ERR_INVAL);
    assert_said("workers 9");
    r = make_reader(FL_INIT(fl_reader_args));
    assert_int_equal(fl_reader_start(r), FL_ERR_INVAL);
    assert_said("no generator");
    fl_reader_decorate_sample_generator(r, count_samples, &c, 0, false);
    assert_int_equal(fl_reader_start(r), FL_ERR_INVAL);
    assert_said("batch_size");
    fl_reader_decorate_sample_generator(r, count_samples, &c, 1, false);
    assert_ok(fl_reader_start(r));
    assert_int_equal(fl_reader_start(r), FL_ERR_BUSY);
    assert_said("fl_reader_reset");
    assert_int_equal(fl_reader_next(r, 1024, &feeds, &n), FL_ERR_INVAL);
    assert_said("consumer 1024");
    assert_int_equal(fl_reader_next(r, -1, &feeds, &n), FL_ERR_INVAL);
    fl_reader_free(r);
    fl_reader_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_comes_once),
        cmocka_unit_test(batches_come_in_turn_when_the_order_counts),
        cmocka_unit_test(a_reader_is_reset_at_any_moment_and_starts_anew),
        cmocka_unit_test(a_failed_generator_is_named_with_its_words),
        cmocka_unit_test(generators_that_break_the_rules_are_told),
        cmocka_unit_test(several_consumers_share_the_batches),
        cmocka_unit_test(a_reset_ends_the_waits_of_other_consumers),
        cmocka_unit_test(a_thread_stays_ahead_by_the_capacity_and_one),
        cmocka_unit_test(batches_are_recycled),
        cmocka_unit_test(wrong_arguments_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
