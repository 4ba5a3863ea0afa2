/* test_vec.c - vector loops: every length, every instruction set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/status.h"
#include "kernel/vec.h"
#include "sample.h"

#define LEN_MAX 70

#define DECLARE(t, isa)                                                        \
    extern const fl_vec_##t##_table fl_vec_##t##_table_of_##isa;
#define ADDR(t, isa) &fl_vec_##t##_table_of_##isa,
FL_ISA_MAP(DECLARE, f32)
FL_ISA_MAP(DECLARE, f64)
static const fl_vec_f32_table *const f32_sets[] = { FL_ISA_MAP(ADDR, f32) };
static const fl_vec_f64_table *const f64_sets[] = { FL_ISA_MAP(ADDR, f64) };

static const fl_act acts[] = { FL_ACT_NONE, FL_ACT_RELU, FL_ACT_SIGMOID,
                               FL_ACT_TANH };

static double activate(double x, fl_act act)
{
    switch (act) {
    case FL_ACT_NONE:
        return x;
    case FL_ACT_RELU:
        return x > 0 ? x : 0;
    case FL_ACT_SIGMOID:
        return 1 / (1 + exp(-x));
    case FL_ACT_TANH:
        return tanh(x);
    }
    return 0;
}

static double slope(double y, fl_act act)
{
    switch (act) {
    case FL_ACT_NONE:
        return 1;
    case FL_ACT_RELU:
        return y > 0;
    case FL_ACT_SIGMOID:
        return y * (1 - y);
    case FL_ACT_TANH:
        return 1 - y * y;
    }
    return 0;
}

/* Each function once, against a formula, on vectors of exactly n numbers. */
#define CHECK_LENGTH(T, t, tolerance)                                          \
    static void check_##t(const fl_vec_##t##_table *v, size_t n)               \
    {                                                                          \
        T *x = samples_##t(1, n), *y = samples_##t(2, n);                      \
        T *z = samples_##t(3, n);                                              \
        uint8_t is[LEN_MAX];                                                   \
        double sum = 0, dot = 0;                                               \
                                                                               \
        v->add(z, x, y, n);                                                    \
        for (size_t i = 0; i < n; i++)                                         \
            assert_true(z[i] == x[i] + y[i]);                                  \
        v->sub(z, x, y, n);                                                    \
        for (size_t i = 0; i < n; i++)                                         \
            assert_true(z[i] == x[i] - y[i]);                                  \
        v->mul(z, x, y, n);                                                    \
        for (size_t i = 0; i < n; i++)                                         \
            assert_true(z[i] == x[i] * y[i]);                                  \
        v->div(z, x, y, n);                                                    \
        for (size_t i = 0; i < n; i++)                                         \
            assert_true(z[i] == x[i] / y[i]);                                  \
        v->scale(z, 3, x, -1, n);                                              \
        for (size_t i = 0; i < n; i++)                                         \
            assert_true(fabs((double)z[i] - (3 * (double)x[i] - 1)) <          \
                        8 * tolerance);                                        \
        v->relu(z, x, n);                                                      \
        for (size_t i = 0; i < n; i++)                                         \
            assert_true(z[i] == (x[i] > 0 ? x[i] : 0));                        \
        v->relu_grad(z, x, y, n);                                              \
        for (size_t i = 0; i < n; i++)                                         \
            assert_true(z[i] == (x[i] > 0 ? y[i] : 0));                        \
        v->positive(is, x, n);                                                 \
        v->keep_where(z, is, y, n);                                            \
        for (size_t i = 0; i < n; i++)                                         \
            assert_true(is[i] == (x[i] > 0) && z[i] == (is[i] ? y[i] : 0));    \
        for (size_t i = 0; i < n; i++) {                                       \
            sum += (double)x[i];                                               \
            dot += (double)x[i] * (double)y[i];                                \
            z[i] = y[i] + (T)0.5 * x[i];                                       \
        }                                                                      \
        assert_true(fabs(v->sum(x, n) - sum) < 1e-12);                         \
        assert_true(fabs(v->dot(x, y, n) - dot) < 1e-12);                      \
        v->axpy(y, (T)0.5, x, n);                                              \
        for (size_t i = 0; i < n; i++)                                         \
            assert_true(fabs((double)(y[i] - z[i])) < tolerance);              \
        assert_int_equal(v->find_not_finite(x, n), n);                         \
        free(x);                                                               \
        free(y);                                                               \
        free(z);                                                               \
    }                                                                          \
    static void check_acts_##t(const fl_vec_##t##_table *v, size_t n)          \
    {                                                                          \
        for (size_t k = 0; k < FL_LEN(acts); k++) {                            \
            T *x = samples_##t(4, n), *y = samples_##t(4, n);                  \
            T *dy = samples_##t(5, n), *dz = samples_##t(6, n);                \
                                                                               \
            v->bias_act(y, NULL, n > 0, n, n, acts[k]);                        \
            v->act_grad(dz, dy, y, n, acts[k]);                                \
            for (size_t i = 0; i < n; i++) {                                   \
                double want = (double)dy[i] * slope((double)y[i], acts[k]);    \
                                                                               \
                assert_true(                                                   \
                    fabs((double)y[i] - activate((double)x[i], acts[k])) <     \
                    4 * tolerance);                                            \
                assert_true(fabs((double)dz[i] - want) < 4 * tolerance);       \
            }                                                                  \
            free(x);                                                           \
            free(y);                                                           \
            free(dy);                                                          \
            free(dz);                                                          \
        }                                                                      \
    }
