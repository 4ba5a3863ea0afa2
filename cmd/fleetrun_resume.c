/* fleetrun_resume.c - the saved model that a job goes on from.
 *
 * The launcher looks for it once per start, so that all processes take the same
 * version, and nobody else has to read every byte of it.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "flotilla/flotilla.h"
#include "flotilla/io.h"
#include "fleetrun_watch.h"

/* Where processes find it even from another folder. */
static char *full_path(room *r, const char *path)
{
    char folder[PATH_MAX];

    if (path[0] == '/' || !getcwd(folder, sizeof(folder)))
        return room_text(r, "%s", path);
    return room_text(r, "%s/%s", folder, path);
}

/* What the caller has set stays. */
static void set_default(job *j, const char *name, const char *value)
{
    if (!getenv(name))
        env_set(j, name, value);
}

int resume_find(job *j, const char **from)
{
    const char *dir = full_path(j->room, j->o->resume);
    char *path = NULL;
    fl_status st = fl_model_newest(dir, &path);

    if (st && st != FL_ERR_NOTFOUND)
        return run_failed("--resume=%s: %s", j->o->resume, fl_last_error());
    *from = st ? NULL : room_text(j->room, "%s", path);
    fl_text_free(path);
    env_set(j, "FLOTILLA_RESUME", *from ? *from : dir);
    set_default(j, "FLOTILLA_SAVE_DIR", dir);
    set_default(j, "FLOTILLA_SAVE_KEEP", "2");
    return RUN_OK;
}
