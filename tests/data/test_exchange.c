/* test_exchange.c - records that change places between datasets: each is in
 * exactly one afterwards, and nothing that comes in is believed. */
#include "dataset_files.h"

#include "data/dataset/exchange.h"
#include "data/dataset/memory.h"

#define PROCESSES 5

static const uint32_t ranks[PROCESSES] = { 0, 1, 2, 3, 4 };

/* --- several processes in one --------------------------------------------- */

typedef struct exchange_group {
    fl_dataset *d[PROCESSES];
    fl_exchange *x[PROCESSES];
} exchange_group;

/* Each has a file of its own. */
static void exchange_group_load(exchange_group *t, int n_threads)
{
    char name[32];

    for (int i = 0; i < PROCESSES; i++) {
        snprintf(name, sizeof(name), "part-%d", i);
        t->d[i] = new_dataset("InMemoryDataset", name);
        fl_dataset_set_thread(t->d[i], n_threads);
        assert_ok(fl_dataset_load_into_memory(t->d[i]));
    }
}

static void exchange_group_free(exchange_group *t)
{
    for (int i = 0; i < PROCESSES; i++)
        fl_dataset_free(t->d[i]);
}

static void exchange_group_begin(exchange_group *t, uint64_t seed)
{
    for (uint32_t i = 0; i < PROCESSES; i++) {
        fl_exchange_args a = {
            .rank = i, .ranks = ranks, .n = PROCESSES, .seed = seed
        };

        assert_ok(fl_exchange_begin(&t->x[i], t->d[i], &a));
    }
}

/* Packs travel at once; returns whether there was one. */
static bool exchange_group_step(exchange_group *t, int from)
{
    fl_exchange_pack p;

    assert_ok(fl_exchange_next(t->x[from], &p));
    if (!p.words)
        return false;
    assert_true(p.to < PROCESSES && (int)p.to != from);
    assert_ok(fl_exchange_add(t->x[p.to], p.words, fl_exchange_pack_bytes(&p)));
    fl_exchange_pack_release(&p);
    return true;
}

static void exchange_group_exchange(exchange_group *t, uint64_t seed, int first)
{
    exchange_group_begin(t, seed);
    for (int i = 0; i < PROCESSES; i++)
        while (exchange_group_step(t, (i + first) % PROCESSES))
            ;
    for (int i = 0; i < PROCESSES; i++)
        assert_ok(fl_exchange_end(t->x[i]));
}

/* Where each record is; every one is somewhere, once and whole. */
static void exchange_group_look(exchange_group *t, uint8_t where[N_KEYS])
{
    uint32_t *seen = fl_alloc(N_KEYS * sizeof(*seen));

    for (int i = 0; i < PROCESSES; i++) {
        const fl_feed *feeds;
        uint64_t n_rows = 0;
        size_t n;

        assert_ok(fl_dataset_begin(t->d[i], 1));
        for (;;) {
            assert_ok(fl_dataset_next(t->d[i], 0, &feeds, &n));
            if (!feeds)
                break;
            check_key_feeds(feeds, n, seen, N_KEYS);
            n_rows += n;
            for (size_t r = 0; r < n; r++)
                where[((const uint64_t *)feeds[0].value.data)[r]] = (uint8_t)i;
        }
        fl_dataset_end(t->d[i]);
        assert_int_equal(fl_dataset_get_memory_data_size(t->d[i]), n_rows);
        assert_int_equal(fl_dataset_get_shuffle_data_size(t->d[i]), n_rows);
    }
    assert_each_once(seen, N_KEYS);
    fl_free(seen);
}

/* How far the ways from process to process are from uniform: with 20 degrees of
   freedom it is above 60 once in 100,000 times. */
static double chi_square(const uint8_t where[N_KEYS])
{
    double want = (double)PER_FILE / PROCESSES, sum = 0;
    uint64_t n[N_FILES][PROCESSES] = { 0 };

    for (size_t key = 0; key < N_KEYS; key++)
        n[key / PER_FILE][where[key]]++;
    for (int i = 0; i < N_FILES; i++)
        for (int k = 0; k < PROCESSES; k++)
            sum += ((double)n[i][k] - want) * ((double)n[i][k] - want) / want;
    return sum;
}

/* --- an exchange ---------------------------------------------------------- */

