/* io_table.c - tables of this process, saved and loaded. */
#include "api/io.h"
#include "base/hash.h"
#include "ckpt/state_rows.h"
#include "ckpt/table_file.h"
#include "mode/mode_local.h"

uint32_t fl_io_epoch(const fl_model_version *v, const char *table)
{
    const fl_manifest_table *t = fl_manifest_find_table(&v->manifest, table);

    return t ? t->epoch : 0;
}

bool fl_io_knows_since(const fl_io_call *call, const char *table,
                       const fl_model_version *base)
{
    uint32_t since = fl_io_epoch(base, table), known;
    fl_table *t;

    if (!since || fl_mode_local_find(call->ctx->comm, table, &t))
        return false;
    known = fl_table_watched_since(t);
    return known && known <= since;
}

/* No run is under way, so the cut is the table as it is. */
fl_status fl_io_save_table(const fl_io_call *call, const fl_model_version *v,
                           fl_manifest *m, const fl_io_cut *cut)
{
    fl_cut_options options = { .since = cut->base
                                            ? fl_io_epoch(cut->base, cut->name)
                                            : 0,
                               .watch = cut->watch };
    fl_table_save_options save = { .last = FL_SHARDS - 1,
                                   .n_threads =
                                       (int)call->ctx->conf.num_threads };
    fl_table *t;
    fl_status st;

    FL_TRY(fl_mode_local_find(call->ctx->comm, cut->name, &t));
    FL_TRY(fl_table_cut_begin(&save.cut, t, &options));
    st = fl_table_file_write(v, m, &save);
    fl_table_cut_end(save.cut);
    return st;
}

/* State of rows that trainers had for themselves. */
static bool has_trainers_state(const fl_io_table *t)
{
    return !t->is_fresh_state &&
           fl_state_rows_has(&t->chain[0]->manifest, t->saved, -1);
}

/* Sums are compared by the check, before anything changes. */
static fl_table_load_options load_of(const fl_io_call *call,
                                     const fl_io_table *t)
{
    return (fl_table_load_options){
        .last = FL_SHARDS - 1,
        .n_threads = (int)call->ctx->conf.num_threads,
        .is_verified = true,
        .other_dim = t->is_resized,
        .other_state = t->is_fresh_state || has_trainers_state(t),
    };
}

static fl_status verify(const fl_model_version *v, const char *name)
{
    const fl_manifest_table *t = fl_manifest_find_table(&v->manifest, name);

    for (size_t i = 0; t && i < t->n_files; i++)
        FL_TRY(fl_version_verify_file(v, t->files[i].file));
    return FL_OK;
}

fl_status fl_io_check_table(const fl_io_call *call, const fl_io_table *t)
{
    fl_table_load_options load = load_of(call, t);
    fl_table *to;

    FL_TRY(fl_mode_local_find(call->ctx->comm, t->name, &to));
    for (size_t i = 0; i < t->n_chain; i++) {
        FL_TRY(fl_table_file_check(to, t->chain[i], t->saved, &load));
        FL_TRY(verify(t->chain[i], t->saved));
    }
    return FL_OK;
}

fl_status fl_io_load_table(const fl_io_call *call, const fl_io_table *t)
{
    fl_table_load_options load = load_of(call, t);
    fl_table *to;

    FL_TRY(fl_mode_local_find(call->ctx->comm, t->name, &to));
    fl_table_clear(to);
    for (size_t i = t->n_chain; i-- > 0;)
        FL_TRY(fl_table_file_load(to, t->chain[i], t->saved, &load));
    if (has_trainers_state(t))
        FL_TRY(
            fl_state_rows_load(to, &(fl_state_from){ .version = t->chain[0],
                                                     .table = t->saved,
                                                     .trainer = -1,
                                                     .last = FL_SHARDS - 1 }));
    if (t->watch)
        (void)fl_table_watch(to);
    return FL_OK;
}
