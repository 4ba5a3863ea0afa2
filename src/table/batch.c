/* batch.c - a batch of keys, split by partition. batch.h has the picture. */
#include "table/batch.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "kernel/keys.h"

/* Counters that were written a moment ago are slow to read: keys are counted and
   put in order in two halves at a time, each with counters of its own. */
static void deal_keys(const fl_table *t, size_t n, fl_split *d)
{
    size_t half = n / 2;
    int shift = 63 - t->bits; /* of half the hash: bits may be 0 */
    uint16_t lo[FL_PARTITIONS_MAX], hi[FL_PARTITIONS_MAX];
    uint16_t sum = 0;

    memset(lo, 0, sizeof(*lo) * (size_t)t->n_parts);
    memset(hi, 0, sizeof(*hi) * (size_t)t->n_parts);
    for (size_t i = 0; i < half; i++) {
        lo[d->hash[i] >> 1 >> shift]++;
        hi[d->hash[half + i] >> 1 >> shift]++;
    }
    if (n % 2)
        hi[d->hash[n - 1] >> 1 >> shift]++;
    for (int p = 0; p < t->n_parts; p++) {
        uint16_t n_lo = lo[p], n_hi = hi[p];

        d->first[p] = lo[p] = sum;
        hi[p] = (uint16_t)(sum + n_lo);
        sum = (uint16_t)(sum + n_lo + n_hi);
    }
    d->first[t->n_parts] = sum;
    for (size_t i = 0; i < half; i++) {
        d->order[lo[d->hash[i] >> 1 >> shift]++] = (uint16_t)i;
        d->order[hi[d->hash[half + i] >> 1 >> shift]++] = (uint16_t)(half + i);
    }
    if (n % 2)
        d->order[hi[d->hash[n - 1] >> 1 >> shift]++] = (uint16_t)(n - 1);
}

/* How many of n ascending hashes are in partitions below p. */
static uint16_t count_below(const fl_table *t, int p, const uint64_t *hash,
                            size_t n)
{
    int shift = 63 - t->bits; /* of half the hash: bits may be 0 */
    size_t lo = 0, hi = n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if ((int)(hash[mid] >> 1 >> shift) < p)
            lo = mid + 1;
        else
            hi = mid;
    }
    return (uint16_t)lo;
}

/* Keys that another table has listed come in the order of their hashes: dealt as
   they stand, they stay so. */
static void split_keys(const fl_table *t, const uint64_t *keys, size_t n,
                       fl_split *d)
{
    d->keys = keys;
    d->is_ordered = fl_key_loops()->hashes(d->hash, keys, n);
    if (!d->is_ordered) {
        deal_keys(t, n, d);
        return;
    }
    for (size_t i = 0; i < n; i++)
        d->order[i] = (uint16_t)i;
    for (int p = 0; p <= t->n_parts; p++)
        d->first[p] = count_below(t, p, d->hash, n);
}

/* Sweep 1: asks for the buckets of a group of keys, from `lo` on. */
static void ask(fl_group *g, const fl_swept *s, int lo)
{
    fl_partition *p = &s->t->parts[s->part];
    const fl_index *x = &p->index;

    g->t = s->t;
    g->p = p;
    g->d = s->d;
    g->order = s->d->order + lo;
    g->n = s->hi - lo < FL_BATCH_GROUP ? s->hi - lo : FL_BATCH_GROUP;
    g->seen_now = x->now.buckets;
    g->seen_moved = x->moved;
    for (int k = 0; k < g->n; k++) {
        g->start[k] = fl_index_start(x, fl_index_place(x, fl_group_hash(g, k)));
        __builtin_prefetch(g->start[k]);
    }
}

/* Three groups are under way at a time, each one sweep behind the next, so
   that what a sweep asked for has the time of another to arrive. */
fl_status fl_sweep(const fl_swept *s, const fl_sweeps *w, void *arg)
{
    int n = (s->hi - s->lo + FL_BATCH_GROUP - 1) / FL_BATCH_GROUP;
    fl_group g[3];

    for (int i = 0; i < n + 2; i++) {
        if (i < n)
            ask(&g[i % 3], s, s->lo + i * FL_BATCH_GROUP);
        if (w->find && i >= 1 && i <= n)
            FL_TRY(w->find(&g[(i - 1) % 3], arg));
        if (i >= 2)
            FL_TRY(w->use(&g[(i - 2) % 3], arg));
    }
    return FL_OK;
}

typedef struct sharing {
    fl_table *t;
    fl_split *d;
    fl_share_fn fn;
    void *arg;
    uint64_t moved; /* slots of indexes */
} sharing;

