/* index.h - from key to row: open addressing in the order of the hash.
 *
 * A bucket is one cache line of five slots, {u64 key, u32 ref} each, ref 0
 * meaning free; a bucket's keys stand together at its start. A key's home is
 * its hash scaled to the number of buckets, so buckets lie in the order of the
 * hash: a range of hashes is a range of buckets, and capacities need not be
 * powers of two. A key whose home is full goes to the next bucket that is not.
 * Keys that come in that order fill one end first: the array is doubled until
 * they stand apart, so that adding them costs no more than others.
 * Probing never wraps: some buckets stand behind the last home.
 *
 * Growing (and shrinking) moves buckets a few at a time, as keys are added and,
 * more slowly, as they are looked up:
 *
 *     old   [ moved, given back | not moved yet ...................... ]
 *     new   [ filled ........................ | still zeros .......... ]
 *
 * `moved` only ever stands behind a bucket that is not full, so no run of full
 * buckets crosses it: a key whose old home is below it is in the new array, any
 * other in the old one. Both arrays are filled and read in order, and pages of
 * the old one are given back as they are done with.
 *
 * Owner: the partition, under its lock.
 */
#ifndef FL_TABLE_INDEX_H
#define FL_TABLE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/status.h"

/* A call moves at most this many index slots for each key it adds, or as many as
   it has keys if that is more, plus one run of full slots. */
#define FL_TABLE_MOVES_PER_KEY 10
#define FL_TABLE_RUN_MAX 1024

#define FL_BUCKET_SLOTS 5

typedef struct fl_bucket {
    uint64_t key[FL_BUCKET_SLOTS];
    uint32_t ref[FL_BUCKET_SLOTS + 1]; /* the last is 0: of no slot */
} fl_bucket;
_Static_assert(sizeof(fl_bucket) == 64, "a bucket is one cache line");

typedef struct fl_index_array {
    fl_bucket *buckets;
    uint64_t cap; /* home buckets; more are allocated behind them */
} fl_index_array;

typedef struct fl_index {
    fl_index_array now, old; /* old.buckets NULL: not moving */
    uint64_t len, moved;     /* keys; buckets of old that have moved */
    size_t forgotten;        /* bytes of old given back */
    int64_t credit;          /* slots that may be moved now; runs overdraw it */
    uint64_t slots_moved;    /* in all */
    uint64_t passed;         /* full buckets, by keys that were added, in all */
    uint64_t least_cap;      /* with less, keys stood too close together */
    int bits;                /* of the hash that chose the partition */
} fl_index;

void fl_index_release(fl_index *x);

/* The hash of a key: its top bits choose shard and partition. What is left of
   it is the key's place in the partition. */
static inline uint64_t fl_index_hash(uint64_t key)
{
    return fl_hash_key(key);
}

static inline uint64_t fl_index_place(const fl_index *x, uint64_t hash)
{
    return hash << x->bits;
}

/* place / 2^64 of the capacity: monotone in the place. */
static inline uint64_t fl_index_home(uint64_t cap, uint64_t place)
{
    return (uint64_t)((unsigned __int128)place * cap >> 64);
}

/* The bucket where the search for a place begins; the index is not empty. While
   slots move, which array it is in is a coin's toss, so it is chosen without a
   jump: by a mask, for a compiler is free to make a jump of `?:`. */
static inline fl_bucket *fl_index_begin(const fl_index *x, uint64_t place)
{
    fl_bucket *now = x->now.buckets + fl_index_home(x->now.cap, place);
    uint64_t home;
    uintptr_t is_old;

    if (!x->old.buckets)
        return now;
    home = fl_index_home(x->old.cap, place);
    is_old = -(uintptr_t)(home >= x->moved);
    return (fl_bucket *)(((uintptr_t)(x->old.buckets + home) & is_old) |
                         ((uintptr_t)now & ~is_old));
}

/* The same; NULL in an empty index. */
static inline fl_bucket *fl_index_start(const fl_index *x, uint64_t place)
{
    return x->now.buckets ? fl_index_begin(x, place) : NULL;
}

/* The slot that shows the key; FL_BUCKET_SLOTS, whose ref is 0: none does. A
   free slot may still show a key that stood there, but behind the ones that
   are in use. All slots are compared, without a jump, for where the key stands
   cannot be predicted; without the empty instruction a compiler makes one for
   slot 0 where the slot becomes an address. */
static inline unsigned fl_bucket_slot(const fl_bucket *b, uint64_t key)
{
    unsigned slot = FL_BUCKET_SLOTS;

#pragma GCC unroll 5
    for (unsigned i = FL_BUCKET_SLOTS; i-- > 0;)
        slot = b->key[i] == key ? i : slot;
    __asm__("" : "+r"(slot));
    return slot;
}

/* The key's ref from its start on, or NULL. The last bucket of an array is
   never full, so every search ends. */
static inline uint32_t *fl_index_search(fl_bucket *b, uint64_t key)
{
    for (; b; b++) {
        uint32_t *ref = &b->ref[fl_bucket_slot(b, key)];

        if (*ref)
            return ref;
        if (!b->ref[FL_BUCKET_SLOTS - 1])
            return NULL;
    }
    return NULL;
}

static inline uint32_t *fl_index_find(const fl_index *x, uint64_t key,
                                      uint64_t place)
{
    return fl_index_search(fl_index_start(x, place), key);
}

/* Adds a key that is not there, with a ref above 0, and moves a few slots if
   the index is growing. Fails with FL_ERR_NOMEM, the index unchanged. */
FL_MUST_CHECK
fl_status fl_index_add(fl_index *x, uint64_t key, uint64_t place, uint32_t ref);

/* Moves n slots and one run, if there are so many to be moved. */
void fl_index_go_on(fl_index *x, uint64_t n);

/* Makes it large enough for n keys in all, evenly spread, at once. Fails with
   FL_ERR_NOMEM, the index unchanged. */
FL_MUST_CHECK
fl_status fl_index_reserve(fl_index *x, uint64_t n);

/* Frees the slot of a ref that was found; others may move into it. */
void fl_index_remove(fl_index *x, uint32_t *ref);

/* Moves to a capacity that fits what is left, now; without memory it stays. */
void fl_index_fit(fl_index *x);

/* Buckets that may hold places in [lo, hi], as up to two runs [from, to). */
typedef struct fl_index_range {
    fl_bucket *from[2], *to[2];
    int n;
} fl_index_range;
void fl_index_range_of(const fl_index *x, uint64_t lo, uint64_t hi,
                       fl_index_range *out);

size_t fl_index_bytes(const fl_index *x);

#endif
