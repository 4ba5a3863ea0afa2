/* restore.c - a table put back as it was saved. */
#include "table/restore.h"

#include <inttypes.h>
#include <string.h>

#include "table/batch.h"
#include "table/cut_inside.h"
#include "table/entry.h"

/* Keys of one partition that are restored under its lock at a time. */
#define RUN_MAX 1024

/* Room for hashes that are not quite evenly spread over partitions. */
#define SPARE(n) ((n) / 64 + 64)

/* --- room ----------------------------------------------------------------- */

static fl_status reserve_part(fl_partition *p, uint64_t n, double share)
{
    fl_status st;

    fl_lock(&p->mu);
    n += p->index.len + SPARE(n);
    /* Keys of a part of the places need as much room as if all had some. */
    st = fl_index_reserve(&p->index, (uint64_t)((double)n / share));
    fl_unlock(&p->mu);
    return st;
}

fl_status fl_table_reserve(fl_table *t, uint32_t first, uint32_t last,
                           uint64_t n_rows)
{
    uint32_t width = FL_TABLE_SHARDS / (uint32_t)t->n_parts;
    uint64_t per_shard = n_rows / (last - first + 1) + 1;

    FL_ASSERT(first <= last && last < FL_TABLE_SHARDS);
    for (uint32_t i = first / width; i <= last / width; i++) {
        uint32_t lo = i * width > first ? i * width : first;
        uint32_t hi = (i + 1) * width - 1 < last ? (i + 1) * width - 1 : last;
        uint32_t n = hi - lo + 1;
        fl_status st = reserve_part(&t->parts[i], n * per_shard,
                                    (double)n / (double)width);

        if (st)
            return fl_err_ctx(st, "table %s", t->name);
    }
    return FL_OK;
}

/* --- time ----------------------------------------------------------------- */

/* Time goes on from the newest row there is. */
static void raise_epoch(fl_table *t, uint32_t epoch)
{
    if (epoch <= fl_table_epoch(t))
        return;
    fl_table_lock_all(t);
    if (epoch > fl_table_epoch(t))
        atomic_store(&t->epoch, epoch);
    fl_table_unlock_all(t);
}

static fl_status check_moment(const fl_table *t, const fl_cut_moment *m)
{
    int n = fl_rule_n_scalars(t->acc.rule);

    if (!m->epoch || m->epoch > FL_ROW_EPOCH_MASK)
        FL_FAIL(FL_ERR_CORRUPT, "table %s: %u is no epoch", t->name, m->epoch);
    for (size_t i = 0; i < m->n_days; i++)
        if (m->days[i] > m->epoch || (i && m->days[i] < m->days[i - 1]))
            FL_FAIL(FL_ERR_CORRUPT,
                    "table %s: day %zu begins with epoch %u, out of order",
                    t->name, i, m->days[i]);
    if (m->n_scalars && m->n_scalars != n)
        FL_FAIL(FL_ERR_INVAL, "table %s: %s has %d scalars and not %d", t->name,
                t->acc.rule->name, n, m->n_scalars);
    return FL_OK;
}

fl_status fl_table_restore_moment(fl_table *t, const fl_cut_moment *m)
{
    FL_TRY(check_moment(t, m));
    raise_epoch(t, m->epoch);
    fl_lock(&t->mu);
    t->days.len = 0;
    for (size_t i = 0; i < m->n_days; i++)
        fl_vec_push(&t->days, m->days[i]);
    for (int i = 0; i < m->n_scalars; i++)
        t->hyper.scalar[i] = m->scalars[i];
    fl_unlock(&t->mu);
    return FL_OK;
}

/* --- rows ----------------------------------------------------------------- */

/* Rows with any epoch may come now: neither a cut nor a log could tell them
   from those that were there. */
static fl_status begin_part(const fl_table *t, fl_partition *p)
{
    if (p->cut)
        FL_FAIL(FL_ERR_INVAL,
                "table %s is being saved; load when the save has ended",
                t->name);
    if (p->journal.from) {
        fl_journal_stop(&p->journal);
        fl_witness_update(p);
    }
    return FL_OK;
}

/* The ref of a row of that form for the key; another form gives way. */
static fl_status restore_ref(fl_table *t, fl_partition *p, uint64_t key,
                             bool is_short, uint32_t *ref)
{
    uint64_t hash = fl_index_hash(key);
    uint64_t place = fl_index_place(&p->index, hash);
    uint32_t *slot = fl_index_find(&p->index, key, place);

    *ref = slot ? *slot : 0;
    if (slot && fl_ref_is_short(*ref) == is_short)
        return FL_OK;
    if (slot)
        fl_partition_drop(t, p, key, slot);
    *ref = 0;
    (void)fl_entry_forget(p, key, hash);
    FL_TRY(fl_partition_add(t, p, key, hash, is_short, ref));
    if (!*ref)
        FL_FAIL(FL_ERR_INVAL,
                "table %s: key %" PRIu64 " is beyond its %" PRIu64
                " rows (max_rows)",
                t->name, key, t->config.max_rows);
    return FL_OK;
}

/* What others know is not told: the value that the row was born with. */
static void copy_row(const fl_table *t, uint64_t key, void *to,
                     const void *from, uint32_t bytes)
{
    if (t->acc.layout.known)
        t->accessor->create(&t->acc, key, to);
    memcpy(to, from, t->acc.layout.known ? t->acc.layout.known : bytes);
}

