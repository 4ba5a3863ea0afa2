/* cut_delta.c - the keys of a delta, out of the log of changes.
 *
 * They are looked up when a partition is first asked for, behind the cut: a
 * key of the log counts when there is a row of the right age, as it is or as a
 * copy. */
#include <string.h>

#include "table/cut_inside.h"

static uint32_t find_in(const fl_index *x, const fl_cut_key *k)
{
    const uint32_t *slot = fl_index_find(x, k->key, fl_index_place(x, k->hash));

    return slot ? *slot : 0;
}

static const fl_index *index_of(const fl_partition *p, fl_cut_kind kind)
{
    return kind == FL_CUT_CANDIDATE ? &p->waiting : &p->index;
}

uint32_t fl_cut_find(const fl_partition *p, const fl_cut_key *k,
                     bool *in_copies)
{
    const fl_cut_part *c = p->cut;
    uint32_t ref = find_in(index_of(&c->kept, k->kind), k);

    *in_copies = ref != 0;
    if (ref || c->cut->shards[fl_hash_shard(k->hash)].is_kept)
        return ref;
    ref = find_in(index_of(p, k->kind), k);
    return ref && fl_cut_has(c->cut, fl_cut_bytes(p, k->kind, ref)) ? ref : 0;
}

/* --- the list ------------------------------------------------------------- */

typedef struct log_range {
    const uint64_t *keys;
    size_t n;
} log_range;

static log_range range_of(const fl_partition *p, fl_change kind)
{
    const fl_table_cut *c = p->cut->cut;
    const fl_journal_keys *log = &p->journal.logs[kind];
    size_t lo = fl_journal_begin(log, c->options.since);
    size_t hi = fl_journal_begin(log, c->moment.epoch);

    return (log_range){ log->keys + lo, hi > lo ? hi - lo : 0 };
}

/* What a key of the log is in the delta; false: it has no part in it. */
static bool decide(const fl_partition *p, fl_change change, fl_cut_key *k)
{
    const fl_table_cut *c = p->cut->cut;
    bool in_copies;
    float score;
    uint32_t ref;

    if (change == FL_CHANGE_CANDIDATE && c->options.pick)
        return false;
    k->kind = change == FL_CHANGE_CANDIDATE ? FL_CUT_CANDIDATE : FL_CUT_FULL;
    ref = fl_cut_find(p, k, &in_copies);
    if (change == FL_CHANGE_GONE) {
        k->kind = FL_CUT_GONE;
        return !ref;
    }
    if (!ref || change == FL_CHANGE_CANDIDATE)
        return ref;
    k->kind = fl_ref_kind(ref);
    return fl_cut_picks(c, fl_partition_row(in_copies ? &p->cut->kept : p, ref),
                        &score);
}

static void list_changes(const fl_partition *p, fl_cut_part *c,
                         fl_change change)
{
    log_range r = range_of(p, change);

    for (size_t i = 0; i < r.n; i++) {
        fl_cut_key k = { .key = r.keys[i], .hash = fl_index_hash(r.keys[i]) };

        if (decide(p, change, &k))
            c->list[c->n_list++] = k;
    }
}

static int compare(const void *a, const void *b)
{
    const fl_cut_key *x = a, *y = b;

    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return (x->kind > y->kind) - (x->kind < y->kind);
}

/* A key is logged once per epoch, and when it comes again. */
static void drop_repeats(fl_cut_part *c)
{
    size_t n = 0;

    for (size_t i = 0; i < c->n_list; i++)
        if (!n || compare(&c->list[n - 1], &c->list[i]))
            c->list[n++] = c->list[i];
    c->n_list = n;
}

/* The log can only have been given up since the cut began: before that, the
   cut would not have. */
static fl_status check_log(const fl_partition *p)
{
    const fl_table_cut *c = p->cut->cut;

    if (p->journal.from && p->journal.from <= c->options.since)
        return FL_OK;
    FL_FAIL(FL_ERR_NOTFOUND,
            "table %s: what changed since epoch %u was given up while it was "
            "saved; make a whole save",
            c->t->name, c->options.since);
}

fl_status fl_cut_list(fl_partition *p, fl_cut_part *c)
{
    size_t most = 0;

    if (c->is_listed)
        return FL_OK;
    FL_TRY(check_log(p));
    fl_journal_trim(&p->journal, c->cut->options.since);
    for (fl_change i = 0; i < FL_CHANGES; i++)
        most += range_of(p, i).n;
    c->list = fl_try_alloc(most * sizeof(*c->list));
    if (!c->list)
        FL_FAIL(FL_ERR_NOMEM, "table %s: no memory for %zu keys of a delta",
                c->cut->t->name, most);
    c->list_cap = most;
    for (fl_change i = 0; i < FL_CHANGES; i++)
        list_changes(p, c, i);
    qsort(c->list, c->n_list, sizeof(*c->list), compare);
    drop_repeats(c);
    c->is_listed = true;
    return FL_OK;
}
