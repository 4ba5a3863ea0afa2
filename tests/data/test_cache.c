/* test_cache.c - what is written into a cache comes back to the bit, for the
 * same source and settings only, whoever writes at the same time. */
#include "cache_kit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/thread.h"

#define N_THREADS 4
#define N_ADDS 40
#define ADD_ROWS 300
#define NOBODY 65534

/* --- round trip ---------------------------------------------------------- */

static fl_schema draw_schema(uint64_t *seed)
{
    static char names[40][8];
    fl_slot slots[40];
    size_t n = 1 + draw(seed) % FL_LEN(slots);
    fl_schema s;

    for (size_t i = 0; i < n; i++) {
        uint64_t x = draw(seed);
        bool ids = x & 1;

        snprintf(names[i], sizeof(names[i]), "s%zu", i);
        slots[i] = (fl_slot){ .name = names[i],
                              .kind = ids ? FL_SLOT_IDS : FL_SLOT_FLOATS,
                              .width = x & 2 ? 0 : 1 + (x >> 8) % 17,
                              .height = ids && (x & 4) ? 1 + (x >> 32) : 0 };
    }
    assert_ok(fl_schema_init(&s, slots, n));
    return s;
}

static void assert_same_column(const fl_slot *slot, const fl_column *a,
                               const fl_column *b, size_t n_rows)
{
    assert_int_equal(a->n_values, b->n_values);
    assert_memory_equal(a->values, b->values,
                        a->n_values * fl_slot_bytes(slot));
    if (slot->width == 0)
        assert_memory_equal(a->offsets, b->offsets,
                            (n_rows + 1) * sizeof(*a->offsets));
}

/* Chunk by chunk, the columns are those that the rows would be gathered to. */
static void assert_same_columns(const fl_cache *c, const fl_schema *s,
                                const fl_records *rows)
{
    const uint32_t **at = calloc(rows->n + 1, sizeof(*at));
    fl_columns got, want;
    size_t done = 0;

    assert_non_null(at);
    for (size_t i = 0; i < rows->n; i++)
        at[i] = fl_records_at(rows, i);
    fl_columns_init(&got, s);
    fl_columns_init(&want, s);
    for (size_t i = 0; i < fl_cache_chunks(c); i++) {
        assert_ok(fl_cache_columns(c, i, &got));
        assert_ok(fl_columns_gather(&want, at + done, got.n_rows));
        for (uint32_t k = 0; k < s->n_slots; k++) {
            assert_same_column(&s->slots[k], &got.cols[k], &want.cols[k],
                               got.n_rows);
            assert_string_equal(got.feeds[k].name, s->slots[k].name);
            assert_ptr_equal(got.feeds[k].value.data, got.cols[k].values);
        }
        done += got.n_rows;
    }
    assert_int_equal(done, rows->n);
    fl_columns_release(&got);
    fl_columns_release(&want);
    free(at);
}

static void assert_round_trip(const fl_schema *s, const fl_records *rows)
{
    fl_cache *c;
    fl_records back;

    write_rows(s, rows);
    c = open_cache(s);
    assert_non_null(c);
    assert_int_equal(fl_cache_records(c), rows->n);
    back = read_rows(c);
    assert_same_rows(&back, rows);
    assert_same_columns(c, s, rows);
    fl_records_release(&back);
    fl_cache_close(c);
    assert_int_equal(count_files(true), 1);
}

static void random_records_of_random_slots_come_back(void **state)
{
    uint64_t seed = 5;

    (void)state;
    for (int i = 0; i < 25; i++) {
        fl_schema s = draw_schema(&seed);
        fl_records rows = make_rows(&s, draw(&seed) % 400, draw(&seed));

        assert_round_trip(&s, &rows);
        fl_records_release(&rows);
        fl_schema_release(&s);
    }
}

