/* test_gemm.c - products of all shapes against a sum in double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/thread.h"
#include "kernel/gemm.h"
#include "kernel/gemm_hot.h"
#include "sample.h"

#define N_THREADS 8

#define DECLARE(name, isa) extern const fl_gemm_hot_table name##_##isa;
#define ADDR(name, isa) &name##_##isa,
FL_ISA_MAP(DECLARE, fl_gemm_hot_table_of)
static const fl_gemm_hot_table *const hot_sets[] = { FL_ISA_MAP(
    ADDR, fl_gemm_hot_table_of) };

/* m, n, k */
static const int64_t sizes[][3] = {
    { 1, 1, 1 },     { 1, 1, 100 },  { 1, 40, 1 },     { 3, 5, 7 },
    { 8, 8, 8 },     { 9, 9, 9 },    { 33, 2, 40 },    { 50, 2, 400 },
    { 40, 3, 1030 }, { 17, 8, 35 },  { 50, 400, 2 },   { 7, 600, 8 },
    { 5, 64, 1 },    { 400, 2, 50 }, { 600, 3, 35 },   { 33, 8, 1 },
    { 1, 50, 60 },   { 8, 33, 70 },  { 37, 41, 53 },   { 70, 520, 20 },
    { 64, 64, 64 },  { 130, 17, 9 }, { 20, 100, 513 }, { 1, 400, 273 },
    { 2, 33, 70 },   { 2, 9, 9 },    { 4, 64, 75 }
};

static double at_f32(const float *x, fl_trans t, int64_t ld, int64_t i,
                     int64_t j)
{
    return (double)(t ? x[j * ld + i] : x[i * ld + j]);
}

static double at_f64(const double *x, fl_trans t, int64_t ld, int64_t i,
                     int64_t j)
{
    return t ? x[j * ld + i] : x[i * ld + j];
}

/* Numbers that a matrix of rows x cols takes, without a tail after the last
   row: a step outside is outside the block. */
static size_t span(int64_t rows, int64_t cols, int64_t ld)
{
    return rows > 0 && cols > 0 ? (size_t)((rows - 1) * ld + cols) : 0;
}

static fl_gemm_shape shape(const int64_t *mnk, fl_trans ta, fl_trans tb,
                           int64_t pad)
{
    int64_t m = mnk[0], n = mnk[1], k = mnk[2];

    return (fl_gemm_shape){ .ta = ta,
                            .tb = tb,
                            .m = m,
                            .n = n,
                            .k = k,
                            .lda = (ta ? m : k) + pad,
                            .ldb = (tb ? k : n) + pad,
                            .ldc = n + pad };
}

#define CHECK(T, t, tolerance)                                                 \
    static void check_##t(const fl_gemm_shape *s, T alpha, T beta)             \
    {                                                                          \
        size_t a_len =                                                         \
            s->ta ? span(s->k, s->m, s->lda) : span(s->m, s->k, s->lda);       \
        size_t b_len =                                                         \
            s->tb ? span(s->n, s->k, s->ldb) : span(s->k, s->n, s->ldb);       \
        size_t c_len = span(s->m, s->n, s->ldc);                               \
        T *a = samples_##t(1, a_len), *b = samples_##t(2, b_len);              \
        T *c = samples_##t(3, c_len), *old = samples_##t(3, c_len);            \
                                                                               \
        fl_gemm_##t(s, alpha, a, b, beta, c);                                  \
        for (int64_t i = 0; i < s->m; i++)                                     \
            for (int64_t j = 0; j < s->n; j++) {                               \
                int64_t at = i * s->ldc + j;                                   \
                double sum = 0;                                                \
                                                                               \
                for (int64_t p = 0; p < s->k; p++)                             \
                    sum += at_##t(a, s->ta, s->lda, i, p) *                    \
                           at_##t(b, s->tb, s->ldb, p, j);                     \
                sum = (double)alpha * sum + (double)beta * (double)old[at];    \
                assert_true(fabs((double)c[at] - sum) <                        \
                            tolerance * sqrt((double)s->k + 1));               \
            }                                                                  \
        for (size_t at = 0; at < c_len; at++)                                  \
            if ((int64_t)at % s->ldc >= s->n)                                  \
                assert_true(c[at] == old[at]);                                 \
        free(a);                                                               \
        free(b);                                                               \
        free(c);                                                               \
        free(old);                                                             \
    }
CHECK(float, f32, 1e-6)
CHECK(double, f64, 1e-14)

