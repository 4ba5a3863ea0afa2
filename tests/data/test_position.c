/* test_position.c - passes that stop anywhere and go on there. */
#include "dataset_files.h"

#define BATCH 32

typedef struct setting {
    const char *kind;
    int n_threads, n_consumers;
    bool is_cached, is_shuffled;
} setting;

static fl_dataset *open_data(const setting *s)
{
    fl_dataset *d = new_dataset(s->kind, "part-*");

    fl_dataset_set_batch_size(d, BATCH);
    fl_dataset_set_thread(d, s->n_threads);
    if (s->is_cached)
        fl_dataset_set_cache(d, cache_folder);
    if (!strcmp(s->kind, "InMemoryDataset")) {
        assert_ok(fl_dataset_load_into_memory(d));
        if (s->is_shuffled)
            assert_ok(fl_dataset_local_shuffle(d));
    }
    return d;
}

/* At most n batches, by the consumers in turn; keys of what was trained. */
static void train(fl_dataset *d, int n_consumers, size_t n, key_vec *keys)
{
    for (size_t i = 0; i < n; i++) {
        int consumer = (int)(i % (size_t)n_consumers);
        const fl_feed *feeds;
        size_t n_rows;

        assert_ok(fl_dataset_next(d, consumer, &feeds, &n_rows));
        if (!feeds)
            return;
        for (size_t k = 0; k < n_rows; k++)
            fl_vec_push(keys, ((uint64_t *)feeds[0].value.data)[k]);
        fl_dataset_trained(d, consumer);
    }
}

/* Trains n batches behind `p`, which becomes where it stops. */
static void train_some(const setting *s, size_t n, fl_position *p,
                       key_vec *keys)
{
    fl_dataset *d = open_data(s);
    fl_position now = { 0 };

    assert_ok(fl_dataset_begin_at(d, s->n_consumers, p->pass ? p : NULL));
    train(d, s->n_consumers, n, keys);
    assert_ok(fl_dataset_position(d, &now));
    fl_dataset_end(d);
    fl_dataset_free(d);
    fl_position_release(p);
    *p = now;
}

static void assert_keys_once(const key_vec *keys)
{
    uint32_t seen[N_KEYS] = { 0 };

    assert_int_equal(keys->len, N_KEYS);
    for (size_t i = 0; i < keys->len; i++)
        seen[keys->data[i]]++;
    assert_each_once(seen, N_KEYS);
}

static void go_on_everywhere(const setting *s, bool is_ordered)
{
    key_vec whole = { 0 };
    fl_position p = { 0 };

    train_some(s, SIZE_MAX, &p, &whole);
    fl_position_release(&p);
    assert_keys_once(&whole);
    for (size_t step = 1; step < 100; step += 13) {
        key_vec keys = { 0 };

        for (size_t before = SIZE_MAX; before != keys.len;) {
            before = keys.len;
            train_some(s, step, &p, &keys);
        }
        assert_keys_once(&keys);
        if (is_ordered)
            assert_memory_equal(keys.data, whole.data,
                                keys.len * sizeof(*keys.data));
        fl_vec_release(&keys);
        fl_position_release(&p);
    }
    fl_vec_release(&whole);
}

static void a_queue_goes_on_where_it_stopped(void **state)
{
    (void)state;
    go_on_everywhere(&(setting){ "QueueDataset", 1, 1, false, false }, true);
}

static void a_queue_of_many_threads_gives_each_record_once(void **state)
{
    (void)state;
    go_on_everywhere(&(setting){ "QueueDataset", 4, 3, false, false }, false);
}

static void a_cache_goes_on_where_it_stopped(void **state)
{
    (void)state;
    go_on_everywhere(&(setting){ "QueueDataset", 1, 1, true, false }, true);
    go_on_everywhere(&(setting){ "QueueDataset", 3, 2, true, false }, false);
}

/* The cache of a file is whole as soon as it was read, and several threads
   have written it in an order of their own. */
static void text_goes_on_as_text_beside_a_new_cache(void **state)
{
    setting s = { "QueueDataset", 4, 1, true, false };

    (void)state;
    for (size_t n = 1; n < 30; n += 4) {
        fl_position p = { 0 };
        key_vec keys = { 0 };

        train_some(&s, n, &p, &keys);
        train_some(&s, SIZE_MAX, &p, &keys);
        assert_keys_once(&keys);
        fl_vec_release(&keys);
        fl_position_release(&p);
        remove_all(cache_folder);
    }
}

static void memory_goes_on_where_it_stopped(void **state)
{
    (void)state;
    go_on_everywhere(&(setting){ "InMemoryDataset", 1, 1, false, false }, true);
    go_on_everywhere(&(setting){ "InMemoryDataset", 3, 2, false, true }, true);
}

static void memory_has_the_order_of_the_files_for_any_threads(void **state)
{
    for (int threads = 1; threads <= 4; threads++) {
        setting s = { "InMemoryDataset", threads, 1, false, false };
        fl_dataset *d = open_data(&s);
        uint64_t *keys = order_of(d, N_KEYS);

        (void)state;
        for (uint64_t i = 0; i < N_KEYS; i++)
            assert_int_equal(keys[i], i);
        fl_free(keys);
        fl_dataset_free(d);
    }
}

