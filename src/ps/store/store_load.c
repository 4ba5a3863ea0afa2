/* store_load.c - a saved model into what a server holds. */
#include "ps/store/store_inside.h"
#include "ps/store/store_model.h"

static fl_status check_tables(const fl_store_schema *w, const fl_store_model *m)
{
    for (size_t i = 0; i < w->tables.len; i++)
        FL_TRY(fl_store_model_check(m, w->tables.data[i].table,
                                    fl_table_name(w->tables.data[i].table),
                                    w->adds));
    return FL_OK;
}

static fl_status load_tables(const fl_store_schema *w, const fl_store_model *m)
{
    for (size_t i = 0; i < w->tables.len; i++)
        FL_TRY(fl_store_model_load(m, w->tables.data[i].table,
                                   fl_table_name(w->tables.data[i].table),
                                   w->adds));
    return FL_OK;
}

static fl_status fill_blocks(const fl_store_schema *w, const fl_store_model *m)
{
    size_t n = w->blocks.len;
    fl_dense **dense = fl_alloc((n + 1) * sizeof(fl_dense *));
    uint64_t *from_rows = fl_alloc((n + 1) * sizeof(*from_rows));
    fl_status st;

    for (size_t i = 0; i < n; i++) {
        dense[i] = w->blocks.data[i].dense;
        from_rows[i] = w->blocks.data[i].from_row;
    }
    st = fl_store_model_fill(m, &(fl_store_blocks){ dense, from_rows, n });
    fl_free(dense);
    fl_free(from_rows);
    return st;
}

static bool has_tables(const fl_store_schema *w, const fl_store_model *m)
{
    for (size_t i = 0; i < w->tables.len; i++)
        if (!fl_store_model_has(m, w->tables.data[i].table,
                                fl_table_name(w->tables.data[i].table)))
            return false;
    return true;
}

/* Deltas go on with a model whose tables are as they are here; changes are
   logged when deltas are to be made. */
static void begin_chain(fl_store *s, const fl_store_schema *w,
                        const fl_store_model *m)
{
    const fl_model_version *v = fl_store_model_version(m);
    fl_store_epochs epochs = { 0 };

    for (int i = 0; i < FL_STORE_USES; i++)
        fl_store_chain_release(&s->chains[i]);
    if (!s->conf->save_delta_every_ms || !has_tables(w, m))
        return;
    for (size_t i = 0; i < w->tables.len; i++)
        fl_vec_push(&epochs, fl_table_watch(w->tables.data[i].table));
    fl_store_chain_set(&s->chains[FL_STORE_TRAIN], v->dir, v->id, &epochs);
}

fl_status fl_store_load_schema(fl_store *s, const fl_store_schema *w,
                               const fl_store_model *m)
{
    FL_TRY(check_tables(w, m));
    FL_TRY(fill_blocks(w, m));
    FL_TRY(load_tables(w, m));
    begin_chain(s, w, m);
    return FL_OK;
}

static fl_status load(fl_store *s, fl_store_schema *w, const fl_store_model *m)
{
    fl_store_call call = { .type = FL_MSG_LOAD };
    fl_status st;

    FL_TRY(check_tables(w, m));
    (void)fl_store_commit(&call, &s->declared);
    fl_store_gate_close(&s->gate);
    st = fill_blocks(w, m);
    fl_store_gate_open(&s->gate);
    for (size_t i = 0; i < w->tables.len && !st; i++)
        if (fl_store_model_wants(m, fl_table_name(w->tables.data[i].table)))
            fl_table_clear(w->tables.data[i].table);
    if (!st)
        st = load_tables(w, m);
    if (!st)
        begin_chain(s, w, m);
    return st;
}

fl_status fl_store_load(fl_store *s, const fl_model_share *share)
{
    fl_store_schema *w = atomic_load(&s->schema);
    fl_store_model *m;
    fl_status st;

    if (!w)
        FL_FAIL(FL_ERR_INVAL, "nothing was declared yet that a model could be "
                              "loaded into");
    FL_TRY(fl_store_model_open(&m, share));
    st = load(s, w, m);
    fl_store_model_close(m);
    return st;
}