static void every_record_is_in_one_place_and_any_is_as_likely(void **state)
{
    uint8_t first[N_KEYS], second[N_KEYS];
    exchange_group t;

    (void)state;
    exchange_group_load(&t, 1);
    exchange_group_exchange(&t, 7, 0);
    exchange_group_look(&t, first);
    assert_true(chi_square(first) < 60);
    exchange_group_exchange(&t, 8, 0);
    exchange_group_look(&t, second);
    assert_true(chi_square(second) < 60);
    assert_memory_not_equal(first, second, sizeof(first));
    exchange_group_free(&t);
}

static void the_same_seed_gives_the_same_however_it_went(void **state)
{
    uint64_t *orders[2][PROCESSES];
    size_t n[2][PROCESSES];

    (void)state;
    for (int round = 0; round < 2; round++) {
        exchange_group t;

        exchange_group_load(&t, 1 + 7 * round);
        exchange_group_exchange(&t, 7, 3 * round);
        for (int i = 0; i < PROCESSES; i++) {
            n[round][i] = fl_dataset_get_memory_data_size(t.d[i]);
            orders[round][i] = order_of(t.d[i], n[round][i]);
        }
        exchange_group_free(&t);
    }
    for (int i = 0; i < PROCESSES; i++) {
        assert_int_equal(n[0][i], n[1][i]);
        assert_memory_equal(orders[0][i], orders[1][i],
                            n[0][i] * sizeof(uint64_t));
        fl_free(orders[0][i]);
        fl_free(orders[1][i]);
    }
}

static void alone_it_is_a_shuffle(void **state)
{
    fl_dataset *d = new_dataset("InMemoryDataset", "part-*");
    fl_exchange_args a = { .ranks = ranks, .n = 1, .seed = 3 };
    uint64_t *before, *after;
    fl_exchange_pack p;
    fl_exchange *x;

    (void)state;
    assert_ok(fl_dataset_load_into_memory(d));
    before = order_of(d, N_KEYS);
    assert_ok(fl_exchange_begin(&x, d, &a));
    assert_ok(fl_exchange_next(x, &p));
    assert_null(p.words);
    assert_ok(fl_exchange_end(x));
    check_full_pass(d, 3, 17);
    after = order_of(d, N_KEYS);
    assert_memory_not_equal(before, after, N_KEYS * sizeof(*after));
    assert_int_equal(fl_dataset_get_shuffle_data_size(d), N_KEYS);
    fl_free(before);
    fl_free(after);
    fl_dataset_free(d);
}

static void an_empty_dataset_takes_part(void **state)
{
    uint32_t seen[10] = { 0 };
    fl_dataset *d[2];
    fl_exchange *x[2];
    fl_exchange_pack p;
    const fl_feed *feeds;
    size_t n;

    (void)state;
    write_text("none", "");
    write_keys("ten", 0, 10);
    d[0] = new_dataset("InMemoryDataset", "none");
    d[1] = new_dataset("InMemoryDataset", "ten");
    for (uint32_t i = 0; i < 2; i++) {
        fl_exchange_args a = { .rank = i, .ranks = ranks, .n = 2, .seed = 1 };

        assert_ok(fl_dataset_load_into_memory(d[i]));
        assert_ok(fl_exchange_begin(&x[i], d[i], &a));
    }
    assert_ok(fl_exchange_next(x[0], &p));
    assert_null(p.words);
    assert_ok(fl_exchange_next(x[1], &p));
    assert_ok(fl_exchange_add(x[0], p.words, fl_exchange_pack_bytes(&p)));
    fl_exchange_pack_release(&p);
    assert_ok(fl_exchange_next(x[1], &p));
    assert_null(p.words);
    for (int i = 0; i < 2; i++) {
        assert_ok(fl_exchange_end(x[i]));
        assert_ok(fl_dataset_begin(d[i], 1));
        while (!fl_dataset_next(d[i], 0, &feeds, &n) && feeds)
            check_key_feeds(feeds, n, seen, 10);
        fl_dataset_free(d[i]);
    }
    assert_each_once(seen, 10);
}

static void what_is_not_loaded_cannot_be_exchanged(void **state)
{
    fl_exchange_args a = { .ranks = ranks, .n = 2 };
    fl_dataset *d = new_dataset("QueueDataset", "part-*");
    fl_exchange *x;

    (void)state;
    assert_int_equal(fl_exchange_begin(&x, d, &a), FL_ERR_INVAL);
    fl_dataset_free(d);
    d = new_dataset("InMemoryDataset", "part-*");
    assert_int_equal(fl_exchange_check(d), FL_ERR_INVAL);
    assert_int_equal(fl_exchange_begin(&x, d, &a), FL_ERR_INVAL);
    assert_said("nothing is loaded");
    fl_dataset_free(d);
}

