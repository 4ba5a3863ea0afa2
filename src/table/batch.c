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

/* --- sweeps ---------------------------------------------------------------- */

/* Groups that are under way where each has one key, and where all are full: a
   small ring stays in the cache. Powers of two. */
#define RING 64
#define RING_OF_FULL 4

/* Groups from the first to the last: `used` of them are done with, `found` have
   their rows asked for, `asked` their buckets. */
typedef struct pipeline {
    fl_group *groups;
    unsigned ring; /* groups that there is room for */
    int next;      /* key to be asked for */
    unsigned used, found, asked;
} pipeline;

static inline fl_group *group_at(const pipeline *l, unsigned i)
{
    return &l->groups[i & (l->ring - 1)];
}

static fl_partition *part_at(const fl_stretch *s, int at)
{
    return fl_table_part(s->t, s->d->hash[s->d->order[at]]);
}

/* How many keys from `lo` on are of one partition, and no more than a group's. */
static int count_group(const fl_stretch *s, int lo)
{
    const fl_partition *p = part_at(s, lo);
    int n = s->hi - lo < FL_BATCH_GROUP ? s->hi - lo : FL_BATCH_GROUP;
    int k = fl_stretch_is_one(s) ? n : 1;

    while (k < n && part_at(s, lo + k) == p)
        k++;
    return k;
}

/* Sweep 1: asks for the buckets of the group that begins with key `lo`. */
static void ask(fl_group *g, const fl_stretch *s, int lo)
{
    const fl_index *x;

    g->t = s->t;
    g->p = part_at(s, lo);
    g->d = s->d;
    g->order = s->d->order + lo;
    g->n = count_group(s, lo);
    x = &g->p->index;
    g->seen_now = x->now.buckets;
    g->seen_moved = x->moved;
    for (int k = 0; k < g->n; k++) {
        g->start[k] = fl_index_start(x, fl_index_place(x, fl_group_hash(g, k)));
        __builtin_prefetch(g->start[k]);
    }
}

static inline void ask_next(pipeline *l, const fl_stretch *s)
{
    fl_group *g = group_at(l, l->asked++);

    ask(g, s, l->next);
    l->next += g->n;
}

/* Whether enough keys came behind group i, up to group `end`, for what it asked for
   to have arrived. */
static inline bool has_arrived(const pipeline *l, unsigned i, unsigned end)
{
    return group_at(l, end - 1)->order - group_at(l, i)->order >=
           FL_BATCH_GROUP;
}

/* Finds the rows of a group, and uses those of the groups whose rows are there. */
static inline fl_status find_next(pipeline *l, const fl_sweeps *w, void *arg)
{
    fl_group *g = group_at(l, l->found++);

    if (w->find)
        FL_TRY(w->find(g, arg));
    while (has_arrived(l, l->used, l->found))
        FL_TRY(w->use(group_at(l, l->used++), arg));
    return FL_OK;
}

/* Every group is one sweep behind as many keys as a full group has, so that what
   a sweep asked for has the time of another to arrive. */
fl_status fl_sweep(const fl_stretch *s, const fl_sweeps *w, void *arg)
{
    fl_group groups[RING];
    pipeline l = { .groups = groups,
                   .ring = fl_stretch_is_one(s) ? RING_OF_FULL : RING,
                   .next = s->lo };

    while (l.next < s->hi) {
        ask_next(&l, s);
        while (has_arrived(&l, l.found, l.asked))
            FL_TRY(find_next(&l, w, arg));
    }
    while (l.found < l.asked)
        FL_TRY(find_next(&l, w, arg));
    while (l.used < l.found)
        FL_TRY(w->use(group_at(&l, l.used++), arg));
    return FL_OK;
}

/* --- stretches -------------------------------------------------------------- */

bool fl_stretch_is_watched(const fl_stretch *s)
{
    for (int p = s->from; p < s->to; p++)
        if (fl_split_has(s->d, p) && s->t->parts[p].watched)
            return true;
    return false;
}

typedef struct sharing {
    fl_table *t;
    fl_split *d;
    fl_stretch_fn fn;
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

static void note(fl_partition *p)
{
    p->moved_before = p->index.slots_moved;
}

static bool try_enter(const sharing *s, int part)
{
    fl_partition *p = &s->t->parts[part];

    if (!fl_try_lock(&p->mu))
        return false;
    note(p);
    return true;
}

static void leave(sharing *s, int part)
{
    fl_partition *p = &s->t->parts[part];
    fl_index *x = &p->index;

    go_on_moving(x, s->d->first[part + 1] - s->d->first[part],
                 x->slots_moved - p->moved_before);
    s->moved += x->slots_moved - p->moved_before;
    fl_unlock(&p->mu);
}

/* Those of the partitions that have keys were entered, and are left. */
static fl_status work_stretch(sharing *s, int from, int to)
{
    const fl_stretch all = { s->t,           s->d, from, to, s->d->first[from],
                             s->d->first[to] };
    fl_status st = s->fn(&all, s->arg);

    for (int p = from; p < to; p++)
        if (fl_split_has(s->d, p))
            leave(s, p);
    return st;
}

static fl_status wait_for_part(sharing *s, int part)
{
    fl_partition *p = &s->t->parts[part];

    fl_lock_soon(&p->mu);
    note(p);
    p->waited++;
    return work_stretch(s, part, part + 1);
}

/* Enters neighbours behind `from`, and gives where the stretch ends. */
static int enter_neighbours(const sharing *s, int from)
{
    const uint16_t *first = s->d->first;
    int left = s->t->n_parts - from;
    int most =
        from + (left < FL_BATCH_STRETCH_PARTS ? left : FL_BATCH_STRETCH_PARTS);
    int to = from + 1;

    while (to < most && first[to] - first[from] < FL_BATCH_STRETCH &&
           (!fl_split_has(s->d, to) || try_enter(s, to)))
        to++;
    return to;
}

/* Partitions that others are in come last. */
static fl_status work_all(sharing *s)
{
    uint16_t busy[FL_PARTITIONS_MAX];
    int n_busy = 0, next;

    for (int p = 0; p < s->t->n_parts; p = next) {
        next = p + 1;
        if (!fl_split_has(s->d, p))
            continue;
        if (!try_enter(s, p)) {
            busy[n_busy++] = (uint16_t)p;
            continue;
        }
        next = enter_neighbours(s, p);
        FL_TRY(work_stretch(s, p, next));
    }
    for (int i = 0; i < n_busy; i++)
        FL_TRY(wait_for_part(s, busy[i]));
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
                         fl_stretch_fn fn, void *arg)
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
        st = work_all(&s);
    }
    note_moved(t, s.moved);
    return st;
}

typedef struct sweep_args {
    const fl_sweeps *w;
    void *arg;
} sweep_args;

static fl_status sweep_stretch(const fl_stretch *s, void *arg)
{
    const sweep_args *a = arg;

    return fl_sweep(s, a->w, a->arg);
}

fl_status fl_batch_sweep(fl_table *t, const uint64_t *keys, size_t n,
                         const fl_sweeps *w, void *arg)
{
    sweep_args a = { w, arg };

    return fl_batch_split(t, keys, n, sweep_stretch, &a);
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
