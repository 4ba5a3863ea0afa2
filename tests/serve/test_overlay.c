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

static fl_overlay_state find(const fl_overlay *o, uint64_t key,
                             const float **row)
{
    fl_overlay_state state;

    fl_overlay_find(o, &key, 1, &state, row);
    return state;
}

static void assert_row(const fl_overlay *o, uint64_t key, float x)
{
    const float *row = NULL;

    assert_int_equal(find(o, key, &row), FL_OVERLAY_ROW);
    for (int i = 0; i < DIM; i++)
        assert_true(row[i] == x + (float)i);
}

static void keys_are_found_known_gone_or_unknown(void **state)
{
    const float *row;
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
            assert_int_equal(find(o, k * k, &row), FL_OVERLAY_GONE);
    assert_int_equal(find(o, UINT64_MAX, &row), FL_OVERLAY_NONE);
    assert_int_equal(fl_overlay_len(o), MANY);
    fl_overlay_unref(o);
}

static void
the_next_one_has_the_last_word_and_leaves_the_old_one_alone(void **state)
{
    const float *row;
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
    assert_int_equal(find(next, 2, &row), FL_OVERLAY_GONE);
    assert_row(next, 3, 30);
    assert_row(next, 4, 40);
    assert_row(old, 1, 10);
    assert_row(old, 2, 20);
    assert_int_equal(find(old, 4, &row), FL_OVERLAY_NONE);
    fl_overlay_unref(old);
    assert_row(next, 3, 30);
    fl_overlay_unref(next);
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
        cmocka_unit_test(without_memory_it_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
