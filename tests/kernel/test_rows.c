/* test_rows.c - rows gathered and scattered by index. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernel/rows.h"
#include "sample.h"

#define N_ROWS 23
#define N 57
#define DIM_MAX 40

#define DECLARE(t, isa)                                                        \
    extern const fl_rows_##t##_table fl_rows_##t##_table_of_##isa;
#define ADDR(t, isa) &fl_rows_##t##_table_of_##isa,
FL_ISA_MAP(DECLARE, f32)
FL_ISA_MAP(DECLARE, f64)
static const fl_rows_f32_table *const f32_sets[] = { FL_ISA_MAP(ADDR, f32) };
static const fl_rows_f64_table *const f64_sets[] = { FL_ISA_MAP(ADDR, f64) };

static uint64_t wide[N];
static uint32_t narrow[N];

/* Rows come up more than once, the first and the last among them. */
static int make_indices(void **state)
{
    (void)state;
    for (size_t i = 0; i < N; i++)
        wide[i] = narrow[i] = (uint32_t)(fl_mix64(i) % N_ROWS);
    wide[3] = narrow[3] = 0;
    wide[N - 1] = narrow[N - 1] = N_ROWS - 1;
    return 0;
}

/* The three functions against plain loops, bit for bit, for n rows of dim. */
#define CHECK(T, t)                                                            \
    static void check_##t(const fl_rows_##t##_table *f, size_t n, size_t dim)  \
    {                                                                          \
        size_t ld = dim + 2;                                                   \
        T *rows = samples_##t(1, N_ROWS * dim);                                \
        T *want = samples_##t(1, N_ROWS * dim);                                \
        T *x = samples_##t(2, n * ld), *old = samples_##t(2, n * ld);          \
                                                                               \
        f->gather(x, ld, rows, wide, n, dim);                                  \
        for (size_t i = 0; i < n; i++)                                         \
            for (size_t j = 0; j < ld; j++)                                    \
                assert_true(                                                   \
                    x[i * ld + j] ==                                           \
                    (j < dim ? rows[wide[i] * dim + j] : old[i * ld + j]));    \
        f->scatter_axpy(rows, wide, n, dim, (T)-0.3, old, ld);                 \
        f->merge(rows, narrow, n, dim, 1, old);                                \
        for (size_t i = 0; i < n; i++)                                         \
            for (size_t j = 0; j < dim; j++)                                   \
                want[wide[i] * dim + j] += (T)-0.3 * old[i * ld + j];          \
        for (size_t i = 0; i < n; i++)                                         \
            for (size_t j = 0; j < dim; j++)                                   \
                want[wide[i] * dim + j] += old[i * dim + j];                   \
        f->merge(rows, narrow, n, dim, (T)0.7, old);                           \
        for (size_t i = 0; i < n; i++)                                         \
            for (size_t j = 0; j < dim; j++)                                   \
                want[wide[i] * dim + j] += (T)0.7 * old[i * dim + j];          \
        assert_memory_equal(rows, want, N_ROWS *dim * sizeof(T));              \
        free(rows);                                                            \
        free(want);                                                            \
        free(x);                                                               \
        free(old);                                                             \
    }
CHECK(float, f32)
CHECK(double, f64)

static void rows_are_gathered_and_scattered_in_order(void **state)
{
    (void)state;
    for (size_t dim = 0; dim <= DIM_MAX; dim++) {
        check_f32(fl_rows_f32(), N, dim);
        check_f64(fl_rows_f64(), N, dim);
    }
}

static void few_rows_and_none_work(void **state)
{
    (void)state;
    for (size_t n = 0; n <= 10; n++) {
        check_f32(fl_rows_f32(), n, 10);
        check_f64(fl_rows_f64(), n, 10);
    }
}

static void long_rows_work(void **state)
{
    (void)state;
    check_f32(fl_rows_f32(), N, 300);
    check_f64(fl_rows_f64(), N, 300);
}

/* Plain loops are the measure of every set, so the sets agree as well. */
static void all_instruction_sets_give_the_same_bits(void **state)
{
    (void)state;
    for (int isa = FL_ISA_BASE; isa <= (int)fl_isa(); isa++)
        for (size_t dim = 1; dim <= DIM_MAX; dim++) {
            check_f32(f32_sets[isa], N, dim);
            check_f64(f64_sets[isa], N, dim);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_gathered_and_scattered_in_order),
        cmocka_unit_test(few_rows_and_none_work),
        cmocka_unit_test(long_rows_work),
        cmocka_unit_test(all_instruction_sets_give_the_same_bits),
    };

    return cmocka_run_group_tests(tests, make_indices, NULL);
}
