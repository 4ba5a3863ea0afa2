/* test_dataset_memory.c - records loaded, preloaded, shuffled and released; and
 * records as text. */
#include "dataset_files.h"
#include "../make.h"
#include "flotilla/experimental/records.h"

static void a_shuffle_is_the_same_for_any_reading_threads(void **state)
{
    uint64_t *first = NULL;

    (void)state;
    for (int threads = 1; threads <= 8; threads += 7) {
        fl_dataset *d = new_dataset("InMemoryDataset", "part-*");
        uint64_t *keys;

        fl_dataset_set_thread(d, threads);
        fl_dataset_set_seed(d, 5);
        assert_ok(fl_dataset_load_into_memory(d));
        assert_int_equal(fl_dataset_get_shuffle_data_size(d), 0);
        assert_ok(fl_dataset_local_shuffle(d));
        assert_ok(fl_dataset_global_shuffle(d, 2));
        assert_int_equal(fl_dataset_get_shuffle_data_size(d), N_KEYS);
        check_full_pass(d, 3, 17);
        keys = order_of(d, N_KEYS);
        if (first)
            assert_memory_equal(first, keys, N_KEYS * sizeof(*keys));
        fl_free(first);
        first = keys;
        fl_dataset_free(d);
    }
    fl_free(first);
}

static void shuffles_differ_by_seed_and_by_number(void **state)
{
    fl_dataset *d = new_dataset("InMemoryDataset", "part-*");
    uint64_t *a, *b, *c;

    (void)state;
    fl_dataset_set_seed(d, 1);
    assert_ok(fl_dataset_load_into_memory(d));
    assert_ok(fl_dataset_local_shuffle(d));
    a = order_of(d, N_KEYS);
    assert_ok(fl_dataset_local_shuffle(d));
    b = order_of(d, N_KEYS);
    assert_memory_not_equal(a, b, N_KEYS * sizeof(*a));
    assert_ok(fl_dataset_load_into_memory(d));
    fl_dataset_set_seed(d, 2);
    assert_ok(fl_dataset_local_shuffle(d));
    c = order_of(d, N_KEYS);
    assert_memory_not_equal(a, c, N_KEYS * sizeof(*a));
    fl_free(c);
    assert_ok(fl_dataset_load_into_memory(d));
    fl_dataset_set_seed(d, 1);
    assert_ok(fl_dataset_local_shuffle(d));
    c = order_of(d, N_KEYS);
    assert_memory_equal(a, c, N_KEYS * sizeof(*a));
    fl_free(a);
    fl_free(b);
    fl_free(c);
    fl_dataset_free(d);
}

static void shuffled_slots_keep_their_values(void **state)
{
    const char *const names[] = { "list", "key" };
    fl_dataset *d = new_dataset("InMemoryDataset", "part-*");
    uint32_t *seen = fl_alloc(N_KEYS * sizeof(*seen));
    uint64_t *keys;

    (void)state;
    fl_dataset_set_thread(d, 2);
    assert_ok(fl_dataset_load_into_memory(d));
    assert_ok(fl_dataset_slots_shuffle(d, names, 2));
    keys = order_of(d, N_KEYS);
    for (size_t i = 0; i < N_KEYS; i++)
        seen[keys[i]]++;
    assert_each_once(seen, N_KEYS);
    fl_free(keys);
    fl_free(seen);
    fl_dataset_free(d);
}

static void a_preload_must_be_waited_for(void **state)
{
    fl_dataset *d = new_dataset("InMemoryDataset", "part-*");
    size_t n;

    (void)state;
    assert_ok(fl_dataset_preload_into_memory(d, 4));
    assert_int_equal(fl_dataset_begin(d, 1), FL_ERR_INVAL);
    assert_said("fl_dataset_wait_preload_done first");
    assert_int_equal(fl_dataset_local_shuffle(d), FL_ERR_INVAL);
    assert_int_equal(fl_dataset_load_into_memory(d), FL_ERR_INVAL);
    assert_int_equal(fl_dataset_preload_into_memory(d, 1), FL_ERR_INVAL);
    assert_int_equal(fl_dataset_set_slots(d, key_slots, 1), FL_ERR_INVAL);
    assert_int_equal(fl_dataset_get_memory_data_size(d), 0);
    assert_non_null(fl_dataset_slots(d, &n));
    assert_ok(fl_dataset_wait_preload_done(d));
    assert_int_equal(fl_dataset_get_memory_data_size(d), N_KEYS);
    assert_int_equal(dataset_stats(d).records, N_KEYS);
    check_full_pass(d, 2, 100);
    fl_dataset_free(d);
}

static void a_preload_gives_its_error_when_waited_for(void **state)
{
    fl_dataset *d = new_dataset("InMemoryDataset", "part-*");

    (void)state;
    fl_dataset_set_pipe_command(d, "exit 3");
    assert_ok(fl_dataset_preload_into_memory(d, 2));
    assert_true(fl_dataset_wait_preload_done(d));
    assert_said("exit 3");
    fl_dataset_set_pipe_command(d, NULL);
    assert_ok(fl_dataset_preload_into_memory(d, 0));
    assert_ok(fl_dataset_wait_preload_done(d));
    check_full_pass(d, 2, 100);
    fl_dataset_free(d);
}

