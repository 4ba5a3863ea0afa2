/* bf16_kit.c - operands, memory that is watched, and sums to compare with. */
#include "bf16_kit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/thread.h"
#include "kernel/bf16.h"
#include "sample.h"

#define N_THREADS 4

/* Rounding moves a number by one part in 256 at most, a product of two by two
   of them, and a little for the product of both. */
#define ROUNDING (2.0 / 256 + 1.0 / 65536)

fl_gemm_shape bf16_shape(int64_t m, int64_t n, int64_t k, int turned,
                         int64_t pad)
{
    fl_trans ta = turned & 1 ? FL_TRANS : FL_NO_TRANS;
    fl_trans tb = turned & 2 ? FL_TRANS : FL_NO_TRANS;

    return (fl_gemm_shape){ .ta = ta,
                            .tb = tb,
                            .m = m,
                            .n = n,
                            .k = k,
                            .lda = (ta ? m : k) + pad,
                            .ldb = (tb ? k : n) + pad,
                            .ldc = n + pad };
}

/* --- memory that is watched ----------------------------------------------- */

#define LINE 64
#define POISON 0xff /* a NaN, as f32 and as bf16 */

/* Ends where a page begins that nobody may read or write: vectors of which a
   part is masked go unseen by a sanitizer. */
typedef struct watched {
    unsigned char *all; /* from what is before the data to that page's end */
    size_t all_bytes;
    void *data;
    size_t bytes;
} watched;

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Data begin with a multiple of `align`, so that some bytes may follow them. */
static watched watched_new(size_t bytes, size_t align)
{
    size_t room = (bytes + align - 1) / align * align, page = page_bytes();
    size_t open = (room + LINE + page - 1) / page * page;
    watched w = { .all_bytes = open + page, .bytes = bytes };

    w.all = mmap(NULL, w.all_bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(w.all != MAP_FAILED);
    memset(w.all, POISON, open);
    assert_int_equal(mprotect(w.all + open, page, PROT_NONE), 0);
    w.data = w.all + open - room;
    return w;
}

static void check_poison(const unsigned char *lo, const unsigned char *hi)
{
    for (; lo < hi; lo++)
        assert_int_equal(*lo, POISON);
}

static void watched_free(watched *w)
{
    unsigned char *data = w->data;

    check_poison(w->all, data);
    check_poison(data + w->bytes, w->all + w->all_bytes - page_bytes());
    munmap(w->all, w->all_bytes);
}

/* --- operands ------------------------------------------------------------- */

typedef struct operand {
    watched f32, bf16;
    float *x, *rounded;
    uint16_t *bits;
} operand;

/* Nothing follows the last row. */
static size_t len_of(int64_t rows, int64_t cols, int64_t ld)
{
    return (size_t)((rows - 1) * ld + cols);
}

/* Rounded by the way itself, and for the expected sums by another. */
static operand operand_new(const fl_bf16_way *way, uint64_t seed, int64_t rows,
                           int64_t cols, int64_t ld)
{
    size_t n = len_of(rows, cols, ld);
    operand o = { .f32 = watched_new(n * sizeof(float), sizeof(float)),
                  .bf16 = watched_new(n * sizeof(uint16_t), sizeof(uint16_t)),
                  .rounded = samples_f32(seed, n) };

    o.x = o.f32.data;
    o.bits = o.bf16.data;
    for (size_t i = 0; i < n; i++)
        o.x[i] = (int64_t)i % ld < cols ? o.rounded[i] : NAN;
    fl_bf16()->narrow(o.bits, o.x, n);
    fl_bf16()->widen(o.rounded, o.bits, n);
    way->narrow(o.bits, o.x, n);
    return o;
}

static void operand_free(operand *o)
{
    watched_free(&o->f32);
    watched_free(&o->bf16);
    free(o->rounded);
}

typedef struct sides {
    operand a, b;
} sides;

static sides sides_new(const fl_bf16_way *way, const fl_gemm_shape *s)
{
    int64_t m = s->m, n = s->n, k = s->k;

    return (sides){
        .a = operand_new(way, 1, s->ta ? k : m, s->ta ? m : k, s->lda),
        .b = operand_new(way, 2, s->tb ? n : k, s->tb ? k : n, s->ldb),
    };
}

static void sides_free(sides *x)
{
    operand_free(&x->a);
    operand_free(&x->b);
}

/* --- products ------------------------------------------------------------- */

#define STRIP 6 /* rows of B that are packed together */

/* B, and what packs it; of bf16 it is not transposed. */
typedef struct source {
    const void *b;
    bool is_f32;
} source;

/* Numbers between the rows of C. */
static void check_gaps(const fl_gemm_shape *s, const float *c)
{
    for (int64_t i = 0; i < s->m - 1; i++, c += s->ldc)
        check_poison((const void *)(c + s->n), (const void *)(c + s->ldc));
}

static int64_t least(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

static void pack(const fl_bf16_product *p, source from, void *packed)
{
    const uint16_t *b = from.b;

    if (from.is_f32) {
        p->way->pack_f32(p, from.b, packed);
        return;
    }
    for (int64_t i = 0; i < p->s.k; i += STRIP)
        p->way->pack_rows(p, b + i * p->s.ldb, i, least(i + STRIP, p->s.k),
                          packed);
}

static void turn(const fl_bf16_product *p, const uint16_t *a, void *turned)
{
    for (int64_t i = 0; p->s.ta && i < p->s.k; i += FL_GEMM_BLOCK)
        p->way->turn_rows(p, a + i * p->s.lda, i,
                          least(i + FL_GEMM_BLOCK, p->s.k), turned);
}

/* So many rows at a time. */
static watched product(const fl_bf16_way *way, const fl_gemm_shape *s,
                       const uint16_t *a, source from, int64_t rows)
{
    fl_bf16_product p = fl_bf16_product_of(way, s);
    watched packed = watched_new(p.packed_bytes, LINE);
    watched room = watched_new(p.room_bytes, LINE);
    watched turned = watched_new(p.turned_bytes, LINE);
    watched c =
        watched_new(len_of(s->m, s->n, s->ldc) * sizeof(float), sizeof(float));
    fl_bf16_args args = { s->ta ? turned.data : a, packed.data, c.data,
                          room.data };

    pack(&p, from, packed.data);
    turn(&p, a, turned.data);
    for (int64_t lo = 0; lo < s->m; lo += rows)
        way->rows(&p, lo, least(lo + rows, s->m), &args);
    check_gaps(s, c.data);
    watched_free(&packed);
    watched_free(&room);
    watched_free(&turned);
    return c;
}

void bf16_multiply(const fl_bf16_way *way, const fl_gemm_shape *s,
                   const uint16_t *a, const uint16_t *b, float *c)
{
    watched w = product(way, s, a, (source){ .b = b }, s->m);

    memcpy(c, w.data, w.bytes);
    watched_free(&w);
}

static void check_equal(watched *x, watched *y)
{
    assert_memory_equal(x->data, y->data, x->bytes);
    watched_free(x);
    watched_free(y);
}

/* --- what they should be -------------------------------------------------- */

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
        double exact = (double)x->a.x[at_a] * (double)x->b.x[at_b];

        e.of_rounded += (double)x->a.rounded[at_a] * (double)x->b.rounded[at_b];
        e.exact += exact;
        e.size += fabs(exact);
    }
    return e;
}

