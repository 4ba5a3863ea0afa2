/* file.c - whole files through plain system calls.
 *
 * A write goes to PATH.tmp-PID-N, is synced, and takes the name at the end;
 * the folder is synced too, so that a file that was reported as written is
 * there after a power cut.
 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/vec.h"

#define FIRST_READ_BYTES ((size_t)4096)

/* Leftovers of dead processes may hold a few temporary names. */
#define TEMP_TRIES 100

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
    case EROFS:
        return "choose a folder that can be written";
    case EMFILE:
    case ENFILE:
        return "raise the limit on open files (ulimit -n)";
    default:
        return "check the disk and the file system";
    }
}

static fl_status fail(const char *what, const char *path, int err)
{
    FL_FAIL(FL_ERR_IO, "cannot %s %s: %s; %s", what, path, strerror(err),
            advice(err));
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
        return fail("read", path, errno);
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
        return fail("open", path, errno);
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

/* Opens a new file beside `path`; its name is left in *temp. The mode is the
   one that any new file of this process would get. */
static int open_temp(fl_str *temp, const char *path)
{
    static atomic_uint serial;
    int fd = -1;

    for (int i = 0; i < TEMP_TRIES; i++) {
        fl_str_release(temp);
        fl_str_addf(temp, "%s.tmp-%ld-%u", path, (long)getpid(),
                    atomic_fetch_add(&serial, 1));
        fd = open(temp->data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            break;
    }
    return fd;
}

/* 0, or errno. */
static int write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t put = write(fd, bytes, len);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return errno;
        bytes += put;
        len -= (size_t)put;
    }
    return 0;
}

/* 0, or errno. A file system that cannot sync folders is no failure. */
static int sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    fl_str folder = { 0 };
    int fd, err = 0;

    if (!slash)
        fl_str_add(&folder, ".");
    else
        fl_str_addf(&folder, "%.*s", (int)(slash - path) + 1, path);
    fd = open(folder.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fl_str_release(&folder);
    if (fd < 0)
        return 0;
    if (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP)
        err = errno;
    close(fd);
    return err;
}

/* A terminal, a pipe or a device: there is nothing to keep whole, and a rename
   would put a file in its place. */
static bool is_special(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

static fl_status write_through(const char *path, const void *bytes, size_t len)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int err;

    if (fd < 0)
        return fail("open", path, errno);
    err = write_all(fd, bytes, len);
    if (close(fd) != 0 && !err)
        err = errno;
    return err ? fail("write", path, err) : FL_OK;
}

static fl_status write_beside(const char *path, const void *bytes, size_t len)
{
    fl_str temp = { 0 };
    fl_status st = FL_OK;
    int fd = open_temp(&temp, path);
    int err;

    if (fd < 0) {
        st = fail("create a file beside", path, errno);
        goto out;
    }
    err = write_all(fd, bytes, len);
    if (!err && fsync(fd) != 0)
        err = errno;
    if (close(fd) != 0 && !err)
        err = errno;
    if (!err && rename(temp.data, path) != 0)
        err = errno;
    if (err)
        unlink(temp.data);
    else
        err = sync_folder(path);
    if (err)
        st = fail("write", path, err);
out:
    fl_str_release(&temp);
    return st;
}

/* A link keeps its place: the file that it leads to is written. */
fl_status fl_file_write(const char *path, const void *bytes, size_t len)
{
    char real[PATH_MAX];

    if (is_special(path))
        return write_through(path, bytes, len);
    return write_beside(realpath(path, real) ? real : path, bytes, len);
}
