/* fleetrun_note.c - a note by which `flotilla status` finds the job. */
#include "fleetrun.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "flotilla/flotilla.h"
#include "flotilla/job.h"

/* "./ctr_dnn data/". */
static char *program_text(const job *j)
{
    size_t bytes = 1, len = 0;
    char *text;

    for (char **word = j->words; *word; word++)
        bytes += strlen(*word) + 1;
    text = room_take(j->room, bytes);
    for (char **word = j->words; *word; word++)
        len += (size_t)snprintf(text + len, bytes - len, "%s%s", len ? " " : "",
                                *word);
    return text;
}

static fl_status announce(const job *j, const char *address, char **path)
{
    const fl_local_job note =
        FL_INIT(fl_local_job, .name = j->name, .address = address,
                .program = program_text(j), .by = "fleetrun");
    fl_ctx *c;
    fl_status st = fl_ctx_new(&c);

    if (st)
        return st;
    st = fl_job_announce(c, &note, path);
    fl_ctx_free(c);
    return st;
}

/* A job runs without it as well. */
void note_make(job *j)
{
    const place *at = &j->procs[0].at;
    char *path;

    if (announce(j, room_text(j->room, "%s:%d", at->host, at->port), &path)) {
        run_say("%s", fl_last_error());
        return;
    }
    j->job_note_path = room_text(j->room, "%s", path);
    fl_text_free(path);
}

void note_drop(job *j)
{
    if (j->job_note_path)
        (void)unlink(j->job_note_path);
    j->job_note_path = NULL;
}
