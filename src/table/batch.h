/* batch.h - a batch of keys, split by partition and worked off under their
 * locks.
 *
 * A batch is taken in blocks. Keys of a block are split by partition
 * first (a counting sort of their numbers). Then they are worked off in groups, each
 * of one partition, in three sweeps over the group, so that the misses of a group
 * overlap; a few groups are under way at a time:
 *
 *     1  hash is known: ask for the bucket
 *     2  find the slot (or make the row): ask for the row
 *     3  use the row
 *
 * A large machine has many partitions, of which each gets a few keys of a batch:
 * too few to hide behind each other what memory takes. So neighbours are locked
 * together as long as nobody is in them, until a stretch of them has keys enough.
 *
 * Sweeps pass refs, not addresses: making a row may move slab 0 of a pool.
 * Lock order: partitions' locks, of which only the first is waited for, then the
 * table's.
 */
#ifndef FL_TABLE_BATCH_H
#define FL_TABLE_BATCH_H

#include "table/partition.h"

#define FL_BATCH_BLOCK 4096
#define FL_BATCH_GROUP 16
/* Keys that are enough, and partitions at most (ThreadSanitizer bears 63 locks). */
#define FL_BATCH_STRETCH 128
#define FL_BATCH_STRETCH_PARTS 32
#define FL_PARTITIONS_MAX 1024

/* Keys of one block, split by partition: order[first[p] .. first[p+1]) are the
   numbers of the keys of partition p. */
typedef struct fl_split {
    const uint64_t *keys;
    size_t at;       /* number of the block's first key in the batch */
    bool is_ordered; /* by the hash, as keys are that a table has listed */
    uint64_t hash[FL_BATCH_BLOCK];
    uint16_t order[FL_BATCH_BLOCK];
    uint16_t first[FL_PARTITIONS_MAX + 1];
} fl_split;

/* At most FL_BATCH_GROUP keys of one partition. */
typedef struct fl_group {
    fl_table *t;
    fl_partition *p;
    const fl_split *d;
    const uint16_t *order;
    int n;
    /* Where the search for each key begins, as long as the index has not
       moved since. */
    fl_bucket *start[FL_BATCH_GROUP];
    const fl_bucket *seen_now;
    uint64_t seen_moved;
    uint32_t ref[FL_BATCH_GROUP]; /* 0: no row */
} fl_group;

/* Sweeps 2 and 3; find may be NULL. */
typedef fl_status (*fl_group_fn)(fl_group *g, void *arg);
typedef struct fl_sweeps {
    fl_group_fn find, use;
} fl_sweeps;

/* The keys order[lo, hi) of a split: of partitions [from, to), which are locked
   if they have any. */
typedef struct fl_stretch {
    fl_table *t;
    fl_split *d;
    int from, to;
    int lo, hi;
} fl_stretch;

static inline bool fl_stretch_is_one(const fl_stretch *s)
{
    return s->to == s->from + 1;
}

static inline bool fl_split_has(const fl_split *d, int part)
{
    return d->first[part] != d->first[part + 1];
}

/* Works on them. */
FL_MUST_CHECK
fl_status fl_sweep(const fl_stretch *s, const fl_sweeps *w, void *arg);

typedef fl_status (*fl_stretch_fn)(const fl_stretch *s, void *arg);

/* Deals all keys and calls fn for each stretch, locked. */
FL_MUST_CHECK
fl_status fl_batch_split(fl_table *t, const uint64_t *keys, size_t n,
                         fl_stretch_fn fn, void *arg);

/* The same with sweeps over each stretch. */
FL_MUST_CHECK
fl_status fl_batch_sweep(fl_table *t, const uint64_t *keys, size_t n,
                         const fl_sweeps *w, void *arg);

/* The short row of key k becomes a full one; its slot learns the new ref.
   Without memory the row stays short and grows at a later push. */
void fl_group_grow(fl_group *g, int k);

/* The row of key k, made as needed whatever the entry policy; none by
   max_rows. */
FL_MUST_CHECK
fl_status fl_group_find_or_make(fl_group *g, int k);

/* Its row is about to change in the present epoch. */
void fl_group_touch(fl_group *g, int k);

/* Makes room to list all rows of a group (known.h). */
FL_MUST_CHECK
fl_status fl_known_reserve(fl_group *g);

/* Keys are below the table's height. */
FL_MUST_CHECK
fl_status fl_batch_check(const fl_table *t, const uint64_t *keys, size_t n);

/* Whether a cut or a log is to hear of what changes there. */
bool fl_stretch_is_watched(const fl_stretch *s);

static inline uint64_t fl_group_key(const fl_group *g, int k)
{
    return g->d->keys[g->order[k]];
}

/* The number of key k in the whole batch. */
static inline size_t fl_group_number(const fl_group *g, int k)
{
    return g->d->at + g->order[k];
}

static inline uint64_t fl_group_hash(const fl_group *g, int k)
{
    return g->d->hash[g->order[k]];
}

/* Lists the row of key k, which is pushed to, unless it is marked, and marks it.
   Whether it is marked is not to be foreseen, so there is no jump. */
static inline void fl_known_list(fl_group *g, int k, void *row)
{
    fl_hash_list *l = &g->p->pushed;

    l->data[l->n] = fl_group_hash(g, k);
    l->n += !fl_row_is_marked(row);
    fl_row_set_mark(row, true);
}

static inline uint32_t *fl_group_slot(const fl_group *g, int k)
{
    const fl_index *x = &g->p->index;

    if (g->seen_now == x->now.buckets && g->seen_moved == x->moved)
        return fl_index_search(g->start[k], fl_group_key(g, k));
    return fl_index_find(x, fl_group_key(g, k),
                         fl_index_place(x, fl_group_hash(g, k)));
}

/* Asks for the lines of bytes [lo, hi) of a row. How many these are may depend
   on where the row lies, which cannot be predicted, so the line of the last byte
   is always asked for, be it another one or not. It is inlined always: a call
   of a function that only prefetches has no effect in a compiler's eyes and is
   dropped. */
static inline __attribute__((always_inline)) void
fl_prefetch_row(const char *row, uint32_t lo, uint32_t hi)
{
    for (uint32_t at = lo; at < hi; at += 64)
        __builtin_prefetch(row + at, 1);
    __builtin_prefetch(row + hi - 1, 1);
}

#endif
