/* gemm_bf16_tiles.c - products of bf16 by AMX, whose instruction multiplies two
 * tiles: 16 rows of A, of 32 numbers each, by 16 pairs of 16 columns of B.
 *
 * Op(B) is packed as gemm_bf16_pack.h says, in whole tiles. A block of rows of
 * op(A) is put into tiles as well, 16 rows after the other, each as its tiles along
 * the sums: a product of few columns has little use of it, all others read it often,
 * a line at a time.
 *
 * Four tiles of C, two below each other and two side by side, are added up
 * together: so a tile of A or B is loaded for two products, which take longer.
 * Each sum takes its pairs in their order, wherever it lies, so that shares and
 * blocks change no bit. Tiny numbers (below 2^-126) count as zero.
 *
 * Compiled for that instruction set: nothing here may run before is_here said so.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/vec.h"
#include "kernel/gemm_bf16_pack.h"
#include "kernel/isa.h"

#define ROWS 16 /* of a tile */
#define ROW_BYTES 64
#define ROW_NUMBERS 32 /* of A; as many pairs have a tile's rows of B */
#define TILE_BYTES (ROWS * ROW_BYTES)
#define PAIR 2   /* tiles of C below each other, and side by side */
#define STEPS 32 /* along the sums in one go */

/* --- the tiles ---------------------------------------------------------------- */

/* The compiler wants their numbers as text. */
#define C_ABOVE_LEFT 0
#define C_ABOVE_RIGHT 1
#define C_BELOW_LEFT 2
#define C_BELOW_RIGHT 3
#define A_ABOVE 4
#define A_BELOW 5
#define B_LEFT 6
#define B_RIGHT 7
#define N_TILES 8

/* Rows of A above and below, columns of B left and right; 0: there are none. */
typedef struct extent {
    uint8_t rows[PAIR], cols[PAIR];
} extent;

/* As the instruction wants it. */
typedef struct config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} config;

/* A tile that is not there has neither rows nor bytes. */
static void set_tile(config *z, int tile, size_t rows, size_t row_bytes)
{
    z->rows[tile] = (uint8_t)(row_bytes ? rows : 0);
    z->row_bytes[tile] = (uint16_t)(rows ? row_bytes : 0);
}

/* Some compilers are told that _tile_loadconfig reads a pointer, and no more:
   without this, all else that has been set need not be in memory by then. */
static void write_all(const config *z)
{
    __asm__ volatile("" ::"r"(z) : "memory");
}

static void configure(const extent *x)
{
    config z = { .palette = 1 };

    for (int i = 0; i < PAIR; i++) {
        set_tile(&z, A_ABOVE + i, x->rows[i], ROW_BYTES);
        set_tile(&z, B_LEFT + i, ROWS, x->cols[i] * sizeof(float));
        for (int j = 0; j < PAIR; j++)
            set_tile(&z, C_ABOVE_LEFT + PAIR * i + j, x->rows[i],
                     x->cols[j] * sizeof(float));
    }
    write_all(&z);
    _tile_loadconfig(&z);
}

/* --- four of C ---------------------------------------------------------------- */

typedef struct quad {
    const char *a, *b;
    size_t n_steps;
    size_t a_below; /* bytes from the tiles above to those below */
    float *c;
    size_t ldc;
    bool adds; /* to what is in C */
} quad;

/* below and right are constants. */
#define FOR_EACH_C(F, q, below, right)                                         \
    do {                                                                       \
        F(C_ABOVE_LEFT, q, 0, 0);                                              \
        if (right)                                                             \
            F(C_ABOVE_RIGHT, q, 0, 1);                                         \
        if (below)                                                             \
            F(C_BELOW_LEFT, q, 1, 0);                                          \
        if ((below) && (right))                                                \
            F(C_BELOW_RIGHT, q, 1, 1);                                         \
    } while (0)

#define C_AT(q, i, j) ((q)->c + (i)*ROWS * (q)->ldc + (j)*LANES)
#define LOAD_C(tile, q, i, j)                                                  \
    _tile_loadd(tile, C_AT(q, i, j), (q)->ldc * sizeof(float))
#define STORE_C(tile, q, i, j)                                                 \
    _tile_stored(tile, C_AT(q, i, j), (q)->ldc * sizeof(float))
#define ZERO_C(tile, q, i, j) _tile_zero(tile)