static void many_records_fill_several_chunks(void **state)
{
    static const size_t numbers[] = {
        1, 4095, 4096, 4097, 8192, 2 * 4096 + 77
    };
    fl_schema s = small_schema();

    (void)state;
    for (size_t i = 0; i < FL_LEN(numbers); i++) {
        fl_records rows = make_rows(&s, numbers[i], i);

        assert_round_trip(&s, &rows);
        fl_records_release(&rows);
    }
    fl_schema_release(&s);
}

/* One record after the other of 300,000 ids: 2.4 MB each. */
static void long_records_come_in_small_chunks(void **state)
{
    fl_slot slot = { .name = "ids", .kind = FL_SLOT_IDS };
    fl_records rows = { 0 };
    fl_schema s;
    fl_row_writer w = { .schema = &s, .rows = &rows };
    fl_cache *c;
    fl_records back;
    uint64_t seed = 1;

    (void)state;
    assert_ok(fl_schema_init(&s, &slot, 1));
    for (int i = 0; i < 10; i++) {
        assert_ok(fl_row_open(&w, 300000));
        fl_row_slot(&w, &s.slots[0], 0, 300000);
        add_values(&w, &s.slots[0], 300000, &seed);
        fl_row_close(&w);
    }
    write_rows(&s, &rows);
    c = open_cache(&s);
    assert_non_null(c);
    assert_int_equal(fl_cache_chunks(c), 4); /* three fit into one */
    back = read_rows(c);
    assert_same_rows(&back, &rows);
    fl_records_release(&back);
    fl_records_release(&rows);
    fl_cache_close(c);
    fl_schema_release(&s);
}

static void a_cache_may_have_no_records(void **state)
{
    fl_schema s = small_schema();
    fl_records none = { 0 };
    fl_cache_writer *w = NULL;
    fl_cache *c;

    (void)state;
    assert_ok(fl_cache_writer_new(&w, folder, &a_key, &s));
    assert_ok(fl_cache_writer_add(w, &none));
    assert_ok(fl_cache_writer_commit(w, 12, 12));
    c = open_cache(&s);
    assert_non_null(c);
    assert_int_equal(fl_cache_chunks(c), 0);
    assert_int_equal(fl_cache_records(c), 0);
    assert_int_equal(fl_cache_lines(c), 12);
    assert_int_equal(fl_cache_bad_lines(c), 12);
    fl_cache_close(c);
    fl_schema_release(&s);
}

static void rows_that_come_in_pieces_keep_their_order(void **state)
{
    fl_schema s = small_schema();
    fl_records all = { 0 };
    fl_cache_writer *w = NULL;
    fl_records back;
    fl_cache *c;

    (void)state;
    assert_ok(fl_cache_writer_new(&w, folder, &a_key, &s));
    for (size_t i = 0; i < 60; i++) {
        fl_records rows = make_rows(&s, i * 7 % 500, i);

        assert_ok(fl_cache_writer_add(w, &rows));
        assert_ok(fl_records_move_tail(&rows, 0, &all));
        fl_records_release(&rows);
    }
    assert_ok(fl_cache_writer_commit(w, all.n + 3, 3));
    c = open_cache(&s);
    assert_non_null(c);
    assert_int_equal(fl_cache_lines(c), all.n + 3);
    assert_int_equal(fl_cache_bad_lines(c), 3);
    back = read_rows(c);
    assert_same_rows(&back, &all);
    fl_records_release(&back);
    fl_records_release(&all);
    fl_cache_close(c);
    fl_schema_release(&s);
}

/* --- key ----------------------------------------------------------------- */

/* Puts the cache where that of another key would be, and asks for it. */
static bool fits(const fl_cache_key *k, const fl_schema *s)
{
    char from[PATH_ROOM], to[PATH_ROOM];
    fl_cache *c = NULL;

    cache_path(from);
    fl_cache_path(k, folder, to, sizeof(to));
    assert_int_equal(rename(from, to), 0);
    assert_ok(fl_cache_open(&c, folder, k, s));
    assert_int_equal(rename(to, from), 0);
    fl_cache_close(c);
    return c != NULL;
}

