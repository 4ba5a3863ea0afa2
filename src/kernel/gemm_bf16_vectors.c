/* gemm_bf16_vectors.c - products of bf16 by AVX512-BF16, whose instruction adds
 * the products of two pairs to each of 16 sums.
 *
 * A pair is two neighbours along the sums, in one word of 32 bits. Op(B) is packed
 * as panels of up to WIDE vectors of columns, a panel as its pairs of rows one
 * after the other; what is missing on the right and below is zero. A is read as it
 * lies, a word at a time, and a transposed A is first put into pairs, a block of
 * rows of C at a time.
 *
 * A tile is some rows of C by a panel, and its sums stay in registers. Each sum
 * takes its pairs in their order, whatever the tile, so that shares and blocks
 * change no bit. Tiny numbers (below 2^-126) count as zero.
 *
 * Compiled for that instruction set: nothing here may run before is_here said so.
 */
#include "kernel/gemm_bf16.h"

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "base/thread.h"
#include "base/vec.h"
#include "kernel/isa.h"

#define LANES 16
#define WIDE 5     /* vectors of a panel */
#define ROWS_MAX 8 /* of a tile */
#define DEPTH 512  /* pairs in one go: a panel of them stays in the L2 */
#define AHEAD 8 /* rows of a transposed A that are asked for before their use */
#define LINE_NUMBERS 32 /* of a cache line */

#define ALWAYS_INLINE static inline __attribute__((always_inline))

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

/* --- panels ------------------------------------------------------------------ */

/* Panels are as equal as can be, since narrow ones are slower. */
typedef struct panel {
    size_t vec, vecs; /* its first vector, and how many */
} panel;

static size_t n_vecs(const fl_gemm_shape *s)
{
    return ((size_t)s->n + LANES - 1) / LANES;
}

static size_t n_pairs(const fl_gemm_shape *s)
{
    return ((size_t)s->k + 1) / 2;
}

static size_t n_panels(const fl_gemm_shape *s)
{
    return (n_vecs(s) + WIDE - 1) / WIDE;
}

static panel panel_of(const fl_gemm_shape *s, size_t i)
{
    size_t n = n_panels(s), least = n_vecs(s) / n, more = n_vecs(s) % n;

    return (panel){ .vec = i * least + (i < more ? i : more),
                    .vecs = least + (i < more) };
}

/* --- packing ------------------------------------------------------------------ */

static __mmask16 first16(size_t n)
{
    return n < LANES ? (__mmask16)((1u << n) - 1) : (__mmask16)-1;
}

/* 16 numbers of bf16; those that the mask leaves out are zero. */
ALWAYS_INLINE __m256i load16(const void *b, size_t at, __mmask16 here,
                             bool is_f32)
{
    if (is_f32)
        return (__m256i)_mm512_cvtneps_pbh(
            _mm512_maskz_loadu_ps(here, (const float *)b + at));
    return _mm256_maskz_loadu_epi16(here, (const uint16_t *)b + at);
}

/* Two times 16 of them, one behind the other. */
ALWAYS_INLINE __m512i load16_twice(const void *b, size_t at, size_t next,
                                   __mmask16 here, __mmask16 here_next,
                                   bool is_f32)
{
    if (is_f32)
        return (__m512i)_mm512_cvtne2ps_pbh(
            _mm512_maskz_loadu_ps(here_next, (const float *)b + next),
            _mm512_maskz_loadu_ps(here, (const float *)b + at));
    return _mm512_inserti64x4(
        _mm512_castsi256_si512(load16(b, at, here, false)),
        load16(b, next, here_next, false), 1);
}

/* Words of 16 columns: of what lies in row p, and below it if the `k` rows reach
   as far. */
ALWAYS_INLINE __m512i pairs_at(const void *b, size_t at, size_t ld,
                               __mmask16 here, bool has_below, bool is_f32)
{
    /* 0, 16, 1, 17, ... */
    const __m512i zip = _mm512_add_epi32(
        _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
        _mm512_slli_epi32(_mm512_set_epi32(31, 30, 29, 28, 27, 26, 25, 24, 23,
                                           22, 21, 20, 19, 18, 17, 16),
                          16));

    return _mm512_permutexvar_epi16(
        zip, load16_twice(b, at, at + ld, here, has_below ? here : (__mmask16)0,
                          is_f32));
}

static void vectors_narrow(uint16_t *out, const float *x, size_t n)
{
    size_t i = 0;

    for (; i + 2 * LANES <= n; i += 2 * LANES)
        _mm512_storeu_si512(
            out + i,
            load16_twice(x, i, i + LANES, (__mmask16)-1, (__mmask16)-1, true));
    for (; i < n; i += LANES)
        _mm256_mask_storeu_epi16(out + i, first16(n - i),
                                 load16(x, i, first16(n - i), true));
}

