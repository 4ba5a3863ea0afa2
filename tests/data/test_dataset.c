/* test_dataset.c - datasets over real files: every record once, whatever the
 * threads, batches and ways to stop; and what is told when something is wrong.
 */
#include "dataset_files.h"
#include "../make.h"

static void check_combinations(const char *kind)
{
    static const int threads[] = { 1, 2, 8 };
    static const size_t sizes[] = { 1, 7, 601, 1000, N_KEYS, 100000 };

    for (size_t t = 0; t < FL_LEN(threads); t++)
        for (size_t b = 0; b < FL_LEN(sizes); b++) {
            fl_dataset *d = new_dataset(kind, "part-*");

            fl_dataset_set_thread(d, threads[t]);
            if (strcmp(kind, "InMemoryDataset") == 0)
                assert_ok(fl_dataset_load_into_memory(d));
            check_full_pass(d, 1, sizes[b]);
            check_full_pass(d, b % 2 ? 8 : 3, sizes[b]);
            fl_dataset_free(d);
        }
}

static void a_queue_gives_every_record_once(void **state)
{
    (void)state;
    check_combinations("QueueDataset");
}

static void memory_gives_every_record_once(void **state)
{
    (void)state;
    check_combinations("InMemoryDataset");
}

static void one_thread_keeps_the_order_of_the_files(void **state)
{
    fl_dataset *d = new_dataset("QueueDataset", "part-*");
    uint64_t *keys;

    (void)state;
    for (int pass = 0; pass < 2; pass++) {
        keys = order_of(d, N_KEYS);
        for (uint64_t i = 0; i < N_KEYS; i++)
            assert_int_equal(keys[i], i);
        fl_free(keys);
    }
    fl_dataset_free(d);
}

static void a_pass_can_end_at_any_batch(void **state)
{
    (void)state;
    for (int n = 0; n < 12; n++) {
        fl_dataset *d = new_dataset("QueueDataset", "part-*");
        const fl_feed *feeds;
        size_t rows;

        fl_dataset_set_thread(d, 1 + n % 4);
        fl_dataset_set_batch_size(d, 10);
        assert_ok(fl_dataset_begin(d, 2));
        for (int i = 0; i < n; i++)
            assert_ok(fl_dataset_next(d, i % 2, &feeds, &rows));
        if (n % 3 == 0)
            fl_dataset_end(d);
        if (n % 3 == 1) {
            fl_dataset_end(d);
            fl_dataset_end(d);
            check_full_pass(d, 2, 10);
        }
        fl_dataset_free(d);
    }
}

static void read_until_closed(void *arg)
{
    reading *r = arg;
    const fl_feed *feeds = NULL;
    size_t n;

    fl_err_save(&r->err, fl_dataset_next(r->dataset, 1, &feeds, &n));
    r->wrong = feeds != NULL;
}

/* The command gives nothing until it is ended: the consumer waits. */
static void the_end_wakes_a_consumer_that_waits(void **state)
{
    fl_dataset *d = new_dataset("QueueDataset", "part-0");
    reading r = { .dataset = d };
    fl_thread *t;

    (void)state;
    fl_dataset_set_pipe_command(d, "sleep 100");
    assert_ok(fl_dataset_begin(d, 2));
    assert_ok(fl_thread_start(&t, "reader", read_until_closed, &r));
    fl_dataset_end(d);
    fl_thread_join(t);
    /* It was inside and got the end, or came too late and was told so. */
    assert_false(r.wrong);
    assert_true(r.err.status == FL_OK || r.err.status == FL_ERR_INVAL);
    fl_dataset_free(d);
}

/* --- things that are wrong ------------------------------------------------ */

