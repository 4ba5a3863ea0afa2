/* there.h - rows of keys that come in the order of the index.
 *
 * Buckets are then read from the first to the last, so keys flow one by one.
 * Where they are many their buckets are neighbours, which a processor foresees by
 * itself; those of a few, as a batch has them, are asked for as rows are. Nothing is
 * made on the way: addresses of rows are good, and the first key without a row
 * is where the sweeps of batch.h take over.
 */
#ifndef FL_TABLE_THERE_H
#define FL_TABLE_THERE_H

#include "table/batch.h"

/* Keys between the one whose row is asked for and the one whose row is used. A
   ring has room for one more, and a power of two. */
#define FL_THERE_AHEAD 48
#define FL_THERE_RING 64

/* Uses the row of the key with that number in its batch. */
typedef void (*fl_there_fn)(const fl_table *t, void *row, size_t number,
                            void *arg);

/* What does not change meanwhile, where a compiler sees that it does not. */
typedef struct fl_there {
    fl_index index;
    fl_pool pool;
    const fl_split *d;
} fl_there;

/* Where the search for a key begins. */
static inline __attribute__((always_inline)) fl_bucket *
fl_there_ask(const fl_there *w, uint32_t key)
{
    fl_bucket *b =
        fl_index_start(&w->index, fl_index_place(&w->index, w->d->hash[key]));

    __builtin_prefetch(b);
    return b;
}

static inline __attribute__((always_inline)) char *
fl_there_find(const fl_there *w, fl_bucket *from, uint32_t key)
{
    const uint32_t *ref = fl_index_search(from, w->d->keys[key]);

    return ref ? fl_pool_row(&w->pool, fl_ref_row(*ref)) : NULL;
}

/* Uses the rows of order[lo, hi) up to the first key that has none, and gives
   where that is. There are no short rows. Under the partition's lock. */
static inline __attribute__((always_inline)) int
fl_there_use(const fl_swept *s, fl_there_fn use, void *arg)
{
    const fl_partition *p = &s->t->parts[s->part];
    const fl_there w = { p->index, p->pools[0], s->d };
    const uint32_t bytes = s->t->acc.layout.bytes;
    const uint16_t *order = s->d->order;
    fl_bucket *from[FL_THERE_RING];
    char *rows[FL_THERE_RING], *row;
    int i = s->lo, used = s->lo, asked = s->lo;

    for (; asked < s->hi && asked < s->lo + FL_THERE_AHEAD; asked++)
        from[asked % FL_THERE_RING] = fl_there_ask(&w, order[asked]);
    for (; i < s->hi; i++) {
        row = fl_there_find(&w, from[i % FL_THERE_RING], order[i]);
        if (!row)
            break;
        if (asked < s->hi) {
            from[asked % FL_THERE_RING] = fl_there_ask(&w, order[asked]);
            asked++;
        }
        fl_prefetch_row(row, 0, bytes);
        rows[i % FL_THERE_RING] = row;
        if (i - used < FL_THERE_AHEAD)
            continue;
        use(s->t, rows[used % FL_THERE_RING], s->d->at + order[used], arg);
        used++;
    }
    for (; used < i; used++)
        use(s->t, rows[used % FL_THERE_RING], s->d->at + order[used], arg);
    return i;
}

#endif