ALWAYS_INLINE void add_step(const quad *q, size_t step, bool below, bool right)
{
    const size_t b_row = right ? PAIR * ROW_BYTES : ROW_BYTES;
    const char *a = q->a + step * TILE_BYTES, *b = q->b + step * ROWS * b_row;

    _tile_loadd(B_LEFT, b, b_row);
    _tile_loadd(A_ABOVE, a, ROW_BYTES);
    _tile_dpbf16ps(C_ABOVE_LEFT, A_ABOVE, B_LEFT);
    if (right) {
        _tile_loadd(B_RIGHT, b + ROW_BYTES, b_row);
        _tile_dpbf16ps(C_ABOVE_RIGHT, A_ABOVE, B_RIGHT);
    }
    if (below) {
        _tile_loadd(A_BELOW, a + q->a_below, ROW_BYTES);
        _tile_dpbf16ps(C_BELOW_LEFT, A_BELOW, B_LEFT);
    }
    if (below && right)
        _tile_dpbf16ps(C_BELOW_RIGHT, A_BELOW, B_RIGHT);
}

ALWAYS_INLINE void run_quad(const quad *q, bool below, bool right)
{
    if (q->adds)
        FOR_EACH_C(LOAD_C, q, below, right);
    else
        FOR_EACH_C(ZERO_C, q, below, right);
    for (size_t i = 0; i < q->n_steps; i++)
        add_step(q, i, below, right);
    FOR_EACH_C(STORE_C, q, below, right);
}

static void run_1_1(const quad *q)
{
    run_quad(q, false, false);
}

static void run_1_2(const quad *q)
{
    run_quad(q, false, true);
}

static void run_2_1(const quad *q)
{
    run_quad(q, true, false);
}

static void run_2_2(const quad *q)
{
    run_quad(q, true, true);
}

/* By what is below and on the right. */
static void (*const quads[2][2])(const quad *q) = { { run_1_1, run_1_2 },
                                                    { run_2_1, run_2_2 } };

/* --- op(A) in tiles ----------------------------------------------------------- */

static size_t n_steps(const fl_gemm_shape *s)
{
    return ((size_t)s->k + ROW_NUMBERS - 1) / ROW_NUMBERS;
}

/* Bytes of 16 rows. It is an odd number of cache lines, since 16 rows of a
   transposed A are written beside 16 others: a power of two would put all of them
   into the same places. */
static size_t strip_bytes(const fl_gemm_shape *s)
{
    return n_steps(s) * TILE_BYTES + ROW_BYTES;
}

static __mmask32 first32(size_t n)
{
    return n < ROW_NUMBERS ? (__mmask32)((1u << n) - 1) : (__mmask32)-1;
}

/* Rows that lie as they are wanted, m of them. */
static void take_rows(const fl_gemm_shape *s, const uint16_t *a, size_t m,
                      char *to)
{
    size_t k = (size_t)s->k, ld = (size_t)s->lda;

    for (size_t i = 0; i < m; i++) {
        char *row = to + i / ROWS * strip_bytes(s) + i % ROWS * ROW_BYTES;

        for (size_t p = 0; p < k; p += ROW_NUMBERS, row += TILE_BYTES)
            _mm512_store_si512(
                row, _mm512_maskz_loadu_epi16(first32(k - p), a + i * ld + p));
    }
}

/* A tile, of columns: up to 16 pairs of rows, `left` of which there are, become a
   pair of each of 16 rows. */
static void turn_tile(const uint16_t *a, size_t ld, size_t left, __mmask16 here,
                      char *to)
{
    __m512i r[LANES];

#pragma GCC unroll 16
    for (size_t i = 0; i < LANES; i++)
        r[i] = 2 * i < left
                   ? pairs_at(a, 2 * i * ld, ld, here, 2 * i + 1 < left, false)
                   : _mm512_setzero_si512();
    transpose(r);
#pragma GCC unroll 16
    for (size_t i = 0; i < LANES; i++)
        _mm512_storeu_si512(to + i * ROW_BYTES, r[i]);
}

static void zero_gaps(const fl_gemm_shape *s, char *turned)
{
    for (size_t col = 0; col < (size_t)s->m; col += ROWS) {
        turned += strip_bytes(s);
        memset(turned - ROW_BYTES, 0, ROW_BYTES);
    }
}

static void tiles_turn_rows(const fl_bf16_product *p, const uint16_t *rows,
                            int64_t lo, int64_t hi, void *turned)
{
    size_t cols = (size_t)p->s.m, ld = (size_t)p->s.lda, n = (size_t)(hi - lo);
    char *to = (char *)turned + (size_t)lo / ROW_NUMBERS * TILE_BYTES;

    for (size_t i = 0; i < n; i += ROW_NUMBERS, to += TILE_BYTES)
        for (size_t col = 0; col < cols; col += ROWS)
            turn_tile(rows + i * ld + col, ld, n - i, first16(cols - col),
                      to + col / ROWS * strip_bytes(&p->s));
    if (hi == p->s.k)
        zero_gaps(&p->s, turned);
}

/* --- running ------------------------------------------------------------------ */

