/* test_pump.c - threads that read files: every line once, whatever the files,
 * the threads and the end. */
#include "pump_kit.h"

/* --- files and threads ---------------------------------------------------- */

static void one_big_file_gives_four_threads_every_line_once(void **state)
{
    fl_pump_stats stats;
    fl_pump_args a;
    sink s;

    (void)state;
    sink_init(&s);
    add_numbers("big", "", 0, 150000);
    a = args_of(&s, &numbers, 4);
    assert_ok(run(&a, &stats));
    expect_each_once(&s, 150000);
    assert_true(s.worker_max < 4);
    assert_int_equal(stats.files, 1);
    assert_int_equal(stats.lines, 150000);
    assert_int_equal(stats.records, 150000);
    assert_int_equal(stats.read, 10 * 2 + 90 * 3 + 900 * 4 + 9000 * 5 +
                                     90000 * 6 + 50000 * 7);
    assert_int_equal(stats.bad_lines + stats.empty_files + stats.cached_files,
                     0);
    sink_release(&s);
}

static void many_files_give_every_line_once(void **state)
{
    fl_pump_stats stats;
    fl_pump_args a;
    sink s;

    (void)state;
    sink_init(&s);
    for (uint64_t i = 0; i < 200; i++) {
        char name[16];

        snprintf(name, sizeof(name), "f%03" PRIu64, i);
        add_numbers(name, "", i * i, (i + 1) * (i + 1));
    }
    add_file("empty", "");
    a = args_of(&s, &numbers, 5);
    a.source.block_bytes = 256;
    assert_ok(run(&a, &stats));
    expect_each_once(&s, 40000);
    assert_int_equal(stats.files, 201);
    assert_int_equal(stats.empty_files, 1);
    sink_release(&s);
}

static void one_thread_keeps_the_order(void **state)
{
    fl_pump_args a;
    sink s;

    (void)state;
    sink_init(&s);
    for (uint64_t i = 0; i < 10; i++)
        add_numbers((char[]){ (char)('a' + i), '\0' }, "", i * 1000,
                    (i + 1) * 1000);
    a = args_of(&s, &numbers, 1);
    a.source.block_bytes = 100;
    assert_ok(run(&a, NULL));
    assert_int_equal(s.n, 10000);
    for (uint64_t i = 0; i < s.n; i++)
        assert_int_equal(s.in_order[i], i);
    sink_release(&s);
}

static void no_files_are_a_pass_without_records(void **state)
{
    fl_pump_stats stats;
    fl_pump_args a;
    sink s;

    (void)state;
    sink_init(&s);
    a = args_of(&s, &numbers, 3);
    assert_ok(run(&a, &stats));
    assert_int_equal(stats.files + stats.records + s.calls, 0);
    sink_release(&s);
}

static void a_line_knows_its_file_number_and_epoch(void **state)
{
    fl_pump_args a;
    sink s;

    (void)state;
    sink_init(&s);
    add_numbers("a", "", 0, 500);
    a = args_of(&s, &places, 1);
    a.source.block_bytes = 64;
    a.epoch = 77;
    assert_ok(run(&a, NULL));
    assert_int_equal(s.n, 500);
    for (uint64_t i = 0; i < 500; i++)
        assert_int_equal(s.in_order[i],
                         fl_hash_str(paths.data[0]) ^ fl_mix64(i + 1) ^ 77);
    sink_release(&s);
}

static void commands_feed_all_threads(void **state)
{
    fl_pump_stats stats;
    fl_pump_args a;
    sink s;

    (void)state;
    sink_init(&s);
    for (uint64_t i = 0; i < 30; i++) {
        char name[16];

        snprintf(name, sizeof(name), "f%02" PRIu64, i);
        add_numbers(name, "", i * 1000, (i + 1) * 1000);
    }
    a = args_of(&s, &numbers, 3);
    a.source.pipe_command = "cat";
    assert_ok(run(&a, &stats));
    expect_each_once(&s, 30000);
    assert_int_equal(stats.files, 30);
    sink_release(&s);
}

static void no_thread_and_too_many_are_refused(void **state)
{
    fl_pump_args a = args_of(NULL, &numbers, 0);

    (void)state;
    assert_int_equal(run(&a, NULL), FL_ERR_INVAL);
    a.n_threads = FL_PUMP_THREADS_MAX + 1;
    assert_int_equal(run(&a, NULL), FL_ERR_INVAL);
    expect_said("1025 reading threads");
}

/* --- pipes ---------------------------------------------------------------- */

static void a_silent_fifo_stops_no_other_file(void **state)
{
    const char *fifo;
    fl_pump_stats stats;
    fl_pump_args a;
    fl_pump *p = NULL;
    sink s;

    (void)state;
    sink_init(&s);
    fifo = add_fifo("fifo");
    for (uint64_t i = 0; i < 10; i++)
        add_numbers((char[]){ (char)('a' + i), '\0' }, "", i * 500,
                    (i + 1) * 500);
    for (int n_threads = 1; n_threads <= 4; n_threads += 3) {
        a = args_of(&s, &numbers, n_threads);
        assert_ok(fl_pump_start(&p, &a));
        wait_for_files(p, 10);
        assert_int_equal(files_read(p), 10);
        write_fifo(fifo, "5000\n5001\n5002");
        assert_ok(fl_pump_join(p, &stats));
        expect_each_once(&s, 5003);
        assert_int_equal(stats.files, 11);
        sink_release(&s);
        sink_init(&s);
    }
    sink_release(&s);
}

