/* table.c - making tables, their rows, and what sets or removes them. */
#include "table/table.h"

#include <stdatomic.h>

#include "base/args.h"
#include "base/hash.h"
#include "table/batch.h"
#include "table/cut_inside.h"
#include "table/entry.h"
#include "table/row.h"

/* --- making -------------------------------------------------------------- */

/* Of two threads over two partitions one often waits, over four hardly ever; more
   make the shares of a batch so short that less of what memory takes is hidden. */
#define PARTITIONS_PER_CORE 2

static int choose_bits(const fl_table_config *c)
{
    int64_t n = c->n_partitions ? c->n_partitions
                                : PARTITIONS_PER_CORE * fl_cpu_count();
    int bits = 0;

    if (c->n_holders > 1)
        n *= c->n_holders;
    while ((1 << bits) < n && (1 << bits) < FL_PARTITIONS_MAX)
        bits++;
    return bits;
}

static fl_status check_config(const fl_table_config *c)
{
    if (c->dim < 1 || c->dim > FL_TABLE_DIM_MAX)
        FL_FAIL(FL_ERR_INVAL, "table %s: dim %u is not in 1..%d", c->name,
                c->dim, FL_TABLE_DIM_MAX);
    if (!fl_rule_find(c->rule ? c->rule : "sgd"))
        FL_FAIL(FL_ERR_NOTFOUND, "table %s: no update rule is called %s",
                c->name, c->rule);
    if (!fl_accessor_find(c->accessor ? c->accessor : "plain"))
        FL_FAIL(FL_ERR_NOTFOUND, "table %s: no accessor is called %s", c->name,
                c->accessor);
    return FL_OK;
}

void fl_partition_init(fl_partition *p, const fl_row_layout *l, int bits)
{
    fl_mutex_init(&p->mu);
    p->index.bits = p->waiting.bits = bits;
    fl_pool_init(&p->pools[0], l->bytes);
    fl_pool_init(&p->pools[1], l->short_bytes ? l->short_bytes : l->bytes);
    fl_pool_init(&p->candidates, sizeof(fl_candidate));
}

/* The rule's scalars as they are before its first step. */
static void start_scalars(fl_table *t)
{
    const fl_rule *rule = t->acc.rule;

    for (int i = 0; i < fl_rule_n_scalars(rule); i++)
        t->hyper.scalar[i] =
            fl_rule_first(rule, &rule->scalars[i], t->config.p);
}

fl_status fl_table_create(fl_table **out, const fl_table_config *config)
{
    fl_table *t;

    FL_TRY(check_config(config));
    t = fl_alloc(sizeof(*t));
    t->config = *config;
    t->name = fl_strdup(config->name);
    t->config.name = t->name;
    t->settings = fl_strdup(config->settings ? config->settings : "");
    t->config.settings = t->settings;
    t->config.lr_scale = config->lr_scale ? config->lr_scale : 1;
    t->accessor = fl_accessor_of(&t->config, &t->acc);
    t->config.rule = t->acc.rule->name;
    t->config.accessor = t->accessor->name;
    memcpy(t->hyper.p, config->p, sizeof(config->p));
    start_scalars(t);
    t->bits = choose_bits(config);
    t->n_parts = 1 << t->bits;
    t->parts = fl_alloc(sizeof(*t->parts) * (size_t)t->n_parts);
    t->counts = fl_alloc(sizeof(*t->counts) * FL_TABLE_SHARDS);
    for (int i = 0; i < t->n_parts; i++) {
        fl_partition_init(&t->parts[i], &t->acc.layout, t->bits);
        t->parts[i].counts = t->counts;
    }
    fl_mutex_init(&t->mu);
    atomic_init(&t->epoch, 1);
    *out = t;
    return FL_OK;
}

void fl_partition_empty(fl_partition *p)
{
    fl_index_release(&p->index);
    fl_index_release(&p->waiting);
    fl_pool_release(&p->pools[0]);
    fl_pool_release(&p->pools[1]);
    fl_pool_release(&p->candidates);
    fl_hash_list_release(&p->pushed);
}

