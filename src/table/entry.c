/* entry.c - when a key that is pushed gets a row.
 *
 * Keys that wait are counted in an index and a pool of their own, so they cost
 * far less than a row. */
#include "table/entry.h"

#include <string.h>

#include "base/hash.h"
#include "table/cut_inside.h"

static double score_of(const fl_table_config *c, const fl_candidate *x)
{
    return ((double)x->show - x->click) * c->nonclk_coeff +
           (double)x->click * c->click_coeff;
}

fl_status fl_entry_add(fl_table *t, fl_partition *p, uint64_t key,
                       uint32_t *ref)
{
    uint64_t hash = fl_index_hash(key);
    uint32_t n;
    fl_status st = fl_pool_take(&p->candidates, &n);

    if (!st) {
        st = fl_index_add(&p->waiting, key, fl_index_place(&p->waiting, hash),
                          n + 1);
        if (st)
            fl_pool_give(&p->candidates, n);
    }
    if (st)
        return fl_err_ctx(st, "table %s", t->name);
    *ref = n + 1;
    memset(fl_pool_row(&p->candidates, n), 0, sizeof(fl_candidate));
    ++*fl_partition_count(p, hash, FL_CUT_CANDIDATE);
    if (p->watched)
        fl_witness_log(t, p, FL_CHANGE_CANDIDATE, key);
    return FL_OK;
}

/* Adds what was seen to the candidate, new or not. *total is the sum. */
static fl_status count_candidate(fl_table *t, fl_partition *p, uint64_t key,
                                 uint64_t hash, const fl_candidate *seen,
                                 fl_candidate *total)
{
    uint64_t place = fl_index_place(&p->waiting, hash);
    uint32_t *slot = fl_index_find(&p->waiting, key, place);
    fl_candidate *c;
    uint32_t ref = slot ? *slot : 0;

    if (!ref)
        FL_TRY(fl_entry_add(t, p, key, &ref));
    else if (p->watched)
        fl_witness_candidate(t, p, key, ref);
    c = fl_pool_row(&p->candidates, ref - 1);
    fl_row_set_epoch(c, fl_table_epoch(t));
    c->show += seen->show;
    c->click += seen->click;
    *total = *c;
    return FL_OK;
}

bool fl_entry_forget(fl_partition *p, uint64_t key, uint64_t hash)
{
    uint32_t *slot =
        fl_index_find(&p->waiting, key, fl_index_place(&p->waiting, hash));

    if (!slot)
        return false;
    if (p->watched)
        fl_witness_candidate_gone(p, key, *slot);
    --*fl_partition_count(p, hash, FL_CUT_CANDIDATE);
    fl_pool_give(&p->candidates, *slot - 1);
    fl_index_remove(&p->waiting, slot);
    return true;
}

/* Decided once per key: by a number that depends on table and key alone. */
static bool is_lucky(const fl_table *t, uint64_t key)
{
    uint64_t stream = fl_mix64(t->config.init.stream ^ 0x656e747279u);

    return fl_rng_unit(stream, key, 0) < t->config.entry.limit;
}

fl_status fl_entry_admits(fl_table *t, fl_partition *p, uint64_t hash,
                          const fl_rows *rows, size_t i, bool *yes)
{
    const fl_entry *e = &t->config.entry;
    uint64_t key = rows->keys[i];
    fl_candidate seen = { .show = fl_push_show(rows, i),
                          .click = fl_push_click(rows, i) };
    fl_candidate total = { 0 };

    *yes = true;
    if (e->kind == FL_ENTRY_NONE)
        return FL_OK;
    if (e->kind == FL_ENTRY_PROBABILITY) {
        *yes = is_lucky(t, key);
        return FL_OK;
    }
    if (e->kind == FL_ENTRY_COUNT)
        seen =
            (fl_candidate){ .show = rows->counts ? (float)rows->counts[i] : 1 };
    FL_TRY(count_candidate(t, p, key, hash, &seen, &total));
    *yes = e->kind == FL_ENTRY_COUNT ? total.show >= e->limit
                                     : score_of(&t->config, &total) >= e->limit;
    if (*yes)
        fl_entry_forget(p, key, hash);
    return FL_OK;
}
