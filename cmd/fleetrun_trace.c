/* fleetrun_trace.c - --trace: what every process of the job did when.
 *
 * Processes write their timelines to a folder when they end; then they are put
 * together. With FILE.json the folder is FILE.json.parts, and stays, as the parts
 * of other machines may be missing still.
 */
#include "fleetrun.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "flotilla/flotilla.h"

#define ENDING ".trace.json"

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && !strcmp(text + n - m, end);
}

/* Of a run before: they would be taken for parts of this one. */
static void remove_old(job *j)
{
    DIR *dir = opendir(j->trace_folder);
    const struct dirent *e;

    while (dir && (e = readdir(dir)))
        if (ends_with(e->d_name, ENDING))
            (void)unlink(
                room_text(j->room, "%s/%s", j->trace_folder, e->d_name));
    if (dir)
        (void)closedir(dir);
}

int trace_prepare(job *j)
{
    const char *given = j->o->trace;
    bool is_file = given && ends_with(given, ".json");
    char *full;

    if (!given)
        return RUN_OK;
    j->trace_folder =
        room_text(j->room, "%s%s", given, is_file ? ".parts" : "");
    j->trace_path =
        room_text(j->room, "%s%s", given, is_file ? "" : "/job.json");
    if (mkdir(j->trace_folder, 0777) && errno != EEXIST)
        return run_failed("cannot make %s (--trace): %s", j->trace_folder,
                          strerror(errno));
    full = realpath(j->trace_folder, NULL);
    if (!full)
        return run_failed("cannot open %s (--trace): %s", j->trace_folder,
                          strerror(errno));
    env_set(j, "FLOTILLA_TRACE", full);
    free(full);
    remove_old(j);
    return RUN_OK;
}

int trace_finish(const job *j)
{
    size_t n;

    if (!j->trace_path)
        return RUN_OK;
    if (fl_trace_merge(j->trace_folder, j->trace_path, &n))
        return run_failed("%s", fl_last_error());
    run_say("%s has the timelines of %zu process%s", j->trace_path, n,
            n == 1 ? "" : "es");
    return RUN_OK;
}