CHECK_LENGTH(float, f32, 1.2e-7)
CHECK_LENGTH(double, f64, 2.3e-16)

static void every_length_gives_the_formula(void **state)
{
    (void)state;
    for (size_t n = 0; n <= LEN_MAX; n++) {
        check_f32(fl_vec_f32(), n);
        check_f64(fl_vec_f64(), n);
        check_acts_f32(fl_vec_f32(), n);
        check_acts_f64(fl_vec_f64(), n);
    }
}

static void an_output_may_be_an_input(void **state)
{
    (void)state;
    for (size_t n = 0; n <= LEN_MAX; n++) {
        const fl_vec_f32_table *v = fl_vec_f32();
        float *x = samples_f32(1, n), *y = samples_f32(2, n);
        float *apart = samples_f32(3, n);

        v->act_grad(apart, y, x, n, FL_ACT_TANH);
        v->act_grad(y, y, x, n, FL_ACT_TANH);
        assert_memory_equal(y, apart, n * sizeof(*y));
        v->act_grad(y, y, x, n, FL_ACT_NONE);
        assert_memory_equal(y, apart, n * sizeof(*y));
        v->relu(apart, x, n);
        v->relu(x, x, n);
        assert_memory_equal(x, apart, n * sizeof(*x));
        v->add(apart, x, y, n);
        v->add(x, x, y, n);
        assert_memory_equal(x, apart, n * sizeof(*x));
        free(x);
        free(y);
        free(apart);
    }
}

static void a_sum_of_large_floats_keeps_the_small_ones(void **state)
{
    float x[40];

    (void)state;
    for (size_t i = 0; i < FL_LEN(x); i++)
        x[i] = i == 0 ? 1e8f : i == 39 ? -1e8f : 0.25f;
    assert_true(fl_vec_f32()->sum(x, FL_LEN(x)) == 38 * 0.25);
}

static void rows_of_scores_are_looked_at_as_a_whole(void **state)
{
    const fl_vec_f32_table *v = fl_vec_f32();

    (void)state;
    for (size_t n = 1; n <= LEN_MAX; n++) {
        float *x = samples_f32(1, n), *y = samples_f32(2, n);
        float *z = samples_f32(3, n), top = x[0];
        double sum = 0, dots[3];
        fl_softmax_of of;
        int32_t at[LEN_MAX] = { 0 };

        v->dots(dots, x, y, n);
        assert_true(dots[0] == v->dot(x, x, n));
        assert_true(dots[1] == v->dot(y, y, n));
        assert_true(dots[2] == v->dot(x, y, n));
        for (size_t i = 0; i < n; i++)
            top = x[i] > top ? x[i] : top;
        for (size_t i = 0; i < n; i++)
            sum += exp(fmax((double)(x[i] - top), FL_SOFTMAX_LEAST));
        assert_true(v->max(x, n) == top);
        of = v->softmax(z, x, n);
        assert_true(of.max == (double)top && fabs(of.sum - sum) < 1e-6 * sum);
        assert_true(v->softmax(NULL, x, n).sum == of.sum);
        for (size_t i = 0; i < n; i++)
            assert_true(fabs((double)z[i] - exp((double)(x[i] - top)) / sum) <
                        1e-6);
        v->max_rows(z, at, x, 2, n / 2, 7);
        for (size_t i = 0; i < n / 2; i++) {
            bool below = x[n / 2 + i] > x[i];

            assert_true(z[i] == (below ? x[n / 2 + i] : x[i]));
            assert_int_equal(at[i], below ? 8 : 7);
        }
        free(x);
        free(y);
        free(z);
    }
}

