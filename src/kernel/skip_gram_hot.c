/* skip_gram_hot.c - windows of skip-gram, compiled per instruction set.
 *
 * Targets are taken in blocks of six, for which the sums of one input stay in
 * registers; a block that is not full is filled up with a row of zeros. Along
 * a row the loops go in pieces of 64 bytes, then of 16, then one by one, and
 * the sums of each kind are folded in one order on every machine:
 *
 *     | 64 bytes | 64 bytes | ... | 16 bytes | ... | 1 | 1 |
 *
 * Along rows a product and a sum are rounded once, as fused instructions do it;
 * these are half of all that is to be done here. Where a machine has none, the
 * C library gives the same bits, slowly.
 *
 * The loss needs log(1 + exp(-|z|)) of every product. Its terms are between 1
 * and 2, so hundreds are multiplied before one logarithm is taken.
 */
#include "kernel/skip_gram.h"

#include <math.h>
#include <stdbool.h>
#ifdef __FMA__
#include <immintrin.h>
#endif

#include "base/thread.h"

enum { BLOCK = FL_SKIP_GRAM_BLOCK, STRIDE = FL_SKIP_GRAM_STRIDE };

/* What is added up side by side on every machine, and the pieces of that which
   this one has registers for. */
#define SUM_BYTES 64
#if defined(__AVX512F__)
#define WIDE_BYTES 64
#elif defined(__AVX2__)
#define WIDE_BYTES 32
#else
#define WIDE_BYTES 16
#endif
#define NARROW_BYTES 16
#define LINE_BYTES 64

enum { PARTS = SUM_BYTES / WIDE_BYTES, QUARTERS = SUM_BYTES / NARROW_BYTES };

/* The most inputs whose sums have registers at once. */
enum { TOGETHER = 2 };

/* Beyond this the next window's factors could leave the range of a double. */
#define PRODUCT_MAX 0x1p900

#define INLINE static inline __attribute__((always_inline))
#define EACH(j) _Pragma("GCC unroll 6") for (int j = 0; j < BLOCK; j++)
#define EACH_PART(p) _Pragma("GCC unroll 4") for (int p = 0; p < PARTS; p++)
#define EACH_INPUT(i, n)                                                       \
    _Pragma("GCC unroll 2") for (size_t i = 0; i < (n); i++)

#define LANES(T, t)                                                                \
    typedef T wide_##t __attribute__((vector_size(WIDE_BYTES),                     \
                                      aligned(sizeof(T)), may_alias));             \
    typedef T narrow_##t __attribute__((vector_size(NARROW_BYTES),                 \
                                        aligned(sizeof(T)), may_alias));           \
    typedef T half_##t __attribute__((vector_size(SUM_BYTES / 2)));                \
    typedef T one_##t;                                                             \
    /* Some targets: n rows to read and to add to; what is missing is the row    \
     of zeros. sums: of the inputs, with several blocks; or NULL. */ \
    typedef struct block_##t {                                                     \
        const T *y[BLOCK];                                                         \
        T *to[BLOCK];                                                              \
        T *slopes, *sums;                                                          \
        T right; /* the label of the first */                                      \
        int n;                                                                     \
    } block_##t;
LANES(float, f32)
LANES(double, f64)

typedef int wide_i32
    __attribute__((vector_size(WIDE_BYTES), aligned(4), may_alias));

/* --- products and sums ---------------------------------------------------- */

