/* test_dispatcher.c - files that are read as a dispatcher names them. */
#include "pump_kit.h"

#include <stdatomic.h>

#define FILES 12
#define PER_FILE 1500
#define TURNS 64

/* Answers in a given order, then that there is no more; remembers what it is
   told. */
typedef struct dispatcher {
    fl_mutex mu;
    uint64_t answers[TURNS];
    size_t n_answers, n_asked;
    int n_inside;   /* who ask right now */
    bool is_beside; /* two asked at the same time */
    int n_told[FILES];
    size_t fail_at; /* this question fails with FL_ERR_CLOSED; 0: none */
    bool fails_told;
    uint64_t pass;
} dispatcher;

static fl_status name_next(void *arg, uint64_t pass, uint64_t n_files,
                           uint64_t *file)
{
    dispatcher *d = arg;
    bool fails;

    fl_lock(&d->mu);
    d->is_beside |= d->n_inside++ > 0;
    d->pass = pass;
    *file =
        d->n_asked < d->n_answers ? d->answers[d->n_asked] : FL_DISPATCHER_NONE;
    fails = ++d->n_asked == d->fail_at;
    fl_unlock(&d->mu);
    nap();
    fl_lock(&d->mu);
    d->n_inside--;
    fl_unlock(&d->mu);
    if (fails || n_files != FILES)
        FL_FAIL(FL_ERR_CLOSED, "the dispatcher went home");
    return FL_OK;
}

static fl_status hear(void *arg, uint64_t pass, uint64_t n_files, uint64_t file)
{
    dispatcher *d = arg;
    bool is_asked;

    fl_lock(&d->mu);
    d->n_told[file]++;
    is_asked = pass == d->pass;
    fl_unlock(&d->mu);
    if (d->fails_told || n_files != FILES || !is_asked)
        FL_FAIL(FL_ERR_CLOSED, "the dispatcher does not listen");
    return FL_OK;
}

static void add_files(void)
{
    char name[32];

    for (uint64_t i = 0; i < FILES; i++) {
        snprintf(name, sizeof(name), "f%02" PRIu64, i);
        add_numbers(name, "", i * PER_FILE, (i + 1) * PER_FILE);
    }
}

static fl_status run_dispatched(dispatcher *d, sink *s, int n_threads,
                                fl_pump_stats *stats)
{
    fl_dispatcher hook = { .next = name_next, .finished = hear, .arg = d };
    fl_pump_args a = args_of(s, &numbers, n_threads);
    fl_status st;

    fl_mutex_init(&d->mu);
    sink_init(s);
    add_files();
    a.dispatcher = &hook;
    a.pass = 3;
    st = run(&a, stats);
    assert_false(d->is_beside);
    return st;
}

static void release(dispatcher *d, sink *s)
{
    sink_release(s);
    fl_mutex_release(&d->mu);
}

static void only_files_that_were_named_are_read(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 4; threads += 3) {
        dispatcher d = { .answers = { 7, 2, FL_DISPATCHER_LATER, 11 },
                         .n_answers = 4 };
        fl_pump_stats stats;
        sink s;

        assert_ok(run_dispatched(&d, &s, threads, &stats));
        assert_int_equal(stats.files, 3);
        assert_int_equal(s.n, 3 * PER_FILE);
        for (uint64_t i = 0; i < FILES * PER_FILE; i++) {
            uint64_t file = i / PER_FILE;

            assert_int_equal(s.seen[i], file == 7 || file == 2 || file == 11);
        }
        for (int i = 0; i < FILES; i++)
            assert_int_equal(d.n_told[i], i == 7 || i == 2 || i == 11);
        assert_int_equal(d.n_asked, 5);
        assert_true(d.pass == 3);
        release(&d, &s);
        remove_files(state);
    }
}

/* 7 was trained as a whole before, of 2 the first 100 records were. */
static void files_that_were_trained_are_finished_unread(void **state)
{
    fl_range all = { 0, PER_FILE }, some = { 0, 100 };
    fl_file_position whole = { .is_done = true, .trained = { &all, 1, 1 } };
    fl_file_position part = { .trained = { &some, 1, 1 } };
    const fl_file_position *before[FILES] = { [7] = &whole, [2] = &part };
    dispatcher d = { .answers = { 7, 2, 11 }, .n_answers = 3 };
    fl_dispatcher hook = { .next = name_next, .finished = hear, .arg = &d };
    fl_pump_args a;
    sink s;

    fl_mutex_init(&d.mu);
    sink_init(&s);
    add_files();
    a = args_of(&s, &numbers, 1);
    a.dispatcher = &hook;
    a.pass = 3;
    a.before = before;
    assert_ok(run(&a, NULL));
    assert_int_equal(s.n, 2 * PER_FILE - 100);
    assert_int_equal(s.in_order[0], 2 * PER_FILE + 100);
    for (int i = 0; i < FILES; i++)
        assert_int_equal(d.n_told[i], i == 7 || i == 2 || i == 11);
    release(&d, &s);
    remove_files(state);
}

