/* file.c - whole files through plain system calls. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file_writer.h"
#include "base/sys.h"

#define FIRST_READ_BYTES ((size_t)4096)

static const char *advice(int err)
{
    switch (err) {
    case ENOENT:
    case ENOTDIR:
        return "check that the path exists";
    case EACCES:
    case EPERM:
        return "check the permissions of the file and its folder";
    case EISDIR:
        return "name a file, not a folder";
    case ENOSPC:
    case EDQUOT:
        return "free some space";
    case EFBIG:
        return "raise the limit on the size of files (ulimit -f)";
    case EPIPE:
        return "whoever read it has gone; check where it goes";
    case EROFS:
        return "choose a folder that can be written";
    case EMFILE:
    case ENFILE:
        return "raise the limit on open files (ulimit -n)";
    case EAGAIN:
    case ENOMEM:
        return "end other processes, or raise the limits (ulimit -a)";
    default:
        return "check the disk and the file system";
    }
}

fl_status fl_file_failed(const char *what, const char *path, int err)
{
    fl_status st = err == ENOENT ? FL_ERR_NOTFOUND : FL_ERR_IO;

    FL_FAIL(st, "cannot %s %s: %s; %s", what, path, strerror(err), advice(err));
}

/* read(2), again after a signal. */
static ssize_t read_some(int fd, char *buf, size_t n)
{
    ssize_t got;

    do
        got = read(fd, buf, n);
    while (got < 0 && errno == EINTR);
    return got;
}

/* How much to make room for at first. The size of a pipe or of a file in
   /proc is reported as 0, hence it is a guess and not the truth. */
static size_t guess_bytes(int fd, size_t max_bytes)
{
    struct stat st;
    size_t guess = FIRST_READ_BYTES;

    if (fstat(fd, &st) == 0 && st.st_size > 0)
        guess = (size_t)st.st_size;
    return guess < max_bytes ? guess : max_bytes;
}

/* Reads to the end. buf has cap + 1 bytes: the last one takes the NUL, or
   shows that there is more than cap. */
static fl_status read_all(int fd, const char *path, size_t max_bytes,
                          char **buf, size_t *len)
{
    size_t cap = guess_bytes(fd, max_bytes);
    ssize_t got;

    *len = 0;
    *buf = fl_alloc(cap + 1);
    while ((got = read_some(fd, *buf + *len, cap + 1 - *len)) > 0) {
        *len += (size_t)got;
        if (*len <= cap)
            continue;
        if (cap == max_bytes)
            FL_FAIL(FL_ERR_INVAL,
                    "%s is larger than the %zu bytes allowed here; check that "
                    "it is the right file",
                    path, max_bytes);
        cap = cap < max_bytes / 2 ? cap * 2 : max_bytes;
        *buf = fl_realloc(*buf, cap + 1);
    }
    if (got < 0)
        return fl_file_failed("read", path, errno);
    (*buf)[*len] = '\0';
    return FL_OK;
}

fl_status fl_file_read(const char *path, size_t max_bytes, char **text,
                       size_t *len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *buf = NULL;
    size_t n = 0;
    fl_status st;

    if (fd < 0)
        return fl_file_failed("open", path, errno);
    if (max_bytes == SIZE_MAX)
        max_bytes--; /* the NUL needs its place */
    st = read_all(fd, path, max_bytes, &buf, &n);
    close(fd);
    if (st) {
        fl_free(buf);
        return st;
    }
    *text = buf;
    *len = n;
    return FL_OK;
}

int fl_file_put(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;

    while (len > 0) {
        ssize_t put = fl_sys_now()->write(fd, at, len);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return errno;
        at += put;
        len -= (size_t)put;
    }
    return 0;
}

fl_status fl_file_write(const char *path, const void *bytes, size_t len)
{
    fl_file_writer *w = NULL;
    fl_status st;

    FL_TRY(fl_file_writer_open(&w, path));
    st = fl_file_writer_add(w, bytes, len);
    if (!st)
        return fl_file_writer_commit(w);
    fl_file_writer_drop(w);
    return st;
}