static void check_both(const int64_t *mnk, int64_t pad, double alpha,
                       double beta)
{
    for (int t = 0; t < 4; t++) {
        fl_gemm_shape s = shape(mnk, t & 1 ? FL_TRANS : FL_NO_TRANS,
                                t & 2 ? FL_TRANS : FL_NO_TRANS, pad);

        check_f32(&s, (float)alpha, (float)beta);
        check_f64(&s, alpha, beta);
    }
}

static void every_shape_and_transposition_gives_the_product(void **state)
{
    (void)state;
    for (size_t i = 0; i < FL_LEN(sizes); i++) {
        check_both(sizes[i], 0, 1, 0);
        check_both(sizes[i], 3, 1, 0);
    }
}

static void alpha_and_beta_scale_the_terms(void **state)
{
    (void)state;
    for (size_t i = 0; i < FL_LEN(sizes); i++) {
        check_both(sizes[i], 2, 1, 1);
        check_both(sizes[i], 2, -0.5, 0.25);
        check_both(sizes[i], 2, 0, 2);
    }
}

static void empty_sizes_scale_or_touch_nothing(void **state)
{
    const int64_t empty[][3] = { { 0, 5, 5 }, { 5, 0, 5 },  { 5, 5, 0 },
                                 { 0, 0, 0 }, { 40, 2, 0 }, { 40, 50, 0 } };

    (void)state;
    for (size_t i = 0; i < FL_LEN(empty); i++) {
        check_both(empty[i], 1, 1, 0);
        check_both(empty[i], 1, 1, 1);
        check_both(empty[i], 1, 2, 0.5);
    }
}

static void a_beta_of_zero_does_not_read_c(void **state)
{
    (void)state;
    for (size_t i = 0; i < FL_LEN(sizes); i++) {
        fl_gemm_shape s = shape(sizes[i], FL_NO_TRANS, FL_NO_TRANS, 0);
        float *a = samples_f32(1, (size_t)(s.m * s.k));
        float *b = samples_f32(2, (size_t)(s.k * s.n));
        float *c = samples_f32(3, (size_t)(s.m * s.n));

        for (int64_t j = 0; j < s.m * s.n; j++)
            c[j] = NAN;
        fl_gemm_f32(&s, 1, a, b, 0, c);
        for (int64_t j = 0; j < s.m * s.n; j++)
            assert_true(isfinite(c[j]));
        s.k = 0;
        c[0] = NAN;
        fl_gemm_f32(&s, 1, a, b, 0, c);
        assert_true(c[0] == 0);
        free(a);
        free(b);
        free(c);
    }
}

static void prepared_weights_give_the_same_product(void **state)
{
    const int64_t mnk[3] = { 20, 30, 40 };

    (void)state;
    for (int t = 0; t < 2; t++) {
        fl_gemm_shape s =
            shape(mnk, FL_NO_TRANS, t ? FL_TRANS : FL_NO_TRANS, 0);
        float *a = samples_f32(1, 20 * 40), *w = samples_f32(2, 40 * 30);
        float *c = samples_f32(3, 20 * 30), *want = samples_f32(4, 20 * 30);
        fl_gemm_weights prepared;

        fl_gemm_f32(&s, 1, a, w, 0, want);
        fl_gemm_prepare(&prepared, w, s.tb, s.k, s.n, s.ldb);
        fl_gemm_prepared(s.m, a, s.lda, &prepared, c, s.ldc);
        assert_memory_equal(c, want, 20 * 30 * sizeof(*c));
        free(a);
        free(w);
        free(c);
        free(want);
    }
}

/* A product that a thread repeats while the others do; cmocka's asserts belong
   to the main thread, so the outcome is carried back. */
typedef struct worker {
    fl_thread *thread;
    fl_gemm_shape s;
    const float *a, *b, *want;
    bool same;
} worker;

static void repeat_product(void *arg)
{
    worker *w = arg;
    size_t len = (size_t)(w->s.m * w->s.n);
    float *c = samples_f32(3, len);

    w->same = true;
    for (int i = 0; i < 20; i++) {
        memset(c, 0xff, len * sizeof(*c));
        fl_gemm_f32(&w->s, 1, w->a, w->b, 0, c);
        if (memcmp(c, w->want, len * sizeof(*c)) != 0)
            w->same = false;
    }
    free(c);
}

