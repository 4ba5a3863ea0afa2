/* test_math.c - functions of one and two numbers: near the C library's, right
 * at the edges, the same bits on every instruction set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "kernel/binary.h"
#include "kernel/unary.h"
#include "sample.h"

#define STEPS 200000
#define LEN 131 /* whole vectors and a rest for every width */

#define DECLARE(t, isa) extern const fl_##t fl_##t##_table_of_##isa[];
#define ADDR(t, isa) fl_##t##_table_of_##isa,
FL_ISA_MAP(DECLARE, unary)
FL_ISA_MAP(DECLARE, binary)
static const fl_unary *const unary_sets[] = { FL_ISA_MAP(ADDR, unary) };
static const fl_binary *const binary_sets[] = { FL_ISA_MAP(ADDR, binary) };

/* The sets that this machine runs. */
static size_t n_sets(void)
{
    size_t n = (size_t)fl_isa() + 1;

    return n < FL_LEN(unary_sets) ? n : FL_LEN(unary_sets);
}

static float value_of(fl_unary_kind kind, float x)
{
    float y;

    fl_unary_of(kind)->value[0](&y, &x, 1, (const double[3]){ 0 });
    return y;
}

/* In units of the last place of what is right. */
static double error_of(float got, double right)
{
    double unit = ldexp(1, ilogb(right) - 23), least = ldexp(1, -149);

    return fabs((double)got - right) / (unit > least ? unit : least);
}

/* What a function promises over a range. */
typedef struct promise {
    fl_unary_kind kind;
    double (*right)(double);
    float lo, hi;
    double units;
} promise;

static void check_promise(const promise *p)
{
    for (int i = 0; i <= STEPS; i++) {
        float x = p->lo + (p->hi - p->lo) * (float)i / STEPS;
        double want = p->right((double)x);
        float got = value_of(p->kind, x);

        if (want != 0 && error_of(got, want) > p->units)
            fail_msg("%a: got %a, want %a", (double)x, (double)got, want);
    }
}

static void exp_log_and_tanh_keep_their_promises(void **state)
{
    static const promise all[] = {
        { FL_UNARY_exp, exp, -103, 88.7f, 2 },
        { FL_UNARY_exp, exp, -1e-3f, 1e-3f, 2 },
        { FL_UNARY_log, log, 1e-3f, 4, 2 },
        { FL_UNARY_log, log, 1, 1e30f, 2 },
        { FL_UNARY_log, log, 1e-44f, 1e-37f, 2 },
        { FL_UNARY_log1p, log1p, -0.9f, 3, 2 },
        { FL_UNARY_log1p, log1p, -1e-5f, 1e-5f, 2 },
        { FL_UNARY_tanh, tanh, -10, 10, 7 },
        { FL_UNARY_tanh, tanh, -1e-2f, 1e-2f, 7 },
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(all); i++)
        check_promise(&all[i]);
}

static void edges_are_those_of_the_c_library(void **state)
{
    static const struct {
        fl_unary_kind kind;
        float x, y;
    } edges[] = {
        { FL_UNARY_exp, INFINITY, INFINITY },
        { FL_UNARY_exp, -INFINITY, 0 },
        { FL_UNARY_exp, 89, INFINITY },
        { FL_UNARY_exp, -150, 0 },
        { FL_UNARY_exp, 0, 1 },
        { FL_UNARY_log, 0, -INFINITY },
        { FL_UNARY_log, INFINITY, INFINITY },
        { FL_UNARY_log, 1, 0 },
        { FL_UNARY_log, -1, NAN },
        { FL_UNARY_log1p, -1, -INFINITY },
        { FL_UNARY_log1p, INFINITY, INFINITY },
        { FL_UNARY_log1p, -2, NAN },
        { FL_UNARY_log1p, FLT_MIN, FLT_MIN },
        { FL_UNARY_tanh, INFINITY, 1 },
        { FL_UNARY_tanh, -INFINITY, -1 },
        { FL_UNARY_tanh, FLT_MIN, FLT_MIN },
        { FL_UNARY_sigmoid, 200, 1 },
        { FL_UNARY_sigmoid, -200, 0 },
        { FL_UNARY_softplus, 200, 200 },
        { FL_UNARY_softplus, -200, 0 },
        { FL_UNARY_logsigmoid, -200, -200 },
        { FL_UNARY_round, 2.5f, 2 },
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(edges); i++) {
        float y = value_of(edges[i].kind, edges[i].x);

        if (!(y == edges[i].y || (isnan(y) && isnan(edges[i].y))))
            fail_msg("edge %zu: got %g, want %g", i, (double)y,
                     (double)edges[i].y);
        assert_true(isnan(value_of(edges[i].kind, NAN)));
    }
}

