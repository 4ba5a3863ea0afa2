/* map.c - open addressing with linear probing.
 *
 * cap is a power of two or 0. A removed entry stays as a stone (key `stone`,
 * value NULL) so that probes pass over it; `used` counts live entries and
 * stones, `len` live ones. At least a quarter of the entries is free, hence
 * every probe ends. Rehashing drops the stones.
 */
#include "base/map.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/status.h"

#define FIRST_CAP 16

/* The removed key itself may be gone: it was borrowed. */
static const char stone[] = "";

static bool is_live(const fl_map_entry *e)
{
    return e->key && e->value;
}

/* The live entry of `key`, or NULL. */
static fl_map_entry *find_entry(const fl_map *m, const char *key, uint64_t hash)
{
    size_t mask = m->cap - 1;

    if (!m->cap)
        return NULL;
    for (size_t i = hash & mask; m->entries[i].key; i = (i + 1) & mask) {
        fl_map_entry *e = &m->entries[i];

        if (is_live(e) && e->hash == hash && strcmp(e->key, key) == 0)
            return e;
    }
    return NULL;
}

/* Adds an entry that is known to be absent, on a free place. */
static void add_entry(fl_map *m, fl_map_entry e)
{
    size_t mask = m->cap - 1;
    size_t i = e.hash & mask;

    while (m->entries[i].key)
        i = (i + 1) & mask;
    m->entries[i] = e;
    m->len++;
    m->used++;
}

/* Moves the live entries to a table that they fill to a half at most. */
static void rehash(fl_map *m)
{
    fl_map old = *m;
    size_t cap = FIRST_CAP;

    while (cap < 2 * (old.len + 1))
        cap *= 2;
    *m = (fl_map){ .entries = fl_alloc(cap * sizeof(*m->entries)), .cap = cap };
    for (size_t i = 0; i < old.cap; i++) {
        if (is_live(&old.entries[i]))
            add_entry(m, old.entries[i]);
    }
    fl_free(old.entries);
}

void fl_map_release(fl_map *m)
{
    fl_free(m->entries);
    *m = (fl_map){ 0 };
}

void fl_map_put(fl_map *m, const char *key, void *value)
{
    uint64_t hash = fl_hash_str(key);
    fl_map_entry *e;

    FL_ASSERT(value != NULL);
    e = find_entry(m, key, hash);
    if (e) {
        /* The new key replaces the old one, which may die with its value. */
        e->key = key;
        e->value = value;
        return;
    }
    if (m->used + 1 > m->cap / 4 * 3)
        rehash(m);
    add_entry(m, (fl_map_entry){ .key = key, .value = value, .hash = hash });
}

void *fl_map_find(const fl_map *m, const char *key)
{
    fl_map_entry *e = find_entry(m, key, fl_hash_str(key));

    return e ? e->value : NULL;
}

void fl_map_remove(fl_map *m, const char *key)
{
    fl_map_entry *e = find_entry(m, key, fl_hash_str(key));

    if (!e)
        return;
    *e = (fl_map_entry){ .key = stone };
    m->len--;
}
