/* table.c - rows by key: pull, push, assign, remove.
 *
 * A batch is taken in blocks. Keys of a block are dealt to their partitions
 * first (a counting sort of their numbers on the stack), then each partition's
 * share is worked off under its lock in groups of GROUP keys, in three sweeps
 * over the group, so that the misses of a group overlap; three groups are under
 * way at a time:
 *
 *     1  hash is known: ask for the bucket
 *     2  find the slot (or make the row): ask for the row
 *     3  copy the value, or apply the gradient
 *
 * Sweeps pass refs, not addresses: making a row may move slab 0 of a pool.
 * Lock order: a partition's lock, then the table's.
 */
#include "table/table.h"

#include <inttypes.h>
#include <stdatomic.h>

#include "base/hash.h"
#include "kernel/unique.h"
#include "table/partition.h"
#include "table/row.h"

#define BLOCK 4096
#define GROUP 16
#define LINE 64
#define PARTITIONS_MAX 1024

/* --- making -------------------------------------------------------------- */

static int choose_bits(int wanted)
{
    int n = wanted ? wanted : fl_cpu_count();
    int bits = 0;

    while ((1 << bits) < n && (1 << bits) < PARTITIONS_MAX)
        bits++;
    return bits;
}

static double first_scalar(const fl_rule *rule, const double *p, int i)
{
    const char *from = rule->scalars[i].first_from;

    for (int k = 0; from && k < fl_rule_n_params(rule); k++)
        if (!strcmp(rule->params[k].name, from))
            return p[k];
    return rule->scalars[i].first;
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

static void init_part(fl_partition *p, const fl_row_layout *l, int bits)
{
    fl_mutex_init(&p->mu);
    p->index.bits = p->waiting.bits = bits;
    fl_pool_init(&p->pools[0], l->bytes);
    fl_pool_init(&p->pools[1], l->short_bytes ? l->short_bytes : l->bytes);
    fl_pool_init(&p->candidates, sizeof(fl_candidate));
}

fl_status fl_table_new(fl_table **out, const fl_table_config *config)
{
    fl_table *t;

    FL_TRY(check_config(config));
    t = fl_alloc(sizeof(*t));
    t->config = *config;
    t->config.text = NULL;
    t->name = fl_strdup(config->name);
    t->config.name = t->name;
    t->config.lr_scale = config->lr_scale ? config->lr_scale : 1;
    t->acc.config = &t->config;
    t->acc.rule = fl_rule_find(config->rule ? config->rule : "sgd");
    t->config.rule = t->acc.rule->name;
    t->accessor =
        fl_accessor_find(config->accessor ? config->accessor : "plain");
    t->config.accessor = t->accessor->name;
    t->accessor->layout(&t->acc, &t->acc.layout);
    t->hyper.flag = config->flag;
    memcpy(t->hyper.p, config->p, sizeof(config->p));
    for (int i = 0; i < fl_rule_n_scalars(t->acc.rule); i++)
        t->hyper.scalar[i] = first_scalar(t->acc.rule, config->p, i);
    t->bits = choose_bits(config->n_partitions);
    t->n_parts = 1 << t->bits;
    t->parts = fl_alloc(sizeof(*t->parts) * (size_t)t->n_parts);
    for (int i = 0; i < t->n_parts; i++)
        init_part(&t->parts[i], &t->acc.layout, t->bits);
    fl_mutex_init(&t->mu);
    atomic_init(&t->epoch, 1);
    *out = t;
    return FL_OK;
}

static void empty_part(fl_partition *p)
{
    fl_index_release(&p->index);
    fl_index_release(&p->waiting);
    fl_pool_release(&p->pools[0]);
    fl_pool_release(&p->pools[1]);
    fl_pool_release(&p->candidates);
}

void fl_table_free(fl_table *t)
{
    if (!t)
        return;
    for (int i = 0; i < t->n_parts; i++) {
        empty_part(&t->parts[i]);
        fl_mutex_release(&t->parts[i].mu);
    }
    fl_vec_release(&t->days);
    fl_mutex_release(&t->mu);
    fl_free(t->parts);
    fl_free(t->name);
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
    return (uint32_t)(fl_index_hash(key) / (UINT64_MAX / FL_TABLE_SHARDS + 1));
}

uint32_t fl_table_epoch(const fl_table *t)
{
    return atomic_load(&t->epoch);
}

uint32_t fl_table_advance_epoch(fl_table *t)
{
    return atomic_fetch_add(&t->epoch, 1) + 1;
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

/* A row without values and its slot; *ref stays 0 when there is no room by
   max_rows. */
static fl_status add_row(fl_table *t, fl_partition *p, uint64_t key,
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
    return FL_OK;
}

static fl_status create_row(fl_table *t, fl_partition *p, uint64_t key,
                            uint64_t hash, uint32_t *ref)
{
    FL_TRY(add_row(t, p, key, hash, t->acc.layout.short_bytes != 0, ref));
    if (*ref) {
        void *row = fl_partition_row(p, *ref);

        t->accessor->create(&t->acc, key, row);
        fl_row_set_epoch(row, fl_table_epoch(t));
    }
    return FL_OK;
}

void fl_partition_drop(fl_table *t, fl_partition *p, uint32_t *slot)
{
    fl_pool_give(&p->pools[fl_ref_is_short(*slot)], fl_ref_row(*slot));
    fl_index_remove(&p->index, slot);
    atomic_fetch_sub(&t->n_rows, 1);
}

/* --- blocks of keys ------------------------------------------------------ */

/* Keys of one block, dealt to partitions: order[first[p] .. first[p+1]) are the
   numbers of the keys of partition p. */
typedef struct deal {
    const uint64_t *keys;
    uint64_t hash[BLOCK];
    uint16_t order[BLOCK];
    uint16_t first[PARTITIONS_MAX + 1];
    size_t at; /* number of the block's first key */
} deal;

static void deal_keys(const fl_table *t, const uint64_t *keys, size_t n,
                      deal *d)
{
    int shift = 64 - t->bits;
    uint16_t fill[PARTITIONS_MAX] = { 0 };

    d->keys = keys;
    memset(d->first, 0, sizeof(d->first));
    for (size_t i = 0; i < n; i++)
        d->hash[i] = fl_index_hash(keys[i]);
    for (size_t i = 0; i < n; i++)
        d->first[1 + (t->bits ? d->hash[i] >> shift : 0)]++;
    for (int p = 0; p < t->n_parts; p++) {
        d->first[p + 1] = (uint16_t)(d->first[p + 1] + d->first[p]);
        fill[p] = d->first[p];
    }
    for (size_t i = 0; i < n; i++)
        d->order[fill[t->bits ? d->hash[i] >> shift : 0]++] = (uint16_t)i;
}

/* Works on keys order[lo, hi) of a deal, at most GROUP of them. */
typedef struct group {
    fl_table *t;
    fl_partition *p;
    const deal *d;
    const uint16_t *order;
    int n;
    /* Where the search for each key begins, as long as the index has not
       moved since. */
    fl_bucket *start[GROUP];
    const fl_bucket *seen_now;
    uint64_t seen_moved;
    uint32_t ref[GROUP]; /* 0: no row */
} group;

/* Sweeps 2 and 3; find may be NULL. */
typedef fl_status (*group_fn)(group *g, void *arg);

typedef struct sweeps {
    group_fn find, use;
} sweeps;

/* Sweep 1: asks for the buckets of up to GROUP keys from number `at` on. */
static void ask(group *g, fl_table *t, int part, const deal *d, int at)
{
    const fl_index *x = &t->parts[part].index;
    int left = d->first[part + 1] - at;

    g->t = t;
    g->p = &t->parts[part];
    g->d = d;
    g->order = d->order + at;
    g->n = left < GROUP ? left : GROUP;
    g->seen_now = x->now.buckets;
    g->seen_moved = x->moved;
    for (int k = 0; k < g->n; k++) {
        g->start[k] =
            fl_index_start(x, fl_index_place(x, d->hash[g->order[k]]));
        __builtin_prefetch(g->start[k]);
    }
}

/* Three groups are under way at a time, each one sweep behind the next, so
   that what a sweep asked for has the time of another to arrive. */
static fl_status sweep_part(fl_table *t, int part, const deal *d,
                            const sweeps *w, void *arg)
{
    int lo = d->first[part], hi = d->first[part + 1];
    int n = (hi - lo + GROUP - 1) / GROUP;
    group g[3];

    for (int i = 0; i < n + 2; i++) {
        if (i < n)
            ask(&g[i % 3], t, part, d, lo + i * GROUP);
        if (w->find && i >= 1 && i <= n)
            FL_TRY(w->find(&g[(i - 1) % 3], arg));
        if (i >= 2)
            FL_TRY(w->use(&g[(i - 2) % 3], arg));
    }
    return FL_OK;
}

/* *moved grows by the index slots that were moved. */
static fl_status work_part(fl_table *t, int part, const deal *d,
                           const sweeps *w, void *arg, uint64_t *moved)
{
    fl_partition *p = &t->parts[part];
    fl_status st;

    fl_lock(&p->mu);
    *moved -= p->index.slots_moved;
    st = sweep_part(t, part, d, w, arg);
    *moved += p->index.slots_moved;
    fl_unlock(&p->mu);
    return st;
}

static void note_moved(fl_table *t, uint64_t moved)
{
    uint64_t most = atomic_load(&t->most_moved);

    while (moved > most &&
           !atomic_compare_exchange_weak(&t->most_moved, &most, moved))
        ;
}

static fl_status check_keys(const fl_table *t, const uint64_t *keys, size_t n)
{
    for (size_t i = 0; t->config.height && i < n; i++)
        if (keys[i] >= t->config.height)
            FL_FAIL(FL_ERR_INVAL,
                    "table %s: id %" PRIu64 " at place %zu is not below its "
                    "height %" PRIu64,
                    t->name, keys[i], i, t->config.height);
    return FL_OK;
}

static fl_status work_blocks(fl_table *t, const uint64_t *keys, size_t n,
                             const sweeps *w, void *arg)
{
    fl_status st = FL_OK;
    uint64_t moved = 0;
    deal d;

    for (d.at = 0; d.at < n && !st; d.at += BLOCK) {
        deal_keys(t, keys + d.at, n - d.at < BLOCK ? n - d.at : BLOCK, &d);
        for (int p = 0; p < t->n_parts && !st; p++)
            if (d.first[p] < d.first[p + 1])
                st = work_part(t, p, &d, w, arg, &moved);
    }
    note_moved(t, moved);
    return st;
}

static fl_status work_all(fl_table *t, const uint64_t *keys, size_t n,
                          const sweeps *w, void *arg)
{
    FL_TRY(check_keys(t, keys, n));
    return work_blocks(t, keys, n, w, arg);
}

static uint64_t key_of(const group *g, int k)
{
    return g->d->keys[g->order[k]];
}

/* The number of key k in the whole batch. */
static size_t number_of(const group *g, int k)
{
    return g->d->at + g->order[k];
}

static uint64_t hash_of(const group *g, int k)
{
    return g->d->hash[g->order[k]];
}

static inline uint32_t *slot_of(const group *g, int k)
{
    const fl_index *x = &g->p->index;

    if (g->seen_now == x->now.buckets && g->seen_moved == x->moved)
        return fl_index_search(g->start[k], key_of(g, k));
    return fl_index_find(x, key_of(g, k), fl_index_place(x, hash_of(g, k)));
}

/* Sweep 2 ends with this: the lines of the first `bytes` bytes of a row. It is
   inlined always: a call of a function that only prefetches has no effect in a
   compiler's eyes and is dropped. */
static inline __attribute__((always_inline)) void
prefetch_row(const group *g, uint32_t ref, uint32_t bytes)
{
    const char *row, *end;

    if (!ref)
        return;
    row = fl_partition_row(g->p, ref);
    end = row + bytes;
    for (row -= (uintptr_t)row % LINE; row < end; row += LINE)
        __builtin_prefetch(row, 1);
}

/* --- pull ---------------------------------------------------------------- */

typedef struct pull_args {
    bool create;
    float *out;
} pull_args;

/* A memcpy of so few bytes would mostly be the call. */
static inline void copy_floats(float *to, const char *from, uint32_t n)
{
    for (; n >= 4; n -= 4, to += 4, from += 4 * sizeof(float))
        memcpy(to, from, 4 * sizeof(float));
    for (; n; n--, to++, from += sizeof(float))
        memcpy(to, from, sizeof(float));
}

static void pull_row(const group *g, int k, float *out)
{
    const fl_acc_ctx *acc = &g->t->acc;
    const char *row = g->ref[k] ? fl_partition_row(g->p, g->ref[k]) : NULL;

    if (row && acc->layout.value)
        copy_floats(out, row + acc->layout.value, acc->config->dim);
    else
        g->t->accessor->pull(acc, key_of(g, k), row,
                             row && fl_ref_is_short(g->ref[k]), out);
}

static fl_status find_pulled(group *g, void *arg)
{
    const pull_args *a = arg;
    const fl_row_layout *l = &g->t->acc.layout;
    uint32_t bytes = l->bytes;

    if (l->value)
        bytes = l->value + g->t->config.dim * (uint32_t)sizeof(float);
    for (int k = 0; k < g->n; k++) {
        const uint32_t *slot = slot_of(g, k);

        g->ref[k] = slot ? *slot : 0;
        if (!slot && a->create)
            FL_TRY(create_row(g->t, g->p, key_of(g, k), hash_of(g, k),
                              &g->ref[k]));
        prefetch_row(g, g->ref[k], bytes);
    }
    return FL_OK;
}

static fl_status copy_pulled(group *g, void *arg)
{
    const pull_args *a = arg;
    uint32_t dim = g->t->config.dim;

    for (int k = 0; k < g->n; k++)
        pull_row(g, k, a->out + number_of(g, k) * dim);
    return FL_OK;
}

fl_status fl_table_pull(fl_table *t, const uint64_t *keys, size_t n,
                        fl_pull_kind kind, float *out)
{
    static const sweeps pull = { find_pulled, copy_pulled };
    pull_args a = { .out = out };

    a.create = kind == FL_PULL_CREATE && t->config.entry.kind == FL_ENTRY_NONE;
    return work_all(t, keys, n, &pull, &a);
}

/* --- entry --------------------------------------------------------------- */

/* What the pushes of one key add. */
typedef struct push_args {
    const fl_table_push_args *a;
    fl_hyper hyper;
    uint32_t epoch;
} push_args;

static float show_of(const fl_table_push_args *a, size_t i)
{
    return a->shows ? a->shows[i] : 1;
}

static float click_of(const fl_table_push_args *a, size_t i)
{
    return a->clicks ? a->clicks[i] : 0;
}

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

static void forget_candidate(fl_partition *p, uint64_t key, uint64_t hash)
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

static fl_status is_admitted(fl_table *t, fl_partition *p, uint64_t key,
                             uint64_t hash, const fl_table_push_args *a,
                             size_t i, bool *yes)
{
    const fl_entry *e = &t->config.entry;
    fl_candidate seen = { show_of(a, i), click_of(a, i) };
    fl_candidate total = { 0 };

    *yes = true;
    if (e->kind == FL_ENTRY_NONE)
        return FL_OK;
    if (e->kind == FL_ENTRY_PROBABILITY) {
        *yes = is_lucky(t, key);
        return FL_OK;
    }
    if (e->kind == FL_ENTRY_COUNT)
        seen = (fl_candidate){ a->counts ? (float)a->counts[i] : 1, 0 };
    FL_TRY(count_candidate(t, p, key, hash, &seen, &total));
    *yes = e->kind == FL_ENTRY_COUNT ? total.show >= e->limit
                                     : score_of(&t->config, &total) >= e->limit;
    if (*yes)
        forget_candidate(p, key, hash);
    return FL_OK;
}

/* --- push ---------------------------------------------------------------- */

/* A short row becomes a full one; its slot learns the new ref. Without memory
   the row stays short and grows at a later push. */
static void grow_row(group *g, int k)
{
    fl_partition *p = g->p;
    uint32_t from = g->ref[k], row, to;

    if (fl_pool_take(&p->pools[0], &row))
        return;
    to = fl_ref_of(row, false);
    memcpy(fl_partition_row(p, to), fl_partition_row(p, from),
           g->t->acc.layout.short_bytes);
    g->t->accessor->grow(&g->t->acc, key_of(g, k), fl_partition_row(p, to));
    *slot_of(g, k) = to;
    fl_pool_give(&p->pools[1], fl_ref_row(from));
    g->ref[k] = to;
}

static fl_status find_or_admit(group *g, int k, const push_args *a)
{
    const uint32_t *slot = slot_of(g, k);
    uint64_t hash = hash_of(g, k);
    bool yes;

    g->ref[k] = slot ? *slot : 0;
    if (slot)
        return FL_OK;
    FL_TRY(is_admitted(g->t, g->p, key_of(g, k), hash, a->a, number_of(g, k),
                       &yes));
    return yes ? create_row(g->t, g->p, key_of(g, k), hash, &g->ref[k]) : FL_OK;
}

static fl_status find_pushed(group *g, void *arg)
{
    const fl_row_layout *l = &g->t->acc.layout;

    for (int k = 0; k < g->n; k++) {
        FL_TRY(find_or_admit(g, k, arg));
        prefetch_row(g, g->ref[k],
                     g->ref[k] && fl_ref_is_short(g->ref[k]) ? l->short_bytes
                                                             : l->bytes);
    }
    return FL_OK;
}

static fl_status apply_pushed(group *g, void *arg)
{
    const push_args *a = arg;
    const fl_acc_ctx *acc = &g->t->acc;

    for (int k = 0; k < g->n; k++) {
        size_t i = number_of(g, k);
        fl_push_item item = { a->a->grads + i * acc->config->dim,
                              show_of(a->a, i), click_of(a->a, i) };
        void *row;

        if (!g->ref[k])
            continue;
        row = fl_partition_row(g->p, g->ref[k]);
        fl_row_set_epoch(row, a->epoch);
        if (g->t->accessor->push(acc, row, fl_ref_is_short(g->ref[k]), &item,
                                 &a->hyper) &&
            fl_ref_is_short(g->ref[k]))
            grow_row(g, k);
    }
    return FL_OK;
}

/* The settings of this step; the rule's scalars go one step on. */
static void take_hyper(fl_table *t, double lr, fl_hyper *out)
{
    fl_lock(&t->mu);
    t->hyper.lr = lr * t->config.lr_scale;
    if (t->acc.rule->prepare)
        t->acc.rule->prepare(&t->hyper);
    *out = t->hyper;
    if (t->acc.rule->advance)
        t->acc.rule->advance(&t->hyper);
    fl_unlock(&t->mu);
}

static fl_status push_merged(fl_table *t, const fl_table_push_args *a)
{
    static const sweeps push = { find_pushed, apply_pushed };
    push_args p = { .a = a, .epoch = fl_table_epoch(t) };

    take_hyper(t, a->lr, &p.hyper);
    return work_all(t, a->keys, a->n, &push, &p);
}

/* Room for a push whose equal keys are added up. */
typedef struct merged {
    uint64_t *keys;
    uint32_t *index, *counts;
    float *grads, *shows, *clicks;
} merged;

static void add_up(const fl_table_push_args *a, uint32_t dim, const merged *m,
                   size_t n_keys)
{
    memset(m->grads, 0, n_keys * dim * sizeof(float));
    memset(m->counts, 0, n_keys * sizeof(*m->counts));
    memset(m->shows, 0, n_keys * sizeof(*m->shows));
    memset(m->clicks, 0, n_keys * sizeof(*m->clicks));
    for (size_t i = 0; i < a->n; i++) {
        uint32_t k = m->index[i];

        for (uint32_t j = 0; j < dim; j++)
            m->grads[(size_t)k * dim + j] += a->grads[i * dim + j];
        m->counts[k] += a->counts ? a->counts[i] : 1;
        m->shows[k] += show_of(a, i);
        m->clicks[k] += click_of(a, i);
    }
}

/* One block of memory for all of it. */
static char *lay_out(merged *m, size_t n, uint32_t dim, size_t *bytes)
{
    char *p;

    if (fl_mul_overflow(n, sizeof(uint64_t) + (5 + (size_t)dim) * 4, bytes))
        return NULL;
    p = fl_try_alloc(*bytes);
    if (!p)
        return NULL;
    m->keys = (uint64_t *)p;
    m->index = (uint32_t *)(m->keys + n);
    m->counts = m->index + n;
    m->shows = (float *)(m->counts + n);
    m->clicks = m->shows + n;
    m->grads = m->clicks + n;
    return p;
}

static fl_status push_unmerged(fl_table *t, const fl_table_push_args *a)
{
    fl_table_push_args b = *a;
    fl_unique u = { 0 };
    merged m;
    size_t bytes;
    char *room = lay_out(&m, a->n, t->config.dim, &bytes);
    fl_status st;

    if (!room)
        FL_FAIL(FL_ERR_NOMEM, "table %s: no memory to merge %zu gradients",
                t->name, a->n);
    st = fl_unique_run(&u, a->keys, a->n, m.keys, m.index, &b.n);
    if (!st) {
        add_up(a, t->config.dim, &m, b.n);
        b.keys = m.keys;
        b.grads = m.grads;
        b.shows = m.shows;
        b.clicks = m.clicks;
        b.counts = m.counts;
        st = push_merged(t, &b);
    }
    fl_unique_release(&u);
    fl_data_free(room, bytes);
    return st;
}

fl_status fl_table_push(fl_table *t, const fl_table_push_args *a)
{
    if (!a->n)
        return FL_OK;
    return a->merged ? push_merged(t, a) : push_unmerged(t, a);
}

/* --- assign, restore, remove, clear -------------------------------------- */

/* The row of key k as a full one, made or grown as needed; NULL by max_rows. */
static fl_status full_row(group *g, int k, void **row)
{
    const uint32_t *slot = slot_of(g, k);

    *row = NULL;
    g->ref[k] = slot ? *slot : 0;
    if (!slot) {
        FL_TRY(add_row(g->t, g->p, key_of(g, k), hash_of(g, k), false,
                       &g->ref[k]));
        forget_candidate(g->p, key_of(g, k), hash_of(g, k));
    } else if (fl_ref_is_short(g->ref[k])) {
        grow_row(g, k);
        if (fl_ref_is_short(g->ref[k]))
            FL_FAIL(FL_ERR_NOMEM, "table %s: no memory for a row", g->t->name);
    }
    if (g->ref[k])
        *row = fl_partition_row(g->p, g->ref[k]);
    return FL_OK;
}

static fl_status assign_group(group *g, void *arg)
{
    const float *values = arg;
    void *row;

    for (int k = 0; k < g->n; k++) {
        FL_TRY(full_row(g, k, &row));
        if (!row)
            continue;
        g->t->accessor->assign(&g->t->acc, key_of(g, k), row,
                               values + number_of(g, k) * g->t->config.dim);
        fl_row_set_epoch(row, fl_table_epoch(g->t));
    }
    return FL_OK;
}

fl_status fl_table_assign(fl_table *t, const uint64_t *keys, size_t n,
                          const float *values)
{
    static const sweeps assign = { NULL, assign_group };

    return work_all(t, keys, n, &assign, (void *)(uintptr_t)values);
}

static fl_status remove_group(group *g, void *arg)
{
    size_t *n_removed = arg;

    for (int k = 0; k < g->n; k++) {
        uint32_t *slot = slot_of(g, k);

        if (slot) {
            fl_partition_drop(g->t, g->p, slot);
            ++*n_removed;
        }
        forget_candidate(g->p, key_of(g, k), hash_of(g, k));
    }
    return FL_OK;
}

void fl_table_remove(fl_table *t, const uint64_t *keys, size_t n,
                     size_t *n_removed)
{
    static const sweeps removal = { NULL, remove_group };
    size_t count = 0;

    /* Nothing in it can fail. */
    FL_ASSERT(work_blocks(t, keys, n, &removal, &count) == FL_OK);
    for (int i = 0; i < t->n_parts && count; i++) {
        fl_lock(&t->parts[i].mu);
        fl_partition_compact(&t->parts[i]);
        fl_unlock(&t->parts[i].mu);
    }
    if (n_removed)
        *n_removed = count;
}

void fl_table_clear(fl_table *t)
{
    for (int i = 0; i < t->n_parts; i++) {
        fl_partition *p = &t->parts[i];

        fl_lock(&p->mu);
        atomic_fetch_sub(&t->n_rows, p->index.len);
        empty_part(p);
        p->refused = 0;
        fl_unlock(&p->mu);
    }
    fl_lock(&t->mu);
    for (int i = 0; i < fl_rule_n_scalars(t->acc.rule); i++)
        t->hyper.scalar[i] = first_scalar(t->acc.rule, t->config.p, i);
    t->days.len = 0;
    fl_unlock(&t->mu);
}

/* Time goes on from the newest row there is. */
static void raise_epoch(fl_table *t, uint32_t epoch)
{
    uint32_t now = atomic_load(&t->epoch);

    while (epoch > now && !atomic_compare_exchange_weak(&t->epoch, &now, epoch))
        ;
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
        fl_partition_drop(t, p, slot);
    *ref = 0;
    forget_candidate(p, key, hash);
    FL_TRY(add_row(t, p, key, hash, is_short, ref));
    if (!*ref)
        FL_FAIL(FL_ERR_INVAL,
                "table %s: key %" PRIu64 " is beyond its %" PRIu64
                " rows (max_rows)",
                t->name, key, t->config.max_rows);
    return FL_OK;
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
    FL_TRY(check_keys(t, &key, 1));
    fl_lock(&p->mu);
    st = restore_ref(t, p, key, is_short, &ref);
    if (!st)
        memcpy(fl_partition_row(p, ref), row, bytes);
    fl_unlock(&p->mu);
    if (!st)
        raise_epoch(t, fl_row_epoch(row));
    return st;
}

/* --- accounting ---------------------------------------------------------- */

void fl_table_stats_get(fl_table *t, fl_table_stats *out)
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
        out->index_bytes += fl_index_bytes(&p->index);
        out->row_bytes +=
            fl_pool_bytes(&p->pools[0]) + fl_pool_bytes(&p->pools[1]);
        out->candidate_bytes +=
            fl_index_bytes(&p->waiting) + fl_pool_bytes(&p->candidates);
        out->slots_moved += p->index.slots_moved;
        fl_unlock(&p->mu);
    }
}