static void one_that_is_given_up_leaves_nothing(void **state)
{
    size_t before = fl_data_bytes();
    fl_exchange_pack p;
    exchange_group t;

    (void)state;
    exchange_group_load(&t, 1);
    exchange_group_begin(&t, 1);
    assert_ok(fl_exchange_next(t.x[0], &p));
    for (int i = 0; i < PROCESSES; i++) {
        fl_exchange_drop(t.x[i]);
        assert_int_equal(fl_dataset_get_memory_data_size(t.d[i]), 0);
        assert_int_equal(fl_exchange_check(t.d[i]), FL_ERR_INVAL);
    }
    fl_exchange_pack_release(&p);
    fl_exchange_drop(NULL);
    exchange_group_free(&t);
    assert_int_equal(fl_data_bytes(), before);
}

static void no_memory_is_an_error(void **state)
{
    bool ends = false;

    (void)state;
    for (uint64_t n = 1; !ends; n++) {
        fl_exchange_args a = { .ranks = ranks, .n = 2, .seed = 1 };
        fl_dataset *d = new_dataset("InMemoryDataset", "part-0");
        fl_exchange_pack p = { 0 };
        fl_exchange *x = NULL;
        fl_status st;

        assert_ok(fl_dataset_load_into_memory(d));
        fl_alloc_fail_after(n);
        st = fl_exchange_begin(&x, d, &a);
        if (!st)
            st = fl_exchange_next(x, &p);
        if (!st)
            st = fl_exchange_add(x, p.words, fl_exchange_pack_bytes(&p));
        fl_alloc_fail_after(0);
        assert_true(!st || st == FL_ERR_NOMEM);
        ends = !st;
        fl_exchange_pack_release(&p);
        fl_exchange_drop(x);
        fl_dataset_free(d);
    }
}

/* --- packs that are not what they should be ------------------------------- */

/* A pack of process 1 for process 0, and an exchange that waits for it. */
static void make_pack(fl_dataset *d[2], fl_exchange *x[2], fl_exchange_pack *p)
{
    for (uint32_t i = 0; i < 2; i++) {
        fl_exchange_args a = { .rank = i, .ranks = ranks, .n = 2, .seed = 1 };

        d[i] = new_dataset("InMemoryDataset", "some");
        assert_ok(fl_dataset_load_into_memory(d[i]));
        assert_ok(fl_exchange_begin(&x[i], d[i], &a));
    }
    assert_ok(fl_exchange_next(x[1], p));
}

static void damaged_packs_are_refused_or_harmless(void **state)
{
    fl_exchange_pack p;
    fl_exchange *x[2];
    fl_dataset *d[2];
    uint8_t *bytes;
    size_t len;

    (void)state;
    write_keys("some", 0, 110);
    make_pack(d, x, &p);
    bytes = (uint8_t *)p.words;
    len = fl_exchange_pack_bytes(&p);
    for (size_t cut = 0; cut < len; cut += 1 + cut / 16) {
        /* On the heap, so that a look behind its end is seen. */
        uint8_t *part = fl_alloc(cut ? cut : 1);

        memcpy(part, bytes, cut);
        assert_int_equal(fl_exchange_add(x[0], part, cut), FL_ERR_CORRUPT);
        fl_free(part);
    }
    for (uint64_t i = 0; i < 4000; i++) {
        size_t at = fl_mix64(i) % len;
        uint8_t was = bytes[at];
        fl_status st;

        bytes[at] = (uint8_t)fl_mix64(i + 1000000);
        st = fl_exchange_add(x[0], bytes, len);
        assert_true(!st || st == FL_ERR_CORRUPT);
        bytes[at] = was;
    }
    assert_ok(fl_exchange_add(x[0], bytes, len));
    fl_exchange_pack_release(&p);
    for (int i = 0; i < 2; i++) {
        fl_exchange_drop(x[i]);
        fl_dataset_free(d[i]);
    }
}

