/* test_unique.c - different ids of a batch, against a search. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "kernel/unique.h"

#define N_MAX 2000

static size_t naive(const uint64_t *ids, size_t n, uint64_t *keys,
                    uint32_t *index)
{
    size_t n_keys = 0;

    for (size_t i = 0; i < n; i++) {
        size_t k = 0;

        while (k < n_keys && keys[k] != ids[i])
            k++;
        if (k == n_keys)
            keys[n_keys++] = ids[i];
        index[i] = (uint32_t)k;
    }
    return n_keys;
}

static void check(fl_unique *u, const uint64_t *ids, size_t n)
{
    static uint64_t keys[N_MAX], want_keys[N_MAX];
    static uint32_t index[N_MAX], want_index[N_MAX];
    size_t n_want = naive(ids, n, want_keys, want_index);
    size_t n_keys = SIZE_MAX;

    assert_int_equal(fl_unique_run(u, ids, n, keys, index, &n_keys), FL_OK);
    assert_int_equal(n_keys, n_want);
    assert_memory_equal(keys, want_keys, n_want * sizeof(*keys));
    assert_memory_equal(index, want_index, n * sizeof(*index));
}

static void different_ids_come_in_order_of_first_appearance(void **state)
{
    static uint64_t ids[N_MAX];
    fl_unique u = { 0 };

    (void)state;
    for (uint64_t range = 1; range < 5000; range = range * 3 + 1)
        for (size_t n = 1; n <= N_MAX; n = n * 2 + 3) {
            for (size_t i = 0; i < n; i++)
                ids[i] = fl_mix64(i + range) % range;
            check(&u, ids, n);
        }
    fl_unique_release(&u);
}

static void the_smallest_and_the_largest_id_are_ids_like_others(void **state)
{
    const uint64_t ids[] = {
        0, UINT64_MAX, 1, 0, UINT64_MAX, UINT64_MAX - 1, 0
    };
    fl_unique u = { 0 };

    (void)state;
    check(&u, ids, FL_LEN(ids));
    fl_unique_release(&u);
}

static void check_by_hash(fl_unique *u, const uint64_t *ids, size_t n)
{
    static uint64_t keys[N_MAX], in_order[N_MAX];
    static uint32_t index[N_MAX], index_in_order[N_MAX];
    size_t n_keys = SIZE_MAX;
    size_t n_want = naive(ids, n, in_order, index_in_order);

    assert_int_equal(fl_unique_run(u, ids, n, keys, index, &n_keys), FL_OK);
    assert_int_equal(n_keys, n_want);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(keys[index[i]], ids[i]);
    for (size_t i = 1; i < n_want; i++)
        assert_true(fl_hash_key(keys[i - 1]) < fl_hash_key(keys[i]));
}

static void ids_come_in_the_order_of_their_hashes(void **state)
{
    static const uint64_t different[] = { 1, 7, 700, UINT64_MAX };
    static uint64_t ids[N_MAX];
    fl_unique u = { .by_hash = true };

    (void)state;
    for (size_t k = 0; k < FL_LEN(different); k++) {
        for (size_t i = 0; i < N_MAX; i++)
            ids[i] = fl_mix64(i) % different[k];
        for (size_t n = 0; n <= N_MAX; n = n * 2 + 3)
            check_by_hash(&u, ids, n);
    }
    fl_unique_release(&u);
}

/* All of them want the last slot. */
static void hashes_that_lie_together_come_in_order_too(void **state)
{
    static uint64_t ids[N_MAX];
    fl_unique u = { .by_hash = true };

    (void)state;
    for (size_t i = 0; i < N_MAX; i++)
        ids[i] = fl_hash_origin(UINT64_MAX - i * 3 % N_MAX);
    for (size_t n = 0; n <= N_MAX; n = n * 2 + 3)
        check_by_hash(&u, ids, n);
    fl_unique_release(&u);
}

static void an_empty_batch_has_no_keys(void **state)
{
    const uint64_t none = 0;
    fl_unique u = { 0 };

    (void)state;
    check(&u, &none, 0);
    fl_unique_release(&u);
}

static void a_small_batch_after_a_large_one_starts_clean(void **state)
{
    static uint64_t ids[N_MAX];
    fl_unique u = { 0 };

    (void)state;
    for (size_t i = 0; i < N_MAX; i++)
        ids[i] = i;
    check(&u, ids, N_MAX);
    check(&u, ids + 100, 7);
    check(&u, ids, N_MAX);
    fl_unique_release(&u);
}

static void too_many_ids_are_refused(void **state)
{
    fl_unique u = { 0 };
    size_t n_keys = 5;

    (void)state;
    assert_int_equal(
        fl_unique_run(&u, NULL, (size_t)1 << 31, NULL, NULL, &n_keys),
        FL_ERR_INVAL);
    assert_int_equal(n_keys, 5);
    fl_unique_release(&u);
}

static void without_memory_the_batch_fails_and_the_next_one_works(void **state)
{
    const uint64_t ids[] = { 4, 4, 2 };
    uint64_t keys[3];
    uint32_t index[3];
    size_t n_keys = 5;
    fl_unique u = { 0 };

    (void)state;
    fl_alloc_fail_after(1);
    assert_int_equal(fl_unique_run(&u, ids, 3, keys, index, &n_keys),
                     FL_ERR_NOMEM);
    assert_int_equal(n_keys, 5);
    fl_alloc_fail_after(0);
    check(&u, ids, 3);
    fl_unique_release(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(different_ids_come_in_order_of_first_appearance),
        cmocka_unit_test(the_smallest_and_the_largest_id_are_ids_like_others),
        cmocka_unit_test(ids_come_in_the_order_of_their_hashes),
        cmocka_unit_test(hashes_that_lie_together_come_in_order_too),
        cmocka_unit_test(an_empty_batch_has_no_keys),
        cmocka_unit_test(a_small_batch_after_a_large_one_starts_clean),
        cmocka_unit_test(too_many_ids_are_refused),
        cmocka_unit_test(without_memory_the_batch_fails_and_the_next_one_works),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
