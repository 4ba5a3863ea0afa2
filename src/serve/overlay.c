/* overlay.c - open addressing. A slot is a key with its row behind it, so that
 * what is found is one place in memory; beside the slots lies a byte for each,
 * its tag, which says where a key can be without touching the slots:
 *
 *     tags   [ row | 7 bits of the hash ] ...   0: free, GONE: a key without a row
 *     slots  [ key | dim floats | room ] ...
 *
 * A slot of up to 64 bytes lies in one line of the cache: to bring two for it
 * costs more than the room. Slots are in the order of the hash, as are the rows
 * of files, which are written here one behind the other.
 */
#include "serve/overlay.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

#define SLOTS_MIN 16
#define SLOTS_MAX ((size_t)UINT32_MAX)
#define LINE_BYTES 64
#define BIG_STEP_BYTES 16 /* sizes of slots larger than a line */
#define GONE 1
#define HAS_ROW 0x80
#define WORD sizeof(uint64_t) /* tags that are looked at together */

const float fl_overlay_gone = 0;

struct fl_overlay {
    atomic_int refs;
    uint32_t dim;
    size_t slot_bytes;
    size_t n_slots, n_keys, room;
    uint8_t *tags; /* n_slots, and a word of free ones */
    char *slots;
};

/* At most two thirds of the slots are taken. */
static size_t slots_for(size_t n_keys)
{
    size_t n = n_keys + n_keys / 2 + 1;

    return n < SLOTS_MIN ? SLOTS_MIN : n;
}

static size_t slot_bytes_for(uint32_t dim)
{
    size_t need = sizeof(uint64_t) + (size_t)dim * sizeof(float), n = 16;

    if (need > LINE_BYTES)
        return (need + BIG_STEP_BYTES - 1) / BIG_STEP_BYTES * BIG_STEP_BYTES;
    while (n < need)
        n *= 2;
    return n;
}

/* --- slots ---------------------------------------------------------------- */

/* Where a key of that hash is, or behind it. */
static inline size_t home_of(uint64_t hash, size_t n_slots)
{
    return (size_t)((hash >> 32) * n_slots >> 32);
}

static inline uint8_t tag_of(uint64_t hash)
{
    return (uint8_t)(HAS_ROW | hash);
}

static float *row_at(const fl_overlay *o, size_t at)
{
    return (float *)(void *)(o->slots + at * o->slot_bytes + sizeof(uint64_t));
}

static inline uint64_t key_of(const float *row)
{
    uint64_t key;

    memcpy(&key, (const char *)row - sizeof(key), sizeof(key));
    return key;
}

/* The key's slot, or the free one where it would be. */
static size_t find_slot(const fl_overlay *o, uint64_t key)
{
    uint64_t hash = fl_hash_key(key);
    size_t at = home_of(hash, o->n_slots);

    while (o->tags[at]) {
        bool fits = o->tags[at] == tag_of(hash) || o->tags[at] == GONE;

        if (fits && key_of(row_at(o, at)) == key)
            break;
        at = at + 1 < o->n_slots ? at + 1 : 0;
    }
    return at;
}

/* --- making --------------------------------------------------------------- */

static bool take_memory(fl_overlay *o, size_t n_keys)
{
    size_t bytes;

    o->n_slots = slots_for(n_keys);
    o->room = n_keys;
    if (n_keys > SLOTS_MAX / 2 || o->n_slots > SLOTS_MAX ||
        fl_mul_overflow(o->n_slots, o->slot_bytes, &bytes))
        return false;
    o->tags = fl_try_alloc(o->n_slots + WORD);
    o->slots = fl_try_alloc(bytes);
    if (!o->tags || !o->slots)
        return false;
    memset(o->tags, 0, o->n_slots + WORD);
    return true;
}

static void copy_from(fl_overlay *o, const fl_overlay *before)
{
    for (size_t i = 0; i < before->n_slots; i++) {
        const float *row = row_at(before, i);

        if (before->tags[i] == GONE)
            fl_overlay_drop(o, key_of(row));
        else if (before->tags[i])
            memcpy(fl_overlay_put(o, key_of(row)), row, o->dim * sizeof(float));
    }
}

