/* isa.c - which instruction set this machine runs.
 *
 * Asked once and kept in an atomic: two threads that ask first at the same
 * time find the same answer, so nothing needs to be locked.
 */
#include "kernel/isa.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "base/status.h"

#define NAME(prefix, isa) #isa,
static const char *const names[] = { FL_ISA_MAP(NAME, ) };
#undef NAME

const char *fl_isa_name(fl_isa_kind k)
{
    FL_ASSERT((size_t)k < FL_LEN(names));
    return names[k];
}

/* The features that the build's flags for each set rely on. */
static fl_isa_kind of_cpu(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
        !__builtin_cpu_supports("bmi2"))
        return FL_ISA_BASE;
    if (!__builtin_cpu_supports("avx512f") ||
        !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512cd") ||
        !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512vl"))
        return FL_ISA_AVX2;
    return FL_ISA_AVX512;
#else
    return FL_ISA_BASE;
#endif
}

/* The environment can ask for less than the CPU has, never for more. */
static fl_isa_kind lowered(fl_isa_kind kind)
{
    const char *want = getenv("FLOTILLA_ISA");

    if (!want)
        return kind;
    for (size_t i = 0; i < (size_t)kind; i++)
        if (strcmp(want, names[i]) == 0)
            return (fl_isa_kind)i;
    return kind;
}

fl_isa_kind fl_isa(void)
{
    static atomic_int known; /* 1 + kind; 0 is not asked yet */
    int k = atomic_load_explicit(&known, memory_order_relaxed);

    if (k == 0) {
        k = 1 + (int)lowered(of_cpu());
        atomic_store_explicit(&known, k, memory_order_relaxed);
    }
    return (fl_isa_kind)(k - 1);
}

/* --- bf16 ------------------------------------------------------------------- */

#if defined(__x86_64__) && defined(__linux__)
#define LEAF_FEATURES 7
#define AVX512_BF16 (1u << 5) /* of subleaf 1 */
#define AMX_BF16 (1u << 22)
#define AMX_TILE (1u << 24)
#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_TILE_DATA 18

/* The system keeps tiles of those threads alone whose process has asked for it. */
static bool may_use_tiles(void)
{
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_TILE_DATA) ==
           0;
}

bool fl_isa_has_bf16_vectors(void)
{
    unsigned eax, ebx, ecx, edx;

    return fl_isa() == FL_ISA_AVX512 &&
           __get_cpuid_count(LEAF_FEATURES, 1, &eax, &ebx, &ecx, &edx) &&
           (eax & AVX512_BF16);
}

/* Of 32 products in one vector. Intel's cores, which have tiles for the purpose,
   take twice as long for them as for two vectors of 16 products of f32
   (docs/decisions/044). */
static bool has_fast_vectors(void)
{
    return __builtin_cpu_is("amd") && fl_isa_has_bf16_vectors();
}

static fl_isa_bf16_kind bf16_of_cpu(void)
{
    unsigned eax, ebx, ecx, edx;

    if (fl_isa() < FL_ISA_AVX512 ||
        !__get_cpuid_count(LEAF_FEATURES, 0, &eax, &ebx, &ecx, &edx))
        return FL_ISA_BF16_NONE;
    if ((edx & AMX_BF16) && (edx & AMX_TILE) && fl_isa_has_bf16_vectors())
        return may_use_tiles() ? FL_ISA_BF16_AMX : FL_ISA_BF16_NONE;
    return has_fast_vectors() ? FL_ISA_BF16_AVX512 : FL_ISA_BF16_NONE;
}
#else
bool fl_isa_has_bf16_vectors(void)
{
    return false;
}

static fl_isa_bf16_kind bf16_of_cpu(void)
{
    return FL_ISA_BF16_NONE;
}
#endif

fl_isa_bf16_kind fl_isa_bf16(void)
{
    static atomic_int known; /* 1 + kind; 0 is not asked yet */
    int k = atomic_load_explicit(&known, memory_order_relaxed);

    if (k == 0) {
        k = 1 + (int)bf16_of_cpu();
        atomic_store_explicit(&known, k, memory_order_relaxed);
    }
    return (fl_isa_bf16_kind)(k - 1);
}

const char *fl_isa_bf16_name(fl_isa_bf16_kind k)
{
    static const char *const all[] = { "none", "avx512_bf16", "amx_bf16" };

    FL_ASSERT((size_t)k < FL_LEN(all));
    return all[k];
}