static void many_silent_fifos_stop_no_other_file(void **state)
{
    fl_pump_args a;
    fl_pump *p = NULL;
    sink s;

    (void)state;
    sink_init(&s);
    for (int i = 0; i < 10; i++)
        (void)add_fifo((char[]){ (char)('a' + i), '\0' });
    add_numbers("numbers", "", 10, 2000);
    a = args_of(&s, &numbers, 1);
    assert_ok(fl_pump_start(&p, &a));
    wait_for_files(p, 1);
    for (size_t i = 0; i < 10; i++)
        write_fifo(paths.data[i], (char[]){ (char)('0' + i), '\n', '\0' });
    assert_ok(fl_pump_join(p, NULL));
    expect_each_once(&s, 2000);
    sink_release(&s);
}

static void a_stop_ends_the_wait_for_a_silent_fifo(void **state)
{
    fl_pump_stats stats;
    fl_pump_args a;
    fl_pump *p = NULL;
    sink s;

    (void)state;
    sink_init(&s);
    (void)add_fifo("fifo");
    a = args_of(&s, &numbers, 3);
    assert_ok(fl_pump_start(&p, &a));
    fl_pump_stop(p);
    assert_ok(fl_pump_join(p, &stats));
    assert_int_equal(stats.files, 0);
    sink_release(&s);
}

/* --- ends ----------------------------------------------------------------- */

static void a_missing_file_is_an_error_that_names_it(void **state)
{
    fl_pump_args a;
    sink s;

    (void)state;
    sink_init(&s);
    add_numbers("there", "", 0, 1000);
    (void)add_path("not_there");
    for (int n_threads = 1; n_threads <= 4; n_threads += 3) {
        a = args_of(&s, &numbers, n_threads);
        assert_int_not_equal(run(&a, NULL), FL_OK);
        expect_said("not_there");
    }
    sink_release(&s);
}

static void a_failed_take_ends_the_pass_with_its_error(void **state)
{
    fl_pump_args a;
    sink s;

    (void)state;
    sink_init(&s);
    add_numbers("a", "", 0, 100000);
    s.fail_at = 3;
    s.fail_as = FL_ERR_NOMEM;
    a = args_of(&s, &numbers, 4);
    assert_int_equal(run(&a, NULL), FL_ERR_NOMEM);
    expect_said("the sink is full");
    sink_release(&s);
}

static void a_closed_take_ends_the_pass_without_an_error(void **state)
{
    fl_pump_stats stats;
    fl_pump_args a;
    sink s;

    (void)state;
    sink_init(&s);
    add_numbers("a", "", 0, 100000);
    s.fail_at = 3;
    s.fail_as = FL_ERR_CLOSED;
    a = args_of(&s, &numbers, 1);
    assert_ok(run(&a, &stats));
    assert_int_equal(s.calls, 3);
    assert_int_equal(stats.files, 0);
    assert_int_equal(stats.records, s.n);
    sink_release(&s);
}

/* The FIFO keeps the pass from ending before the stop. */
static void a_stop_in_the_middle_ends_the_pass_without_an_error(void **state)
{
    fl_pump_args a;
    fl_pump *p = NULL;
    sink s;

    (void)state;
    sink_init(&s);
    add_numbers("a", "", 0, 150000);
    (void)add_fifo("fifo");
    a = args_of(&s, &numbers, 4);
    a.source.block_bytes = 64;
    assert_ok(fl_pump_start(&p, &a));
    wait_for_calls(&s, 1);
    fl_pump_stop(p);
    assert_ok(fl_pump_join(p, NULL));
    for (size_t i = 0; i < IDS_MAX; i++)
        assert_true(s.seen[i] <= 1);
    sink_release(&s);
}

static void a_pass_is_done_after_its_last_rows(void **state)
{
    fl_pump_args a;
    fl_pump *p = NULL;
    sink s;

    (void)state;
    sink_init(&s);
    add_numbers("a", "", 0, 5000);
    a = args_of(&s, &numbers, 2);
    assert_ok(fl_pump_start(&p, &a));
    fl_pump_wait(p);
    expect_each_once(&s, 5000);
    assert_ok(fl_pump_join(p, NULL));
    sink_release(&s);
}

int main(void)
{
#define T(name) cmocka_unit_test_teardown(name, remove_files)
    const struct CMUnitTest tests[] = {
        T(one_big_file_gives_four_threads_every_line_once),
        T(many_files_give_every_line_once),
        T(one_thread_keeps_the_order),
        T(no_files_are_a_pass_without_records),
        T(a_line_knows_its_file_number_and_epoch),
        T(commands_feed_all_threads),
        T(no_thread_and_too_many_are_refused),
        T(a_silent_fifo_stops_no_other_file),
        T(many_silent_fifos_stop_no_other_file),
        T(a_stop_ends_the_wait_for_a_silent_fifo),
        T(a_missing_file_is_an_error_that_names_it),
        T(a_failed_take_ends_the_pass_with_its_error),
        T(a_closed_take_ends_the_pass_without_an_error),
        T(a_stop_in_the_middle_ends_the_pass_without_an_error),
        T(a_pass_is_done_after_its_last_rows),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
