/* test_unite.c - keys of several batches in order as one list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "base/hash.h"
#include "kernel/order.h"
#include "kernel/unite.h"

#define BATCHES_MAX 9
#define EACH_MAX 40
#define ALL_MAX (BATCHES_MAX * EACH_MAX)

/* Keys of a batch in order, as hashes first; some are in other batches, too, or
   twice in their own. */
static void fill(uint64_t *keys, size_t n, uint64_t seed)
{
    uint64_t scratch[EACH_MAX];

    for (size_t i = 0; i < n; i++)
        keys[i] = fl_hash_key(fl_mix64(seed * 1000 + i) % 90);
    fl_order_hashes(keys, n, scratch);
    for (size_t i = 0; i < n; i++)
        keys[i] = fl_hash_origin(keys[i]);
}

static void check(const fl_rows *b, size_t n_batches)
{
    uint64_t room[4 * ALL_MAX], keys[ALL_MAX];
    uint32_t index[ALL_MAX];
    size_t n_keys = SIZE_MAX, at = 0;

    assert_true(fl_unite_room(ALL_MAX) <= sizeof(room));
    assert_true(fl_unite_ordered(b, n_batches, room, keys, index, &n_keys));
    for (size_t i = 1; i < n_keys; i++)
        assert_true(fl_hash_key(keys[i - 1]) < fl_hash_key(keys[i]));
    for (size_t k = 0; k < n_batches; k++)
        for (size_t i = 0; i < b[k].n; i++, at++) {
            assert_true(index[at] < n_keys);
            assert_int_equal(keys[index[at]], b[k].keys[i]);
        }
}

static void equal_keys_of_any_number_of_batches_become_one(void **state)
{
    uint64_t keys[BATCHES_MAX][EACH_MAX];
    fl_rows b[BATCHES_MAX];

    (void)state;
    for (size_t n_batches = 1; n_batches <= BATCHES_MAX; n_batches++)
        for (size_t round = 0; round < 20; round++) {
            for (size_t k = 0; k < n_batches; k++) {
                size_t n = fl_mix64(round * 50 + k) % (EACH_MAX + 1);

                fill(keys[k], n, round + 10 * k);
                b[k] = (fl_rows){ .keys = keys[k], .n = n };
            }
            check(b, n_batches);
        }
}

static void batches_without_keys_have_none(void **state)
{
    const fl_rows b[3] = { 0 };

    (void)state;
    check(b, 3);
}

static void a_batch_in_another_order_is_told(void **state)
{
    uint64_t a[EACH_MAX], other[EACH_MAX], room[8 * EACH_MAX];
    uint64_t keys[2 * EACH_MAX];
    uint32_t index[2 * EACH_MAX];
    size_t n_keys;

    (void)state;
    fill(a, EACH_MAX, 1);
    for (size_t i = 0; i < EACH_MAX; i++)
        other[i] = a[EACH_MAX - 1 - i];
    assert_false(
        fl_unite_ordered((fl_rows[]){ { .keys = a, .n = EACH_MAX },
                                      { .keys = other, .n = EACH_MAX } },
                         2, room, keys, index, &n_keys));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_keys_of_any_number_of_batches_become_one),
        cmocka_unit_test(batches_without_keys_have_none),
        cmocka_unit_test(a_batch_in_another_order_is_told),
    };

    return cmocka_run_group_tests_name("unite", tests, NULL, NULL);
}
