/* io_save.c - saving a model of one process. */
#include <string.h>

#include "api/io.h"
#include "base/args.h"
#include "base/log.h"
#include "ckpt/dense.h"
#include "ckpt/remote.h"
#include "ctx/passes.h"
#include "flotilla/words.h"
#include "mode/mode.h"

/* One save. */
typedef struct saving {
    fl_io_call call;
    fl_io_which which;
    fl_match_set vars;
    fl_save_args args;
    bool watch;             /* the next one may be a delta of this one */
    fl_model_version *base; /* of a delta */
    fl_model_version *version;
    fl_manifest manifest;
    fl_arena arena;
} saving;

/* --- which ---------------------------------------------------------------- */

static bool is_named(const saving *s, const char *name)
{
    for (size_t i = 0; i < s->args.n_names; i++)
        if (!strcmp(s->args.names[i], name))
            return true;
    return !s->args.n_names;
}

static bool is_saved(const saving *s, const fl_match_item *v)
{
    return !v->is_passed_over && is_named(s, v->name);
}

static fl_status refuse_name(const saving *s, const char *name)
{
    const char **names = fl_alloc(s->vars.n * sizeof(*names) + 1);
    const char *nearest;

    for (size_t i = 0; i < s->vars.n; i++)
        names[i] = s->vars.items[i].name;
    nearest = fl_nearest_name(name, names, s->vars.n);
    fl_free(names);
    FL_FAIL(FL_ERR_NOTFOUND,
            "cannot save %s: the program has no persistent variable of that "
            "name%s%s",
            name, nearest ? "; the nearest is " : "", nearest ? nearest : "");
}

static fl_status check_names(const saving *s)
{
    for (size_t i = 0; i < s->args.n_names; i++) {
        bool is_there = false;

        for (size_t k = 0; k < s->vars.n; k++)
            is_there |= !strcmp(s->vars.items[k].name, s->args.names[i]);
        if (!is_there)
            return refuse_name(s, s->args.names[i]);
    }
    return FL_OK;
}

/* --- what ----------------------------------------------------------------- */

static fl_status save_text(saving *s, const char *file, const fl_program *p)
{
    char *text = fl_program_print(p);
    fl_status st =
        fl_version_put(s->version, &s->manifest, file, text, strlen(text));

    fl_free(text);
    return st;
}

static fl_status save_programs(saving *s)
{
    const fl_program *startup = fl_ctx_pair(s->call.ctx).startup;

    s->manifest.step = fl_scope_step(s->call.scope);
    s->manifest.mode = s->call.ctx->mode->name;
    s->manifest.seed = (uint64_t)s->call.ctx->conf.seed;
    s->manifest.main_version = s->call.program->version;
    s->manifest.startup_version = startup->version;
    FL_TRY(save_text(s, "program.txt", s->call.program));
    return save_text(s, "startup.txt", startup);
}

static fl_status save_dense(saving *s)
{
    fl_named_tensor *tensors =
        fl_arena_alloc(&s->arena, s->vars.n * sizeof(*tensors) + 1);
    size_t n = 0;

    for (size_t i = 0; i < s->vars.n; i++) {
        const fl_match_item *v = &s->vars.items[i];

        if (v->is_table || !is_saved(s, v))
            continue;
        tensors[n].name = v->name;
        FL_TRY(fl_scope_get(s->call.scope, v->name, &tensors[n].value));
        n++;
    }
    return fl_dense_save(s->version, &s->manifest, FL_DENSE_FILE, tensors, n);
}

static fl_status save_table(saving *s, const char *name)
{
    fl_io_cut cut = { .name = name, .base = s->base, .watch = s->watch };

    return fl_io_save_table(&s->call, s->version, &s->manifest, &cut);
}

static fl_status save_tables(saving *s)
{
    for (size_t i = 0; i < s->vars.n; i++)
        if (s->vars.items[i].is_table && is_saved(s, &s->vars.items[i]))
            FL_TRY(save_table(s, s->vars.items[i].name));
    return FL_OK;
}

/* --- deltas --------------------------------------------------------------- */

