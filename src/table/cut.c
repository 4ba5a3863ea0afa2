/* cut.c - a table as of one moment: how a cut begins and ends. cut.h says what
 * it is, cut_inside.h what holds meanwhile. */
#include "table/cut.h"

#include <string.h>

#include "table/cut_inside.h"

/* --- beginning ------------------------------------------------------------ */

static void init_parts(fl_table_cut *c)
{
    const fl_table *t = c->t;

    c->parts = fl_alloc(sizeof(*c->parts) * (size_t)t->n_parts);
    for (int i = 0; i < t->n_parts; i++) {
        c->parts[i].cut = c;
        fl_partition_init(&c->parts[i].kept, &t->acc.layout, t->bits);
        fl_pool_init(&c->parts[i].spent, sizeof(fl_spent));
    }
}

static fl_table_cut *new_cut(fl_table *t, const fl_cut_options *options)
{
    fl_table_cut *c = fl_alloc(sizeof(*c));

    c->t = t;
    c->options = options ? *options : (fl_cut_options){ 0 };
    c->counts = fl_alloc(sizeof(*c->counts) * FL_TABLE_SHARDS);
    c->shards = fl_alloc(sizeof(*c->shards) * FL_TABLE_SHARDS);
    fl_mutex_init(&c->mu);
    init_parts(c);
    return c;
}

static void free_cut(fl_table_cut *c)
{
    for (int i = 0; i < c->t->n_parts; i++) {
        fl_cut_part *part = &c->parts[i];

        fl_partition_empty(&part->kept);
        fl_mutex_release(&part->kept.mu);
        fl_pool_release(&part->spent);
        fl_data_free(part->list, part->list_cap * sizeof(*part->list));
    }
    fl_cut_readers_free(c);
    fl_mutex_release(&c->mu);
    fl_free(c->parts);
    fl_free(c->counts);
    fl_free(c->shards);
    fl_free(c->days);
    fl_free(c);
}

/* The epoch since which every partition knows its changes; 0: one does not.
   Under all locks. */
static uint32_t known_since(const fl_table *t)
{
    uint32_t most = 1;

    for (int i = 0; i < t->n_parts; i++) {
        uint32_t from = t->parts[i].journal.from;

        if (!from)
            return 0;
        most = from > most ? from : most;
    }
    return most;
}

static fl_status check_begin(const fl_table *t, const fl_cut_options *o)
{
    uint32_t known = known_since(t);

    if (t->parts[0].cut)
        FL_FAIL(FL_ERR_INVAL,
                "table %s: a save is under way; wait until it has ended",
                t->name);
    if (o->since && !known)
        FL_FAIL(FL_ERR_NOTFOUND,
                "table %s: what changed since epoch %u is not known; make a "
                "whole save first",
                t->name, o->since);
    if (o->since && o->since < known)
        FL_FAIL(FL_ERR_NOTFOUND,
                "table %s: what changed is known since epoch %u, and not since "
                "%u; make a whole save first",
                t->name, known, o->since);
    return FL_OK;
}

/* Takes the moment, under all locks. */
static void copy_moment(fl_table_cut *c)
{
    fl_table *t = c->t;

    memcpy(c->counts, t->counts, sizeof(*c->counts) * FL_TABLE_SHARDS);
    c->moment.epoch = atomic_fetch_add(&t->epoch, 1) + 1;
    fl_lock(&t->mu);
    c->moment.n_days = t->days.len;
    c->days = fl_alloc(sizeof(*c->days) * (t->days.len + 1));
    if (t->days.len)
        memcpy(c->days, t->days.data, sizeof(*c->days) * t->days.len);
    memcpy(c->scalars, t->hyper.scalar, sizeof(c->scalars));
    fl_unlock(&t->mu);
    c->moment.days = c->days;
    c->moment.scalars = c->scalars;
    c->moment.n_scalars = fl_rule_n_scalars(t->acc.rule);
}

static void watch_part(fl_partition *p, fl_cut_part *cut, uint32_t epoch)
{
    p->cut = cut;
    if (cut->cut->options.watch && !p->journal.from)
        fl_journal_start(&p->journal, epoch);
    fl_witness_update(p);
}

