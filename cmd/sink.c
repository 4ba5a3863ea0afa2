/* sink.c - an output file that is there whole or not at all. */
#include "sink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd.h"

#define WHY_BYTES 4352 /* a path and a reason */

/* The first failure is the one to tell; the others follow from it. */
static bool fail(sink *s)
{
    if (!s->error)
        s->error = errno ? errno : EIO;
    return false;
}

/* Devices and pipes have no other name to be written under. */
static bool is_no_file(const char *path)
{
    struct stat st;

    return !stat(path, &st) && !S_ISREG(st.st_mode);
}

/* A descriptor of its own: what goes wrong here is told by the sink, and not a
   second time at the end of the tool, where stdout is looked at. */
static FILE *open_stdout(void)
{
    int fd = dup(STDOUT_FILENO);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

    if (!f && fd >= 0)
        close(fd);
    return f;
}

bool sink_open(sink *s, const char *path)
{
    *s = (sink){ .path = path && strcmp(path, "-") ? path : NULL };
    if (!s->path) {
        s->file = open_stdout();
        return s->file || fail(s);
    }
    if (!is_no_file(s->path) && asprintf(&s->part, "%s.part", s->path) < 0) {
        s->part = NULL;
        errno = ENOMEM;
        return fail(s);
    }
    s->file = fopen(s->part ? s->part : s->path, "w");
    if (s->file)
        return true;
    fail(s);
    free(s->part);
    s->part = NULL;
    return false;
}

bool sink_write(sink *s, const char *bytes, size_t len)
{
    if (s->error)
        return false;
    return fwrite(bytes, 1, len, s->file) == len || fail(s);
}

static void let_go(sink *s)
{
    if (s->file && fclose(s->file))
        fail(s);
    s->file = NULL;
}

static void remove_part(sink *s)
{
    if (s->part)
        remove(s->part);
    free(s->part);
    s->part = NULL;
}

bool sink_close(sink *s)
{
    let_go(s);
    if (!s->error && s->part && rename(s->part, s->path))
        fail(s);
    if (s->error) {
        remove_part(s);
        return false;
    }
    free(s->part);
    s->part = NULL;
    return true;
}

void sink_abandon(sink *s)
{
    let_go(s);
    remove_part(s);
}

void sink_why(const sink *s, const char *option, char *text, size_t text_bytes)
{
    if (s->path)
        snprintf(text, text_bytes,
                 "cannot write %s: %s; name another file with %s", s->path,
                 strerror(s->error), option);
    else
        snprintf(text, text_bytes,
                 "cannot write to stdout: %s; check where it goes",
                 strerror(s->error));
}

int sink_failed(const sink *s, const char *self, const char *option)
{
    char why[WHY_BYTES];

    sink_why(s, option, why, sizeof(why));
    return cmd_failed(self, "%s", why);
}
