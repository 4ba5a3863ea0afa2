/* test_memory.c - records in memory: small, each once, shuffled evenly. */
#include "dataset_kit.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/thread.h"
#include "base/vec.h"
#include "data/dataset/memory.h"

#define N_THREADS 8

/* Enough for several blocks. */
#define N_KEYS 60000

/* A permutation of six elements: 36 places, and 25 degrees of freedom since
   rows and columns have fixed sums. 99.99 % of draws are below the limit. */
#define N_ITEMS 6
#define N_DRAWS 20000
#define CHI_LIMIT 61.0

static fl_schema schema;

static int make_schema(void **state)
{
    (void)state;
    return fl_schema_init(&schema, key_slots, FL_LEN(key_slots)) ? -1 : 0;
}

static int drop_schema(void **state)
{
    (void)state;
    fl_schema_release(&schema);
    return 0;
}

static fl_memory *memory_of(uint64_t n_keys)
{
    fl_memory *m = fl_memory_new(&schema);
    fl_records r = { 0 };

    for (uint64_t lo = 0; lo < n_keys; lo += 1000) {
        add_key_records(&schema, lo, lo + 1000 < n_keys ? lo + 1000 : n_keys,
                        &r);
        assert_ok(fl_memory_add(m, &r));
        assert_int_equal(r.n, 0);
    }
    assert_int_equal(fl_memory_len(m), n_keys);
    fl_records_release(&r);
    return m;
}

/* The keys in their order, freed with fl_free; every record is checked. */
static uint64_t *keys_of(const fl_memory *m)
{
    uint64_t n = fl_memory_len(m);
    uint32_t *seen = fl_alloc(n * sizeof(*seen));
    uint64_t *keys = fl_alloc(n * sizeof(*keys));
    fl_columns c;

    fl_columns_init(&c, &schema);
    for (uint64_t lo = 0, hi; lo < n; lo = hi) {
        hi = n - lo < 777 ? n : lo + 777;
        assert_ok(fl_memory_batch(m, lo, hi, &c));
        check_key_feeds(c.feeds, c.n_rows, seen, n);
        memcpy(keys + lo, c.cols[0].values, (hi - lo) * sizeof(*keys));
    }
    assert_each_once(seen, n);
    fl_columns_release(&c);
    fl_free(seen);
    return keys;
}

static void records_stay_in_the_order_they_came(void **state)
{
    fl_memory *m = memory_of(N_KEYS);
    uint64_t *keys = keys_of(m);

    (void)state;
    for (uint64_t i = 0; i < N_KEYS; i++)
        assert_int_equal(keys[i], i);
    fl_free(keys);
    fl_memory_free(m);
}

typedef struct adder {
    fl_memory *memory;
    atomic_uint_fast64_t *next;
    fl_status st;
} adder;

static void add_some(void *arg)
{
    adder *a = arg;
    fl_records r = { 0 };
    uint64_t lo;

    while ((lo = atomic_fetch_add(a->next, 100)) < N_KEYS) {
        add_key_records(&schema, lo, lo + 100, &r);
        a->st = a->st ? a->st : fl_memory_add(a->memory, &r);
    }
    fl_records_release(&r);
}

static fl_memory *memory_by_threads(void)
{
    fl_memory *m = fl_memory_new(&schema);
    atomic_uint_fast64_t next = 0;
    fl_thread *threads[N_THREADS];
    adder adders[N_THREADS];

    for (int i = 0; i < N_THREADS; i++) {
        adders[i] = (adder){ m, &next, FL_OK };
        assert_ok(fl_thread_start(&threads[i], "adder", add_some, &adders[i]));
    }
    for (int i = 0; i < N_THREADS; i++) {
        fl_thread_join(threads[i]);
        assert_int_equal(adders[i].st, FL_OK);
    }
    return m;
}