fl_status fl_table_cut_begin(fl_table_cut **out, fl_table *t,
                             const fl_cut_options *options)
{
    fl_table_cut *c = new_cut(t, options);
    fl_status st;

    fl_table_lock_all(t);
    st = check_begin(t, &c->options);
    if (!st) {
        copy_moment(c);
        for (int i = 0; i < t->n_parts; i++)
            watch_part(&t->parts[i], &c->parts[i], c->moment.epoch);
    }
    fl_table_unlock_all(t);
    if (st)
        free_cut(c);
    else
        *out = c;
    return st;
}

void fl_table_cut_end(fl_table_cut *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->t->n_parts; i++) {
        fl_partition *p = &c->t->parts[i];

        fl_lock(&p->mu);
        p->cut = NULL;
        fl_witness_update(p);
        fl_unlock(&p->mu);
    }
    free_cut(c);
}

/* --- what it says --------------------------------------------------------- */

const fl_cut_moment *fl_table_cut_moment(const fl_table_cut *c)
{
    return &c->moment;
}

fl_table *fl_table_cut_table(const fl_table_cut *c)
{
    return c->t;
}

void fl_table_cut_stats(fl_table_cut *c, fl_cut_stats *out)
{
    *out = (fl_cut_stats){ 0 };
    for (int i = 0; i < c->t->n_parts; i++) {
        fl_partition *p = &c->t->parts[i];
        const fl_partition *kept = &c->parts[i].kept;

        fl_lock(&p->mu);
        out->log_bytes += fl_journal_bytes(&p->journal);
        out->copies += kept->index.len + kept->waiting.len;
        out->copies_bytes +=
            fl_index_bytes(&kept->index) + fl_index_bytes(&kept->waiting) +
            fl_pool_bytes(&kept->pools[0]) + fl_pool_bytes(&kept->pools[1]) +
            fl_pool_bytes(&kept->candidates) +
            fl_pool_bytes(&c->parts[i].spent);
        fl_unlock(&p->mu);
    }
}

/* --- picking -------------------------------------------------------------- */

bool fl_cut_picks(const fl_table_cut *c, const void *row, float *score)
{
    const fl_accessor *a = c->t->accessor;

    *score = 0;
    if (!c->options.pick || !a->serves)
        return true;
    return a->serves(
        &c->t->acc, row,
        fl_days_unseen(c->days, c->moment.n_days, fl_row_epoch(row)),
        c->options.pick, score);
}

static void spend(fl_table_cut *c, fl_partition *p, const fl_pool *spent)
{
    for (uint32_t i = 0; i < spent->n_used; i++) {
        const fl_spent *s = fl_pool_row(spent, i);
        uint64_t key = s->key[0] | (uint64_t)s->key[1] << 32;
        const uint32_t *slot = fl_index_find(
            &p->index, key, fl_index_place(&p->index, fl_index_hash(key)));

        if (slot)
            c->t->accessor->spend(&c->t->acc, fl_partition_row(p, *slot),
                                  s->score);
    }
}

void fl_table_cut_spend(fl_table_cut *c)
{
    for (int i = 0; i < c->t->n_parts && c->t->accessor->spend; i++) {
        fl_partition *p = &c->t->parts[i];

        fl_lock(&p->mu);
        spend(c, p, &c->parts[i].spent);
        fl_pool_release(&c->parts[i].spent);
        fl_unlock(&p->mu);
    }
}

/* --- watching ------------------------------------------------------------- */

uint32_t fl_table_watch(fl_table *t)
{
    uint32_t epoch;

    fl_table_lock_all(t);
    epoch = fl_table_epoch(t);
    for (int i = 0; i < t->n_parts; i++) {
        fl_journal_start(&t->parts[i].journal, epoch);
        fl_witness_update(&t->parts[i]);
    }
    fl_table_unlock_all(t);
    return epoch;
}

uint32_t fl_table_watched_since(fl_table *t)
{
    uint32_t since;

    fl_table_lock_all(t);
    since = known_since(t);
    fl_table_unlock_all(t);
    return since;
}
