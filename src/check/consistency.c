/* consistency.c - the two models opened side by side, and what was found. */
#include "check/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/args.h"
#include "ckpt/version.h"
#include "ops/ops.h"
#include "serve/model.h"

#define FINDING_MAX 2048

/* Names of results, and of what they count. */
static const struct {
    const char *name, *what;
} kinds[FL_CHECKS] = {
    [FL_CHECK_NAMES] = { "names", "names" },
    [FL_CHECK_PROGRAM] = { "program", "operators" },
    [FL_CHECK_PARAMETERS] = { "parameters", "variables" },
    [FL_CHECK_ROWS] = { "rows", "rows" },
    [FL_CHECK_SCORES] = { "scores", "records" },
    [FL_CHECK_PASSES] = { "passes", "records" },
};

/* --- findings ------------------------------------------------------------- */

static void keep_first(fl_finding *f, const char *fmt, va_list ap)
{
    char text[FINDING_MAX];

    if (f->first)
        return;
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    f->first = fl_strdup(text);
}

void fl_finding_tell(fl_finding *f, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    keep_first(f, fmt, ap);
    va_end(ap);
}

void fl_finding_add(fl_finding *f, const char *fmt, ...)
{
    va_list ap;

    f->different++;
    va_start(ap, fmt);
    keep_first(f, fmt, ap);
    va_end(ap);
}

bool fl_consistency_result_at(const fl_consistency *c, size_t i,
                              fl_consistency_result *out)
{
    fl_consistency_result r;
    const fl_finding *f;

    if (i >= FL_CHECKS)
        return false;
    f = &c->findings[i];
    r = (fl_consistency_result){ .size = sizeof(r),
                                 .name = kinds[i].name,
                                 .what = kinds[i].what,
                                 .compared = f->compared,
                                 .different = f->different,
                                 .largest = f->largest,
                                 .first = f->first };
    return FL_ARGS_FILL(fl_consistency_result, out, &r) == FL_OK;
}

bool fl_consistency_holds(const fl_consistency *c)
{
    for (size_t i = 0; i < FL_CHECKS; i++)
        if (c->findings[i].different)
            return false;
    return true;
}

/* --- programs ------------------------------------------------------------- */

fl_names_list fl_check_targets(const fl_edition *e, const char **room)
{
    for (size_t i = 0; i < e->recipe->n_outputs; i++)
        room[i] = e->recipe->outputs[i].name;
    return (fl_names_list){ room, e->recipe->n_outputs };
}

fl_status fl_check_program(const fl_edition *e, fl_program **out)
{
    const char **room =
        fl_alloc((e->recipe->n_outputs + 1) * sizeof(const char *));
    fl_names_list targets = fl_check_targets(e, room);
    fl_program *p;
    fl_status st = fl_program_parse(e->recipe->text, &fl_ops, &p);

    if (!st) {
        st = fl_inference_program(out, p, targets);
        fl_program_free(p);
    }
    if (!st)
        fl_inference_use_tables(*out, e->recipe->tables);
    fl_free(room);
    return st;
}

/* --- opening -------------------------------------------------------------- */

/* What is computed is said by the whole version below a chain of deltas. */
static fl_status find_kind(const char *path, fl_manifest_kind *out)
{
    fl_model_version *v, *base;
    fl_status st;

    FL_TRY(fl_version_open(&v, path));
    while (v->manifest.kind == FL_MANIFEST_DELTA) {
        st = fl_version_open_base(&base, v);
        fl_version_close(v);
        FL_TRY(st);
        v = base;
    }
    *out = v->manifest.kind;
    fl_version_close(v);
    return FL_OK;
}

/* A model that was saved to train on computes what is computed online. */
static fl_status open_trained(fl_consistency *c)
{
    const char **room =
        fl_alloc((c->online->recipe->n_outputs + 1) * sizeof(const char *));
    fl_edition_options o = { .path = c->path, .no_optimize = true };
    fl_manifest_kind kind;
    fl_status st = find_kind(c->path, &kind);

    c->has_training_program = !st && kind != FL_MANIFEST_INFERENCE;
    if (c->has_training_program)
        o.targets = fl_check_targets(c->online, room);
    if (!st)
        st = fl_edition_open(&c->trained, &o, NULL);
    fl_free(room);
    return fl_err_ctx(st, "the trained model %s", c->path);
}

static char *where_text(const fl_row_source *rows)
{
    fl_str s = { 0 };

    fl_str_addf(&s, "online (%s)", rows->ops->name);
    return fl_str_take(&s);
}

static fl_status open_both(fl_consistency *c, fl_model *online)
{
    fl_edition_options o = online->options;
    uint64_t generation;

    c->online = fl_model_edition(online, &generation);
    c->rows = c->online->files ? c->online->files : online->rows;
    c->where = where_text(c->rows);
    o.no_optimize = true;
    FL_TRY(fl_edition_open(&c->plain, &o, NULL));
    return open_trained(c);
}

fl_status fl_consistency_open_with(fl_consistency **out, const char *trained,
                                   fl_model *online,
                                   const fl_consistency_args *args)
{
    fl_consistency_args a;
    fl_consistency *c;
    fl_status st;
    fl_err why;

    FL_TRY(FL_ARGS_READ(fl_consistency_args, &a, args));
    c = fl_alloc(sizeof(*c));
    c->args = a;
    c->path = fl_strdup(trained);
    fl_scope_init(&c->values);
    st = open_both(c, online);
    if (!st) {
        *out = c;
        return FL_OK;
    }
    fl_err_save(&why, st);
    fl_consistency_close(c);
    return fl_err_restore(&why);
}

void fl_consistency_close(fl_consistency *c)
{
    if (!c)
        return;
    fl_trial_release(&c->right);
    fl_trial_release(&c->plain_run);
    fl_scope_release(&c->values);
    fl_edition_unref(c->trained);
    fl_edition_unref(c->online);
    fl_edition_unref(c->plain);
    for (size_t i = 0; i < FL_CHECKS; i++)
        fl_free(c->findings[i].first);
    fl_free(c->where);
    fl_free(c->path);
    fl_free(c);
}

fl_status fl_consistency_compare(fl_consistency *c)
{
    fl_check_names(c);
    FL_TRY(fl_check_programs(c));
    FL_TRY(fl_check_parameters(c));
    return fl_check_rows(c);
}
