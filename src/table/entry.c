/* entry.c - when a key that is pushed gets a row.
 *
 * Keys that wait are counted in an index and a pool of their own, so they cost
 * far less than a row. */
#include "table/entry.h"

#include <string.h>

#include "base/hash.h"

static double score_of(const fl_table_config *c, const fl_candidate *x)
{
    return ((double)x->show - x->click) * c->nonclk_coeff +
           (double)x->click * c->click_coeff;
}

/* Adds what was seen to the candidate, new or not. *total is the sum. */
static fl_status count_candidate(fl_table *t, fl_partition *p, uint64_t key,
                                 uint64_t hash, const fl_candidate *seen,
                                 fl_candidate *total)
{
    uint64_t place = fl_index_place(&p->waiting, hash);
    uint32_t *slot = fl_index_find(&p->waiting, key, place);
    fl_candidate c = { 0 };
    uint32_t row = 0;
    fl_status st;

    if (slot) {
        row = *slot - 1;
        memcpy(&c, fl_pool_row(&p->candidates, row), sizeof(c));
    } else {
        st = fl_pool_take(&p->candidates, &row);
        if (!st) {
            st = fl_index_add(&p->waiting, key, place, row + 1);
            if (st)
                fl_pool_give(&p->candidates, row);
        }
        if (st)
            return fl_err_ctx(st, "table %s", t->name);
    }
    c.show += seen->show;
    c.click += seen->click;
    memcpy(fl_pool_row(&p->candidates, row), &c, sizeof(c));
    *total = c;
    return FL_OK;
}

void fl_entry_forget(fl_partition *p, uint64_t key, uint64_t hash)
{
    uint32_t *slot =
        fl_index_find(&p->waiting, key, fl_index_place(&p->waiting, hash));

    if (slot) {
        fl_pool_give(&p->candidates, *slot - 1);
        fl_index_remove(&p->waiting, slot);
    }
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
    fl_candidate seen = { fl_push_show(rows, i), fl_push_click(rows, i) };
    fl_candidate total = { 0 };

    *yes = true;
    if (e->kind == FL_ENTRY_NONE)
        return FL_OK;
    if (e->kind == FL_ENTRY_PROBABILITY) {
        *yes = is_lucky(t, key);
        return FL_OK;
    }
    if (e->kind == FL_ENTRY_COUNT)
        seen = (fl_candidate){ rows->counts ? (float)rows->counts[i] : 1, 0 };
    FL_TRY(count_candidate(t, p, key, hash, &seen, &total));
    *yes = e->kind == FL_ENTRY_COUNT ? total.show >= e->limit
                                     : score_of(&t->config, &total) >= e->limit;
    if (*yes)
        fl_entry_forget(p, key, hash);
    return FL_OK;
}
