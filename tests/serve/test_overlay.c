/* test_overlay.c - rows of deltas in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "serve/overlay.h"

#define DIM 3
#define MANY 5000

static void put(fl_overlay *o, uint64_t key, float x)
{
    float *to = fl_overlay_put(o, key);

    for (int i = 0; i < DIM; i++)
        to[i] = x + (float)i;
}

static const float *find(const fl_overlay *o, uint64_t key)
{
    const float *row;

    fl_overlay_find(o, &key, 1, &row);
    return row;
}

static void assert_row(const fl_overlay *o, uint64_t key, float x)
{
    const float *row = find(o, key);

    assert_non_null(row);
    for (int i = 0; i < DIM; i++)
        assert_true(row[i] == x + (float)i);
}

static void keys_are_found_known_gone_or_unknown(void **state)
{
    fl_overlay *o;

    (void)state;
    assert_int_equal(fl_overlay_new(&o, NULL, DIM, MANY), FL_OK);
    for (uint64_t k = 0; k < MANY; k++)
        if (k % 7)
            put(o, k * k, (float)k);
        else
            fl_overlay_drop(o, k * k);
    for (uint64_t k = 0; k < MANY; k++)
        if (k % 7)
            assert_row(o, k * k, (float)k);
        else
            assert_ptr_equal(find(o, k * k), &fl_overlay_gone);
    assert_null(find(o, UINT64_MAX));
    assert_int_equal(fl_overlay_len(o), MANY);
    fl_overlay_unref(o);
}

static void
the_next_one_has_the_last_word_and_leaves_the_old_one_alone(void **state)
{
    fl_overlay *old, *next;

    (void)state;
    assert_int_equal(fl_overlay_new(&old, NULL, DIM, 3), FL_OK);
    put(old, 1, 10);
    put(old, 2, 20);
    fl_overlay_drop(old, 3);
    assert_int_equal(fl_overlay_new(&next, old, DIM, 4), FL_OK);
    put(next, 1, 11);
    fl_overlay_drop(next, 2);
    put(next, 3, 30);
    put(next, 4, 40);
    assert_row(next, 1, 11);
    assert_ptr_equal(find(next, 2), &fl_overlay_gone);
    assert_row(next, 3, 30);
    assert_row(next, 4, 40);
    assert_row(old, 1, 10);
    assert_row(old, 2, 20);
    assert_null(find(old, 4));
    fl_overlay_unref(old);
    assert_row(next, 3, 30);
    fl_overlay_unref(next);
}

/* A key that is nothing but zeros is like a free slot. */
static void the_key_zero_is_a_key_like_others(void **state)
{
    fl_overlay *o;

    (void)state;
    assert_int_equal(fl_overlay_new(&o, NULL, DIM, 2), FL_OK);
    put(o, 7, 70);
    assert_null(find(o, 0));
    put(o, 0, 5);
    assert_row(o, 0, 5);
    fl_overlay_drop(o, 0);
    assert_ptr_equal(find(o, 0), &fl_overlay_gone);
    fl_overlay_unref(o);
}

/* Few slots and many tries: searches go on from the last slot to the first. */
static void searches_go_round(void **state)
{
    enum { KEYS = 11, TRIES = 200 };

    (void)state;
    for (uint64_t first = 0; first < KEYS * TRIES; first += KEYS) {
        fl_overlay *o;

        assert_int_equal(fl_overlay_new(&o, NULL, DIM, KEYS), FL_OK);
        for (uint64_t k = first; k < first + KEYS; k++)
            put(o, k, (float)k);
        fl_overlay_drop(o, first);
        assert_ptr_equal(find(o, first), &fl_overlay_gone);
        for (uint64_t k = first + 1; k < first + KEYS; k++)
            assert_row(o, k, (float)k);
        for (uint64_t k = first + KEYS; k < first + 2 * KEYS; k++)
            assert_null(find(o, k));
        fl_overlay_unref(o);
    }
}

static void many_keys_are_found_at_once(void **state)
{
    uint64_t keys[MANY];
    const float *rows[MANY];
    fl_overlay *o;

    (void)state;
    assert_int_equal(fl_overlay_new(&o, NULL, DIM, MANY), FL_OK);
    for (uint64_t k = 0; k < MANY; k++) {
        keys[k] = MANY - 1 - k;
        if (k % 3)
            put(o, k, (float)k);
    }
    assert_int_equal(fl_overlay_find(o, keys, MANY, rows), (MANY + 2) / 3);
    for (size_t i = 0; i < MANY; i++)
        if (keys[i] % 3)
            assert_true(rows[i][0] == (float)keys[i]);
        else
            assert_null(rows[i]);
    fl_overlay_unref(o);
}

static void rows_of_any_width_lie_apart(void **state)
{
    static const uint32_t dims[] = { 1, 5, 10, 14, 15, 16, 17, 40 };

    (void)state;
    for (size_t d = 0; d < sizeof(dims) / sizeof(dims[0]); d++) {
        fl_overlay *o;

        assert_int_equal(fl_overlay_new(&o, NULL, dims[d], 100), FL_OK);
        for (uint64_t k = 0; k < 100; k++)
            for (uint32_t i = 0; i < dims[d]; i++)
                fl_overlay_put(o, k)[i] = (float)(100 * k + i);
        for (uint64_t k = 0; k < 100; k++)
            for (uint32_t i = 0; i < dims[d]; i++)
                assert_true(find(o, k)[i] == (float)(100 * k + i));
        fl_overlay_unref(o);
    }
}

static void without_memory_it_is_an_error(void **state)
{
    fl_overlay *o;

    (void)state;
    assert_int_equal(fl_overlay_new(&o, NULL, DIM, SIZE_MAX / 64),
                     FL_ERR_NOMEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_found_known_gone_or_unknown),
        cmocka_unit_test(
            the_next_one_has_the_last_word_and_leaves_the_old_one_alone),
        cmocka_unit_test(the_key_zero_is_a_key_like_others),
        cmocka_unit_test(searches_go_round),
        cmocka_unit_test(many_keys_are_found_at_once),
        cmocka_unit_test(rows_of_any_width_lie_apart),
        cmocka_unit_test(without_memory_it_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
