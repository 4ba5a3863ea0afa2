/* io_online.c - what a save for prediction may be a delta of.
 *
 * By score, rows say themselves that they are due (delta_score), whoever saved
 * the version before: the log of changes only saves a look at all of them, and
 * knows of keys that went. Without scores the log has to tell. */
#include <string.h>

#include "api/io.h"
#include "base/log.h"
#include "ckpt/online.h"

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

static fl_model_version *find(const char *dir, const fl_io_online *o,
                              const char **why)
{
    const fl_inference_args *a = o->args;
    char *text = fl_program_print(o->program);
    fl_online is = { .feeds = a->feeds,
                     .n_feeds = a->n_feeds,
                     .targets = a->targets,
                     .n_targets = a->n_targets,
                     .program = text,
                     .program_len = strlen(text) };
    fl_model_version *v = fl_online_base(dir, &is, why);

    fl_free(text);
    return v;
}

fl_model_version *fl_io_online_base(const fl_io_call *call, const char *dir,
                                    const fl_io_online *o, bool *is_known)
{
    const char *why = NULL;
    fl_model_version *v = find(dir, o, &why);

    *is_known = v && is_logged(call, o->program, v);
    if (v && !*is_known && !o->args->by_score) {
        why = "what changed since the version that counts is not known";
        fl_version_close(v);
        v = NULL;
    }
    if (!v)
        FL_INFO("ckpt", "the save is a whole one: %s", why);
    return v;
}