/* The command would go on for minutes. */
static void a_preload_ends_with_its_dataset(void **state)
{
    fl_dataset *d = new_dataset("InMemoryDataset", "part-*");

    (void)state;
    fl_dataset_set_pipe_command(d, "sleep 100");
    assert_ok(fl_dataset_preload_into_memory(d, 2));
    fl_dataset_release_memory(d);
    assert_ok(fl_dataset_preload_into_memory(d, 2));
    fl_dataset_free(d);
}

static void released_memory_is_given_back(void **state)
{
    size_t before = fl_data_bytes();
    fl_dataset *d = new_dataset("InMemoryDataset", "part-*");
    const fl_feed *feeds;
    size_t n;

    (void)state;
    assert_ok(fl_dataset_load_into_memory(d));
    assert_true(fl_dataset_memory_bytes(d) > N_KEYS * 20);
    assert_ok(fl_dataset_load_into_memory(d));
    assert_int_equal(fl_dataset_get_memory_data_size(d), N_KEYS);
    assert_ok(fl_dataset_begin(d, 1));
    assert_ok(fl_dataset_next(d, 0, &feeds, &n));
    fl_dataset_release_memory(d);
    assert_int_equal(fl_dataset_get_memory_data_size(d), 0);
    assert_int_equal(fl_dataset_memory_bytes(d), 0);
    assert_int_equal(fl_data_bytes(), before);
    assert_int_equal(fl_dataset_begin(d, 1), FL_ERR_INVAL);
    assert_ok(fl_dataset_load_into_memory(d));
    check_full_pass(d, 1, 5);
    fl_dataset_free(d);
    assert_int_equal(fl_data_bytes(), before);
}

/* --- text ---------------------------------------------------------------- */

static void a_printed_record_is_the_line_it_came_from(void **state)
{
    fl_dataset *d = new_dataset("QueueDataset", "part-0");
    fl_record_printer *p = NULL;
    const fl_feed *feeds;
    const char *text;
    uint64_t key = 0;
    size_t n;

    (void)state;
    assert_ok(fl_record_printer_new(&p, key_slots, 3, "multislot"));
    assert_string_equal(fl_record_printer_head(p), "");
    assert_ok(fl_dataset_begin(d, 1));
    while (!fl_dataset_next(d, 0, &feeds, &n) && feeds)
        for (size_t i = 0; i < n; i++, key++) {
            fl_str s = { 0 };

            add_line(&s, key);
            assert_ok(fl_record_printer_line(p, feeds, i, &text));
            assert_string_equal(text, s.data);
            fl_str_release(&s);
        }
    assert_int_equal(key, PER_FILE);
    fl_dataset_end(d);
    fl_record_printer_free(p);
    fl_dataset_free(d);
}

static void a_printer_refuses_what_does_not_fit(void **state)
{
    fl_dataset *d = new_dataset("QueueDataset", "part-0");
    fl_record_printer *p = NULL;
    const fl_feed *feeds;
    const char *text;
    size_t n;

    (void)state;
    assert_true(fl_record_printer_new(&p, key_slots, 3, "nothing"));
    assert_ok(fl_record_printer_new(&p, key_slots, 3, "multislot"));
    assert_ok(fl_dataset_begin(d, 1));
    assert_ok(fl_dataset_next(d, 0, &feeds, &n));
    assert_int_equal(fl_record_printer_line(p, feeds, n, &text), FL_ERR_INVAL);
    fl_record_printer_free(p);
    assert_ok(fl_record_printer_new(&p, key_slots + 1, 2, "multislot"));
    assert_int_equal(fl_record_printer_line(p, feeds, 0, &text), FL_ERR_INVAL);
    assert_said("in the order of the slots");
    fl_record_printer_free(p);
    fl_dataset_free(d);
}

static void help_knows_the_formats(void **state)
{
    char *all = fl_format_help(NULL), *one = fl_format_help("multislot");

    (void)state;
    assert_non_null(strstr(all, "format multislot\n"));
    assert_non_null(strstr(all, "every format\n  option split"));
    *strstr(one, "every format\n") = '\0';
    assert_non_null(strstr(all, one));
    assert_null(fl_format_help("none"));
    assert_said("none");
    fl_free(all);
    fl_free(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shuffle_is_the_same_for_any_reading_threads),
        cmocka_unit_test(shuffles_differ_by_seed_and_by_number),
        cmocka_unit_test(shuffled_slots_keep_their_values),
        cmocka_unit_test(a_preload_must_be_waited_for),
        cmocka_unit_test(a_preload_gives_its_error_when_waited_for),
        cmocka_unit_test(a_preload_ends_with_its_dataset),
        cmocka_unit_test(released_memory_is_given_back),
        cmocka_unit_test(a_printed_record_is_the_line_it_came_from),
        cmocka_unit_test(a_printer_refuses_what_does_not_fit),
        cmocka_unit_test(help_knows_the_formats),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