static void another_value_of_the_key_is_another_cache(void **state)
{
    fl_schema s = small_schema();
    fl_records rows = make_rows(&s, 10, 1);
    fl_cache_key keys[6];

    (void)state;
    for (size_t i = 0; i < FL_LEN(keys); i++)
        keys[i] = a_key;
    keys[0].source = "/data/part-1";
    keys[1].source_bytes++;
    keys[2].source_mtime_ns--;
    keys[3].parser_hash ^= 1;
    keys[4].pipe_command = "zcat";
    keys[5].source = "/data/part-0/";
    write_rows(&s, &rows);
    for (size_t i = 0; i < FL_LEN(keys); i++)
        if (fits(&keys[i], &s))
            fail_msg("key %zu fits", i);
    keys[0] = a_key;
    keys[0].pipe_command = ""; /* as NULL: none */
    assert_true(fits(&keys[0], &s));
    fl_records_release(&rows);
    fl_schema_release(&s);
}

static void another_slot_is_another_cache(void **state)
{
    fl_schema s = small_schema();
    fl_records rows = make_rows(&s, 10, 1);
    fl_slot changes[][FL_LEN(small_slots)] = {
        { { 0 } }, { { 0 } }, { { 0 } }, { { 0 } }, { { 0 } }
    };

    (void)state;
    write_rows(&s, &rows);
    for (size_t i = 0; i < FL_LEN(changes); i++)
        memcpy(changes[i], small_slots, sizeof(small_slots));
    changes[0][1].name = "sense";
    changes[1][1].width = 4;
    changes[2][2].height = 999;
    changes[3][4].kind = FL_SLOT_IDS;
    for (size_t i = 0; i < FL_LEN(changes); i++) {
        size_t n = FL_LEN(small_slots) - (i == 4);
        fl_schema other;

        assert_ok(fl_schema_init(&other, changes[i], n));
        if (fits(&a_key, &other))
            fail_msg("slots %zu fit", i);
        fl_schema_release(&other);
    }
    assert_true(fits(&a_key, &s));
    fl_records_release(&rows);
    fl_schema_release(&s);
}

static void the_key_of_a_file_follows_the_file(void **state)
{
    char path[PATH_ROOM];
    struct timespec times[2] = { { 100, 5 }, { 200, 7 } };
    fl_cache_key k;

    (void)state;
    snprintf(path, sizeof(path), "%s/text", folder);
    assert_ok(fl_file_write(path, "12345", 5));
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_ok(fl_cache_key_of(&k, path, 9, "cut -f1"));
    assert_string_equal(k.source, path);
    assert_int_equal(k.source_bytes, 5);
    assert_true(k.source_mtime_ns == UINT64_C(200000000007));
    assert_int_equal(k.parser_hash, 9);
    assert_string_equal(k.pipe_command, "cut -f1");
    assert_int_equal(fl_cache_key_of(&k, "/no/such", 9, NULL), FL_ERR_IO);
    assert_said("/no/such");
    assert_int_equal(fl_cache_key_of(&k, folder, 9, NULL), FL_ERR_INVAL);
    assert_said(folder);
}

static void names_stay_in_the_directory(void **state)
{
    fl_cache_key k = a_key;
    char long_source[400], path[PATH_ROOM];

    (void)state;
    k.source = "../up/a b%s\n.gz";
    fl_cache_path(&k, "/c", path, sizeof(path));
    assert_memory_equal(path, "/c/a_b_s_.gz-", 13);
    assert_string_equal(path + 29, ".flcache");
    memset(long_source, 'x', sizeof(long_source));
    long_source[sizeof(long_source) - 1] = '\0';
    k.source = long_source;
    fl_cache_path(&k, "/c", path, sizeof(path));
    assert_int_equal(strlen(path), 3 + 64 + 17 + 8);
}

/* --- failures ------------------------------------------------------------ */

