/* store_cut.c - what a server holds, as of one moment. */
#include "ps/store/store_cut.h"

#include <string.h>

#include "ps/named.h"
#include "ps/store/store_inside.h"

/* --- the gate ------------------------------------------------------------- */

void fl_store_gate_init(fl_store_gate *g)
{
    fl_mutex_init(&g->mu);
    fl_cond_init(&g->changed);
}

void fl_store_gate_release(fl_store_gate *g)
{
    fl_cond_release(&g->changed);
    fl_mutex_release(&g->mu);
}

void fl_store_gate_enter(fl_store_gate *g)
{
    fl_lock(&g->mu);
    while (g->is_closed)
        fl_cond_wait(&g->changed, &g->mu);
    g->n_inside++;
    fl_unlock(&g->mu);
}

void fl_store_gate_leave(fl_store_gate *g)
{
    fl_lock(&g->mu);
    if (--g->n_inside == 0 && g->is_closed)
        fl_cond_wake_all(&g->changed);
    fl_unlock(&g->mu);
}

void fl_store_gate_close(fl_store_gate *g)
{
    fl_lock(&g->mu);
    g->is_closed = true;
    while (g->n_inside)
        fl_cond_wait(&g->changed, &g->mu);
    fl_unlock(&g->mu);
}

void fl_store_gate_open(fl_store_gate *g)
{
    fl_lock(&g->mu);
    g->is_closed = false;
    fl_cond_wake_all(&g->changed);
    fl_unlock(&g->mu);
}

/* --- the cut -------------------------------------------------------------- */

static fl_status add_value(void *arg, const char *name, const fl_tensor *value)
{
    fl_store_cut *c = arg;
    fl_pack p = { 0 };
    fl_status st = fl_named_pack(&p, name, value);

    if (st)
        fl_pack_release(&p);
    else
        fl_vec_push(&c->values, p);
    return st;
}

static fl_status take(fl_store_cut *c, const fl_store *s,
                      const fl_store_cut_options *o)
{
    const fl_store_schema *w = atomic_load(&s->schema);

    for (size_t i = 0; i < w->blocks.len; i++)
        FL_TRY(fl_dense_each(w->blocks.data[i].dense, add_value, c));
    for (size_t i = 0; i < w->tables.len; i++) {
        fl_cut_options rows = { .watch = o->watch, .pick = o->pick };
        fl_table_cut *cut;

        if (o->since)
            rows.since = o->since->epochs.data[i];
        FL_TRY(fl_table_cut_begin(&cut, w->tables.data[i].table, &rows));
        fl_vec_push(&c->tables, cut);
    }
    return FL_OK;
}

/* Of the tables from that one on. */
static void skip(const fl_store_schema *w, size_t from)
{
    for (size_t i = from; i < w->tables.len; i++) {
        fl_table_cut *cut = NULL;

        if (!fl_table_cut_begin(&cut, w->tables.data[i].table, NULL))
            fl_table_cut_end(cut);
    }
}

void fl_store_cut_skip(fl_store *s)
{
    const fl_store_schema *w = atomic_load(&s->schema);

    if (w)
        skip(w, 0);
}

fl_status fl_store_cut_begin(fl_store_cut **out, fl_store *s,
                             const fl_store_cut_options *options)
{
    const fl_store_schema *w = atomic_load(&s->schema);
    uint64_t began_ns = fl_now_ns();
    fl_store_cut *c;
    fl_status st;

    if (!w)
        FL_FAIL(FL_ERR_INVAL, "nothing was declared yet, so that there is "
                              "nothing to save");
    c = fl_alloc(sizeof(*c));
    fl_store_gate_close(&s->gate);
    st = take(c, s, options);
    fl_store_gate_open(&s->gate);
    c->closed_ns = fl_now_ns() - began_ns;
    if (st) {
        skip(w, c->tables.len);
        fl_store_cut_end(c);
        return st;
    }
    *out = c;
    return FL_OK;
}

void fl_store_cut_end(fl_store_cut *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->values.len; i++)
        fl_pack_release(&c->values.data[i]);
    for (size_t i = 0; i < c->tables.len; i++)
        fl_table_cut_end(c->tables.data[i]);
    fl_vec_release(&c->values);
    fl_vec_release(&c->tables);
    fl_free(c);
}

/* --- deltas --------------------------------------------------------------- */

const char *fl_store_cut_why_whole(const fl_store *s, fl_store_use use,
                                   const char *base)
{
    const fl_store_schema *w = atomic_load(&s->schema);
    const fl_store_chain *c = &s->chains[use];

    if (!*c->id)
        return "nothing was saved yet that a delta could be based on";
    if (strcmp(c->id, base) != 0)
        return "the version that counts is not the last one that was saved or "
               "loaded";
    for (size_t i = 0; w && i < w->tables.len; i++)
        if (!fl_store_chain_knows(c, i, w->tables.data[i].table))
            return "what changed since the last version is not known";
    return NULL;
}

void fl_store_cut_epochs(const fl_store_cut *c, fl_store_epochs *out)
{
    out->len = 0;
    for (size_t i = 0; i < c->tables.len; i++)
        fl_vec_push(out, fl_table_cut_moment(c->tables.data[i])->epoch);
}

fl_store_chain *fl_store_chain_of(fl_store *s, fl_store_use use)
{
    return &s->chains[use];
}

void fl_store_cut_spend(fl_store_cut *c)
{
    for (size_t i = 0; i < c->tables.len; i++)
        fl_table_cut_spend(c->tables.data[i]);
}
