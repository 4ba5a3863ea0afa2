/* test_rows.c - copies of a batch of rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tensor/rows.h"

static void a_copy_has_what_the_batch_has_and_nothing_else(void **state)
{
    uint64_t keys[] = { 7, UINT64_MAX, 9 };
    float values[] = { 1, 2, 3, 4, 5, 6 }, clicks[] = { 0, 1, 0 };
    uint32_t counts[] = { 3, 2, 1 };
    fl_rows r = { .keys = keys,
                  .values = values,
                  .clicks = clicks,
                  .counts = counts,
                  .n = 3,
                  .lr = 0.5,
                  .dim = 2,
                  .scale = 0.25 };
    uint64_t memory[9];
    size_t bytes;
    fl_rows to;

    (void)state;
    assert_int_equal(fl_rows_bytes(&r, &bytes), FL_OK);
    assert_int_equal(bytes, sizeof(memory));
    to = fl_rows_copy(&r, memory);
    memset(keys, 0, sizeof(keys));
    memset(values, 0, sizeof(values));
    memset(clicks, 0, sizeof(clicks));
    memset(counts, 0, sizeof(counts));
    assert_true(to.keys[0] == 7 && to.keys[1] == UINT64_MAX);
    assert_true(to.values[0] == 1 && to.values[5] == 6);
    assert_null(to.shows);
    assert_true(to.clicks[1] == 1);
    assert_int_equal(to.counts[2], 1);
    assert_true(to.n == 3 && to.dim == 2 && to.lr == 0.5 && to.scale == 0.25);
}

static void sizes_are_multiples_of_eight_and_nothing_has_none(void **state)
{
    uint64_t key = 1;
    float value = 2;
    fl_rows r = { .keys = &key, .values = &value, .n = 1, .dim = 1 };
    size_t bytes;

    (void)state;
    assert_int_equal(fl_rows_bytes(&r, &bytes), FL_OK);
    assert_int_equal(bytes, 16);
    r.n = 0;
    assert_int_equal(fl_rows_bytes(&r, &bytes), FL_OK);
    assert_int_equal(bytes, 0);
    assert_int_equal(fl_rows_copy(&r, NULL).n, 0);
}

static void parts_have_their_rows_in_order_and_together_all(void **state)
{
    uint64_t keys[] = { 7, 8, UINT64_MAX, 9, 7 };
    float values[] = { 1, 2, 3, 4, 5 }, shows[] = { 1, 0, 2, 0, 3 };
    uint32_t counts[] = { 5, 4, 3, 2, 1 };
    const uint16_t part[] = { 2, 0, 2, 0, 2 };
    fl_rows r = { .keys = keys,
                  .values = values,
                  .shows = shows,
                  .counts = counts,
                  .n = 5,
                  .lr = 0.5,
                  .dim = 1 };
    uint64_t memory[16];
    fl_rows to[3];
    size_t bytes;

    (void)state;
    assert_int_equal(fl_rows_bytes(&r, &bytes), FL_OK);
    assert_true(bytes + sizeof(to) / sizeof(*to) * 8 <= sizeof(memory));
    fl_rows_deal(&r, part, 3, memory, to);
    assert_true(to[0].n == 2 && to[1].n == 0 && to[2].n == 3);
    assert_true(to[0].keys[0] == 8 && to[0].keys[1] == 9);
    assert_true(to[0].values[0] == 2 && to[0].counts[1] == 2);
    assert_true(to[2].keys[0] == 7 && to[2].keys[1] == UINT64_MAX);
    assert_true(to[2].keys[2] == 7 && to[2].values[2] == 5);
    assert_true(to[2].shows[1] == 2 && to[2].lr == 0.5);
    assert_null(to[2].clicks);
    assert_true((const char *)(to[2].counts + 3) <=
                (const char *)memory + bytes + 3 * 8);
}

static void a_slice_has_its_rows_where_they_lie(void **state)
{
    uint64_t keys[] = { 7, 8, 9 };
    float values[] = { 1, 2, 3, 4, 5, 6 }, clicks[] = { 1, 0, 2 };
    fl_rows r = { .keys = keys,
                  .values = values,
                  .clicks = clicks,
                  .n = 3,
                  .lr = 0.5,
                  .dim = 2 };
    fl_rows s = fl_rows_slice(&r, 1, 2);

    (void)state;
    assert_true(s.keys == keys + 1 && s.values == values + 2 && s.n == 2);
    assert_true(s.clicks == clicks + 1 && s.lr == 0.5 && s.dim == 2);
    assert_true(!s.shows && !s.counts);
    r = (fl_rows){ .keys = keys, .n = 3 };
    assert_null(fl_rows_slice(&r, 3, 0).values);
}

static void what_no_memory_can_hold_is_refused(void **state)
{
    fl_rows r = { .n = SIZE_MAX / 8, .dim = 1 };
    size_t bytes;

    (void)state;
    assert_int_equal(fl_rows_bytes(&r, &bytes), FL_ERR_INVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_has_what_the_batch_has_and_nothing_else),
        cmocka_unit_test(sizes_are_multiples_of_eight_and_nothing_has_none),
        cmocka_unit_test(parts_have_their_rows_in_order_and_together_all),
        cmocka_unit_test(a_slice_has_its_rows_where_they_lie),
        cmocka_unit_test(what_no_memory_can_hold_is_refused),
    };

    return cmocka_run_group_tests_name("rows", tests, NULL, NULL);
}
