/* test_alloc.c - alignment, counting, and failing on demand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "base/thread.h"

static void metadata_is_zeroed(void **state)
{
    unsigned char *p;

    (void)state;
    /* The first block leaves dirt for the second to be born in. */
    p = fl_alloc(1000);
    memset(p, 0xff, 1000);
    fl_free(p);
    p = fl_alloc(1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(p[i], 0);
    fl_free(p);
    fl_free(NULL);
}

static void realloc_and_strdup_keep_the_bytes(void **state)
{
    char *s = fl_strdup("flotilla");

    (void)state;
    s = fl_realloc(s, 4000);
    assert_string_equal(s, "flotilla");
    memset(s, 'x', 4000);
    fl_free(s);
    s = fl_realloc(NULL, 0);
    assert_non_null(s);
    fl_free(s);
}

static void data_is_aligned_at_every_size(void **state)
{
    const size_t sizes[] = { 0, 1, 63, 64, 65, 4097, (2 << 20) - 1 };

    (void)state;
    for (size_t i = 0; i < FL_LEN(sizes); i++) {
        char *p = fl_try_alloc(sizes[i]);

        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        memset(p, 1, sizes[i]);
        fl_data_free(p, sizes[i]);
    }
}

static void large_data_starts_on_a_huge_page(void **state)
{
    const size_t sizes[] = { 2 << 20, (5 << 20) + 3 };

    (void)state;
    for (size_t i = 0; i < FL_LEN(sizes); i++) {
        char *p = fl_try_alloc(sizes[i]);

        assert_non_null(p);
        assert_int_equal((uintptr_t)p % (2 << 20), 0);
        p[0] = p[sizes[i] - 1] = 1;
        fl_data_free(p, sizes[i]);
    }
}

static void bytes_and_calls_are_counted(void **state)
{
    size_t bytes = fl_data_bytes();
    uint64_t calls = fl_data_calls();
    void *a = fl_try_alloc(100);
    void *b = fl_try_alloc(3 << 20);

    (void)state;
    assert_int_equal(fl_data_calls(), calls + 2);
    assert_int_equal(fl_data_bytes(), bytes + 100 + (3 << 20));
    fl_data_free(a, 100);
    assert_int_equal(fl_data_bytes(), bytes + (3 << 20));
    fl_data_free(b, 3 << 20);
    fl_data_free(NULL, 55);
    assert_int_equal(fl_data_bytes(), bytes);
    assert_int_equal(fl_data_calls(), calls + 2);
}

static void an_impossible_size_returns_null(void **state)
{
    const size_t sizes[] = { SIZE_MAX, SIZE_MAX / 2, (size_t)1 << 41 };
    size_t bytes = fl_data_bytes();

    (void)state;
    for (size_t i = 0; i < FL_LEN(sizes); i++)
        assert_null(fl_try_alloc(sizes[i]));
    assert_int_equal(fl_data_bytes(), bytes);
}

static void exactly_the_nth_allocation_fails(void **state)
{
    size_t bytes = fl_data_bytes();
    void *p[4];

    (void)state;
    fl_alloc_fail_after(3);
    for (int i = 0; i < 4; i++)
        p[i] = fl_try_alloc(10);
    assert_non_null(p[0]);
    assert_non_null(p[1]);
    assert_null(p[2]);
    assert_non_null(p[3]);
    for (int i = 0; i < 4; i++)
        fl_data_free(p[i], 10);
    assert_int_equal(fl_data_bytes(), bytes);
}

static void the_failure_can_be_switched_off(void **state)
{
    void *p;

    (void)state;
    fl_alloc_fail_after(1);
    fl_alloc_fail_after(0);
    p = fl_try_alloc(10);
    assert_non_null(p);
    fl_data_free(p, 10);
}

static void allocate_once(void *arg)
{
    *(void **)arg = fl_try_alloc(10);
}

static void the_failure_stays_in_its_thread(void **state)
{
    fl_thread *t = NULL;
    void *theirs = NULL;

    (void)state;
    fl_alloc_fail_after(1);
    assert_int_equal(fl_thread_start(&t, "other", allocate_once, &theirs),
                     FL_OK);
    fl_thread_join(t);
    assert_non_null(theirs);
    assert_null(fl_try_alloc(10));
    fl_data_free(theirs, 10);
}

#define ROUNDS 2000

static void churn(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++)
        fl_data_free(fl_try_alloc(100), 100);
}

static void two_threads_lose_no_count(void **state)
{
    size_t bytes = fl_data_bytes();
    uint64_t calls = fl_data_calls();
    fl_thread *t = NULL;

    (void)state;
    assert_int_equal(fl_thread_start(&t, "churn", churn, NULL), FL_OK);
    churn(NULL);
    fl_thread_join(t);
    assert_int_equal(fl_data_bytes(), bytes);
    assert_int_equal(fl_data_calls(), calls + 2 * ROUNDS);
}

static void a_product_that_does_not_fit_is_told(void **state)
{
    size_t out = 5;

    (void)state;
    assert_true(fl_mul_overflow(SIZE_MAX / 2 + 1, 2, &out));
    assert_int_equal(out, 5);
    assert_false(fl_mul_overflow(SIZE_MAX / 2, 2, &out));
    assert_int_equal(out, SIZE_MAX - 1);
    assert_false(fl_mul_overflow(SIZE_MAX, 0, &out));
    assert_int_equal(out, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metadata_is_zeroed),
        cmocka_unit_test(realloc_and_strdup_keep_the_bytes),
        cmocka_unit_test(data_is_aligned_at_every_size),
        cmocka_unit_test(large_data_starts_on_a_huge_page),
        cmocka_unit_test(bytes_and_calls_are_counted),
        cmocka_unit_test(an_impossible_size_returns_null),
        cmocka_unit_test(exactly_the_nth_allocation_fails),
        cmocka_unit_test(the_failure_can_be_switched_off),
        cmocka_unit_test(the_failure_stays_in_its_thread),
        cmocka_unit_test(two_threads_lose_no_count),
        cmocka_unit_test(a_product_that_does_not_fit_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
