/* gemm_bf16_vectors.c - products of bf16 by AVX512-BF16, whose instruction adds
 * the products of two pairs to each of 16 sums.
 *
 * Op(B) is packed as gemm_bf16_pack.h says. A is read as it lies, a word at a time;
 * turned it is pairs of its rows, in groups of LANES columns one after the other.
 *
 * A tile is some rows of C by a panel, and its sums stay in registers. Each sum
 * takes its pairs in their order, whatever the tile, so that shares and blocks
 * change no bit. Tiny numbers (below 2^-126) count as zero.
 *
 * Compiled for that instruction set: nothing here may run before is_here said so.
 */
#include <string.h>

#include "base/vec.h"
#include "kernel/gemm_bf16_pack.h"
#include "kernel/isa.h"

#define WIDE 5     /* vectors of a panel */
#define ROWS_MAX 8 /* of a tile */
#define DEPTH 512  /* pairs in one go: a panel of them stays in the L2 */

/* --- tiles ------------------------------------------------------------------ */

/* What a tile is computed from. */
typedef struct tile {
    const char *a;
    size_t row_step, pair_step; /* of a, in bytes */
    size_t n_pairs;
    bool has_half; /* one more of a, without its second number */
    bool adds;     /* to what is in C */
    const uint32_t *b;
    float *c;
    size_t ldc;
    __mmask16 last; /* the columns of the last vector */
} tile;

ALWAYS_INLINE __m512i pair_at(const char *a)
{
    int x;

    memcpy(&x, a, sizeof(x));
    return _mm512_set1_epi32(x);
}

ALWAYS_INLINE __m512i half_at(const char *a)
{
    uint16_t x;

    memcpy(&x, a, sizeof(x));
    return _mm512_set1_epi32(x);
}

/* rows and vecs are constants where this is called. */
ALWAYS_INLINE void add_pair(__m512 sum[ROWS_MAX][WIDE], const tile *t, size_t p,
                            int rows, int vecs, bool is_half)
{
    const char *a = t->a + p * t->pair_step;
    const uint32_t *b = t->b + p * (size_t)(vecs * LANES);
    __m512bh col[WIDE];

#pragma GCC unroll 8
    for (int v = 0; v < vecs; v++)
        col[v] = (__m512bh)_mm512_loadu_si512(b + v * LANES);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        const char *at = a + (size_t)r * t->row_step;
        __m512bh x = (__m512bh)(is_half ? half_at(at) : pair_at(at));

#pragma GCC unroll 8
        for (int v = 0; v < vecs; v++)
            sum[r][v] = _mm512_dpbf16_ps(sum[r][v], x, col[v]);
    }
}

ALWAYS_INLINE void run_tile(const tile *t, int rows, int vecs)
{
    __m512 sum[ROWS_MAX][WIDE];

#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vecs; v++) {
            __mmask16 here = v == vecs - 1 ? t->last : (__mmask16)-1;

            sum[r][v] = t->adds
                            ? _mm512_maskz_loadu_ps(
                                  here, t->c + (size_t)r * t->ldc + v * LANES)
                            : _mm512_setzero_ps();
        }
    for (size_t p = 0; p < t->n_pairs; p++)
        add_pair(sum, t, p, rows, vecs, false);
    if (t->has_half)
        add_pair(sum, t, t->n_pairs, rows, vecs, true);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vecs; v++)
            _mm512_mask_storeu_ps(t->c + (size_t)r * t->ldc + v * LANES,
                                  v == vecs - 1 ? t->last : (__mmask16)-1,
                                  sum[r][v]);
}

/* Sums, a panel's vectors and a word of A fill the 32 registers: rows by vectors
   of each row. */
#define UP_TO_5(F, v) F(1, v) F(2, v) F(3, v) F(4, v) F(5, v)
#define UP_TO_6(F, v) UP_TO_5(F, v) F(6, v)
#define UP_TO_8(F, v) UP_TO_6(F, v) F(7, v) F(8, v)
#define ALL_TILES(F)                                                           \
    UP_TO_8(F, 1) UP_TO_8(F, 2) UP_TO_8(F, 3) UP_TO_6(F, 4) UP_TO_5(F, 5)

#define DEFINE(r, v)                                                           \
    static void tile_##r##_##v(const tile *t)                                  \
    {                                                                          \
        run_tile(t, r, v);                                                     \
    }
ALL_TILES(DEFINE)

#define ENTRY(r, v) [v][r] = tile_##r##_##v,
static void (*const tiles[WIDE + 1][ROWS_MAX + 1])(const tile *t) = {
    ALL_TILES(ENTRY)
};

/* Rows of a tile by the vectors of its panel. A transposed A comes in groups of
   LANES rows, which whole tiles make up. */
static const size_t rows_of[WIDE + 1] = { 0, 8, 8, 8, 6, 5 };
static const size_t rows_of_turned[WIDE + 1] = { 0, 8, 8, 8, 4, 4 };

/* --- a turned A ---------------------------------------------------------------- */

/* Words of a group. It is an odd number of cache lines, since groups are written
   side by side: a power of two would put all of them into the same places. */
static size_t group_len(const fl_gemm_shape *s)
{
    return (fl_bf16_pairs((size_t)s->k) | 1) * LANES;
}

static void zero_gaps(const fl_gemm_shape *s, uint32_t *turned)
{
    size_t len = group_len(s), used = fl_bf16_pairs((size_t)s->k) * LANES;

    for (size_t col = 0; col < (size_t)s->m; col += LANES, turned += len)
        for (size_t i = used; i < len; i += LANES)
            _mm512_storeu_si512(turned + i, _mm512_setzero_si512());
}

