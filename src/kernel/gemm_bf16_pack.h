/* gemm_bf16_pack.h - how operands of bf16 lie for instructions that add the
 * products of pairs, and the vectors that put them there.
 *
 * A pair is two neighbours along the sums, in one word of 32 bits. Op(B) is packed
 * as panels of a few vectors of columns, a panel as its pairs of rows one after the
 * other; what is missing on the right and below is zero.
 *
 * For files that are compiled for AVX512-BF16: nothing here may run where the CPU
 * has not got it.
 */
#ifndef FL_KERNEL_GEMM_BF16_PACK_H
#define FL_KERNEL_GEMM_BF16_PACK_H

#include <immintrin.h>
#include <stdbool.h>

#include "kernel/gemm_bf16.h"

#define LANES 16

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* --- panels ------------------------------------------------------------------ */

/* Op(B), packed. */
typedef struct fl_bf16_panels {
    size_t n, k; /* of op(B) */
    size_t wide; /* vectors of a panel, at most */
    size_t rows; /* of a panel, each of pairs */
} fl_bf16_panels;

/* Panels are as equal as can be, since narrow ones are slower. */
typedef struct fl_bf16_panel {
    size_t vec, vecs; /* its first vector, and how many */
} fl_bf16_panel;

static inline size_t fl_bf16_pairs(size_t k)
{
    return (k + 1) / 2;
}

static inline size_t fl_bf16_vecs(size_t n)
{
    return (n + LANES - 1) / LANES;
}

/* Rows of a panel are a multiple of `step`. */
fl_bf16_panels fl_bf16_panels_of(const fl_gemm_shape *s, size_t wide,
                                 size_t step);
size_t fl_bf16_panels_bytes(const fl_bf16_panels *b);
size_t fl_bf16_n_panels(const fl_bf16_panels *b);
fl_bf16_panel fl_bf16_panel_at(const fl_bf16_panels *b, size_t i);

void fl_bf16_panels_pack_f32(const fl_bf16_panels *to, const fl_gemm_shape *s,
                             const float *b, uint32_t *packed);
/* Rows [lo, hi) of op(B), which begin at `rows`, `ld` numbers from each other; lo
   is even. */
void fl_bf16_panels_pack_rows(const fl_bf16_panels *to, size_t ld,
                              const uint16_t *rows, size_t lo, size_t hi,
                              uint32_t *packed);

/* Rounds as the instructions do: tiny numbers (below 2^-126) become zero. */
void fl_bf16_narrow_vectors(uint16_t *out, const float *x, size_t n);

/* --- vectors ------------------------------------------------------------------ */

ALWAYS_INLINE __mmask16 first16(size_t n)
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

#endif