static void check_sums(const fl_gemm_shape *s, const sides *x, const float *c)
{
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t j = 0; j < s->n; j++) {
            double sum = (double)c[i * s->ldc + j];
            expected e = sum_at(s, x, i, j);

            assert_true(fabs(sum - e.of_rounded) <
                        1e-6 * sqrt((double)s->k + 1));
            assert_true(fabs(sum - e.exact) <= ROUNDING * e.size + 1e-6);
        }
}

void bf16_check_product(const fl_bf16_way *way, const fl_gemm_shape *s)
{
    sides x = sides_new(way, s);
    source f32 = { x.b.x, true }, bf16 = { x.b.bits, false };
    watched c = product(way, s, x.a.bits, f32, s->m);
    watched again = product(way, s, x.a.bits, s->tb ? f32 : bf16, s->m);

    check_sums(s, &x, c.data);
    check_equal(&c, &again);
    sides_free(&x);
}

void bf16_check_shares(const fl_bf16_way *way, const fl_gemm_shape *s)
{
    sides x = sides_new(way, s);
    source b = { x.b.x, true };
    watched whole = product(way, s, x.a.bits, b, s->m);
    watched shares = product(way, s, x.a.bits, b, FL_GEMM_BLOCK);

    check_equal(&whole, &shares);
    sides_free(&x);
}

static void work(void *arg)
{
    for (int64_t i = 1; i < 40; i++) {
        fl_gemm_shape s = bf16_shape(100 + i, 17 + i % 3, 20, i & 3, 0);

        bf16_check_product(arg, &s);
    }
}

void bf16_check_threads(const fl_bf16_way *way)
{
    fl_thread *threads[N_THREADS];

    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(
            fl_thread_start(&threads[i], "test", work, (void *)way), FL_OK);
    for (int i = 0; i < N_THREADS; i++)
        fl_thread_join(threads[i]);
}
