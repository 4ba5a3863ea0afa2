/* test_rng.c - pinned values, and the statistics of a million of them.
 *
 * The seeds are fixed, so every limit below either holds for ever or never;
 * each lies at four standard errors or more.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "base/status.h"

#define N 1000000
#define SIDE 1000

static uint64_t stream(void)
{
    return fl_rng_stream(42, "fc_0.w_0");
}

/* Computed by a second implementation; models at rest depend on them. */
static void values_never_change(void **state)
{
    const struct {
        uint64_t row, col, bits;
        double normal, truncated;
    } pinned[] = {
        { 0, 0, 0x1bd0b3ffed1f592b, -0x1.3bd52ff19d95cp+0,
          -0x1.24ae783b12f8bp+0 },
        { 7, 3, 0xd14fc9eb1c8b2cf2, 0x1.d00ca22e500ffp-1,
          0x1.b4bd161e6e1f5p-1 },
        { 14, 6, 0x7221d6d7d93c2cb8, -0x1.16f3a99dcf8b4p-3,
          -0x1.0a2f9c739d03fp-3 },
        { 21, 9, 0xcb464cc05483d28a, 0x1.a41bcc61cb96cp-1,
          0x1.8c826c0a71ab5p-1 },
    };

    (void)state;
    assert_true(stream() == 0xf3760aa238ffdeddu);
    for (size_t i = 0; i < FL_LEN(pinned); i++) {
        uint64_t row = pinned[i].row, col = pinned[i].col;

        assert_true(fl_rng_bits(stream(), row, col) == pinned[i].bits);
        assert_true(fl_rng_normal(stream(), row, col) == pinned[i].normal);
        assert_true(fl_rng_truncated(stream(), row, col) ==
                    pinned[i].truncated);
    }
    /* One from each tail, where the logarithm takes part. */
    assert_true(fl_rng_normal(stream(), 2249, 0) == -0x1.f28dbd4c91ec2p+1);
    assert_true(fl_rng_normal(stream(), 10079, 0) == 0x1.d3401ba39bbffp+1);
}

typedef double (*draw)(uint64_t stream, uint64_t row, uint64_t col);

typedef struct moments {
    double mean, variance, least, most;
    double along_row, along_col; /* correlation with the right, lower one */
} moments;

/* Over SIDE rows and columns; mu and var are the expected ones. */
static moments measure(draw f, double mu, double var)
{
    moments m = { .least = INFINITY, .most = -INFINITY };

    for (uint64_t row = 0; row < SIDE; row++) {
        for (uint64_t col = 0; col < SIDE; col++) {
            double x = f(stream(), row, col);

            m.mean += x / N;
            m.variance += (x - mu) * (x - mu) / N;
            m.least = fmin(m.least, x);
            m.most = fmax(m.most, x);
            m.along_row +=
                (x - mu) * (f(stream(), row, col + 1) - mu) / (N * var);
            m.along_col +=
                (x - mu) * (f(stream(), row + 1, col) - mu) / (N * var);
        }
    }
    return m;
}

static void unit_values_are_uniform(void **state)
{
    moments m = measure(fl_rng_unit, 0.5, 1.0 / 12);

    (void)state;
    assert_true(fabs(m.mean - 0.5) < 4 * sqrt(1.0 / 12 / N));
    assert_true(fabs(m.variance - 1.0 / 12) < 4 * sqrt(1.0 / 180 / N));
    assert_true(m.least >= 0 && m.most < 1);
    assert_true(fabs(m.along_row) < 4 / sqrt(N));
    assert_true(fabs(m.along_col) < 4 / sqrt(N));
}

static void normal_values_have_mean_0_and_variance_1(void **state)
{
    moments m = measure(fl_rng_normal, 0, 1);

    (void)state;
    assert_true(fabs(m.mean) < 4 / sqrt(N));
    assert_true(fabs(m.variance - 1) < 4 * sqrt(2.0 / N));
    assert_true(m.least < -4.2 && m.least > -6.5);
    assert_true(m.most > 4.2 && m.most < 6.5);
    assert_true(fabs(m.along_row) < 4 / sqrt(N));
    assert_true(fabs(m.along_col) < 4 / sqrt(N));
}

