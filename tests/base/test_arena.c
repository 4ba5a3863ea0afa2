/* test_arena.c - pieces, chunks, and the memory that a clear keeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"

static void pieces_are_aligned_zeroed_and_apart(void **state)
{
    fl_arena a;
    unsigned char *p[50];

    (void)state;
    fl_arena_init(&a, 256);
    for (size_t i = 0; i < 50; i++) {
        p[i] = fl_arena_alloc(&a, i * 7);
        assert_int_equal((uintptr_t)p[i] % 64, 0);
        for (size_t j = 0; j < i * 7; j++)
            assert_int_equal(p[i][j], 0);
        memset(p[i], (int)i, i * 7);
    }
    for (size_t i = 0; i < 50; i++) {
        for (size_t j = 0; j < i * 7; j++)
            assert_int_equal(p[i][j], i);
    }
    fl_arena_release(&a);
}

static void empty_pieces_are_still_distinct(void **state)
{
    fl_arena a;
    void *p, *q;

    (void)state;
    fl_arena_init(&a, 1024);
    p = fl_arena_try_alloc(&a, 0);
    q = fl_arena_try_alloc(&a, 0);
    assert_non_null(p);
    assert_ptr_not_equal(p, q);
    fl_arena_release(&a);
}

static void reused_memory_is_zeroed_again(void **state)
{
    fl_arena a;
    unsigned char *p;

    (void)state;
    fl_arena_init(&a, 1024);
    memset(fl_arena_alloc(&a, 500), 0xff, 500);
    fl_arena_clear(&a);
    p = fl_arena_alloc(&a, 500);
    for (int i = 0; i < 500; i++)
        assert_int_equal(p[i], 0);
    fl_arena_release(&a);
}

static void text_is_copied_and_formatted(void **state)
{
    char source[] = "wide";
    fl_arena a;
    char *copy, *text;

    (void)state;
    fl_arena_init(&a, 64);
    copy = fl_arena_strdup(&a, source);
    source[0] = 'x';
    text = fl_arena_printf(&a, "%s_%0200d", copy, 7);
    assert_string_equal(copy, "wide");
    assert_int_equal(strlen(text), 205);
    assert_memory_equal(text, "wide_000", 8);
    assert_string_equal(text + 203, "07");
    fl_arena_release(&a);
}

static void fill(fl_arena *a)
{
    for (size_t i = 1; i < 100; i++)
        assert_non_null(fl_arena_try_alloc(a, i * 30));
}

static void a_cleared_arena_reuses_its_memory(void **state)
{
    size_t bytes = fl_data_bytes();
    uint64_t calls = fl_data_calls();
    fl_arena a;

    (void)state;
    fl_arena_init(&a, 1024);
    fill(&a);
    assert_true(fl_data_calls() > calls + 2);
    fl_arena_clear(&a);
    calls = fl_data_calls();
    for (int round = 0; round < 3; round++) {
        fill(&a);
        fl_arena_clear(&a);
    }
    assert_int_equal(fl_data_calls(), calls);
    assert_int_equal(a.used_bytes, 0);
    fl_arena_release(&a);
    assert_int_equal(fl_data_bytes(), bytes);
}

static void a_small_round_keeps_the_room_of_a_large_one(void **state)
{
    fl_arena a;
    uint64_t calls;

    (void)state;
    fl_arena_init(&a, 1024);
    fill(&a);
    fl_arena_clear(&a);
    calls = fl_data_calls();
    fl_arena_alloc(&a, 10);
    fl_arena_clear(&a);
    fill(&a);
    assert_int_equal(fl_data_calls(), calls);
    fl_arena_release(&a);
}

static void without_memory_it_says_null_and_goes_on(void **state)
{
    size_t bytes = fl_data_bytes();
    fl_arena a;

    (void)state;
    fl_arena_init(&a, 128);
    assert_non_null(fl_arena_try_alloc(&a, 100));
    fl_alloc_fail_after(1);
    assert_null(fl_arena_try_alloc(&a, 1000));
    assert_null(fl_arena_try_alloc(&a, SIZE_MAX));
    assert_null(fl_arena_try_alloc(&a, SIZE_MAX - 100));
    assert_int_equal(a.used_bytes, 128);
    assert_non_null(fl_arena_try_alloc(&a, 1000));
    fl_arena_release(&a);
    assert_int_equal(fl_data_bytes(), bytes);
}

static void a_clear_without_memory_leaves_it_usable(void **state)
{
    fl_arena a;

    (void)state;
    fl_arena_init(&a, 128);
    fill(&a);
    fl_alloc_fail_after(1);
    fl_arena_clear(&a);
    assert_null(a.head);
    fill(&a);
    fl_arena_release(&a);
}

static void a_released_arena_can_be_used_again(void **state)
{
    fl_arena a;

    (void)state;
    fl_arena_init(&a, 128);
    fl_arena_clear(&a);
    fl_arena_release(&a);
    assert_string_equal(fl_arena_strdup(&a, "again"), "again");
    fl_arena_release(&a);
    fl_arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_aligned_zeroed_and_apart),
        cmocka_unit_test(empty_pieces_are_still_distinct),
        cmocka_unit_test(reused_memory_is_zeroed_again),
        cmocka_unit_test(text_is_copied_and_formatted),
        cmocka_unit_test(a_cleared_arena_reuses_its_memory),
        cmocka_unit_test(a_small_round_keeps_the_room_of_a_large_one),
        cmocka_unit_test(without_memory_it_says_null_and_goes_on),
        cmocka_unit_test(a_clear_without_memory_leaves_it_usable),
        cmocka_unit_test(a_released_arena_can_be_used_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