static void calls_in_the_wrong_order_say_what_comes_first(void **state)
{
    fl_dataset *d = NULL;
    const fl_feed *feeds;
    size_t n;

    (void)state;
    assert_int_equal(fl_dataset_make(&d, &conf, "Dataset"), FL_ERR_NOTFOUND);
    assert_said("QueueDataset");
    d = new_dataset("QueueDataset", NULL);
    assert_int_equal(fl_dataset_begin(d, 1), FL_ERR_INVAL);
    assert_said("fl_dataset_set_filelist first");
    assert_int_equal(fl_dataset_next(d, 0, &feeds, &n), FL_ERR_INVAL);
    assert_said("fl_dataset_begin first");
    assert_int_equal(fl_dataset_load_into_memory(d), FL_ERR_INVAL);
    assert_said("InMemoryDataset");
    set_files(d, "part-0");
    fl_dataset_set_batch_size(d, 0);
    assert_int_equal(fl_dataset_begin(d, 1), FL_ERR_INVAL);
    assert_said("fl_dataset_set_batch_size");
    fl_dataset_set_batch_size(d, 5);
    fl_dataset_set_thread(d, 0);
    assert_int_equal(fl_dataset_begin(d, 1), FL_ERR_INVAL);
    assert_said("fl_dataset_set_thread");
    fl_dataset_set_thread(d, 2);
    assert_int_equal(fl_dataset_begin(d, 0), FL_ERR_INVAL);
    assert_ok(fl_dataset_begin(d, 2));
    assert_int_equal(fl_dataset_begin(d, 2), FL_ERR_INVAL);
    assert_said("fl_dataset_end first");
    assert_int_equal(fl_dataset_set_slots(d, key_slots, 1), FL_ERR_INVAL);
    assert_int_equal(fl_dataset_next(d, 2, &feeds, &n), FL_ERR_INVAL);
    assert_said("consumer 2");
    assert_int_equal(fl_dataset_next(d, -1, &feeds, &n), FL_ERR_INVAL);
    fl_dataset_free(d);
}

static void a_description_gives_slots_before_there_are_files(void **state)
{
    fl_dataset *d = NULL;
    size_t n = 0;

    (void)state;
    assert_ok(fl_dataset_make(&d, &conf, "QueueDataset"));
    assert_ok(fl_dataset_set_format(d, "csv:columns=a:id b:float"));
    assert_string_equal(fl_dataset_slots(d, &n)[1].name, "b");
    assert_int_equal(n, 2);
    fl_dataset_free(d);
}

static void a_dataset_without_slots_says_so(void **state)
{
    fl_dataset *d = NULL;
    size_t n = 7;

    (void)state;
    assert_ok(fl_dataset_make(&d, &conf, "QueueDataset"));
    assert_null(fl_dataset_slots(d, &n));
    assert_int_equal(n, 0);
    set_files(d, "part-0");
    assert_int_equal(fl_dataset_begin(d, 1), FL_ERR_INVAL);
    assert_said("slots");
    assert_null(fl_dataset_slots(d, &n));
    assert_int_equal(fl_dataset_set_format(d, "multislat:a=b"),
                     FL_ERR_NOTFOUND);
    assert_said("multislot");
    fl_dataset_free(d);
}

static void memory_that_is_not_loaded_says_so(void **state)
{
    fl_dataset *d = new_dataset("InMemoryDataset", NULL);
    const char *name = "list";

    (void)state;
    assert_int_equal(fl_dataset_load_into_memory(d), FL_ERR_INVAL);
    assert_said("fl_dataset_set_filelist first");
    set_files(d, "part-*");
    assert_int_equal(fl_dataset_begin(d, 1), FL_ERR_INVAL);
    assert_said("fl_dataset_load_into_memory first");
    assert_int_equal(fl_dataset_local_shuffle(d), FL_ERR_INVAL);
    assert_int_equal(fl_dataset_slots_shuffle(d, &name, 1), FL_ERR_INVAL);
    assert_int_equal(fl_dataset_wait_preload_done(d), FL_ERR_INVAL);
    assert_said("fl_dataset_preload_into_memory first");
    assert_ok(fl_dataset_load_into_memory(d));
    name = "lost";
    assert_int_equal(fl_dataset_slots_shuffle(d, &name, 1), FL_ERR_NOTFOUND);
    assert_said("lost");
    assert_int_equal(fl_dataset_set_slots(d, key_slots, 1), FL_ERR_INVAL);
    assert_said("fl_dataset_release_memory first");
    fl_dataset_free(d);
}

