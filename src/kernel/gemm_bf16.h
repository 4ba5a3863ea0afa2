/* gemm_bf16.h - C = op(A) op(B) of operands that are rounded to bf16, sums in
 * f32, row-major, one thread.
 *
 * There are three ways: tiles where the CPU has AMX, vectors where it has
 * AVX512-BF16. Elsewhere the rounded numbers are widened and multiplied as f32: the
 * product of two bf16 is exact in f32, so what comes out differs in the order of
 * sums alone, and a training step costs an eighth more than in f32.
 *
 * A product is initialised from its shape; sizes follow. B is packed before it
 * is used, into memory of the caller, and may be used until it changes; and so is
 * an A that is transposed (`turned`). Both may come in blocks of rows, while these
 * are in the cache. Rows of C are computed in blocks as in gemm.h, for the same
 * reason. Any thread.
 */
#ifndef FL_KERNEL_GEMM_BF16_H
#define FL_KERNEL_GEMM_BF16_H

#include "base/status.h"
#include "kernel/gemm.h"

typedef struct fl_bf16_way fl_bf16_way;

typedef struct fl_bf16_product {
    const fl_bf16_way *way;
    fl_gemm_shape s;
    size_t packed_bytes, room_bytes;
    size_t turned_bytes; /* of an A that is transposed */
} fl_bf16_product;

/* Memory of one call: A as bf16, turned where it is transposed, B packed, and room,
   which two calls at a time may not share. Packed and room begin with a cache
   line. */
typedef struct fl_bf16_args {
    const uint16_t *a;
    const void *packed;
    float *c;
    void *room;
} fl_bf16_args;

struct fl_bf16_way {
    const char *name;      /* "emulated", "vectors" or "tiles" */
    bool (*is_here)(void); /* can this machine go it? */
    /* Rounds as pack_f32 does. */
    void (*narrow)(uint16_t *out, const float *x, size_t n);
    void (*size)(fl_bf16_product *p); /* from its shape */
    /* Numbers of f32 are rounded. */
    void (*pack_f32)(const fl_bf16_product *p, const float *b, void *packed);
    /* Rows [lo, hi) of a B that is not transposed, which begin at `rows`; lo is
       even, and so is hi unless it is the end. */
    void (*pack_rows)(const fl_bf16_product *p, const uint16_t *rows,
                      int64_t lo, int64_t hi, void *packed);
    /* Rows [lo, hi) of an A of which the product takes A', which begin at `rows`;
       lo is a multiple of FL_GEMM_BLOCK, and so is hi unless it is the end. */
    void (*turn_rows)(const fl_bf16_product *p, const uint16_t *rows,
                      int64_t lo, int64_t hi, void *turned);
    /* Rows [lo, hi) of C; lo is a multiple of FL_GEMM_BLOCK. */
    void (*rows)(const fl_bf16_product *p, int64_t lo, int64_t hi,
                 const fl_bf16_args *args);
};

/* m, n and k are above 0. */
fl_bf16_product fl_bf16_product_of(const fl_bf16_way *way,
                                   const fl_gemm_shape *s);

/* The faster way of this machine, or, if it can go that, the one that
   FLOTILLA_BF16=emulated, vectors or tiles in the environment asks for; asked
   once. */
const fl_bf16_way *fl_bf16_way_here(void);

/* By name; NULL: not in this build, or not on this machine. */
const fl_bf16_way *fl_bf16_way_find(const char *name);

/* Does this machine multiply bf16 faster than f32 here? */
bool fl_bf16_is_fast(void);

#endif
