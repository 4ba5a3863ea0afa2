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

/* A partition, of which nothing changes meanwhile, where a compiler sees that it
   does not; and where its keys end. */
typedef struct fl_there {
    fl_index index;
    fl_pool pool;
    int part, end;
} fl_there;

/* Goes to the partition of the key at that place. */
static inline void fl_there_enter(fl_there *w, const fl_stretch *s, int at)
{
    const uint16_t *first = s->d->first;
    const fl_partition *p;

    while (first[w->part + 1] <= at)
        w->part++;
    p = &s->t->parts[w->part];
    w->index = p->index;
    w->pool = p->pools[0];
    w->end = first[w->part + 1];
}

/* Where the search for a key begins. */
static inline __attribute__((always_inline)) fl_bucket *
fl_there_ask(fl_there *w, const fl_stretch *s, int at)
{
    fl_bucket *b;

    if (at == w->end)
        fl_there_enter(w, s, at);
    b = fl_index_start(&w->index,
                       fl_index_place(&w->index, s->d->hash[s->d->order[at]]));
    __builtin_prefetch(b);
    return b;
}

static inline __attribute__((always_inline)) char *
fl_there_find(fl_there *w, const fl_stretch *s, fl_bucket *from, int at)
{
    const uint32_t *ref;

    if (at == w->end)
        fl_there_enter(w, s, at);
    ref = fl_index_search(from, s->d->keys[s->d->order[at]]);
    return ref ? fl_pool_row(&w->pool, fl_ref_row(*ref)) : NULL;
}

/* Uses the rows of a stretch up to the first key that has none, and gives where
   that is. There are no short rows. */
static inline __attribute__((always_inline)) int
fl_there_use(const fl_stretch *s, fl_there_fn use, void *arg)
{
    const uint32_t bytes = s->t->acc.layout.bytes;
    const uint16_t *order = s->d->order;
    fl_bucket *from[FL_THERE_RING];
    char *rows[FL_THERE_RING], *row;
    int i = s->lo, used = s->lo, asked = s->lo;
    fl_there to_ask = { .part = s->from }, to_find;

    fl_there_enter(&to_ask, s, s->lo);
    to_find = to_ask;
    for (; asked < s->hi && asked < s->lo + FL_THERE_AHEAD; asked++)
        from[asked % FL_THERE_RING] = fl_there_ask(&to_ask, s, asked);
    for (; i < s->hi; i++) {
        row = fl_there_find(&to_find, s, from[i % FL_THERE_RING], i);
        if (!row)
            break;
        if (asked < s->hi) {
            from[asked % FL_THERE_RING] = fl_there_ask(&to_ask, s, asked);
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
