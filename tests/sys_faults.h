/* sys_faults.h - file calls that go wrong (base/sys.h): the n-th call of a
 * process, counted from 1, in one of several ways. */
#ifndef FL_TESTS_SYS_FAULTS_H
#define FL_TESTS_SYS_FAULTS_H

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

#include "base/sys.h"

typedef enum fault_kind {
    FAULT_FAIL,        /* this call, and no other */
    FAULT_FAIL_ALWAYS, /* this one and all behind it: a disk that is full */
    FAULT_SHORT,       /* a write does half of its work */
    FAULT_KILL_BEFORE, /* the process dies instead of the call */
    FAULT_KILL_AFTER,  /* and behind it */
    FAULT_KINDS
} fault_kind;

typedef struct fault_state {
    fault_kind kind;
    int at;
    atomic_int n; /* calls so far */
} fault_state;

/* What is in use; processes may share one. */
static fault_state fault_own;
static fault_state *fault_now = &fault_own;
#define faults (*fault_now)

/* Counts a call; true: it fails. Does not come back from a death before it. */
static inline bool fault_count(bool *dies_after)
{
    int n = atomic_fetch_add(&faults.n, 1) + 1;

    if (n == faults.at && faults.kind == FAULT_KILL_BEFORE)
        raise(SIGKILL);
    *dies_after = n == faults.at && faults.kind == FAULT_KILL_AFTER;
    errno = faults.kind == FAULT_FAIL ? EIO : ENOSPC;
    return (n == faults.at && faults.kind == FAULT_FAIL) ||
           (n >= faults.at && faults.kind == FAULT_FAIL_ALWAYS);
}

#define FAULT_CALL(type, call)                                                 \
    do {                                                                       \
        bool dies_after;                                                       \
        type result;                                                           \
                                                                               \
        if (fault_count(&dies_after))                                          \
            return -1;                                                         \
        result = call;                                                         \
        if (dies_after)                                                        \
            raise(SIGKILL);                                                    \
        return result;                                                         \
    } while (0)

static inline size_t fault_part(size_t n)
{
    bool is_short =
        faults.kind == FAULT_SHORT && atomic_load(&faults.n) + 1 == faults.at;

    return is_short && n > 1 ? n / 2 : n;
}

static inline int fault_open(const char *path, int flags, mode_t mode)
{
    FAULT_CALL(int, fl_sys_own.open(path, flags, mode));
}

static inline ssize_t fault_write(int fd, const void *bytes, size_t n)
{
    n = fault_part(n);
    FAULT_CALL(ssize_t, fl_sys_own.write(fd, bytes, n));
}

static inline ssize_t fault_pwrite(int fd, const void *bytes, size_t n,
                                   off_t at)
{
    n = fault_part(n);
    FAULT_CALL(ssize_t, fl_sys_own.pwrite(fd, bytes, n, at));
}

static inline int fault_fsync(int fd)
{
    FAULT_CALL(int, fl_sys_own.fsync(fd));
}

static inline int fault_rename(const char *from, const char *to)
{
    FAULT_CALL(int, fl_sys_own.rename(from, to));
}

static inline int fault_mkdir(const char *path, mode_t mode)
{
    FAULT_CALL(int, fl_sys_own.mkdir(path, mode));
}

static inline int fault_unlink(const char *path)
{
    FAULT_CALL(int, fl_sys_own.unlink(path));
}

static inline int fault_rmdir(const char *path)
{
    FAULT_CALL(int, fl_sys_own.rmdir(path));
}

static const fl_sys fault_sys = {
    .open = fault_open,
    .write = fault_write,
    .pwrite = fault_pwrite,
    .fsync = fault_fsync,
    .rename = fault_rename,
    .mkdir = fault_mkdir,
    .unlink = fault_unlink,
    .rmdir = fault_rmdir,
};

/* From now on, in this process. */
static inline void faults_begin(fault_kind kind, int at)
{
    faults.kind = kind;
    faults.at = at;
    atomic_store(&faults.n, 0);
    fl_sys_replace(&fault_sys);
}

#endif
