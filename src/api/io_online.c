/* io_online.c - what a save for prediction may be a delta of.
 *
 * By score, rows say themselves that they are due (delta_score), whoever saved
 * the version before: the log of changes only saves a look at all of them, and
 * knows of keys that went. Without scores the log has to tell. */
#include <string.h>

#include "api/io.h"
#include "base/log.h"

/* The version that counts, and the whole one that it stands on, which may be the
   same. */
typedef struct standing {
    fl_model_version *newest, *whole;
} standing;

static fl_status open_standing(standing *s, const char *dir)
{
    FL_TRY(fl_version_open(&s->newest, dir));
    s->whole = s->newest;
    while (s->whole->manifest.kind == FL_MANIFEST_DELTA) {
        fl_model_version *v = s->whole;

        FL_TRY(fl_version_open_base(&s->whole, v));
        if (v != s->newest)
            fl_version_close(v);
    }
    return FL_OK;
}

static bool same_names(const char *const *a, size_t n_a, const char *const *b,
                       size_t n_b)
{
    bool is_same = n_a == n_b;

    for (size_t i = 0; i < n_a && is_same; i++)
        is_same = !strcmp(a[i], b[i]);
    return is_same;
}

static bool has_program(const fl_model_version *v, const fl_program *p)
{
    char *text = fl_program_print(p), *saved = NULL;
    size_t len = 0;
    bool is_same = !fl_version_read(v, "program.txt", &saved, &len) &&
                   !strcmp(text, saved);

    fl_free(saved);
    fl_free(text);
    return is_same;
}

/* Whether the log of changes reaches back to that version. */
static bool is_logged(const fl_io_call *call, const fl_program *p,
                      const fl_model_version *v)
{
    const char *last = call->ctx->served_as;

    if (!last || strcmp(last, v->id) != 0)
        return false;
    for (const fl_var *x = fl_program_main(p)->first_var; x; x = x->next)
        if ((x->flags & FL_VAR_TABLE) && !fl_io_knows_since(call, x->name, v))
            return false;
    return true;
}

static const char *why_whole(const fl_io_call *call, const fl_io_online *o,
                             const standing *s)
{
    const fl_inference_args *a = o->args;
    const fl_manifest *m = &s->whole->manifest;

    if (m->kind != FL_MANIFEST_INFERENCE)
        return "the version that counts was saved to train on";
    if (!same_names(m->feeds, m->n_feeds, a->feeds, a->n_feeds) ||
        !same_names(m->targets, m->n_targets, a->targets, a->n_targets) ||
        !has_program(s->whole, o->program))
        return "the version that counts computes something else";
    if (!a->by_score && !is_logged(call, o->program, s->newest))
        return "what changed since the version that counts is not known";
    return NULL;
}

fl_model_version *fl_io_online_base(const fl_io_call *call, const char *dir,
                                    const fl_io_online *o, bool *is_known)
{
    standing s = { 0 };
    const char *why = open_standing(&s, dir) ? "there is no version yet"
                                             : why_whole(call, o, &s);

    if (s.whole != s.newest)
        fl_version_close(s.whole);
    if (why) {
        FL_INFO("ckpt", "the save is a whole one: %s", why);
        fl_version_close(s.newest);
        return NULL;
    }
    *is_known = is_logged(call, o->program, s.newest);
    return s.newest;
}
