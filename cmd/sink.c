/* sink.c - the output of a subcommand. */
#include "sink.h"

#include <stdio.h>
#include <string.h>

#include "cmd.h"

/* The first failure is the one to tell; the others follow from it. The sentence
   is kept, since another thread may be the one that tells it. */
static bool done(sink *s, fl_status st)
{
    if (st && !s->why[0])
        snprintf(s->why, sizeof(s->why), "%s%s%s", fl_last_error(),
                 s->option ? ", or name another file with " : "",
                 s->option ? s->option : "");
    return !st;
}

bool sink_open(sink *s, const char *path, const char *option)
{
    bool is_stdout = !path || !strcmp(path, "-");

    *s = (sink){ .option = is_stdout ? NULL : option };
    return done(s,
                fl_file_writer_open(&s->file, is_stdout ? "/dev/fd/1" : path));
}

bool sink_write(sink *s, const char *bytes, size_t len)
{
    return !s->why[0] && done(s, fl_file_writer_add(s->file, bytes, len));
}

bool sink_close(sink *s)
{
    fl_file_writer *file = s->file;

    if (s->why[0]) {
        sink_abandon(s);
        return false;
    }
    s->file = NULL;
    return done(s, fl_file_writer_commit(file));
}

void sink_abandon(sink *s)
{
    fl_file_writer_drop(s->file);
    s->file = NULL;
}

int sink_failed(const sink *s, const char *self)
{
    return cmd_failed(self, "%s", s->why);
}