static void one_thread_reads_them_in_the_order_of_their_names(void **state)
{
    dispatcher d = { .answers = { 9, 1, 5 }, .n_answers = 3 };
    fl_pump_stats stats;
    sink s;

    (void)state;
    assert_ok(run_dispatched(&d, &s, 1, &stats));
    assert_true(s.in_order[0] == 9 * PER_FILE);
    assert_true(s.in_order[PER_FILE] == 1 * PER_FILE);
    assert_true(s.in_order[2 * PER_FILE] == 5 * PER_FILE);
    release(&d, &s);
}

static void nothing_may_be_dispatched(void **state)
{
    dispatcher d = { .answers = { FL_DISPATCHER_LATER, FL_DISPATCHER_LATER },
                     .n_answers = 2 };
    fl_pump_stats stats;
    sink s;

    (void)state;
    assert_ok(run_dispatched(&d, &s, 3, &stats));
    assert_int_equal(stats.files, 0);
    assert_int_equal(s.n, 0);
    release(&d, &s);
}

/* It was taken for lost, and the file went back to the others. */
static void a_file_that_is_named_again_is_told_of_again(void **state)
{
    dispatcher d = { .answers = { 4, 5, 4 }, .n_answers = 3 };
    fl_pump_stats stats;
    sink s;

    (void)state;
    assert_ok(run_dispatched(&d, &s, 1, &stats));
    assert_int_equal(s.n, 2 * PER_FILE);
    assert_int_equal(s.seen[4 * PER_FILE], 1);
    assert_int_equal(d.n_told[4], 2);
    assert_int_equal(d.n_told[5], 1);
    release(&d, &s);
}

static void an_error_of_the_dispatcher_is_that_of_the_pass(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 4; threads += 3) {
        dispatcher d = { .answers = { 0, 1, 2 }, .n_answers = 3, .fail_at = 3 };
        fl_pump_stats stats;
        sink s;

        assert_int_equal(run_dispatched(&d, &s, threads, &stats),
                         FL_ERR_CLOSED);
        expect_said("the dispatcher went home");
        release(&d, &s);
        remove_files(state);
    }
}

static void a_dispatcher_that_does_not_listen_ends_the_pass(void **state)
{
    dispatcher d = { .answers = { 0, 1 }, .n_answers = 2, .fails_told = true };
    fl_pump_stats stats;
    sink s;

    (void)state;
    assert_int_equal(run_dispatched(&d, &s, 2, &stats), FL_ERR_CLOSED);
    expect_said("the dispatcher does not listen");
    release(&d, &s);
}

static void a_name_that_there_is_no_file_for_is_an_error(void **state)
{
    dispatcher d = { .answers = { FILES }, .n_answers = 1 };
    fl_pump_stats stats;
    sink s;

    (void)state;
    assert_int_equal(run_dispatched(&d, &s, 2, &stats), FL_ERR_CORRUPT);
    expect_said("give all processes the same list");
    release(&d, &s);
}

/* Who takes the rows has had enough in the middle of the files. */
static void files_that_are_cut_short_are_told_of_at_the_end(void **state)
{
    dispatcher d = { .answers = { 3, 8, 6, 1 }, .n_answers = 4 };
    fl_dispatcher hook = { .next = name_next, .finished = hear, .arg = &d };
    fl_pump_args a;
    fl_pump_stats stats;
    sink s;

    (void)state;
    fl_mutex_init(&d.mu);
    sink_init(&s);
    add_files();
    a = args_of(&s, &numbers, 1);
    a.dispatcher = &hook;
    s.fail_at = 3;
    s.fail_as = FL_ERR_CLOSED;
    assert_ok(run(&a, &stats));
    assert_true(s.n < 3 * PER_FILE);
    for (int i = 0; i < FILES; i++) {
        bool is_named = false;

        for (size_t k = 0; k < d.n_asked && k < d.n_answers; k++)
            is_named |= d.answers[k] == (uint64_t)i;
        assert_int_equal(d.n_told[i], is_named);
    }
    release(&d, &s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(only_files_that_were_named_are_read,
                                  remove_files),
        cmocka_unit_test_teardown(
            one_thread_reads_them_in_the_order_of_their_names, remove_files),
        cmocka_unit_test_teardown(nothing_may_be_dispatched, remove_files),
        cmocka_unit_test_teardown(files_that_were_trained_are_finished_unread,
                                  remove_files),
        cmocka_unit_test_teardown(a_file_that_is_named_again_is_told_of_again,
                                  remove_files),
        cmocka_unit_test_teardown(
            an_error_of_the_dispatcher_is_that_of_the_pass, remove_files),
        cmocka_unit_test_teardown(
            a_dispatcher_that_does_not_listen_ends_the_pass, remove_files),
        cmocka_unit_test_teardown(a_name_that_there_is_no_file_for_is_an_error,
                                  remove_files),
        cmocka_unit_test_teardown(
            files_that_are_cut_short_are_told_of_at_the_end, remove_files),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
