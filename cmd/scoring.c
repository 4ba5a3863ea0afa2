#include "scoring.h"

#include <stdlib.h>
#include <string.h>

#include "flotilla/saved.h"
#include "flotilla/serving.h"

/* --- targets -------------------------------------------------------------- */

typedef struct targets {
    char *text; /* cut up */
    const char **names;
    size_t n;
} targets;

/* False without memory. */
static bool targets_read(targets *t, const char *text)
{
    char *rest, *name;

    *t = (targets){ 0 };
    if (!text)
        return true;
    t->text = strdup(text);
    t->names = calloc(strlen(text) + 1, sizeof(*t->names));
    rest = t->text;
    while (t->names && (name = strsep(&rest, ",")))
        if (*name)
            t->names[t->n++] = name;
    return t->text && t->names;
}

static void targets_release(targets *t)
{
    free(t->text);
    free(t->names);
}

/* --- the model ------------------------------------------------------------ */

fl_redis_args scoring_redis(const char *address, const char *name)
{
    return FL_INIT(fl_redis_args, .address = address, .name = name,
                   .password = getenv("REDISCLI_AUTH"));
}

/* NULL: the files'. */
static fl_status open_rows(const scoring_args *a, fl_ctx *c,
                           fl_row_source **out)
{
    fl_redis_args redis = scoring_redis(a->redis, a->name);

    if (a->redis)
        return fl_row_source_of_redis_with(out, &redis);
    return a->servers ? fl_row_source_of_servers(out, c, a->servers) : FL_OK;
}

static fl_status open_at(const scoring_args *a, fl_ctx *c, const char *path,
                         const targets *t, fl_model **out)
{
    fl_row_source *rows = NULL;
    fl_status st = open_rows(a, c, &rows);

    if (!st)
        st = fl_model_open(out, path, .targets = t->names, .n_targets = t->n,
                           .watch_ms = a->watch_ms,
                           .no_optimize = a->no_optimize, .rows = rows);
    return st;
}

static fl_status open_with(const scoring_args *a, fl_ctx *c, const targets *t,
                           fl_model **out)
{
    char *path = fl_saved_fetch(c, a->model);
    fl_status st = path ? open_at(a, c, path, t, out) : fl_last_status();

    fl_text_free(path);
    return st;
}

int scoring_open(const scoring_args *a, fl_ctx *c, fl_model **out)
{
    targets t;
    int code = CMD_OK;

    if (a->redis && a->servers)
        return cmd_misused(a->self,
                           "rows come from one place: --redis or --servers");
    if (!targets_read(&t, a->targets))
        code = cmd_failed(a->self, "no memory for the targets");
    else if (open_with(a, c, &t, out))
        code = cmd_failed(a->self, "%s", fl_last_error());
    targets_release(&t);
    return code;
}
