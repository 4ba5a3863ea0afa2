/* push.c - gradients by key: equal keys are added up, keys without a row may
 * get one, and the table's rule updates the rows. */
#include "kernel/merge.h"
#include "table/cut_inside.h"
#include "table/entry.h"
#include "table/row.h"
#include "table/there.h"

typedef struct push_args {
    const fl_rows *rows;
    const fl_hyper *hyper;
} push_args;

static inline fl_push_item item_at(const push_args *a, uint32_t dim, size_t i)
{
    return (fl_push_item){ a->rows->values + i * dim, fl_push_show(a->rows, i),
                           fl_push_click(a->rows, i) };
}

static fl_status find_or_admit(fl_group *g, int k, const push_args *a)
{
    const uint32_t *slot = fl_group_slot(g, k);
    uint64_t hash = fl_group_hash(g, k);
    bool yes;

    g->ref[k] = slot ? *slot : 0;
    if (slot)
        return FL_OK;
    FL_TRY(fl_entry_admits(g->t, g->p, hash, a->rows, fl_group_number(g, k),
                           &yes));
    return yes ? fl_partition_create(g->t, g->p, fl_group_key(g, k), hash,
                                     &g->ref[k])
               : FL_OK;
}

/* What others know of a row, at its end, is not looked at. */
static fl_status find_pushed(fl_group *g, void *arg)
{
    const fl_row_layout *l = &g->t->acc.layout;
    const uint32_t bytes = l->known ? l->known : l->bytes;

    for (int k = 0; k < g->n; k++) {
        FL_TRY(find_or_admit(g, k, arg));
        if (g->ref[k])
            fl_prefetch_row(fl_partition_row(g->p, g->ref[k]), 0,
                            fl_ref_is_short(g->ref[k]) ? l->short_bytes
                                                       : bytes);
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
    const uint32_t epoch = fl_table_epoch(g->t);
    const bool watched = g->p->watched;

    if (acc->layout.known)
        FL_TRY(fl_known_reserve(g));
    for (int k = 0; k < g->n; k++) {
        fl_push_item item = item_at(a, acc->config->dim, fl_group_number(g, k));
        void *row;

        g->ref[k] = ref_now(g, k);
        if (!g->ref[k])
            continue;
        if (watched)
            fl_witness_row(g->t, g->p, fl_group_key(g, k), g->ref[k]);
        row = fl_partition_row(g->p, g->ref[k]);
        fl_row_set_epoch(row, epoch);
        if (acc->layout.known)
            fl_known_list(g, k, row);
        if (g->t->accessor->push(acc, row, fl_ref_is_short(g->ref[k]), &item,
                                 a->hyper) &&
            fl_ref_is_short(g->ref[k]))
            fl_group_grow(g, k);
    }
    return FL_OK;
}

static void push_one(const fl_table *t, void *row, size_t number, void *arg)
{
    const push_args *a = arg;
    fl_push_item item = item_at(a, t->config.dim, number);

    fl_row_set_epoch(row, fl_table_epoch(t));
    (void)t->accessor->push(&t->acc, row, false, &item, a->hyper);
}

/* What trainers list and push to servers: whole rows that nothing is noted
   of. */
static bool is_simple(const fl_stretch *s)
{
    const fl_row_layout *l = &s->t->acc.layout;

    return s->d->is_ordered && !l->short_bytes && !l->known &&
           !fl_stretch_is_watched(s);
}

static fl_status push_stretch(const fl_stretch *all, void *arg)
{
    static const fl_sweeps push = { find_pushed, apply_pushed };
    fl_stretch s = *all;

    if (is_simple(&s))
        s.lo = fl_there_use(&s, push_one, arg);
    return fl_sweep(&s, &push, arg);
}

bool fl_table_heeds_counts(const fl_table *t)
{
    const fl_row_layout *l = &t->acc.layout;
    fl_entry_kind kind = t->config.entry.kind;

    for (int i = 0; i < l->n_fields; i++)
        if (l->fields[i].role == FL_FIELD_STATISTIC)
            return true;
    return kind == FL_ENTRY_COUNT || kind == FL_ENTRY_SHOW_CLICK;
}

void fl_table_begin_push(fl_table *t, double lr, fl_hyper *out)
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

fl_status fl_table_push_part(fl_table *t, const fl_rows *rows,
                             const fl_hyper *step)
{
    push_args p = { rows, step };

    return fl_batch_split(t, rows->keys, rows->n, push_stretch, &p);
}

static fl_status push_merged(fl_table *t, const fl_rows *rows)
{
    fl_hyper step;

    FL_TRY(fl_batch_check(t, rows->keys, rows->n));
    fl_table_begin_push(t, rows->lr, &step);
    return fl_table_push_part(t, rows, &step);
}

static fl_status push_unmerged(fl_table *t, const fl_rows *rows)
{
    fl_merger m = { 0 };
    fl_rows all = *rows, merged;
    fl_status st;

    all.dim = t->config.dim;
    all.scale = 1;
    st = fl_merge_rows(&m, &all, 1, &merged);
    if (!st)
        st = push_merged(t, &merged);
    fl_merger_release(&m);
    return fl_err_ctx(st, "table %s", t->name);
}

static fl_status check_dim(const fl_table *t, const fl_rows *rows)
{
    if (rows->dim && rows->dim != t->config.dim)
        FL_FAIL(FL_ERR_INVAL, "table %s has rows of %u, not of %u", t->name,
                t->config.dim, rows->dim);
    return FL_OK;
}

/* A push without keys is a step all the same: the rule's scalars go on, so that
   parts of one table on several servers stay in step. */
fl_status fl_table_push(fl_table *t, const fl_rows *rows)
{
    FL_TRY(check_dim(t, rows));
    return rows->merged || !rows->n ? push_merged(t, rows)
                                    : push_unmerged(t, rows);
}
