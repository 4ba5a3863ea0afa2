/* unite.c - runs of keys in order are merged two by two until there is one; then
 * equal keys stand together.
 */
#include "kernel/unite.h"

#include "base/hash.h"

/* A key by its hash, and its number in all batches. */
typedef struct tagged {
    uint64_t hash;
    uint32_t number;
} tagged;

size_t fl_unite_room(size_t n)
{
    return 2 * n * sizeof(tagged);
}

static bool tag(const fl_rows *b, uint32_t first, tagged *to)
{
    uint64_t last = 0;

    for (size_t i = 0; i < b->n; i++) {
        uint64_t hash = fl_hash_key(b->keys[i]);

        if (hash < last)
            return false;
        to[i] = (tagged){ hash, first + (uint32_t)i };
        last = hash;
    }
    return true;
}

static bool tag_all(const fl_rows *b, size_t n_batches, tagged *to)
{
    uint32_t first = 0;

    for (size_t i = 0; i < n_batches; first += (uint32_t)b[i++].n)
        if (!tag(&b[i], first, to + first))
            return false;
    return true;
}

/* Which of the two is next cannot be foreseen, so there is no jump. */
static void merge_two(const tagged *a, size_t n_a, const tagged *b, size_t n_b,
                      tagged *to)
{
    const tagged *a_end = a + n_a, *b_end = b + n_b;

    while (a < a_end && b < b_end) {
        uintptr_t is_b = -(uintptr_t)(b->hash < a->hash);

        *to++ =
            *(const tagged *)(((uintptr_t)b & is_b) | ((uintptr_t)a & ~is_b));
        a += 1 + is_b;
        b -= is_b;
    }
    memcpy(to, a, (size_t)(a_end - a) * sizeof(*to));
    memcpy(to + (a_end - a), b, (size_t)(b_end - b) * sizeof(*to));
}

static size_t count(const fl_rows *b, size_t lo, size_t hi, size_t n_batches)
{
    size_t n = 0;

    for (size_t i = lo; i < hi && i < n_batches; i++)
        n += b[i].n;
    return n;
}

/* Runs of `width` batches become runs of twice as many. */
static void merge_pairs(const fl_rows *b, size_t n_batches, size_t width,
                        const tagged *from, tagged *to)
{
    for (size_t i = 0; i < n_batches; i += 2 * width) {
        size_t n_a = count(b, i, i + width, n_batches);
        size_t n_b = count(b, i + width, i + 2 * width, n_batches);

        merge_two(from, n_a, from + n_a, n_b, to);
        from += n_a + n_b;
        to += n_a + n_b;
    }
}

/* All of them in order: in one half of the room or in the other. */
static const tagged *merge_all(const fl_rows *b, size_t n_batches, size_t n,
                               tagged *room)
{
    tagged *from = room, *to = room + n;

    for (size_t width = 1; width < n_batches; width *= 2) {
        tagged *merged = to;

        merge_pairs(b, n_batches, width, from, to);
        to = from;
        from = merged;
    }
    return from;
}

static size_t number(const tagged *all, size_t n, uint64_t *keys,
                     uint32_t *index)
{
    size_t n_keys = 0;

    for (size_t i = 0; i < n; i++) {
        n_keys += !i || all[i].hash != all[i - 1].hash;
        keys[n_keys - 1] = fl_hash_origin(all[i].hash);
        index[all[i].number] = (uint32_t)n_keys - 1;
    }
    return n_keys;
}

bool fl_unite_ordered(const fl_rows *batches, size_t n_batches, void *room,
                      uint64_t *keys, uint32_t *index, size_t *n_keys)
{
    size_t n = count(batches, 0, n_batches, n_batches);

    if (!tag_all(batches, n_batches, room))
        return false;
    *n_keys = number(merge_all(batches, n_batches, n, room), n, keys, index);
    return true;
}
