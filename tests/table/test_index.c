/* test_index.c - keys in the order of their hash, as another table gives them,
 * cost no more than keys in any other order. Work is counted, not timed: slots
 * that were moved and full buckets that were passed. */
#include "kit.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "table/index.h"

static int by_hash(const void *a, const void *b)
{
    uint64_t x = fl_index_hash(*(const uint64_t *)a);
    uint64_t y = fl_index_hash(*(const uint64_t *)b);

    return (x > y) - (x < y);
}

/* n keys, in the order of their hash, which is at least `from`. */
static uint64_t *sorted_keys(size_t n, uint64_t from)
{
    uint64_t *keys = fl_alloc(n * sizeof(*keys));
    size_t len = 0;

    for (uint64_t key = 0; len < n; key++)
        if (fl_index_hash(key) >= from)
            keys[len++] = key;
    qsort(keys, n, sizeof(*keys), by_hash);
    return keys;
}

static void add_all(fl_index *x, const uint64_t *keys, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_ok(fl_index_add(x, keys[i],
                               fl_index_place(x, fl_index_hash(keys[i])),
                               (uint32_t)i + 1));
}

static uint32_t *find(const fl_index *x, uint64_t key)
{
    return fl_index_find(x, key, fl_index_place(x, fl_index_hash(key)));
}

static void expect_all(const fl_index *x, const uint64_t *keys, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t *ref = find(x, keys[i]);

        assert_non_null(ref);
        assert_int_equal(*ref, i + 1);
    }
}

/* What it takes to add n keys in the order of their hash. */
static uint64_t count_work(size_t n)
{
    uint64_t *keys = sorted_keys(n, 0);
    fl_index x = { 0 };
    uint64_t work;

    add_all(&x, keys, n);
    work = x.slots_moved + x.passed;
    expect_all(&x, keys, n);
    fl_index_release(&x);
    fl_free(keys);
    return work;
}

static void keys_in_the_order_of_the_hash_cost_as_much_as_any(void **state)
{
    enum { N = 50000, TIMES = 8 };
    uint64_t few = count_work(N), many = count_work(TIMES * (size_t)N);

    (void)state;
    assert_true(many <= 2 * TIMES * few);
    assert_true(many <= 100 * TIMES * (uint64_t)N);
}

static void shuffle(uint64_t *keys, size_t n)
{
    uint64_t s = 1;

    for (size_t i = n; i > 1; i--) {
        size_t k = draw(&s) % i;
        uint64_t key = keys[i - 1];

        keys[i - 1] = keys[k];
        keys[k] = key;
    }
}

static void
keys_in_the_order_of_a_scan_take_no_longer_than_in_any_other(void **state)
{
    enum { N = 400000 };
    uint64_t *keys = sorted_keys(N, 0);
    uint64_t work[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        fl_index x = { 0 };

        add_all(&x, keys, N);
        expect_all(&x, keys, N);
        work[i] = x.slots_moved + x.passed;
        fl_index_release(&x);
        shuffle(keys, N);
    }
    assert_true(work[0] <= work[1]);
    fl_free(keys);
}

static void an_index_that_was_made_for_its_keys_moves_none(void **state)
{
    enum { N = 100000 };
    uint64_t *keys = sorted_keys(N, 0);
    fl_index x = { 0 };

    (void)state;
    add_all(&x, keys, 100);
    assert_ok(fl_index_reserve(&x, N));
    expect_all(&x, keys, 100);
    x.slots_moved = 0;
    for (size_t i = 100; i < N; i++)
        assert_ok(fl_index_add(&x, keys[i],
                               fl_index_place(&x, fl_index_hash(keys[i])),
                               (uint32_t)i + 1));
    assert_int_equal(x.slots_moved, 0);
    assert_true(x.passed <= N);
    expect_all(&x, keys, N);
    fl_alloc_fail_after(1);
    assert_int_equal(fl_index_reserve(&x, 10 * (uint64_t)N), FL_ERR_NOMEM);
    fl_alloc_fail_after(0);
    expect_all(&x, keys, N);
    fl_index_release(&x);
    fl_free(keys);
}

static void an_index_goes_on_moving_without_new_keys(void **state)
{
    enum { N = 100000, STEP = 100 };
    uint64_t *keys = sorted_keys(N, 0);
    fl_index x = { 0 };
    uint64_t before;
    size_t n = 0;

    (void)state;
    shuffle(keys, N);
    fl_index_go_on(&x, STEP); /* there is nothing yet */
    for (; n < N && (n < N / 2 || !x.old.buckets); n++)
        assert_ok(fl_index_add(&x, keys[n],
                               fl_index_place(&x, fl_index_hash(keys[n])),
                               (uint32_t)n + 1));
    for (size_t i = 0; x.old.buckets; i++) {
        assert_true(i < N / STEP);
        before = x.slots_moved;
        fl_index_go_on(&x, STEP);
        assert_true(!x.old.buckets || x.slots_moved >= before + STEP);
        assert_true(x.slots_moved <= before + STEP + FL_TABLE_RUN_MAX);
        if (i % 100 == 0)
            expect_all(&x, keys, n);
    }
    expect_all(&x, keys, n);
    before = x.slots_moved;
    fl_index_go_on(&x, STEP);
    assert_int_equal(x.slots_moved, before);
    fl_index_release(&x);
    fl_free(keys);
}

/* All of them in the last 64th of the hashes, where the array ends. */
static void keys_that_are_close_together_are_found_and_leave(void **state)
{
    enum { N = 20000 };
    uint64_t *keys = sorted_keys(N, UINT64_MAX / 64 * 63);
    fl_index x = { 0 };

    (void)state;
    add_all(&x, keys, N);
    expect_all(&x, keys, N);
    fl_index_fit(&x);
    expect_all(&x, keys, N);
    for (size_t i = 0; i < N; i++)
        fl_index_remove(&x, find(&x, keys[i]));
    assert_int_equal(x.len, 0);
    fl_index_release(&x);
    fl_free(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_in_the_order_of_the_hash_cost_as_much_as_any),
        cmocka_unit_test(
            keys_in_the_order_of_a_scan_take_no_longer_than_in_any_other),
        cmocka_unit_test(an_index_that_was_made_for_its_keys_moves_none),
        cmocka_unit_test(an_index_goes_on_moving_without_new_keys),
        cmocka_unit_test(keys_that_are_close_together_are_found_and_leave),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
