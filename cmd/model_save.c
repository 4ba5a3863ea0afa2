/* model_save.c - flotilla model save: a job that is running saves itself. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "model.h"

/* Servers have working directories of their own. */
static int full_path(const model_args *a, char out[PATH_MAX])
{
    const char *dir = a->words[0];
    char here[PATH_MAX];
    int len;

    if (*dir == '/')
        len = snprintf(out, PATH_MAX, "%s", dir);
    else if (!getcwd(here, sizeof(here)))
        return cmd_failed(a->self, "the working directory cannot be read");
    else
        len = snprintf(out, PATH_MAX, "%s/%s", here, dir);
    if (len < 0 || len >= PATH_MAX)
        return cmd_failed(a->self, "the path of %s is too long", dir);
    return CMD_OK;
}

/* A delta that became a whole save is told, beside its name. */
static int save(fl_ctx *c, const model_args *a, const char *path)
{
    fl_job_saved saved = FL_INIT(fl_job_saved);

    if (fl_job_save_at_with(c, a->from, path,
                            FL_OPTIONS(fl_job_save_args, .delta = a->delta),
                            &saved))
        return cmd_failed(a->self, "%s", fl_last_error());
    if (*saved.whole)
        fprintf(stderr, "flotilla %s: the save is a whole one: %s\n", a->self,
                saved.whole);
    printf("%s/%s\n", path, saved.version);
    return CMD_OK;
}

int model_save(const model_args *a)
{
    char path[PATH_MAX];
    int code = full_path(a, path);
    fl_ctx *c;

    if (code)
        return code;
    if (!a->from)
        return cmd_misused(a->self, "save needs --from HOST:PORT, where server "
                                    "0 of the job is");
    c = ps_open(a->self, &a->sets);
    if (!c)
        return CMD_FAILED;
    code = save(c, a, path);
    fl_ctx_free(c);
    return code;
}
