/* io_load.c - loading a model into one process.
 *
 * Everything that can be wrong is found first: names, types and shapes, the
 * tables, and every checksum of what will be read. Then values change. */
#include "api/io.h"

#include <string.h>

#include "base/args.h"
#include "base/log.h"
#include "ckpt/array.h"
#include "ckpt/dense.h"
#include "ckpt/remote.h"

/* One load. */
typedef struct loading {
    fl_io_call call;
    fl_load_args args;
    fl_match_set vars, saved;
    fl_match_pairs pairs;
    FL_VEC(fl_model_version *)
    chain; /* the newest first, behind it its bases */
    fl_st_file *dense;
    fl_arena arena;
} loading;

/* --- the versions --------------------------------------------------------- */

/* A delta is loaded behind its base. */
static fl_status open_chain(loading *l, const char *dir)
{
    fl_model_version *v = NULL;

    FL_TRY(fl_version_open(&v, dir));
    fl_vec_push(&l->chain, v);
    while (v->manifest.kind == FL_MANIFEST_DELTA) {
        FL_TRY(fl_version_open_base(&v, v));
        fl_vec_push(&l->chain, v);
    }
    return FL_OK;
}

/* --- what fits ------------------------------------------------------------ */

static const fl_match_item *want_of(const loading *l, const fl_match_pair *p)
{
    return &l->vars.items[p->want];
}

static const fl_match_item *have_of(const loading *l, const fl_match_pair *p)
{
    return &l->saved.items[p->have];
}

static fl_status match(loading *l, fl_io_which which, const char *dir)
{
    const fl_manifest *m = &l->chain.data[0]->manifest;
    const fl_match_options options = {
        .names = l->args.names,
        .n_names = l->args.n_names,
        .renames = l->args.renames,
        .n_renames = l->args.n_renames,
        .resizes = l->args.resizes,
        .n_resizes = l->args.n_resizes,
        .is_fresh_state = l->args.fresh_state,
    };

    l->vars = fl_io_variables(&l->call, which, &l->arena);
    l->saved = fl_match_saved(m, fl_arena_printf(&l->arena, "model %s", dir),
                              &l->arena);
    l->saved = fl_array_set(m, &l->vars, &l->saved, &l->arena);
    return fl_match(&l->vars, &l->saved, &options, &l->pairs);
}

/* --- dense variables ------------------------------------------------------ */

static const fl_st_tensor *tensor_of(const loading *l, const fl_match_pair *p)
{
    return fl_st_find(l->dense, have_of(l, p)->name);
}

static fl_status check_dense(const loading *l, const fl_match_pair *p)
{
    const fl_st_tensor *t = tensor_of(l, p);

    return t ? fl_st_verify(l->dense, t, t->xxh3) : FL_OK;
}

/* The rows of a table, those of its base first. */
static fl_status load_array(const loading *l, const fl_match_pair *p)
{
    const char *name = want_of(l, p)->name;
    fl_array_source from;
    fl_tensor to;

    FL_TRY(fl_scope_get(l->call.scope, name, &to));
    for (size_t i = l->chain.len; i-- > 0;)
        if (fl_array_find(&l->chain.data[i]->manifest, name, &from))
            FL_TRY(fl_array_load(l->chain.data[i], &from, &to));
    return FL_OK;
}

/* What the scope has is written in place, so that views of it stay valid. */
static fl_status load_dense(const loading *l, const fl_match_pair *p)
{
    const fl_match_item *want = want_of(l, p);
    const fl_st_tensor *from = tensor_of(l, p);
    fl_tensor to = { 0 }, meta = { 0 };

    if (!from)
        return load_array(l, p);
    meta.dtype = (fl_dtype)want->type;
    meta.shape = p->is_resized ? want->shape : from->shape;
    if (!fl_scope_find(l->call.scope, want->name, &to) ||
        to.dtype != meta.dtype || !fl_shape_equal(&to.shape, &meta.shape))
        FL_TRY(fl_scope_reserve(l->call.scope, want->name, &meta, &to));
    return fl_dense_load(l->dense, from, &to);
}