static void a_missing_file_is_an_error(void **state)
{
    fl_dataset *d = new_dataset("QueueDataset", NULL);
    char path[256];
    const char *one = path;

    (void)state;
    snprintf(path, sizeof(path), "%s/nowhere", folder);
    assert_true(fl_dataset_set_filelist(d, &one, 1));
    assert_said("nowhere");
    /* There when it was listed, gone when it is read. */
    write_keys("gone", 0, 10);
    set_files(d, "gone");
    snprintf(path, sizeof(path), "%s/gone", folder);
    assert_int_equal(unlink(path), 0);
    for (int n = 1; n <= 4; n += 3) {
        outcome o;

        run_pass(d, n, 32, 0, &o);
        for (int i = 0; i < n; i++) {
            assert_true(o.err[i].status != FL_OK);
            assert_non_null(strstr(o.err[i].text, "gone"));
        }
    }
    fl_dataset_free(d);
}

static void write_bad_file(const char *name, int n_bad)
{
    fl_str s = { 0 };

    for (uint64_t key = 0; key < 100; key++)
        add_line(&s, key);
    for (int i = 0; i < n_bad; i++)
        fl_str_add(&s, "1 x\n");
    for (uint64_t key = 100; key < PER_FILE; key++)
        add_line(&s, key);
    write_text(name, fl_str_text(&s));
    fl_str_release(&s);
}

static void bad_lines_are_left_out_and_counted(void **state)
{
    fl_dataset *d;
    fl_dataset_stats stats = FL_INIT(fl_dataset_stats);
    outcome o;

    (void)state;
    write_bad_file("bad", 1);
    for (int in_memory = 0; in_memory < 2; in_memory++) {
        d = new_dataset(in_memory ? "InMemoryDataset" : "QueueDataset", "bad");
        if (in_memory)
            assert_ok(fl_dataset_load_into_memory(d));
        run_pass(d, 2, 10, 1, &o);
        assert_int_equal(o.n_rows, PER_FILE);
        stats = dataset_stats(d);
        assert_int_equal(stats.bad_lines, 1);
        assert_int_equal(stats.lines, PER_FILE + 1);
        assert_int_equal(stats.records, PER_FILE);
        assert_int_equal(stats.files, 1);
        fl_dataset_free(d);
    }
}

static void too_many_bad_lines_end_the_pass(void **state)
{
    fl_dataset *d;
    outcome o;

    (void)state;
    write_bad_file("worse", 20);
    assert_ok(fl_conf_set(&conf, "max_bad_lines", "10"));
    d = new_dataset("QueueDataset", "worse");
    run_pass(d, 3, 10, 1, &o);
    for (int i = 0; i < 3; i++)
        assert_true(o.err[i].status != FL_OK);
    fl_dataset_free(d);
    d = new_dataset("InMemoryDataset", "worse");
    assert_true(fl_dataset_load_into_memory(d));
    assert_int_equal(fl_dataset_get_memory_data_size(d), 0);
    assert_int_equal(fl_dataset_begin(d, 1), FL_ERR_INVAL);
    fl_dataset_free(d);
    assert_ok(fl_conf_set(&conf, "max_bad_lines", "1000"));
}

/* --- settings ------------------------------------------------------------ */

static void an_empty_file_gives_no_batch(void **state)
{
    static const char *const kinds[] = { "QueueDataset", "InMemoryDataset" };
    const fl_feed *feeds;
    size_t n;

    (void)state;
    write_text("empty", "");
    for (size_t i = 0; i < FL_LEN(kinds); i++) {
        fl_dataset *d = new_dataset(kinds[i], "empty");

        if (i == 1)
            assert_ok(fl_dataset_load_into_memory(d));
        assert_ok(fl_dataset_begin(d, 1));
        for (int k = 0; k < 2; k++) {
            assert_ok(fl_dataset_next(d, 0, &feeds, &n));
            assert_null(feeds);
            assert_int_equal(n, 0);
        }
        assert_int_equal(dataset_stats(d).empty_files, 1);
        fl_dataset_end(d);
        assert_int_equal(dataset_stats(d).files, 1);
        fl_dataset_free(d);
    }
}

