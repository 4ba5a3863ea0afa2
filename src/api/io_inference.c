/* io_inference.c - a model for prediction: the program for test, pruned to its
 * targets, and the variables that it names, without any state. */
#include <string.h>

#include "api/io.h"
#include "base/args.h"
#include "ckpt/dense.h"
#include "ckpt/remote.h"
#include "ckpt/table_file.h"
#include "mode/mode.h"
#include "mode/mode_local.h"
#include "serve/inference.h"

#define LAST_SHARD (FL_TABLE_SHARDS - 1)

/* One save. */
typedef struct saving {
    fl_io_call call;
    fl_inference_args args;
    fl_program *program;    /* pruned */
    fl_model_version *base; /* of a delta */
    bool is_known;          /* what changed since then is in the log */
    fl_model_version *version;
    fl_manifest manifest;
    fl_arena arena;
    FL_VEC(fl_table_cut *) cuts; /* of tables, until the version stands */
} saving;

/* --- the program ---------------------------------------------------------- */

/* Its own feeds, in its own memory. */
static void give_feeds(fl_program *pruned, fl_inference_args *a)
{
    size_t n;
    const char **names = fl_inference_feeds(pruned, &n);
    const char **own = fl_arena_alloc(&pruned->arena, (n + 1) * sizeof(*own));

    for (size_t i = 0; i < n; i++)
        own[i] = names[i];
    fl_free(names);
    a->feeds = own;
    a->n_feeds = n;
}

fl_status fl_io_prune(fl_program **out, const fl_program *p,
                      fl_inference_args *a)
{
    fl_names_list targets = { a->targets, a->n_targets };
    fl_program *pruned;
    fl_status st;

    FL_TRY(fl_inference_program(&pruned, p, targets));
    if (!a->feeds)
        give_feeds(pruned, a);
    st = fl_inference_check_feeds(pruned,
                                  (fl_names_list){ a->feeds, a->n_feeds });
    if (st)
        fl_program_free(pruned);
    else
        *out = pruned;
    return st;
}

const char *fl_io_left_out(const fl_conf *conf)
{
    return conf->optimize ? conf->passes : "*";
}

static fl_status save_program(saving *s)
{
    char *text = fl_program_print(s->program);
    fl_status st = fl_version_put(s->version, &s->manifest, "program.txt", text,
                                  strlen(text));

    fl_free(text);
    return st;
}

static void describe(saving *s)
{
    const fl_conf *conf = &s->call.ctx->conf;
    fl_manifest *m = &s->manifest;

    m->step = fl_scope_step(s->call.scope);
    m->mode = s->call.ctx->mode->name;
    m->seed = (uint64_t)conf->seed;
    m->main_version = s->call.program->version;
    m->passes = fl_io_left_out(conf);
    fl_manifest_set_inference(m, s->args.feeds, s->args.n_feeds,
                              s->args.targets, s->args.n_targets);
}

/* --- variables ------------------------------------------------------------ */

static const fl_var *next_persistent(const fl_var *v)
{
    while (v && !(v->flags & FL_VAR_PERSIST))
        v = v->next;
    return v;
}

static size_t count_persistent(const fl_program *p)
{
    size_t n = 0;

    for (const fl_var *v = next_persistent(fl_program_main(p)->first_var); v;
         v = next_persistent(v->next))
        n++;
    return n;
}

static fl_status save_dense(saving *s)
{
    fl_named_tensor *tensors = fl_arena_alloc(
        &s->arena, (count_persistent(s->program) + 1) * sizeof(*tensors));
    size_t n = 0;

    for (const fl_var *v =
             next_persistent(fl_program_main(s->program)->first_var);
         v; v = next_persistent(v->next)) {
        if (v->flags & FL_VAR_TABLE)
            continue;
        tensors[n].name = v->name;
        FL_TRY(fl_scope_get(s->call.scope, v->name, &tensors[n].value));
        n++;
    }
    return fl_dense_save(s->version, &s->manifest, FL_DENSE_FILE, tensors, n);
}

static fl_cut_pick pick_of(const saving *s)
{
    if (!s->args.by_score)
        return FL_PICK_ALL;
    return s->base ? FL_PICK_DELTA : FL_PICK_BASE;
}