static fl_status try_new(const char *directory)
{
    fl_schema s = small_schema();
    fl_cache_writer *w = NULL;
    fl_status st = fl_cache_writer_new(&w, directory, &a_key, &s);

    if (!st)
        fl_cache_writer_drop(w);
    else
        assert_null(w);
    fl_schema_release(&s);
    return st;
}

static void a_missing_directory_is_made(void **state)
{
    char deep[PATH_ROOM];

    (void)state;
    snprintf(deep, sizeof(deep), "%s/cache", folder);
    assert_ok(try_new(deep));
    assert_int_equal(rmdir(deep), 0); /* is there, and empty again */
    snprintf(deep, sizeof(deep), "%s/no/cache", folder);
    assert_int_equal(try_new(deep), FL_ERR_NOTFOUND);
    assert_said(deep);
}

static void a_directory_that_is_a_file_is_said(void **state)
{
    char file[PATH_ROOM];
    fl_schema s = small_schema();
    fl_cache *c = NULL;

    (void)state;
    snprintf(file, sizeof(file), "%s/text", folder);
    assert_ok(fl_file_write(file, "x", 1));
    assert_int_equal(try_new(file), FL_ERR_IO);
    assert_said(file);
    assert_said("Not a directory");
    assert_ok(fl_cache_open(&c, file, &a_key, &s));
    assert_null(c);
    fl_schema_release(&s);
}

static void a_directory_without_permission_is_said(void **state)
{
    bool root = geteuid() == 0;
    fl_status st;

    (void)state;
    assert_int_equal(chmod(folder, 0555), 0);
    if (root)
        assert_int_equal(seteuid(NOBODY), 0);
    st = try_new(folder);
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(st, FL_ERR_IO);
    assert_said(folder);
    assert_said("Permission denied");
}

/* Adds until it fails, with files limited to so many bytes. */
static fl_status add_to_small_disk(fl_cache_writer *w, const fl_records *rows,
                                   size_t bytes)
{
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    struct rlimit was, limit;
    fl_status st = FL_OK;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    limit = was;
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    for (int i = 0; i < 100 && !st; i++)
        st = fl_cache_writer_add(w, rows);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    (void)signal(SIGXFSZ, handler);
    return st;
}

static void a_full_disk_ends_the_writer_for_good(void **state)
{
    fl_schema s = small_schema();
    fl_records rows = make_rows(&s, 500, 1);
    fl_cache_writer *w = NULL;

    (void)state;
    assert_ok(fl_cache_writer_new(&w, folder, &a_key, &s));
    assert_int_equal(add_to_small_disk(w, &rows, 20000), FL_ERR_IO);
    assert_said(folder);
    assert_said("File too large");
    assert_int_equal(fl_cache_writer_add(w, &rows), FL_ERR_IO);
    assert_said("File too large");
    assert_int_equal(fl_cache_writer_commit(w, 1, 0), FL_ERR_IO);
    assert_said("File too large");
    assert_int_equal(count_files(false), 0);
    fl_records_release(&rows);
    fl_schema_release(&s);
}

static void a_dropped_writer_leaves_nothing(void **state)
{
    fl_schema s = small_schema();
    fl_records rows = make_rows(&s, 5000, 1);
    fl_cache_writer *w = NULL;

    (void)state;
    assert_ok(fl_cache_writer_new(&w, folder, &a_key, &s));
    assert_ok(fl_cache_writer_add(w, &rows));
    assert_int_equal(count_files(false), 1);
    assert_null(open_cache(&s));
    fl_cache_writer_drop(w);
    fl_cache_writer_drop(NULL);
    assert_int_equal(count_files(false), 0);
    fl_records_release(&rows);
    fl_schema_release(&s);
}

static fl_status write_with_failure(const fl_schema *s, const fl_records *rows,
                                    uint64_t n)
{
    fl_cache_writer *w = NULL;
    fl_status added, st;

    assert_ok(fl_cache_writer_new(&w, folder, &a_key, s));
    fl_alloc_fail_after(n);
    added = fl_cache_writer_add(w, rows);
    st = fl_cache_writer_commit(w, rows->n, 0);
    fl_alloc_fail_after(0);
    if (added)
        assert_int_equal(st, added);
    return st;
}

