/* test_gemm_bf16.c - products of bf16, by every way of this build, against a sum
 * in double of the rounded numbers and of the numbers as they were. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/thread.h"
#include "kernel/bf16.h"
#include "kernel/gemm_bf16.h"
#include "sample.h"

#define N_THREADS 4

/* Rounding moves a number by one part in 256 at most, a product of two by two
   of them, and a little for the product of both. */
#define ROUNDING (2.0 / 256 + 1.0 / 65536)

static const char *const ways[] = { "emulated", "vectors", "tiles" };

/* m, n, k */
static const int64_t sizes[][3] = {
    { 1, 16, 16 },     { 3, 5, 7 },     { 33, 40, 17 },
    { 128, 64, 64 },   { 129, 32, 50 }, { 300, 41, 33 },
    { 104, 400, 273 }, { 64, 33, 300 }, { 17, 33, 1101 },
};

typedef struct sides {
    float *a, *b, *c;
    float *rounded_a, *rounded_b;
    uint16_t *a16;
    size_t a_len, b_len, c_len;
} sides;

static fl_gemm_shape shape_of(const int64_t *mnk, int turned, int64_t pad)
{
    fl_trans ta = turned & 1 ? FL_TRANS : FL_NO_TRANS;
    fl_trans tb = turned & 2 ? FL_TRANS : FL_NO_TRANS;
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

static float *rounded(const float *x, size_t n)
{
    uint16_t *r = malloc(n * sizeof(*r));
    float *y = malloc(n * sizeof(*y));

    assert_non_null(r);
    assert_non_null(y);
    fl_bf16()->narrow(r, x, n);
    fl_bf16()->widen(y, r, n);
    free(r);
    return y;
}

static sides sides_new(const fl_gemm_shape *s)
{
    sides x = { .a_len = (size_t)((s->ta ? s->k : s->m) * s->lda),
                .b_len = (size_t)((s->tb ? s->n : s->k) * s->ldb),
                .c_len = (size_t)(s->m * s->ldc) };

    x.a = samples_f32(1, x.a_len);
    x.b = samples_f32(2, x.b_len);
    x.c = samples_f32(3, x.c_len);
    x.a16 = malloc(x.a_len * sizeof(*x.a16));
    assert_non_null(x.a16);
    fl_bf16()->narrow(x.a16, x.a, x.a_len);
    x.rounded_a = rounded(x.a, x.a_len);
    x.rounded_b = rounded(x.b, x.b_len);
    return x;
}

static void sides_free(sides *x)
{
    free(x->a);
    free(x->b);
    free(x->c);
    free(x->rounded_a);
    free(x->rounded_b);
    free(x->a16);
}

typedef struct expected {
    double of_rounded, exact, size; /* size: sum of the terms without signs */
} expected;

static expected sum_at(const fl_gemm_shape *s, const sides *x, int64_t i,
                       int64_t j)
{
    expected e = { 0 };

    for (int64_t p = 0; p < s->k; p++) {
        int64_t at_a = s->ta ? p * s->lda + i : i * s->lda + p;
        int64_t at_b = s->tb ? j * s->ldb + p : p * s->ldb + j;
        double exact = (double)x->a[at_a] * (double)x->b[at_b];

        e.of_rounded += (double)x->rounded_a[at_a] * (double)x->rounded_b[at_b];
        e.exact += exact;
        e.size += fabs(exact);
    }
    return e;
}

/* Cache lines, as many as hold so many bytes. */
static void *lines(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 64) / 64 * 64);

    assert_non_null(p);
    return p;
}

/* Packs B from f32 or from bf16, and multiplies. */
static void multiply(const fl_bf16_product *p, const sides *x, bool from_f32)
{
    void *packed = lines(p->packed_bytes), *room = lines(p->room_bytes);
    uint16_t *b16 = malloc(x->b_len * sizeof(*b16));
    fl_bf16_args args = { x->a16, packed, x->c, room };

    fl_bf16()->narrow(b16, x->b, x->b_len);
    if (from_f32)
        p->way->pack_f32(p, x->b, packed);
    else
        p->way->pack_bf16(p, b16, packed);
    p->way->rows(p, 0, p->s.m, &args);
    free(packed);
    free(room);
    free(b16);
}

static void check(const fl_bf16_way *way, const fl_gemm_shape *s, bool from_f32)
{
    sides x = sides_new(s);
    fl_bf16_product p = fl_bf16_product_of(way, s);

    multiply(&p, &x, from_f32);
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t j = 0; j < s->n; j++) {
            double c = (double)x.c[i * s->ldc + j];
            expected e = sum_at(s, &x, i, j);

            assert_true(fabs(c - e.of_rounded) < 1e-6 * sqrt((double)s->k + 1));
            assert_true(fabs(c - e.exact) <= ROUNDING * e.size + 1e-6);
        }
    sides_free(&x);
}

static void
every_way_and_shape_gives_the_product_of_rounded_numbers(void **state)
{
    (void)state;
    for (size_t w = 0; w < FL_LEN(ways); w++) {
        const fl_bf16_way *way = fl_bf16_way_find(ways[w]);

        for (size_t i = 0; way && i < FL_LEN(sizes); i++)
            for (int turned = 0; turned < 4; turned++) {
                fl_gemm_shape s = shape_of(sizes[i], turned, turned);

                check(way, &s, i & 1);
            }
    }
}

/* The last block is shorter than the others. */
static void rows_by_shares_are_the_rows_of_the_whole(void **state)
{
    fl_gemm_shape s = shape_of((const int64_t[]){ 300, 48, 40 }, 0, 0);

    (void)state;
    for (size_t w = 0; w < FL_LEN(ways); w++) {
        const fl_bf16_way *way = fl_bf16_way_find(ways[w]);
        sides x = sides_new(&s);
        float *whole = samples_f32(4, x.c_len);
        fl_bf16_product p;
        void *packed, *room;

        if (!way) {
            sides_free(&x);
            free(whole);
            continue;
        }
        p = fl_bf16_product_of(way, &s);
        packed = lines(p.packed_bytes);
        room = lines(p.room_bytes);
        way->pack_f32(&p, x.b, packed);
        way->rows(&p, 0, 300, &(fl_bf16_args){ x.a16, packed, whole, room });
        for (int64_t lo = 0; lo < 300; lo += FL_GEMM_BLOCK)
            way->rows(&p, lo,
                      lo + FL_GEMM_BLOCK < 300 ? lo + FL_GEMM_BLOCK : 300,
                      &(fl_bf16_args){ x.a16, packed, x.c, room });
        assert_memory_equal(whole, x.c, x.c_len * sizeof(float));
        free(packed);
        free(room);
        free(whole);
        sides_free(&x);
    }
}

static void work(void *arg)
{
    const fl_bf16_way *way = arg;

    for (int64_t i = 1; i < 40; i++) {
        fl_gemm_shape s =
            shape_of((const int64_t[]){ 100 + i, 17 + i % 3, 20 }, i & 3, 0);

        check(way, &s, i & 1);
    }
}

static void threads_do_not_disturb_each_other(void **state)
{
    fl_thread *threads[N_THREADS];

    (void)state;
    for (size_t w = 0; w < FL_LEN(ways); w++) {
        const fl_bf16_way *way = fl_bf16_way_find(ways[w]);

        for (int i = 0; way && i < N_THREADS; i++)
            assert_int_equal(
                fl_thread_start(&threads[i], "test", work, (void *)way), FL_OK);
        for (int i = 0; way && i < N_THREADS; i++)
            fl_thread_join(threads[i]);
    }
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
