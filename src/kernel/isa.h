/* isa.h - one source, several instruction sets.
 *
 * Files named *_hot.c hold the loops that matter. The build compiles each of
 * them once per instruction set with FL_ISA set to base, avx2 or avx512;
 * FL_ISA_NAME(x) gives the names apart. fl_isa() tells which set this machine
 * runs (FLOTILLA_ISA=base|avx2|avx512 in the environment lowers it).
 *
 * All sets give the same bits: the loops are written so that neither vector
 * width nor contraction changes the order of a sum.
 */
#ifndef FL_KERNEL_ISA_H
#define FL_KERNEL_ISA_H

#include <stdbool.h>

typedef enum fl_isa_kind {
    FL_ISA_BASE,
    FL_ISA_AVX2,
    FL_ISA_AVX512
} fl_isa_kind;

/* The sets this build holds, in the order of fl_isa_kind. */
#if defined(__x86_64__)
#define FL_ISA_MAP(X, name) X(name, base) X(name, avx2) X(name, avx512)
#else
#define FL_ISA_MAP(X, name) X(name, base)
#endif

#define FL_ISA_CAT_(name, isa) name##_##isa
#define FL_ISA_CAT(name, isa) FL_ISA_CAT_(name, isa)
#define FL_ISA_NAME(name) FL_ISA_CAT(name, FL_ISA)

/* What multiplies bf16 faster than f32; none where FLOTILLA_ISA asks for less
   than avx512, nor on Intel's CPUs without AMX, or where this process may not use
   its tiles. */
typedef enum fl_isa_bf16_kind {
    FL_ISA_BF16_NONE,
    FL_ISA_BF16_AVX512,
    FL_ISA_BF16_AMX
} fl_isa_bf16_kind;

fl_isa_bf16_kind fl_isa_bf16(void);
const char *fl_isa_bf16_name(fl_isa_bf16_kind k);

/* AVX512-BF16, fast or not. */
bool fl_isa_has_bf16_vectors(void);

fl_isa_kind fl_isa(void);
const char *fl_isa_name(fl_isa_kind k);

#endif
