/* alloc.c - the system allocator, counted.
 *
 * Blocks go through the C library, not through mmap, so that the address
 * sanitizer sees the end of every one of them. Maps are for what has to start
 * as zeros without being touched, and to be given back piece by piece.
 */
#include "base/alloc.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/status.h"

#define DATA_ALIGN ((size_t)64)
#define HUGE_PAGE ((size_t)2 << 20)
#define SMALL_PAGE ((size_t)4 << 10)

/* No block reaches half a terabyte: such a size comes from damaged bytes. It
   is refused here because a sanitizer's allocator aborts where the plain one
   returns NULL. */
#define DATA_MAX ((size_t)1 << 39)

static atomic_size_t data_bytes;
static _Atomic uint64_t data_calls;
static _Thread_local uint64_t fail_countdown;

/* The system may hand out NULL for 0 bytes, which would look like a failure. */
static size_t at_least_one(size_t bytes)
{
    return bytes ? bytes : 1;
}

void *fl_alloc(size_t bytes)
{
    void *p = calloc(1, at_least_one(bytes));

    if (!p)
        fl_die(__FILE__, __LINE__, "no memory for %zu bytes", bytes);
    return p;
}

void *fl_realloc(void *p, size_t bytes)
{
    void *q = realloc(p, at_least_one(bytes));

    if (!q)
        fl_die(__FILE__, __LINE__, "no memory for %zu bytes", bytes);
    return q;
}

char *fl_strdup(const char *s)
{
    size_t bytes = strlen(s) + 1;

    return memcpy(fl_alloc(bytes), s, bytes);
}

void fl_free(void *p)
{
    free(p);
}

/* True once, when this call is the one that the test hook wants to fail. */
static bool must_fail(void)
{
    return fail_countdown && --fail_countdown == 0;
}

void *fl_try_alloc(size_t bytes)
{
    size_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : DATA_ALIGN;
    int saved_errno = errno;
    void *p;

    atomic_fetch_add_explicit(&data_calls, 1, memory_order_relaxed);
    if (must_fail() || bytes >= DATA_MAX)
        return NULL;
    if (posix_memalign(&p, align, at_least_one(bytes)))
        return NULL;
    if (align == HUGE_PAGE)
        madvise(p, bytes, MADV_HUGEPAGE); /* a wish; small pages work too */
    errno = saved_errno;
    atomic_fetch_add_explicit(&data_bytes, bytes, memory_order_relaxed);
    return p;
}

void fl_data_free(void *p, size_t bytes)
{
    if (!p)
        return;
    free(p);
    atomic_fetch_sub_explicit(&data_bytes, bytes, memory_order_relaxed);
}

/* One huge page more is asked for and cut off again, since the system aligns
   to small pages only. */
static void *map_aligned(size_t bytes)
{
    char *p = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t skip;

    if (p == MAP_FAILED)
        return NULL;
    skip = (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
    if (skip)
        munmap(p, skip);
    if (HUGE_PAGE - skip)
        munmap(p + skip + bytes, HUGE_PAGE - skip);
    madvise(p + skip, bytes, MADV_HUGEPAGE);
    return p + skip;
}

static size_t map_size(size_t bytes)
{
    return (bytes + SMALL_PAGE - 1) / SMALL_PAGE * SMALL_PAGE;
}

void *fl_try_map(size_t bytes)
{
    int saved_errno = errno;
    void *p;

    if (bytes < HUGE_PAGE) {
        p = fl_try_alloc(bytes);
        return p ? memset(p, 0, bytes) : NULL;
    }
    atomic_fetch_add_explicit(&data_calls, 1, memory_order_relaxed);
    if (must_fail() || bytes >= DATA_MAX)
        return NULL;
    p = map_aligned(map_size(bytes));
    errno = saved_errno;
    if (p)
        atomic_fetch_add_explicit(&data_bytes, bytes, memory_order_relaxed);
    return p;
}

void fl_unmap(void *p, size_t bytes)
{
    if (!p)
        return;
    if (bytes < HUGE_PAGE) {
        fl_data_free(p, bytes);
        return;
    }
    munmap(p, map_size(bytes));
    atomic_fetch_sub_explicit(&data_bytes, bytes, memory_order_relaxed);
}

size_t fl_map_forget(void *p, size_t bytes, size_t done, size_t upto)
{
    size_t whole = upto / HUGE_PAGE * HUGE_PAGE;

    if (bytes < HUGE_PAGE || whole <= done)
        return done;
    madvise((char *)p + done, whole - done, MADV_DONTNEED);
    return whole;
}

size_t fl_data_bytes(void)
{
    return atomic_load_explicit(&data_bytes, memory_order_relaxed);
}

uint64_t fl_data_calls(void)
{
    return atomic_load_explicit(&data_calls, memory_order_relaxed);
}

bool fl_mul_overflow(size_t a, size_t b, size_t *out)
{
    size_t product;

    if (__builtin_mul_overflow(a, b, &product))
        return true;
    *out = product;
    return false;
}

void fl_alloc_fail_after(uint64_t n)
{
    fail_countdown = n;
}