static void
scores_far_below_the_largest_count_as_one_that_is_nearer(void **state)
{
    const float x[] = { -1e30f, 100, -INFINITY, 36, 35 };
    float y[FL_LEN(x)];

    (void)state;
    fl_vec_f32()->softmax(y, x, FL_LEN(x));
    assert_true(y[1] == 1);
    assert_true(y[0] > 0 && y[0] == y[2] && y[0] == y[3] && y[0] == y[4]);
    y[2] = NAN;
    fl_vec_f32()->softmax(y, y, FL_LEN(y));
    assert_true(isnan(y[0]) && isnan(y[2]));
}

static void what_is_not_below_is_counted_with_what_is_no_number(void **state)
{
    const float x[] = { 1, 2, 3, NAN, 2, INFINITY, -INFINITY };

    (void)state;
    assert_int_equal(fl_vec_f32()->count_from(x, 2, FL_LEN(x)), 5);
    assert_int_equal(fl_vec_f32()->count_above(x, 2, FL_LEN(x)), 3);
    assert_int_equal(fl_vec_f32()->count_above(x, 2, 0), 0);
}

static void sums_of_rows_are_sums(void **state)
{
    float *x = samples_f32(1, 5 * 37), out[5];

    (void)state;
    fl_vec_f32()->row_sums(out, x, 5, 37);
    for (size_t i = 0; i < 5; i++)
        assert_true(out[i] == (float)fl_vec_f32()->sum(x + i * 37, 37));
    free(x);
}

static void a_logistic_loss_never_overflows(void **state)
{
    const float x[] = { 0, 200, -200, 200, -200, 1 };
    const float label[] = { 0.5f, 1, 0, 0, 1, 3 };
    const float want[] = { 0.69314718f, 0, 0, 200, 200, 0 };
    const float slope[] = { 0, 0, 0, 1, -1, 0 };
    const float g[] = { 1, 1, 1, 1, 1, 1 };
    float got[FL_LEN(x)] = { 0 };

    (void)state;
    fl_vec_f32()->logistic_loss(got, x, label, 3, FL_LEN(x));
    for (size_t i = 0; i < FL_LEN(x); i++)
        assert_true(fabsf(got[i] - want[i]) < 1e-6f);
    fl_vec_f32()->logistic_grad(got, x, label, g, 3, FL_LEN(x));
    for (size_t i = 0; i < FL_LEN(x); i++)
        assert_true(fabsf(got[i] - slope[i]) < 1e-6f);
}

static void columns_are_summed_over_a_leading_dimension(void **state)
{
    (void)state;
    for (size_t rows = 0; rows <= 9; rows++)
        for (size_t cols = 0; cols <= 20; cols++) {
            size_t ld = cols + 3;
            float *x = samples_f32(7, rows * ld), *out = samples_f32(8, cols);

            fl_vec_f32()->col_sum(out, x, rows, cols, ld);
            for (size_t j = 0; j < cols; j++) {
                float want = 0;

                for (size_t i = 0; i < rows; i++)
                    want += x[i * ld + j];
                assert_true(out[j] == want);
            }
            free(x);
            free(out);
        }
}

static void a_bias_is_added_to_each_row_and_no_further(void **state)
{
    const size_t rows = 3, cols = 21, ld = 25;

    (void)state;
    for (size_t k = 0; k < FL_LEN(acts); k++) {
        float *y = samples_f32(9, rows * ld), *old = samples_f32(9, rows * ld);
        float *bias = samples_f32(10, cols);

        fl_vec_f32()->bias_act(y, bias, rows, cols, ld, acts[k]);
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < ld; j++) {
                size_t at = i * ld + j;
                double want =
                    j < cols ? activate((double)(old[at] + bias[j]), acts[k])
                             : (double)old[at];

                assert_true(fabs((double)y[at] - want) < 1e-6);
            }
        free(y);
        free(old);
        free(bias);
    }
}

static void not_a_number_passes_the_rectifier(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 40; n++) {
        float *x = samples_f32(1, n), *bias = samples_f32(2, n);

        x[n - 1] = NAN;
        fl_vec_f32()->relu(x, x, n);
        assert_true(isnan(x[n - 1]));
        fl_vec_f32()->bias_act(x, bias, 1, n, n, FL_ACT_RELU);
        assert_true(isnan(x[n - 1]));
        free(x);
        free(bias);
    }
}

static void the_first_number_that_is_not_finite_is_found(void **state)
{
    const double bad[] = { NAN, INFINITY, -INFINITY };
    const size_t n = 600;

    (void)state;
    for (size_t at = 0; at < n; at += 37)
        for (size_t k = 0; k < FL_LEN(bad); k++) {
            float *x = samples_f32(1, n);
            double *y = samples_f64(1, n);

            x[at] = (float)bad[k];
            y[at] = bad[k];
            x[n - 1] = y[n - 1] = NAN;
            assert_int_equal(fl_vec_f32()->find_not_finite(x, n), at);
            assert_int_equal(fl_vec_f64()->find_not_finite(y, n), at);
            free(x);
            free(y);
        }
}