static void many_threads_get_the_bits_that_one_gets(void **state)
{
    const int64_t mnk[][3] = { { 16, 16, 16 },
                               { 64, 100, 70 },
                               { 64, 2, 100 } };
    worker workers[N_THREADS];

    (void)state;
    for (size_t i = 0; i < FL_LEN(mnk); i++) {
        fl_gemm_shape s = shape(mnk[i], FL_NO_TRANS, FL_NO_TRANS, 0);
        float *a = samples_f32(1, (size_t)(s.m * s.k));
        float *b = samples_f32(2, (size_t)(s.k * s.n));
        float *want = samples_f32(3, (size_t)(s.m * s.n));

        fl_gemm_f32(&s, 1, a, b, 0, want);
        for (int t = 0; t < N_THREADS; t++) {
            workers[t] = (worker){ .s = s, .a = a, .b = b, .want = want };
            assert_int_equal(fl_thread_start(&workers[t].thread, "gemm",
                                             repeat_product, &workers[t]),
                             FL_OK);
        }
        for (int t = 0; t < N_THREADS; t++) {
            fl_thread_join(workers[t].thread);
            assert_true(workers[t].same);
        }
        free(a);
        free(b);
        free(want);
    }
}

static void all_instruction_sets_give_the_same_bits(void **state)
{
    const int64_t m = 37, n = 101, k = 99;
    float *a = samples_f32(1, (size_t)(m * k)), *b = samples_f32(2, 99 * 101);
    double *a64 = samples_f64(1, (size_t)(m * k));
    double *b64 = samples_f64(2, 99 * 101);
    float c[4][37 * 101];
    double c64[4][37 * 101];

    (void)state;
    memset(c, 0, sizeof(c));
    memset(c64, 0, sizeof(c64));
    for (int isa = FL_ISA_BASE; isa <= (int)fl_isa(); isa++)
        for (int64_t thin = 1; thin <= FL_GEMM_THIN; thin++) {
            const fl_gemm_hot_table *hot = hot_sets[isa];
            fl_gemm_job_f32 few_columns = { .m = m,
                                            .n = thin,
                                            .k = k,
                                            .a = a,
                                            .b = b,
                                            .c = c[isa],
                                            .a_row = k,
                                            .a_col = 1,
                                            .b_row = thin,
                                            .b_col = 1,
                                            .ldc = thin,
                                            .alpha = 0.7f,
                                            .add = true };
            fl_gemm_job_f32 transposed = few_columns;
            fl_gemm_job_f32 few_terms = { .m = m,
                                          .n = n,
                                          .k = thin,
                                          .a = a,
                                          .b = b,
                                          .c = c[isa],
                                          .a_row = k,
                                          .a_col = 1,
                                          .b_row = n,
                                          .b_col = 1,
                                          .ldc = n,
                                          .alpha = 0.7f,
                                          .add = true };
            fl_gemm_job_f64 few_terms64 = { .m = m,
                                            .n = n,
                                            .k = thin,
                                            .a = a64,
                                            .b = b64,
                                            .c = c64[isa],
                                            .a_row = k,
                                            .a_col = 1,
                                            .b_row = n,
                                            .b_col = 1,
                                            .ldc = n,
                                            .alpha = 0.7,
                                            .add = true };

            fl_gemm_job_f32 few_rows = few_terms;

            few_rows.m = thin;
            few_rows.k = k;
            transposed.a_row = 1;
            transposed.a_col = m;
            hot->dots_f32(&few_columns);
            hot->sums_f32(&transposed);
            hot->terms_f32(&few_terms);
            hot->few_f32(&few_rows);
            hot->terms_f64(&few_terms64);
        }
    for (int isa = FL_ISA_AVX2; isa <= (int)fl_isa(); isa++) {
        assert_memory_equal(c[isa], c[FL_ISA_BASE], sizeof(c[isa]));
        assert_memory_equal(c64[isa], c64[FL_ISA_BASE], sizeof(c64[isa]));
    }
    free(a);
    free(b);
    free(a64);
    free(b64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_and_transposition_gives_the_product),
        cmocka_unit_test(alpha_and_beta_scale_the_terms),
        cmocka_unit_test(empty_sizes_scale_or_touch_nothing),
        cmocka_unit_test(a_beta_of_zero_does_not_read_c),
        cmocka_unit_test(prepared_weights_give_the_same_product),
        cmocka_unit_test(many_threads_get_the_bits_that_one_gets),
        cmocka_unit_test(all_instruction_sets_give_the_same_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