void fl_table_destroy(fl_table *t)
{
    if (!t)
        return;
    for (int i = 0; i < t->n_parts; i++) {
        fl_partition_empty(&t->parts[i]);
        fl_journal_stop(&t->parts[i].journal);
        fl_mutex_release(&t->parts[i].mu);
    }
    fl_vec_release(&t->days);
    fl_mutex_release(&t->mu);
    fl_free(t->parts);
    fl_free(t->counts);
    fl_free(t->name);
    fl_free(t->settings);
    fl_free(t);
}

const char *fl_table_name(const fl_table *t)
{
    return t->name;
}

uint32_t fl_table_dim(const fl_table *t)
{
    return t->config.dim;
}

const fl_acc_ctx *fl_table_acc(const fl_table *t)
{
    return &t->acc;
}

const fl_accessor *fl_table_accessor(const fl_table *t)
{
    return t->accessor;
}

uint32_t fl_table_shard_of(uint64_t key)
{
    _Static_assert(FL_TABLE_SHARDS == FL_SHARDS, "one number of shards");
    return fl_shard_of(key);
}

uint32_t fl_table_epoch(const fl_table *t)
{
    return atomic_load(&t->epoch);
}

uint32_t fl_table_advance_epoch(fl_table *t)
{
    uint32_t epoch;

    fl_table_lock_all(t);
    epoch = atomic_fetch_add(&t->epoch, 1) + 1;
    fl_table_unlock_all(t);
    return epoch;
}

void fl_table_lock_all(fl_table *t)
{
    for (int i = 0; i < t->n_parts; i++)
        fl_lock(&t->parts[i].mu);
}

void fl_table_unlock_all(fl_table *t)
{
    for (int i = t->n_parts; i-- > 0;)
        fl_unlock(&t->parts[i].mu);
}

/* --- rows ---------------------------------------------------------------- */

/* A room for one row more is taken before the row is made, so that several
   threads cannot pass the limit together. */
static bool reserve_row(fl_table *t, fl_partition *p)
{
    uint64_t n = atomic_fetch_add(&t->n_rows, 1);

    if (!t->config.max_rows || n < t->config.max_rows)
        return true;
    atomic_fetch_sub(&t->n_rows, 1);
    p->refused++;
    return false;
}

fl_status fl_partition_add(fl_table *t, fl_partition *p, uint64_t key,
                           uint64_t hash, bool is_short, uint32_t *ref)
{
    fl_pool *pool = &p->pools[is_short];
    fl_status st;
    uint32_t row = 0;

    if (!reserve_row(t, p))
        return FL_OK;
    st = fl_pool_take(pool, &row);
    if (!st) {
        st = fl_index_add(&p->index, key, fl_index_place(&p->index, hash),
                          fl_ref_of(row, is_short));
        if (st)
            fl_pool_give(pool, row);
    }
    if (st) {
        atomic_fetch_sub(&t->n_rows, 1);
        return fl_err_ctx(st, "table %s", t->name);
    }
    *ref = fl_ref_of(row, is_short);
    memset(fl_partition_row(p, *ref), 0, FL_ROW_HEADER_BYTES);
    fl_row_set_epoch(fl_partition_row(p, *ref), fl_table_epoch(t));
    ++*fl_partition_count(p, hash, fl_ref_kind(*ref));
    if (p->watched)
        fl_witness_log(t, p, FL_CHANGE_ROW, key);
    return FL_OK;
}

fl_status fl_partition_create(fl_table *t, fl_partition *p, uint64_t key,
                              uint64_t hash, uint32_t *ref)
{
    FL_TRY(
        fl_partition_add(t, p, key, hash, t->acc.layout.short_bytes != 0, ref));
    if (*ref)
        t->accessor->create(&t->acc, key, fl_partition_row(p, *ref));
    return FL_OK;
}

void fl_partition_drop(fl_table *t, fl_partition *p, uint64_t key,
                       uint32_t *slot)
{
    if (p->watched)
        fl_witness_gone(t, p, key, *slot);
    --*fl_partition_count(p, fl_index_hash(key), fl_ref_kind(*slot));
    fl_pool_give(&p->pools[fl_ref_is_short(*slot)], fl_ref_row(*slot));
    fl_index_remove(&p->index, slot);
    atomic_fetch_sub(&t->n_rows, 1);
}