/* A block of rows of C. */
typedef struct block {
    const fl_gemm_shape *s;
    fl_bf16_panels panels;
    const char *a, *b;
    size_t rows;
    float *c;
    extent now; /* of the tiles as they are configured */
} block;

static uint8_t part(size_t n, size_t i)
{
    size_t left = n > i * ROWS ? n - i * ROWS : 0;

    return (uint8_t)(left < ROWS ? left : ROWS);
}

static void set_extent(block *x, size_t rows, size_t cols)
{
    extent e = { .rows = { part(rows, 0), part(rows, 1) },
                 .cols = { part(cols, 0), part(cols, 1) } };

    if (!memcmp(&e, &x->now, sizeof(e)))
        return;
    configure(&e);
    x->now = e;
}

static void run_part(block *x, fl_bf16_panel of, size_t row, size_t step)
{
    const fl_gemm_shape *s = x->s;
    size_t col = of.vec * LANES, left = n_steps(s) - step;
    quad q = {
        .a = x->a + row / ROWS * strip_bytes(s) + step * TILE_BYTES,
        .b = x->b + of.vec * x->panels.rows * ROW_BYTES +
             step * of.vecs * TILE_BYTES,
        .n_steps = left < STEPS ? left : STEPS,
        .a_below = strip_bytes(s),
        .c = x->c + row * (size_t)s->ldc + col,
        .ldc = (size_t)s->ldc,
        .adds = step,
    };

    set_extent(x, x->rows - row,
               (size_t)s->n - col < of.vecs * LANES ? (size_t)s->n - col
                                                    : of.vecs * LANES);
    quads[x->now.rows[1] > 0][x->now.cols[1] > 0](&q);
}

static void run_block(block *x)
{
    for (size_t step = 0; step < n_steps(x->s); step += STEPS)
        for (size_t i = 0; i < fl_bf16_n_panels(&x->panels); i++)
            for (size_t row = 0; row < x->rows; row += PAIR * ROWS)
                run_part(x, fl_bf16_panel_at(&x->panels, i), row, step);
}

static fl_bf16_panels panels_of(const fl_gemm_shape *s)
{
    return fl_bf16_panels_of(s, PAIR, ROWS);
}

/* The instructions do not tell the compiler what they read and write. */
static void see_all_memory(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

static void tiles_rows(const fl_bf16_product *p, int64_t lo, int64_t hi,
                       const fl_bf16_args *args)
{
    const fl_gemm_shape *s = &p->s;
    block x = {
        .s = s, .panels = panels_of(s), .a = args->room, .b = args->packed
    };

    for (int64_t i = lo; i < hi; i += FL_GEMM_BLOCK) {
        x.rows = (size_t)(hi - i < FL_GEMM_BLOCK ? hi - i : FL_GEMM_BLOCK);
        x.c = args->c + i * s->ldc;
        if (s->ta)
            x.a = (const char *)args->a + (size_t)i / ROWS * strip_bytes(s);
        else
            take_rows(s, args->a + i * s->lda, x.rows, args->room);
        see_all_memory();
        run_block(&x);
        see_all_memory();
    }
    _tile_release();
}

static void tiles_pack_f32(const fl_bf16_product *p, const float *b,
                           void *packed)
{
    fl_bf16_panels to = panels_of(&p->s);

    fl_bf16_panels_pack_f32(&to, &p->s, b, packed);
}

static void tiles_pack_rows(const fl_bf16_product *p, const uint16_t *rows,
                            int64_t lo, int64_t hi, void *packed)
{
    fl_bf16_panels to = panels_of(&p->s);

    fl_bf16_panels_pack_rows(&to, (size_t)p->s.ldb, rows, (size_t)lo,
                             (size_t)hi, packed);
}

static void tiles_size(fl_bf16_product *p)
{
    fl_bf16_panels b = panels_of(&p->s);
    size_t n_strips = ((size_t)p->s.m + ROWS - 1) / ROWS;

    p->packed_bytes = fl_bf16_panels_bytes(&b);
    if (p->s.ta)
        p->turned_bytes = n_strips * strip_bytes(&p->s);
    else
        p->room_bytes = FL_GEMM_BLOCK / ROWS * strip_bytes(&p->s);
}

static bool tiles_are_here(void)
{
    return fl_isa_bf16() == FL_ISA_BF16_AMX;
}

const fl_bf16_way fl_bf16_tiles = {
    .name = "tiles",
    .is_here = tiles_are_here,
    .narrow = fl_bf16_narrow_vectors,
    .size = tiles_size,
    .pack_f32 = tiles_pack_f32,
    .pack_rows = tiles_pack_rows,
    .turn_rows = tiles_turn_rows,
    .rows = tiles_rows,
};