/* *to += a b with one rounding. */
#ifdef __FMA__
#define MADD(T, t, V, fused, lane)                                             \
    INLINE void V##_madd_##t(V##_##t *to, const V##_##t *a, const V##_##t *b)  \
    {                                                                          \
        *to = (V##_##t)fused(*a, *b, *to);                                     \
    }
#else
#define MADD(T, t, V, fused, lane)                                             \
    INLINE void V##_madd_##t(V##_##t *to, const V##_##t *a, const V##_##t *b)  \
    {                                                                          \
        for (size_t l = 0; l < sizeof(*to) / sizeof(T); l++)                   \
            (*to)[l] = lane((*a)[l], (*b)[l], (*to)[l]);                       \
    }
#endif
#define MADD_ONE(T, t, lane)                                                   \
    INLINE void one_madd_##t(T *to, const T *a, const T *b)                    \
    {                                                                          \
        *to = lane(*a, *b, *to);                                               \
    }
#if defined(__AVX512F__)
MADD(float, f32, wide, _mm512_fmadd_ps, fmaf)
MADD(double, f64, wide, _mm512_fmadd_pd, fma)
#else
MADD(float, f32, wide, _mm256_fmadd_ps, fmaf)
MADD(double, f64, wide, _mm256_fmadd_pd, fma)
#endif
MADD(float, f32, narrow, _mm_fmadd_ps, fmaf)
MADD(double, f64, narrow, _mm_fmadd_pd, fma)
MADD_ONE(float, f32, __builtin_fmaf)
MADD_ONE(double, f64, __builtin_fma)

/* One number in all lanes, with its sign if it is 0. */
#define SPLAT(V, x) ((x) - (V){ 0 })

/* --- sums of lanes -------------------------------------------------------- */

/* Sums side by side, of one target; halves are added, then quarters. */
#define FOLD(T, t)                                                             \
    typedef union sums_##t {                                                   \
        wide_##t part[PARTS];                                                  \
        half_##t half[2];                                                      \
        narrow_##t quarter[QUARTERS];                                          \
    } sums_##t;                                                                \
    INLINE void fold_##t(const sums_##t *s, narrow_##t *out)                   \
    {                                                                          \
        union {                                                                \
            half_##t whole;                                                    \
            narrow_##t part[2];                                                \
        } h = { .whole = s->half[0] + s->half[1] };                            \
                                                                               \
        *out = h.part[0] + h.part[1];                                          \
    }
FOLD(float, f32)
FOLD(double, f64)

/* z[j] = (v[j][0] + v[j][2]) + (v[j][1] + v[j][3]), two rows at a time and then
   four. */
INLINE void add_up_f32(const narrow_f32 *v, float *z)
{
    narrow_f32 two[BLOCK / 2];

    for (int j = 0; j < BLOCK / 2; j++)
        two[j] = __builtin_shufflevector(v[2 * j], v[2 * j + 1], 0, 1, 4, 5) +
                 __builtin_shufflevector(v[2 * j], v[2 * j + 1], 2, 3, 6, 7);
    *(narrow_f32 *)z = __builtin_shufflevector(two[0], two[1], 0, 2, 4, 6) +
                       __builtin_shufflevector(two[0], two[1], 1, 3, 5, 7);
    *(narrow_f32 *)(z + 4) =
        __builtin_shufflevector(two[2], two[2], 0, 2, 4, 6) +
        __builtin_shufflevector(two[2], two[2], 1, 3, 5, 7);
}

INLINE void add_up_f64(const narrow_f64 *v, double *z)
{
    for (int j = 0; j < BLOCK; j++)
        z[j] = v[j][0] + v[j][1];
}

/* --- slopes --------------------------------------------------------------- */

/* So many inputs have room in one product of floats: each gives BLOCK factors
   of at most 2. */
enum { INPUTS = 16 };

/* By lanes of all ones or zeros, from both. */
#define CHOOSE(mask, a, b)                                                     \
    ((wide_f32)(((mask) & (wide_i32)(a)) | (~(mask) & (wide_i32)(b))))

/* x becomes e^-x, for x >= 0: 2^-n e^r with n whole and |r| <= ln 2 / 2, and
   e^r by its series, whose next term is below 1e-8. NaN, which has no n, is
   taken as large; the loss tells of it. */
INLINE void exp_of_minus(wide_f32 *x)
{
    const float log2e = 1.44269504f, ln2_hi = 0.693145752f,
                ln2_lo = 1.42860677e-6f;
    const wide_f32 zero = { 0 }, most = zero + 87, c3 = zero + 1.f / 6,
                   c5 = zero + 1.f / 120, c7 = zero + 1.f / 5040;
    wide_f32 a = CHOOSE(*x <= most, *x, most), n, r, r2, r4;
    wide_f32 sum, s2 = zero + 0.5f, s4 = zero + 1.f / 24, s6 = zero + 1.f / 720;
    wide_i32 k = __builtin_convertvector(a * log2e + 0.5f, wide_i32);

    n = __builtin_convertvector(k, wide_f32);
    r = (n * ln2_hi - a) + n * ln2_lo;
    r2 = r * r;
    r4 = r2 * r2;
    sum = r + 1;
    wide_madd_f32(&s2, &r, &c3); /* two terms each */
    wide_madd_f32(&s4, &r, &c5);
    wide_madd_f32(&s6, &r, &c7);
    wide_madd_f32(&s4, &r2, &s6);
    wide_madd_f32(&sum, &r2, &s2);
    wide_madd_f32(&sum, &r4, &s4);
    *x = sum * (wide_f32)((127 - k) << 23);
}

