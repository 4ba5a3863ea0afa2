/* shrink.c - looking through a table, forgetting rows, giving memory back. */
#include "table/cut_inside.h"

/* Rows are moved together when more than half of a pool's are free. */
#define WORTH_COMPACTING 1024

/* --- scan ---------------------------------------------------------------- */

typedef struct scan {
    fl_partition *p;
    uint32_t shard, since;
    fl_row_fn fn;
    void *arg;
} scan;

static bool scan_slot(const scan *s, uint64_t key, uint32_t ref)
{
    fl_row_view view = { .key = key };

    if (!ref || fl_table_shard_of(key) != s->shard)
        return true;
    view.row = fl_partition_row(s->p, ref);
    view.epoch = fl_row_epoch(view.row);
    view.is_short = fl_ref_is_short(ref);
    return view.epoch < s->since || s->fn(s->arg, &view);
}

static bool scan_run(const scan *s, const fl_bucket *b, const fl_bucket *to)
{
    for (; b < to; b++)
        for (int i = 0; i < FL_BUCKET_SLOTS; i++)
            if (!scan_slot(s, b->key[i], b->ref[i]))
                return false;
    return true;
}

fl_status fl_table_scan(fl_table *t, uint32_t shard, uint32_t since,
                        fl_row_fn fn, void *arg)
{
    uint64_t width = UINT64_MAX / FL_TABLE_SHARDS + 1;
    uint64_t lo = shard * width;
    fl_partition *p = fl_table_part(t, lo);
    scan s = { p, shard, since, fn, arg };
    fl_index_range r;
    bool on = true;

    if (shard >= FL_TABLE_SHARDS)
        FL_FAIL(FL_ERR_INVAL, "table %s: shard %u is not in 0..%d",
                fl_table_name(t), shard, FL_TABLE_SHARDS - 1);
    fl_lock(&p->mu);
    fl_index_range_of(&p->index, fl_index_place(&p->index, lo),
                      fl_index_place(&p->index, lo + width - 1), &r);
    for (int i = 0; i < r.n && on; i++)
        on = scan_run(&s, r.from[i], r.to[i]);
    fl_unlock(&p->mu);
    return FL_OK;
}

/* --- memory -------------------------------------------------------------- */

/* The row of a slot, if it lies behind the pool's length, moves into a hole. */
static void move_row(fl_pool *pool, uint32_t *slot, bool is_short, uint32_t len)
{
    uint32_t ref = *slot, hole;

    if (!ref || fl_ref_is_short(ref) != is_short || fl_ref_row(ref) < len ||
        !fl_pool_next_hole(pool, &hole))
        return;
    memcpy(fl_pool_row(pool, hole), fl_pool_row(pool, fl_ref_row(ref)),
           pool->stride);
    *slot = fl_ref_of(hole, is_short);
}

static void close_up(fl_partition *p, int which)
{
    fl_pool *pool = &p->pools[which];
    uint32_t len = fl_pool_len(pool);
    fl_index_range r;

    fl_index_range_of(&p->index, 0, UINT64_MAX, &r);
    for (int i = 0; i < r.n; i++)
        for (fl_bucket *b = r.from[i]; b < r.to[i]; b++)
            for (int k = 0; k < FL_BUCKET_SLOTS; k++)
                move_row(pool, &b->ref[k], which == 1, len);
    fl_pool_trim(pool);
}

void fl_partition_compact(fl_partition *p)
{
    for (int which = 0; which < 2; which++)
        if (p->pools[which].n_free > WORTH_COMPACTING &&
            p->pools[which].n_free > p->pools[which].n_used / 2)
            close_up(p, which);
    fl_index_fit(&p->index);
    fl_index_fit(&p->waiting);
}

/* --- days and shrinking -------------------------------------------------- */

void fl_table_end_day(fl_table *t)
{
    fl_table_lock_all(t);
    fl_lock(&t->mu); /* days are in order */
    fl_vec_push(&t->days, atomic_fetch_add(&t->epoch, 1) + 1);
    fl_unlock(&t->mu);
    fl_table_unlock_all(t);
}

int fl_days_unseen(const uint32_t *days, size_t n, uint32_t epoch)
{
    size_t lo = 0, hi = n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (days[mid] > epoch)
            hi = mid;
        else
            lo = mid + 1;
    }
    return (int)(n - lo);
}

typedef struct shrinking {
    fl_table *t;
    const uint32_t *days;
    size_t n_days;
    int limit;
    uint64_t n_removed;
} shrinking;

static bool is_kept(const shrinking *s, fl_partition *p, uint32_t ref)
{
    void *row = fl_partition_row(p, ref);

    return fl_table_accessor(s->t)->keep(
        fl_table_acc(s->t), row, fl_ref_is_short(ref),
        fl_days_unseen(s->days, s->n_days, fl_row_epoch(row)), s->limit);
}

/* What takes the place of a removed slot comes from behind it and has not been
   looked at, so the same slot is looked at again. */
static void shrink_run(shrinking *s, fl_partition *p, fl_bucket *b,
                       const fl_bucket *to)
{
    for (; b < to; b++)
        for (int i = 0; i < FL_BUCKET_SLOTS && b->ref[i];) {
            if (is_kept(s, p, b->ref[i])) {
                i++;
                continue;
            }
            fl_partition_drop(s->t, p, b->key[i], &b->ref[i]);
            s->n_removed++;
        }
}

static void shrink_part(shrinking *s, fl_partition *p)
{
    fl_index_range r;

    fl_lock(&p->mu);
    if (fl_table_accessor(s->t)->ages)
        fl_witness_upheaval(p);
    fl_index_range_of(&p->index, 0, UINT64_MAX, &r);
    for (int i = 0; i < r.n; i++)
        shrink_run(s, p, r.from[i], r.to[i]);
    fl_partition_compact(p);
    fl_unlock(&p->mu);
}

fl_status fl_table_shrink(fl_table *t, int days, uint64_t *n_removed)
{
    shrinking s = { .t = t, .limit = days };
    uint32_t *copy;

    fl_lock(&t->mu);
    s.n_days = t->days.len;
    copy = fl_alloc(sizeof(*copy) * (s.n_days + 1));
    if (s.n_days)
        memcpy(copy, t->days.data, sizeof(*copy) * s.n_days);
    fl_unlock(&t->mu);
    s.days = copy;
    for (int i = 0; i < t->n_parts; i++)
        shrink_part(&s, &t->parts[i]);
    fl_free(copy);
    if (n_removed)
        *n_removed = s.n_removed;
    return FL_OK;
}