static void records_with_other_slots_are_refused(void **state)
{
    static const fl_slot other[] = {
        { .name = "key", .kind = FL_SLOT_IDS, .width = 1 },
        { .name = "list", .kind = FL_SLOT_IDS },
        { .name = "couple", .kind = FL_SLOT_FLOATS, .width = 2 },
    };
    fl_exchange_args a = { .rank = 0, .ranks = ranks, .n = 2 };
    fl_exchange_pack p;
    fl_exchange *x[2], *y;
    fl_dataset *d[2], *e;

    (void)state;
    write_keys("some", 0, 20);
    make_pack(d, x, &p);
    e = new_dataset("InMemoryDataset", "some");
    assert_ok(fl_dataset_set_slots(e, other, FL_LEN(other)));
    assert_ok(fl_dataset_load_into_memory(e));
    assert_ok(fl_exchange_begin(&y, e, &a));
    assert_int_equal(fl_exchange_add(y, p.words, fl_exchange_pack_bytes(&p)),
                     FL_ERR_CORRUPT);
    assert_said("trainer 1 sent records with other slots");
    fl_exchange_pack_release(&p);
    fl_exchange_drop(y);
    fl_dataset_free(e);
    for (int i = 0; i < 2; i++) {
        fl_exchange_drop(x[i]);
        fl_dataset_free(d[i]);
    }
}

static void ids_above_the_height_are_refused(void **state)
{
    static const fl_slot low[] = {
        { .name = "key", .kind = FL_SLOT_IDS, .width = 1, .height = 20 },
        { .name = "list", .kind = FL_SLOT_IDS },
        { .name = "pair", .kind = FL_SLOT_FLOATS, .width = 2 },
    };
    fl_exchange_args a = { .rank = 0, .ranks = ranks, .n = 2 };
    uint64_t bad = 20;
    fl_exchange_pack p;
    fl_exchange *x;
    fl_dataset *d;

    (void)state;
    write_keys("some", 0, 20);
    d = new_dataset("InMemoryDataset", "some");
    assert_ok(fl_dataset_set_slots(d, low, FL_LEN(low)));
    assert_ok(fl_dataset_load_into_memory(d));
    assert_ok(fl_exchange_begin(&x, d, &a));
    assert_ok(fl_exchange_next(x, &p));
    assert_ok(fl_exchange_add(x, p.words, fl_exchange_pack_bytes(&p)));
    /* Behind the head and the counts of the first record is its key. */
    memcpy(p.words + 7, &bad, sizeof(bad));
    assert_int_equal(fl_exchange_add(x, p.words, fl_exchange_pack_bytes(&p)),
                     FL_ERR_CORRUPT);
    fl_exchange_pack_release(&p);
    fl_exchange_drop(x);
    fl_dataset_free(d);
}

/* --- draining ------------------------------------------------------------- */

static uint16_t tag_of_place(void *arg, uint64_t place)
{
    (void)arg;
    return (uint16_t)(place * 31);
}

static void records_free_their_memory_as_they_go(void **state)
{
    enum { N = 400000 };
    size_t before = fl_data_bytes(), full;
    uint32_t *seen = fl_alloc(N * sizeof(*seen));
    const uint32_t *row;
    fl_records rows = { 0 };
    fl_schema s;
    fl_memory *m;
    fl_drain *d;
    uint16_t tag;

    (void)state;
    assert_ok(fl_schema_init(&s, key_slots, FL_LEN(key_slots)));
    m = fl_memory_new(&s);
    add_key_records(&s, 0, N, &rows);
    assert_ok(fl_memory_add(m, &rows));
    fl_records_release(&rows);
    fl_memory_shuffle(m, 1);
    assert_ok(fl_memory_drain(m, tag_of_place, NULL, &d));
    assert_int_equal(fl_memory_len(m), 0);
    full = fl_data_bytes();
    for (uint64_t i = 0; (row = fl_drain_next(d, &tag)); i++) {
        uint64_t key;

        memcpy(&key, row + 1, sizeof(key));
        assert_true(key < N);
        seen[key]++;
        if (i == N / 2)
            assert_true(fl_data_bytes() < before + (full - before) * 2 / 3);
    }
    assert_each_once(seen, N);
    fl_drain_free(d);
    fl_memory_free(m);
    fl_schema_release(&s);
    fl_free(seen);
    assert_int_equal(fl_data_bytes(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_is_in_one_place_and_any_is_as_likely),
        cmocka_unit_test(the_same_seed_gives_the_same_however_it_went),
        cmocka_unit_test(alone_it_is_a_shuffle),
        cmocka_unit_test(an_empty_dataset_takes_part),
        cmocka_unit_test(what_is_not_loaded_cannot_be_exchanged),
        cmocka_unit_test(one_that_is_given_up_leaves_nothing),
        cmocka_unit_test(no_memory_is_an_error),
        cmocka_unit_test(damaged_packs_are_refused_or_harmless),
        cmocka_unit_test(records_with_other_slots_are_refused),
        cmocka_unit_test(ids_above_the_height_are_refused),
        cmocka_unit_test(records_free_their_memory_as_they_go),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
