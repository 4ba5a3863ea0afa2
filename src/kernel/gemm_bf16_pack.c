/* gemm_bf16_pack.c - packing op(B) into panels of pairs.
 *
 * Compiled for AVX512-BF16: nothing here may run before is_here said so.
 */
#include "kernel/gemm_bf16_pack.h"

#include "base/thread.h"

/* --- panels ------------------------------------------------------------------ */

fl_bf16_panels fl_bf16_panels_of(const fl_gemm_shape *s, size_t wide,
                                 size_t step)
{
    size_t n_pairs = fl_bf16_pairs((size_t)s->k);

    return (fl_bf16_panels){ .n = (size_t)s->n,
                             .k = (size_t)s->k,
                             .wide = wide,
                             .rows = (n_pairs + step - 1) / step * step };
}

size_t fl_bf16_panels_bytes(const fl_bf16_panels *b)
{
    return fl_bf16_vecs(b->n) * b->rows * LANES * sizeof(uint32_t);
}

size_t fl_bf16_n_panels(const fl_bf16_panels *b)
{
    return (fl_bf16_vecs(b->n) + b->wide - 1) / b->wide;
}

fl_bf16_panel fl_bf16_panel_at(const fl_bf16_panels *b, size_t i)
{
    size_t n = fl_bf16_n_panels(b), vecs = fl_bf16_vecs(b->n);
    size_t least = vecs / n, more = vecs % n;

    return (fl_bf16_panel){ .vec = i * least + (i < more ? i : more),
                            .vecs = least + (i < more) };
}

/* --- rows become rows of pairs ------------------------------------------------ */

/* A pair of rows, of which the second may be missing, at `at`; it is in row `p` of
   all panels, which lie beside each other. */
ALWAYS_INLINE void pack_pair(const fl_bf16_panels *t, const void *b, size_t at,
                             size_t ld, bool has_below, size_t p, uint32_t *to,
                             bool is_f32)
{
    for (size_t i = 0; i < fl_bf16_n_panels(t); i++) {
        fl_bf16_panel of = fl_bf16_panel_at(t, i);
        uint32_t *row = to + (of.vec * t->rows + p * of.vecs) * LANES;

        for (size_t v = 0; v < of.vecs; v++) {
            size_t col = (of.vec + v) * LANES;

            _mm512_storeu_si512(row + v * LANES,
                                pairs_at(b, at + col, ld, first16(t->n - col),
                                         has_below, is_f32));
        }
    }
}

static void zero_below(const fl_bf16_panels *t, uint32_t *to)
{
    size_t n_pairs = fl_bf16_pairs(t->k);

    for (size_t i = 0; i < fl_bf16_n_panels(t); i++) {
        fl_bf16_panel of = fl_bf16_panel_at(t, i);
        uint32_t *row = to + (of.vec * t->rows + n_pairs * of.vecs) * LANES;

        for (size_t v = 0; v < (t->rows - n_pairs) * of.vecs; v++)
            _mm512_storeu_si512(row + v * LANES, _mm512_setzero_si512());
    }
}

/* Rows [lo, hi), which begin at b. */
ALWAYS_INLINE void pack_straight(const fl_bf16_panels *t, const void *b,
                                 size_t ld, size_t lo, size_t hi, uint32_t *to,
                                 bool is_f32)
{
    for (size_t p = lo; p < hi; p += 2)
        pack_pair(t, b, (p - lo) * ld, ld, p + 1 < hi, p / 2, to, is_f32);
    if (hi == t->k)
        zero_below(t, to);
}

/* --- columns do --------------------------------------------------------------- */

/* 32 numbers, or the `n` that there are, as 16 words. */
ALWAYS_INLINE __m512i load32(const float *b, size_t at, size_t n)
{
    size_t more = n > LANES ? n - LANES : 0;

    return load16_twice(b, at, at + LANES, first16(n), first16(more), true);
}

/* A vector of columns, which are rows of b: 16 words of each at a time. */
ALWAYS_INLINE void pack_turned_vector(const fl_bf16_panels *t, const float *b,
                                      size_t ld, size_t col, size_t step,
                                      uint32_t *to)
{
    size_t n_pairs = fl_bf16_pairs(t->k), cols = t->n - col;

    for (size_t p = 0; p < n_pairs; p += LANES) {
        __m512i r[LANES];
        size_t n = n_pairs - p < LANES ? n_pairs - p : LANES;

#pragma GCC unroll 16
        for (size_t j = 0; j < LANES; j++)
            r[j] = j < cols ? load32(b, (col + j) * ld + 2 * p, t->k - 2 * p)
                            : _mm512_setzero_si512();
        transpose(r);
        for (size_t i = 0; i < n; i++)
            _mm512_storeu_si512(to + (p + i) * step, r[i]);
    }
}

ALWAYS_INLINE void pack_turned(const fl_bf16_panels *t, const float *b,
                               size_t ld, uint32_t *to)
{
    for (size_t i = 0; i < fl_bf16_n_panels(t); i++) {
        fl_bf16_panel of = fl_bf16_panel_at(t, i);

        for (size_t v = 0; v < of.vecs; v++)
            pack_turned_vector(t, b, ld, (of.vec + v) * LANES, of.vecs * LANES,
                               to + (of.vec * t->rows + v) * LANES);
    }
    zero_below(t, to);
}

/* --- either ------------------------------------------------------------------- */

/* Weights are packed while another thread updates them. */
FL_RACY
void fl_bf16_panels_pack_f32(const fl_bf16_panels *to, const fl_gemm_shape *s,
                             const float *b, uint32_t *packed)
{
    if (s->tb)
        pack_turned(to, b, (size_t)s->ldb, packed);
    else
        pack_straight(to, b, (size_t)s->ldb, 0, to->k, packed, true);
}

void fl_bf16_panels_pack_rows(const fl_bf16_panels *to, size_t ld,
                              const uint16_t *rows, size_t lo, size_t hi,
                              uint32_t *packed)
{
    pack_straight(to, rows, ld, lo, hi, packed, false);
}

void fl_bf16_narrow_vectors(uint16_t *out, const float *x, size_t n)
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