/* Rows are read as they lie, all panels beside each other. */
ALWAYS_INLINE void pack_straight(const fl_gemm_shape *s, const void *b,
                                 uint32_t *to, bool is_f32)
{
    size_t k = (size_t)s->k, ld = (size_t)s->ldb;

    for (size_t p = 0; p < k; p += 2) {
        uint32_t *first = to;

        for (size_t i = 0; i < n_panels(s); i++) {
            panel of = panel_of(s, i);
            uint32_t *row = first + p / 2 * of.vecs * LANES;

            for (size_t v = 0; v < of.vecs; v++) {
                size_t col = (of.vec + v) * LANES;
                __mmask16 here = first16((size_t)s->n - col);

                _mm512_storeu_si512(
                    row + v * LANES,
                    pairs_at(b, p * ld + col, ld, here, p + 1 < k, is_f32));
            }
            first += n_pairs(s) * of.vecs * LANES;
        }
    }
}

/* Rows become columns, in place: neighbours change places in 1, 2, 4 and 8. */
ALWAYS_INLINE void transpose(__m512i r[LANES])
{
    __m512i t[LANES];

#pragma GCC unroll 16
    for (int i = 0; i < LANES; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i += 4)
#pragma GCC unroll 16
        for (int j = 0; j < 2; j++) {
            r[i + 2 * j] = _mm512_unpacklo_epi64(t[i + j], t[i + j + 2]);
            r[i + 2 * j + 1] = _mm512_unpackhi_epi64(t[i + j], t[i + j + 2]);
        }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i += 8)
#pragma GCC unroll 16
        for (int j = 0; j < 4; j++) {
            t[i + j] = _mm512_shuffle_i32x4(r[i + j], r[i + j + 4], 0x88);
            t[i + j + 4] = _mm512_shuffle_i32x4(r[i + j], r[i + j + 4], 0xdd);
        }
#pragma GCC unroll 16
    for (int j = 0; j < 8; j++) {
        r[j] = _mm512_shuffle_i32x4(t[j], t[j + 8], 0x88);
        r[j + 8] = _mm512_shuffle_i32x4(t[j], t[j + 8], 0xdd);
    }
}

/* 32 numbers, or the `n` that there are, as 16 words. */
ALWAYS_INLINE __m512i load32(const void *b, size_t at, size_t n, bool is_f32)
{
    size_t more = n > LANES ? n - LANES : 0;

    return load16_twice(b, at, at + LANES, first16(n), first16(more), is_f32);
}

/* A vector of columns, which are rows of b: 16 words of each at a time. */
ALWAYS_INLINE void pack_turned_vector(const fl_gemm_shape *s, const void *b,
                                      size_t col, size_t step, uint32_t *to,
                                      bool is_f32)
{
    size_t k = (size_t)s->k, cols = (size_t)s->n - col;

    for (size_t p = 0; p < n_pairs(s); p += LANES) {
        __m512i r[LANES];
        size_t n = n_pairs(s) - p < LANES ? n_pairs(s) - p : LANES;

#pragma GCC unroll 16
        for (size_t j = 0; j < LANES; j++)
            r[j] = j < cols ? load32(b, (col + j) * (size_t)s->ldb + 2 * p,
                                     k - 2 * p, is_f32)
                            : _mm512_setzero_si512();
        transpose(r);
        for (size_t i = 0; i < n; i++)
            _mm512_storeu_si512(to + (p + i) * step, r[i]);
    }
}

ALWAYS_INLINE void pack_turned(const fl_gemm_shape *s, const void *b,
                               uint32_t *to, bool is_f32)
{
    for (size_t i = 0; i < n_panels(s); i++) {
        panel of = panel_of(s, i);

        for (size_t v = 0; v < of.vecs; v++)
            pack_turned_vector(s, b, (of.vec + v) * LANES, of.vecs * LANES,
                               to + v * LANES, is_f32);
        to += n_pairs(s) * of.vecs * LANES;
    }
}

ALWAYS_INLINE void pack(const fl_bf16_product *z, const void *b, uint32_t *to,
                        bool is_f32)
{
    if (z->s.tb)
        pack_turned(&z->s, b, to, is_f32);
    else
        pack_straight(&z->s, b, to, is_f32);
}

/* Weights are packed while another thread updates them. */
FL_RACY
static fl_status vectors_pack_f32(const fl_bf16_product *p, const float *b,
                                  void *packed)
{
    pack(p, b, packed, true);
    return FL_OK;
}

static fl_status vectors_pack_bf16(const fl_bf16_product *p, const uint16_t *b,
                                   void *packed)
{
    pack(p, b, packed, false);
    return FL_OK;
}

/* --- running ------------------------------------------------------------------ */

/* Words of a group. It is an odd number of cache lines, since groups are written
   side by side: a power of two would put all of them into the same places. */
static size_t group_len(const fl_gemm_shape *s)
{
    return (n_pairs(s) | 1) * LANES;
}