/* --- tables --------------------------------------------------------------- */

static fl_io_table table_of(const loading *l, const fl_match_pair *p)
{
    return (fl_io_table){ .name = want_of(l, p)->name,
                          .saved = have_of(l, p)->name,
                          .chain = l->chain.data,
                          .n_chain = l->chain.len,
                          .is_resized = p->is_resized,
                          .is_fresh_state = l->args.fresh_state,
                          .watch = l->args.delta };
}

static fl_status check_table(const loading *l, const fl_match_pair *p)
{
    fl_io_table t = table_of(l, p);

    return fl_io_check_table(&l->call, &t);
}

static fl_status load_table(const loading *l, const fl_match_pair *p)
{
    fl_io_table t = table_of(l, p);

    return fl_io_load_table(&l->call, &t);
}

/* --- all of it ------------------------------------------------------------ */

typedef fl_status (*pair_fn)(const loading *l, const fl_match_pair *p);

static fl_status each_pair(const loading *l, pair_fn dense, pair_fn table)
{
    for (size_t i = 0; i < l->pairs.len; i++) {
        const fl_match_pair *p = &l->pairs.data[i];

        FL_TRY(want_of(l, p)->is_table ? table(l, p) : dense(l, p));
    }
    return FL_OK;
}

/* All of the program was loaded, so it goes on from the step of the save. */
static void take_step(const loading *l, fl_io_which which)
{
    const fl_manifest *m = &l->chain.data[0]->manifest;
    bool is_all = which == FL_IO_ALL && !l->args.n_names;

    if (is_all)
        fl_scope_set_step(l->call.scope, m->step);
    fl_io_note_saved(&l->call, is_all && l->args.delta ? m->id : "");
    FL_INFO("ckpt", "loaded model=%s version=%s step=%llu variables=%zu",
            l->chain.data[0]->dir, m->id, (unsigned long long)m->step,
            l->pairs.len);
}

static fl_status read_version(loading *l, fl_io_which which, const char *dir)
{
    FL_TRY(open_chain(l, dir));
    FL_TRY(match(l, which, dir));
    FL_TRY(fl_version_map(l->chain.data[0], FL_DENSE_FILE, &l->dense));
    FL_TRY(each_pair(l, check_dense, check_table));
    FL_TRY(each_pair(l, load_dense, load_table));
    take_step(l, which);
    return FL_OK;
}

/* What only a command reaches is brought here first. */
static fl_status read_model(loading *l, fl_io_which which, const char *dir)
{
    char *local = NULL;
    fl_status st;

    FL_TRY(fl_remote_fetch(&l->call.ctx->conf, dir, &local));
    st = read_version(l, which, local);
    fl_free(local);
    return st;
}

static fl_status load(fl_executor *e, const char *dir, fl_program *p,
                      fl_io_which which, const fl_load_args *args)
{
    loading l = { 0 };
    fl_status st;

    FL_TRY(FL_ARGS_READ(fl_load_args, &l.args, args));
    if (e->ctx->job)
        return fl_io_load_job(e->ctx->job, dir, which, &l.args);
    FL_TRY(fl_io_begin(&l.call, "load", e, p, l.args.scope));
    fl_arena_init(&l.arena, 4096);
    st = read_model(&l, which, dir);
    fl_st_close(l.dense);
    for (size_t i = 0; i < l.chain.len; i++)
        fl_version_close(l.chain.data[i]);
    fl_vec_release(&l.chain);
    fl_vec_release(&l.pairs);
    fl_arena_release(&l.arena);
    return st;
}

fl_status fl_load_persistables(fl_executor *e, const char *dir, fl_program *p)
{
    return load(e, dir, p, FL_IO_ALL, NULL);
}

fl_status fl_load_params(fl_executor *e, const char *dir, fl_program *p)
{
    return load(e, dir, p, FL_IO_PARAMS, NULL);
}

fl_status fl_load_vars(fl_executor *e, const char *dir, fl_program *p,
                       const fl_load_args *args)
{
    return load(e, dir, p, FL_IO_ALL, args);
}