/* z becomes what the rows move by for each other; what the loss grows by is
   added and multiplied by lane. */
INLINE void slope(wide_f32 *z, const wide_i32 *there, const wide_f32 *label,
                  float step, wide_f32 *terms, wide_f32 *factors)
{
    const wide_f32 zero = { 0 }, one = zero + 1;
    wide_f32 v = *z, e, whole, near;
    wide_i32 minus = v < zero;

    e = (wide_f32)((wide_i32)v & 0x7fffffff); /* |v| */
    exp_of_minus(&e);
    whole = one + e;
    near = CHOOSE(minus, e, one) / whole;
    *terms += CHOOSE(*there, CHOOSE(minus, zero, v) - v * *label, zero);
    *factors *= CHOOSE(*there, whole, one);
    *z = CHOOSE(*there, (*label - near) * step, zero);
}

INLINE void add_loss(fl_skip_gram_loss *loss, const sums_f32 *terms,
                     const sums_f32 *factors)
{
    narrow_f32 sum, product;

    fold_f32(terms, &sum);
    product = (factors->quarter[0] * factors->quarter[2]) *
              (factors->quarter[1] * factors->quarter[3]);
    loss->sum += (double)((sum[0] + sum[2]) + (sum[1] + sum[3]));
    loss->product *=
        (double)((product[0] * product[2]) * (product[1] * product[3]));
}

/* Of two inputs, side by side: which input and which target a lane is for. */
static const int lane_inputs[2 * STRIDE] = { 0, 0, 0, 0, 0, 0, 0, 0,
                                             1, 1, 1, 1, 1, 1, 1, 1 };
static const int lane_targets[2 * STRIDE] = { 0, 1, 2, 3, 4, 5, 6, 7,
                                              0, 1, 2, 3, 4, 5, 6, 7 };

/* For at most INPUTS inputs, two at a time; n targets of the block are there,
   and `right` is the label of the first. */
INLINE void slopes_f32(float *z, size_t n_in, int n, float right, float step,
                       fl_skip_gram_loss *loss)
{
    const wide_f32 zero = { 0 };
    sums_f32 terms = { 0 }, factors;

    EACH_PART(p)
    {
        factors.part[p] = zero + 1;
    }
    for (size_t i = 0; i < n_in; i += 2)
        EACH_PART(p)
        {
            wide_i32 input = ((const wide_i32 *)lane_inputs)[p];
            wide_i32 target = ((const wide_i32 *)lane_targets)[p];
            wide_i32 there = (target < n) & (input < (int)(n_in - i));
            wide_f32 label = CHOOSE(target == 0, zero + right, zero);

            slope((wide_f32 *)(z + i * STRIDE) + p, &there, &label, step,
                  &terms.part[p], &factors.part[p]);
        }
    add_loss(loss, &terms, &factors);
}

INLINE void slopes_f64(double *z, size_t n_in, int n, double right, double step,
                       fl_skip_gram_loss *loss)
{
    for (size_t i = 0; i < n_in; i++, z += STRIDE) {
        for (int j = 0; j < n; j++) {
            double label = j ? 0 : right, e = exp(-fabs(z[j]));
            double near = (z[j] < 0 ? e : 1) / (1 + e);

            loss->sum += (z[j] < 0 ? 0 : z[j]) - z[j] * label;
            loss->product *= 1 + e;
            z[j] = (label - near) * step;
        }
        for (int j = n; j < BLOCK; j++)
            z[j] = 0;
    }
}

/* --- pieces of rows ------------------------------------------------------- */

/* What a block of targets and the inputs give each other, by pieces of one
   kind, from column k on; where that kind ends. With `alone` all rows are read
   and added to where they lie, and none is a target twice: what was read need
   not be read again. */
