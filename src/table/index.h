/* index.h - from key to row: open addressing in the order of the hash.
 *
 * A slot is 12 bytes, {u64 key, u32 ref}, ref 0 meaning free. A key's home is
 * its hash scaled to the capacity, so slots lie in the order of the hash: a
 * range of hashes is a range of slots, and capacities need not be powers of
 * two. Linear probing never wraps: up to FL_TABLE_RUN_MAX slots stand behind
 * the last home.
 *
 * Growing (and shrinking) moves slots a few at a time:
 *
 *     old   [ moved, given back | not moved yet ...................... ]
 *     new   [ filled ........................ | still zeros .......... ]
 *
 * `moved` only ever stands behind a free slot of the old array, so no run of
 * full slots crosses it: a key whose old home is below it is in the new array,
 * any other in the old one. Both arrays are filled and read in order, and pages
 * of the old one are given back as they are done with.
 *
 * Owner: the partition, under its lock.
 */
#ifndef FL_TABLE_INDEX_H
#define FL_TABLE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"

typedef struct fl_index_array {
    unsigned char *slots;
    uint64_t cap; /* homes */
} fl_index_array;

typedef struct fl_index {
    fl_index_array now, old; /* old.slots NULL: not moving */
    uint64_t len, moved;
    size_t forgotten;     /* bytes of old given back */
    int64_t credit;       /* slots that may be moved now; a run overdraws it */
    uint64_t slots_moved; /* in all */
    int bits;             /* of the hash that chose the partition */
} fl_index;

void fl_index_release(fl_index *x);

/* The hash of a key: its top bits choose shard and partition. What is left of
   it is the key's place in the partition. */
static inline uint64_t fl_index_hash(uint64_t key)
{
    return fl_mix64(key + 0x9e3779b97f4a7c15u);
}

static inline uint64_t fl_index_place(const fl_index *x, uint64_t hash)
{
    return hash << x->bits;
}

/* The slot that holds the key, or NULL. */
unsigned char *fl_index_find(const fl_index *x, uint64_t key, uint64_t place);
void fl_index_prefetch(const fl_index *x, uint64_t place);

static inline uint32_t fl_index_ref(const unsigned char *slot)
{
    uint32_t ref;

    memcpy(&ref, slot + 8, sizeof(ref));
    return ref;
}

static inline void fl_index_set_ref(unsigned char *slot, uint32_t ref)
{
    memcpy(slot + 8, &ref, sizeof(ref));
}

static inline uint64_t fl_index_key(const unsigned char *slot)
{
    uint64_t key;

    memcpy(&key, slot, sizeof(key));
    return key;
}

/* Adds a key that is not there, with a ref above 0, and moves a few slots if
   the index is growing. Fails with FL_ERR_NOMEM, the index unchanged. */
FL_MUST_CHECK
fl_status fl_index_add(fl_index *x, uint64_t key, uint64_t place, uint32_t ref);

/* Frees the slot; the run behind it closes up. */
void fl_index_remove(fl_index *x, unsigned char *slot);

/* Moves to a capacity that fits what is left, now; without memory it stays. */
void fl_index_fit(fl_index *x);

/* Slots that may hold places in [lo, hi], as up to two runs [from, to) of
   slot pointers. */
typedef struct fl_index_range {
    unsigned char *from[2], *to[2];
    int n;
} fl_index_range;
void fl_index_range_of(const fl_index *x, uint64_t lo, uint64_t hi,
                       fl_index_range *out);

size_t fl_index_bytes(const fl_index *x);

#define FL_INDEX_SLOT_BYTES 12

#endif