static void a_sorted_order_does_not_tell_who_added(void **state)
{
    fl_memory *a = memory_of(N_KEYS), *b = memory_by_threads();
    uint64_t *x, *y;

    (void)state;
    assert_ok(fl_memory_sort(a));
    assert_ok(fl_memory_sort(b));
    x = keys_of(a);
    y = keys_of(b);
    assert_memory_equal(x, y, N_KEYS * sizeof(*x));
    fl_memory_shuffle(a, 9);
    fl_memory_shuffle(b, 9);
    fl_free(x);
    fl_free(y);
    x = keys_of(a);
    y = keys_of(b);
    assert_memory_equal(x, y, N_KEYS * sizeof(*x));
    fl_free(x);
    fl_free(y);
    fl_memory_free(a);
    fl_memory_free(b);
}

static void equal_records_are_sorted_together(void **state)
{
    fl_memory *m = fl_memory_new(&schema);
    fl_records r = { 0 };
    uint64_t last = UINT64_MAX;
    size_t changes = 0;
    fl_columns c;

    (void)state;
    for (int i = 0; i < 500; i++)
        add_key_records(&schema, 0, 20, &r);
    assert_ok(fl_memory_add(m, &r));
    assert_ok(fl_memory_sort(m));
    fl_columns_init(&c, &schema);
    assert_ok(fl_memory_batch(m, 0, 10000, &c));
    for (size_t i = 0; i < c.n_rows; i++) {
        changes += ((uint64_t *)c.cols[0].values)[i] != last;
        last = ((uint64_t *)c.cols[0].values)[i];
    }
    assert_int_equal(changes, 20);
    fl_columns_release(&c);
    fl_records_release(&r);
    fl_memory_free(m);
}

static void a_shuffle_depends_on_its_seed_alone(void **state)
{
    fl_memory *a = memory_of(5000), *b = memory_of(5000);
    uint64_t *x, *y, *z;

    (void)state;
    fl_memory_shuffle(a, 1);
    fl_memory_shuffle(b, 1);
    x = keys_of(a);
    y = keys_of(b);
    assert_memory_equal(x, y, 5000 * sizeof(*x));
    fl_memory_free(b);
    b = memory_of(5000);
    fl_memory_shuffle(b, 2);
    z = keys_of(b);
    assert_memory_not_equal(x, z, 5000 * sizeof(*x));
    fl_free(x);
    fl_free(y);
    fl_free(z);
    fl_memory_free(a);
    fl_memory_free(b);
}

static double chi_square(uint32_t places[N_ITEMS][N_ITEMS])
{
    const double expected = (double)N_DRAWS / N_ITEMS;
    double sum = 0;

    for (int i = 0; i < N_ITEMS; i++)
        for (int k = 0; k < N_ITEMS; k++) {
            double d = places[i][k] - expected;

            sum += d * d / expected;
        }
    return sum;
}

static void every_record_goes_to_every_place_as_often(void **state)
{
    uint32_t places[N_ITEMS][N_ITEMS] = { 0 };
    fl_memory *m = memory_of(N_ITEMS);
    uint64_t before[N_ITEMS], *after;

    (void)state;
    for (uint64_t seed = 0; seed < N_DRAWS; seed++) {
        after = keys_of(m);
        memcpy(before, after, sizeof(before));
        fl_free(after);
        fl_memory_shuffle(m, seed);
        after = keys_of(m);
        for (int i = 0; i < N_ITEMS; i++)
            for (int k = 0; k < N_ITEMS; k++)
                places[i][k] += before[i] == after[k];
        fl_free(after);
    }
    assert_true(chi_square(places) < CHI_LIMIT);
    fl_memory_free(m);
}

/* --- one slot ------------------------------------------------------------ */

static uint64_t first_of_list(const fl_columns *c, size_t i)
{
    return ((uint64_t *)c->cols[1].values)[c->cols[1].offsets[i]];
}

static uint32_t len_of_list(const fl_columns *c, size_t i)
{
    return (uint32_t)(c->cols[1].offsets[i + 1] - c->cols[1].offsets[i]);
}