static void a_pipe_command_makes_the_text(void **state)
{
    fl_dataset *d = new_dataset("QueueDataset", "part-*");

    (void)state;
    fl_dataset_set_thread(d, 3);
    fl_dataset_set_pipe_command(d, "sed s/^1/1/");
    check_full_pass(d, 2, 50);
    fl_dataset_set_pipe_command(d, "cat");
    check_full_pass(d, 2, 50);
    fl_dataset_free(d);
}

static void a_second_pass_comes_from_the_cache(void **state)
{
    (void)state;
    for (int pass = 0; pass < 3; pass++) {
        fl_dataset *d = new_dataset("QueueDataset", "part-*");

        fl_dataset_set_thread(d, 4);
        fl_dataset_set_cache(d, cache_folder);
        check_full_pass(d, 2, 64);
        assert_int_equal(dataset_stats(d).cached_files, pass ? N_FILES : 0);
        assert_int_equal(dataset_stats(d).records, N_KEYS);
        fl_dataset_free(d);
    }
}

/* Which keys come out of a part of the files; each once. */
static void read_part(const char *options, int n_threads, uint32_t *seen)
{
    fl_dataset *d = new_dataset("QueueDataset", "part-*");
    const fl_feed *feeds = NULL;
    size_t n_rows, n = 0;

    fl_dataset_set_thread(d, n_threads);
    fl_dataset_set_cache(d, cache_folder);
    assert_ok(fl_dataset_set_options(d, options));
    assert_ok(fl_dataset_begin(d, 1));
    do {
        assert_ok(fl_dataset_next(d, 0, &feeds, &n_rows));
        if (feeds)
            check_key_feeds(feeds, n_rows, seen, N_KEYS);
        n += feeds ? n_rows : 0;
    } while (feeds);
    assert_int_equal(fl_dataset_set_options(d, NULL), FL_ERR_INVAL);
    fl_dataset_end(d);
    assert_int_equal(dataset_stats(d).records, n);
    fl_dataset_free(d);
}

static void parts_do_not_depend_on_threads_or_caches(void **state)
{
    uint32_t one[N_KEYS] = { 0 }, many[N_KEYS] = { 0 }, all[N_KEYS] = { 0 };

    (void)state;
    read_part("split=0-70", 1, one);
    read_part("split=0-70", 4, many);
    assert_memory_equal(one, many, sizeof(one));
    read_part("split=0-70", 1, all);
    read_part("split=70-100", 3, all);
    assert_each_once(all, N_KEYS);
}

static void stats_tell_what_the_pass_saw(void **state)
{
    fl_dataset *d = new_dataset("QueueDataset", "part-*");
    fl_dataset_stats s = FL_INIT(fl_dataset_stats);

    (void)state;
    check_full_pass(d, 1, 100);
    s = dataset_stats(d);
    assert_int_equal(s.files, N_FILES);
    assert_int_equal(s.lines, N_KEYS);
    assert_int_equal(s.records, N_KEYS);
    assert_int_equal(s.bad_lines, 0);
    assert_true(s.bytes > N_KEYS * 20);
    assert_true(s.wait_seconds >= 0);
    fl_dataset_free(d);
}