/* The variance of a normal cut at c = 2: 1 - 2 c phi(c) / (Phi(c) -
   Phi(-c)). */
static void truncated_values_stay_within_two_deviations(void **state)
{
    moments m = measure(fl_rng_truncated, 0, 0.7737413);

    (void)state;
    assert_true(fabs(m.mean) < 4 * sqrt(0.7737413 / N));
    assert_true(fabs(m.variance - 0.7737413) < 4e-3);
    assert_true(m.least >= -2 && m.least < -1.999);
    assert_true(m.most <= 2 && m.most > 1.999);
}

/* Pearson's statistic of 256 equal cells has mean 255, deviation 22.6. */
static double chi_square(const uint32_t count[256])
{
    const double expected = N / 256.0;
    double sum = 0;

    for (int i = 0; i < 256; i++)
        sum += (count[i] - expected) * (count[i] - expected) / expected;
    return sum;
}

static void every_byte_of_the_bits_is_uniform(void **state)
{
    uint32_t count[8][256] = { { 0 } };

    (void)state;
    for (uint64_t row = 0; row < SIDE; row++) {
        for (uint64_t col = 0; col < SIDE; col++) {
            uint64_t bits = fl_rng_bits(stream(), row, col);

            for (int b = 0; b < 8; b++)
                count[b][bits >> (8 * b) & 0xff]++;
        }
    }
    for (int b = 0; b < 8; b++) {
        assert_true(chi_square(count[b]) < 255 + 4 * 22.6);
        assert_true(chi_square(count[b]) > 255 - 4 * 22.6);
    }
}

/* Each of the n fills one of 256 cells of (this value, its neighbour). */
static void pairs_of_neighbours_are_uniform(void **state)
{
    uint32_t right[256] = { 0 }, lower[256] = { 0 };

    (void)state;
    for (uint64_t row = 0; row < SIDE; row++) {
        for (uint64_t col = 0; col < SIDE; col++) {
            uint64_t x = fl_rng_bits(stream(), row, col) >> 60;

            right[x << 4 | fl_rng_bits(stream(), row, col + 1) >> 60]++;
            lower[x << 4 | fl_rng_bits(stream(), row + 1, col) >> 60]++;
        }
    }
    assert_true(chi_square(right) < 255 + 4 * 22.6);
    assert_true(chi_square(lower) < 255 + 4 * 22.6);
}

static void rows_and_columns_are_not_exchanged(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        assert_true(fl_rng_bits(stream(), i, i + 1) !=
                    fl_rng_bits(stream(), i + 1, i));
        assert_true(fl_rng_bits(stream(), 0, i) !=
                    fl_rng_bits(stream(), i + 1, 0));
    }
}

static void streams_of_other_seeds_and_names_differ(void **state)
{
    const uint64_t others[] = {
        fl_rng_stream(43, "fc_0.w_0"),
        fl_rng_stream(42, "fc_0.w_1"),
        fl_rng_stream(0, ""),
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(others); i++) {
        double sum = 0;

        for (uint64_t row = 0; row < N; row++)
            sum += fl_rng_normal(stream(), row, 0) *
                   fl_rng_normal(others[i], row, 0) / N;
        assert_true(fabs(sum) < 4 / sqrt(N));
    }
}

/* Phi(z) by the C library's erfc gives back the open unit value, with an error
   that is relative in the tails as well. */
static void normal_inverts_the_distribution(void **state)
{
    (void)state;
    for (uint64_t row = 0; row < 100000; row++) {
        double p = fl_rng_open(stream(), row, 5);
        double z = fl_rng_normal(stream(), row, 5);
        double tail = p < 0.5 ? p : 1 - p;
        double back = 0.5 * erfc(fabs(z) / sqrt(2.0));

        assert_true((z < 0) == (p < 0.5));
        assert_true(fabs(back - tail) < 1e-14 * tail + 1e-16);
    }
}

