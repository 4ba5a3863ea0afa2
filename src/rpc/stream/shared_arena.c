/* shared_arena.c - blocks of a memfd.
 *
 * The sender's book-keeping is one tag per unit, in private memory. The arena
 * is a row of runs, used and free in turn, free ones never side by side; the
 * first and the last unit of a run carry its length and whether it is in use:
 *
 *      unit   0     1     2     3     4     5     6     7
 *           | used      | free                  | used      |
 *      tag    2u    2u    4     .     .     4     2u    2u
 *
 * so a block that comes back finds its neighbours in constant time. A number
 * of a peer is a block's start only if its unit is marked as one: the tags of
 * inner and last units are not.
 */
#include "rpc/stream/shared_arena.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

#include "base/alloc.h"

/* Beyond so many runs the search gives up; the payload then goes another way,
   which is cheaper than a long search for every message. */
#define LOOK_MAX 256

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

typedef struct run_tag {
    uint32_t units; /* of the run, at its first and last unit */
    uint8_t in_use;
    uint8_t is_start; /* of a run in use */
} run_tag;

struct fl_arena_out {
    uint8_t *base;
    int fd;
    run_tag *tags;
    uint32_t n_units;
    uint32_t lowest; /* no unit below it is free */
    uint32_t used_units;
};

struct fl_arena_in {
    const uint8_t *base;
    uint64_t bytes;
    size_t n_refs;
};

/* --- the sender's side --------------------------------------------------- */

static void tag_run(fl_arena_out *a, uint32_t at, uint32_t units, bool in_use)
{
    run_tag tag = { .units = units, .in_use = in_use };

    FL_ASSERT(a->tags);
    a->tags[at + units - 1] = tag;
    tag.is_start = in_use;
    a->tags[at] = tag;
}

/* The peer gets a descriptor that could write; the last seal takes that away
   after our own mapping was made. Kernels before 5.1 do not know it, and then
   a peer could spoil what it is about to read itself. */
static fl_status seal(int fd)
{
    int seals = F_SEAL_SHRINK | F_SEAL_GROW;

    if (fcntl(fd, F_ADD_SEALS, seals | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) &&
        fcntl(fd, F_ADD_SEALS, seals | F_SEAL_SEAL))
        FL_FAIL(FL_ERR_IO, "sealing a shared arena: %s", strerror(errno));
    return FL_OK;
}

static fl_status map_out(fl_arena_out *a)
{
    uint64_t bytes = fl_arena_out_bytes(a);
    void *p;

    a->fd = memfd_create("flotilla-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (a->fd < 0)
        FL_FAIL(FL_ERR_IO, "making a shared arena (memfd): %s",
                strerror(errno));
    if (ftruncate(a->fd, (off_t)bytes))
        FL_FAIL(FL_ERR_IO, "making a shared arena of %llu bytes: %s",
                (unsigned long long)bytes, strerror(errno));
    p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, a->fd, 0);
    if (p == MAP_FAILED)
        FL_FAIL(FL_ERR_NOMEM, "mapping a shared arena of %llu bytes: %s",
                (unsigned long long)bytes, strerror(errno));
    a->base = p;
    return seal(a->fd);
}

fl_status fl_arena_out_new(fl_arena_out **out, uint64_t bytes)
{
    fl_arena_out *a;
    fl_status st;

    if (bytes < 1 || bytes > FL_ARENA_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "a shared arena of %llu bytes: give from 1 to %llu",
                (unsigned long long)bytes, (unsigned long long)FL_ARENA_MAX);
    a = fl_alloc(sizeof(*a));
    a->fd = -1;
    a->n_units = (uint32_t)((bytes + FL_ARENA_UNIT - 1) / FL_ARENA_UNIT);
    a->tags = fl_try_map(a->n_units * sizeof(*a->tags));
    if (!a->tags)
        st = fl_err_set(FL_ERR_NOMEM,
                        "no memory for the tags of a shared "
                        "arena of %llu bytes",
                        (unsigned long long)bytes);
    else
        st = map_out(a);
    if (st) {
        fl_arena_out_free(a);
        return st;
    }
    tag_run(a, 0, a->n_units, false);
    *out = a;
    return FL_OK;
}

void fl_arena_out_free(fl_arena_out *a)
{
    if (!a)
        return;
    if (a->base)
        munmap(a->base, fl_arena_out_bytes(a));
    if (a->fd >= 0)
        close(a->fd);
    fl_unmap(a->tags, a->n_units * sizeof(*a->tags));
    fl_free(a);
}

uint64_t fl_arena_out_bytes(const fl_arena_out *a)
{
    return (uint64_t)a->n_units * FL_ARENA_UNIT;
}

