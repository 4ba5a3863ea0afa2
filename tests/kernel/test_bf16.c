/* test_bf16.c - f32 to bf16 and back: every kind of number, every length, every
 * instruction set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/status.h"
#include "kernel/bf16.h"
#include "sample.h"

#define LEN_MAX 70

#define DECLARE(t, isa) extern const fl_bf16_table fl_bf16_table_of_##isa;
#define ADDR(t, isa) &fl_bf16_table_of_##isa,
FL_ISA_MAP(DECLARE, bf16)
static const fl_bf16_table *const sets[] = { FL_ISA_MAP(ADDR, bf16) };

static float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static uint16_t narrow(const fl_bf16_table *f, uint32_t bits)
{
    float x = float_of(bits);
    uint16_t out;

    f->narrow(&out, &x, 1);
    return out;
}

/* By the definition: of the two neighbours the nearer one, else the even one.
   Doubles hold the middle of two neighbours exactly. */
static uint16_t nearest(uint32_t bits)
{
    uint16_t low = (uint16_t)(bits >> 16), high = (uint16_t)(low + 1);
    double x = (double)float_of(bits), below, above;

    if (!(bits & 0xffff))
        return low;
    below = fabs(x - (double)float_of((uint32_t)low << 16));
    above = isinf(float_of((uint32_t)high << 16))
                ? ldexp(1, 128) - fabs(x)
                : fabs((double)float_of((uint32_t)high << 16) - x);
    if (below == above)
        return low & 1 ? high : low;
    return below < above ? low : high;
}

static const uint32_t lower_halves[] = { 0,      1,      0x7ffe, 0x7fff,
                                         0x8000, 0x8001, 0xfffe, 0xffff };

/* All signs, exponents and upper parts of fractions, which has zeros, denormal
   numbers, the largest ones and infinities in it. */
static void every_number_becomes_the_nearest(void **state)
{
    (void)state;
    for (uint32_t upper = 0; upper <= 0xffff; upper++)
        for (size_t k = 0; k < FL_LEN(lower_halves); k++) {
            uint32_t bits = upper << 16 | lower_halves[k];

            if (isnan(float_of(bits)))
                continue;
            for (size_t s = 0; s <= fl_isa(); s++)
                assert_int_equal(narrow(sets[s], bits), nearest(bits));
        }
}

static void what_is_too_large_becomes_infinite(void **state)
{
    (void)state;
    for (size_t s = 0; s <= fl_isa(); s++) {
        assert_int_equal(narrow(sets[s], 0x7f7fffff), 0x7f80);
        assert_int_equal(narrow(sets[s], 0xff7fffff), 0xff80);
        assert_int_equal(narrow(sets[s], 0x7f7f7fff), 0x7f7f);
        assert_int_equal(narrow(sets[s], 0x7f800000), 0x7f80);
        assert_int_equal(narrow(sets[s], 0xff800000), 0xff80);
    }
}

/* Also where all that makes it one is in the lower half. */
static void a_nan_stays_one_and_is_quiet(void **state)
{
    static const uint32_t nans[] = { 0x7f800001, 0x7fc00000, 0x7fffffff,
                                     0xff800001, 0xffffffff, 0x7fbfffff };

    (void)state;
    for (size_t i = 0; i < FL_LEN(nans); i++)
        for (size_t s = 0; s <= fl_isa(); s++) {
            uint16_t out = narrow(sets[s], nans[i]);

            assert_true(isnan(float_of((uint32_t)out << 16)));
            assert_true(out & 0x40);
            assert_int_equal(out >> 15, nans[i] >> 31);
        }
}

static void widening_is_exact_and_narrowing_undoes_it(void **state)
{
    static uint16_t all[1 << 16], back[1 << 16];
    static float wide[1 << 16];

    (void)state;
    for (uint32_t i = 0; i < FL_LEN(all); i++)
        all[i] = (uint16_t)i;
    for (size_t s = 0; s <= fl_isa(); s++) {
        sets[s]->widen(wide, all, FL_LEN(all));
        sets[s]->narrow(back, wide, FL_LEN(all));
        for (uint32_t i = 0; i < FL_LEN(all); i++) {
            assert_int_equal(bits_of(wide[i]), i << 16);
            assert_int_equal(back[i], isnan(wide[i]) ? i | 0x40 : i);
        }
    }
}

/* Vectors of exactly n numbers, so that a sanitizer sees a step outside. */
static void any_length_gives_the_same(void **state)
{
    (void)state;
    for (size_t n = 0; n <= LEN_MAX; n++)
        for (size_t s = 0; s <= fl_isa(); s++) {
            float *x = samples_f32(n, n), *back = samples_f32(1, n);
            uint16_t *out = malloc(n * sizeof(*out) + 1);

            assert_non_null(out);
            sets[s]->narrow(out, x, n);
            sets[s]->widen(back, out, n);
            for (size_t i = 0; i < n; i++) {
                assert_int_equal(out[i], nearest(bits_of(x[i])));
                assert_int_equal(bits_of(back[i]), (uint32_t)out[i] << 16);
            }
            free(x);
            free(back);
            free(out);
        }
}

static void rows_are_widened_to_their_places(void **state)
{
    static const uint32_t places[] = { 2, 0, 3 };

    (void)state;
    for (size_t dim = 1; dim <= 20; dim++)
        for (size_t s = 0; s <= fl_isa(); s++) {
            uint16_t x[FL_LEN(places) * 20];
            float *out = samples_f32(3, 4 * dim),
                  *old = samples_f32(3, 4 * dim);

            for (size_t i = 0; i < FL_LEN(places) * dim; i++)
                x[i] = (uint16_t)(0x3f80 + i);
            sets[s]->widen_rows(out, places, x, FL_LEN(places), dim);
            for (size_t j = 0; j < dim; j++) {
                assert_true(out[1 * dim + j] == old[1 * dim + j]);
                for (size_t i = 0; i < FL_LEN(places); i++)
                    assert_int_equal(bits_of(out[places[i] * dim + j]),
                                     (uint32_t)x[i * dim + j] << 16);
            }
            free(out);
            free(old);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_becomes_the_nearest),
        cmocka_unit_test(what_is_too_large_becomes_infinite),
        cmocka_unit_test(a_nan_stays_one_and_is_quiet),
        cmocka_unit_test(widening_is_exact_and_narrowing_undoes_it),
        cmocka_unit_test(any_length_gives_the_same),
        cmocka_unit_test(rows_are_widened_to_their_places),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
