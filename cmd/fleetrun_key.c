/* fleetrun_key.c - the token of a job of one machine.
 *
 * It is drawn anew for every job and lies in a file of this user, whose path is
 * all that the environment of the processes shows. On several machines there is
 * no private way from here to the others: there the caller gives it, by
 * --token_file or in the environment.
 */
#include "fleetrun.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "flotilla/flotilla.h"
#include "flotilla/job.h"

static bool is_set(const char *name)
{
    const char *value = getenv(name);

    return value && *value;
}

int key_take(const run_options *o)
{
    char *path;

    if (!o->token_file)
        return RUN_OK;
    path = realpath(o->token_file, NULL);
    if (!path)
        return run_failed("cannot open %s (--token_file): %s", o->token_file,
                          strerror(errno));
    (void)setenv("FLOTILLA_JOIN_TOKEN_FILE", path, 1);
    free(path);
    return RUN_OK;
}

int key_make(job *j)
{
    const place *at = &j->procs[0].at;
    char *address, *path;

    if (is_set("FLOTILLA_JOIN_TOKEN") || is_set("FLOTILLA_JOIN_TOKEN_FILE"))
        return RUN_OK;
    address = room_text(j->room, "127.0.0.1:%d", at->port);
    if (fl_job_key_make(address, j->name, &path))
        return run_failed("%s", fl_last_error());
    (void)unsetenv("FLOTILLA_JOIN_TOKEN_FILE"); /* it is empty */
    j->key_path = room_text(j->room, "%s", path);
    fl_text_free(path);
    return RUN_OK;
}

void key_drop(job *j)
{
    if (j->key_path)
        (void)unlink(j->key_path);
    j->key_path = NULL;
}
