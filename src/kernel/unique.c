/* unique.c - a hash of indices: a slot holds 1 + the position of its key in
 * `keys`, so a slot costs four bytes and clearing is one memset. Load is at
 * most one half; collisions walk to the next slot.
 */
#include "kernel/unique.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

#define N_MAX ((size_t)INT32_MAX)
#define CAP_MIN 64

void fl_unique_release(fl_unique *u)
{
    if (u->slots)
        fl_data_free(u->slots, u->cap * sizeof(*u->slots));
    u->slots = NULL;
    u->cap = 0;
}

static size_t cap_for(size_t n)
{
    size_t cap = CAP_MIN;

    while (cap < 2 * n)
        cap *= 2;
    return cap;
}

static fl_status grow(fl_unique *u, size_t cap)
{
    uint32_t *slots = fl_try_alloc(cap * sizeof(*slots));

    if (!slots)
        FL_FAIL(FL_ERR_NOMEM, "no memory for a hash of %zu ids", cap);
    fl_unique_release(u);
    u->slots = slots;
    u->cap = cap;
    return FL_OK;
}

/* The loop itself; returns how many ids are different. */
static size_t number(uint32_t *restrict slots, size_t mask,
                     const uint64_t *restrict ids, size_t n,
                     uint64_t *restrict keys, uint32_t *restrict index)
{
    uint32_t n_found = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t id = ids[i];
        size_t at = fl_mix64(id) & mask;
        uint32_t s;

        while ((s = slots[at]) != 0 && keys[s - 1] != id)
            at = (at + 1) & mask;
        if (s == 0) {
            keys[n_found] = id;
            slots[at] = s = ++n_found;
        }
        index[i] = s - 1;
    }
    return n_found;
}

fl_status fl_unique_run(fl_unique *u, const uint64_t *ids, size_t n,
                        uint64_t *keys, uint32_t *index, size_t *n_keys)
{
    size_t cap;

    if (n > N_MAX)
        FL_FAIL(FL_ERR_INVAL, "%zu ids in one batch, at most %zu are possible",
                n, N_MAX);
    cap = cap_for(n);
    if (cap > u->cap)
        FL_TRY(grow(u, cap));
    /* Only what this batch needs is cleared: a small batch after a large one
       stays cheap. */
    memset(u->slots, 0, cap * sizeof(*u->slots));
    *n_keys = number(u->slots, cap - 1, ids, n, keys, index);
    return FL_OK;
}

/* --- by server ------------------------------------------------------------ */

/* Where the keys of each server begin, of those in `servers`. */
static void find_starts(const uint32_t *servers, size_t n, int n_servers,
                        uint32_t *starts)
{
    uint32_t at = 0;

    memset(starts, 0, (size_t)n_servers * sizeof(*starts));
    for (size_t i = 0; i < n; i++)
        starts[servers[i]]++;
    for (int s = 0; s < n_servers; s++) {
        uint32_t count = starts[s];

        starts[s] = at;
        at += count;
    }
}

void fl_unique_group(uint64_t *keys, size_t n_keys, int n_servers,
                     uint32_t *index, size_t n, void *room)
{
    uint64_t *before = room;
    uint32_t *to = (uint32_t *)(before + n_keys);
    uint32_t starts[FL_SHARDS];

    FL_ASSERT(n_servers <= FL_SHARDS);
    for (size_t i = 0; i < n_keys; i++)
        to[i] = (uint32_t)fl_server_of(keys[i], n_servers);
    find_starts(to, n_keys, n_servers, starts);
    if (n_keys)
        memcpy(before, keys, n_keys * sizeof(*keys));
    for (size_t i = 0; i < n_keys; i++) {
        to[i] = starts[to[i]]++;
        keys[to[i]] = before[i];
    }
    for (size_t i = 0; i < n; i++)
        if (index[i] < n_keys)
            index[i] = to[index[i]];
}