fl_status fl_overlay_new(fl_overlay **out, const fl_overlay *before,
                         uint32_t dim, size_t n_more)
{
    fl_overlay *o = fl_alloc(sizeof(*o));
    size_t n = fl_overlay_len(before) + n_more;

    atomic_init(&o->refs, 1);
    o->dim = dim;
    o->slot_bytes = slot_bytes_for(dim);
    if (!take_memory(o, n)) {
        fl_overlay_unref(o);
        FL_FAIL(FL_ERR_NOMEM, "no memory for %zu newer rows", n);
    }
    if (before)
        copy_from(o, before);
    *out = o;
    return FL_OK;
}

fl_overlay *fl_overlay_ref(fl_overlay *o)
{
    if (o)
        atomic_fetch_add(&o->refs, 1);
    return o;
}

void fl_overlay_unref(fl_overlay *o)
{
    if (!o || atomic_fetch_sub(&o->refs, 1) > 1)
        return;
    fl_data_free(o->tags, o->n_slots + WORD);
    fl_data_free(o->slots, o->n_slots * o->slot_bytes);
    fl_free(o);
}

/* A slot for the key, counted when it is new. */
static size_t claim(fl_overlay *o, uint64_t key, uint8_t tag)
{
    size_t at = find_slot(o, key);

    if (!o->tags[at]) {
        FL_ASSERT(o->n_keys < o->room);
        memcpy(o->slots + at * o->slot_bytes, &key, sizeof(key));
        o->n_keys++;
    }
    o->tags[at] = tag;
    return at;
}

float *fl_overlay_put(fl_overlay *o, uint64_t key)
{
    return row_at(o, claim(o, key, tag_of(fl_hash_key(key))));
}

void fl_overlay_drop(fl_overlay *o, uint64_t key)
{
    claim(o, key, GONE);
}

/* --- reading -------------------------------------------------------------- */

void fl_overlay_ask(const fl_overlay *o, const uint64_t *keys, size_t n)
{
    const uint8_t *tags = o->tags;
    const size_t n_slots = o->n_slots;

    for (size_t i = 0; i < n; i++)
        __builtin_prefetch(&tags[home_of(fl_hash_key(keys[i]), n_slots)]);
}

/* Bit 7 of each byte of the word that is the tag. */
static inline uint64_t match_tags(uint64_t word, uint8_t tag)
{
    const uint64_t ones = UINT64_MAX / UINT8_MAX, low = 0x7f * ones;
    uint64_t differ = word ^ tag * ones;

    return ~(((differ & low) + low) | differ | low);
}

/* The first row with the hash's tag near its home, which is nearly always the
   right one; it is asked for. NULL: there is none. */
static inline const float *guess(const fl_overlay *o, uint64_t hash)
{
    size_t at = home_of(hash, o->n_slots);
    uint64_t word, hits;
    const float *row;

    memcpy(&word, o->tags + at, sizeof(word));
    hits = match_tags(word, tag_of(hash));
    if (!hits)
        return NULL;
    row = row_at(o, at + (size_t)__builtin_ctzll(hits) / 8);
    __builtin_prefetch(row);
    if (o->slot_bytes > LINE_BYTES) /* the rest the processor fetches itself */
        __builtin_prefetch((const char *)row + LINE_BYTES);
    return row;
}

static const float *look_up(const fl_overlay *o, uint64_t key)
{
    size_t at = find_slot(o, key);

    if (!o->tags[at])
        return NULL;
    return o->tags[at] == GONE ? &fl_overlay_gone : row_at(o, at);
}

/* All of them are on their way before the first is looked at. */
size_t fl_overlay_find(const fl_overlay *o, const uint64_t *keys, size_t n,
                       const float **values)
{
    size_t n_none = 0;

    for (size_t i = 0; i < n; i++)
        values[i] = guess(o, fl_hash_key(keys[i]));
    for (size_t i = 0; i < n; i++) {
        if (values[i] && key_of(values[i]) == keys[i])
            continue;
        values[i] = look_up(o, keys[i]);
        n_none += !values[i] || values[i] == &fl_overlay_gone;
    }
    return n_none;
}

void fl_overlay_each(const fl_overlay *o, void (*fn)(void *arg, uint64_t key),
                     void *arg)
{
    for (size_t i = 0; i < o->n_slots; i++)
        if (o->tags[i] & HAS_ROW)
            fn(arg, key_of(row_at(o, i)));
}

size_t fl_overlay_len(const fl_overlay *o)
{
    return o ? o->n_keys : 0;
}
