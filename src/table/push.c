/* push.c - gradients by key: equal keys are added up, keys without a row may
 * get one, and the table's rule updates the rows. */
#include <string.h>

#include "kernel/unique.h"
#include "table/batch.h"
#include "table/entry.h"
#include "table/row.h"

typedef struct push_args {
    const fl_table_push_args *a;
    fl_hyper hyper;
    uint32_t epoch;
} push_args;

static fl_status find_or_admit(fl_group *g, int k, const push_args *a)
{
    const uint32_t *slot = fl_group_slot(g, k);
    uint64_t hash = fl_group_hash(g, k);
    bool yes;

    g->ref[k] = slot ? *slot : 0;
    if (slot)
        return FL_OK;
    FL_TRY(fl_entry_admits(g->t, g->p, fl_group_key(g, k), hash, a->a,
                           fl_group_number(g, k), &yes));
    return yes ? fl_partition_create(g->t, g->p, fl_group_key(g, k), hash,
                                     &g->ref[k])
               : FL_OK;
}

static fl_status find_pushed(fl_group *g, void *arg)
{
    const fl_row_layout *l = &g->t->acc.layout;

    for (int k = 0; k < g->n; k++) {
        FL_TRY(find_or_admit(g, k, arg));
        if (g->ref[k])
            fl_prefetch_row(fl_partition_row(g->p, g->ref[k]), 0,
                            fl_ref_is_short(g->ref[k]) ? l->short_bytes
                                                       : l->bytes);
    }
    return FL_OK;
}

/* A short row may have grown since it was found, when its key comes twice in
   spite of what the caller says. */
static uint32_t ref_now(const fl_group *g, int k)
{
    const uint32_t *slot;

    if (!g->ref[k] || !fl_ref_is_short(g->ref[k]))
        return g->ref[k];
    slot = fl_group_slot(g, k);
    return slot ? *slot : 0;
}

static fl_status apply_pushed(fl_group *g, void *arg)
{
    const push_args *a = arg;
    const fl_acc_ctx *acc = &g->t->acc;

    for (int k = 0; k < g->n; k++) {
        size_t i = fl_group_number(g, k);
        fl_push_item item = { a->a->grads + i * acc->config->dim,
                              fl_push_show(a->a, i), fl_push_click(a->a, i) };
        void *row;

        g->ref[k] = ref_now(g, k);
        if (!g->ref[k])
            continue;
        row = fl_partition_row(g->p, g->ref[k]);
        fl_row_set_epoch(row, a->epoch);
        if (g->t->accessor->push(acc, row, fl_ref_is_short(g->ref[k]), &item,
                                 &a->hyper) &&
            fl_ref_is_short(g->ref[k]))
            fl_group_grow(g, k);
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
    static const fl_sweeps push = { find_pushed, apply_pushed };
    push_args p = { .a = a, .epoch = fl_table_epoch(t) };

    FL_TRY(fl_batch_check(t, a->keys, a->n));
    take_hyper(t, a->lr, &p.hyper);
    return fl_batch_sweep(t, a->keys, a->n, &push, &p);
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
        m->shows[k] += fl_push_show(a, i);
        m->clicks[k] += fl_push_click(a, i);
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

/* A push without keys is a step all the same: the rule's scalars go on, so that
   parts of one table on several servers stay in step. */
fl_status fl_table_push(fl_table *t, const fl_table_push_args *a)
{
    return a->merged || !a->n ? push_merged(t, a) : push_unmerged(t, a);
}
