/* gemm_bf16.c - which way products of bf16 go, and the way for every machine:
 * round, widen, multiply as f32.
 *
 * A packed B is B itself, rounded, without gaps between its rows. A block of A
 * is widened into the room of the call: rows of it, or with a transposed A the
 * same columns of all its rows.
 */
#include "kernel/gemm_bf16.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "kernel/bf16.h"
#include "kernel/isa.h"

/* Numbers that are rounded together. */
#define STRIP 512

fl_bf16_product fl_bf16_product_of(const fl_bf16_way *way,
                                   const fl_gemm_shape *s)
{
    fl_bf16_product p = { .way = way, .s = *s };

    way->size(&p);
    return p;
}

/* --- choosing -------------------------------------------------------------- */

extern const fl_bf16_way fl_bf16_emulated, fl_bf16_vectors, fl_bf16_tiles;

static const fl_bf16_way *const ways[] = {
    &fl_bf16_emulated,
#if FL_HAS_BF16
    &fl_bf16_vectors,
    &fl_bf16_tiles,
#endif
};

const fl_bf16_way *fl_bf16_way_find(const char *name)
{
    for (size_t i = 0; i < FL_LEN(ways); i++)
        if (!strcmp(ways[i]->name, name) && ways[i]->is_here())
            return ways[i];
    return NULL;
}

/* The one that is made for what this CPU has; NULL: none. */
static const fl_bf16_way *fast_way(void)
{
    switch (fl_isa_bf16()) {
    case FL_ISA_BF16_AVX512:
        return fl_bf16_way_find("vectors");
    case FL_ISA_BF16_AMX:
        return fl_bf16_way_find("tiles");
    case FL_ISA_BF16_NONE:
        break;
    }
    return NULL;
}

bool fl_bf16_is_fast(void)
{
    return fast_way();
}

static size_t choose(void)
{
    const char *want = getenv("FLOTILLA_BF16");
    const fl_bf16_way *way = want ? fl_bf16_way_find(want) : NULL;

    if (!way)
        way = fast_way();
    for (size_t i = 0; i < FL_LEN(ways); i++)
        if (ways[i] == way)
            return i;
    return 0;
}

const fl_bf16_way *fl_bf16_way_here(void)
{
    static atomic_size_t known; /* 1 + index; 0 is not asked yet */
    size_t k = atomic_load_explicit(&known, memory_order_relaxed);

    if (!k) {
        k = 1 + choose();
        atomic_store_explicit(&known, k, memory_order_relaxed);
    }
    return ways[k - 1];
}

/* --- emulated --------------------------------------------------------------- */

/* B as it lies in memory. */
static size_t rows_of_b(const fl_gemm_shape *s)
{
    return (size_t)(s->tb ? s->n : s->k);
}

static size_t cols_of_b(const fl_gemm_shape *s)
{
    return (size_t)(s->tb ? s->k : s->n);
}

static bool emulated_is_here(void)
{
    return true;
}

static void emulated_size(fl_bf16_product *p)
{
    p->packed_bytes = rows_of_b(&p->s) * cols_of_b(&p->s) * sizeof(float);
    p->room_bytes = FL_GEMM_BLOCK * (size_t)p->s.k * sizeof(float);
    if (p->s.ta)
        p->turned_bytes = (size_t)(p->s.k * p->s.m) * sizeof(uint16_t);
}

static void round_row(float *out, const float *x, size_t n)
{
    uint16_t part[STRIP];

    for (size_t i = 0, len; i < n; i += len) {
        len = n - i < STRIP ? n - i : STRIP;
        fl_bf16()->narrow(part, x + i, len);
        fl_bf16()->widen(out + i, part, len);
    }
}

static void emulated_pack_f32(const fl_bf16_product *p, const float *b,
                              void *packed)
{
    size_t cols = cols_of_b(&p->s);

    for (size_t i = 0; i < rows_of_b(&p->s); i++)
        round_row((float *)packed + i * cols, b + i * (size_t)p->s.ldb, cols);
}

static void emulated_pack_rows(const fl_bf16_product *p, const uint16_t *rows,
                               int64_t lo, int64_t hi, void *packed)
{
    float *to = (float *)packed + lo * p->s.n;

    for (int64_t i = 0; i < hi - lo; i++)
        fl_bf16()->widen(to + i * p->s.n, rows + i * p->s.ldb, (size_t)p->s.n);
}

/* As they lie, without a gap. */
static void emulated_turn_rows(const fl_bf16_product *p, const uint16_t *rows,
                               int64_t lo, int64_t hi, void *turned)
{
    uint16_t *to = (uint16_t *)turned + lo * p->s.m;

    for (int64_t i = 0; i < hi - lo; i++)
        memcpy(to + i * p->s.m, rows + i * p->s.lda,
               (size_t)p->s.m * sizeof(*to));
}

/* Rows [at, at + m) of op(A), as they are or as they lie turned. */
static void widen_block(const fl_gemm_shape *s, int64_t at, int64_t m,
                        const uint16_t *a, float *to)
{
    size_t rows = (size_t)(s->ta ? s->k : m), cols = (size_t)(s->ta ? m : s->k);
    size_t ld = (size_t)(s->ta ? s->m : s->lda);

    a += s->ta ? at : at * s->lda;
    for (size_t i = 0; i < rows; i++)
        fl_bf16()->widen(to + i * cols, a + i * ld, cols);
}

static void emulated_rows(const fl_bf16_product *p, int64_t lo, int64_t hi,
                          const fl_bf16_args *args)
{
    for (int64_t i = lo; i < hi; i += FL_GEMM_BLOCK) {
        fl_gemm_shape part = p->s;

        part.m = hi - i < FL_GEMM_BLOCK ? hi - i : FL_GEMM_BLOCK;
        part.lda = part.ta ? part.m : part.k;
        part.ldb = (int64_t)cols_of_b(&p->s);
        widen_block(&p->s, i, part.m, args->a, args->room);
        fl_gemm_f32(&part, 1, args->room, args->packed, 0,
                    args->c + i * p->s.ldc);
    }
}

const fl_bf16_way fl_bf16_emulated = {
    .name = "emulated",
    .is_here = emulated_is_here,
    .narrow = fl_bf16_narrow,
    .size = emulated_size,
    .pack_f32 = emulated_pack_f32,
    .pack_rows = emulated_pack_rows,
    .turn_rows = emulated_turn_rows,
    .rows = emulated_rows,
};
