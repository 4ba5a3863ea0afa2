/* unique.c - a hash of indices: a slot holds 1 + the position of its key in
 * `keys`, so a slot costs four bytes and clearing is one memset. Load is at
 * most one half; collisions walk to the next slot.
 *
 * Where keys are to come in the order of their hashes, the top bits of a hash choose
 * its slot, so that the slots have them in nearly that order when all are there.
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

/* What is numbered: ids as they are, at home where the low bits of their hash say,
   or their hashes, at home where the top bits say. */
typedef enum numbered { IDS, HASHES } numbered;

/* What a slot says, or would if the next one to be found were put there. */
static inline uint32_t number_in(uint32_t slot, uint32_t n_found)
{
    uint32_t is_free = -(uint32_t)(slot == 0);

    return slot + ((n_found + 1) & is_free);
}

/* The loop itself; returns how many are different. Whether an id is new cannot be
   foreseen, so there is no jump: it is written as if it were. One more is written
   than there are. */
static inline size_t number(uint32_t *restrict slots, size_t cap, numbered what,
                            const uint64_t *restrict ids, size_t n,
                            uint64_t *found, uint32_t *restrict index)
{
    const int shift = what == IDS ? 0 : __builtin_clzll(cap) + 1;
    uint32_t n_found = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t hash = fl_hash_key(ids[i]);
        uint64_t it = what == IDS ? ids[i] : hash;
        size_t at = hash >> shift & (cap - 1);
        uint32_t s;

        found[n_found] = it;
        s = number_in(slots[at], n_found);
        while (found[s - 1] != it) {
            at = (at + 1) & (cap - 1);
            s = number_in(slots[at], n_found);
        }
        slots[at] = s;
        n_found += s > n_found;
        index[i] = s - 1;
    }
    return n_found;
}

/* --- in the order of the hash ---------------------------------------------- */

typedef struct ordered {
    uint64_t *found;   /* hashes by number */
    uint32_t *numbers; /* by place; one more is written than there are */
    uint32_t *places;  /* by number */
} ordered;

static fl_status open_ordered(fl_unique *u, size_t n, ordered *o)
{
    uint64_t *room = fl_buf_reserve(
        &u->room, (n + 1) * (sizeof(*room) + 2 * sizeof(uint32_t)));

    if (!room)
        return no_memory(n);
    o->found = room;
    o->numbers = (uint32_t *)(room + n);
    o->places = o->numbers + n + 1;
    return FL_OK;
}

/* Which slots are in use cannot be foreseen, so there is no jump. */
static void read_slots(const uint32_t *restrict slots, size_t cap,
                       uint32_t *restrict numbers)
{
    size_t n = 0;

    for (size_t i = 0; i < cap; i++) {
        numbers[n] = slots[i] - 1;
        n += slots[i] != 0;
    }
}

/* Puts number i, whose hash is less than the one before it, where it belongs among
   those. */
static void put_back(const ordered *o, size_t i, uint64_t hash,
                     uint64_t *restrict hashes)
{
    uint32_t number = o->numbers[i];

    for (; i && hashes[i - 1] > hash; i--) {
        hashes[i] = hashes[i - 1];
        o->numbers[i] = o->numbers[i - 1];
    }
    hashes[i] = hash;
    o->numbers[i] = number;
}

/* What did not stand at home is a few places away from its own. */
static void put_in_order(const ordered *o, size_t n_keys,
                         uint64_t *restrict hashes)
{
    uint64_t last = 0;

    for (size_t i = 0; i < n_keys; i++) {
        uint64_t hash = o->found[o->numbers[i]];

        if (hash < last) {
            put_back(o, i, hash, hashes);
            continue;
        }
        hashes[i] = last = hash;
    }
}

static fl_status number_by_hash(fl_unique *u, size_t cap, const uint64_t *ids,
                                size_t n, uint64_t *keys, uint32_t *index,
                                size_t *n_keys)
{
    ordered o;

    FL_TRY(open_ordered(u, n, &o));
    *n_keys = number(u->slots, cap, HASHES, ids, n, o.found, index);
    read_slots(u->slots, cap, o.numbers);
    put_in_order(&o, *n_keys, keys);
    for (size_t i = 0; i < *n_keys; i++) {
        keys[i] = fl_hash_origin(keys[i]);
        o.places[o.numbers[i]] = (uint32_t)i;
    }
    for (size_t i = 0; i < n; i++)
        index[i] = o.places[index[i]];
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
    if (u->by_hash)
        return number_by_hash(u, cap, ids, n, keys, index, n_keys);
    *n_keys = number(u->slots, cap, IDS, ids, n, keys, index);
    return FL_OK;
}