int fl_arena_out_fd(const fl_arena_out *a)
{
    return a->fd;
}

uint64_t fl_arena_out_used(const fl_arena_out *a)
{
    return (uint64_t)a->used_units * FL_ARENA_UNIT;
}

/* The start of the lowest free run of so many units; n_units when none was
   found. Moves `lowest` over what is in use. */
static uint32_t find_run(fl_arena_out *a, uint32_t units)
{
    uint32_t at = a->lowest;

    while (at < a->n_units && a->tags[at].in_use)
        at += a->tags[at].units;
    a->lowest = at;
    for (int i = 0; i < LOOK_MAX && at < a->n_units; i++) {
        if (!a->tags[at].in_use && a->tags[at].units >= units)
            return at;
        at += a->tags[at].units;
    }
    return a->n_units;
}

void *fl_arena_out_take(fl_arena_out *a, uint64_t len, uint64_t *place)
{
    uint32_t units, at, rest;

    if (len < 1 || len > fl_arena_out_bytes(a))
        return NULL;
    units = (uint32_t)((len + FL_ARENA_UNIT - 1) / FL_ARENA_UNIT);
    at = find_run(a, units);
    if (at == a->n_units)
        return NULL;
    rest = a->tags[at].units - units;
    tag_run(a, at, units, true);
    if (rest)
        tag_run(a, at + units, rest, false);
    a->used_units += units;
    *place = (uint64_t)at * FL_ARENA_UNIT;
    return a->base + *place;
}

bool fl_arena_out_give(fl_arena_out *a, uint64_t place)
{
    uint64_t unit = place / FL_ARENA_UNIT;
    uint32_t at, units;

    if (place % FL_ARENA_UNIT || unit >= a->n_units || !a->tags[unit].is_start)
        return false;
    at = (uint32_t)unit;
    units = a->tags[at].units;
    a->used_units -= units;
    a->tags[at].is_start = 0;
    if (at + units < a->n_units && !a->tags[at + units].in_use)
        units += a->tags[at + units].units;
    if (at > 0 && !a->tags[at - 1].in_use) {
        units += a->tags[at - 1].units;
        at -= a->tags[at - 1].units;
    }
    tag_run(a, at, units, false);
    if (at < a->lowest)
        a->lowest = at;
    return true;
}

/* --- the receiver's side ------------------------------------------------- */

/* Without these checks a peer could cut the memory off under us, which the
   system answers with a signal that ends the process. Memory of huge pages
   does the same when it has run out of them, hence tmpfs only. */
static fl_status check_fd(int fd, uint64_t bytes)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct statfs fs;
    struct stat st;

    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstatfs(fd, &fs) ||
        fs.f_type != TMPFS_MAGIC)
        FL_FAIL(FL_ERR_CORRUPT,
                "the descriptor of a shared arena is no memory that is sealed "
                "against shrinking: the peer is not ours");
    if (fstat(fd, &st))
        FL_FAIL(FL_ERR_IO, "looking at a shared arena: %s", strerror(errno));
    if (bytes < 1 || bytes > FL_ARENA_MAX || (uint64_t)st.st_size != bytes)
        FL_FAIL(FL_ERR_CORRUPT,
                "a shared arena is said to have %llu bytes and has %llu",
                (unsigned long long)bytes, (unsigned long long)st.st_size);
    return FL_OK;
}

fl_status fl_arena_in_new(fl_arena_in **out, int fd, uint64_t bytes)
{
    fl_arena_in *a;
    void *p;

    FL_TRY(check_fd(fd, bytes));
    p = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        FL_FAIL(FL_ERR_NOMEM, "mapping a peer's shared arena of %llu bytes: %s",
                (unsigned long long)bytes, strerror(errno));
    a = fl_alloc(sizeof(*a));
    a->base = p;
    a->bytes = bytes;
    a->n_refs = 1;
    *out = a;
    return FL_OK;
}

fl_arena_in *fl_arena_in_ref(fl_arena_in *a)
{
    a->n_refs++;
    return a;
}

void fl_arena_in_unref(fl_arena_in *a)
{
    if (!a || --a->n_refs)
        return;
    munmap((void *)(uintptr_t)a->base, a->bytes);
    fl_free(a);
}

uint64_t fl_arena_in_bytes(const fl_arena_in *a)
{
    return a->bytes;
}

const uint8_t *fl_arena_in_at(const fl_arena_in *a, uint64_t place,
                              uint64_t len)
{
    if (place % FL_ARENA_UNIT || len > a->bytes || place > a->bytes - len)
        return NULL;
    return a->base + place;
}