static fl_status save_table(saving *s, const char *name)
{
    fl_cut_options o = { .since = s->is_known ? fl_io_epoch(s->base, name) : 0,
                         .watch = s->args.delta,
                         .pick = pick_of(s) };
    fl_table_save_options how = { .last = LAST_SHARD,
                                  .n_threads =
                                      (int)s->call.ctx->conf.num_threads,
                                  .values_only = true };
    fl_table *t;

    FL_TRY(fl_mode_local_find(s->call.ctx->comm, name, &t));
    FL_TRY(fl_table_cut_begin(&how.cut, t, &o));
    fl_vec_push(&s->cuts, how.cut);
    return fl_table_file_write(s->version, &s->manifest, &how);
}

/* Scores are spent by a save that stands, and by no other. */
static void end_cuts(saving *s, bool is_saved)
{
    for (size_t i = 0; i < s->cuts.len; i++) {
        if (is_saved)
            fl_table_cut_spend(s->cuts.data[i]);
        fl_table_cut_end(s->cuts.data[i]);
    }
    fl_vec_release(&s->cuts);
}

static fl_status save_tables(saving *s)
{
    for (const fl_var *v =
             next_persistent(fl_program_main(s->program)->first_var);
         v; v = next_persistent(v->next))
        if (v->flags & FL_VAR_TABLE)
            FL_TRY(save_table(s, v->name));
    return FL_OK;
}

/* --- deltas --------------------------------------------------------------- */

static void find_base(saving *s, const char *dir)
{
    fl_io_online o = { .args = &s->args, .program = s->program };

    if (!s->args.delta)
        return;
    s->base = fl_io_online_base(&s->call, dir, &o, &s->is_known);
    if (!s->base)
        return;
    s->manifest.kind = FL_MANIFEST_DELTA;
    s->manifest.base = s->base->id;
}

/* What changes from now on belongs to the next delta. */
static void note_served(const saving *s)
{
    fl_ctx *c = s->call.ctx;

    if (!s->args.delta)
        return;
    fl_free(c->served_as);
    c->served_as = fl_strdup(s->version->id);
}

/* --- all of it ------------------------------------------------------------ */

static fl_status write_version(saving *s, const char *dir)
{
    fl_version_options o = { .keep =
                                 s->args.keep
                                     ? s->args.keep
                                     : (uint32_t)s->call.ctx->conf.save_keep };

    FL_TRY(fl_io_prune(&s->program, s->call.program, &s->args));
    find_base(s, dir);
    FL_TRY(fl_version_begin(&s->version, dir, &o));
    describe(s);
    FL_TRY(save_program(s));
    FL_TRY(save_dense(s));
    FL_TRY(save_tables(s));
    FL_TRY(fl_version_commit(s->version, &s->manifest));
    note_served(s);
    return FL_OK;
}

/* Where only a command reaches, it is written here first. */
static fl_status save(saving *s, const char *dir)
{
    const fl_conf *conf = &s->call.ctx->conf;
    char *local = NULL;
    fl_status st;

    FL_TRY(fl_remote_place(conf, dir, &local));
    st = write_version(s, local);
    fl_free(local);
    return st ? st : fl_remote_publish(conf, dir);
}

fl_status fl_save_inference_model_with(fl_executor *e, const char *dir,
                                       const fl_inference_args *args)
{
    saving s = { 0 };
    fl_status st;
    fl_err why;

    FL_TRY(FL_ARGS_READ(fl_inference_args, &s.args, args));
    if (e->ctx->job)
        return fl_err_ctx(fl_io_inference_job(e->ctx->job, dir, &s.args),
                          "inference model %s", dir ? dir : "");
    FL_TRY(fl_io_begin(&s.call, "save", e, s.args.program, s.args.scope));
    fl_arena_init(&s.arena, 4096);
    fl_manifest_init(&s.manifest, FL_MANIFEST_INFERENCE);
    st = fl_err_ctx(save(&s, dir), "inference model %s", dir ? dir : "");
    fl_err_save(&why, st);
    end_cuts(&s, !st);
    fl_version_close(s.version);
    fl_version_close(s.base);
    fl_manifest_release(&s.manifest);
    fl_arena_release(&s.arena);
    fl_program_free(s.program);
    return st ? fl_err_restore(&why) : FL_OK;
}