/* Every third batch was taken and not trained when it stopped. */
static void leave_gaps(const setting *s, fl_position *p, key_vec *keys)
{
    fl_dataset *d = open_data(s);
    const fl_feed *feeds;
    size_t n_rows;

    assert_ok(fl_dataset_begin(d, 1));
    for (int i = 0; i < 20; i++) {
        assert_ok(fl_dataset_next(d, 0, &feeds, &n_rows));
        if (i % 3 == 1)
            continue;
        for (size_t k = 0; k < n_rows; k++)
            fl_vec_push(keys, ((uint64_t *)feeds[0].value.data)[k]);
        fl_dataset_trained(d, 0);
    }
    assert_ok(fl_dataset_position(d, p));
    fl_dataset_end(d);
    fl_dataset_free(d);
}

static void batches_that_were_taken_and_not_trained_come_again(void **state)
{
    static const setting all[] = {
        { "QueueDataset", 1, 1, false, false },
        { "QueueDataset", 3, 1, false, false },
        { "QueueDataset", 2, 1, true, false },
        { "InMemoryDataset", 1, 1, false, true },
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(all); i++) {
        fl_position p = { 0 };
        key_vec keys = { 0 };

        leave_gaps(&all[i], &p, &keys);
        train_some(&all[i], 7, &p, &keys);
        train_some(&all[i], SIZE_MAX, &p, &keys);
        assert_keys_once(&keys);
        fl_vec_release(&keys);
        fl_position_release(&p);
    }
}

static void a_file_that_was_trained_is_not_read_again(void **state)
{
    setting s = { "QueueDataset", 1, 1, false, false };
    fl_position p = { 0 };
    key_vec keys = { 0 };

    (void)state;
    train_some(&s, 2 * PER_FILE / BATCH, &p, &keys);
    assert_true(p.files.data[0].is_done);
    write_text("part-0", "no record at all\n");
    train_some(&s, SIZE_MAX, &p, &keys);
    assert_keys_once(&keys);
    write_keys("part-0", 0, PER_FILE);
    fl_vec_release(&keys);
    fl_position_release(&p);
}

static fl_status begin(const setting *s, const char *pattern,
                       const fl_position *p)
{
    fl_dataset *d = open_data(s);
    const fl_feed *feeds = NULL;
    fl_status st;
    size_t n;

    if (pattern)
        set_files(d, pattern);
    st = fl_dataset_begin_at(d, 1, p);
    while (!st) {
        st = fl_dataset_next(d, 0, &feeds, &n);
        if (!feeds)
            break;
    }
    fl_dataset_end(d);
    fl_dataset_free(d);
    return st;
}

static void other_data_is_refused(void **state)
{
    setting s = { "QueueDataset", 1, 1, false, false };
    setting m = { "InMemoryDataset", 1, 1, false, true };
    fl_position p = { 0 };
    key_vec keys = { 0 };

    (void)state;
    train_some(&s, PER_FILE / BATCH + 5, &p, &keys);
    assert_int_equal(begin(&s, "part-0", &p), FL_ERR_NOTFOUND);
    assert_said("part-1 was trained in the pass that is gone on with, but is "
                "not among the 1 files");
    assert_int_equal(begin(&m, NULL, &p), FL_ERR_INVAL);
    assert_said("was over a QueueDataset, and this is an InMemoryDataset");
    p.pass = 3;
    assert_int_equal(begin(&s, NULL, &p), FL_ERR_INVAL);
    assert_said("was pass 3 over the files, and this is pass 1");
    p.pass = 1;
    write_keys("part-1", PER_FILE, PER_FILE + 3);
    assert_int_equal(begin(&s, NULL, &p), FL_ERR_CORRUPT);
    assert_said("it is another file now");
    write_keys("part-1", PER_FILE, 2 * PER_FILE);
    fl_position_release(&p);
    train_some(&m, 3, &p, &keys);
    p.n_records++;
    assert_int_equal(begin(&m, NULL, &p), FL_ERR_INVAL);
    assert_said("load and shuffle the same data");
    fl_vec_release(&keys);
    fl_position_release(&p);
}

static void a_pass_that_is_passed_over_counts(void **state)
{
    setting s = { "QueueDataset", 1, 1, false, false };
    fl_dataset *d = open_data(&s);
    fl_position p = { 0 };
    key_vec keys = { 0 };

    (void)state;
    assert_ok(fl_dataset_pass_over(d));
    assert_ok(fl_dataset_begin(d, 1));
    train(d, 1, 3, &keys);
    assert_ok(fl_dataset_position(d, &p));
    assert_int_equal(p.pass, 2);
    fl_dataset_end(d);
    fl_dataset_free(d);
    fl_vec_release(&keys);
    fl_position_release(&p);
}

static int drop_cache(void **state)
{
    (void)state;
    remove_all(cache_folder);
    return 0;
}

#define T(name) cmocka_unit_test_teardown(name, drop_cache)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_queue_goes_on_where_it_stopped),
        T(a_queue_of_many_threads_gives_each_record_once),
        T(a_cache_goes_on_where_it_stopped),
        T(text_goes_on_as_text_beside_a_new_cache),
        T(memory_goes_on_where_it_stopped),
        T(memory_has_the_order_of_the_files_for_any_threads),
        T(batches_that_were_taken_and_not_trained_come_again),
        T(a_file_that_was_trained_is_not_read_again),
        T(other_data_is_refused),
        T(a_pass_that_is_passed_over_counts),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
