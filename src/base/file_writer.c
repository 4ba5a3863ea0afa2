/* file_writer.c - the one way in which a file is written.
 *
 *     PATH  --links-->  target  regular or new: TARGET.tmp-PID-N, then renamed
 *                               anything else: opened and written through
 *                               a descriptor of this process: duplicated
 *
 * Links are followed by hand, since the name that a descriptor has under /proc
 * leads on to a file which must not be replaced under whoever else writes to
 * it, and since a link that dangles says where the new file belongs. The folder
 * is synced too, so that a file that was reported as written is there after a
 * power cut.
 */
#include "base/file_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/sys.h"
#include "base/vec.h"

/* Leftovers of dead processes may hold a few temporary names. */
#define TEMP_TRIES 100

/* As many as the system itself follows. */
#define LINKS_MAX 40

struct fl_file_writer {
    int fd;
    char *name;   /* as the caller named it, for messages */
    char *target; /* what the links lead to */
    char *temp;   /* NULL: written through */
};

/* --- where to ------------------------------------------------------------- */

/* The descriptor that a path stands for; -1: none. */
static int descriptor_of(const char *path)
{
    static const char *const folders[] = { "/dev/fd/", "/proc/self/fd/" };

    for (size_t i = 0; i < FL_LEN(folders); i++) {
        size_t n = strlen(folders[i]);
        char *end;
        long fd;

        if (strncmp(path, folders[i], n) != 0)
            continue;
        fd = strtol(path + n, &end, 10);
        if (end != path + n && !*end && fd >= 0 && fd <= INT_MAX)
            return (int)fd;
    }
    return -1;
}

/* The path that a link at `path` leads to; NULL when it is no link. */
static char *follow_link(const char *path)
{
    char to[PATH_MAX];
    ssize_t n = readlink(path, to, sizeof(to) - 1);
    const char *slash = strrchr(path, '/');
    fl_str full = { 0 };

    if (n < 0)
        return NULL;
    to[n] = '\0';
    if (to[0] != '/' && slash)
        fl_str_addf(&full, "%.*s", (int)(slash - path) + 1, path);
    fl_str_add(&full, to);
    return fl_str_take(&full);
}

/* The end of the chain of links, freed with fl_free. A circle ends somewhere
   within; opening it fails and says why. */
static char *follow_links(const char *path)
{
    char *at = fl_strdup(path);

    for (int i = 0; i < LINKS_MAX && descriptor_of(at) < 0; i++) {
        char *next = follow_link(at);

        if (!next)
            break;
        fl_free(at);
        at = next;
    }
    return at;
}

/* --- opening -------------------------------------------------------------- */

/* Opens a new file beside the target. */
static int open_temp(fl_file_writer *w)
{
    static atomic_uint serial;
    int fd = -1;

    for (int i = 0; i < TEMP_TRIES; i++) {
        fl_str temp = { 0 };

        fl_str_addf(&temp, "%s.tmp-%ld-%u", w->target, (long)getpid(),
                    atomic_fetch_add(&serial, 1));
        fl_free(w->temp);
        w->temp = fl_str_take(&temp);
        fd = fl_sys_now()->open(w->temp,
                                O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            break;
    }
    return fd;
}

/* As far as the system lets us: only root may give a file away. */
static void take_owner_and_mode(int fd, const struct stat *old)
{
    if (fchown(fd, old->st_uid, old->st_gid) != 0)
        (void)fchown(fd, (uid_t)-1, old->st_gid);
    (void)fchmod(fd, old->st_mode & 0777);
}

static fl_status open_beside(fl_file_writer *w, const struct stat *old)
{
    w->fd = open_temp(w);
    if (w->fd < 0)
        return fl_file_failed("write", w->name, errno);
    if (old)
        take_owner_and_mode(w->fd, old);
    return FL_OK;
}

static fl_status open_target(fl_file_writer *w)
{
    int fd = descriptor_of(w->target);
    struct stat st;
    bool is_there = stat(w->target, &st) == 0;

    if (fd < 0 && (!is_there || S_ISREG(st.st_mode)))
        return open_beside(w, is_there ? &st : NULL);
    w->fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0)
                    : open(w->target, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    return w->fd < 0 ? fl_file_failed("open", w->name, errno) : FL_OK;
}

fl_status fl_file_writer_open(fl_file_writer **out, const char *path)
{
    fl_file_writer *w = fl_alloc(sizeof(*w));
    fl_status st;

    w->target = follow_links(path);
    w->name = fl_strdup(descriptor_of(path) == STDOUT_FILENO ? "stdout" : path);
    w->temp = NULL;
    st = open_target(w);
    if (st)
        fl_file_writer_drop(w);
    else
        *out = w;
    return st;
}

/* --- writing -------------------------------------------------------------- */

fl_status fl_file_writer_add(fl_file_writer *w, const void *bytes, size_t n)
{
    int err = fl_file_put(w->fd, bytes, n);

    return err ? fl_file_failed("write", w->name, err) : FL_OK;
}

fl_status fl_file_writer_add_at(const fl_file_writer *w, const void *bytes,
                                size_t n, uint64_t offset)
{
    const char *at = bytes;

    while (n > 0) {
        ssize_t put = fl_sys_now()->pwrite(w->fd, at, n, (off_t)offset);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return fl_file_failed("write", w->name, errno);
        at += put;
        n -= (size_t)put;
        offset += (uint64_t)put;
    }
    return FL_OK;
}

/* --- the end -------------------------------------------------------------- */

static void writer_free(fl_file_writer *w)
{
    if (w->fd >= 0)
        close(w->fd);
    fl_free(w->name);
    fl_free(w->target);
    fl_free(w->temp);
    fl_free(w);
}

void fl_file_writer_drop(fl_file_writer *w)
{
    if (!w)
        return;
    if (w->temp && w->fd >= 0)
        fl_sys_now()->unlink(w->temp);
    writer_free(w);
}

int fl_folder_sync(const char *path)
{
    int fd = fl_sys_now()->open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    int err = 0;

    if (fd < 0)
        return errno == EACCES ? 0 : errno;
    if (fl_sys_now()->fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP)
        err = errno;
    close(fd);
    return err;
}

/* The folder that a file stands in. 0, or errno. */
static int sync_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    fl_str folder = { 0 };
    int err;

    if (!slash)
        fl_str_add(&folder, ".");
    else
        fl_str_addf(&folder, "%.*s", (int)(slash - path) + 1, path);
    err = fl_folder_sync(folder.data);
    fl_str_release(&folder);
    return err;
}

/* 0, or errno. Some network file systems report a full disk here first. */
static int close_file(fl_file_writer *w)
{
    int err = w->temp && fl_sys_now()->fsync(w->fd) != 0 ? errno : 0;

    if (close(w->fd) != 0 && !err)
        err = errno;
    w->fd = -1;
    return err;
}

/* 0, or errno. */
static int take_name(fl_file_writer *w)
{
    int err = close_file(w);

    if (!w->temp)
        return err;
    if (!err && fl_sys_now()->rename(w->temp, w->target) != 0)
        err = errno;
    if (err)
        fl_sys_now()->unlink(w->temp);
    else
        err = sync_folder_of(w->target);
    return err;
}

fl_status fl_file_writer_commit(fl_file_writer *w)
{
    int err = take_name(w);
    fl_status st = err ? fl_file_failed("write", w->name, err) : FL_OK;

    writer_free(w);
    return st;
}
