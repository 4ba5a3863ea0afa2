/* test_map.c - names to pointers, compared with a plain array. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"

#define N_NAMES 500

static char names[N_NAMES][24];
static int values[N_NAMES];

static int make_names(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAMES; i++)
        snprintf(names[i], sizeof(names[i]), "fc_%d.w_0", i);
    return 0;
}

static void an_empty_map_finds_nothing(void **state)
{
    fl_map m = { 0 };

    (void)state;
    assert_null(fl_map_find(&m, "x"));
    fl_map_remove(&m, "x");
    fl_map_release(&m);
    fl_map_release(&m);
}

static void every_name_finds_its_own_value(void **state)
{
    fl_map m = { 0 };

    (void)state;
    for (int i = 0; i < N_NAMES; i++)
        fl_map_put(&m, names[i], &values[i]);
    assert_int_equal(m.len, N_NAMES);
    for (int i = 0; i < N_NAMES; i++) {
        char copy[24];

        memcpy(copy, names[i], sizeof(copy));
        assert_ptr_equal(fl_map_find(&m, copy), &values[i]);
    }
    assert_null(fl_map_find(&m, "fc_500.w_0"));
    assert_null(fl_map_find(&m, ""));
    fl_map_release(&m);
    assert_null(fl_map_find(&m, names[0]));
}

static void putting_again_replaces_value_and_key(void **state)
{
    char old_key[] = "k", new_key[] = "k";
    fl_map m = { 0 };

    (void)state;
    fl_map_put(&m, old_key, &values[0]);
    fl_map_put(&m, new_key, &values[1]);
    old_key[0] = 'x'; /* it died with its value */
    assert_int_equal(m.len, 1);
    assert_ptr_equal(fl_map_find(&m, "k"), &values[1]);
    fl_map_release(&m);
}

static void the_empty_name_is_a_name(void **state)
{
    fl_map m = { 0 };

    (void)state;
    fl_map_put(&m, "", &values[0]);
    assert_ptr_equal(fl_map_find(&m, ""), &values[0]);
    fl_map_remove(&m, "");
    assert_null(fl_map_find(&m, ""));
    fl_map_release(&m);
}

static void removing_one_leaves_the_others(void **state)
{
    fl_map m = { 0 };

    (void)state;
    for (int i = 0; i < N_NAMES; i++)
        fl_map_put(&m, names[i], &values[i]);
    for (int i = 0; i < N_NAMES; i += 2)
        fl_map_remove(&m, names[i]);
    fl_map_remove(&m, names[0]);
    assert_int_equal(m.len, N_NAMES / 2);
    for (int i = 0; i < N_NAMES; i++)
        assert_ptr_equal(fl_map_find(&m, names[i]),
                         i % 2 ? (void *)&values[i] : NULL);
    fl_map_release(&m);
}

static void removed_keys_are_not_read_again(void **state)
{
    char key[] = "gone";
    fl_map m = { 0 };

    (void)state;
    fl_map_put(&m, key, &values[0]);
    fl_map_remove(&m, key);
    for (size_t i = 0; i < m.cap; i++)
        assert_ptr_not_equal(m.entries[i].key, key);
    fl_map_release(&m);
}

static void coming_and_going_does_not_grow_the_map(void **state)
{
    fl_map m = { 0 };

    (void)state;
    for (int i = 0; i < 100 * N_NAMES; i++) {
        const char *name = names[i % N_NAMES];

        fl_map_put(&m, name, &values[0]);
        assert_non_null(fl_map_find(&m, name));
        fl_map_remove(&m, name);
        assert_null(fl_map_find(&m, name));
    }
    assert_int_equal(m.len, 0);
    assert_true(m.cap <= 64);
    fl_map_release(&m);
}

static void a_random_history_agrees_with_an_array(void **state)
{
    void *expected[N_NAMES] = { 0 };
    fl_map m = { 0 };
    size_t len = 0;

    (void)state;
    for (uint64_t step = 0; step < 20000; step++) {
        uint64_t r = fl_mix64(step + 1);
        size_t i = r % N_NAMES;
        void *value = r >> 63 ? &values[(r >> 32) % N_NAMES] : NULL;

        if (value)
            fl_map_put(&m, names[i], value);
        else
            fl_map_remove(&m, names[i]);
        len = len + (value && !expected[i]) - (!value && expected[i]);
        expected[i] = value;
        assert_int_equal(m.len, len);
    }
    for (size_t i = 0; i < N_NAMES; i++)
        assert_ptr_equal(fl_map_find(&m, names[i]), expected[i]);
    fl_map_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_map_finds_nothing),
        cmocka_unit_test(every_name_finds_its_own_value),
        cmocka_unit_test(putting_again_replaces_value_and_key),
        cmocka_unit_test(the_empty_name_is_a_name),
        cmocka_unit_test(removing_one_leaves_the_others),
        cmocka_unit_test(removed_keys_are_not_read_again),
        cmocka_unit_test(coming_and_going_does_not_grow_the_map),
        cmocka_unit_test(a_random_history_agrees_with_an_array),
    };

    return cmocka_run_group_tests(tests, make_names, NULL);
}