/* All results of one table, one after the other. */
#define ALL_RESULTS(T, t)                                                      \
    static size_t results_##t(const fl_vec_##t##_table *v, size_t n, T *out)   \
    {                                                                          \
        T *x = samples_##t(1, n), *y = samples_##t(2, n);                      \
        int32_t at[LEN_MAX] = { 0 };                                           \
        double dots[3];                                                        \
        T *o = out;                                                            \
                                                                               \
        v->add(o, x, y, n), o += n;                                            \
        v->sub(o, x, y, n), o += n;                                            \
        v->mul(o, x, y, n), o += n;                                            \
        v->div(o, x, y, n), o += n;                                            \
        v->scale(o, (T)1.1, x, (T)0.3, n), o += n;                             \
        v->relu(o, x, n), o += n;                                              \
        v->relu_grad(o, x, y, n), o += n;                                      \
        for (size_t k = 0; k < FL_LEN(acts); k++) {                            \
            v->scale(o, 1, x, 0, n);                                           \
            v->bias_act(o, y, 1, n, n, acts[k]), o += n;                       \
            v->act_grad(o, x, y, n, acts[k]), o += n;                          \
        }                                                                      \
        v->col_sum(o, x, n / 5, 5, 5), o += 5;                                 \
        *o++ = (T)v->sum(x, n);                                                \
        *o++ = (T)v->dot(x, y, n);                                             \
        v->dots(dots, x, y, n);                                                \
        for (size_t k = 0; k < 3; k++)                                         \
            *o++ = (T)dots[k];                                                 \
        *o = n ? (T)v->softmax(o + 1, x, n).sum : 0, o += n + 1;               \
        v->row_sums(o, x, n / 5, 5), o += n / 5;                               \
        *o++ = (T)v->count_from(x, (T)0.25, n);                                \
        *o++ = (T)v->count_above(x, (T)0.25, n);                               \
        *o++ = n ? v->max(x, n) : 0;                                           \
        v->logistic_loss(o, x, y, 2, n), o += n;                               \
        v->logistic_grad(o, x, y, x, 2, n), o += n;                            \
        v->max_rows(o, at, x, 3, n / 3, 5), o += n / 3;                        \
        for (size_t k = 0; k < n / 3; k++)                                     \
            *o++ = (T)at[k];                                                   \
        v->axpy(y, (T)1.7, x, n);                                              \
        v->scale(o, 1, y, 0, n), o += n;                                       \
        free(x);                                                               \
        free(y);                                                               \
        return (size_t)(o - out);                                              \
    }
ALL_RESULTS(float, f32)
ALL_RESULTS(double, f64)

#define RESULTS_MAX (24 * LEN_MAX)

static void all_instruction_sets_give_the_same_bits(void **state)
{
    static float f32_base[RESULTS_MAX], f32[RESULTS_MAX];
    static double f64_base[RESULTS_MAX], f64[RESULTS_MAX];
    const int isas = (int)fl_isa();

    (void)state;
    for (size_t n = 0; n <= LEN_MAX; n++)
        for (int isa = FL_ISA_AVX2; isa <= isas && isa < (int)FL_LEN(f32_sets);
             isa++) {
            size_t len = results_f32(f32_sets[FL_ISA_BASE], n, f32_base);

            assert_true(len <= RESULTS_MAX);
            results_f32(f32_sets[isa], n, f32);
            assert_memory_equal(f32, f32_base, len * sizeof(*f32));
            results_f64(f64_sets[FL_ISA_BASE], n, f64_base);
            results_f64(f64_sets[isa], n, f64);
            assert_memory_equal(f64, f64_base, len * sizeof(*f64));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_gives_the_formula),
        cmocka_unit_test(an_output_may_be_an_input),
        cmocka_unit_test(a_sum_of_large_floats_keeps_the_small_ones),
        cmocka_unit_test(rows_of_scores_are_looked_at_as_a_whole),
        cmocka_unit_test(
            scores_far_below_the_largest_count_as_one_that_is_nearer),
        cmocka_unit_test(what_is_not_below_is_counted_with_what_is_no_number),
        cmocka_unit_test(sums_of_rows_are_sums),
        cmocka_unit_test(a_logistic_loss_never_overflows),
        cmocka_unit_test(columns_are_summed_over_a_leading_dimension),
        cmocka_unit_test(a_bias_is_added_to_each_row_and_no_further),
        cmocka_unit_test(not_a_number_passes_the_rectifier),
        cmocka_unit_test(the_first_number_that_is_not_finite_is_found),
        cmocka_unit_test(all_instruction_sets_give_the_same_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
