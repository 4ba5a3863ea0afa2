/* test_buf.c - memory that grows and is kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/buf.h"

static void what_is_large_enough_is_used_again(void **state)
{
    size_t before = fl_data_bytes();
    fl_buf b = { 0 };
    uint64_t calls;
    void *first;

    (void)state;
    first = fl_buf_reserve(&b, 100);
    assert_non_null(first);
    calls = fl_data_calls();
    assert_ptr_equal(fl_buf_reserve(&b, 100), first);
    assert_ptr_equal(fl_buf_reserve(&b, 0), first);
    assert_int_equal(fl_data_calls(), calls);
    assert_non_null(fl_buf_reserve(&b, 101));
    assert_int_equal(b.bytes, 101);
    fl_buf_release(&b);
    fl_buf_release(&b);
    assert_int_equal(fl_data_bytes(), before);
}

static void nothing_is_asked_for_and_still_there_is_memory(void **state)
{
    fl_buf b = { 0 };

    (void)state;
    assert_non_null(fl_buf_reserve(&b, 0));
    fl_buf_release(&b);
}

static void zeros_are_zeros_again(void **state)
{
    static const char zeros[64];
    fl_buf b = { 0 };

    (void)state;
    memset(fl_buf_zeros(&b, 64), 1, 64);
    assert_memory_equal(fl_buf_zeros(&b, 64), zeros, 64);
    fl_buf_release(&b);
}

static void without_memory_all_stays_as_it_was(void **state)
{
    fl_buf b = { 0 };
    char *first;

    (void)state;
    first = fl_buf_reserve(&b, 8);
    memcpy(first, "stays...", 8);
    fl_alloc_fail_after(1);
    assert_null(fl_buf_reserve(&b, 1000));
    assert_ptr_equal(b.data, first);
    assert_memory_equal(b.data, "stays...", 8);
    assert_int_equal(b.bytes, 8);
    fl_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_large_enough_is_used_again),
        cmocka_unit_test(nothing_is_asked_for_and_still_there_is_memory),
        cmocka_unit_test(zeros_are_zeros_again),
        cmocka_unit_test(without_memory_all_stays_as_it_was),
    };

    return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