static void writing_without_memory_is_an_error(void **state)
{
    fl_schema s = small_schema();
    fl_records rows = make_rows(&s, 5000, 1);
    size_t before = fl_data_bytes();
    fl_status st = FL_ERR_NOMEM;
    uint64_t n = 1;

    (void)state;
    for (; n < 200 && st; n++) {
        st = write_with_failure(&s, &rows, n);
        if (st)
            assert_int_equal(st, FL_ERR_NOMEM);
        assert_int_equal(count_files(false), st ? 0 : 1);
        assert_true(fl_data_bytes() == before);
    }
    assert_true(n > 5 && n < 200);
    fl_records_release(&rows);
    fl_schema_release(&s);
}

static void reading_without_memory_is_an_error(void **state)
{
    fl_schema s = small_schema();
    fl_records rows = make_rows(&s, 5000, 1);
    fl_status st = FL_ERR_NOMEM;
    size_t before;
    uint64_t n = 1;

    (void)state;
    write_rows(&s, &rows);
    before = fl_data_bytes();
    for (; n < 200 && st; n++) {
        fl_records back = { 0 };
        fl_cache *c = NULL;

        fl_alloc_fail_after(n);
        st = fl_cache_open(&c, folder, &a_key, &s);
        for (size_t i = 0; i < 2 && !st; i++)
            st = fl_cache_rows(c, i, &back);
        fl_alloc_fail_after(0);
        if (st)
            assert_int_equal(st, FL_ERR_NOMEM);
        fl_records_release(&back);
        fl_cache_close(c);
        assert_true(fl_data_bytes() == before);
    }
    assert_true(n > 5 && n < 200);
    fl_records_release(&rows);
    fl_schema_release(&s);
}

/* --- many at once -------------------------------------------------------- */

static void two_writers_of_one_cache_both_succeed(void **state)
{
    fl_schema s = small_schema();
    fl_records rows = make_rows(&s, 5000, 1);
    fl_cache_writer *a = NULL, *b = NULL;
    fl_cache *old, *c;
    fl_records back;

    (void)state;
    assert_ok(fl_cache_writer_new(&a, folder, &a_key, &s));
    assert_ok(fl_cache_writer_new(&b, folder, &a_key, &s));
    assert_ok(fl_cache_writer_add(a, &rows));
    assert_ok(fl_cache_writer_add(b, &rows));
    assert_ok(fl_cache_writer_commit(a, 1, 0));
    old = open_cache(&s);
    assert_non_null(old);
    assert_ok(fl_cache_writer_commit(b, 2, 0));
    c = open_cache(&s);
    assert_non_null(c);
    assert_int_equal(fl_cache_lines(c), 2);
    back = read_rows(old); /* its file has lost its name and nothing else */
    assert_same_rows(&back, &rows);
    fl_records_release(&back);
    fl_records_release(&rows);
    fl_cache_close(old);
    fl_cache_close(c);
    fl_schema_release(&s);
    assert_int_equal(count_files(false), 1);
}

static void two_processes_write_one_cache(void **state)
{
    fl_schema s = small_schema();
    fl_records rows = make_rows(&s, 5000, 1);
    int status = -1;
    pid_t child;

    (void)state;
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        fl_cache_writer *w = NULL;

        _exit(fl_cache_writer_new(&w, folder, &a_key, &s) ||
              fl_cache_writer_add(w, &rows) || fl_cache_writer_commit(w, 1, 0));
    }
    write_rows(&s, &rows);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(read_all(&s), FL_OK);
    assert_int_equal(count_files(false), 1);
    fl_records_release(&rows);
    fl_schema_release(&s);
}

/* Adds records whose first id tells who added them and which one it is. */
typedef struct adder {
    const fl_schema *schema;
    fl_cache_writer *w;
    uint64_t first;
    fl_status st;
} adder;

