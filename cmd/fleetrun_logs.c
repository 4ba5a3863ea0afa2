/* fleetrun_logs.c - what processes write, on its way to their logs and out of
 * them.
 *
 *     process --pipe--> launcher --> log --tail--> terminal, for worker 0
 *
 * A log that cannot be written (the disk is full) stops nobody: what does not
 * get there is shown, for worker 0, and dropped for the others.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fleetrun_watch.h"

#define END_LINES 20
#define END_BYTES ((off_t)64 << 10)

int log_open(const proc *p, bool is_again)
{
    int fd = open(p->log_path,
                  O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC |
                      (is_again ? 0 : O_TRUNC),
                  0666);

    if (fd < 0)
        (void)run_failed("cannot write %s: %s; choose another --log_dir",
                         p->log_path, strerror(errno));
    return fd;
}

size_t log_take(const proc *p, char *out, size_t cap)
{
    ssize_t n;

    do
        n = read(p->out, out, cap);
    while (n < 0 && errno == EINTR);
    return n > 0 ? (size_t)n : 0;
}

size_t log_add(const proc *p, const char *bytes, size_t n)
{
    size_t done = 0;

    while (done < n) {
        ssize_t written = write(p->log, bytes + done, n - done);

        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            break;
        done += (size_t)written;
    }
    return done;
}

void log_close(const proc *p)
{
    if (p->out >= 0)
        close(p->out);
    close(p->log);
}

void tail_open(tail *t, const char *path)
{
    struct stat s;

    *t = (tail){ .fd = -1 };
    if (!stat(path, &s) && S_ISREG(s.st_mode))
        t->fd = open(path, O_RDONLY | O_CLOEXEC);
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