static void vectors_turn_rows(const fl_bf16_product *p, const uint16_t *rows,
                              int64_t lo, int64_t hi, void *turned)
{
    size_t cols = (size_t)p->s.m, ld = (size_t)p->s.lda;
    uint32_t *to = (uint32_t *)turned + (size_t)lo / 2 * LANES;

    for (int64_t i = lo; i < hi; i += 2, to += LANES)
        for (size_t col = 0; col < cols; col += LANES)
            _mm512_storeu_si512(to + col / LANES * group_len(&p->s),
                                pairs_at(rows, (size_t)(i - lo) * ld + col, ld,
                                         first16(cols - col), i + 1 < hi,
                                         false));
    if (hi == p->s.k)
        zero_gaps(&p->s, turned);
}

/* --- running ------------------------------------------------------------------ */

/* A part of C and of the sums. */
typedef struct part {
    const fl_gemm_shape *s;
    fl_bf16_panels b;
    const char *a;
    size_t rows;
    size_t pair, pairs;
} part;

static const char *a_at(const part *x, size_t row)
{
    size_t group = row / LANES * group_len(x->s) + row % LANES;

    return x->s->ta ? x->a + (group + x->pair * LANES) * sizeof(uint32_t)
                    : x->a + row * (size_t)x->s->lda * sizeof(uint16_t) +
                          x->pair * sizeof(uint32_t);
}

static void run_panel(const part *x, fl_bf16_panel of, const uint32_t *packed,
                      float *c)
{
    const fl_gemm_shape *s = x->s;
    bool ends = x->pair + x->pairs == x->b.rows;
    bool has_half = ends && (s->k & 1) && !s->ta;
    size_t most = s->ta ? rows_of_turned[of.vecs] : rows_of[of.vecs];
    tile t = { .row_step =
                   s->ta ? sizeof(uint32_t) : (size_t)s->lda * sizeof(uint16_t),
               .pair_step = s->ta ? LANES * sizeof(uint32_t) : sizeof(uint32_t),
               .n_pairs = x->pairs - has_half,
               .has_half = has_half,
               .adds = x->pair,
               .b = packed + (of.vec * x->b.rows + x->pair * of.vecs) * LANES,
               .ldc = (size_t)s->ldc,
               .last = first16((size_t)s->n - (of.vec + of.vecs - 1) * LANES) };

    c += of.vec * LANES;
    for (size_t i = 0, rows; i < x->rows; i += rows) {
        rows = x->rows - i < most ? x->rows - i : most;
        t.a = a_at(x, i);
        t.c = c + i * t.ldc;
        tiles[of.vecs][rows](&t);
    }
}

/* c: of the first row. */
static void run_block(part *x, const uint32_t *packed, float *c)
{
    for (x->pair = 0; x->pair < x->b.rows; x->pair += x->pairs) {
        x->pairs = x->b.rows - x->pair;
        x->pairs = x->pairs < DEPTH ? x->pairs : DEPTH;
        for (size_t i = 0; i < fl_bf16_n_panels(&x->b); i++)
            run_panel(x, fl_bf16_panel_at(&x->b, i), packed, c);
    }
}

static fl_bf16_panels panels_of(const fl_gemm_shape *s)
{
    return fl_bf16_panels_of(s, WIDE, 1);
}

static void vectors_rows(const fl_bf16_product *p, int64_t lo, int64_t hi,
                         const fl_bf16_args *args)
{
    const fl_gemm_shape *s = &p->s;

    for (int64_t i = lo; i < hi; i += FL_GEMM_BLOCK) {
        part x = { .s = s, .b = panels_of(s) };

        x.rows = (size_t)(hi - i < FL_GEMM_BLOCK ? hi - i : FL_GEMM_BLOCK);
        x.a = s->ta ? (const char *)((const uint32_t *)(const void *)args->a +
                                     (size_t)i / LANES * group_len(s))
                    : (const char *)(args->a + i * s->lda);
        run_block(&x, args->packed, args->c + i * s->ldc);
    }
}

static void vectors_pack_f32(const fl_bf16_product *p, const float *b,
                             void *packed)
{
    fl_bf16_panels to = panels_of(&p->s);

    fl_bf16_panels_pack_f32(&to, &p->s, b, packed);
}

static void vectors_pack_rows(const fl_bf16_product *p, const uint16_t *rows,
                              int64_t lo, int64_t hi, void *packed)
{
    fl_bf16_panels to = panels_of(&p->s);

    fl_bf16_panels_pack_rows(&to, (size_t)p->s.ldb, rows, (size_t)lo,
                             (size_t)hi, packed);
}

static void vectors_size(fl_bf16_product *p)
{
    fl_bf16_panels b = panels_of(&p->s);
    size_t n_groups = ((size_t)p->s.m + LANES - 1) / LANES;

    p->packed_bytes = fl_bf16_panels_bytes(&b);
    if (p->s.ta)
        p->turned_bytes = n_groups * group_len(&p->s) * sizeof(uint32_t);
}

const fl_bf16_way fl_bf16_vectors = {
    .name = "vectors",
    .is_here = fl_isa_has_bf16_vectors,
    .narrow = fl_bf16_narrow_vectors,
    .size = vectors_size,
    .pack_f32 = vectors_pack_f32,
    .pack_rows = vectors_pack_rows,
    .turn_rows = vectors_turn_rows,
    .rows = vectors_rows,
};