static void feeds_have_the_wanted_shapes(void **state)
{
    const fl_shape shapes[] = {
        { .rank = 1, .dim = { -1 } },
        { .rank = 2, .dim = { -1, 1 } },
        { .rank = 3, .dim = { -1, 2, 1 } },
    };
    static const char *const kinds[] = { "QueueDataset", "InMemoryDataset" };

    (void)state;
    for (size_t i = 0; i < FL_LEN(kinds); i++) {
        fl_dataset *d = new_dataset(kinds[i], "part-0");
        const fl_feed *feeds;
        size_t n;

        assert_ok(fl_dataset_set_shaped_slots(d, key_slots, shapes, 3));
        if (i == 1)
            assert_ok(fl_dataset_load_into_memory(d));
        assert_ok(fl_dataset_begin(d, 1));
        assert_ok(fl_dataset_next(d, 0, &feeds, &n));
        assert_int_equal(feeds[0].value.shape.rank, 1);
        assert_int_equal(feeds[0].value.shape.dim[0], 32);
        assert_int_equal(feeds[1].value.shape.dim[0],
                         feeds[1].value.lod[0][32]);
        assert_int_equal(feeds[2].value.shape.rank, 3);
        assert_int_equal(feeds[2].value.shape.dim[0], 32);
        assert_int_equal(feeds[2].value.shape.dim[1], 2);
        assert_string_equal(feeds[2].name, "pair");
        fl_dataset_free(d);
    }
}

static void slots_are_there_when_they_are_set(void **state)
{
    fl_dataset *d = new_dataset("InMemoryDataset", NULL);
    const fl_slot *slots;
    size_t n;

    (void)state;
    slots = fl_dataset_slots(d, &n);
    assert_int_equal(n, 3);
    assert_string_equal(slots[1].name, "list");
    set_files(d, "part-0");
    assert_ok(fl_dataset_load_into_memory(d));
    assert_string_equal(fl_dataset_slots(d, &n)[2].name, "pair");
    assert_int_equal(fl_dataset_threads(d), 1);
    fl_dataset_free(d);
}

/* The first file is empty, so the second one tells. */
static void a_format_with_a_header_brings_its_slots(void **state)
{
    fl_dataset *d = NULL;
    const fl_slot *slots;
    key_vec keys = { 0 };
    size_t n;

    (void)state;
    write_text("head-0", "");
    write_text("head-1", "#slots id:u64:1 words:u64 x:float:2\n"
                         "1 5 2 1 2 2 0.5 1\n1 6 1 3 2 0 0\n");
    assert_ok(fl_dataset_make(&d, &conf, "QueueDataset"));
    set_files(d, "head-*");
    assert_ok(fl_dataset_set_format(d, "multislot_header"));
    for (int pass = 0; pass < 2; pass++) {
        fl_dataset_set_pipe_command(d, pass ? "sed s/words/terms/" : NULL);
        slots = fl_dataset_slots(d, &n);
        assert_int_equal(n, 3);
        assert_string_equal(slots[1].name, pass ? "terms" : "words");
        assert_int_equal(slots[2].width, 2);
        assert_ok(read_keys(d, &keys));
        assert_int_equal(keys.len, 2);
        assert_int_equal(keys.data[1], 6);
        keys.len = 0;
    }
    fl_vec_release(&keys);
    fl_dataset_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_queue_gives_every_record_once),
        cmocka_unit_test(memory_gives_every_record_once),
        cmocka_unit_test(one_thread_keeps_the_order_of_the_files),
        cmocka_unit_test(a_pass_can_end_at_any_batch),
        cmocka_unit_test(the_end_wakes_a_consumer_that_waits),
        cmocka_unit_test(calls_in_the_wrong_order_say_what_comes_first),
        cmocka_unit_test(a_description_gives_slots_before_there_are_files),
        cmocka_unit_test(a_dataset_without_slots_says_so),
        cmocka_unit_test(memory_that_is_not_loaded_says_so),
        cmocka_unit_test(a_missing_file_is_an_error),
        cmocka_unit_test(bad_lines_are_left_out_and_counted),
        cmocka_unit_test(too_many_bad_lines_end_the_pass),
        cmocka_unit_test(an_empty_file_gives_no_batch),
        cmocka_unit_test(a_pipe_command_makes_the_text),
        cmocka_unit_test(a_second_pass_comes_from_the_cache),
        cmocka_unit_test(parts_do_not_depend_on_threads_or_caches),
        cmocka_unit_test(stats_tell_what_the_pass_saw),
        cmocka_unit_test(feeds_have_the_wanted_shapes),
        cmocka_unit_test(slots_are_there_when_they_are_set),
        cmocka_unit_test(a_format_with_a_header_brings_its_slots),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
