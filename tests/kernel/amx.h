/* amx.h - what Intel's tile instructions do, in C: so code that is made for
 * them runs on any machine with AVX-512.
 *
 * After the manual (volume 2: LDTILECFG, TILELOADD, TDPBF16PS and so on). What
 * a processor refuses, which would end the process there, fails the test here.
 * Each thread has tiles of its own.
 *
 * To be included before such code: the names of the instructions mean these
 * functions afterwards.
 */
#ifndef FL_TESTS_KERNEL_AMX_H
#define FL_TESTS_KERNEL_AMX_H

#include <immintrin.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define AMX_TILES 8
#define AMX_ROWS 16
#define AMX_ROW_BYTES 64
#define AMX_WORD 4 /* bytes of a pair of bf16, and of a sum */

typedef struct amx_tile {
    size_t rows, row_bytes; /* both 0: there is none */
    unsigned char data[AMX_ROWS][AMX_ROW_BYTES];
} amx_tile;

typedef struct amx_state {
    int palette; /* 0: nothing is configured */
    amx_tile tiles[AMX_TILES];
} amx_state;

static _Thread_local amx_state amx;

/* --- which tiles there are ------------------------------------------------ */

#define AMX_CONFIG_BYTES 64
#define AMX_CONFIG_ROW_BYTES 16 /* where numbers of 16 bits begin, */
#define AMX_CONFIG_ROWS 48      /* and numbers of 8 bits */

static inline void amx_want_zeros(const unsigned char *config, size_t lo,
                                  size_t hi)
{
    for (size_t i = lo; i < hi; i++)
        assert_int_equal(config[i], 0);
}

static inline void amx_set_tile(size_t i, const unsigned char *config)
{
    amx_tile *t = &amx.tiles[i];
    uint16_t row_bytes;

    memcpy(&row_bytes, config + AMX_CONFIG_ROW_BYTES + i * sizeof(row_bytes),
           sizeof(row_bytes));
    t->row_bytes = row_bytes;
    t->rows = config[AMX_CONFIG_ROWS + i];
    assert_true(t->row_bytes <= AMX_ROW_BYTES);
    assert_true(t->rows <= AMX_ROWS);
    assert_int_equal(!t->row_bytes, !t->rows);
}

/* Palette 0, which the processor takes for a release, counts as a mistake, and
   so does a row to start from, which is the system's. */
static inline void amx_load_config(const void *from)
{
    unsigned char config[AMX_CONFIG_BYTES];

    memcpy(config, from, sizeof(config));
    assert_int_equal(config[0], 1);
    amx_want_zeros(config, 1, AMX_CONFIG_ROW_BYTES);
    amx_want_zeros(config, AMX_CONFIG_ROW_BYTES + AMX_TILES * sizeof(uint16_t),
                   AMX_CONFIG_ROWS);
    amx_want_zeros(config, AMX_CONFIG_ROWS + AMX_TILES, AMX_CONFIG_BYTES);

    memset(&amx, 0, sizeof(amx));
    amx.palette = config[0];
    for (size_t i = 0; i < AMX_TILES; i++)
        amx_set_tile(i, config);
}

static inline void amx_release(void)
{
    memset(&amx, 0, sizeof(amx));
}

/* One that is there, and of whole words. */
static inline amx_tile *amx_tile_at(int i)
{
    amx_tile *t;

    assert_int_equal(amx.palette, 1);
    assert_in_range(i, 0, AMX_TILES - 1);
    t = &amx.tiles[i];
    assert_true(t->rows > 0);
    assert_int_equal(t->row_bytes % AMX_WORD, 0);
    return t;
}

/* --- loading and storing -------------------------------------------------- */

static inline void amx_zero(int tile)
{
    amx_tile *t = amx_tile_at(tile);

    memset(t->data, 0, sizeof(t->data));
}

static inline void amx_load(int tile, const void *from, size_t stride)
{
    amx_tile *t = amx_tile_at(tile);

    memset(t->data, 0, sizeof(t->data));
    for (size_t i = 0; i < t->rows; i++)
        memcpy(t->data[i], (const char *)from + i * stride, t->row_bytes);
}

static inline void amx_store(int tile, void *to, size_t stride)
{
    const amx_tile *t = amx_tile_at(tile);

    for (size_t i = 0; i < t->rows; i++)
        memcpy((char *)to + i * stride, t->data[i], t->row_bytes);
}

/* --- products ------------------------------------------------------------- */

/* No exceptions; to the nearest, of two the even one; tiny numbers are zero, as
   operands and as results. */
#define AMX_MXCSR 0x9fc0u

static inline __m512 amx_first(__m512i pairs)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
}

static inline __m512 amx_second(__m512i pairs)
{
    return _mm512_castsi512_ps(
        _mm512_and_si512(pairs, _mm512_set1_epi32(-0x10000)));
}

/* First numbers of pairs have a sum and second ones another, both from zero;
   what is in C is added last. Not inlined, since a compiler may move arithmetic
   past what sets how it rounds. */
__attribute__((noinline)) static void
amx_add_row(unsigned char *c, const unsigned char *a, const amx_tile *b)
{
    __mmask16 here = (__mmask16)((1u << b->row_bytes / AMX_WORD) - 1);
    __m512 first = _mm512_setzero_ps(), second = _mm512_setzero_ps(), sum;

    for (size_t k = 0; k < b->rows; k++) {
        __m512i y = _mm512_loadu_si512(b->data[k]), x;
        int pair;

        memcpy(&pair, a + k * AMX_WORD, sizeof(pair));
        x = _mm512_set1_epi32(pair);
        first = _mm512_fmadd_ps(amx_first(x), amx_first(y), first);
        second = _mm512_fmadd_ps(amx_second(x), amx_second(y), second);
    }
    sum = _mm512_add_ps(_mm512_loadu_ps(c), _mm512_add_ps(first, second));
    _mm512_storeu_ps(c, _mm512_maskz_mov_ps(here, sum));
}

static inline void amx_add_products(int to, int left, int right)
{
    amx_tile *c = amx_tile_at(to);
    const amx_tile *a = amx_tile_at(left), *b = amx_tile_at(right);
    unsigned mxcsr = _mm_getcsr();

    assert_true(to != left && to != right && left != right);
    assert_int_equal(c->rows, a->rows);
    assert_int_equal(c->row_bytes, b->row_bytes);
    assert_int_equal(a->row_bytes / AMX_WORD, b->rows);

    _mm_setcsr(AMX_MXCSR);
    for (size_t i = 0; i < c->rows; i++)
        amx_add_row(c->data[i], a->data[i], b);
    _mm_setcsr(mxcsr);
}

/* --- their names ---------------------------------------------------------- */

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps

#define _tile_loadconfig(from) amx_load_config(from)
#define _tile_release() amx_release()
#define _tile_zero(tile) amx_zero(tile)
#define _tile_loadd(tile, from, stride) amx_load(tile, from, stride)
#define _tile_stored(tile, to, stride) amx_store(tile, to, stride)
#define _tile_dpbf16ps(c, a, b) amx_add_products(c, a, b)

#endif