fl_status fl_table_restore(fl_table *t, uint64_t key, bool is_short,
                           const void *row)
{
    fl_partition *p = fl_table_part(t, fl_index_hash(key));
    uint32_t bytes = is_short ? t->acc.layout.short_bytes : t->acc.layout.bytes;
    uint32_t ref;
    fl_status st;

    if (!bytes)
        FL_FAIL(FL_ERR_INVAL, "table %s has no short rows", t->name);
    FL_TRY(fl_batch_check(t, &key, 1));
    fl_lock(&p->mu);
    st = begin_part(t, p);
    if (!st)
        st = restore_ref(t, p, key, is_short, &ref);
    if (!st)
        copy_row(t, key, fl_partition_row(p, ref), row, bytes);
    fl_unlock(&p->mu);
    if (!st)
        raise_epoch(t, fl_row_epoch(row));
    return st;
}

/* --- rows by columns ------------------------------------------------------ */

/* One call: what is the same for all rows. */
typedef struct batch {
    fl_table *t;
    const fl_restore_rows *r;
    int n_fields;     /* that rows of this form have */
    bool is_complete; /* columns have all of a row */
} batch;

static uint32_t epoch_of(const batch *b, size_t i)
{
    return b->r->epochs ? b->r->epochs[i] : fl_table_epoch(b->t);
}

static void copy_columns(const batch *b, char *row, size_t i)
{
    const fl_row_layout *l = &b->t->acc.layout;

    for (int f = 0; f < b->n_fields; f++) {
        const fl_restore_column *c = &b->r->columns[f];
        uint32_t len = c->len < l->fields[f].len ? c->len : l->fields[f].len;

        if (c->data)
            memcpy(row + l->fields[f].offset, c->data + i * c->len,
                   len * sizeof(float));
    }
}

static void make_new(const batch *b, uint64_t key, void *row)
{
    const fl_table *t = b->t;

    t->accessor->create(&t->acc, key, row);
    if (b->r->kind == FL_CUT_FULL && t->acc.layout.short_bytes)
        t->accessor->grow(&t->acc, key, row);
}

static fl_status restore_row(const batch *b, fl_partition *p, size_t i)
{
    uint64_t key = b->r->keys[i];
    uint32_t ref;
    char *row;

    FL_TRY(restore_ref(b->t, p, key, b->r->kind == FL_CUT_SHORT, &ref));
    row = fl_partition_row(p, ref);
    if (!b->is_complete)
        make_new(b, key, row);
    copy_columns(b, row, i);
    fl_row_set_epoch(row, epoch_of(b, i));
    return FL_OK;
}

/* A key that has a row is no candidate. */
static fl_status restore_candidate(const batch *b, fl_partition *p, size_t i)
{
    uint64_t key = b->r->keys[i], hash = fl_index_hash(key);
    const fl_restore_column *c = b->r->columns;
    fl_candidate *to;
    uint32_t ref, *slot;

    if (fl_index_find(&p->index, key, fl_index_place(&p->index, hash)))
        return FL_OK;
    slot = fl_index_find(&p->waiting, key, fl_index_place(&p->waiting, hash));
    if (slot)
        ref = *slot;
    else
        FL_TRY(fl_entry_add(b->t, p, key, &ref));
    to = fl_pool_row(&p->candidates, ref - 1);
    to->show = c[0].data ? c[0].data[i] : 0;
    to->click = c[1].data ? c[1].data[i] : 0;
    fl_row_set_epoch(to, epoch_of(b, i));
    return FL_OK;
}

static fl_status restore_run(const batch *b, fl_partition *p, size_t lo,
                             size_t hi)
{
    FL_TRY(begin_part(b->t, p));
    for (size_t i = lo; i < hi; i++)
        FL_TRY(b->r->kind == FL_CUT_CANDIDATE ? restore_candidate(b, p, i)
                                              : restore_row(b, p, i));
    return FL_OK;
}

static fl_status check_form(const fl_table *t, const fl_restore_rows *r)
{
    if (r->kind == FL_CUT_SHORT && !t->acc.layout.short_bytes)
        FL_FAIL(FL_ERR_INVAL, "table %s has no short rows", t->name);
    for (size_t i = 0; r->epochs && i < r->n; i++)
        if (r->epochs[i] > FL_ROW_EPOCH_MASK)
            FL_FAIL(FL_ERR_CORRUPT,
                    "table %s: key %" PRIu64 " has epoch %u, which is none",
                    t->name, r->keys[i], r->epochs[i]);
    return fl_batch_check(t, r->keys, r->n);
}

static batch make_batch(fl_table *t, const fl_restore_rows *r)
{
    const fl_row_layout *l = &t->acc.layout;
    batch b = { .t = t, .r = r, .is_complete = !l->known };

    for (int f = 0; f < l->n_fields; f++) {
        if (r->kind == FL_CUT_SHORT && l->fields[f].offset >= l->short_bytes)
            break;
        b.n_fields++;
        if (!r->columns[f].data || r->columns[f].len < l->fields[f].len)
            b.is_complete = false;
    }
    return b;
}

static uint32_t newest(const fl_restore_rows *r)
{
    uint32_t most = 0;

    for (size_t i = 0; r->epochs && i < r->n; i++)
        most = r->epochs[i] > most ? r->epochs[i] : most;
    return most;
}

fl_status fl_table_restore_rows(fl_table *t, const fl_restore_rows *r)
{
    batch b = make_batch(t, r);

    FL_TRY(check_form(t, r));
    raise_epoch(t, newest(r));
    for (size_t lo = 0, hi; lo < r->n; lo = hi) {
        fl_partition *p = fl_table_part(t, fl_index_hash(r->keys[lo]));
        fl_status st;

        for (hi = lo + 1; hi < r->n && hi - lo < RUN_MAX; hi++)
            if (fl_table_part(t, fl_index_hash(r->keys[hi])) != p)
                break;
        fl_lock(&p->mu);
        st = restore_run(&b, p, lo, hi);
        fl_unlock(&p->mu);
        FL_TRY(st);
    }
    return FL_OK;
}
