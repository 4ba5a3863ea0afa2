/* sys.h - the calls by which files are made, named and removed, in one table.
 *
 * What writes files goes through it, so that a test makes each call in turn
 * fail, be short, or end the process. The functions are those of the system in
 * arguments, results and errno.
 */
#ifndef FL_BASE_SYS_H
#define FL_BASE_SYS_H

#include <sys/types.h>

typedef struct fl_sys {
    int (*open)(const char *path, int flags, mode_t mode);
    ssize_t (*write)(int fd, const void *bytes, size_t n);
    ssize_t (*pwrite)(int fd, const void *bytes, size_t n, off_t at);
    int (*fsync)(int fd);
    int (*rename)(const char *from, const char *to);
    int (*mkdir)(const char *path, mode_t mode);
    int (*unlink)(const char *path);
    int (*rmdir)(const char *path);
} fl_sys;

/* The table in use, by any thread. */
const fl_sys *fl_sys_now(void);

/* The system's own, for a table that passes calls on. */
extern const fl_sys fl_sys_own;

/* Test hook: another table from now on, for the whole process; NULL: the
   system's own again. */
void fl_sys_replace(const fl_sys *s);

#endif