/* --- assign, add, remove, clear ------------------------------------------ */

void fl_group_touch(fl_group *g, int k)
{
    if (g->p->watched)
        fl_witness_row(g->t, g->p, fl_group_key(g, k), g->ref[k]);
    fl_row_set_epoch(fl_partition_row(g->p, g->ref[k]), fl_table_epoch(g->t));
}

/* The row of key k as a full one, made or grown as needed, to be changed; NULL
   by max_rows. */
static fl_status full_row(fl_group *g, int k, void **row)
{
    const uint32_t *slot = fl_group_slot(g, k);

    *row = NULL;
    g->ref[k] = slot ? *slot : 0;
    if (!slot) {
        FL_TRY(fl_partition_add(g->t, g->p, fl_group_key(g, k),
                                fl_group_hash(g, k), false, &g->ref[k]));
        fl_entry_forget(g->p, fl_group_key(g, k), fl_group_hash(g, k));
    } else {
        fl_group_touch(g, k);
        if (fl_ref_is_short(g->ref[k]))
            fl_group_grow(g, k);
        if (fl_ref_is_short(g->ref[k]))
            FL_FAIL(FL_ERR_NOMEM, "table %s: no memory for a row", g->t->name);
    }
    if (g->ref[k])
        *row = fl_partition_row(g->p, g->ref[k]);
    return FL_OK;
}

static fl_status assign_group(fl_group *g, void *arg)
{
    const float *values = arg;
    void *row;

    for (int k = 0; k < g->n; k++) {
        FL_TRY(full_row(g, k, &row));
        if (row)
            g->t->accessor->assign(&g->t->acc, fl_group_key(g, k), row,
                                   values + fl_group_number(g, k) *
                                                g->t->config.dim);
    }
    return FL_OK;
}

fl_status fl_table_assign(fl_table *t, const uint64_t *keys, size_t n,
                          const float *values)
{
    static const fl_sweeps assign = { NULL, assign_group };

    FL_TRY(fl_batch_check(t, keys, n));
    return fl_batch_sweep(t, keys, n, &assign, (void *)(uintptr_t)values);
}

fl_status fl_group_find_or_make(fl_group *g, int k)
{
    const uint32_t *slot = fl_group_slot(g, k);

    g->ref[k] = slot ? *slot : 0;
    if (slot)
        return FL_OK;
    FL_TRY(fl_partition_create(g->t, g->p, fl_group_key(g, k),
                               fl_group_hash(g, k), &g->ref[k]));
    fl_entry_forget(g->p, fl_group_key(g, k), fl_group_hash(g, k));
    return FL_OK;
}

/* Rows come into the cache while others are looked for. */
static fl_status find_or_make_all(fl_group *g, void *arg)
{
    const fl_row_layout *l = &g->t->acc.layout;

    (void)arg;
    for (int k = 0; k < g->n; k++) {
        FL_TRY(fl_group_find_or_make(g, k));
        if (g->ref[k])
            fl_prefetch_row(fl_partition_row(g->p, g->ref[k]), 0,
                            l->value ? l->value + g->t->config.dim *
                                                      (uint32_t)sizeof(float)
                            : fl_ref_is_short(g->ref[k]) ? l->short_bytes
                                                         : l->bytes);
    }
    return FL_OK;
}

static fl_status add_group(fl_group *g, void *arg)
{
    const float *deltas = arg;
    const fl_acc_ctx *acc = &g->t->acc;

    for (int k = 0; k < g->n; k++) {
        const float *delta = deltas + fl_group_number(g, k) * acc->config->dim;
        void *row;

        /* A short row may have grown, when its key comes twice. */
        if (g->ref[k] && fl_ref_is_short(g->ref[k]))
            FL_TRY(fl_group_find_or_make(g, k));
        if (!g->ref[k])
            continue;
        fl_group_touch(g, k);
        row = fl_partition_row(g->p, g->ref[k]);
        if (g->t->accessor->add(acc, row, fl_ref_is_short(g->ref[k]), delta))
            continue;
        FL_TRY(full_row(g, k, &row));
        (void)g->t->accessor->add(acc, row, false, delta);
    }
    return FL_OK;
}