/* Which key a record's list was made from; n when it is nobody's. */
static uint64_t owner_of_list(const fl_columns *c, size_t i, uint64_t n)
{
    for (uint64_t key = 0; key < n; key++)
        if (list_len(key) == len_of_list(c, i) &&
            list_at(key, 0) == first_of_list(c, i))
            return key;
    return n;
}

static void a_shuffled_list_keeps_the_rest_of_its_record(void **state)
{
    enum { N = 1000 };
    fl_memory *m = memory_of(N);
    uint32_t seen[N] = { 0 };
    size_t moved = 0;
    fl_columns c;

    (void)state;
    assert_ok(fl_memory_shuffle_slot(m, 1, 3));
    assert_int_equal(fl_memory_len(m), N);
    fl_columns_init(&c, &schema);
    assert_ok(fl_memory_batch(m, 0, N, &c));
    for (size_t i = 0; i < N; i++) {
        uint64_t owner = owner_of_list(&c, i, N);

        assert_int_equal(((uint64_t *)c.cols[0].values)[i], i);
        assert_true(((float *)c.cols[2].values)[2 * i + 1] == (float)i + 0.5f);
        assert_true(owner < N);
        seen[owner]++;
        moved += owner != i;
    }
    assert_each_once(seen, N);
    assert_true(moved > N / 2);
    fl_columns_release(&c);
    fl_memory_free(m);
}

static void a_shuffled_dense_slot_keeps_the_rest_of_its_record(void **state)
{
    enum { N = 1000 };
    fl_memory *m = memory_of(N);
    uint64_t bytes = fl_memory_bytes(m);
    uint32_t seen[N] = { 0 };
    size_t moved = 0;
    fl_columns c;

    (void)state;
    assert_ok(fl_memory_shuffle_slot(m, 2, 3));
    fl_columns_init(&c, &schema);
    assert_ok(fl_memory_batch(m, 0, N, &c));
    for (size_t i = 0; i < N; i++) {
        const float *pair = (float *)c.cols[2].values + 2 * i;

        assert_int_equal(((uint64_t *)c.cols[0].values)[i], i);
        assert_int_equal(owner_of_list(&c, i, N), i);
        assert_true(pair[1] == pair[0] + 0.5f);
        seen[(size_t)pair[0]]++;
        moved += pair[0] != (float)i;
    }
    assert_each_once(seen, N);
    assert_true(moved > N / 2);
    assert_int_equal(fl_memory_bytes(m), bytes);
    fl_columns_release(&c);
    fl_memory_free(m);
}

/* --- memory -------------------------------------------------------------- */

/* 26 lists of one id, 13 floats and a label: 268 bytes of values. */
static void add_ctr_records(const fl_schema *s, size_t n, fl_records *to)
{
    fl_row_writer w = { .schema = s, .rows = to };

    for (size_t r = 0; r < n; r++) {
        assert_ok(fl_row_open(&w, 40));
        fl_row_id(&w, r & 1);
        for (int i = 0; i < 13; i++)
            fl_row_float(&w, (float)i);
        for (uint32_t i = 0; i < 26; i++) {
            fl_row_slot(&w, &s->slots[2 + i], i, 1);
            fl_row_id(&w, fl_mix64(r * 26 + i));
        }
        fl_row_close(&w);
    }
}

static void a_record_takes_little_more_than_its_values(void **state)
{
    enum { N = 300000 };
    fl_slot slots[28] = {
        { .name = "label", .kind = FL_SLOT_IDS, .width = 1 },
        { .name = "dense", .kind = FL_SLOT_FLOATS, .width = 13 },
    };
    char names[26][8];
    fl_memory *m;
    fl_records r = { 0 };
    fl_schema s;
    double per_record;

    (void)state;
    for (int i = 0; i < 26; i++) {
        snprintf(names[i], sizeof(names[i]), "C%d", i + 1);
        slots[2 + i] = (fl_slot){ .name = names[i], .kind = FL_SLOT_IDS };
    }
    assert_ok(fl_schema_init(&s, slots, FL_LEN(slots)));
    m = fl_memory_new(&s);
    for (size_t i = 0; i < N / 500; i++) {
        add_ctr_records(&s, 500, &r);
        assert_ok(fl_memory_add(m, &r));
    }
    per_record = (double)fl_memory_bytes(m) / N;
    print_message("%.1f bytes per record, %.3f of its values\n", per_record,
                  per_record / 268);
    assert_true(per_record <= 1.3 * 268);
    fl_records_release(&r);
    fl_memory_free(m);
    fl_schema_release(&s);
}