static void open_values_agree_with_unit_values(void **state)
{
    (void)state;
    for (uint64_t col = 0; col < 1000; col++) {
        double open = fl_rng_open(stream(), 1, col);

        assert_true(open > 0 && open < 1);
        assert_true(fabs(open - fl_rng_unit(stream(), 1, col)) <= 0x1p-52);
    }
}

static void each_kind_scales_its_draw(void **state)
{
    const uint64_t s = stream();
    const fl_init constant = { FL_INIT_CONSTANT, 0.25, 9, s };
    const fl_init uniform = { FL_INIT_UNIFORM, -3, 5, s };
    const fl_init gaussian = { FL_INIT_GAUSSIAN, 1, 0.5, s };
    const fl_init truncated = { FL_INIT_TRUNCATED, 1, 0.5, s };

    (void)state;
    for (uint64_t col = 0; col < 100; col++) {
        assert_true(fl_init_value(&constant, 2, col) == 0.25);
        assert_true(fl_init_value(&uniform, 2, col) ==
                    -3 + 8 * fl_rng_unit(s, 2, col));
        assert_true(fl_init_value(&gaussian, 2, col) ==
                    1 + 0.5 * fl_rng_normal(s, 2, col));
        assert_true(fl_init_value(&truncated, 2, col) ==
                    1 + 0.5 * fl_rng_truncated(s, 2, col));
    }
}

/* Between neighbouring doubles half of the draws would round up to b. */
static void uniform_never_reaches_its_upper_end(void **state)
{
    const fl_init narrow = { FL_INIT_UNIFORM, 1, 1 + 0x1p-52, stream() };
    const fl_init empty = { FL_INIT_UNIFORM, 2, 2, stream() };

    (void)state;
    for (uint64_t col = 0; col < 100; col++) {
        assert_true(fl_init_value(&narrow, 0, col) == 1);
        assert_true(fl_init_value(&empty, 0, col) == 2);
    }
}

static void a_row_is_its_single_values(void **state)
{
    (void)state;
    for (int kind = FL_INIT_CONSTANT; kind <= FL_INIT_TRUNCATED; kind++) {
        const fl_init init = { (fl_init_kind)kind, -0.1, 0.3, stream() };
        float row[33];

        row[32] = 77;
        fl_init_row(&init, 1ull << 40, row, 32);
        for (uint32_t i = 0; i < 32; i++)
            assert_true(row[i] == (float)fl_init_value(&init, 1ull << 40, i));
        assert_true(row[32] == 77);
    }
}

static void a_row_has_a_key_for_its_columns(void **state)
{
    (void)state;
    for (uint64_t row = 0; row < 9; row++) {
        uint64_t key = fl_rng_row(stream(), row);

        for (uint64_t col = 0; col < 9; col++) {
            assert_true(fl_rng_row_bits(key, col) ==
                        fl_rng_bits(stream(), row, col));
            assert_true(fl_rng_row_unit(key, col) ==
                        fl_rng_unit(stream(), row, col));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_never_change),
        cmocka_unit_test(a_row_has_a_key_for_its_columns),
        cmocka_unit_test(unit_values_are_uniform),
        cmocka_unit_test(normal_values_have_mean_0_and_variance_1),
        cmocka_unit_test(truncated_values_stay_within_two_deviations),
        cmocka_unit_test(every_byte_of_the_bits_is_uniform),
        cmocka_unit_test(pairs_of_neighbours_are_uniform),
        cmocka_unit_test(rows_and_columns_are_not_exchanged),
        cmocka_unit_test(streams_of_other_seeds_and_names_differ),
        cmocka_unit_test(normal_inverts_the_distribution),
        cmocka_unit_test(open_values_agree_with_unit_values),
        cmocka_unit_test(each_kind_scales_its_draw),
        cmocka_unit_test(uniform_never_reaches_its_upper_end),
        cmocka_unit_test(a_row_is_its_single_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
