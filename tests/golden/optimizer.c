/* optimizer.c - the optimizer of a case. */
#include "optimizer.h"
#include "../make.h"

#include <string.h>

static bool exists(const char *kind)
{
    fl_ctx *ctx = make_ctx();
    fl_optimizer *o;
    bool found = !fl_optimizer_new(&o, ctx, kind, NULL);

    fl_ctx_free(ctx);
    return found;
}

/* The longest beginning of the name, cut at underscores, that is a kind. */
static const char *find_kind(pool *p, const char *name)
{
    char *kind = pool_strdup(p, name);
    char *cut;

    if (!strcmp(name, "nesterov"))
        return "momentum";
    while (!exists(kind)) {
        cut = strrchr(kind, '_');
        if (!cut)
            return NULL;
        *cut = '\0';
    }
    return kind;
}

static void add_clip(text *t, const cJSON *hyper, const char *clip)
{
    double norm = json_number(hyper, "clip_norm", 0);

    if (!strcmp(clip, "clip_value"))
        text_addf(t, ", grad_clip=value(%.17g,%.17g)",
                  json_number(hyper, "min", 0), json_number(hyper, "max", 0));
    else if (!strcmp(clip, "clip_norm"))
        text_addf(t, ", grad_clip=norm(%.17g)", norm);
    else
        text_addf(t, ", grad_clip=global_norm(%.17g)", norm);
}

/* Settings that belong to a clip or a regularizer. */
static bool is_taken_apart(const char *key)
{
    static const char *const keys[] = {
        "clip", "clip_norm", "min", "max", "regularizer", "coeff",
    };

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (!strcmp(keys[i], key))
            return true;
    return false;
}

static const char *settings_text(pool *p, const cJSON *hyper)
{
    const char *clip = cJSON_GetStringValue(cJSON_GetObjectItem(hyper, "clip"));
    const char *decay =
        cJSON_GetStringValue(cJSON_GetObjectItem(hyper, "regularizer"));
    text t = { .pool = p };
    const cJSON *item;

    /* Rows without a gradient are updated too, unless the case says no: of
       two values the last one counts. */
    text_addf(&t, "lazy_mode=false");
    cJSON_ArrayForEach(item, hyper)
    {
        const char *key = item->string;

        if (is_taken_apart(key))
            continue;
        if (cJSON_IsBool(item))
            text_addf(&t, ", %s=%s", key,
                      cJSON_IsTrue(item) ? "true" : "false");
        else
            text_addf(&t, ", %s=%.17g", key, item->valuedouble);
    }
    if (clip)
        add_clip(&t, hyper, clip);
    if (decay)
        text_addf(&t, ", regularization=%s(%.17g)", decay,
                  json_number(hyper, "coeff", 0));
    return t.s;
}

bool rule_find(golden_case *c, const char *name, const cJSON *hyper, rule *out)
{
    out->kind = find_kind(&c->pool, name);
    if (!out->kind) {
        case_fail(c, "no optimizer %s", name);
        return false;
    }
    out->settings = settings_text(&c->pool, hyper);
    out->beta1 = json_number(hyper, "beta1", 0.9);
    out->beta2 = json_number(hyper, "beta2", 0.999);
    return true;
}

const char *accumulator_name(pool *p, const char *param, const char *suffix)
{
    return pool_printf(p, "%s_%s_0", param, suffix);
}

double expected_accumulator(const rule *r, const char *suffix,
                            bool started_at_one, double recorded)
{
    if (started_at_one && !strcmp(suffix, "beta1_pow_acc"))
        return recorded * r->beta1;
    if (started_at_one && !strcmp(suffix, "beta2_pow_acc"))
        return recorded * r->beta2;
    return recorded;
}