#define PIECES(T, t, V)                                                        \
    INLINE void V##_exchange_##t(const fl_skip_gram_##t##_rows *r,             \
                                 const fl_skip_gram_window *w,                 \
                                 const block_##t *b, bool alone, size_t k)     \
    {                                                                          \
        V##_##t v[BLOCK], a[BLOCK];                                            \
        const T *g = b->slopes;                                                \
                                                                               \
        EACH(j)                                                                \
        {                                                                      \
            v[j] = *(const V##_##t *)(b->y[j] + k);                            \
            a[j] = alone ? v[j] : (V##_##t){ 0 };                              \
        }                                                                      \
        for (size_t i = 0; i < w->n_in; i++, g += STRIDE) {                    \
            T *d = b->sums ? b->sums + i * r->dim : r->to_x + w->in[i];        \
            V##_##t x = *(const V##_##t *)(r->x + w->in[i] + k);               \
            V##_##t o = alone ? x : *(V##_##t *)(d + k);                       \
                                                                               \
            EACH(j)                                                            \
            {                                                                  \
                V##_##t slope = SPLAT(V##_##t, g[j]);                          \
                                                                               \
                V##_madd_##t(&o, &slope, &v[j]);                               \
                V##_madd_##t(&a[j], &slope, &x);                               \
            }                                                                  \
            *(V##_##t *)(d + k) = o;                                           \
        }                                                                      \
        EACH(j)                                                                \
        {                                                                      \
            V##_##t *to = (V##_##t *)(b->to[j] + k);                           \
                                                                               \
            if (!alone)                                                        \
                a[j] += *to;                                                   \
            *to = a[j];                                                        \
        }                                                                      \
    }                                                                          \
    INLINE size_t V##_exchange_all_##t(                                        \
        const fl_skip_gram_##t##_rows *r, const fl_skip_gram_window *w,        \
        const block_##t *b, bool alone, size_t k)                              \
    {                                                                          \
        const size_t n = sizeof(V##_##t) / sizeof(T);                          \
                                                                               \
        for (; k + n <= r->dim; k += n)                                        \
            V##_exchange_##t(r, w, b, alone, k);                               \
        return k;                                                              \
    }
PIECES(float, f32, wide)
PIECES(float, f32, narrow)
PIECES(float, f32, one)
PIECES(double, f64, wide)
PIECES(double, f64, narrow)
PIECES(double, f64, one)

/* --- products ------------------------------------------------------------- */

#define PRODUCTS(T, t)                                                         \
    /* s[i][j] = sums of x[i] . y[j] side by side; where they end */           \
    INLINE size_t multiply_wide_##t(const T *const *x, size_t n_x,             \
                                    const T *const *y, size_t dim,             \
                                    sums_##t(*s)[BLOCK])                       \
    {                                                                          \
        const size_t n = WIDE_BYTES / sizeof(T), all = SUM_BYTES / sizeof(T);  \
        size_t k = 0;                                                          \
                                                                               \
        EACH_INPUT(i, n_x)                                                     \
        {                                                                      \
            EACH(j)                                                            \
            {                                                                  \
                EACH_PART(p)                                                   \
                {                                                              \
                    s[i][j].part[p] = (wide_##t){ 0 };                         \
                }                                                              \
            }                                                                  \
        }                                                                      \
        for (; k + all <= dim; k += all)                                       \
            EACH_PART(p)                                                       \
            {                                                                  \
                size_t at = k + (size_t)p * n;                                 \
                wide_##t u[TOGETHER];                                          \
                                                                               \
                EACH_INPUT(i, n_x)                                             \
                {                                                              \
                    u[i] = *(const wide_##t *)(x[i] + at);                     \
                }                                                              \
                EACH(j)                                                        \
                {                                                              \
                    const wide_##t v = *(const wide_##t *)(y[j] + at);         \
                                                                               \
                    EACH_INPUT(i, n_x)                                         \
                    {                                                          \
                        wide_madd_##t(&s[i][j].part[p], &u[i], &v);            \
                    }                                                          \
                }                                                              \
            }                                                                  \
        return k;                                                              \
    }                                                                          \
    INLINE size_t multiply_narrow_##t(const T *x, const T *const *y,           \
                                      size_t dim, size_t k, narrow_##t *s)     \
    {                                                                          \
        const size_t n = NARROW_BYTES / sizeof(T);                             \
                                                                               \
        for (; k + n <= dim; k += n) {                                         \
            const narrow_##t v = *(const narrow_##t *)(x + k);                 \
                                                                               \
            EACH(j)                                                            \
            {                                                                  \
                narrow_madd_##t(&s[j], &v, (const narrow_##t *)(y[j] + k));    \
            }                                                                  \
        }                                                                      \
        return k;                                                              \
    }                                                                          \
    /* The columns from k on, one by one. */                                   \
    INLINE void multiply_rest_##t(const T *x, const T *const *y, size_t dim,   \
                                  size_t k, T *z)                              \
    {                                                                          \
        for (; k < dim; k++)                                                   \
            EACH(j)                                                            \
            {                                                                  \
                one_madd_##t(&z[j], &x[k], &y[j][k]);                          \
            }                                                                  \
    }                                                                          \
    /* z[j] = x . y[j] */                                                      \
    INLINE void products_##t(const T *x, const T *const *y, size_t dim, T *z)  \
    {                                                                          \
        narrow_##t sums[BLOCK];                                                \
        sums_##t wide[1][BLOCK];                                               \
        size_t k = multiply_wide_##t(&x, 1, y, dim, wide);                     \
                                                                               \
        EACH(j)                                                                \
        {                                                                      \
            fold_##t(&wide[0][j], &sums[j]);                                   \
        }                                                                      \
        k = multiply_narrow_##t(x, y, dim, k, sums);                           \
        add_up_##t(sums, z);                                                   \
        multiply_rest_##t(x, y, dim, k, z);                                    \
    }
PRODUCTS(float, f32)
PRODUCTS(double, f64)

/* z[i * STRIDE + j] = x[i] . y[j], for two inputs */
#define PRODUCTS_OF_TWO(T, t)                                                  \
    INLINE void products_of_two_##t(const T *const *x, const T *const *y,      \
                                    size_t dim, T *z)                          \
    {                                                                          \
        products_##t(x[0], y, dim, z);                                         \
        products_##t(x[1], y, dim, z + STRIDE);                                \
    }

#if WIDE_BYTES == SUM_BYTES
/* Two inputs at once, whose sums are folded together. With sij for the sums of
   input i and target j, folded to a quarter,

       four[q] = s0q s0(4+q) s1q s1(4+q)   for q = 0 and 1
                 s0q s0q s1q s1q           for q = 2 and 3
       z       = the first quarters of all four, added up; the second; ...

   so that z lies as two rows of STRIDE numbers. Sums are made in the order of
   fold and add_up. */
#define PICK __builtin_shufflevector

/* Halves of a and of b, added. */
INLINE wide_f32 add_halves(const sums_f32 *a, const sums_f32 *b)
{
    return PICK(a->part[0], b->part[0], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19,
                20, 21, 22, 23) +
           PICK(a->part[0], b->part[0], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25,
                26, 27, 28, 29, 30, 31);
}

/* Targets a and b of both inputs. */
INLINE wide_f32 fold_four(const sums_f32 (*s)[BLOCK], int a, int b)
{
    wide_f32 x = add_halves(&s[0][a], &s[0][b]);
    wide_f32 y = add_halves(&s[1][a], &s[1][b]);

    return PICK(x, y, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26,
                27) +
           PICK(x, y, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30,
                31);
}

/* Target a of both inputs. */
INLINE wide_f32 fold_two(const sums_f32 (*s)[BLOCK], int a)
{
    wide_f32 x = add_halves(&s[0][a], &s[1][a]);

    return x + PICK(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
}

/* 16 bytes of two rows, each twice: those of b in the quarters of the mask. */
INLINE wide_f32 load_two(const float *a, const float *b, __mmask16 of_b)
{
    return _mm512_mask_broadcast_f32x4(
        _mm512_broadcast_f32x4(*(const narrow_f32 *)a), of_b,
        *(const narrow_f32 *)b);
}

/* 16 bytes of every row, from column k on. */
INLINE void multiply_fours(const float *const *x, const float *const *y,
                           size_t k, wide_f32 *four)
{
    const wide_f32 u = load_two(x[0] + k, x[1] + k, 0xff00);

    _Pragma("GCC unroll 4") for (int q = 0; q < 4; q++)
    {
        const wide_f32 v = load_two(y[q] + k, y[q < 2 ? q + 4 : q] + k, 0xf0f0);

        wide_madd_f32(&four[q], &u, &v);
    }
}

/* Numbers 0 and 2, and 1 and 3, of every quarter of a and of b. */
INLINE wide_f32 add_crosswise(wide_f32 a, wide_f32 b)
{
    return PICK(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28,
                29) +
           PICK(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30,
                31);
}

INLINE wide_f32 add_neighbours(wide_f32 a, wide_f32 b)
{
    return PICK(a, b, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28,
                30) +
           PICK(a, b, 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29,
                31);
}

INLINE void products_of_two_f32(const float *const *x, const float *const *y,
                                size_t dim, float *z)
{
    sums_f32 s[2][BLOCK];
    size_t k = multiply_wide_f32(x, 2, y, dim, s);
    wide_f32 four[] = { fold_four(s, 0, 4), fold_four(s, 1, 5), fold_two(s, 2),
                        fold_two(s, 3) };

    for (; k + 4 <= dim; k += 4)
        multiply_fours(x, y, k, four);
    *(wide_f32 *)z = add_neighbours(add_crosswise(four[0], four[1]),
                                    add_crosswise(four[2], four[3]));
    for (int i = 0; i < 2; i++)
        multiply_rest_f32(x[i], y, dim, k, z + i * STRIDE);
}
#else
PRODUCTS_OF_TWO(float, f32)
#endif
PRODUCTS_OF_TWO(double, f64)

/* --- windows -------------------------------------------------------------- */

#define WINDOWS(T, t)                                                          \
    /* Block number `at` of the targets. */                                    \
    INLINE void block_of_##t(const fl_skip_gram_##t##_rows *r,                 \
                             const fl_skip_gram_window *w, size_t at,          \
                             block_##t *b)                                     \
    {                                                                          \
        size_t left = w->n_targets - at * BLOCK;                               \
                                                                               \
        b->n = left < BLOCK ? (int)left : BLOCK;                               \
        b->right = at == 0;                                                    \
        b->sums = w->n_targets > BLOCK ? r->room + r->dim : NULL;              \
        b->slopes = r->room + r->dim * (1 + w->n_in) + at * w->n_in * STRIDE;  \
        for (int j = 0; j < BLOCK; j++) {                                      \
            uint64_t row = j < b->n ? w->target[at * BLOCK + (size_t)j] : 0;   \
                                                                               \
            b->y[j] = j < b->n ? r->y + row : r->room;                         \
            b->to[j] = j < b->n ? r->to_y + row : r->room;                     \
        }                                                                      \
    }                                                                          \
    INLINE void measure_##t(const fl_skip_gram_##t##_rows *r,                  \
                            const fl_skip_gram_window *w, const block_##t *b,  \
                            fl_skip_gram_loss *loss)                           \
    {                                                                          \
        size_t done = 0;                                                       \
                                                                               \
        for (; done + 2 <= w->n_in; done += 2) {                               \
            const T *x[] = { r->x + w->in[done], r->x + w->in[done + 1] };     \
                                                                               \
            products_of_two_##t(x, b->y, r->dim, b->slopes + done * STRIDE);   \
        }                                                                      \
        if (done < w->n_in)                                                    \
            products_##t(r->x + w->in[done], b->y, r->dim,                     \
                         b->slopes + done * STRIDE);                           \
        for (size_t i = 0; i < w->n_in; i += INPUTS) {                         \
            size_t n = w->n_in - i < INPUTS ? w->n_in - i : INPUTS;            \
                                                                               \
            slopes_##t(b->slopes + i * STRIDE, n, b->n, b->right, r->step,     \
                       loss);                                                  \
            if (loss->product > PRODUCT_MAX) {                                 \
                loss->sum += log(loss->product);                               \
                loss->product = 1;                                             \
            }                                                                  \
        }                                                                      \
    }                                                                          \
    INLINE bool is_alone_##t(const fl_skip_gram_##t##_rows *r,                 \
                             const block_##t *b)                               \
    {                                                                          \
        bool alone = r->x == r->to_x && r->y == r->to_y && !b->sums;           \
                                                                               \
        for (int i = 0; i < BLOCK; i++)                                        \
            for (int j = 0; j < i; j++)                                        \
                alone &= b->y[i] != b->y[j];                                   \
        return alone;                                                          \
    }                                                                          \
    INLINE void exchange_##t(const fl_skip_gram_##t##_rows *r,                 \
                             const fl_skip_gram_window *w, const block_##t *b, \
                             bool alone)                                       \
    {                                                                          \
        size_t k = wide_exchange_all_##t(r, w, b, alone, 0);                   \
                                                                               \
        k = narrow_exchange_all_##t(r, w, b, alone, k);                        \
        (void)one_exchange_all_##t(r, w, b, alone, k);                         \
    }                                                                          \
    INLINE void move_##t(const fl_skip_gram_##t##_rows *r,                     \
                         const fl_skip_gram_window *w, const block_##t *b)     \
    {                                                                          \
        if (is_alone_##t(r, b))                                                \
            exchange_##t(r, w, b, true);                                       \
        else                                                                   \
            exchange_##t(r, w, b, false);                                      \
    }                                                                          \
    /* More targets than one block has: what the inputs get is summed up. */   \
    INLINE void move_all_##t(const fl_skip_gram_##t##_rows *r,                 \
                             const fl_skip_gram_window *w)                     \
    {                                                                          \
        T *sums = r->room + r->dim;                                            \
        size_t n_sums = w->n_in * r->dim;                                      \
                                                                               \
        for (size_t k = 0; k < n_sums; k++)                                    \
            sums[k] = 0;                                                       \
        for (size_t at = 0; at * BLOCK < w->n_targets; at++) {                 \
            block_##t b;                                                       \
                                                                               \
            block_of_##t(r, w, at, &b);                                        \
            exchange_##t(r, w, &b, false);                                     \
        }                                                                      \
        for (size_t k = 0; k < n_sums; k++)                                    \
            r->to_x[w->in[k / r->dim] + k % r->dim] += sums[k];                \
    }                                                                          \
    FL_RACY                                                                    \
    static void window_##t(const fl_skip_gram_##t##_rows *r,                   \
                           const fl_skip_gram_window *w,                       \
                           fl_skip_gram_loss *loss)                            \
    {                                                                          \
        block_##t b;                                                           \
                                                                               \
        block_of_##t(r, w, 0, &b);                                             \
        measure_##t(r, w, &b, loss);                                           \
        if (w->n_targets <= BLOCK) {                                           \
            if (r->step != 0)                                                  \
                move_##t(r, w, &b);                                            \
            return;                                                            \
        }                                                                      \
        for (size_t at = 1; at * BLOCK < w->n_targets; at++) {                 \
            block_of_##t(r, w, at, &b);                                        \
            measure_##t(r, w, &b, loss);                                       \
        }                                                                      \
        if (r->step != 0)                                                      \
            move_all_##t(r, w);                                                \
    }                                                                          \
    INLINE void ask_##t(const T *row, size_t dim)                              \
    {                                                                          \
        for (size_t b = 0; b < dim * sizeof(T); b += LINE_BYTES)               \
            __builtin_prefetch((const char *)row + b, 1);                      \
    }                                                                          \
    static void ahead_##t(const fl_skip_gram_##t##_rows *r,                    \
                          const fl_skip_gram_window *now,                      \
                          const fl_skip_gram_window *next)                     \
    {                                                                          \
        size_t j = now->target[0] == next->target[0];                          \
                                                                               \
        for (; j < next->n_targets; j++)                                       \
            ask_##t(r->to_y + next->target[j], r->dim);                        \
        ask_##t(r->to_x + next->in[next->n_in - 1], r->dim);                   \
    }                                                                          \
    FL_RACY                                                                    \
    static void difference_##t(T *out, T a, const T *x, const T *y, size_t n)  \
    {                                                                          \
        for (size_t i = 0; i < n; i++)                                         \
            out[i] = a * (x[i] - y[i]);                                        \
    }
WINDOWS(float, f32)
WINDOWS(double, f64)

#define TABLE(t)                                                               \
    const fl_skip_gram_##t##_table FL_ISA_NAME(                                \
        fl_skip_gram_##t##_table_of) = {                                       \
        .window = window_##t,                                                  \
        .ahead = ahead_##t,                                                    \
        .difference = difference_##t,                                          \
    };
TABLE(f32)
TABLE(f64)
