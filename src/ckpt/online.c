/* online.c - what a save for prediction may be a delta of. */
#include "ckpt/online.h"

#include <string.h>

#include "base/alloc.h"

/* The version that counts, and the whole one that it stands on, which may be the
   same. */
typedef struct standing {
    fl_model_version *newest, *whole;
} standing;

static void close_whole(standing *s)
{
    if (s->whole != s->newest)
        fl_version_close(s->whole);
    s->whole = NULL;
}

static fl_status open_standing(standing *s, const char *dir)
{
    fl_model_version *base;

    FL_TRY(fl_version_open(&s->newest, dir));
    s->whole = s->newest;
    while (s->whole->manifest.kind == FL_MANIFEST_DELTA) {
        FL_TRY(fl_version_open_base(&base, s->whole));
        close_whole(s);
        s->whole = base;
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

static bool has_program(const fl_model_version *v, const fl_online *o)
{
    char *saved = NULL;
    size_t len = 0;
    bool is_same = !fl_version_read(v, "program.txt", &saved, &len) &&
                   len == o->program_len && !memcmp(saved, o->program, len);

    fl_free(saved);
    return is_same;
}

static const char *why_not(const fl_model_version *whole, const fl_online *o)
{
    const fl_manifest *m = &whole->manifest;

    if (m->kind != FL_MANIFEST_INFERENCE)
        return "the version that counts was saved to train on";
    if (!same_names(m->feeds, m->n_feeds, o->feeds, o->n_feeds) ||
        !same_names(m->targets, m->n_targets, o->targets, o->n_targets) ||
        !has_program(whole, o))
        return "the version that counts computes something else";
    return NULL;
}

fl_model_version *fl_online_base(const char *dir, const fl_online *o,
                                 const char **why)
{
    standing s = { 0 };

    *why = open_standing(&s, dir) ? "there is no version yet"
                                  : why_not(s.whole, o);
    close_whole(&s);
    if (!*why)
        return s.newest;
    fl_version_close(s.newest);
    return NULL;
}
