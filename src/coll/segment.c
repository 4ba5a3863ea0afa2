/* segment.c - segments: made, found, and bells. */
#include "coll/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "rpc/wire/auth.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* --- life ------------------------------------------------------------------ */

static fl_segment *map(int fd)
{
    void *p = mmap(NULL, sizeof(fl_segment), PROT_READ | PROT_WRITE, MAP_SHARED,
                   fd, 0);

    return p == MAP_FAILED ? NULL : p;
}

static fl_status make(int fd, fl_segment **out)
{
    fl_segment *s;

    if (ftruncate(fd, (off_t)sizeof(fl_segment)) ||
        fcntl(fd, F_ADD_SEALS, SEALS))
        FL_FAIL(FL_ERR_UNSUPPORTED, "no memory that can be shared: %s",
                strerror(errno));
    s = map(fd);
    if (!s)
        FL_FAIL(FL_ERR_UNSUPPORTED, "memory to be shared cannot be mapped: %s",
                strerror(errno));
    *out = s;
    return FL_OK;
}

fl_status fl_segment_new(fl_segment **out, fl_segment_id *id)
{
    int fd = memfd_create("flotilla-coll", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    fl_status st;

    if (fd < 0)
        FL_FAIL(FL_ERR_UNSUPPORTED, "no memory that can be shared: %s",
                strerror(errno));
    st = make(fd, out);
    if (st) {
        (void)close(fd);
        return st;
    }
    *id = (fl_segment_id){ .process = (int32_t)getpid(), .fd = fd };
    for (size_t i = 0; i < FL_LEN(id->key); i++)
        (*out)->key[i] = id->key[i] = fl_auth_random64();
    return FL_OK;
}

static bool is_sealed(int fd)
{
    struct stat is;

    return fcntl(fd, F_GET_SEALS) == SEALS && !fstat(fd, &is) &&
           is.st_size == (off_t)sizeof(fl_segment);
}

fl_segment *fl_segment_open(const fl_segment_id *id)
{
    fl_segment *s = NULL;
    char path[64];
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/%" PRId32 "/fd/%" PRId32,
                   id->process, id->fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    if (is_sealed(fd))
        s = map(fd);
    (void)close(fd);
    if (s && memcmp(s->key, id->key, sizeof(s->key)) != 0) {
        fl_segment_unmap(s);
        return NULL;
    }
    return s;
}

void fl_segment_hide(fl_segment_id *id)
{
    if (id->fd >= 0)
        (void)close(id->fd);
    id->fd = -1;
}

void fl_segment_unmap(fl_segment *s)
{
    if (s)
        (void)munmap(s, sizeof(*s));
}

/* --- machines -------------------------------------------------------------- */

void fl_segment_machine(char out[FL_MACHINE_MAX])
{
    char boot[40] = "", space[40] = "";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (f && fscanf(f, "%39s", boot) != 1)
        boot[0] = '\0';
    if (f)
        (void)fclose(f);
    if (readlink("/proc/self/ns/pid", space, sizeof(space) - 1) < 0)
        boot[0] = '\0';
    out[0] = '\0';
    if (boot[0])
        (void)snprintf(out, FL_MACHINE_MAX, "%s %s %u", boot, space,
                       (unsigned)geteuid());
}

/* --- bells ----------------------------------------------------------------- */

static long futex(_Atomic uint32_t *at, int what, uint32_t value,
                  const struct timespec *t)
{
    return syscall(SYS_futex, at, what, value, t, NULL, 0);
}

void fl_segment_sleep(fl_segment *s, uint32_t value, uint64_t ns)
{
    struct timespec t = { .tv_sec = (time_t)(ns / 1000000000u),
                          .tv_nsec = (long)(ns % 1000000000u) };

    (void)futex(&s->bell, FUTEX_WAIT, value, &t);
}

/* The fence is the other half of that of who falls asleep: one of the two sees
   what the other has written. */
void fl_segment_ring(fl_segment *s)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (!atomic_load_explicit(&s->n_asleep, memory_order_relaxed))
        return;
    atomic_fetch_add(&s->bell, 1);
    (void)futex(&s->bell, FUTEX_WAKE, INT32_MAX, NULL);
}
