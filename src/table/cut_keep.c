/* cut_keep.c - what happens before a row changes: a cut that has not read it
 * yet gets a copy, and its key is logged for deltas. */
#include <string.h>

#include "table/cut_inside.h"

/* Keys of a kind that the log of a partition holds: beyond twice the rows a
   whole save is as good. */
#define LOG_LEAST 65536
#define LOG_PER_ROW 2

/* --- copies --------------------------------------------------------------- */

/* Whether a hash has neither been read nor copied with all of its shard. */
static bool is_open(const fl_table_cut *c, uint64_t hash)
{
    const fl_cut_shard *s = &c->shards[fl_hash_shard(hash)];

    return !s->is_kept && hash % FL_SHARD_WIDTH >= s->unread;
}

static fl_status copy(fl_partition *to, const fl_partition *p, fl_cut_kind kind,
                      uint64_t key, uint32_t ref)
{
    bool is_row = kind != FL_CUT_CANDIDATE;
    fl_pool *pool = is_row ? &to->pools[kind == FL_CUT_SHORT] : &to->candidates;
    fl_index *x = is_row ? &to->index : &to->waiting;
    fl_status st;
    uint32_t n;

    FL_TRY(fl_pool_take(pool, &n));
    memcpy(fl_pool_row(pool, n), fl_cut_bytes(p, kind, ref), pool->stride);
    st = fl_index_add(x, key, fl_index_place(x, fl_index_hash(key)),
                      is_row ? fl_ref_of(n, kind == FL_CUT_SHORT) : n + 1);
    if (st)
        fl_pool_give(pool, n);
    return st;
}

/* Who pushes cannot help it: without memory the cut fails and not the push. */
static void keep(fl_partition *p, fl_cut_kind kind, uint64_t key, uint32_t ref)
{
    fl_cut_part *c = p->cut;

    if (!c || c->failed || !is_open(c->cut, fl_index_hash(key)) ||
        !fl_cut_has(c->cut, fl_cut_bytes(p, kind, ref)))
        return;
    if (kind == FL_CUT_CANDIDATE && c->cut->options.pick)
        return;
    c->failed = copy(&c->kept, p, kind, key, ref) != FL_OK;
}

/* --- one key -------------------------------------------------------------- */

void fl_witness_log(fl_table *t, fl_partition *p, fl_change kind, uint64_t key)
{
    size_t rows = p->index.len + p->waiting.len;

    fl_journal_add(&p->journal, kind, key, fl_table_epoch(t),
                   LOG_LEAST + LOG_PER_ROW * rows);
    if (!p->journal.from)
        fl_witness_update(p);
}

static void watch(fl_table *t, fl_partition *p, fl_cut_kind kind, uint64_t key,
                  uint32_t ref)
{
    if (fl_row_epoch(fl_cut_bytes(p, kind, ref)) == fl_table_epoch(t))
        return;
    keep(p, kind, key, ref);
    fl_witness_log(
        t, p, kind == FL_CUT_CANDIDATE ? FL_CHANGE_CANDIDATE : FL_CHANGE_ROW,
        key);
}

void fl_witness_row(fl_table *t, fl_partition *p, uint64_t key, uint32_t ref)
{
    watch(t, p, fl_ref_kind(ref), key, ref);
}

void fl_witness_candidate(fl_table *t, fl_partition *p, uint64_t key,
                          uint32_t ref)
{
    watch(t, p, FL_CUT_CANDIDATE, key, ref);
}

void fl_witness_gone(fl_table *t, fl_partition *p, uint64_t key, uint32_t ref)
{
    keep(p, fl_ref_kind(ref), key, ref);
    fl_witness_log(t, p, FL_CHANGE_GONE, key);
}

void fl_witness_candidate_gone(fl_partition *p, uint64_t key, uint32_t ref)
{
    keep(p, FL_CUT_CANDIDATE, key, ref);
}

/* --- all of them ---------------------------------------------------------- */

static void keep_all(fl_partition *p, const fl_index *x, bool are_rows)
{
    fl_index_range r;

    fl_index_range_of(x, 0, UINT64_MAX, &r);
    for (int i = 0; i < r.n; i++)
        for (const fl_bucket *b = r.from[i]; b < r.to[i]; b++)
            for (int k = 0; k < FL_BUCKET_SLOTS && b->ref[k]; k++)
                keep(p, are_rows ? fl_ref_kind(b->ref[k]) : FL_CUT_CANDIDATE,
                     b->key[k], b->ref[k]);
}

/* Shards that belong to the partition: its share of the hash order. */
static void mark_kept(const fl_table_cut *c, const fl_cut_part *part)
{
    uint32_t n = FL_TABLE_SHARDS / (uint32_t)c->t->n_parts;
    uint32_t first = (uint32_t)(part - c->parts) * n;

    for (uint32_t s = first; s < first + n; s++)
        c->shards[s].is_kept = true;
}

/* A delta still needs the log. */
static void list_delta(fl_partition *p)
{
    if (p->cut->cut->options.since && fl_cut_list(p, p->cut))
        p->cut->failed = true;
}

void fl_witness_upheaval(fl_partition *p)
{
    if (p->cut) {
        list_delta(p);
        keep_all(p, &p->index, true);
        keep_all(p, &p->waiting, false);
        mark_kept(p->cut->cut, p->cut);
    }
    fl_journal_stop(&p->journal);
    fl_witness_update(p);
}

void fl_witness_update(fl_partition *p)
{
    p->watched = p->cut || p->journal.from;
}