static void add_numbered(void *arg)
{
    adder *a = arg;
    fl_records rows = { 0 };
    fl_row_writer w = { .schema = a->schema, .rows = &rows };
    uint64_t id = a->first;

    for (int i = 0; i < N_ADDS && !a->st; i++) {
        fl_records_clear(&rows);
        for (int r = 0; r < ADD_ROWS && !a->st; r++, id++) {
            a->st = fl_row_open(&w, 2);
            if (a->st)
                break;
            fl_row_id(&w, id);
            fl_row_float(&w, (float)(id % 1000));
            fl_row_close(&w);
        }
        if (!a->st)
            a->st = fl_cache_writer_add(a->w, &rows);
    }
    fl_records_release(&rows);
}

static void assert_each_once(const fl_cache *c)
{
    bool *seen = calloc(N_THREADS * N_ADDS * ADD_ROWS, sizeof(*seen));
    fl_records rows = read_rows(c);

    assert_non_null(seen);
    assert_int_equal(rows.n, N_THREADS * N_ADDS * ADD_ROWS);
    for (size_t i = 0; i < rows.n; i++) {
        uint64_t id;
        float x;

        memcpy(&id, fl_records_at(&rows, i), sizeof(id));
        memcpy(&x, fl_records_at(&rows, i) + 2, sizeof(x));
        assert_true(id < rows.n && !seen[id]);
        assert_true(x == (float)(id % 1000));
        seen[id] = true;
    }
    fl_records_release(&rows);
    free(seen);
}

static void threads_that_add_at_once_lose_no_record(void **state)
{
    fl_slot slots[] = { { "id", FL_SLOT_IDS, 1, 0 },
                        { "x", FL_SLOT_FLOATS, 1, 0 } };
    fl_cache_writer *w = NULL;
    fl_thread *threads[N_THREADS];
    adder adders[N_THREADS];
    fl_schema s;
    fl_cache *c;

    (void)state;
    assert_ok(fl_schema_init(&s, slots, 2));
    assert_ok(fl_cache_writer_new(&w, folder, &a_key, &s));
    for (size_t i = 0; i < N_THREADS; i++) {
        adders[i] = (adder){ &s, w, i * N_ADDS * ADD_ROWS, FL_OK };
        assert_ok(
            fl_thread_start(&threads[i], "adder", add_numbered, &adders[i]));
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        fl_thread_join(threads[i]);
        assert_int_equal(adders[i].st, FL_OK);
    }
    assert_ok(fl_cache_writer_commit(w, 1, 0));
    c = open_cache(&s);
    assert_non_null(c);
    assert_each_once(c);
    fl_cache_close(c);
    fl_schema_release(&s);
}

#define test_in_folder(f) cmocka_unit_test_teardown(f, clear_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_folder(random_records_of_random_slots_come_back),
        test_in_folder(many_records_fill_several_chunks),
        test_in_folder(long_records_come_in_small_chunks),
        test_in_folder(a_cache_may_have_no_records),
        test_in_folder(rows_that_come_in_pieces_keep_their_order),
        test_in_folder(another_value_of_the_key_is_another_cache),
        test_in_folder(another_slot_is_another_cache),
        test_in_folder(the_key_of_a_file_follows_the_file),
        test_in_folder(names_stay_in_the_directory),
        test_in_folder(a_missing_directory_is_made),
        test_in_folder(a_directory_that_is_a_file_is_said),
        test_in_folder(a_directory_without_permission_is_said),
        test_in_folder(a_full_disk_ends_the_writer_for_good),
        test_in_folder(a_dropped_writer_leaves_nothing),
        test_in_folder(writing_without_memory_is_an_error),
        test_in_folder(reading_without_memory_is_an_error),
        test_in_folder(two_writers_of_one_cache_both_succeed),
        test_in_folder(two_processes_write_one_cache),
        test_in_folder(threads_that_add_at_once_lose_no_record),
    };

    return cmocka_run_group_tests_name("cache", tests, make_folder,
                                       remove_folder);
}
