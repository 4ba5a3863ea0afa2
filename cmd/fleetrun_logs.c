/* fleetrun_logs.c - reading what processes write into their logs. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fleetrun_watch.h"

#define END_LINES 20
#define END_BYTES ((off_t)64 << 10)

void tail_open(tail *t, const char *path)
{
    *t = (tail){ .fd = open(path, O_RDONLY | O_CLOEXEC) };
}

size_t tail_read(tail *t, char *out, size_t cap)
{
    ssize_t n = t->fd < 0 ? 0 : read(t->fd, out, cap);

    return n > 0 ? (size_t)n : 0;
}

void tail_close(tail *t)
{
    if (t->fd >= 0)
        close(t->fd);
    t->fd = -1;
}

/* The last bytes of a file, NUL-terminated and malloc'ed. */
static char *read_end(const char *path, size_t *len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat s;
    char *text = NULL;
    ssize_t n = -1;

    if (fd < 0)
        return NULL;
    if (!fstat(fd, &s)) {
        off_t from = s.st_size > END_BYTES ? s.st_size - END_BYTES : 0;

        text = malloc((size_t)END_BYTES + 1);
        n = text ? pread(fd, text, (size_t)END_BYTES, from) : -1;
    }
    close(fd);
    if (n < 0) {
        free(text);
        return NULL;
    }
    text[n] = '\0';
    *len = (size_t)n;
    return text;
}

static const char *last_lines(const char *text, size_t len)
{
    const char *at = text + len;
    int n = 0;

    /* The newline at the very end begins no line. */
    if (len && at[-1] == '\n')
        at--;
    while (at > text && (at[-1] != '\n' || ++n < END_LINES))
        at--;
    return at;
}

void log_print_end(FILE *to, const char *path, const char *before)
{
    size_t len = 0;
    char *text = read_end(path, &len);

    if (text && len) {
        const char *at = last_lines(text, len);

        while (at < text + len) {
            size_t n = strcspn(at, "\n");

            fprintf(to, "%s%.*s\n", before, (int)n, at);
            at += n + 1;
        }
    } else {
        fprintf(to, "%s(nothing)\n", before);
    }
    free(text);
}