static void a_record_larger_than_a_block_is_kept(void **state)
{
    enum { N = 1500000 };
    const fl_slot slot = { .name = "all", .kind = FL_SLOT_IDS };
    fl_records r = { 0 };
    fl_row_writer w = { .rows = &r };
    fl_columns c;
    fl_memory *m;
    fl_schema s;

    (void)state;
    assert_ok(fl_schema_init(&s, &slot, 1));
    w.schema = &s;
    for (uint32_t k = 0; k < 3; k++) {
        uint32_t n = k == 1 ? N : 2;

        assert_ok(fl_row_open(&w, n));
        fl_row_slot(&w, &slot, 0, n);
        for (uint64_t i = 0; i < n; i++)
            fl_row_id(&w, i + k);
        fl_row_close(&w);
    }
    m = fl_memory_new(&s);
    assert_ok(fl_memory_add(m, &r));
    fl_columns_init(&c, &s);
    assert_ok(fl_memory_batch(m, 0, 3, &c));
    assert_int_equal(c.cols[0].n_values, N + 4);
    assert_int_equal(((uint64_t *)c.cols[0].values)[N + 1], N);
    assert_int_equal(((uint64_t *)c.cols[0].values)[N + 3], 3);
    fl_columns_release(&c);
    fl_memory_free(m);
    fl_records_release(&r);
    fl_schema_release(&s);
}

static void without_memory_nothing_is_lost(void **state)
{
    fl_memory *m = memory_of(1000);
    fl_records r = { 0 };
    uint64_t *keys;

    (void)state;
    fl_alloc_fail_after(1);
    assert_int_equal(fl_memory_sort(m), FL_ERR_NOMEM);
    for (uint64_t n = 1; n <= 3; n++) {
        fl_alloc_fail_after(n);
        assert_int_equal(fl_memory_shuffle_slot(m, 1, 3), FL_ERR_NOMEM);
    }
    assert_said("slot list");
    fl_alloc_fail_after(0);
    keys = keys_of(m);
    fl_free(keys);
    fl_memory_free(m);
    m = fl_memory_new(&schema);
    add_key_records(&schema, 0, 1000, &r);
    for (uint64_t n = 1; n <= 2; n++) {
        fl_alloc_fail_after(n);
        assert_int_equal(fl_memory_add(m, &r), FL_ERR_NOMEM);
    }
    fl_alloc_fail_after(0);
    assert_ok(fl_memory_add(m, &r));
    keys = keys_of(m);
    fl_free(keys);
    fl_records_release(&r);
    fl_memory_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_stay_in_the_order_they_came),
        cmocka_unit_test(a_sorted_order_does_not_tell_who_added),
        cmocka_unit_test(equal_records_are_sorted_together),
        cmocka_unit_test(a_shuffle_depends_on_its_seed_alone),
        cmocka_unit_test(every_record_goes_to_every_place_as_often),
        cmocka_unit_test(a_shuffled_list_keeps_the_rest_of_its_record),
        cmocka_unit_test(a_shuffled_dense_slot_keeps_the_rest_of_its_record),
        cmocka_unit_test(a_record_takes_little_more_than_its_values),
        cmocka_unit_test(a_record_larger_than_a_block_is_kept),
        cmocka_unit_test(without_memory_nothing_is_lost),
    };

    return cmocka_run_group_tests(tests, make_schema, drop_schema);
}