/* To look into two arrays takes longer than to look into one, so keys that are
   looked up move a slot each, unless new ones have moved more: a table that grows
   no more is soon done with it. */
static void go_on_moving(fl_index *x, uint64_t n_keys, uint64_t moved)
{
    if (moved < n_keys)
        fl_index_go_on(x, n_keys - moved);
}

/* Its partition is locked, and is not afterwards. */
static fl_status work_share(sharing *s, int part)
{
    fl_partition *p = &s->t->parts[part];
    const uint16_t *first = s->d->first;
    uint64_t before = p->index.slots_moved;
    fl_status st = s->fn(s->t, part, s->d, s->arg);

    go_on_moving(&p->index, first[part + 1] - first[part],
                 p->index.slots_moved - before);
    s->moved += p->index.slots_moved - before;
    fl_unlock(&p->mu);
    return st;
}

static fl_status wait_for_share(sharing *s, int part)
{
    fl_partition *p = &s->t->parts[part];

    fl_lock_soon(&p->mu);
    p->waited++;
    return work_share(s, part);
}

/* Partitions that others are in come last. */
static fl_status work_shares(sharing *s)
{
    uint16_t busy[FL_PARTITIONS_MAX];
    const uint16_t *first = s->d->first;
    int n_busy = 0;

    for (int p = 0; p < s->t->n_parts; p++) {
        if (first[p] == first[p + 1])
            continue;
        if (fl_try_lock(&s->t->parts[p].mu))
            FL_TRY(work_share(s, p));
        else
            busy[n_busy++] = (uint16_t)p;
    }
    for (int i = 0; i < n_busy; i++)
        FL_TRY(wait_for_share(s, busy[i]));
    return FL_OK;
}

static void note_moved(fl_table *t, uint64_t moved)
{
    uint64_t most = atomic_load(&t->most_moved);

    while (moved > most &&
           !atomic_compare_exchange_weak(&t->most_moved, &most, moved))
        ;
}

/* A split is filled as far as it is read, and too large to be cleared each
   time; the static analyser does not see the former. */
fl_status fl_batch_split(fl_table *t, const uint64_t *keys, size_t n,
                         fl_share_fn fn, void *arg)
{
    fl_status st = FL_OK;
#ifdef __clang_analyzer__
    fl_split d = { 0 };
#else
    fl_split d;
#endif
    sharing s = { .t = t, .d = &d, .fn = fn, .arg = arg };

    for (d.at = 0; d.at < n && !st; d.at += FL_BATCH_BLOCK) {
        size_t left = n - d.at;

        split_keys(t, keys + d.at,
                   left < FL_BATCH_BLOCK ? left : FL_BATCH_BLOCK, &d);
        st = work_shares(&s);
    }
    note_moved(t, s.moved);
    return st;
}

typedef struct sweep_args {
    const fl_sweeps *w;
    void *arg;
} sweep_args;

static fl_status sweep_share(fl_table *t, int part, fl_split *d, void *arg)
{
    const sweep_args *a = arg;
    fl_swept all = fl_share_of(t, part, d);

    return fl_sweep(&all, a->w, a->arg);
}

fl_status fl_batch_sweep(fl_table *t, const uint64_t *keys, size_t n,
                         const fl_sweeps *w, void *arg)
{
    sweep_args a = { w, arg };

    return fl_batch_split(t, keys, n, sweep_share, &a);
}

fl_status fl_batch_check(const fl_table *t, const uint64_t *keys, size_t n)
{
    for (size_t i = 0; t->config.height && i < n; i++)
        if (keys[i] >= t->config.height)
            FL_FAIL(FL_ERR_INVAL,
                    "table %s: id %" PRIu64 " at place %zu is not below its "
                    "height %" PRIu64,
                    t->name, keys[i], i, t->config.height);
    return FL_OK;
}

void fl_group_grow(fl_group *g, int k)
{
    fl_partition *p = g->p;
    uint32_t from = g->ref[k], row, to;

    if (fl_pool_take(&p->pools[0], &row))
        return;
    to = fl_ref_of(row, false);
    memcpy(fl_partition_row(p, to), fl_partition_row(p, from),
           g->t->acc.layout.short_bytes);
    g->t->accessor->grow(&g->t->acc, fl_group_key(g, k),
                         fl_partition_row(p, to));
    *fl_group_slot(g, k) = to;
    --*fl_partition_count(p, fl_group_hash(g, k), FL_CUT_SHORT);
    ++*fl_partition_count(p, fl_group_hash(g, k), FL_CUT_FULL);
    fl_pool_give(&p->pools[1], fl_ref_row(from));
    g->ref[k] = to;
}