fl_status fl_table_add(fl_table *t, const uint64_t *keys, size_t n,
                       const float *deltas)
{
    static const fl_sweeps add = { find_or_make_all, add_group };

    FL_TRY(fl_batch_check(t, keys, n));
    return fl_batch_sweep(t, keys, n, &add, (void *)(uintptr_t)deltas);
}

static fl_status remove_group(fl_group *g, void *arg)
{
    size_t *n_removed = arg;

    for (int k = 0; k < g->n; k++) {
        uint32_t *slot = fl_group_slot(g, k);
        uint64_t key = fl_group_key(g, k);

        if (slot) {
            fl_partition_drop(g->t, g->p, key, slot);
            ++*n_removed;
        }
        if (fl_entry_forget(g->p, key, fl_group_hash(g, k)) && g->p->watched)
            fl_witness_log(g->t, g->p, FL_CHANGE_GONE, key);
    }
    return FL_OK;
}

void fl_table_remove(fl_table *t, const uint64_t *keys, size_t n,
                     size_t *n_removed)
{
    static const fl_sweeps removal = { NULL, remove_group };
    size_t count = 0;

    /* Nothing in it can fail. */
    FL_ASSERT(fl_batch_sweep(t, keys, n, &removal, &count) == FL_OK);
    for (int i = 0; i < t->n_parts && count; i++) {
        fl_lock(&t->parts[i].mu);
        fl_partition_compact(&t->parts[i]);
        fl_unlock(&t->parts[i].mu);
    }
    if (n_removed)
        *n_removed = count;
}

fl_status fl_table_set_update(fl_table *t, const fl_update *u)
{
    if (u->rule != t->acc.rule)
        FL_FAIL(FL_ERR_INVAL,
                "table %s was made with optimizer=%s, but the program updates "
                "it with %s; make it with optimizer=%s",
                t->name, t->acc.rule->name, u->rule->name, u->rule->name);
    fl_lock(&t->mu);
    memcpy(t->config.p, u->p, sizeof(u->p));
    memcpy(t->hyper.p, u->p, sizeof(u->p));
    fl_unlock(&t->mu);
    return FL_OK;
}

static void clear_counts(fl_table *t, int part)
{
    size_t n = FL_TABLE_SHARDS / (size_t)t->n_parts;

    memset(t->counts + (size_t)part * n, 0, n * sizeof(*t->counts));
}

void fl_table_clear(fl_table *t)
{
    for (int i = 0; i < t->n_parts; i++) {
        fl_partition *p = &t->parts[i];

        fl_lock(&p->mu);
        fl_witness_upheaval(p);
        atomic_fetch_sub(&t->n_rows, p->index.len);
        fl_partition_empty(p);
        clear_counts(t, i);
        p->refused = 0;
        fl_unlock(&p->mu);
    }
    fl_lock(&t->mu);
    start_scalars(t);
    t->days.len = 0;
    fl_unlock(&t->mu);
}

/* --- accounting ---------------------------------------------------------- */

fl_status fl_table_stats_get(fl_table *t, fl_table_stats *out)
{
    fl_table_stats s;

    fl_table_count(t, &s);
    return FL_ARGS_FILL(fl_table_stats, out, &s);
}

void fl_table_count(fl_table *t, fl_table_stats *out)
{
    *out =
        (fl_table_stats){ .most_moved_in_a_call = atomic_load(&t->most_moved) };
    for (int i = 0; i < t->n_parts; i++) {
        fl_partition *p = &t->parts[i];

        fl_lock(&p->mu);
        out->rows += p->index.len;
        out->short_rows += fl_pool_len(&p->pools[1]);
        out->candidates += p->waiting.len;
        out->refused += p->refused;
        out->waited += p->waited;
        out->index_bytes += fl_index_bytes(&p->index);
        out->row_bytes +=
            fl_pool_bytes(&p->pools[0]) + fl_pool_bytes(&p->pools[1]);
        out->candidate_bytes +=
            fl_index_bytes(&p->waiting) + fl_pool_bytes(&p->candidates);
        out->slots_moved += p->index.slots_moved;
        fl_unlock(&p->mu);
    }
}
