/* test_gemm_bf16.c - products of bf16, by every way of this machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "bf16_kit.h"

static const char *const ways[] = { "emulated", "vectors", "tiles" };

/* m, n, k */
static const int64_t sizes[][3] = {
    { 1, 16, 16 },     { 3, 5, 7 },     { 33, 40, 17 },
    { 128, 64, 64 },   { 129, 32, 50 }, { 300, 41, 33 },
    { 104, 400, 273 }, { 64, 33, 300 }, { 17, 33, 1101 },
};

static void for_each_way(void (*check)(const fl_bf16_way *way))
{
    for (size_t i = 0; i < FL_LEN(ways); i++) {
        const fl_bf16_way *way = fl_bf16_way_find(ways[i]);

        if (way)
            check(way);
    }
}

static void check_sizes(const fl_bf16_way *way)
{
    for (size_t i = 0; i < FL_LEN(sizes); i++)
        for (int turned = 0; turned < 4; turned++) {
            fl_gemm_shape s = bf16_shape(sizes[i][0], sizes[i][1], sizes[i][2],
                                         turned, turned);

            bf16_check_product(way, &s);
        }
}

static void
every_way_and_shape_gives_the_product_of_rounded_numbers(void **state)
{
    (void)state;
    for_each_way(check_sizes);
}

/* The last block is shorter than the others. */
static void check_shares(const fl_bf16_way *way)
{
    fl_gemm_shape s = bf16_shape(300, 48, 40, 0, 0);

    bf16_check_shares(way, &s);
}

static void rows_by_shares_are_the_rows_of_the_whole(void **state)
{
    (void)state;
    for_each_way(check_shares);
}

static void threads_do_not_disturb_each_other(void **state)
{
    (void)state;
    for_each_way(bf16_check_threads);
}

static void the_environment_chooses_the_way(void **state)
{
    (void)state;
    setenv("FLOTILLA_BF16", "emulated", 1);
    assert_string_equal(fl_bf16_way_here()->name, "emulated");
    setenv("FLOTILLA_BF16", "tiles", 1);
    assert_string_equal(fl_bf16_way_here()->name, "emulated");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            every_way_and_shape_gives_the_product_of_rounded_numbers),
        cmocka_unit_test(rows_by_shares_are_the_rows_of_the_whole),
        cmocka_unit_test(threads_do_not_disturb_each_other),
        cmocka_unit_test(the_environment_chooses_the_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
