/* test_gemm_bf16_tiles.c - products of bf16 by tiles, on any machine with
 * AVX512-BF16: functions do what the tile instructions would, and fail the test
 * where a processor would refuse.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "bf16_kit.h"
#include "kernel/isa.h"
#include "sample.h"
#include "tiles_by_hand.h"

static void need_vectors(void)
{
    if (!fl_isa_has_bf16_vectors())
        skip();
}

static void check_turned(int64_t m, int64_t n, int64_t k, int64_t pad)
{
    for (int turned = 0; turned < 4; turned++) {
        fl_gemm_shape s = bf16_shape(m, n, k, turned, pad);

        bf16_check_product(&tiles_by_hand, &s);
    }
}

/* Around tiles of 16 rows by 16 columns, of 32 numbers along the sums, and
   around two by two of them. Each two sizes meet. */
static void tiles_that_are_full_or_not_give_the_product(void **state)
{
    static const int64_t sizes[] = { 1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65 };
    const size_t n = FL_LEN(sizes);

    (void)state;
    need_vectors();
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            check_turned(sizes[i], sizes[j], sizes[(i + j) % n],
                         (int64_t)(i + 2 * j) % 5);
}

/* 1024 of them are added in one go, and what comes after to what is in C. */
static void sums_of_several_goes_give_the_product(void **state)
{
    static const int64_t sizes[] = { 1023, 1024, 1025, 1056, 1057, 2081 };

    (void)state;
    need_vectors();
    for (size_t i = 0; i < FL_LEN(sizes); i++) {
        check_turned(1, 1, sizes[i], (int64_t)i);
        check_turned(18, 33, sizes[i], (int64_t)i);
        check_turned(33, 16, sizes[i], (int64_t)i);
    }
}

static void blocks_of_rows_give_the_product(void **state)
{
    static const int64_t sizes[] = { 127, 128, 129, 145, 272 };

    (void)state;
    need_vectors();
    for (size_t i = 0; i < FL_LEN(sizes); i++)
        check_turned(sizes[i], 65 + (int64_t)i * 16, 34, (int64_t)i);
}

static void rows_by_shares_are_the_rows_of_the_whole(void **state)
{
    (void)state;
    need_vectors();
    for (int turned = 0; turned < 4; turned++) {
        fl_gemm_shape wide = bf16_shape(300, 49, 40, turned, turned);
        fl_gemm_shape deep = bf16_shape(147, 20, 1100, turned, turned);

        bf16_check_shares(&tiles_by_hand, &wide);
        bf16_check_shares(&tiles_by_hand, &deep);
    }
}

/* But a zero may have the other sign. */
static void check_like_vectors(const fl_gemm_shape *s, const uint16_t *a,
                               const uint16_t *b)
{
    size_t n = (size_t)(s->m * s->n);
    float *c = samples_f32(1, n), *d = samples_f32(2, n);

    bf16_multiply(&tiles_by_hand, s, a, b, c);
    bf16_multiply(fl_bf16_way_find("vectors"), s, a, b, d);
    for (size_t i = 0; i < n; i++)
        assert_true(c[i] == d[i]);
    free(c);
    free(d);
}

/* Around 2^-126, below which the processor's vectors take numbers for zero, as
   operands and as results. */
static void tiny_numbers_are_what_they_are_to_vectors(void **state)
{
    static const uint16_t all[] = {
        0x0000, 0x8000, 0x0001, 0x807f, 0x0080, 0x80c0, 0x00ff, 0x1f80,
        0xa07f, 0x2081, 0x3f7f, 0xbf80, 0x3fff, 0x7f00, 0xff7f,
    };
    static const uint16_t a[65] = { [0] = 0x00c0, [64] = 0x8080 };
    static const uint16_t b[65] = { [0] = 0x3f80, [64] = 0x3f80 };
    fl_gemm_shape each = bf16_shape(FL_LEN(all), FL_LEN(all), 1, 0, 0);
    fl_gemm_shape little_is_left = bf16_shape(1, 1, FL_LEN(a), 0, 0);

    (void)state;
    need_vectors();
    check_like_vectors(&each, all, all);
    check_like_vectors(&little_is_left, a, b);
}

/* Else the system would go on keeping them whenever this thread waits. */
static void tiles_are_released_after_use(void **state)
{
    (void)state;
    need_vectors();
    check_turned(40, 40, 40, 0);
    assert_false(tiles_are_configured());
}

static void threads_do_not_disturb_each_other(void **state)
{
    (void)state;
    need_vectors();
    bf16_check_threads(&tiles_by_hand);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_that_are_full_or_not_give_the_product),
        cmocka_unit_test(sums_of_several_goes_give_the_product),
        cmocka_unit_test(blocks_of_rows_give_the_product),
        cmocka_unit_test(rows_by_shares_are_the_rows_of_the_whole),
        cmocka_unit_test(tiny_numbers_are_what_they_are_to_vectors),
        cmocka_unit_test(tiles_are_released_after_use),
        cmocka_unit_test(threads_do_not_disturb_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
