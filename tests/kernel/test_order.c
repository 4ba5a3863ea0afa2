/* test_order.c - hashes in order, against a sort by comparisons. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/status.h"
#include "kernel/order.h"

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

typedef uint64_t (*value_fn)(uint64_t i);

static void check(value_fn value, size_t n)
{
    size_t bytes = (n + 1) * sizeof(uint64_t);
    uint64_t *h = fl_try_alloc(bytes), *want = fl_try_alloc(bytes);
    uint64_t *scratch = fl_try_alloc(bytes);

    assert_true(h && want && scratch);
    for (size_t i = 0; i < n; i++)
        h[i] = want[i] = value(i);
    qsort(want, n, sizeof(*want), compare);
    fl_order_hashes(h, n, scratch);
    assert_memory_equal(h, want, n * sizeof(*h));
    fl_data_free(h, bytes);
    fl_data_free(want, bytes);
    fl_data_free(scratch, bytes);
}

static uint64_t spread(uint64_t i)
{
    return fl_hash_key(i);
}

static uint64_t repeated(uint64_t i)
{
    return fl_hash_key(i % 7);
}

static uint64_t downwards(uint64_t i)
{
    return UINT64_MAX - i;
}

/* All in one place, by the bits that are looked at first. */
static uint64_t close_together(uint64_t i)
{
    return fl_hash_key(i) >> 40;
}

static void hashes_are_sorted(void **state)
{
    (void)state;
    for (size_t n = 0; n < 100; n++)
        check(spread, n);
    for (size_t n = 100; n < 300000; n = n * 3 + 1)
        check(spread, n);
}

static void so_are_values_that_are_not_spread(void **state)
{
    const value_fn values[] = { repeated, downwards, close_together };

    (void)state;
    for (size_t i = 0; i < FL_LEN(values); i++)
        for (size_t n = 1; n < 100000; n = n * 4 + 1)
            check(values[i], n);
}

static void one_of_equal_ones_is_left(void **state)
{
    uint64_t h[] = { 0, 0, 3, 4, 4, 4, UINT64_MAX };
    const uint64_t want[] = { 0, 3, 4, UINT64_MAX };

    (void)state;
    assert_int_equal(fl_order_unite(h, FL_LEN(h)), 4);
    assert_memory_equal(h, want, sizeof(want));
    assert_int_equal(fl_order_unite(h, 1), 1);
    assert_int_equal(fl_order_unite(h, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_are_sorted),
        cmocka_unit_test(so_are_values_that_are_not_spread),
        cmocka_unit_test(one_of_equal_ones_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