/* Requests rows p and p + 1 of a transposed A, of which a block has a few lines
   each: too few for the processor to see where they lead. */
static void ask_pair(const fl_gemm_shape *s, const uint16_t *a, size_t p,
                     size_t m)
{
    size_t ld = (size_t)s->lda;

    if (p + 1 >= (size_t)s->k)
        return;
    for (size_t i = 0; i < m; i += LINE_NUMBERS) {
        _mm_prefetch((const char *)(a + p * ld + i), _MM_HINT_T0);
        _mm_prefetch((const char *)(a + (p + 1) * ld + i), _MM_HINT_T0);
    }
}

/* Rows [at, at + m) of a transposed A, LANES rows after the other, each group as
   its pairs. */
static void pack_a(const fl_gemm_shape *s, const uint16_t *a, size_t at,
                   size_t m, uint32_t *to)
{
    size_t k = (size_t)s->k, ld = (size_t)s->lda;

    for (size_t p = 0; p < k; p += 2, to += LANES) {
        ask_pair(s, a + at, p + AHEAD, m);
        for (size_t i = 0; i < m; i += LANES)
            _mm512_storeu_si512(to + i / LANES * group_len(s),
                                pairs_at(a, p * ld + at + i, ld, first16(m - i),
                                         p + 1 < k, false));
    }
}

/* A part of C and of the sums. */
typedef struct part {
    const fl_gemm_shape *s;
    const char *a;
    size_t row, rows;
    size_t pair, pairs;
} part;

static const char *a_at(const part *x, size_t row)
{
    size_t group = row / LANES * group_len(x->s) + row % LANES;

    return x->s->ta ? x->a + (group + x->pair * LANES) * sizeof(uint32_t)
                    : x->a + row * (size_t)x->s->lda * sizeof(uint16_t) +
                          x->pair * sizeof(uint32_t);
}

static void run_panel(const part *x, panel of, const uint32_t *b, float *c)
{
    const fl_gemm_shape *s = x->s;
    bool ends = x->pair + x->pairs == n_pairs(s);
    bool has_half = ends && (s->k & 1) && !s->ta;
    size_t most = s->ta ? rows_of_turned[of.vecs] : rows_of[of.vecs];
    tile t = { .row_step =
                   s->ta ? sizeof(uint32_t) : (size_t)s->lda * sizeof(uint16_t),
               .pair_step = s->ta ? LANES * sizeof(uint32_t) : sizeof(uint32_t),
               .n_pairs = x->pairs - has_half,
               .has_half = has_half,
               .adds = x->pair,
               .b = b + x->pair * of.vecs * LANES,
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
    for (x->pair = 0; x->pair < n_pairs(x->s); x->pair += x->pairs) {
        const uint32_t *b = packed;

        x->pairs = n_pairs(x->s) - x->pair;
        x->pairs = x->pairs < DEPTH ? x->pairs : DEPTH;
        for (size_t i = 0; i < n_panels(x->s); i++) {
            panel of = panel_of(x->s, i);

            run_panel(x, of, b, c);
            b += n_pairs(x->s) * of.vecs * LANES;
        }
    }
}

static fl_status vectors_rows(const fl_bf16_product *p, int64_t lo, int64_t hi,
                              const fl_bf16_args *args)
{
    const fl_gemm_shape *s = &p->s;

    for (int64_t i = lo; i < hi; i += FL_GEMM_BLOCK) {
        part x = { .s = s, .a = (const char *)(args->a + i * s->lda) };

        x.rows = (size_t)(hi - i < FL_GEMM_BLOCK ? hi - i : FL_GEMM_BLOCK);
        if (s->ta) {
            pack_a(s, args->a, (size_t)i, x.rows, args->room);
            x.a = args->room;
        }
        run_block(&x, args->packed, args->c + i * s->ldc);
    }
    return FL_OK;
}

static fl_status vectors_init(fl_bf16_product *p)
{
    size_t vec_bytes = n_pairs(&p->s) * LANES * sizeof(uint32_t);
    size_t group_bytes = group_len(&p->s) * sizeof(uint32_t);

    p->packed_bytes = n_vecs(&p->s) * vec_bytes;
    p->room_bytes = p->s.ta ? FL_GEMM_BLOCK / LANES * group_bytes : 0;
    p->layout = p->s.tb ? 2 : 1;
    return FL_OK;
}

static void vectors_release(fl_bf16_product *p)
{
    (void)p;
}

const fl_bf16_way fl_bf16_vectors = {
    .name = "vectors",
    .is_here = fl_isa_has_bf16_vectors,
    .terms = 1,
    .narrow = vectors_narrow,
    .init = vectors_init,
    .release = vectors_release,
    .pack_f32 = vectors_pack_f32,
    .pack_bf16 = vectors_pack_bf16,
    .rows = vectors_rows,
};