/* Also far numbers, where clamps and scales work. */
static void stretch(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] *= i % 3 == 0 ? 1 : i % 3 == 1 ? 30 : 200;
}

static void unary_functions_give_the_same_bits_on_all_sets(void **state)
{
    static const double attrs[] = { 0.7, 1.3, 0.4 };
    float want[LEN], got[LEN], *x = samples_f32(1, LEN);
    float *y = samples_f32(2, LEN), *g = samples_f32(3, LEN);

    (void)state;
    stretch(x, LEN);
    for (int k = 0; k < FL_UNARY_COUNT; k++)
        for (size_t isa = 0; isa < n_sets(); isa++) {
            const fl_unary *base = &unary_sets[0][k], *f = &unary_sets[isa][k];

            base->value[0](want, x, LEN, attrs);
            f->value[0](got, x, LEN, attrs);
            assert_memory_equal(want, got, sizeof(got));
            base->gradient[0](want, x, y, g, LEN, attrs);
            f->gradient[0](got, x, y, g, LEN, attrs);
            assert_memory_equal(want, got, sizeof(got));
        }
    free(x);
    free(y);
    free(g);
}

static void binary_functions_give_the_same_bits_on_all_sets(void **state)
{
    float want[LEN], got[LEN], *x = samples_f32(1, LEN);
    float *y = samples_f32(2, LEN), *z = samples_f32(3, LEN);

    (void)state;
    for (int k = 0; k < FL_BINARY_COUNT * FL_BINARY_FORMS; k++)
        for (size_t isa = 0; isa < n_sets(); isa++) {
            const fl_binary *base = &binary_sets[0][k / FL_BINARY_FORMS];
            const fl_binary *f = &binary_sets[isa][k / FL_BINARY_FORMS];
            int form = k % FL_BINARY_FORMS;

            base->value[0][form](want, x, y, NULL, NULL, LEN);
            f->value[0][form](got, x, y, NULL, NULL, LEN);
            assert_memory_equal(want, got, sizeof(got));
            for (int side = 0; side < 2; side++) {
                base->gradient[0][side][form](want, x, y, z, y, LEN);
                f->gradient[0][side][form](got, x, y, z, y, LEN);
                assert_memory_equal(want, got, sizeof(got));
            }
        }
    free(x);
    free(y);
    free(z);
}

static void the_least_integer_by_minus_one_wraps_around(void **state)
{
    int32_t x = INT32_MIN, y = -1, z = 7;

    (void)state;
    fl_binary_of(FL_BINARY_div)->value[2][0](&z, &x, &y, NULL, NULL, 1);
    assert_int_equal(z, INT32_MIN);
    fl_binary_of(FL_BINARY_mod)->value[2][0](&z, &x, &y, NULL, NULL, 1);
    assert_int_equal(z, 0);
    fl_binary_of(FL_BINARY_add)->value[2][0](&z, &x, &y, NULL, NULL, 1);
    assert_int_equal(z, INT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_log_and_tanh_keep_their_promises),
        cmocka_unit_test(edges_are_those_of_the_c_library),
        cmocka_unit_test(unary_functions_give_the_same_bits_on_all_sets),
        cmocka_unit_test(binary_functions_give_the_same_bits_on_all_sets),
        cmocka_unit_test(the_least_integer_by_minus_one_wraps_around),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