/* Why the rows that changed since a version are not known; NULL: they are. */
static const char *unknown_since(const saving *s, const fl_model_version *v)
{
    const char *last = s->call.ctx->saved_as;

    if (!last || strcmp(last, v->id) != 0)
        return "the version that counts is not the last one of this context";
    for (size_t i = 0; i < s->vars.n; i++)
        if (s->vars.items[i].is_table &&
            !fl_io_knows_since(&s->call, s->vars.items[i].name, v))
            return "what changed since the last version is not known";
    return NULL;
}

/* A save is a delta when it was asked for and can be one. */
static void find_base(saving *s, const char *dir)
{
    fl_model_version *v = NULL;
    const char *why = "there is no version yet";

    if (!s->args.delta || s->args.n_names)
        return;
    if (!fl_version_open(&v, dir))
        why = unknown_since(s, v);
    if (why) {
        FL_INFO("ckpt", "the save is a whole one: %s", why);
        fl_version_close(v);
        return;
    }
    s->base = v;
    s->manifest.kind = FL_MANIFEST_DELTA;
    s->manifest.base = v->id;
}

/* --- where it stands ------------------------------------------------------ */

/* How far the passes over data are goes with all of the model alone: values of
   some variables are of no use to a run that goes on. */
static fl_status save_position(saving *s)
{
    char *text = NULL;
    fl_status st;

    if (s->args.n_names || s->which != FL_IO_ALL)
        return FL_OK;
    FL_TRY(fl_passes_print(s->call.ctx->passes, &text));
    st = fl_version_folder(s->version, FL_PASSES_FOLDER);
    if (!st)
        st = fl_version_put(s->version, &s->manifest, FL_PASSES_FILE, text,
                            strlen(text));
    fl_free(text);
    return st;
}

/* --- all of it ------------------------------------------------------------ */

static fl_status write_version(saving *s, const char *dir)
{
    uint32_t keep =
        s->args.keep ? s->args.keep : (uint32_t)s->call.ctx->conf.save_keep;

    FL_TRY(check_names(s));
    s->watch = !s->args.n_names &&
               (s->args.delta || s->call.ctx->conf.save_delta_every_ms);
    find_base(s, dir);
    FL_TRY(fl_version_begin(&s->version, dir, &(fl_version_options){ keep }));
    FL_TRY(save_programs(s));
    FL_TRY(save_dense(s));
    FL_TRY(save_tables(s));
    FL_TRY(save_position(s));
    FL_TRY(fl_version_commit(s->version, &s->manifest));
    if (s->watch)
        fl_io_note_saved(&s->call, s->version->id);
    return FL_OK;
}

/* Where only a command reaches, it is written here first. */
static fl_status write_model(saving *s, const char *dir)
{
    const fl_conf *conf = &s->call.ctx->conf;
    char *local = NULL;
    fl_status st;

    FL_TRY(fl_remote_place(conf, dir, &local));
    st = write_version(s, local);
    fl_free(local);
    return st ? st : fl_remote_publish(conf, dir);
}

static fl_status save(fl_executor *e, const char *dir, fl_program *p,
                      fl_io_which which, const fl_save_args *args)
{
    saving s = { .which = which };
    fl_status st;

    FL_TRY(FL_ARGS_READ(fl_save_args, &s.args, args));
    if (e->ctx->job)
        return fl_io_save_job(e->ctx->job, dir, which, &s.args);
    FL_TRY(fl_io_begin(&s.call, "save", e, p, s.args.scope));
    fl_arena_init(&s.arena, 4096);
    fl_manifest_init(&s.manifest, FL_MANIFEST_FULL);
    s.vars = fl_io_variables(&s.call, which, &s.arena);
    st = write_model(&s, dir);
    fl_version_close(s.version);
    fl_version_close(s.base);
    fl_manifest_release(&s.manifest);
    fl_arena_release(&s.arena);
    return st;
}

fl_status fl_save_persistables(fl_executor *e, const char *dir, fl_program *p)
{
    return save(e, dir, p, FL_IO_ALL, NULL);
}

fl_status fl_save_params(fl_executor *e, const char *dir, fl_program *p)
{
    return save(e, dir, p, FL_IO_PARAMS, NULL);
}

fl_status fl_save_vars(fl_executor *e, const char *dir, fl_program *p,
                       const fl_save_args *args)
{
    return save(e, dir, p, FL_IO_ALL, args);
}
