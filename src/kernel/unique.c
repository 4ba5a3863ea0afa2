/* unique.c - a hash of indices: a slot holds 1 + the position of its key in
 * `keys`, so a slot costs four bytes and clearing is one memset. Load is at
 * most one half; collisions walk to the next slot.
 *
 * Where keys are to come server by server, each gets its rank among those of its
 * server when it is found, which its hash tells, too; then all are moved.
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
    fl_buf_release(&u->room);
}

static size_t cap_for(size_t n)
{
    size_t cap = CAP_MIN;

    while (cap < 2 * n)
        cap *= 2;
    return cap;
}

static fl_status no_memory(size_t n)
{
    FL_FAIL(FL_ERR_NOMEM, "no memory for a hash of %zu ids", n);
}

static fl_status grow(fl_unique *u, size_t cap)
{
    uint32_t *slots = fl_try_alloc(cap * sizeof(*slots));

    if (!slots)
        return no_memory(cap);
    if (u->slots)
        fl_data_free(u->slots, u->cap * sizeof(*u->slots));
    u->slots = slots;
    u->cap = cap;
    return FL_OK;
}

/* What is known of the keys that are to come server by server. */
typedef struct servers {
    int n;
    uint64_t *before;           /* keys, in order of appearance */
    uint32_t *ranks;            /* of each among those of its server */
    uint16_t *of;               /* by key */
    uint32_t counts[FL_SHARDS]; /* by server */
} servers;

static void note_server(servers *s, size_t key, uint64_t hash)
{
    int server = fl_hash_server(hash, s->n);

    s->of[key] = (uint16_t)server;
    s->ranks[key] = s->counts[server]++;
}

/* The loop itself; returns how many ids are different. */
static inline size_t number(uint32_t *restrict slots, size_t mask,
                            const uint64_t *restrict ids, size_t n,
                            uint64_t *restrict keys, uint32_t *restrict index,
                            servers *by)
{
    uint32_t n_found = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t id = ids[i], hash = fl_hash_key(id);
        size_t at = hash & mask;
        uint32_t s;

        while ((s = slots[at]) != 0 && keys[s - 1] != id)
            at = (at + 1) & mask;
        if (s == 0) {
            keys[n_found] = id;
            if (by)
                note_server(by, n_found, hash);
            slots[at] = s = ++n_found;
        }
        index[i] = s - 1;
    }
    return n_found;
}

/* --- server by server ------------------------------------------------------ */

static fl_status open_servers(fl_unique *u, size_t n, servers *s)
{
    uint64_t *room = fl_buf_reserve(
        &u->room, n * (sizeof(*room) + sizeof(*s->ranks) + sizeof(*s->of)));

    if (!room)
        return no_memory(n);
    FL_ASSERT(u->n_servers <= FL_SHARDS);
    s->n = u->n_servers;
    s->before = room;
    s->ranks = (uint32_t *)(room + n);
    s->of = (uint16_t *)(s->ranks + n);
    memset(s->counts, 0, (size_t)s->n * sizeof(*s->counts));
    return FL_OK;
}

/* Counts become where the keys of each server begin. */
static void find_starts(servers *s)
{
    uint32_t at = 0;

    for (int i = 0; i < s->n; i++) {
        uint32_t count = s->counts[i];

        s->counts[i] = at;
        at += count;
    }
}

static void put_together(servers *s, size_t n_keys, uint64_t *restrict keys,
                         uint32_t *restrict index, size_t n)
{
    uint32_t *restrict to = s->ranks;

    find_starts(s);
    for (size_t i = 0; i < n_keys; i++) {
        to[i] += s->counts[s->of[i]];
        keys[to[i]] = s->before[i];
    }
    for (size_t i = 0; i < n; i++)
        index[i] = to[index[i]];
}

static fl_status number_by_server(fl_unique *u, size_t mask,
                                  const uint64_t *ids, size_t n, uint64_t *keys,
                                  uint32_t *index, size_t *n_keys)
{
    servers s;

    FL_TRY(open_servers(u, n, &s));
    *n_keys = number(u->slots, mask, ids, n, s.before, index, &s);
    put_together(&s, *n_keys, keys, index, n);
    return FL_OK;
}

/* --- all --------------------------------------------------------------------- */

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
    if (u->n_servers > 1)
        return number_by_server(u, cap - 1, ids, n, keys, index, n_keys);
    *n_keys = number(u->slots, cap - 1, ids, n, keys, index, NULL);
    return FL_OK;
}
